/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shoot4U, the guest's side: what kvm.c calls. With the symbol off it is what it was.
 */
#ifndef _X86_KERNEL_KVM_SHOOT4U_H
#define _X86_KERNEL_KVM_SHOOT4U_H

#include <asm/tlbflush.h>

#ifdef CONFIG_KVM_GUEST_SHOOT4U
void kvm_shoot4u_flush_tlb_multi(const struct cpumask *cpus, const struct flush_tlb_info *info);
void kvm_shoot4u_guest_init(void);
#else
static inline void kvm_shoot4u_flush_tlb_multi(const struct cpumask *cpus,
					       const struct flush_tlb_info *info)
{
	native_flush_tlb_multi(cpus, info);
}

static inline void kvm_shoot4u_guest_init(void) { }
#endif

#endif /* _X86_KERNEL_KVM_SHOOT4U_H */
