// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shoot4U: what a guest may ask for; shoot4u.c has how the host carries it out.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/kvm_host.h>
#include <linux/moduleparam.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <uapi/linux/kvm_para.h>

#include "hyperv.h"
#include "mmu.h"
#include "shoot4u.h"
#include "trace.h"
#include "x86.h"
#include "xen.h"

static const char * const shoot4u_mode_names[] = { "off", "deferred" };
static int shoot4u_mode __read_mostly = 1;

/*
 * Pages that are invalidated one by one; more, and the whole context goes. A guest asks for at most
 * 33 of them (tlb_single_page_flush_ceiling), which is where one instruction a page was found to
 * cost about as much as filling the TLB again; the limit is for guests that ask for more.
 */
#define SHOOT4U_CEILING		33
/* Most targets of a call with interrupts off; with more it takes KVM's usual path. */
#define SHOOT4U_FAST_TARGETS	64

static int shoot4u_set_mode(const char *value, const struct kernel_param *param)
{
	int chosen = sysfs_match_string(shoot4u_mode_names, value);

	if (chosen < 0)
		return chosen;
	WRITE_ONCE(shoot4u_mode, chosen);
	return 0;
}

static int shoot4u_get_mode(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%s\n", shoot4u_mode_names[READ_ONCE(shoot4u_mode)]);
}

static const struct kernel_param_ops shoot4u_mode_ops = {
	.set = shoot4u_set_mode,
	.get = shoot4u_get_mode,
};
module_param_cb(shoot4u, &shoot4u_mode_ops, NULL, 0644);

/* Not without TDP, where a guest's flush has shadow page tables to look after. */
bool kvm_shoot4u_offered(void)
{
	return tdp_enabled && kvm_x86_ops.shoot4u_tag && READ_ONCE(shoot4u_mode);
}

/*
 * Never without the feature bit, whatever the VMM lets pass of stock features; nor where KVM cannot
 * emulate by itself, as its memory is encrypted: it then has to believe the CPU's translations.
 */
static bool shoot4u_allowed(struct kvm_vcpu *vcpu)
{
	return kvm_shoot4u_offered() && !vcpu->arch.guest_state_protected &&
	       (vcpu->arch.pv_cpuid.features & BIT(KVM_FEATURE_SHOOT4U)) &&
	       kvm_x86_call(check_emulate_instruction)(vcpu, EMULTYPE_SKIP, NULL, 0) ==
	       X86EMUL_CONTINUE;
}

/* Whether the place and the size of a call are sound, before anything of it is read. */
static long shoot4u_check_place(gpa_t gpa, u64 bytes)
{
	if (bytes < sizeof(struct kvm_shoot4u_call) + sizeof(u64) ||
	    bytes > sizeof(struct kvm_shoot4u_record) || bytes % sizeof(u64))
		return -KVM_EINVAL;
	if (gpa % sizeof(u64) || offset_in_page(gpa) + bytes > PAGE_SIZE)
		return -KVM_EFAULT;
	return 0;
}

/* Whether the call, whose words are all the guest's, and read once, is sound. */
static long shoot4u_check(const struct kvm_shoot4u_call *call, u64 bytes)
{
	u64 mask;

	if (bytes != sizeof(*call) + (u64)call->words * sizeof(u64) || call->first % 64 ||
	    (call->flags & ~KVM_SHOOT4U_FREED_TABLES))
		return -KVM_EINVAL;
	/* An id behind the last one would come out as a small one, which is somebody else's. */
	if (call->first > U32_MAX - call->words * 64 + 1)
		return -KVM_EINVAL;
	if (call->stride_shift != 12 && call->stride_shift != 21 && call->stride_shift != 30)
		return -KVM_EINVAL;

	if (call->end == KVM_SHOOT4U_WHOLE)
		return call->start ? -KVM_EINVAL : 0;
	mask = (1ULL << call->stride_shift) - 1;
	if (call->end <= call->start || ((call->start | call->end) & mask))
		return -KVM_EINVAL;
	return 0;
}

/* What to invalidate for a valid call: its range, or all where that is cheaper or necessary. */
static struct kvm_shoot4u_range shoot4u_range(const struct kvm_shoot4u_call *call)
{
	struct kvm_shoot4u_range range = {
		.start = call->start,
		.end = call->end,
	};
	int bits = pgtable_l5_enabled() ? 57 : 48;

	/*
	 * A large page of the guest that the host backs by small ones has an entry for each of
	 * these. INVVPID of one address is sure to take only what translates that address, and
	 * refuses one that is not canonical.
	 */
	if (call->end == KVM_SHOOT4U_WHOLE || (call->flags & KVM_SHOOT4U_FREED_TABLES) ||
	    call->stride_shift != PAGE_SHIFT ||
	    (call->end - call->start) >> PAGE_SHIFT > SHOOT4U_CEILING ||
	    !__is_canonical_address(call->start, bits) ||
	    !__is_canonical_address(call->end - 1, bits)) {
		range.start = 0;
		range.end = KVM_SHOOT4U_WHOLE;
	}
	return range;
}

