/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ATTC: a model of the protocol for Spin.
 *
 * What is modelled: cores with two levels of TLB, one miss at a time each; the addressable TLB (ATLB);
 * the inverse table; guest and host page tables; updates by guests and by the host; pages that others
 * displace from ATLB, inverse table and TLBs at any time; messages that are under way to each core.
 * One step is one access to what is shared. A line of memory is read and rewritten in one step where
 * its owner keeps it meanwhile. Sections and figures named below are the ATTC paper's.
 *
 * A "page" is a guest-virtual page of one VM. A translation leads from a page to a system-physical
 * frame; it may be used as long as each of its two table entries is true, or is revoked by an update
 * that has not ended. A core may run any VM at any time, which allows more than a scheduler does.
 *
 * What is left out: page sizes, walk caches, natively run programs, unmapped pages, more rights, and
 * frames used again, as an old entry that has become true by chance would only hide a fault.
 *
 * Chosen by -D, see ./check: PAGES, VMS, SETS, SYNONYMS, MOVES, ONE_LEVEL,
 * ATOMIC_WALKS, DIRTY, PAPER_..., MENDED_INVARIANT, FAULT_..., LIVENESS.
 */
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
bit held[FRAMES];		/* the line of the inverse table is kept by who replaces a pointer */
#define L1(c, n)	l1[(c) * PAGES + (n)]
#ifdef ONE_LEVEL
#define L2(c, n)	l1[(c) * PAGES + (n)]
#else
#define L2(c, n)	l2[(c) * PAGES + (n)]
#endif

/* The line of an ATLB set has one owner from its first message until all cores have answered. */
bit owned[SETS];
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

/* The cores whose caches hold an ATLB set's line. The mended rule does not ask. */
#ifdef FAULT_SHARERS_ONLY
byte cached[CORES];
#define CACHE(c, s)	cached[c] = cached[c] | BIT(s)
#define ASKED(c, s)	(cached[c] & BIT(s))
#else
#define CACHE(c, s)	skip
#define ASKED(c, s)	1
#endif
#ifdef FAULT_VICTIM_SKIPPED
#define SKIPPED(c)	((c) == CORES - 1)
#else
#define SKIPPED(c)	0
#endif
#define SEND_TO(c, from, s) \
	if :: ASKED(c, s) && !SKIPPED(c) -> inbox[c] = inbox[c] | BIT(from) :: else fi
#define SEND(from, s)	about[from] = s; SEND_TO(0, from, s); SEND_TO(1, from, s)
#define ANSWERED(from)	(!((inbox[0] | inbox[1]) & BIT(from)))

/* Drops from an ATLB set: a guest its VM's entries, the host and the replacer those of a frame. */
#define DROP(n, s, doomed)	if :: SET(n) == s && (doomed) -> atlb[n] = EMPTY :: else fi
#define DROP_OF_VM(n)	DROP(n, set, VM(n) == v)
#define DROP_OF_FRAME(n) DROP(n, set, atlb[n] == f)
#define IN_SET(n)	(SET(n) == set && atlb[n] == f)
#if PAGES > 1
#define IS_IN_SET	(IN_SET(0) || IN_SET(1))
#else
#define IS_IN_SET	IN_SET(0)
#endif

#ifdef FAULT_TORN_WRITE
/* Figure 5 to the letter: step 2 reads the set, step 4 writes what is left of what was read. */
#define READ_LOCALS	byte kept[PAGES];
#define READ_ONE(n)	kept[n] = atlb[n]
#define READ_SET	d_step { EVERY_PAGE(READ_ONE) }
#define KEEP_OF_VM(n) \
	if :: SET(n) == set -> atlb[n] = (VM(n) == v -> EMPTY : kept[n]) :: else fi; kept[n] = 0
#define KEEP_OF_FRAME(n) \
	if :: SET(n) == set -> atlb[n] = (kept[n] == f -> EMPTY : kept[n]) :: else fi; kept[n] = 0
