/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many instructions a thread has retired, from what QEMU reports of its blocks.
 *
 * A block counts when its last instruction is about to run. One that a fault or a longjmp out of
 * a handler leaves earlier never gets there: it counts up to its last access once the next block
 * shows that it was left. So the count never runs back and never holds what did not run; what is
 * lost is what a left block did between its last access and the fault, less than one block.
 */
#ifndef COUNTING_H
#define COUNTING_H

#include <stdbool.h>
#include <stdint.h>

/*
 * What a callback is told of its instruction, packed into QEMU's user data: the instruction's
 * place in its block from 1, whether it is the last, whether it leaves the block by itself (kernel_access.h), and the
 * block's number, which is never 0.
 */
#define MARK_PLACE_BITS 16
#define MARK_LAST (1ull << 16)
#define MARK_LEAVES (1ull << 17)
#define MARK_BLOCK_SHIFT 18

static inline uint64_t mark_of(uint64_t block, uint64_t place, bool last, bool leaves)
{
	return block << MARK_BLOCK_SHIFT | place | (last ? MARK_LAST : 0) |
	       (leaves ? MARK_LEAVES : 0);
}

static inline uint64_t mark_place(uint64_t mark)
{
	return mark & ((1ull << MARK_PLACE_BITS) - 1);
}

struct retired {
	uint64_t done;	  /* instructions of blocks that are over */
	uint64_t partial; /* and of the open one, up to its last access */
	uint64_t block;	  /* number of the open one, 0 for none */
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
	__atomic_store_n(&r->done, r->done + mark_place(mark), __ATOMIC_RELAXED);
	r->partial = 0;
	r->block = 0;
}

/* An instruction has made an access: the count with this instruction. */
static inline uint64_t retired_access(struct retired *r, uint64_t mark)
{
	/* Its block is counted already, this instruction with it. */
	if (mark & MARK_LAST)
		return r->done;
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
