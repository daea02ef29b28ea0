/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Strict Boost: tracepoints. That a vCPU spun, which others were passed over and why, which one was
 * chosen, and what the scheduler answered. A VM is named by the process that made it.
 */
#if !defined(_TRACE_KVM_STRICT_BOOST_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KVM_STRICT_BOOST_H

#include <linux/tracepoint.h>

#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvm_strict_boost

/* A vCPU spins, and KVM looks for one to run. */
TRACE_EVENT(kvm_strict_boost_look,
	TP_PROTO(struct kvm_vcpu *vcpu, unsigned long rip, bool kernel),
	TP_ARGS(vcpu, rip, kernel),

	TP_STRUCT__entry(
		__field(unsigned long, rip)
		__field(u32, vm)
		__field(u32, vcpu)
		__field(u8, kernel)
	),

	TP_fast_assign(
		__entry->rip		= rip;
		__entry->vm		= vcpu->kvm->userspace_pid;
		__entry->vcpu		= vcpu->vcpu_id;
		__entry->kernel		= kernel;
	),

	TP_printk("vm %u vcpu %u rip 0x%lx kernel %u", __entry->vm, __entry->vcpu,
		  __entry->rip, __entry->kernel)
);

/* One that could have been boosted, and whether it is a candidate. */
TRACE_EVENT(kvm_strict_boost_judged,
	TP_PROTO(struct kvm_vcpu *me, struct kvm_vcpu *vcpu, u8 cause, u8 verdict),
	TP_ARGS(me, vcpu, cause, verdict),

	TP_STRUCT__entry(
		__field(u32, vm)
		__field(u32, me)
		__field(u32, vcpu)
		__field(u8, cause)
		__field(u8, verdict)
	),

	TP_fast_assign(
		__entry->vm		= me->kvm->userspace_pid;
		__entry->me		= me->vcpu_id;
		__entry->vcpu		= vcpu->vcpu_id;
		__entry->cause		= cause;
		__entry->verdict	= verdict;
	),

	TP_printk("vm %u for %u vcpu %u cause %s verdict %s", __entry->vm, __entry->me,
		  __entry->vcpu,
		  __print_symbolic(__entry->cause, { 0, "lock" }, { 1, "pending" }),
		  __print_symbolic(__entry->verdict, { 0, "chosen" }, { 1, "blocked" },
				   { 2, "user" }, { 3, "woken" }, { 4, "spins" },
				   { 5, "no-receiver" }))
);

/* The scheduler was asked for a vCPU; recorded when the spinner runs again. */
TRACE_EVENT(kvm_strict_boost_answer,
	TP_PROTO(struct kvm_vcpu *me, struct kvm_vcpu *vcpu, u8 cause, int answer),
	TP_ARGS(me, vcpu, cause, answer),

	TP_STRUCT__entry(
		__field(u32, vm)
		__field(u32, me)
		__field(u32, vcpu)
		__field(int, answer)
		__field(u8, cause)
	),

	TP_fast_assign(
		__entry->vm		= me->kvm->userspace_pid;
		__entry->me		= me->vcpu_id;
		__entry->vcpu		= vcpu->vcpu_id;
		__entry->answer		= answer;
		__entry->cause		= cause;
	),

	TP_printk("vm %u for %u vcpu %u cause %s answer %d", __entry->vm, __entry->me,
		  __entry->vcpu,
		  __print_symbolic(__entry->cause, { 0, "lock" }, { 1, "pending" }),
		  __entry->answer)
);

#endif /* _TRACE_KVM_STRICT_BOOST_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH ../../arch/x86/kvm
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE strict_boost_trace

/* This part must be outside protection. */
#include <trace/define_trace.h>
