// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shoot4U on VMX: INVVPID by the tag of a vCPU, on the pCPU that executes it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kvm_host.h>
#include <asm/tlbflush.h>

#include "../shoot4u.h"
#include "capabilities.h"
#include "vmx.h"
#include "vmx_ops.h"
#include "x86_ops.h"

/* INVVPID names any address and any tag, from anywhere. */
bool vmx_shoot4u_immediate(const struct kvm_shoot4u_range *range)
{
	return true;
}

/* Where the vCPU is loaded: on another pCPU than the last it is flushed before it enters. */
int vmx_shoot4u_pcpu(struct kvm_vcpu *vcpu)
{
	return READ_ONCE(vcpu->cpu);
}

/*
 * Always the tag of L1: the call is about translations of the guest that made it, and the entries
 * of its own guests have another tag, or go at every nested transition where they share it.
 *
 * Without VPIDs the tag is 0 and nothing is cached over a VM entry.
 */
u32 vmx_shoot4u_tag(struct kvm_vcpu *vcpu)
{
	return to_vmx(vcpu)->vpid;
}

/* Invalidates on this pCPU, and returns the tag. */
u32 vmx_shoot4u_flush(struct kvm_vcpu *vcpu, const struct kvm_shoot4u_range *range)
{
	int vpid = vmx_shoot4u_tag(vcpu);
	u64 gva;

	/* A pCPU on its way offline has left VMX operation, and its entries are of no use. */
	if (!(cr4_read_shadow() & X86_CR4_VMXE))
		return vpid;

	if (range->end == KVM_SHOOT4U_WHOLE || !cpu_has_vmx_invvpid_individual_addr()) {
		vpid_sync_context(vpid);
		return vpid;
	}

	for (gva = range->start; gva != range->end; gva += PAGE_SIZE)
		vpid_sync_vcpu_addr(vpid, gva);
	return vpid;
}
