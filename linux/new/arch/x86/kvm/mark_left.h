/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * kvm.mark_left: marks more vCPUs as preempted than those that left the guest on an interrupt of
 * the host.
 *
 * A mark is wrong while KVM emulates for the vCPU, which may hold an address that is revoked
 * meanwhile: see kvm_steal_time_set_preempted(). The exits named here use no address of the guest's
 * page tables.
 */
#ifndef __KVM_X86_MARK_LEFT_H
#define __KVM_X86_MARK_LEFT_H

#include <linux/kvm_host.h>

#include <asm/svm.h>
#include <asm/vmx.h>

#include "kvm_cache_regs.h"

#ifdef CONFIG_KVM_MARK_LEFT

extern bool kvm_mark_left;

/* To be called when the vCPU has left the guest for the reason @vmx_exit. */
static inline void kvm_mark_left_vmx(struct kvm_vcpu *vcpu, u16 vmx_exit)
{
	if (!kvm_mark_left || is_guest_mode(vcpu))
		return;
	switch (vmx_exit) {
	case EXIT_REASON_HLT:
	case EXIT_REASON_MSR_WRITE:
	case EXIT_REASON_PAUSE_INSTRUCTION:
	case EXIT_REASON_PREEMPTION_TIMER:
	case EXIT_REASON_VMCALL:
		vcpu->arch.at_instruction_boundary = true;
		break;
	}
}

/* The same for @svm_exit; reads of MSRs are as harmless as writes. */
static inline void kvm_mark_left_svm(struct kvm_vcpu *vcpu, u32 svm_exit)
{
	if (!kvm_mark_left || is_guest_mode(vcpu))
		return;
	switch (svm_exit) {
	case SVM_EXIT_HLT:
	case SVM_EXIT_MSR:
	case SVM_EXIT_PAUSE:
	case SVM_EXIT_VMMCALL:
		vcpu->arch.at_instruction_boundary = true;
		break;
	}
}

/* Whether @vcpu is descheduled because it blocks, which it does with nothing half done. */
static inline bool kvm_mark_left_blocks(struct kvm_vcpu *vcpu)
{
	if (!kvm_mark_left || !vcpu->stat.generic.blocking || is_guest_mode(vcpu))
		return false;
	vcpu->arch.at_instruction_boundary = true;
	return true;
}

#else /* !CONFIG_KVM_MARK_LEFT */

static inline void kvm_mark_left_vmx(struct kvm_vcpu *vcpu, u16 vmx_exit) { }
static inline void kvm_mark_left_svm(struct kvm_vcpu *vcpu, u32 svm_exit) { }
static inline bool kvm_mark_left_blocks(struct kvm_vcpu *vcpu) { return false; }

#endif

#endif
