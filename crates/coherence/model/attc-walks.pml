/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A part of attc.pml, with WALKS: table pages that move, and what walks cache of the entries that
 * lead to them. A walk cache holds the guest's entry that leads to the page's leaf table, the
 * nested TLB the host's entry for that table page, the host's walk cache the entry that leads to
 * the nested table's leaf table. Their promise: no walk goes on in a page by an entry that an
 * update has changed which has ended.
 *
 * The paper's messages name what guest-virtual pages have in common; these are named by no such
 * page. The rule beside the paper's, which is ours: a line of each VM's own behind the ATLB's sets.
 * Its message has a core drop all three, and the walk that it is in the middle of.
 */
#ifndef BEHIND_MOVES
#define BEHIND_MOVES	1	/* updates by the host behind the guest's table pages */
#endif
#ifndef NESTED_MOVES
#define NESTED_MOVES	1	/* and of its own */
#endif
#ifndef GUEST_MOVES
#define GUEST_MOVES	1	/* updates by the guest of its table */
#endif
#define WALK_LINE	SETS
#define LINES		(SETS + 1)

/* An entry and what it leads to: one of two, numbered by how often it has changed. */
byte table_entry;		/* the guest's, to its table page */
byte behind_entry[2];		/* the host's, for each of the guest's table pages */
byte nested_entry;		/* the host's, to its own table page */
#define NONE		4
#define TABLE		(table_entry == OLD -> 0 : 1)
#define BEHIND(t)	(behind_entry[t] == OLD -> (t) : 2 + (t))
#define NESTED		(nested_entry == OLD -> 0 : 1)
#define LED(entry, to_new) \
	((to_new) -> entry != OLD : entry != NEW)
#define BEHIND_USABLE(t, b)	((b) % 2 == (t) && LED(behind_entry[t], (b) > 1))

byte walk_cache[CORES];
byte nested_tlb[CORES * 2];
byte host_cache[CORES];
#define NESTED_TLB(c, t)	nested_tlb[(c) * 2 + (t)]
bit table_pointers[4];		/* the inverse table: from a table page's frame to the walk line */
bit table_held[4];

#ifdef FAULT_WALK_CACHES_KEPT
#define DROP_WALKS	skip
#else
#ifdef FAULT_NESTED_KEPT
#define DROP_NESTED	skip
#else
#define DROP_NESTED	NESTED_TLB(c, 0) = NONE; NESTED_TLB(c, 1) = NONE
#endif
#ifdef FAULT_HOST_WALKS_KEPT
#define DROP_HOST	skip
#else
#define DROP_HOST	host_cache[c] = NONE
#endif
#ifdef FAULT_NO_WALK_SQUASH
#define SQUASH_WALK	skip
#else
#define SQUASH_WALK	squashed[c] = (missing[c] != NO_PAGE)
#endif
#define DROP_WALKS	walk_cache[c] = NONE; DROP_NESTED; DROP_HOST; SQUASH_WALK
#endif
#define TAKE_WALKS	if :: set == WALK_LINE -> DROP_WALKS :: else fi

#ifdef FAULT_TABLE_POINTER_LOST
#define POINT_TABLE(b)	skip
#else
#ifdef PAPER_TABLE_FRAME
/* 2.3.2: "a pointer to the ATLB set which contains the guest virtual page": it has none. */
#define POINT_TABLE(b)	skip
#else
#define POINT_TABLE(b)	table_pointers[b] = 1
#endif
#endif

/* The whole of it in one step, as in the simulator. */
#define TABLE_LINES_FREE \
	(!table_held[0] && !table_held[1] && !table_held[2] && !table_held[3])
#define USE_HOST_CACHE \
	if :: host_cache[c] == NONE -> host_cache[c] = NESTED :: else fi; \
	assert(LED(nested_entry, host_cache[c] == 1))
#define WALK_AT_ONCE \
	if :: walk_cache[c] == NONE -> walk_cache[c] = TABLE :: else fi; \
	g = walk_cache[c]; \
	assert(LED(table_entry, g == 1)); \
	if \
	:: NESTED_TLB(c, g) == NONE -> \
		USE_HOST_CACHE; \
		NESTED_TLB(c, g) = BEHIND(g); \
		POINT_TABLE(BEHIND(g)) \
	:: else \
	fi; \
	assert(BEHIND_USABLE(g, NESTED_TLB(c, g))); \
	USE_HOST_CACHE; \
	g = 0

/* In steps: what is read is cached unless a message has come since; then the core tries again. */
#define UNLESS_SQUASHED(step) \
	if \
	:: d_step { squashed[c] -> GIVE_UP }; goto idle \
	:: d_step { !squashed[c] -> step } \
	fi
#define LOOK_UP(cached, value, true_value) \
	if \
	:: d_step { cached != NONE -> value = cached } \
	:: d_step { cached == NONE -> value = true_value }; \
		UNLESS_SQUASHED(cached = value) \
	fi
