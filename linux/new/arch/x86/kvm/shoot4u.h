/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shoot4U: what KVM calls. With the symbol off each is nothing.
 */
#ifndef __KVM_X86_SHOOT4U_H
#define __KVM_X86_SHOOT4U_H

#include <linux/kvm_host.h>
#include <asm/kvm_shoot4u.h>
#include <uapi/asm/kvm_shoot4u.h>
#include <uapi/linux/kvm_para.h>

#include "kvm_cache_regs.h"

/* Which of KVM's own flushes happens. Part of the trace: the numbers stay. */
enum kvm_shoot4u_flush {
	KVM_SHOOT4U_FLUSH_ALL = 1,
	KVM_SHOOT4U_FLUSH_NEW_ASID = 4,
	KVM_SHOOT4U_FLUSH_VMRUN = 5,
};

#ifdef CONFIG_KVM_SHOOT4U

/* A call as it was read from the guest's memory. */
struct kvm_shoot4u_record {
	struct kvm_shoot4u_call head;
	u64 targets[KVM_SHOOT4U_MAX_WORDS];
};

long kvm_shoot4u_carry_out(struct kvm_vcpu *vcpu, const struct kvm_shoot4u_range *range,
			   struct kvm_shoot4u_record *record);

bool kvm_shoot4u_offered(void);
void kvm_shoot4u_vcpu_init(struct kvm_vcpu *vcpu);
long kvm_shoot4u_hypercall(struct kvm_vcpu *vcpu, gpa_t gpa, u64 bytes, u64 a2, u64 a3);
fastpath_t __kvm_shoot4u_fastpath(struct kvm_vcpu *vcpu);
void kvm_shoot4u_serve(struct kvm_vcpu *vcpu);
void kvm_shoot4u_flushing(struct kvm_vcpu *vcpu, enum kvm_shoot4u_flush kind);

/* At every exit by a hypercall: those that are not ours pay for one comparison. */
static inline fastpath_t kvm_shoot4u_fastpath(struct kvm_vcpu *vcpu)
{
	if (kvm_rax_read(vcpu) != KVM_HC_SHOOT4U)
		return EXIT_FASTPATH_NONE;
	return __kvm_shoot4u_fastpath(vcpu);
}

/* In the thread of the vCPU, loaded. */
static inline void kvm_shoot4u_service_requests(struct kvm_vcpu *vcpu)
{
	if (kvm_check_request(KVM_REQ_SHOOT4U, vcpu))
		kvm_shoot4u_serve(vcpu);
}

/*
 * KVM begins to use guest-virtual addresses of @vcpu. An initiator that does not see the flag has
 * its page tables seen by the walk that follows; one that sees it leaves the vCPU to its guest.
 */
static inline void kvm_shoot4u_translating(struct kvm_vcpu *vcpu)
{
	/* Pairs with the barrier between count and flag in shoot4u_is_translating(). */
	smp_store_mb(vcpu->arch.shoot4u.translating, 1);
}

/*
 * Whether what the CPU translated before it left the guest, the address of a page fault and the
 * bytes of the instruction, is not to be used in its emulation: a call revoked something since. KVM
 * then walks the guest's page tables as for any other instruction. To run the instruction again
 * would do as well, but for ever where calls come all the time.
 */
static inline bool kvm_shoot4u_emulating(struct kvm_vcpu *vcpu, int emulation_type)
{
	if (emulation_type & EMULTYPE_SKIP)
		return false;

	kvm_shoot4u_translating(vcpu);
	return (emulation_type & EMULTYPE_PF) &&
	       vcpu->arch.shoot4u.revoked_at_entry != atomic_read(&vcpu->arch.shoot4u.revoked);
}

/* The exit has been handled: whatever KVM translated for the vCPU has been used. */
static inline void kvm_shoot4u_emulated(struct kvm_vcpu *vcpu)
{
	if (!vcpu->arch.shoot4u.translating)
		return;
	/* Pairs with shoot4u_is_translating(). */
	smp_store_release(&vcpu->arch.shoot4u.translating, 0);
}

/* The vCPU is about to be IN_GUEST_MODE. */
static inline void kvm_shoot4u_entering(struct kvm_vcpu *vcpu)
{
	vcpu->arch.shoot4u.revoked_at_entry = atomic_read(&vcpu->arch.shoot4u.revoked);
	kvm_shoot4u_emulated(vcpu);
}

#else /* !CONFIG_KVM_SHOOT4U */

static inline bool kvm_shoot4u_offered(void)
{
	return false;
}

static inline long kvm_shoot4u_hypercall(struct kvm_vcpu *vcpu, gpa_t gpa, u64 bytes, u64 a2,
					 u64 a3)
{
	return -KVM_ENOSYS;
}

static inline fastpath_t kvm_shoot4u_fastpath(struct kvm_vcpu *vcpu)
{
	return EXIT_FASTPATH_NONE;
}

static inline bool kvm_shoot4u_emulating(struct kvm_vcpu *vcpu, int emulation_type)
{
	return false;
}

static inline void kvm_shoot4u_flushing(struct kvm_vcpu *vcpu, enum kvm_shoot4u_flush kind) { }
static inline void kvm_shoot4u_service_requests(struct kvm_vcpu *vcpu) { }
static inline void kvm_shoot4u_vcpu_init(struct kvm_vcpu *vcpu) { }
static inline void kvm_shoot4u_translating(struct kvm_vcpu *vcpu) { }
static inline void kvm_shoot4u_emulated(struct kvm_vcpu *vcpu) { }
static inline void kvm_shoot4u_entering(struct kvm_vcpu *vcpu) { }

#endif /* CONFIG_KVM_SHOOT4U */
#endif /* __KVM_X86_SHOOT4U_H */
