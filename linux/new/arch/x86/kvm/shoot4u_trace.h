/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shoot4U: tracepoints. With them and kvm_entry, kvm_exit a checker can follow which translations
 * each context, a vCPU's tag on a pCPU, may still hold. A VM is named by the process that made it.
 */
#if !defined(_TRACE_KVM_SHOOT4U_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KVM_SHOOT4U_H

#include <linux/tracepoint.h>

#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvm_shoot4u

/* A call was read and is valid. */
TRACE_EVENT(kvm_shoot4u_call,
	TP_PROTO(struct kvm_vcpu *vcpu, u64 call, bool freed,
		 const struct kvm_shoot4u_range *range, u32 nr_targets),
	TP_ARGS(vcpu, call, freed, range, nr_targets),

	TP_STRUCT__entry(
		__field(u64, call)
		__field(u64, start)
		__field(u64, end)
		__field(u32, vm)
		__field(u32, vcpu)
		__field(u32, nr_targets)
		__field(u8, freed)
	),

	TP_fast_assign(
		__entry->call		= call;
		__entry->start		= range->start;
		__entry->end		= range->end;
		__entry->vm		= vcpu->kvm->userspace_pid;
		__entry->vcpu		= vcpu->vcpu_id;
		__entry->nr_targets	= nr_targets;
		__entry->freed		= freed;
	),

	TP_printk("vm %u vcpu %u call %llu freed %u range 0x%llx-0x%llx targets %u",
		  __entry->vm, __entry->vcpu, __entry->call, __entry->freed,
		  __entry->start, __entry->end, __entry->nr_targets)
);

/* What was decided for one target. */
TRACE_EVENT(kvm_shoot4u_target,
	TP_PROTO(struct kvm_vcpu *target, u64 call, int pcpu, u8 action),
	TP_ARGS(target, call, pcpu, action),

	TP_STRUCT__entry(
		__field(u64, call)
		__field(u32, vm)
		__field(u32, vcpu)
		__field(int, pcpu)
		__field(u8, action)
	),

	TP_fast_assign(
		__entry->call	= call;
		__entry->vm	= target->kvm->userspace_pid;
		__entry->vcpu	= target->vcpu_id;
		__entry->pcpu	= pcpu;
		__entry->action	= action;
	),

	TP_printk("vm %u vcpu %u call %llu pcpu %d action %s",
		  __entry->vm, __entry->vcpu, __entry->call, __entry->pcpu,
		  __print_symbolic(__entry->action,
				   { 2, "request-kick" }, { 3, "request" }, { 4, "left" },
				   { 5, "never-ran" }, { 6, "self" }))
);

/* A context was invalidated, by the instruction that the event follows. */
TRACE_EVENT(kvm_shoot4u_invalidate,
	TP_PROTO(struct kvm_vcpu *vcpu, u32 tag, int pcpu, u64 start, u64 end),
	TP_ARGS(vcpu, tag, pcpu, start, end),

	TP_STRUCT__entry(
		__field(u64, start)
		__field(u64, end)
		__field(u32, vm)
		__field(u32, vcpu)
		__field(u32, tag)
		__field(int, pcpu)
	),

	TP_fast_assign(
		__entry->start	= start;
		__entry->end	= end;
		__entry->vm	= vcpu->kvm->userspace_pid;
		__entry->vcpu	= vcpu->vcpu_id;
		__entry->tag	= tag;
		__entry->pcpu	= pcpu;
	),

	TP_printk("vm %u vcpu %u tag %u pcpu %d range 0x%llx-0x%llx",
		  __entry->vm, __entry->vcpu, __entry->tag, __entry->pcpu,
		  __entry->start, __entry->end)
);

/* The call returns to its guest. */
TRACE_EVENT(kvm_shoot4u_done,
	TP_PROTO(struct kvm_vcpu *vcpu, u64 call, u32 left, u32 ipis),
	TP_ARGS(vcpu, call, left, ipis),

	TP_STRUCT__entry(
		__field(u64, call)
		__field(u32, vm)
		__field(u32, vcpu)
		__field(u32, left)
		__field(u32, ipis)
	),

	TP_fast_assign(
		__entry->call	= call;
		__entry->vm	= vcpu->kvm->userspace_pid;
		__entry->vcpu	= vcpu->vcpu_id;
		__entry->left	= left;
		__entry->ipis	= ipis;
	),

	TP_printk("vm %u vcpu %u call %llu left %u ipis %u",
		  __entry->vm, __entry->vcpu, __entry->call, __entry->left, __entry->ipis)
);

/*
 * One of KVM's own flushes, in the thread of the vCPU, with the tag that it has from then on. Those
 * of kind "vmrun" are done by the VMRUN that follows, for this tag or for all.
 */
TRACE_EVENT(kvm_shoot4u_flush,
	TP_PROTO(struct kvm_vcpu *vcpu, u32 tag, int pcpu, u8 kind),
	TP_ARGS(vcpu, tag, pcpu, kind),

	TP_STRUCT__entry(
		__field(u32, vm)
		__field(u32, vcpu)
		__field(u32, tag)
		__field(int, pcpu)
		__field(u8, kind)
	),

	TP_fast_assign(
		__entry->vm	= vcpu->kvm->userspace_pid;
		__entry->vcpu	= vcpu->vcpu_id;
		__entry->tag	= tag;
		__entry->pcpu	= pcpu;
		__entry->kind	= kind;
	),

	TP_printk("vm %u vcpu %u tag %u pcpu %d kind %s",
		  __entry->vm, __entry->vcpu, __entry->tag, __entry->pcpu,
		  __print_symbolic(__entry->kind, { 1, "all" }, { 4, "new-asid" }, { 5, "vmrun" }))
);

#endif /* _TRACE_KVM_SHOOT4U_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH ../../arch/x86/kvm
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE shoot4u_trace

/* This part must be outside protection */
#include <trace/define_trace.h>
