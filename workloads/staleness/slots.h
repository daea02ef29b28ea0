/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What writers write to and revokers take away: slots of a few pages. A slot shows a cell of a
 * memory file, or private pages, or nothing. Each slot has one revoker, so nothing here locks.
 */
#ifndef STEADY_STALENESS_SLOTS_H
#define STEADY_STALENESS_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAGE_BYTES 4096
#define WRITERS_MAX 32
#define REVOKERS_MAX 8
#define SLOTS 8
#define CELLS 4
/* The largest slot is flushed whole by Linux (tlb_single_page_flush_ceiling is 33). */
#define SLOT_PAGES 40
#define SLOT_BYTES ((size_t)SLOT_PAGES * PAGE_BYTES)
/* A page: one word for each writer's sequence, then one for each writer's answer. */
#define ANSWER WRITERS_MAX
#define SEQUENCE_BITS 48

/* The part of a page that threads write to. */
struct image {
	uint64_t word[2 * WRITERS_MAX];
};

struct slot {
	unsigned char *at;       /* what writers write through */
	unsigned char *parking;  /* where a moved mapping goes */
	unsigned int pages, cell;
	bool shown; /* whether writers can still write to the cell */
	bool used[CELLS];
	struct image frozen[CELLS][SLOT_PAGES]; /* of used cells that are not shown */
	uint64_t told;                          /* last number that was given */
	_Atomic uint64_t number;                /* what writers should answer; 0: nothing */
	_Atomic uint64_t answered[WRITERS_MAX];
};

extern struct slot slots[SLOTS];
/* Sum of what was found, by any thread. */
extern _Atomic uint64_t violations;
/* A page that no writer writes to. */
extern unsigned char *decoy;

static inline volatile uint64_t *word_at(unsigned char *start, unsigned int page, unsigned int word)
{
	return (volatile uint64_t *)(start + (size_t)page * PAGE_BYTES) + word;
}

/* What a writer stores: slot, writer and sequence. */
static inline uint64_t value_of(const struct slot *slot, unsigned int writer, uint64_t sequence)
{
	return (uint64_t)(slot - slots + 1) << 56 | (uint64_t)writer << SEQUENCE_BITS | sequence;
}

void make_slots(void);

/* Whether an address is in a slot, whatever that shows. */
bool in_a_slot(const unsigned char *at);

/* A cell through the second mapping of the file, which nothing takes away. */
unsigned char *cell_alias(const struct slot *slot, unsigned int cell);

/* Shows the next cell in the slot; what is in it must be as it was left. */
void show_next_cell(struct slot *slot);

/* Shows fresh private pages in the slot. */
void show_private_pages(struct slot *slot);

/* From here on nothing may change the cell that was shown. */
void freeze(struct slot *slot);

void check_frozen(struct slot *slot, unsigned int cell, const char *when);

/* Only a slot's own writers write to its cells, each to a word of its own. */
void check_names(struct slot *slot, unsigned int cell);

/* All cells that are not shown must be as they were left. */
void check_slots_at_end(void);

/* Counts a violation, and reports the first few. */
__attribute__((format(printf, 1, 2))) void violation(const char *format, ...);

#endif
