/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paratick: the hooks that KVM calls. With the symbol off each is nothing.
 */
#ifndef __KVM_X86_PARATICK_H
#define __KVM_X86_PARATICK_H

#include <linux/kvm_host.h>
#include <linux/timekeeping.h>
#include <asm/kvm_paratick.h>
#include <uapi/asm/kvm_paratick.h>

enum kvm_paratick_mode {
	KVM_PARATICK_OFF,
	KVM_PARATICK_HOST_TICKS,	/* the paper's: only when the vCPU is entered anyway */
	KVM_PARATICK_FILLED,		/* a host timer where the host's tick comes too late */
};

#ifdef CONFIG_KVM_PARATICK

bool kvm_paratick_offered(void);
void kvm_paratick_vcpu_init(struct kvm_vcpu *vcpu);
void kvm_paratick_vcpu_reset(struct kvm_vcpu *vcpu);
void kvm_paratick_vcpu_destroy(struct kvm_vcpu *vcpu);
int kvm_paratick_set_msr(struct kvm_vcpu *vcpu, u64 data, bool host_initiated);
int kvm_paratick_get_msr(struct kvm_vcpu *vcpu, u64 *data, bool host_initiated);
void __kvm_paratick_inject(struct kvm_vcpu *vcpu);
void __kvm_paratick_entering(struct kvm_vcpu *vcpu);
void __kvm_paratick_slept(struct kvm_vcpu *vcpu);

/* Any thread may ask. */
static inline bool kvm_paratick_declared(struct kvm_vcpu *vcpu)
{
	return unlikely(READ_ONCE(vcpu->arch.paratick.period));
}

/* The vCPU is about to look at its events: if a tick is due, it becomes one. */
static inline void kvm_paratick_inject(struct kvm_vcpu *vcpu)
{
	if (kvm_paratick_declared(vcpu))
		__kvm_paratick_inject(vcpu);
}

/* The vCPU is about to be IN_GUEST_MODE; interrupts are off. */
static inline void kvm_paratick_entering(struct kvm_vcpu *vcpu)
{
	if (kvm_paratick_declared(vcpu))
		__kvm_paratick_entering(vcpu);
}

/* The vCPU was halted until now. */
static inline void kvm_paratick_slept(struct kvm_vcpu *vcpu)
{
	if (kvm_paratick_declared(vcpu))
		__kvm_paratick_slept(vcpu);
}

/* An interrupt of the local timer is pending now, and does for a tick that is due. */
static inline void kvm_paratick_timer_pending(struct kvm_vcpu *vcpu)
{
	if (kvm_paratick_declared(vcpu))
		WRITE_ONCE(vcpu->arch.paratick.timer_at, ktime_get_ns());
}

#else /* !CONFIG_KVM_PARATICK */

static inline bool kvm_paratick_offered(void)
{
	return false;
}

static inline void kvm_paratick_vcpu_init(struct kvm_vcpu *vcpu) { }
static inline void kvm_paratick_vcpu_reset(struct kvm_vcpu *vcpu) { }
static inline void kvm_paratick_vcpu_destroy(struct kvm_vcpu *vcpu) { }
static inline void kvm_paratick_inject(struct kvm_vcpu *vcpu) { }
static inline void kvm_paratick_entering(struct kvm_vcpu *vcpu) { }
static inline void kvm_paratick_slept(struct kvm_vcpu *vcpu) { }
static inline void kvm_paratick_timer_pending(struct kvm_vcpu *vcpu) { }

#endif /* CONFIG_KVM_PARATICK */
#endif /* __KVM_X86_PARATICK_H */
