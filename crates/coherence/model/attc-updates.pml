/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* A part of attc.pml: what displaces entries and pointers, and the updates of guests and host. */

/*
 * Other pages displace entries of the ATLB. By the paper's invariant (2.3.2) only valid ATLB
 * entries need pointers, so their pointers may go with them; by the corrected rule pointers stay.
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
 * Other frames displace pointers. What a pointer stood for goes with it: the set is written and
 * every core has answered before the pointer is gone, and nobody else uses the line meanwhile.
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
			printf("inverse table: gives up the pointer from frame %d to set %d\n",
				f, set);
			RELEASE
		};
#endif
		WRITE_SET(NEEDS_WRITE, REPLACER, REWRITE_OF_FRAME);
		d_step {
#ifndef FAULT_POINTER_FREED_FIRST
			RELEASE;
#endif
			printf("inverse table: has displaced the pointer from frame %d to set %d\n",
				f, set);
			f = 0;
			set = 0
		}
#ifdef WALKS
	REPLACE_TABLE
#endif
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
#ifdef WALKS
#if GUEST_MOVES
	MOVE_GUEST_TABLE;
#endif
#endif
#ifndef STILL
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
#endif
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
#ifdef WALKS
	byte table_moves;
#endif
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
#ifdef WALKS
	MOVE_TABLES
#endif
	od
}

