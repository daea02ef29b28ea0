// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strict Boost: the account of IPIs that their receivers have not taken.
 *
 * For each vCPU there is a bit for each sender of such an IPI, and a row of bits for each vector.
 * Guests use few vectors. There are no locks:
 *
 *	sender				receiver
 *	IRR[vector] = 1			row of vector = 0
 *	(barrier)			(barrier)
 *	row[sender] = 1			IRR[vector] = 0
 *
 * No IPI is lost: let an IPI be pending. Then the last IRR[vector] = 0 came before the sender's
 * IRR[vector] = 1. The row was cleared before the former, and the bit set after the latter, so it
 * stands. Between the sender's two steps the bit is missing, but only the sender asks for it.
 * No bit is kept: a bit may be set just after its IPI was taken, or between the receiver's two
 * steps. The sender reads the IRR again and clears the former; the receiver reads its row again and
 * clears the latter. If the vector is pending from another sender by then, the bit goes when that
 * IPI is taken. A bit counts only while the vector is pending in the receiver's IRR as well.
 *
 * Where the CPU delivers interrupts by itself (APICv, AVIC), no row is cleared when a vector is
 * taken. The receiver does so when it is put, which is before it can be a candidate. While any
 * posted interrupt is pending it cannot tell which vector that is, and keeps its bits. Such a
 * sender boosts a vCPU that has an interrupt pending, though not its own.
 *
 * Not tracked: NMI, INIT, SIPI and SMI, which are no vectors, and what is sent to oneself.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/bitops.h>
#include <linux/kvm_host.h>

#include "lapic.h"
#include "strict_boost.h"

#define BOOST_SHARED_SLOT	(KVM_STRICT_BOOST_SLOTS - 1)

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

	/* A posted interrupt is not in the IRR yet, and its vector is not known here. */
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
bool kvm_strict_boost_pending(struct kvm_vcpu *vcpu)
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
	 * The bit comes after the IRR. If the bit is set already, nothing has to be done or
	 * ordered: the receiver has not cleared its row since.
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
 * Forgets senders whose IPIs are gone: taken by the CPU itself, gone with a reset, or taken
 * between the sender's two steps. What was set before the vector is found not pending is old, but
 * a sender of an old bit may send again meanwhile: then the vector is pending afterwards, and the
 * bits come back. Only such a sender can miss its bit, and only if it spins within these few
 * instructions.
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
		/* A sender may clear its own bit meanwhile, and has then counted it. */
		old &= atomic_long_fetch_andnot(old, (atomic_long_t *)&row[i]);
		/* A full barrier, as above: who finds the bit set has made the vector pending. */
		if (boost_slot_pending(vcpu, slot, 0))
			old &= atomic_long_fetch_or(old, (atomic_long_t *)&row[i]);
		vcpu->stat.strict_boost_taken += hweight_long(old);
	}
}

/*
 * The vector is not pending any more. A sender that set its bit when the row had been cleared and
 * the IRR had not has found its IPI pending, and left the bit.
 */
void __kvm_strict_boost_took(struct kvm_vcpu *vcpu, u8 vector)
{
	int slot = boost_slot(&vcpu->kvm->arch.strict_boost, vector, false);

	if (slot >= 0)
		boost_reconcile(vcpu, slot);
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

/* Whether @to has not taken an IPI of @me. To be asked in the thread of @me. */
bool kvm_strict_boost_awaits(struct kvm_vcpu *me, struct kvm_vcpu *to)
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

/* Whether @to has not taken an IPI of any vCPU. */
bool kvm_strict_boost_owes(struct kvm_vcpu *to)
{
	int slot, vcpus = atomic_read(&to->kvm->online_vcpus);

	if (!lapic_in_kernel(to))
		return false;
	for (slot = 0; slot < KVM_STRICT_BOOST_SLOTS; slot++) {
		if (!bitmap_empty(to->arch.strict_boost.senders[slot], vcpus) &&
		    boost_slot_pending(to, slot, 0))
			return true;
	}
	return false;
}
