/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A part of attc.pml: writes of ATLB sets and their messages, the TLBs that take these, and the
 * cores, which use translations, walk, and store.
 */
/* The cores whose caches hold an ATLB set's line. The corrected rule does not ask. */
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
	DROP_DIRTY; TAKE_WALKS; printf("core %d: has dropped set %d\n", c, set); from = 0; set = 0
#ifdef ONE_LEVEL
#define TAKE(x) \
	:: d_step { TAKEN(x); SQUASH; UNCACHE; EVERY_PAGE(DROP_L1); ANSWER; END_TAKE }
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
#define CLEAR_DIRTY(n) \
	if :: L1(c, n) == EMPTY && L2(c, n) == EMPTY -> TLB_DIRTY(c, n) = 0 :: else fi
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
#ifdef STILL
#undef USE
#define USE(n)
#endif
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
#ifdef STILL
#define DISPLACE(n)
#else
#ifdef ONE_LEVEL
#define DISPLACE(n)	:: d_step { L1(c, n) != EMPTY -> L1(c, n) = EMPTY; CLEAR_DIRTY(n) }
#else
#define DISPLACE(n) \
	:: d_step { L1(c, n) != EMPTY && L2(c, n) != EMPTY -> L1(c, n) = EMPTY } \
	:: d_step { L1(c, n) == EMPTY && L2(c, n) != EMPTY -> L2(c, n) = EMPTY; CLEAR_DIRTY(n) }
#endif
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
#ifdef STILL
/* Pages do not move: TLBs and ATLB are left out, and a core may walk at any time. */
#ifdef ATOMIC_WALKS
#define MISS(n) \
	:: d_step { \
		TABLE_LINES_FREE -> \
		printf("core %d: walks for page %d by what it has cached\n", c, n); \
		WALK_AT_ONCE \
	}
#else
#define MISS(n) \
	:: d_step { missing[c] = n }; \
		goto walk
#endif
#else
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
		ABSENT(n) && !FOUND(n) && !held[FRAME(GUEST_PAGE(n))] && TABLE_LINES_FREE -> \
		f = FRAME(GUEST_PAGE(n)); \
		printf("core %d: walks for page %d, which is in frame %d\n", c, n, f); \
		WALK_AT_ONCE; \
		POINT(n); \
		atlb[n] = f; \
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
#ifndef WALKS
#define TABLE_LINES_FREE 1
#define WALK_AT_ONCE	skip
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
#ifdef WALKS
	WALK_IN_STEPS;
#endif
#ifdef STILL
	d_step { GIVE_UP };
	goto idle;
#else
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
			printf("core %d: stores page %d, frame %d, in the ATLB\n",
				c, missing[c], f);
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
			printf("core %d: fills its TLBs with page %d, frame %d\n",
				c, missing[c], f);
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

