/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shoot4U: what the host keeps for each vCPU and each VM.
 */
#ifndef _ASM_X86_KVM_SHOOT4U_H
#define _ASM_X86_KVM_SHOOT4U_H

#include <linux/atomic.h>
#include <linux/spinlock_types.h>
#include <linux/types.h>

/* Ranges that wait for one vCPU; one more and its whole context goes. */
#define KVM_SHOOT4U_QUEUE	16

/* What one invalidation covers: pages of 4 KiB. */
struct kvm_shoot4u_range {
	u64 start;
	u64 end;	/* KVM_SHOOT4U_WHOLE: the vCPU's whole context */
};

/**
 * struct kvm_shoot4u_vcpu - state of one vCPU
 * @lock: guards the queue; taken by initiators, on the fast path with interrupts off, and by the
 *	vCPU itself; never in an interrupt
 * @queued: valid entries of @queue
 * @whole: the queue ran over, or a whole invalidation was asked for
 * @queue: ranges to invalidate before the next entry
 * @revoked: counts the calls that named this vCPU
 * @revoked_at_entry: @revoked when the vCPU last entered the guest
 * @translating: KVM may hold a guest-physical address that it translated for this vCPU
 */
struct kvm_shoot4u_vcpu {
	raw_spinlock_t lock;
	u32 queued;
	bool whole;
	struct kvm_shoot4u_range queue[KVM_SHOOT4U_QUEUE];
	atomic_t revoked;
	int revoked_at_entry;
	int translating;
};

/**
 * struct kvm_shoot4u_vm - state of one VM
 * @calls: numbers the calls, for the trace
 */
struct kvm_shoot4u_vm {
	atomic64_t calls;
};

#endif /* _ASM_X86_KVM_SHOOT4U_H */