#ifdef FAULT_NO_SECOND_TABLE_LOOK
#define STILL_BEHIND	1
#else
#define STILL_BEHIND	(BEHIND(g) == f)
#endif
#ifdef FAULT_TABLE_POINTER_LATE
#define POINT_BEFORE	skip
#define POINT_AFTER	d_step { !table_held[f] -> POINT_TABLE(f) }
#else
#define POINT_BEFORE	d_step { !table_held[f] -> POINT_TABLE(f) }
#define POINT_AFTER	skip
#endif
#define WALK_IN_STEPS \
	LOOK_UP(walk_cache[c], g, TABLE); \
	if \
	:: d_step { NESTED_TLB(c, g) != NONE -> f = NESTED_TLB(c, g) } \
	:: d_step { NESTED_TLB(c, g) == NONE -> f = 0 }; \
		LOOK_UP(host_cache[c], f, NESTED); \
		UNLESS_SQUASHED(assert(LED(nested_entry, f == 1)); f = BEHIND(g)); \
		POINT_BEFORE; \
		if \
		:: d_step { !STILL_BEHIND -> GIVE_UP }; goto idle \
		:: d_step { STILL_BEHIND -> skip } \
		fi; \
		UNLESS_SQUASHED(NESTED_TLB(c, g) = f); \
		POINT_AFTER \
	fi; \
	UNLESS_SQUASHED(printf("core %d: walks for page %d by what it has cached\n", c, missing[c]); \
		assert(LED(table_entry, g == 1)); \
		assert(BEHIND_USABLE(g, f)); \
		g = 0; f = 0)

/* Other frames displace a table page's pointer: then its VM's walk line is written. */
#ifdef FAULT_TABLE_EVICT_SILENT
#define TABLE_EVICT_WRITES	0
#else
#define TABLE_EVICT_WRITES	1
#endif
#define CHOOSE_TABLE(x) \
	:: d_step { table_pointers[x] && !table_held[x] -> f = x; set = WALK_LINE; table_held[x] = 1 }
#define REPLACE_TABLE \
	:: if \
		CHOOSE_TABLE(0) \
		CHOOSE_TABLE(1) \
		CHOOSE_TABLE(2) \
		CHOOSE_TABLE(3) \
		fi; \
		WRITE_SET(TABLE_EVICT_WRITES, REPLACER, skip); \
		d_step { \
			table_pointers[f] = 0; \
			table_held[f] = 0; \
			printf("inverse table: has displaced the pointer of table frame %d\n", f); \
			f = 0; \
			set = 0 \
		}

/* The host moves the frame behind a guest's table page, or a page of its own table. */
#define MOVE_BEHIND(t) \
	:: d_step { \
		behind_entry[t] == OLD && table_moves < BEHIND_MOVES -> \
		f = t; \
		table_moves++; \
		updating[HOST] = 1; \
		behind_entry[t] = CHANGING; \
		printf("host: moves the frame behind table page %d\n", t) \
	}
#ifdef PAPER_NESTED_TABLE
/* Section 5: sets of "all guest pages whose translations are modified", which name no gPA. */
#define HOST_TELLS	d_step { set = 0 }; WRITE_SET(1, HOST, skip)
#else
#define HOST_TELLS	d_step { set = WALK_LINE }; WRITE_SET(1, HOST, skip)
#endif
#define MOVE_TABLES \
	:: if \
		MOVE_BEHIND(0) \
		MOVE_BEHIND(1) \
		fi; \
		d_step { !table_held[f] -> todo = table_pointers[f]; table_pointers[f] = 0 }; \
		if \
		:: d_step { todo != 0 -> todo = 0; set = WALK_LINE }; WRITE_SET(1, HOST, skip) \
		:: d_step { todo == 0 -> skip } \
		fi; \
		d_step { \
			behind_entry[f] = NEW; \
			updating[HOST] = 0; \
			printf("host: update behind table page %d ends\n", f); \
			f = 0; \
			set = 0 \
		} \
	:: d_step { \
			NESTED_MOVES && nested_entry == OLD -> \
			updating[HOST] = 1; \
			nested_entry = CHANGING; \
			printf("host: moves its table page\n") \
		}; \
		HOST_TELLS; \
		d_step { \
			nested_entry = NEW; \
			updating[HOST] = 0; \
			printf("host: update of its table ends\n"); \
			set = 0 \
		}
#ifdef PAPER_GUEST_TABLE
/* Section 5: as above; a walk cache is not asked, and of a table that maps nothing no set is. */
#define TABLE_SET	0
#else
#define TABLE_SET	WALK_LINE
#endif
/* The guest moves its table page, or frees it and gets another. */
#define MOVE_GUEST_TABLE \
	d_step { \
		set = TABLE_SET; \
		updating[GUEST(v)] = 1; \
		table_entry = CHANGING; \
		printf("guest: moves its table page\n") \
	}; \
	WRITE_SET(1, GUEST(v), skip); \
	d_step { \
		table_entry = NEW; \
		updating[GUEST(v)] = 0; \
		set = SET(n); \
		printf("guest: update of its table ends\n") \
	}
