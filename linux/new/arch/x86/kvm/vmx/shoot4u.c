// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shoot4U on VMX: INVVPID by the tag of a vCPU.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kvm_host.h>

#include "../shoot4u.h"
#include "vmx.h"
#include "vmx_ops.h"
#include "x86_ops.h"

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

/* Invalidates on the pCPU where the vCPU is loaded, and returns the tag. */
u32 vmx_shoot4u_flush(struct kvm_vcpu *vcpu, const struct kvm_shoot4u_range *range)
{
	int vpid = vmx_shoot4u_tag(vcpu);
	u64 gva;

	if (range->end == KVM_SHOOT4U_WHOLE) {
		vpid_sync_context(vpid);
		return vpid;
	}

	for (gva = range->start; gva != range->end; gva += PAGE_SIZE)
		vpid_sync_vcpu_addr(vpid, gva);
	return vpid;
}