#define REWRITE_OF_VM	EVERY_PAGE(KEEP_OF_VM)
#define REWRITE_OF_FRAME EVERY_PAGE(KEEP_OF_FRAME)
#define WRITE_SET(needs, from, rewrite) \
	if \
	:: READ_SET; \
		d_step { !owned[set] -> rewrite; OWN(set); SEND(from, set) }; \
		d_step { ANSWERED(from) -> owned[set] = 0; about[from] = 0 } \
	fi
#else
#define READ_LOCALS
#define REWRITE_OF_VM	EVERY_PAGE(DROP_OF_VM)
#define REWRITE_OF_FRAME EVERY_PAGE(DROP_OF_FRAME)
/* Reads and writes a set with its line kept, and waits until every core has answered. */
#define WRITE_SET(needs, from, rewrite) \
	if \
	:: d_step { !owned[set] && (needs) -> rewrite; OWN(set); SEND(from, set) }; \
		d_step { ANSWERED(from) -> owned[set] = 0; about[from] = 0 } \
	:: d_step { !owned[set] && !(needs) -> skip } \
	fi
#endif

/* The message at a core: what is being fetched, then the L2, then the L1. */
#define MATCHES(n)	(SET(n) == set)
#ifdef FAULT_NO_SQUASH
#define SQUASH		skip
#else
#define SQUASH \
	if :: missing[c] != NO_PAGE && MATCHES(missing[c]) -> squashed[c] = 1 :: else fi
#endif
#define DROP_L1(n)	if :: MATCHES(n) -> L1(c, n) = EMPTY :: else fi
#ifdef FAULT_SET_MISSED
#define DROP_L2(n)	skip
#else
#define DROP_L2(n)	if :: MATCHES(n) -> L2(c, n) = EMPTY :: else fi
#endif
#ifdef FAULT_L1_FIRST
#define DROP_FIRST	EVERY_PAGE(DROP_L1)
#define DROP_LAST	EVERY_PAGE(DROP_L2)
#else
#define DROP_FIRST	EVERY_PAGE(DROP_L2)
#define DROP_LAST	EVERY_PAGE(DROP_L1)
#endif
#ifdef FAULT_SHARERS_ONLY
#define UNCACHE		cached[c] = cached[c] & ~BIT(set)
#else
#define UNCACHE		skip
#endif
/* A planted fault: the message waits until the core has what it fetches. */
#ifdef FAULT_WAIT_FOR_WALK
#define MAY_TAKE	(missing[c] == NO_PAGE)
#else
#define MAY_TAKE	1
#endif
#define TAKEN(x) \
	(inbox[c] & BIT(x)) && MAY_TAKE -> from = x; set = about[x]
#define ANSWER		inbox[c] = inbox[c] & ~BIT(from)
#define END_TAKE \
	DROP_DIRTY; printf("core %d: has dropped set %d\n", c, set); from = 0; set = 0
#ifdef ONE_LEVEL
#define TAKE(x)		:: d_step { TAKEN(x); SQUASH; UNCACHE; EVERY_PAGE(DROP_L1); ANSWER; END_TAKE }
#else
#ifdef FAULT_ACKED_EARLY
#define TAKE(x) \
	:: d_step { TAKEN(x); ANSWER }; \
		d_step { SQUASH; UNCACHE; DROP_FIRST; DROP_LAST; END_TAKE }
#else
#define TAKE(x) \
	:: d_step { TAKEN(x); SQUASH; UNCACHE; DROP_FIRST }; \
		d_step { DROP_LAST; ANSWER; END_TAKE }
#endif
#endif
#ifdef DIRTY
#define CLEAR_DIRTY(n)	if :: L1(c, n) == EMPTY && L2(c, n) == EMPTY -> TLB_DIRTY(c, n) = 0 :: else fi
#define DROP_DIRTY	EVERY_PAGE(CLEAR_DIRTY)
#else
#define CLEAR_DIRTY(n)	skip
#define DROP_DIRTY	skip
#endif

proctype tlb_port(byte c)
{
	byte from, set;

end:
	do
	TAKE(REPLACER)
	TAKE(HOST)
	TAKE(GUEST(0))
#if VMS > 1
	TAKE(GUEST(1))
#endif
	od
}

