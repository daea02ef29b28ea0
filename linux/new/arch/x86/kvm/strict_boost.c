// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strict Boost: which vCPU to run when one spins. After Ishiguro, Yasuno, Aublin and Kono,
 * "Mitigating Excessive vCPU Spinning in VM-Agnostic KVM", VEE 2021. What the scheduler makes of
 * the request is another matter, see kernel/sched/debooster.c.
 *
 * A vCPU that waits for acknowledgements has sent IPIs, and their receivers have not taken them
 * yet. The host sees that an interrupt is pending for a vCPU, whatever the guest is and wherever
 * its instruction pointer is. So if vCPUs with a pending interrupt could run and do not, they are
 * boosted, in user mode as well, and no others. If there are none, the spinner waits for a lock or
 * similar. Then vCPUs that were preempted in kernel mode are boosted. A vCPU that was woken from
 * HLT holds no lock that others spin for, unless a lock was handed to it. Paravirtual spinlocks
 * report that by KVM_HC_KICK_CPU.
 *
 * Without APICv, KVM's own choice passes over a receiver that was preempted in user mode. With
 * APICv it does not: a vCPU with a posted interrupt counts as one in kernel mode there. So on such
 * hosts there is less to gain.
 *
 * The judgment can be wrong: an interrupt may be from a device, or from an IPI that the spinner
 * does not wait for. Its receiver is then boosted in vain, takes the interrupt, and is not a
 * candidate any more: one boost for one interrupt. Its sender does not matter on purpose. A guest
 * may send one IPI for two callers: Linux sends none to a CPU for which a call is queued already,
 * and the second caller waits for an IPI that it did not send.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kvm_host.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/debooster.h>

#include "kvm_cache_regs.h"
#include "lapic.h"

/* Why a vCPU spins, as far as the host can know. Part of the trace: the numbers stay. */
enum boost_cause {
	BOOST_CAUSE_LOCK,
	BOOST_CAUSE_PENDING,
};

/* What is found about a candidate. Part of the trace: the numbers stay. */
enum boost_verdict {
	BOOST_CHOSEN,
	BOOST_BLOCKED,
	BOOST_USER,		/* preempted in user mode */
	BOOST_WOKEN,		/* from HLT */
	BOOST_SPINS,		/* was spinning itself when it was last asked */
	BOOST_NO_RECEIVER,
};

#define CREATE_TRACE_POINTS
#include "strict_boost_trace.h"

/* Refusals of the scheduler, for want of competition, after which a look ends; KVM's own figure. */
#define BOOST_TRIES		3

/*
 * Questions to the scheduler, agreed to or refused, after which a look ends: each takes the locks
 * of two run queues. More than one vCPU is boosted where the scheduler can do so without taking the
 * CPU from the spinner. The others have to wait for its next pause-loop exit, which begins behind
 * the last that was asked for.
 */
#define BOOST_QUESTIONS		16

static bool __read_mostly strict_boost;
module_param(strict_boost, bool, 0644);

/* Whether any interrupt waits for @vcpu, whoever it is from. */
static bool boost_pending(struct kvm_vcpu *vcpu)
{
	int i;

	if (!lapic_in_kernel(vcpu))
		return false;
	for (i = 0; i < 8; i++) {
		if (kvm_lapic_get_reg(vcpu->arch.apic, APIC_IRR + 0x10 * i))
			return true;
	}
	return kvm_arch_dy_has_pending_interrupt(vcpu);
}

/* As KVM has it: one that spun itself is a candidate every other time that it is asked. */
static bool boost_spins(struct kvm_vcpu *vcpu)
{
	bool eligible = !vcpu->spin_loop.in_spin_loop || vcpu->spin_loop.dy_eligible;

	if (vcpu->spin_loop.in_spin_loop)
		kvm_vcpu_set_dy_eligible(vcpu, !vcpu->spin_loop.dy_eligible);
	return !eligible;
}

/* It may hold the lock: preempted in kernel mode, or just given it by KVM_HC_KICK_CPU. */
static enum boost_verdict boost_judge_lock(struct kvm_vcpu *vcpu, bool kernel_only)
{
	if (kvm_vcpu_is_blocking(vcpu) && !kvm_arch_dy_runnable(vcpu) &&
	    list_empty_careful(&vcpu->async_pf.done))
		return BOOST_BLOCKED;
	if (!READ_ONCE(vcpu->preempted))
		return READ_ONCE(vcpu->arch.pv.pv_unhalted) ? BOOST_CHOSEN : BOOST_WOKEN;
	if (kernel_only && !kvm_arch_vcpu_preempted_in_kernel(vcpu))
		return BOOST_USER;
	return boost_spins(vcpu) ? BOOST_SPINS : BOOST_CHOSEN;
}

