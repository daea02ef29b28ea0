// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strict Boost: whom to run when a vCPU spins. After Ishiguro, Yasuno, Aublin and Kono, "Mitigating
 * Excessive vCPU Spinning in VM-Agnostic KVM", VEE 2021. What the scheduler makes of the wish is
 * another matter, see kernel/sched/debooster.c.
 *
 * How it is known what the spinner waits for. A vCPU that waits for acknowledgements has sent IPIs,
 * and their receivers have yet to take them: this is a fact that the host sees, whatever the guest
 * is and wherever its instruction pointer is. So if there are such receivers that could run and do
 * not, they are boosted, in user mode as well, and no others. If there are none, what is left to
 * wait for is a lock, or the like: then vCPUs that were preempted in kernel mode are boosted. One
 * that was woken from HLT holds no lock that others spin for, unless a lock was handed to it, which
 * paravirtual spinlocks tell by KVM_HC_KICK_CPU.
 *
 * The judgment can be wrong: a spinner for a lock may have sent an IPI that nobody waits for, to make
 * a CPU reschedule for example. Its receiver is then boosted in vain, takes the IPI, and is no
 * candidate any more: one boost for one IPI.
 *
 * How receivers are known. For each vCPU there is a bit for each sender of an IPI that it has not
 * taken, and a row of bits for each vector, of which guests use few. All without locks:
 *
 *	sender				receiver
 *	IRR[vector] = 1			row of vector = 0
 *	(barrier)			(barrier)
 *	row[sender] = 1			IRR[vector] = 0
 *
 * Not lost: let an IPI be pending, so that the last IRR[vector] = 0 came before the sender's
 * IRR[vector] = 1. The row was cleared before the former, the bit set after the latter: it stands.
 * Between its two steps the bit is missing, but it is the sender alone who asks for it.
 * Not kept: a bit may be set just after its IPI was taken. The sender looks at the IRR again and clears
 * it, unless the vector is pending from somebody else by then. In that case it goes when the vector is
 * next taken, or at the latest when the receiver is next put. A bit counts only while the vector is
 * pending in the receiver's IRR as well.
 *
 * Where the CPU delivers interrupts by itself (APICv, AVIC), nobody clears a row when a vector is
 * taken; the receiver does so when it is put, which is before it can be a candidate. Where it sends
 * IPIs by itself too, senders are not known. Then whoever has an interrupt pending is a candidate
 * after the known receivers; kvm.strict_boost=pending does so everywhere.
 *
 * Not tracked: NMI, INIT, SIPI and SMI, which are no vectors, and what is sent to oneself.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bitops.h>
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

#define BOOST_SHARED_SLOT	(KVM_STRICT_BOOST_SLOTS - 1)

/* Refusals of the scheduler, for want of competition, after which a look ends; KVM's own figure. */
#define BOOST_TRIES		3

/*
 * Receivers that one look boosts at most, where the scheduler can do so without taking the CPU from
 * the spinner. More of them have to wait for its next pause-loop exit.
 */
#define BOOST_AT_ONCE		16

static const char * const boost_mode_names[] = { "off", "observe", "track", "pending" };
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

/* The slot of a vector; with @add it gets one. -1: no IPI has had this vector yet. */
static int boost_slot(struct kvm_strict_boost_vm *vm, u8 vector, bool add)
{
	u8 seen;
	int i;

	for (i = 0; i < BOOST_SHARED_SLOT; i++) {
		seen = READ_ONCE(vm->vectors[i]);
		if (!seen && add)
			seen = cmpxchg(&vm->vectors[i], 0, vector) ?: vector;
		if (seen == vector)
			return i;
		if (!seen)
			return -1;
	}
	if (add && !test_bit(vector, vm->shared))
		set_bit(vector, vm->shared);
	return test_bit(vector, vm->shared) ? BOOST_SHARED_SLOT : -1;
}

static bool boost_vector_pending(struct kvm_lapic *apic, u8 vector)
{
	return kvm_lapic_get_reg(apic, APIC_IRR + 0x10 * (vector / 32)) & BIT(vector % 32);
}

/* Whether a vector of the slot waits for @vcpu; in the shared slot, one besides @but. */
static bool boost_slot_pending(struct kvm_vcpu *vcpu, int slot, u8 but)
{
	struct kvm_strict_boost_vm *vm = &vcpu->kvm->arch.strict_boost;
	struct kvm_lapic *apic = vcpu->arch.apic;
	unsigned int vector;

	/* What is posted is not in the IRR yet; which vectors it is, is not asked. */
	if (kvm_arch_dy_has_pending_interrupt(vcpu))
		return true;
	if (slot != BOOST_SHARED_SLOT) {
		vector = READ_ONCE(vm->vectors[slot]);
		return vector && boost_vector_pending(apic, vector);
	}
	for_each_set_bit(vector, vm->shared, 256) {
		if (vector != but && boost_vector_pending(apic, vector))
			return true;
	}
	return false;
}

