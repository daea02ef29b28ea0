/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many instructions a thread has retired, from what QEMU reports of its blocks.
 *
 * A block counts when its last instruction is about to run. One that a fault or a longjmp out of
 * a handler leaves earlier never gets there: it counts up to its last access once the next block
 * shows that it was left. So the count never runs back and never holds what did not run; what is
 * lost is what a left block did between its last access and the fault, less than one block.
 *
 * A repeated string instruction counts once a turn, as a processor steps through it. QEMU 7 makes a
 * block of each turn and one more to find it done, QEMU 10 turns inside one block: so its turns are
 * counted by the accesses that begin them, and not by blocks.
 */
#ifndef COUNTING_H
#define COUNTING_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What a callback gets of its instruction, packed into QEMU's user data: the instruction's place
 * in its block from 1, whether it is the last, what is the kernel's if QEMU's own code reports it
 * (kernel_access.c), how it counts if it repeats, and the block's number, which is never 0.
 */
#define MARK_PLACE_BITS 15
#define MARK_LAST (1ull << 15)
#define MARK_LENDS_STORES (1ull << 16)
#define MARK_LENDS_LOADS (1ull << 17)
#define MARK_TURN_SHIFT 18
#define MARK_BLOCK_SHIFT 20

/* Which access begins a turn of a repeated string instruction. */
enum turn { TURN_NONE, TURN_LOAD, TURN_STORE, TURN_SECOND_LOAD };

static inline uint64_t mark_of(uint64_t block, uint64_t place)
{
	return block << MARK_BLOCK_SHIFT | place;
}

/* The mark of its block's last instruction. */
static inline uint64_t mark_last(uint64_t mark, uint64_t lends, enum turn turn)
{
	return mark | MARK_LAST | lends | (uint64_t)turn << MARK_TURN_SHIFT;
}

static inline enum turn mark_turn(uint64_t mark)
{
	return (enum turn)(mark >> MARK_TURN_SHIFT & 3);
}

static inline uint64_t mark_place(uint64_t mark)
{
	return mark & ((1ull << MARK_PLACE_BITS) - 1);
}

struct retired {
	uint64_t done;	  /* instructions of blocks that are over */
	uint64_t partial; /* and of the open one, up to its last access */
	uint64_t block;	  /* number of the open one, 0 for none */
	uint64_t ended;	  /* number of the one whose last instruction ran last */
	bool half;	  /* one load of a turn of two has been made */
};

/* The open block, if it is another than this one, was left in the middle. */
static inline void retired_enter(struct retired *r, uint64_t mark)
{
	uint64_t block = mark >> MARK_BLOCK_SHIFT;

	if (r->block == block)
		return;
	__atomic_store_n(&r->done, r->done + r->partial, __ATOMIC_RELAXED);
	r->partial = 0;
	r->block = block;
}

/* The block's last instruction is about to run. */
static inline void retired_block(struct retired *r, uint64_t mark)
{
	retired_enter(r, mark);
	__atomic_store_n(&r->done, r->done + mark_place(mark) - (mark_turn(mark) != TURN_NONE),
			 __ATOMIC_RELAXED);
	r->partial = 0;
	r->block = 0;
	r->ended = mark >> MARK_BLOCK_SHIFT;
	r->half = false;
}

/* Whether an access is reported of a last instruction that has not just run. */
static inline bool retired_is_stale(const struct retired *r, uint64_t mark)
{
	return (mark & MARK_LAST) && (r->block != 0 || r->ended != mark >> MARK_BLOCK_SHIFT);
}

static inline bool begins_turn(struct retired *r, enum turn turn, bool write)
{
	if (turn == TURN_SECOND_LOAD)
		return r->half = !r->half;
	return turn == (write ? TURN_STORE : TURN_LOAD);
}

/* An instruction has made an access: the count with this instruction. */
static inline uint64_t retired_access(struct retired *r, uint64_t mark, bool write)
{
	/* Its block is counted already, this instruction with it unless it counts by turns. */
	if (mark & MARK_LAST) {
		if (mark_turn(mark) != TURN_NONE && begins_turn(r, mark_turn(mark), write))
			__atomic_store_n(&r->done, r->done + 1, __ATOMIC_RELAXED);
		return r->done;
	}
	retired_enter(r, mark);
	r->partial = mark_place(mark);
	return r->done + r->partial;
}

/* The thread has gone. */
static inline void retired_leave(struct retired *r)
{
	__atomic_store_n(&r->done, r->done + r->partial, __ATOMIC_RELAXED);
	r->partial = 0;
	r->block = 0;
}

#endif