struct boost_look {
	struct kvm_vcpu *me;
	bool kernel_only;
	int tries;	/* refusals for want of competition that are left */
	int questions;	/* questions that are left */
	int boosted;
};

static bool boost_is_over(const struct boost_look *look)
{
	return !look->tries || !look->questions;
}

/* Asks the scheduler for @vcpu. Returns whether the pass is over. */
static bool boost_ask(struct boost_look *look, struct kvm_vcpu *vcpu, enum boost_cause cause)
{
	struct kvm_vcpu *me = look->me;
	int answer = kvm_vcpu_yield_to(vcpu);

	trace_kvm_strict_boost_answer(me, vcpu, cause, answer);
	look->questions--;

	if (answer > 0) {
		me->stat.strict_boost_agreed++;
		WRITE_ONCE(me->kvm->last_boosted_vcpu, vcpu->vcpu_idx);
		look->boosted++;
		return answer != YIELD_TO_KEPT || cause == BOOST_CAUSE_LOCK || boost_is_over(look);
	}
	me->stat.strict_boost_refused++;
	if (answer < 0)
		look->tries--;
	/* The next look does not begin with the same refusals. */
	if (!look->questions)
		WRITE_ONCE(me->kvm->last_boosted_vcpu, vcpu->vcpu_idx);
	return boost_is_over(look);
}

/* Which candidates a pass is about, by the pCPU that they wait for. */
enum boost_where {
	BOOST_ANYWHERE,
	BOOST_ELSEWHERE,
	BOOST_HERE,
};

static bool boost_is_there(const struct boost_look *look, struct kvm_vcpu *vcpu,
			   enum boost_where where)
{
	bool here = READ_ONCE(vcpu->cpu) == look->me->cpu;

	return where == BOOST_ANYWHERE || here == (where == BOOST_HERE);
}

/*
 * Asks for those that the cause makes candidates, beginning behind the last that was boosted.
 * Returns whether the look is over.
 */
static bool boost_pass(struct boost_look *look, enum boost_cause cause, enum boost_where where)
{
	struct kvm *kvm = look->me->kvm;
	int n, nr = atomic_read(&kvm->online_vcpus);
	int last = READ_ONCE(kvm->last_boosted_vcpu);
	enum boost_verdict verdict;
	struct kvm_vcpu *vcpu;

	for (n = 1; n <= nr; n++) {
		vcpu = kvm_get_vcpu(kvm, (last + n) % nr);
		if (!vcpu || vcpu == look->me || !boost_is_there(look, vcpu, where) ||
		    !READ_ONCE(vcpu->ready))
			continue;
		if (cause == BOOST_CAUSE_PENDING)
			verdict = boost_pending(vcpu) ? BOOST_CHOSEN : BOOST_NO_RECEIVER;
		else
			verdict = boost_judge_lock(vcpu, look->kernel_only);
		trace_kvm_strict_boost_judged(look->me, vcpu, cause, verdict);
		if (verdict == BOOST_CHOSEN && boost_ask(look, vcpu, cause))
			return true;
	}
	return false;
}

/* A vCPU has spun for long. Returns false if this is left to KVM's own rules. */
bool kvm_strict_boost_on_spin(struct kvm_vcpu *me, bool kernel_only)
{
	struct boost_look look = {
		.me = me,
		.kernel_only = kernel_only,
		.tries = BOOST_TRIES,
		.questions = BOOST_QUESTIONS,
	};

	if (!READ_ONCE(strict_boost))
		return false;

	me->stat.strict_boost_looks++;
	if (trace_kvm_strict_boost_look_enabled() && !me->arch.guest_state_protected)
		trace_kvm_strict_boost_look(me, kvm_rip_read(me),
					    kvm_x86_call(get_cpl)(me) == 0);

	kvm_vcpu_set_in_spin_loop(me, true);
	/*
	 * Those that wait for other pCPUs come first: if they can be had without giving way to
	 * them, they take the IPI while this vCPU still runs.
	 */
	if (!boost_pass(&look, BOOST_CAUSE_PENDING, BOOST_ELSEWHERE))
		boost_pass(&look, BOOST_CAUSE_PENDING, BOOST_HERE);
	me->stat.strict_boost_ipi_looks += look.boosted != 0;
	if (!look.boosted && !boost_is_over(&look))
		boost_pass(&look, BOOST_CAUSE_LOCK, BOOST_ANYWHERE);
	if (!look.boosted)
		me->stat.strict_boost_nobody++;
	kvm_vcpu_set_in_spin_loop(me, false);

	/* Ensure vcpu is not eligible during next spinloop */
	kvm_vcpu_set_dy_eligible(me, false);
	return true;
}
