/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Shoot4U: a model of the guest's side for Spin; shoot4u.pml includes it with -DGUEST.
 *
 * A CPU changes between two address spaces, A and B, and keeps the entries of both, as with PCIDs.
 * Two others revoke a page of A each, one a page of B, and the CPU itself a third of A. The host
 * drops its entry, and a note is left, or it is interrupted. Left out: lazy TLBs, freed page tables,
 * mm_cpumask, in which the CPU always is, and notes that are overwritten, which costs a flush.
 */
#define A		0
#define B		1
#define SWITCHING	2	/* LOADED_MM_SWITCHING */
#define OWN		2	/* the page of A that the CPU itself revokes */

byte gen[2];		/* context.tlb_gen */
byte noted[5];		/* by generation: 1 + the mm of the note, or 0 */
bit changed[3];		/* pages of A whose entry in the page table is new */
bit over[3];		/* and whose shootdown has returned */

/* The CPU. */
byte loaded, cr3;	/* cpu_tlbstate.loaded_mm */
byte ctx_gen[2];	/* cpu_tlbstate.ctxs[].tlb_gen */
bit old[3];		/* entries of A in its TLB that are older than the page table */
byte ipi[2];		/* the generation of an interrupt that it has not taken; 0: there is none */

#ifdef FAULT_NO_SWITCHING
#define CONCERNS(mm)	(loaded == mm)
#else
#define CONCERNS(mm)	(loaded == mm || loaded == SWITCHING)
#endif
#ifdef FAULT_NO_CTX_ID
#define IS_NOTED(n)	(noted[n] != 0)
#else
#define IS_NOTED(n)	(noted[n] == 1 + A)
#endif

/* flush_tlb_func() for generation n and a page of A. */
#define FLUSH(n, page) \
	if \
	:: loaded != A || n <= ctx_gen[A] -> skip \
	:: else -> \
		if \
		:: n == ctx_gen[A] + 1 && n == gen[A] -> old[page] = 0 \
		:: else -> old[0] = 0; old[1] = 0; old[2] = 0 \
		fi; \
		ctx_gen[A] = gen[A] \
	fi

/* The CPU fills its TLB at any time, and uses what is there. */
#define TOUCH(page) \
	:: d_step { cr3 == A -> assert(!old[page] || !over[page]); old[page] = old[page] || !changed[page] }
#define TAKE(i) \
	:: d_step { ipi[i] != 0 && loaded != SWITCHING -> FLUSH(ipi[i], i); ipi[i] = 0 }

proctype cpu()
{
	byte next, seen, n;

end:
	do
	TOUCH(0)
	TOUCH(1)
	TOUCH(2)
	TAKE(0)
	TAKE(1)
	:: next = 1 - cr3;	/* switch_mm_irqs_off() */
		loaded = SWITCHING;
		seen = gen[next];
		d_step {
			if
			:: ctx_gen[next] < seen ->
				ctx_gen[next] = seen;
				if
				:: next == A -> old[0] = 0; old[1] = 0; old[2] = 0
				:: else
				fi
			:: else
			fi;
			cr3 = next
		};
		loaded = next;
		seen = 0
	:: loaded == A && !changed[OWN] ->
		changed[OWN] = 1;
		d_step { gen[A] = gen[A] + 1; n = gen[A] };
		d_step {	/* shoot4u_catch_up() */
			do
			:: ctx_gen[A] + 1 < n && IS_NOTED(ctx_gen[A] + 1) -> ctx_gen[A] = ctx_gen[A] + 1
			:: else -> break
			od
		};
		d_step { FLUSH(n, OWN); over[OWN] = 1; n = 0 }
	od
}

/* Revokes a page of A. */
proctype initiator(byte i)
{
	byte n;

	changed[i] = 1;
	d_step { gen[A] = gen[A] + 1; n = gen[A] };
	if
	:: CONCERNS(A) ->
		if
		:: d_step { old[i] = 0 };	/* the host serves it */
			noted[n] = 1 + A
		:: ipi[i] = n;
			ipi[i] == 0
		fi
	:: else
	fi;
	over[i] = 1
}

/* Revokes a page of B, which the host does for the CPU. */
proctype other_initiator()
{
	byte n;

	do
	:: gen[B] == 2 -> break
	:: gen[B] < 2 ->
		d_step { gen[B] = gen[B] + 1; n = gen[B] };
		if
		:: CONCERNS(B) -> noted[n] = 1 + B
		:: else
		fi
	od
}

init
{
	atomic {
		run cpu();
		run initiator(0);
		run initiator(1);
		run other_initiator()
	}
}
