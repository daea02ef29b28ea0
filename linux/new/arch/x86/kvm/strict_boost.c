// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strict Boost: whom to run when a vCPU spins. After Ishiguro, Yasuno, Aublin and Kono, "Mitigating
 * Excessive vCPU Spinning in VM-Agnostic KVM", VEE 2021. What the scheduler makes of the request is
 * another matter, see kernel/sched/debooster.c.
 *
 * How the host knows what the spinner waits for. A vCPU that waits for acknowledgements has sent
 * IPIs, and their receivers have not taken them yet. The host sees this, whatever the guest is and
 * wherever its instruction pointer is. So if such receivers could run and do not, they are boosted,
 * in user mode as well, and no others. If there are none, the spinner waits for a lock or the like.
 * Then vCPUs that were preempted in kernel mode are boosted. A vCPU that was woken from HLT holds
 * no lock that others spin for, unless a lock was handed to it. Paravirtual spinlocks report that
 * by KVM_HC_KICK_CPU.
 *
 * Without APICv, KVM's own choice passes over a receiver that was preempted in user mode. With
 * APICv it does not: a vCPU with a posted interrupt counts as one in kernel mode there. So on such
 * hosts there is less to gain.
 *
 * The judgment can be wrong: a spinner for a lock may have sent an IPI that nobody waits for, for
 * example to make a CPU reschedule. Its receiver is then boosted in vain, takes the IPI, and is not
 * a candidate any more: one boost for one IPI.
 *
 * A guest may send one IPI for two callers: Linux sends none to a CPU for which a call is queued
 * already. So kvm.strict_boost=shared boosts receivers of others' IPIs if nobody else is found.
 *
 * How receivers are known is in strict_boost_ipi.c. Where the CPU sends IPIs by itself (IPI
 * virtualization, AVIC), they are not known. Then any vCPU with a pending interrupt is a candidate
 * after the known receivers; kvm.strict_boost=pending applies that everywhere.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/kvm_host.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/sched/debooster.h>
#include <linux/string.h>

#include "kvm_cache_regs.h"
#include "lapic.h"
#include "strict_boost.h"

/* Why a vCPU spins, as far as the host can know. Part of the trace: the numbers stay. */
enum boost_cause {
	BOOST_CAUSE_LOCK,
	BOOST_CAUSE_IPI,
	BOOST_CAUSE_PENDING,
	BOOST_CAUSE_SHARED,
};

/* What is found about a candidate. Part of the trace: the numbers stay. */
enum boost_verdict {
	BOOST_CHOSEN,
	BOOST_RUNS,		/* or is not ready to */
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

static const char * const boost_mode_names[] = { "off", "observe", "track", "pending", "shared" };
int kvm_strict_boost_mode __read_mostly;

static int boost_set_mode(const char *value, const struct kernel_param *param)
{
	int chosen = sysfs_match_string(boost_mode_names, value);

	if (chosen < 0)
		return chosen;
	WRITE_ONCE(kvm_strict_boost_mode, chosen);
	return 0;
}

static int boost_get_mode(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%s\n", boost_mode_names[READ_ONCE(kvm_strict_boost_mode)]);
}

static const struct kernel_param_ops boost_mode_ops = {
	.set = boost_set_mode,
	.get = boost_get_mode,
};
module_param_cb(strict_boost, &boost_mode_ops, NULL, 0644);

void __kvm_strict_boost_loaded(struct kvm_vcpu *vcpu)
{
	u64 asked = READ_ONCE(vcpu->arch.strict_boost.boosted_ns);
	u64 now = local_clock();
	/* Clocks of two CPUs may be a little apart. */
	u64 after = now > asked ? now - asked : 0;

	WRITE_ONCE(vcpu->arch.strict_boost.boosted_ns, 0);
	vcpu->stat.strict_boost_ran++;
	vcpu->stat.strict_boost_ran_ns += after;
	if (after < NSEC_PER_MSEC / 2)
		vcpu->stat.strict_boost_ran_soon++;
	trace_kvm_strict_boost_ran(vcpu, after);
}

static bool boost_runnable(struct kvm_vcpu *vcpu)
{
	return kvm_arch_dy_runnable(vcpu) || !list_empty_careful(&vcpu->async_pf.done);
}

/* As KVM has it: one that spun itself is a candidate every other time that it is asked. */
static bool boost_spins(struct kvm_vcpu *vcpu)
{
	bool eligible = !vcpu->spin_loop.in_spin_loop || vcpu->spin_loop.dy_eligible;

	if (vcpu->spin_loop.in_spin_loop)
		kvm_vcpu_set_dy_eligible(vcpu, !vcpu->spin_loop.dy_eligible);
	return !eligible;
}

/* KVM's own rules, as in kvm_vcpu_on_spin(). */
static enum boost_verdict boost_judge_stock(struct kvm_vcpu *vcpu, bool kernel_only)
{
	if (kvm_vcpu_is_blocking(vcpu) && !boost_runnable(vcpu))
		return BOOST_BLOCKED;
	if (READ_ONCE(vcpu->preempted) && kernel_only &&
	    !kvm_arch_dy_has_pending_interrupt(vcpu) && !kvm_arch_vcpu_preempted_in_kernel(vcpu))
		return BOOST_USER;
	return boost_spins(vcpu) ? BOOST_SPINS : BOOST_CHOSEN;
}

/* Who may hold the lock: preempted in kernel mode, or just given it by KVM_HC_KICK_CPU. */
static enum boost_verdict boost_judge_lock(struct kvm_vcpu *vcpu, bool kernel_only)
{
	if (kvm_vcpu_is_blocking(vcpu) && !boost_runnable(vcpu))
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
	bool stock;
	int tries;	/* refusals for want of competition that are left */
	int questions;	/* questions that are left */
	int boosted;
};

static enum boost_verdict boost_judge(const struct boost_look *look, struct kvm_vcpu *vcpu,
				      enum boost_cause cause)
{
	if (!READ_ONCE(vcpu->ready))
		return BOOST_RUNS;