/* Whether any interrupt waits for @vcpu, whoever it is from. */
static bool boost_any_pending(struct kvm_vcpu *vcpu)
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

void __kvm_strict_boost_sent(struct kvm_vcpu *from, struct kvm_vcpu *to, u8 vector)
{
	int slot = boost_slot(&from->kvm->arch.strict_boost, vector, true);
	unsigned long *row = to->arch.strict_boost.senders[slot];

	/*
	 * The bit comes after the IRR. With a bit that is set already nothing is to be done, and
	 * nothing to be ordered: the receiver has not cleared its row since.
	 */
	smp_mb();
	if (test_and_set_bit(from->vcpu_idx, row))
		return;
	from->stat.strict_boost_ipis++;

	/* Taken meanwhile, and the row perhaps cleared before the bit was set. */
	if (!boost_slot_pending(to, slot, 0) && test_and_clear_bit(from->vcpu_idx, row))
		from->stat.strict_boost_taken++;
}

/* Forgets the senders of a slot. To be called in the thread of @vcpu. */
static void boost_clear(struct kvm_vcpu *vcpu, int slot)
{
	unsigned long *row = vcpu->arch.strict_boost.senders[slot];
	int i, words = BITS_TO_LONGS(atomic_read(&vcpu->kvm->online_vcpus));

	for (i = 0; i < words; i++) {
		/* A full barrier: the IRR is cleared after this. */
		if (READ_ONCE(row[i]))
			vcpu->stat.strict_boost_taken += hweight_long(xchg(&row[i], 0));
	}
}

void __kvm_strict_boost_taken(struct kvm_vcpu *vcpu, u8 vector)
{
	int slot = boost_slot(&vcpu->kvm->arch.strict_boost, vector, false);

	if (slot < 0)
		return;
	if (slot == BOOST_SHARED_SLOT && boost_slot_pending(vcpu, slot, vector))
		return;
	boost_clear(vcpu, slot);
}

/*
 * Forgets senders whose IPIs are gone: taken by the CPU itself, gone with a reset, or taken between
 * the sender's two steps. What was set before the vector is found not pending is old, but a sender of
 * an old bit may send again meanwhile: then the vector is pending afterwards, and the bits come back.
 * Only such a sender can miss its bit, and only if it spins within these few instructions.
 */
static void boost_reconcile(struct kvm_vcpu *vcpu, int slot)
{
	unsigned long *row = vcpu->arch.strict_boost.senders[slot], old;
	int i, words = BITS_TO_LONGS(atomic_read(&vcpu->kvm->online_vcpus));

	for (i = 0; i < words; i++) {
		old = READ_ONCE(row[i]);
		if (!old)
			continue;
		/* Pairs with the barrier in __kvm_strict_boost_sent(). */
		smp_rmb();
		if (boost_slot_pending(vcpu, slot, 0))
			return;
		atomic_long_andnot(old, (atomic_long_t *)&row[i]);
		/* As above: who finds the bit set has made the vector pending before. */
		smp_mb__after_atomic();
		if (boost_slot_pending(vcpu, slot, 0))
			atomic_long_or(old, (atomic_long_t *)&row[i]);
		else
			vcpu->stat.strict_boost_taken += hweight_long(old);
	}
}

/* @vcpu leaves its CPU and can be a candidate from now on. */
void __kvm_strict_boost_put(struct kvm_vcpu *vcpu)
{
	int slot;

	if (!lapic_in_kernel(vcpu))
		return;
	for (slot = 0; slot < KVM_STRICT_BOOST_SLOTS; slot++)
		boost_reconcile(vcpu, slot);
}

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

/* Whether @to has not taken an IPI of @me. To be asked in the thread of @me. */
static bool boost_awaits(struct kvm_vcpu *me, struct kvm_vcpu *to)
{
	int slot;

	if (!lapic_in_kernel(to))
		return false;
	for (slot = 0; slot < KVM_STRICT_BOOST_SLOTS; slot++) {
		if (test_bit(me->vcpu_idx, to->arch.strict_boost.senders[slot]) &&
		    boost_slot_pending(to, slot, 0))
			return true;
	}
	return false;
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
	int tries;
	int boosted;
};

static enum boost_verdict boost_judge(const struct boost_look *look, struct kvm_vcpu *vcpu,
				      enum boost_cause cause)
{
	if (!READ_ONCE(vcpu->ready))
		return BOOST_RUNS;

