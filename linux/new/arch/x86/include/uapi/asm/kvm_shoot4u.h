/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Shoot4U: what a KVM host and its guests agree on for TLB shootdowns that the host carries out.
 * The feature bit and the number of the hypercall are in kvm_para.h, and the contract is in
 * Documentation/virt/kvm/x86/shoot4u.rst.
 */
#ifndef _UAPI_ASM_X86_KVM_SHOOT4U_H
#define _UAPI_ASM_X86_KVM_SHOOT4U_H

#include <linux/types.h>

/* Page tables were freed: cached upper levels have to go too. */
#define KVM_SHOOT4U_FREED_TABLES	(1U << 0)

/* Most 64-bit words of targets in one call. */
#define KVM_SHOOT4U_MAX_WORDS		64
/* Value of ``end`` that names, with a ``start`` of 0, the whole address space. */
#define KVM_SHOOT4U_WHOLE		(~0ULL)

/**
 * struct kvm_shoot4u_call - one shootdown, in guest memory
 * @start: first byte; a multiple of the stride
 * @end: one behind the last byte; a multiple of the stride, or KVM_SHOOT4U_WHOLE
 * @stride_shift: 12, 21 or 30: the size of the pages that the range consists of
 * @words: 64-bit words in @targets, 1 to KVM_SHOOT4U_MAX_WORDS
 * @first: APIC id of bit 0 of @targets; a multiple of 64
 * @flags: KVM_SHOOT4U_FREED_TABLES or 0
 * @targets: in: the vCPUs whose translations are invalidated, by APIC id; out, if the hypercall
 *	returned more than 0: those that the caller has to interrupt itself
 */
struct kvm_shoot4u_call {
	__u64 start;
	__u64 end;
	__u32 stride_shift;
	__u32 words;
	__u32 first;
	__u32 flags;
	__u64 targets[];
};

#endif /* _UAPI_ASM_X86_KVM_SHOOT4U_H */