/* An access by a translation of the L1. */
#ifdef PAPER_INVARIANT
#define CHECK_USE(n)	skip	/* the invariant alone is looked at */
#else
#define CHECK_USE(n)	assert(USABLE(n, L1(c, n)))
#endif
#define USE(n) \
	:: d_step { \
		L1(c, n) != EMPTY -> \
		printf("core %d: uses page %d, frame %d\n", c, n, L1(c, n)); \
		CHECK_USE(n) \
	}
#ifdef ONE_LEVEL
#define REFILL(n)
#else
#define REFILL(n) \
	:: d_step { \
		L1(c, n) == EMPTY && L2(c, n) != EMPTY -> \
		printf("core %d: takes page %d, frame %d, from its L2\n", c, n, L2(c, n)); \
		L1(c, n) = L2(c, n) \
	}
#endif
#ifdef ONE_LEVEL
#define DISPLACE(n)	:: d_step { L1(c, n) != EMPTY -> L1(c, n) = EMPTY; CLEAR_DIRTY(n) }
#else
#define DISPLACE(n) \
	:: d_step { L1(c, n) != EMPTY && L2(c, n) != EMPTY -> L1(c, n) = EMPTY } \
	:: d_step { L1(c, n) == EMPTY && L2(c, n) != EMPTY -> L2(c, n) = EMPTY; CLEAR_DIRTY(n) }
#endif
/* The pointer comes before what it is for, and the host's entry is read again after it. */
#ifdef FAULT_POINTER_LOST
#define POINT(n)	skip
#else
#define POINT(n)	pointers[f] = pointers[f] | BIT(SET(n))
#endif
#ifdef FAULT_POINTER_LATE
#define POINT_FIRST	skip
#else
#define POINT_FIRST	!held[f] -> POINT(missing[c])
#endif
#ifdef FAULT_NO_SECOND_LOOK
#define STILL_TRUE	1
#else
#define STILL_TRUE	(FRAME(g) == f)
#endif

#define ABSENT(n)	(L1(c, n) == EMPTY && L2(c, n) == EMPTY && FREE(n))
#ifdef DIRTY
#define FOUND_DIRTY(n)	dirty = atlb_dirty[n]
#else
#define FOUND_DIRTY(n)	skip
#endif
#ifdef ATOMIC_WALKS
/* As in the simulator: nothing comes between a walk's first read and the filled TLB. */
#define FILLED(n)	CACHE(c, SET(n)); L1(c, n) = f; L2(c, n) = f; f = 0
#define MISS(n) \
	:: d_step { \
		ABSENT(n) && FOUND(n) -> \
		f = FOUND_FRAME(n); \
		printf("core %d: takes page %d, frame %d, from the ATLB\n", c, n, f); \
		FILLED(n) \
	} \
	:: d_step { \
		ABSENT(n) && !FOUND(n) && !held[FRAME(GUEST_PAGE(n))] -> \
		f = FRAME(GUEST_PAGE(n)); \
		POINT(n); \
		atlb[n] = f; \
		printf("core %d: walks for page %d, which is in frame %d\n", c, n, f); \
		FILLED(n) \
	}
#else
#define MISS(n) \
	:: d_step { \
		ABSENT(n) && FOUND(n) -> \
		missing[c] = n; \
		f = FOUND_FRAME(n); \
		FOUND_DIRTY(n); \
		CACHE(c, SET(n)) \
	}; \
		goto fill \
	:: d_step { ABSENT(n) && !FOUND(n) -> missing[c] = n; CACHE(c, SET(n)) }; \
		goto walk
#endif

/* A store needs the dirty bit of the guest's table; an entry that has it does not look there. */
#ifdef DIRTY
#define STORE(n) \
	:: d_step { \
		L1(c, n) != EMPTY && TLB_DIRTY(c, n) -> \
		printf("core %d: stores to page %d by a dirty entry\n", c, n); \
		assert(page_dirty[n] || cleaning) \
	} \
	:: d_step { \
		L1(c, n) != EMPTY && !TLB_DIRTY(c, n) -> missing[c] = n \
	}; \
		goto store
