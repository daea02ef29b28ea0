/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ATTC: a model of the protocol for Spin.
 *
 * What is modelled: cores with two levels of TLB, one miss at a time each; the addressable TLB
 * (ATLB); the inverse table; guest and host page tables; updates by guests and by the host; pages
 * that others displace from ATLB, inverse table and TLBs at any time; messages under way to each
 * core. One step is one access to what is shared. A line of memory is read and rewritten in one
 * step where its owner keeps it meanwhile. Sections and figures named are the ATTC paper's.
 *
 * A "page" is a guest-virtual page of one VM. A translation leads from a page to a system-physical
 * frame; it may be used as long as each of its two table entries is true, or is revoked by an
 * update that has not ended. A core may run any VM at any time: more than a scheduler does.
 *
 * What is left out: page sizes, native machines, unmapped pages, more rights, messages
 * for plain insertions into a set, and frames used again, as an old entry that has become true by
 * chance would only hide a fault.
 *
 * Chosen by -D, see ./check: PAGES, VMS, SETS, SYNONYMS, MOVES, ONE_LEVEL, ATOMIC_WALKS, DIRTY,
 * NO_REPLACER, PAPER_..., CORRECTED_INVARIANT, FAULT_..., LIVENESS; WALKS: walk caches are there and
 * table pages move (attc-walks.pml), with STILL: pages do not.
 */
#ifdef STILL
#define WALKS
#define ONE_LEVEL
#define MOVES	0
#endif
#ifndef PAGES
#define PAGES	1
#endif
#ifndef VMS
#define VMS	1
#endif
#ifndef SETS
#define SETS	1		/* of the ATLB */
#endif
#ifndef MOVES
#define MOVES	1		/* updates by the host */
#endif
#define CORES	2

/* Each update leads to something new: guest pages and frames are numbered by how often that was. */
#define GUEST_PAGES	(2 * PAGES)
#define FRAMES		(2 * GUEST_PAGES)
#define EMPTY		FRAMES
#define NO_PAGE		PAGES

#define BIT(n)		(1 << (n))
#define VM(n)		((n) % VMS)
#define SET(n)		((n) % SETS)
#ifdef SYNONYMS
#define FIRST(n)	0
#else
#define FIRST(n)	(n)
#endif

/* Who sends messages. */
#define REPLACER	0
#define HOST		1
#define GUEST(v)	(2 + (v))

/* Page tables: an entry is as at first, being changed, or changed. */
#define OLD	0
#define CHANGING 1
#define NEW	2
byte guest_entry[PAGES];
byte host_entry[GUEST_PAGES];
#define GUEST_PAGE(n)	(guest_entry[n] == OLD -> FIRST(n) : PAGES + (n))
#define FRAME(g)	(host_entry[g] == OLD -> (g) : GUEST_PAGES + (g))

byte l1[CORES * PAGES];
#ifndef ONE_LEVEL
byte l2[CORES * PAGES];
#endif
byte atlb[PAGES];
byte pointers[FRAMES];		/* the inverse table: for each frame the ATLB sets it points to */
bit held[FRAMES];		/* the line is kept by who replaces a pointer of it */
#define L1(c, n)	l1[(c) * PAGES + (n)]
#ifdef ONE_LEVEL
#define L2(c, n)	l1[(c) * PAGES + (n)]
#else
#define L2(c, n)	l2[(c) * PAGES + (n)]
#endif

#ifdef WALKS
#include "attc-walks.pml"
#else
#define LINES		SETS
#define TAKE_WALKS	skip
#endif

/* The line of an ATLB set has one owner from its first message until all cores have answered. */
bit owned[LINES];
#ifdef FAULT_LINE_NOT_OWNED
#define OWN(s)		skip
#else
#define OWN(s)		owned[s] = 1
#endif
#define FREE(n)		(!owned[SET(n)])

byte missing[CORES];		/* the page that a core is getting, and whether a message met it */
bit squashed[CORES];