/* KVM_HC_SHOOT4U; called with kvm->srcu held, by a guest at CPL 0. */
long kvm_shoot4u_hypercall(struct kvm_vcpu *vcpu, gpa_t gpa, u64 bytes, u64 a2, u64 a3)
{
	struct kvm_shoot4u_record record;
	struct kvm_shoot4u_range range;
	long left, ret = -KVM_ENOSYS;

	if (!shoot4u_allowed(vcpu))
		goto refuse;

	ret = a2 || a3 ? -KVM_EINVAL : shoot4u_check_place(gpa, bytes);
	if (ret)
		goto refuse;
	ret = -KVM_EFAULT;
	if (kvm_vcpu_read_guest(vcpu, gpa, &record, bytes))
		goto refuse;
	ret = shoot4u_check(&record.head, bytes);
	if (ret)
		goto refuse;

	range = shoot4u_range(&record.head);
	left = kvm_shoot4u_carry_out(vcpu, &range, &record);
	ret = left;
	if (left < 0)
		goto refuse;
	ret = -KVM_EFAULT;
	if (left && kvm_vcpu_write_guest(vcpu, gpa + sizeof(record.head), record.targets,
					 record.head.words * sizeof(u64)))
		goto refuse;
	return left;

refuse:
	vcpu->stat.shoot4u_refused++;
	return ret;
}

/* With interrupts off and kvm->srcu held. */
static fastpath_t shoot4u_fastpath(struct kvm_vcpu *vcpu)
{
	u64 gpa = kvm_rbx_read(vcpu), bytes = kvm_rcx_read(vcpu);
	struct kvm_shoot4u_record record;
	struct kvm_shoot4u_range range;
	int before, failed = 0;
	long left;

	if (shoot4u_check_place(gpa, bytes) ||
	    kvm_vcpu_read_guest_atomic(vcpu, gpa, &record, bytes) ||
	    shoot4u_check(&record.head, bytes) ||
	    bitmap_weight((unsigned long *)record.targets, record.head.words * 64) >
	    SHOOT4U_FAST_TARGETS)
		return EXIT_FASTPATH_NONE;

	/*
	 * This vCPU has left the guest: who waits for that must not wait for what is waited for
	 * here, with interrupts off. It enters by the usual order: mode first, then a look at the
	 * requests.
	 */
	before = xchg(&vcpu->mode, OUTSIDE_GUEST_MODE);
	range = shoot4u_range(&record.head);
	left = kvm_shoot4u_carry_out(vcpu, &range, &record);
	if (left > 0) {
		pagefault_disable();
		failed = kvm_vcpu_write_guest(vcpu, gpa + sizeof(record.head), record.targets,
					      record.head.words * sizeof(u64));
		pagefault_enable();
	}
	/* The usual path may fault pages in, and wait. To make the call again is harmless. */
	if (left < 0 || failed)
		return EXIT_FASTPATH_NONE;

	trace_kvm_hypercall(KVM_HC_SHOOT4U, gpa, bytes, 0, 0);
	vcpu->stat.hypercalls++;
	vcpu->stat.shoot4u_fast++;
	kvm_rax_write(vcpu, left);
	if (!kvm_skip_emulated_instruction(vcpu))
		return EXIT_FASTPATH_EXIT_USERSPACE;
	/* Somebody wanted it to leave, perhaps without a request. */
	if (before != IN_GUEST_MODE)
		return EXIT_FASTPATH_EXIT_HANDLED;
	/* Pairs with a request that is made before a look at the mode; KVM looks at them next. */
	smp_store_mb(vcpu->mode, IN_GUEST_MODE);
	return EXIT_FASTPATH_REENTER_GUEST;
}

/*
 * KVM_HC_SHOOT4U, right after the exit: carried out without the way through vcpu_run(), as
 * KVM does with an IPI, or left to kvm_emulate_hypercall().
 */
fastpath_t __kvm_shoot4u_fastpath(struct kvm_vcpu *vcpu)
{
	fastpath_t ret;

	if (!shoot4u_allowed(vcpu) || kvm_rdx_read(vcpu) || kvm_rsi_read(vcpu) ||
	    kvm_xen_hypercall_enabled(vcpu->kvm) || kvm_hv_hypercall_enabled(vcpu) ||
	    !is_64_bit_hypercall(vcpu) || kvm_x86_call(get_cpl)(vcpu))
		return EXIT_FASTPATH_NONE;

	kvm_vcpu_srcu_read_lock(vcpu);
	ret = shoot4u_fastpath(vcpu);
	kvm_vcpu_srcu_read_unlock(vcpu);
	return ret;
}
EXPORT_SYMBOL_GPL(__kvm_shoot4u_fastpath);
