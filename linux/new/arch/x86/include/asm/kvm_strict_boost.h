/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Strict Boost: what the host keeps for each vCPU and each VM.
 */
#ifndef _ASM_X86_KVM_STRICT_BOOST_H
#define _ASM_X86_KVM_STRICT_BOOST_H

#include <linux/types.h>

struct kvm_vcpu;

/*
 * Interrupt vectors of IPIs that are told apart: all but the last slot hold one vector each, the
 * last one takes the rest together. Linux sends three or four.
 */
#define KVM_STRICT_BOOST_SLOTS	4

/**
 * struct kvm_strict_boost_vcpu - state of one vCPU
 * @senders: for each slot a bit for each vCPU, by its vcpu_idx, that has sent this one an IPI which
 *	it has not taken. Senders set and clear their own bits, this vCPU clears any.
 * @boosted_ns: when the scheduler was last asked to run this vCPU, until it does; 0: it was not
 */
struct kvm_strict_boost_vcpu {
	unsigned long senders[KVM_STRICT_BOOST_SLOTS][BITS_TO_LONGS(KVM_MAX_VCPUS)];
	u64 boosted_ns;
};

/**
 * struct kvm_strict_boost_vm - state of one VM
 * @vectors: the vector of each slot but the last, 0: none yet; never changes once it is set
 * @shared: the vectors of the last slot
 */
struct kvm_strict_boost_vm {
	u8 vectors[KVM_STRICT_BOOST_SLOTS - 1];
	unsigned long shared[BITS_TO_LONGS(256)];
};

bool kvm_strict_boost_on_spin(struct kvm_vcpu *me, bool kernel_only);

#endif /* _ASM_X86_KVM_STRICT_BOOST_H */