/* Messages: who waits for the core's answer, and the set that each sender names. */
byte inbox[CORES];
byte about[2 + VMS];
bit updating[2 + VMS];

#ifdef DIRTY
bit page_dirty[PAGES];		/* in the guest's table */
bit cleaning;
bit atlb_dirty[PAGES];
bit tlb_dirty[CORES * PAGES];
#define TLB_DIRTY(c, n)	tlb_dirty[(c) * PAGES + (n)]
#endif

/* True, or revoked by an update that has not ended. */
#define GUEST_USABLE(n, g) \
	((g) == FIRST(n) && guest_entry[n] != NEW || (g) == PAGES + (n) && guest_entry[n] != OLD)
#define HOST_USABLE(g, f) \
	((f) == (g) && host_entry[g] != NEW || (f) == GUEST_PAGES + (g) && host_entry[g] != OLD)
#define USABLE(n, f) \
	(GUEST_USABLE(n, (f) % GUEST_PAGES) && HOST_USABLE((f) % GUEST_PAGES, f))

#if PAGES > 1
#define EVERY_PAGE(x)	x(0); x(1)
#define ALL_PAGES(x)	(x(0) && x(1))
#else
#define EVERY_PAGE(x)	x(0)
#define ALL_PAGES(x)	x(0)
#endif

#include "attc-core.pml"
#include "attc-updates.pml"

/* A frame that no update of the host is revoking. */
#define CURRENT(f)	((f) >= GUEST_PAGES || host_entry[f] == OLD)
#define POINTED(n, f)	((f) == EMPTY || !CURRENT(f) || (pointers[f] & BIT(SET(n))))
#define ATLB_POINTED(n)	POINTED(n, atlb[n])
#define TLB_POINTED(n) \
	(POINTED(n, L1(0, n)) && POINTED(n, L2(0, n)) && \
	 POINTED(n, L1(1, n)) && POINTED(n, L2(1, n)))
#ifdef PAPER_INVARIANT
/* "For every valid ATLB entry, there must be a pointer in the INVTBL that points to it." */
#define INVARIANT	ALL_PAGES(ATLB_POINTED)
#endif
#ifdef CORRECTED_INVARIANT
#define INVARIANT	(ALL_PAGES(ATLB_POINTED) && ALL_PAGES(TLB_POINTED))
#endif

#ifdef INVARIANT
proctype monitor()
{
end:
	do
	:: !(INVARIANT) -> assert(false)
	od
}
#endif

init
{
	byte i;

	d_step {
		do
		:: i < CORES * PAGES ->
			l1[i] = EMPTY;
#ifndef ONE_LEVEL
			l2[i] = EMPTY;
#endif
			i++
		:: else -> break
		od;
		i = 0;
		do
		:: i < PAGES -> atlb[i] = EMPTY; i++
		:: else -> break
		od;
		missing[0] = NO_PAGE;
		missing[1] = NO_PAGE;
#ifdef WALKS
		i = 0;
		do
		:: i < CORES ->
			walk_cache[i] = NONE;
			host_cache[i] = NONE;
			NESTED_TLB(i, 0) = NONE;
			NESTED_TLB(i, 1) = NONE;
			i++
		:: else -> break
		od;
#endif
		i = 0
	}
	atomic {
		run host();
		run guest(0);
#if VMS > 1
		run guest(1);
#endif
#ifndef NO_REPLACER
		run replacer();
#endif
#ifndef STILL
		run displacer();
#endif
		run tlb_port(0);
		run tlb_port(1);
		run core(0);
		run core(1);
#ifdef INVARIANT
		run monitor()
#endif
	}
}

#ifdef LIVENESS
/* Every update ends, whatever the cores do. */
#define ENDS(who)	([] (updating[who] -> <> !updating[who]))
ltl ends { ENDS(HOST) && ENDS(GUEST(0)) }
#endif