#else
#define STORE(n)
#endif

#ifdef FAULT_VM_ID_IGNORED
#define FOUND(n)	(atlb[n] != EMPTY || atlb[0] != EMPTY)
#define FOUND_FRAME(n)	(atlb[n] != EMPTY -> atlb[n] : atlb[0])
#else
#define FOUND(n)	(atlb[n] != EMPTY)
#define FOUND_FRAME(n)	atlb[n]
#endif
/* The core may try again. */
#ifdef DIRTY
#define GIVE_UP		missing[c] = NO_PAGE; squashed[c] = 0; f = 0; g = 0; dirty = 0
#else
#define GIVE_UP		missing[c] = NO_PAGE; squashed[c] = 0; f = 0; g = 0
#endif

proctype core(byte c)
{
	byte f, g;
#ifdef DIRTY
	bit dirty;
#endif

idle:
end:
	do
	USE(0)
	REFILL(0)
	DISPLACE(0)
	MISS(0)
	STORE(0)
#if PAGES > 1
	USE(1)
	REFILL(1)
	DISPLACE(1)
	MISS(1)
	STORE(1)
#endif
	od;

#ifndef ATOMIC_WALKS
walk:	/* the guest's entry, the host's entry, the pointer, the host's entry again */
	if
	:: d_step {
			g = GUEST_PAGE(missing[c]);
#ifdef DIRTY
			dirty = page_dirty[missing[c]];
#endif
			skip
		}
	fi;
	d_step {
		f = FRAME(g);
		printf("core %d: walks for page %d and reads frame %d\n", c, missing[c], f)
	};
	d_step { POINT_FIRST };
	if
	:: d_step { !STILL_TRUE -> GIVE_UP };
		goto idle
	:: d_step { STILL_TRUE -> g = 0 }
	fi;
	if
	:: d_step { squashed[c] -> GIVE_UP };
		goto idle
	:: d_step {
			!squashed[c] && FREE(missing[c]) ->
			printf("core %d: stores page %d, frame %d, in the ATLB\n", c, missing[c], f);
#ifdef DIRTY
			atlb_dirty[missing[c]] = dirty;
#endif
			atlb[missing[c]] = f;
			CACHE(c, SET(missing[c]))
		}
	fi;

fill:
	if
	:: d_step { squashed[c] -> GIVE_UP }
	:: d_step {
			!squashed[c] ->
			printf("core %d: fills its TLBs with page %d, frame %d\n", c, missing[c], f);
			L1(c, missing[c]) = f;
			L2(c, missing[c]) = f;
#ifdef DIRTY
			TLB_DIRTY(c, missing[c]) = dirty;
#endif
#ifdef FAULT_POINTER_LATE
			skip
		};
		d_step {
			!held[f] ->
			POINT(missing[c]);
#endif
			GIVE_UP
		}
	fi;
	goto idle;
#endif

#ifdef DIRTY
store:	/* The walker sets the bit where the table still has the translation; the rest is told. */
	if
	:: d_step {
			squashed[c] || L1(c, missing[c]) != FRAME(GUEST_PAGE(missing[c])) ->
			GIVE_UP
		};
		goto idle
	:: d_step {
			!squashed[c] && L1(c, missing[c]) == FRAME(GUEST_PAGE(missing[c])) ->
			printf("core %d: sets the dirty bit of page %d\n", c, missing[c]);
			page_dirty[missing[c]] = 1
		}
	fi;
	d_step {
		FREE(missing[c]) || squashed[c] ->
		if
		:: !squashed[c] && L1(c, missing[c]) != EMPTY -> TLB_DIRTY(c, missing[c]) = 1
		:: else
		fi;
		if
#ifdef FAULT_DIRTY_LATE
		:: atlb[missing[c]] != EMPTY ->
#else
		:: !squashed[c] && atlb[missing[c]] != EMPTY ->
#endif
			atlb_dirty[missing[c]] = 1;
			printf("core %d: marks page %d dirty in the ATLB\n", c, missing[c])
		:: else
		fi;
		GIVE_UP
	};
	goto idle
#endif
}