	switch (cause) {
	case BOOST_CAUSE_IPI:
		return kvm_strict_boost_awaits(look->me, vcpu) ? BOOST_CHOSEN : BOOST_NO_RECEIVER;
	case BOOST_CAUSE_PENDING:
		return kvm_strict_boost_pending(vcpu) ? BOOST_CHOSEN : BOOST_NO_RECEIVER;
	case BOOST_CAUSE_SHARED:
		return kvm_strict_boost_owes(vcpu) ? BOOST_CHOSEN : BOOST_NO_RECEIVER;
	default:
		return look->stock ? boost_judge_stock(vcpu, look->kernel_only) :
				     boost_judge_lock(vcpu, look->kernel_only);
	}
}

static bool boost_is_over(const struct boost_look *look)
{
	return !look->tries || !look->questions;
}

/* Asks the scheduler for @vcpu. Returns whether the pass is over. */
static bool boost_ask(struct boost_look *look, struct kvm_vcpu *vcpu, enum boost_cause cause)
{
	struct kvm_vcpu *me = look->me;
	int answer;

	/* Before the question: the target may have run when this thread is back. */
	WRITE_ONCE(vcpu->arch.strict_boost.boosted_ns, local_clock());
	answer = kvm_vcpu_yield_to(vcpu);
	trace_kvm_strict_boost_answer(me, vcpu, cause, answer);
	look->questions--;

	if (answer > 0) {
		me->stat.strict_boost_agreed++;
		WRITE_ONCE(me->kvm->last_boosted_vcpu, vcpu->vcpu_idx);
		look->boosted++;
		return answer != YIELD_TO_KEPT || cause == BOOST_CAUSE_LOCK || boost_is_over(look);
	}
	me->stat.strict_boost_refused++;
	WRITE_ONCE(vcpu->arch.strict_boost.boosted_ns, 0);
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
 * Asks for those whom the cause makes candidates, beginning behind the last that was boosted.
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
		if (!vcpu || vcpu == look->me || !boost_is_there(look, vcpu, where))
			continue;
		verdict = boost_judge(look, vcpu, cause);
		if (verdict == BOOST_RUNS)
			continue;
		trace_kvm_strict_boost_judged(look->me, vcpu, cause, verdict);
		if (verdict == BOOST_CHOSEN && boost_ask(look, vcpu, cause))
			return true;
	}
	return false;
}

/*
 * Has the receivers run. Those that wait for other pCPUs come first: if they can be had without
 * giving way to them, they take the IPI while this vCPU still runs.
 */
static void boost_receivers(struct boost_look *look, enum boost_cause cause)
{
	if (!boost_pass(look, cause, BOOST_ELSEWHERE))
		boost_pass(look, cause, BOOST_HERE);
}

/* How many vCPUs have not taken an IPI of @me, whether they run or not. */
static u32 boost_awaited(struct kvm_vcpu *me)
{
	struct kvm_vcpu *vcpu;
	unsigned long i;
	u32 count = 0;

	kvm_for_each_vcpu(i, vcpu, me->kvm)
		count += kvm_strict_boost_awaits(me, vcpu);
	return count;
}

/* A vCPU has spun for long. Returns false if this is left to KVM's own rules. */
bool kvm_strict_boost_on_spin(struct kvm_vcpu *me, bool kernel_only)
{
	int mode = READ_ONCE(kvm_strict_boost_mode);
	bool tracks = kvm_strict_boost_mode_tracks(mode);
	struct boost_look look = {
		.me = me,
		.kernel_only = kernel_only,
		.stock = mode == KVM_STRICT_BOOST_OBSERVE,
		.tries = BOOST_TRIES,
		.questions = BOOST_QUESTIONS,
	};

	if (mode == KVM_STRICT_BOOST_OFF)
		return false;

	me->stat.strict_boost_looks++;
	if (trace_kvm_strict_boost_look_enabled() && !me->arch.guest_state_protected)
		trace_kvm_strict_boost_look(me, kvm_rip_read(me),
					    kvm_x86_call(get_cpl)(me) == 0,
					    boost_awaited(me));

	kvm_vcpu_set_in_spin_loop(me, true);
	if (tracks)
		boost_receivers(&look, BOOST_CAUSE_IPI);
	if (!look.boosted && !boost_is_over(&look) &&
	    (mode == KVM_STRICT_BOOST_PENDING || (tracks && kvm_vcpu_apicv_active(me))))
		boost_receivers(&look, BOOST_CAUSE_PENDING);
	me->stat.strict_boost_ipi_looks += look.boosted != 0;
	if (!look.boosted && !boost_is_over(&look))
		boost_pass(&look, BOOST_CAUSE_LOCK, BOOST_ANYWHERE);
	if (!look.boosted && !boost_is_over(&look) && mode == KVM_STRICT_BOOST_SHARED)
		boost_receivers(&look, BOOST_CAUSE_SHARED);
	if (!look.boosted)
		me->stat.strict_boost_nobody++;
	kvm_vcpu_set_in_spin_loop(me, false);

	/* Ensure vcpu is not eligible during next spinloop */
	kvm_vcpu_set_dy_eligible(me, false);
	return true;
}
