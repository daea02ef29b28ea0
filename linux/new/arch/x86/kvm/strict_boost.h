/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Strict Boost: the hooks that KVM calls. With the symbol off each is nothing.
 */
#ifndef __KVM_X86_STRICT_BOOST_H
#define __KVM_X86_STRICT_BOOST_H

#include <linux/kvm_host.h>

#include "lapic.h"

enum kvm_strict_boost_mode {
	KVM_STRICT_BOOST_OFF,		/* KVM's own loop, as if this were not there */
	KVM_STRICT_BOOST_OBSERVE,	/* its choice, with statistics and trace events */
	KVM_STRICT_BOOST_TRACK,		/* receivers of its IPIs, then preempted kernels */
	KVM_STRICT_BOOST_PENDING,	/* with an interrupt pending, then preempted kernels */
	KVM_STRICT_BOOST_SHARED,	/* as track, then receivers of anybody's IPIs */
};

#ifdef CONFIG_KVM_STRICT_BOOST

extern int kvm_strict_boost_mode;

void __kvm_strict_boost_sent(struct kvm_vcpu *from, struct kvm_vcpu *to, u8 vector);
void __kvm_strict_boost_taken(struct kvm_vcpu *vcpu, u8 vector);
void __kvm_strict_boost_took(struct kvm_vcpu *vcpu, u8 vector);
void __kvm_strict_boost_put(struct kvm_vcpu *vcpu);
void __kvm_strict_boost_loaded(struct kvm_vcpu *vcpu);
bool kvm_strict_boost_awaits(struct kvm_vcpu *me, struct kvm_vcpu *to);
bool kvm_strict_boost_owes(struct kvm_vcpu *to);
bool kvm_strict_boost_pending(struct kvm_vcpu *vcpu);

static inline bool kvm_strict_boost_mode_tracks(int mode)
{
	return mode == KVM_STRICT_BOOST_TRACK || mode == KVM_STRICT_BOOST_SHARED;
}

static inline bool kvm_strict_boost_tracks(void)
{
	return kvm_strict_boost_mode_tracks(READ_ONCE(kvm_strict_boost_mode));
}

/*
 * @from has sent @irq to @to: it is in the receiver's IRR or PIR. To be called in the thread of
 * @from, which is NULL for an interrupt of a device.
 */
static inline void kvm_strict_boost_sent(struct kvm_vcpu *from, struct kvm_vcpu *to,
					 const struct kvm_lapic_irq *irq)
{
	if (!kvm_strict_boost_tracks() || !from || from == to)
		return;
	if (irq->delivery_mode == APIC_DM_FIXED || irq->delivery_mode == APIC_DM_LOWEST)
		__kvm_strict_boost_sent(from, to, irq->vector);
}

/* The vCPU whose thread this is has sent @irq, by a hypercall. */
static inline void kvm_strict_boost_called(struct kvm_vcpu *to, const struct kvm_lapic_irq *irq)
{
	if (kvm_strict_boost_tracks())
		kvm_strict_boost_sent(kvm_get_running_vcpu(), to, irq);
}

/* @vcpu is about to take an interrupt: to be called before its bit in the IRR is cleared. */
static inline void kvm_strict_boost_taken(struct kvm_vcpu *vcpu, int vector)
{
	if (kvm_strict_boost_tracks())
		__kvm_strict_boost_taken(vcpu, vector);
}

/* It has been taken: to be called when its bit in the IRR is cleared. */
static inline void kvm_strict_boost_took(struct kvm_vcpu *vcpu, int vector)
{
	if (kvm_strict_boost_tracks())
		__kvm_strict_boost_took(vcpu, vector);
}

static inline void kvm_strict_boost_put(struct kvm_vcpu *vcpu)
{
	if (kvm_strict_boost_tracks())
		__kvm_strict_boost_put(vcpu);
}

static inline void kvm_strict_boost_loaded(struct kvm_vcpu *vcpu)
{
	if (READ_ONCE(vcpu->arch.strict_boost.boosted_ns))
		__kvm_strict_boost_loaded(vcpu);
}

#else /* !CONFIG_KVM_STRICT_BOOST */

static inline void kvm_strict_boost_sent(struct kvm_vcpu *from, struct kvm_vcpu *to,
					 const struct kvm_lapic_irq *irq) { }
static inline void kvm_strict_boost_called(struct kvm_vcpu *to, const struct kvm_lapic_irq *irq) { }
static inline void kvm_strict_boost_taken(struct kvm_vcpu *vcpu, int vector) { }
static inline void kvm_strict_boost_took(struct kvm_vcpu *vcpu, int vector) { }
static inline void kvm_strict_boost_put(struct kvm_vcpu *vcpu) { }
static inline void kvm_strict_boost_loaded(struct kvm_vcpu *vcpu) { }

#endif /* CONFIG_KVM_STRICT_BOOST */
#endif /* __KVM_X86_STRICT_BOOST_H */
