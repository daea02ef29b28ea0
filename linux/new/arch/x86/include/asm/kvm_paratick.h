/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Paratick: what the host keeps for each vCPU, and the guest's set-up.
 */
#ifndef _ASM_X86_KVM_PARATICK_H
#define _ASM_X86_KVM_PARATICK_H

#include <linux/hrtimer_types.h>
#include <linux/init.h>
#include <linux/types.h>

/**
 * struct kvm_paratick_vcpu - state of one vCPU; used by its own thread but where said
 * @msr: what the guest declared
 * @period: the declared period in nanoseconds; 0: no ticks
 * @next: when the next tick is due, by the host's CLOCK_MONOTONIC: a multiple of @period, and not
 *	sooner than one of the shortest allowed periods after the last
 * @last: when a tick was last due and given
 * @timer_at: when an interrupt of the local timer was last made pending; written by whoever does it
 * @timer: fires when a tick is due for which the host would not interrupt the guest by itself
 * @armed: for when @timer was last armed
 * @armed_cpu: on which CPU
 */
struct kvm_paratick_vcpu {
	u64 msr;
	u32 period;
	u64 next;
	u64 last;
	u64 timer_at;
	struct hrtimer timer;
	u64 armed;
	int armed_cpu;
};

#ifdef CONFIG_KVM_GUEST_PARATICK
void __init kvm_paratick_guest_init(void);
void kvm_paratick_guest_offline(bool crashed);
#else
static inline void kvm_paratick_guest_init(void) { }
static inline void kvm_paratick_guest_offline(bool crashed) { }
#endif

#endif /* _ASM_X86_KVM_PARATICK_H */
