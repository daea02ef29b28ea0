/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Strict Boost: the account of IPIs that a receiver has not taken, as
 * arch/x86/kvm/strict_boost_ipi.c keeps it, of one vector. Two senders, one receiver; every
 * interleaving of their steps. What is modelled: the bit in the IRR, the row of senders, taking,
 * leaving the pCPU. Left out: further vectors, which have rows of their own; reordering inside a
 * CPU, as each two steps that matter have a full barrier or an atomic operation between them
 * (faults below take the order away).
 *
 * The promise, at any time that a sender is not within its steps and asks:
 *   lost   an IPI that is not taken is in the account, unless the receiver is about to take it, or
 *          within the steps in which it reconciles its row, and then it is again after them;
 *   kept   one that is taken is not in it once its vector is not pending, nor after the vector was
 *          taken since the bit was set; no bit stands behind the receiver's steps with the vector
 *          not pending, but of a sender within its own; and nothing is in it when the receiver
 *          leaves its pCPU with the vector not pending.
 *
 * APICV: the CPU takes interrupts by itself and clears no row; then only reconciling does.
 */
#ifndef SENDS
#define SENDS 2
#endif

bool irr;		/* the vector's bit in the receiver's IRR */
bool bits[2];		/* the row: a bit for each sender */

/* For the promise only. */
bool waits[2];		/* this sender has an IPI that is not taken */
bool within[2];		/* it is within its steps */
bool before[2];		/* its bit stood when the receiver began to take the vector */
bool old[2];		/* and still does, not set anew */
bool taking;		/* the row is cleared, the IRR is about to be */
bool reconciling;
byte done;

inline take_irr()
{
	atomic {
		irr = false;
		waits[0] = false;
		waits[1] = false
	}
}

/* A row is one word: it is cleared at once. */
inline clear_row()
{
	d_step {
		bits[0] = false;
		bits[1] = false
	}
}

inline ask(me)
{
	atomic {
		assert(!waits[me] || (bits[me] && irr) || taking || reconciling);	/* lost */
		assert(!(bits[me] && irr && old[me] && !waits[me]))	/* kept */
	}
}

proctype Sender(byte me)
{
	byte n = 0;

	do
	:: n < SENDS ->
		within[me] = true;
#ifdef FAULT_BIT_FIRST
		atomic { bits[me] = true; before[me] = false; old[me] = false }
		atomic { irr = true; waits[me] = true }
#else
		atomic { irr = true; waits[me] = true }
		atomic { bits[me] = true; before[me] = false; old[me] = false }
#endif
		if
		:: !irr -> bits[me] = false
		:: else
		fi;
		within[me] = false;
		n++
	:: ask(me)
	:: n == SENDS -> break
	od;
	done++
}

inline take()
{
#ifdef APICV
	take_irr()
#else
	d_step { before[0] = bits[0]; before[1] = bits[1] }
#ifdef FAULT_IRR_FIRST
	take_irr();
	clear_row()
#else
#ifndef FAULT_NO_CLEAR
	atomic { clear_row(); taking = true }
#endif
	atomic { take_irr(); taking = false }
#endif
	d_step { old[0] = before[0] && bits[0]; old[1] = before[1] && bits[1] }
#endif
}

inline reconcile()
{
#ifdef FAULT_UNCHECKED
	if
	:: !irr -> clear_row()
	:: else
	fi
#else
	d_step { was0 = bits[0]; was1 = bits[1] }
	if
	:: (was0 || was1) && !irr ->
		atomic {
			reconciling = true;
			was0 = was0 && bits[0];
			was1 = was1 && bits[1];
			if :: was0 -> bits[0] = false :: else fi;
			if :: was1 -> bits[1] = false :: else fi
		}
#ifndef FAULT_NO_RESTORE
		if
		:: irr ->
			atomic {
				if :: was0 -> bits[0] = true :: else fi;
				if :: was1 -> bits[1] = true :: else fi
			}
		:: else
		fi;
#endif
		atomic { reconciling = false; was0 = false; was1 = false }
	:: else
	fi
#endif
}

proctype Receiver()
{
	bool was0, was1;

	do
	:: irr ->
		take();
#ifndef APICV
#ifndef FAULT_NO_SECOND_LOOK
		reconcile();
#endif
		assert(irr || !((bits[0] && !within[0]) || (bits[1] && !within[1])))	/* kept */
#endif
	:: reconcile()
	:: done == 2 && !irr -> break
	od;
	/* Left at rest, it has no bit once it has been off its pCPU. */
	reconcile();
	assert(!bits[0] && !bits[1])
}

init {
	atomic {
		run Sender(0);
		run Sender(1);
		run Receiver()
	}
}