	switch (cause) {
	case BOOST_CAUSE_IPI:
		return boost_awaits(look->me, vcpu) ? BOOST_CHOSEN : BOOST_NO_RECEIVER;
	case BOOST_CAUSE_PENDING:
		return boost_any_pending(vcpu) ? BOOST_CHOSEN : BOOST_NO_RECEIVER;
	default:
		return look->stock ? boost_judge_stock(vcpu, look->kernel_only) :
				     boost_judge_lock(vcpu, look->kernel_only);
	}
}

/* Asks the scheduler for @vcpu. Returns whether the look is over. */
static bool boost_ask(struct boost_look *look, struct kvm_vcpu *vcpu, enum boost_cause cause)
{
	struct kvm_vcpu *me = look->me;
	int answer;

	/* Before the question: the target may have run when this thread is back. */
	WRITE_ONCE(vcpu->arch.strict_boost.boosted_ns, local_clock());
	answer = kvm_vcpu_yield_to(vcpu);
	trace_kvm_strict_boost_answer(me, vcpu, cause, answer);

	if (answer > 0) {
		me->stat.strict_boost_agreed++;
		WRITE_ONCE(me->kvm->last_boosted_vcpu, vcpu->vcpu_idx);
		look->boosted++;
		return answer != YIELD_TO_KEPT || cause == BOOST_CAUSE_LOCK ||
		       look->boosted == BOOST_AT_ONCE;
	}
	me->stat.strict_boost_refused++;
	WRITE_ONCE(vcpu->arch.strict_boost.boosted_ns, 0);
	return answer < 0 && --look->tries == 0;
}

/* Asks for those whom the cause makes candidates, beginning behind the last that was boosted. */
static void boost_pass(struct boost_look *look, enum boost_cause cause)
{
	struct kvm *kvm = look->me->kvm;
	int n, nr = atomic_read(&kvm->online_vcpus);
	int last = READ_ONCE(kvm->last_boosted_vcpu);
	enum boost_verdict verdict;
	struct kvm_vcpu *vcpu;

	for (n = 1; n <= nr; n++) {
		vcpu = kvm_get_vcpu(kvm, (last + n) % nr);
		if (!vcpu || vcpu == look->me)
			continue;
		verdict = boost_judge(look, vcpu, cause);
		if (verdict == BOOST_RUNS)
			continue;
		trace_kvm_strict_boost_judged(look->me, vcpu, cause, verdict);
		if (verdict == BOOST_CHOSEN && boost_ask(look, vcpu, cause))
			return;
	}
}

/* How many vCPUs have not taken an IPI of @me, whether they run or not. */
static u32 boost_awaited(struct kvm_vcpu *me)
{
	struct kvm_vcpu *vcpu;
	unsigned long i;
	u32 count = 0;

	kvm_for_each_vcpu(i, vcpu, me->kvm)
		count += boost_awaits(me, vcpu);
	return count;
}

/* A vCPU has spun for long. Returns false if this is left to KVM's own rules. */
bool kvm_strict_boost_on_spin(struct kvm_vcpu *me, bool kernel_only)
{
	int mode = READ_ONCE(kvm_strict_boost_mode);
	struct boost_look look = {
		.me = me,
		.kernel_only = kernel_only,
		.stock = mode == KVM_STRICT_BOOST_OBSERVE,
		.tries = BOOST_TRIES,
	};

	if (mode == KVM_STRICT_BOOST_OFF)
		return false;

	me->stat.strict_boost_looks++;
	if (trace_kvm_strict_boost_look_enabled() && !me->arch.guest_state_protected)
		trace_kvm_strict_boost_look(me, kvm_rip_read(me),
					    kvm_x86_call(get_cpl)(me) == 0,
					    boost_awaited(me));

	kvm_vcpu_set_in_spin_loop(me, true);
	if (mode == KVM_STRICT_BOOST_TRACK)
		boost_pass(&look, BOOST_CAUSE_IPI);
	if (!look.boosted && (mode == KVM_STRICT_BOOST_PENDING ||
			      (mode == KVM_STRICT_BOOST_TRACK && kvm_vcpu_apicv_active(me))))
		boost_pass(&look, BOOST_CAUSE_PENDING);
	me->stat.strict_boost_ipi_looks += look.boosted != 0;
	if (!look.boosted && look.tries)
		boost_pass(&look, BOOST_CAUSE_LOCK);
	if (!look.boosted)
		me->stat.strict_boost_nobody++;
	kvm_vcpu_set_in_spin_loop(me, false);

	/* Ensure vcpu is not eligible during next spinloop */
	kvm_vcpu_set_dy_eligible(me, false);
	return true;
}