/*
 * Other pages displace entries of the ATLB. By the paper's invariant (2.3.2) only valid ATLB entries
 * need pointers, so their pointers may go with them; by the mended rule pointers stay.
 */
#if PAGES > 1
#define ALONE(n)	!(SET(0) == SET(1) && atlb[1 - (n)] == atlb[n])
#else
#define ALONE(n)	1
#endif
#ifdef PAPER_POINTER
#define UNPOINT(n) \
	if \
	:: !held[atlb[n]] && ALONE(n) -> pointers[atlb[n]] = pointers[atlb[n]] & ~BIT(SET(n)) \
	:: else \
	fi
#else
#define UNPOINT(n)	skip
#endif
#define DISPLACE_ENTRY(n) \
	:: d_step { \
		atlb[n] != EMPTY && FREE(n) -> \
		printf("ATLB: displaces page %d, frame %d\n", n, atlb[n]); \
		UNPOINT(n); \
		FORGET_DIRTY(n); \
		atlb[n] = EMPTY \
	}
#ifdef DIRTY
#define FORGET_DIRTY(n)	atlb_dirty[n] = 0
#else
#define FORGET_DIRTY(n)	skip
#endif

proctype displacer()
{
end:
	do
	DISPLACE_ENTRY(0)
#if PAGES > 1
	DISPLACE_ENTRY(1)
#endif
#ifdef FAULT_SHARERS_ONLY
	:: d_step { cached[0] != 0 -> printf("core 0: its caches lose the set\n"); cached[0] = 0 }
	:: d_step { cached[1] != 0 -> printf("core 1: its caches lose the set\n"); cached[1] = 0 }
#endif
	od
}

/*
 * Other frames displace pointers. What a pointer stood for goes with it: the set is written and every
 * core has answered before the pointer is gone, and nobody else uses the line meanwhile.
 */
#define CHOOSE(x, s) \
	:: d_step { \
		MAY_REPLACE && (pointers[x] & BIT(s)) && !held[x] -> \
		f = x; \
		set = s; \
		held[x] = 1; \
		REPLACED \
	}
#ifdef PAPER_EVICTION
/* "The ATLB entry that the evicted entry is pointing to is also evicted": there may be none. */
#define NEEDS_WRITE	IS_IN_SET
#else
#ifdef FAULT_EVICT_SILENT
#define NEEDS_WRITE	0
#else
#define NEEDS_WRITE	1
#endif
#endif
#define RELEASE		pointers[f] = pointers[f] & ~BIT(set); held[f] = 0

proctype replacer()
{
	byte f, set;
#ifdef LIVENESS
	byte times;	/* so that no line is taken for ever by one replacement after the other */
#define MAY_REPLACE	(times < 2)
#define REPLACED	times++
#else
#define MAY_REPLACE	1
#define REPLACED	skip
#endif
	READ_LOCALS

end:
	do
	:: if
		CHOOSE(0, 0)
		CHOOSE(1, 0)
		CHOOSE(2, 0)
		CHOOSE(3, 0)
#if SETS > 1
		CHOOSE(0, 1)
		CHOOSE(1, 1)
		CHOOSE(2, 1)
		CHOOSE(3, 1)
#endif
#if FRAMES > 4
		CHOOSE(4, 0)
		CHOOSE(5, 0)
		CHOOSE(6, 0)
		CHOOSE(7, 0)
#if SETS > 1
		CHOOSE(4, 1)
		CHOOSE(5, 1)
		CHOOSE(6, 1)
		CHOOSE(7, 1)
#endif
#endif
		fi;
#ifdef FAULT_POINTER_FREED_FIRST
		d_step {
			printf("inverse table: gives up the pointer from frame %d to set %d\n", f, set);
			RELEASE
		};
#endif
		WRITE_SET(NEEDS_WRITE, REPLACER, REWRITE_OF_FRAME);
		d_step {
#ifndef FAULT_POINTER_FREED_FIRST
			RELEASE;
#endif
			printf("inverse table: has displaced the pointer from frame %d to set %d\n", f, set);
			f = 0;
			set = 0
		}
	od
}

