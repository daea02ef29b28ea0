/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paratick: tracepoints. A VM is named by the process that made it.
 */
#if !defined(_TRACE_KVM_PARATICK_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_KVM_PARATICK_H

#include <linux/tracepoint.h>

#undef TRACE_SYSTEM
#define TRACE_SYSTEM kvm_paratick

/* A vCPU declared what it wants; no period: nothing. */
TRACE_EVENT(kvm_paratick_declare,
	TP_PROTO(struct kvm_vcpu *vcpu, u32 period, u8 vector, bool refused),
	TP_ARGS(vcpu, period, vector, refused),

	TP_STRUCT__entry(
		__field(u32, vm)
		__field(u32, vcpu)
		__field(u32, period)
		__field(u8, vector)
		__field(u8, refused)
	),

	TP_fast_assign(
		__entry->vm		= vcpu->kvm->userspace_pid;
		__entry->vcpu		= vcpu->vcpu_id;
		__entry->period		= period;
		__entry->vector		= vector;
		__entry->refused	= refused;
	),

	TP_printk("vm %u vcpu %u period %u vector 0x%x refused %u",
		  __entry->vm, __entry->vcpu, __entry->period, __entry->vector, __entry->refused)
);

/* A tick was due before an entry, so many nanoseconds ago. */
TRACE_EVENT(kvm_paratick_tick,
	TP_PROTO(struct kvm_vcpu *vcpu, u64 late, u8 how),
	TP_ARGS(vcpu, late, how),

	TP_STRUCT__entry(
		__field(u64, late)
		__field(u32, vm)
		__field(u32, vcpu)
		__field(u8, how)
	),

	TP_fast_assign(
		__entry->late		= late;
		__entry->vm		= vcpu->kvm->userspace_pid;
		__entry->vcpu		= vcpu->vcpu_id;
		__entry->how		= how;
	),

	TP_printk("vm %u vcpu %u late %llu how=%s", __entry->vm, __entry->vcpu, __entry->late,
		  __print_symbolic(__entry->how, { 1, "injected" }, { 2, "taken" },
				   { 3, "suppressed" }))
);

/* A timer of the host interrupts the guest at this time, because its tick would come too late. */
TRACE_EVENT(kvm_paratick_fill,
	TP_PROTO(struct kvm_vcpu *vcpu, u64 at),
	TP_ARGS(vcpu, at),

	TP_STRUCT__entry(
		__field(u64, at)
		__field(u32, vm)
		__field(u32, vcpu)
	),

	TP_fast_assign(
		__entry->at		= at;
		__entry->vm		= vcpu->kvm->userspace_pid;
		__entry->vcpu		= vcpu->vcpu_id;
	),

	TP_printk("vm %u vcpu %u at %llu", __entry->vm, __entry->vcpu, __entry->at)
);

#endif /* _TRACE_KVM_PARATICK_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH ../../arch/x86/kvm
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE paratick_trace

/* This part must be outside protection */
#include <trace/define_trace.h>
