// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shoot4U on SVM: INVLPGA by the ASID of a vCPU, on the pCPU that executes it.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kvm_host.h>
#include <asm/msr.h>
#include <asm/svm.h>

#include "../shoot4u.h"
#include "svm.h"

/*
 * There is no instruction that flushes another vCPU's ASID as a whole: that takes a request, which
 * has it flushed by the next VMRUN. Neither is INVLPGA said to reach the entries of all PCIDs, so
 * pages are invalidated one by one only where there are none.
 */
bool svm_shoot4u_immediate(const struct kvm_shoot4u_range *range)
{
	return range->end != KVM_SHOOT4U_WHOLE && !boot_cpu_has(X86_FEATURE_PCID);
}

/*
 * Where the vCPU last entered the guest: until it enters on another pCPU, it has the same ASID when
 * it comes back. While it runs a guest of its own nothing is to be found: both transitions flush.
 */
int svm_shoot4u_pcpu(struct kvm_vcpu *vcpu)
{
	return READ_ONCE(to_svm(vcpu)->vmcb01.cpu);
}

u32 svm_shoot4u_tag(struct kvm_vcpu *vcpu)
{
	return READ_ONCE(to_svm(vcpu)->asid);
}

/*
 * Invalidates on this pCPU, and returns the tag. One that the vCPU has given up since names entries
 * that nobody uses.
 */
u32 svm_shoot4u_flush(struct kvm_vcpu *vcpu, const struct kvm_shoot4u_range *range)
{
	u32 asid = svm_shoot4u_tag(vcpu);
	u64 efer, gva;

	/* A pCPU on its way offline has SVM off already. */
	rdmsrl(MSR_EFER, efer);
	if (!(efer & EFER_SVME))
		return asid;

	for (gva = range->start; gva != range->end; gva += PAGE_SIZE)
		asm volatile("invlpga %%rax, %%ecx" :: "a"(gva), "c"(asid) : "memory");
	return asid;
}