/* A guest's update (Figure 5): the page whose entry it changes, or, with DIRTY, cleans. */
#ifdef FAULT_WRITE_IF_PRESENT
#define GUEST_WRITES	(atlb[n] != EMPTY)
#else
#ifdef FAULT_DIRTY_KEPT
#define GUEST_WRITES	0
#else
#define GUEST_WRITES	1
#endif
#endif
#ifdef DIRTY
#define CHANGE		page_dirty[n] = 0; cleaning = 1; printf("guest: cleans page %d\n", n)
#define DONE		cleaning = 0; printf("guest: page %d is clean\n", n)
#else
#define CHANGE		guest_entry[n] = CHANGING; printf("guest: moves page %d\n", n)
#define DONE		guest_entry[n] = NEW; printf("guest: update of page %d ends\n", n)
#endif

proctype guest(byte v)
{
	byte n, set;
	READ_LOCALS

	n = v;		/* the VM's first page */
	set = SET(n);
#ifdef FAULT_MESSAGE_FIRST
	updating[GUEST(v)] = 1;
#else
	d_step { updating[GUEST(v)] = 1; CHANGE };
#endif
	WRITE_SET(GUEST_WRITES, GUEST(v), REWRITE_OF_VM);
#ifdef FAULT_MESSAGE_FIRST
	d_step { CHANGE };
#endif
	d_step { DONE; updating[GUEST(v)] = 0; n = 0; set = 0 }
}

/* The host's update (Figure 6): the pointers of the old frame, then the sets they lead to. */
#ifdef FAULT_SYNONYM_MISSED
#define FOLLOWED(p)	((p) & 1)
#else
#define FOLLOWED(p)	(p)
#endif
#ifdef PAPER_PRECISE
/* "Precise (entries that map to given sPA) invalidations": a set without one is left as it is. */
#define HOST_WRITES	IS_IN_SET
#else
#define HOST_WRITES	1
#endif
#define MOVE(x) \
	:: d_step { \
		moves < MOVES && host_entry[x] == OLD -> \
		f = x; \
		moves++; \
		updating[HOST] = 1; \
		host_entry[x] = CHANGING; \
		printf("host: moves frame %d\n", f) \
	}

proctype host()
{
	byte f, set, todo, moves;
	READ_LOCALS

end:
	do
	:: if
		MOVE(0)
		MOVE(1)
#if PAGES > 1
		MOVE(2)
#if VMS > 1
		MOVE(3)
#endif
#endif
		fi;
		d_step { !held[f] -> todo = FOLLOWED(pointers[f]); pointers[f] = 0 };
		do
		:: d_step { todo & 1 -> todo = todo & ~1; set = 0 };
			goto write
		:: d_step { !(todo & 1) && (todo & 2) -> todo = 0; set = 1 };
write:			WRITE_SET(HOST_WRITES, HOST, REWRITE_OF_FRAME)
		:: d_step {
				todo == 0 ->
				host_entry[f] = NEW;
				updating[HOST] = 0;
				printf("host: update of frame %d ends\n", f);
				f = 0;
				set = 0
			};
			break
		od
	od
}

/* A frame that no update of the host is revoking. */
#define CURRENT(f)	((f) >= GUEST_PAGES || host_entry[f] == OLD)
#define POINTED(n, f)	((f) == EMPTY || !CURRENT(f) || (pointers[f] & BIT(SET(n))))
#define ATLB_POINTED(n)	POINTED(n, atlb[n])
#define TLB_POINTED(n) \
	(POINTED(n, L1(0, n)) && POINTED(n, L2(0, n)) && POINTED(n, L1(1, n)) && POINTED(n, L2(1, n)))
#ifdef PAPER_INVARIANT
/* "For every valid ATLB entry, there must be a pointer in the INVTBL that points to it." */
#define INVARIANT	ALL_PAGES(ATLB_POINTED)
#endif
#ifdef MENDED_INVARIANT
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
		run displacer();
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
ltl ends { [] (updating[HOST] -> <> !updating[HOST]) && [] (updating[GUEST(0)] -> <> !updating[GUEST(0)]) }
#endif
