/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Debooster: what the scheduler made of a directed yield.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvm_debooster

#if !defined(_TRACE_KVM_DEBOOSTER_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KVM_DEBOOSTER_H

#include <linux/sched.h>
#include <linux/tracepoint.h>

/*
 * @debt: time by which the target was ahead of its queue, on the level of groups where that was
 * most; 0: it was eligible on all.
 */
TRACE_EVENT(kvm_debooster_yield,
	TP_PROTO(struct task_struct *me, struct task_struct *target, int cpu, u64 debt,
		 bool agreed),
	TP_ARGS(me, target, cpu, debt, agreed),

	TP_STRUCT__entry(
		__field(u64, debt)
		__field(pid_t, me)
		__field(pid_t, target)
		__field(int, cpu)
		__field(u8, agreed)
	),

	TP_fast_assign(
		__entry->debt	= debt;
		__entry->me	= me->pid;
		__entry->target	= target->pid;
		__entry->cpu	= cpu;
		__entry->agreed	= agreed;
	),

	TP_printk("pid %d to pid %d on cpu %d debt %llu agreed %u", __entry->me, __entry->target,
		  __entry->cpu, __entry->debt, __entry->agreed)
);

/* On one level of groups a CPU picks an entity that a yield has named, and that is not eligible. */
TRACE_EVENT(kvm_debooster_early,
	TP_PROTO(int cpu),
	TP_ARGS(cpu),

	TP_STRUCT__entry(__field(int, cpu)),

	TP_fast_assign(__entry->cpu = cpu;),

	TP_printk("on cpu %d", __entry->cpu)
);

/* A target of a directed yield is put on another CPU, in exchange for @other unless it is 0. */
TRACE_EVENT(kvm_debooster_apart,
	TP_PROTO(struct task_struct *target, struct task_struct *other, int from, int to),
	TP_ARGS(target, other, from, to),

	TP_STRUCT__entry(
		__field(pid_t, target)
		__field(pid_t, other)
		__field(int, from)
		__field(int, to)
	),

	TP_fast_assign(
		__entry->target	= target->pid;
		__entry->other	= other ? other->pid : 0;
		__entry->from	= from;
		__entry->to	= to;
	),

	TP_printk("pid %d from cpu %d for pid %d from cpu %d", __entry->target, __entry->from,
		  __entry->other, __entry->to)
);

#endif /* _TRACE_KVM_DEBOOSTER_H */

/* This part must be outside protection. */
#include <trace/define_trace.h>
