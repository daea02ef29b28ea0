/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shoot4U: faults that can be planted, for the checkers to find. Not for upstream.
 */
#ifndef __KVM_X86_SHOOT4U_FAULT_H
#define __KVM_X86_SHOOT4U_FAULT_H

#include <linux/kvm_host.h>

enum kvm_shoot4u_fault {
	KVM_SHOOT4U_FAULT_NONE,
	KVM_SHOOT4U_FAULT_SKIP_PCPU,
	KVM_SHOOT4U_FAULT_SKIP_MIGRATED,
	KVM_SHOOT4U_FAULT_WRONG_VPID,
	KVM_SHOOT4U_FAULT_DROP_REQUEST,
	KVM_SHOOT4U_FAULT_SHORT_RANGE,
	KVM_SHOOT4U_FAULT_IGNORE_EMULATION,
	KVM_SHOOT4U_FAULT_ALWAYS_REVOKED,
	/* Nothing is invalidated where single pages are to go, or a whole context. */
	KVM_SHOOT4U_FAULT_NO_ADDRESS,
	KVM_SHOOT4U_FAULT_NO_CONTEXT,
	/* No faults but waits: a vCPU stands there for as long as its wait is planted. */
	KVM_SHOOT4U_WAIT_EXIT,		/* left the guest by a page fault, to be emulated */
	KVM_SHOOT4U_WAIT_FLAGGED,	/* the flag is up, nothing translated */
	KVM_SHOOT4U_WAIT_DECODE,	/* KVM has the bytes of the instruction */
};

#ifdef CONFIG_KVM_SHOOT4U_FAULTS
extern int kvm_shoot4u_planted;
static inline bool kvm_shoot4u_has(enum kvm_shoot4u_fault fault)
{
	return READ_ONCE(kvm_shoot4u_planted) == fault;
}

void __kvm_shoot4u_wait(enum kvm_shoot4u_fault wait);
#else
static inline bool kvm_shoot4u_has(enum kvm_shoot4u_fault fault)
{
	return false;
}

static inline void __kvm_shoot4u_wait(enum kvm_shoot4u_fault wait) { }
#endif

/* In the thread of a vCPU that may sleep. */
static inline void kvm_shoot4u_wait(enum kvm_shoot4u_fault wait)
{
	if (kvm_shoot4u_has(wait))
		__kvm_shoot4u_wait(wait);
}

/* Whether KVM leaves out a flush that it has to do, as of a vCPU that was loaded elsewhere. */
static inline bool kvm_shoot4u_skips_flush(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.last_vmentry_cpu != -1 &&
	       kvm_shoot4u_has(KVM_SHOOT4U_FAULT_SKIP_MIGRATED);
}

#endif /* __KVM_X86_SHOOT4U_FAULT_H */
