/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Paratick: what a KVM host and its guests agree on for scheduler ticks that the host gives.
 * Documentation/virt/kvm/x86/paratick.rst describes the contract.
 */
#ifndef _UAPI_ASM_X86_KVM_PARATICK_H
#define _UAPI_ASM_X86_KVM_PARATICK_H

#include <linux/types.h>

/* Bit of CPUID 0x40000001 EAX; far from the bits that upstream hands out one after another. */
#define KVM_FEATURE_PARATICK		27

/*
 * The declaration of one vCPU: bits 31:0 the period in nanoseconds, 39:32 the vector of the tick,
 * the others 0. A period of 0, with a vector of 0: no ticks are wanted. As far from upstream's.
 */
#define MSR_KVM_PARATICK		0x4b564d40

#define KVM_PARATICK_VECTOR_SHIFT	32
/* Longest period, in nanoseconds. */
#define KVM_PARATICK_MAX_PERIOD		1000000000
/* A local timer's interrupt stands for a tick that is due so small a part of the period later. */
#define KVM_PARATICK_TAKEN		32

#endif /* _UAPI_ASM_X86_KVM_PARATICK_H */
