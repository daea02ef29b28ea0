/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "staleness/slots.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "talk.h"

#define VIOLATIONS_TOLD 5

struct slot slots[SLOTS];
_Atomic uint64_t violations;
unsigned char *decoy;

static const unsigned int slot_pages[SLOTS] = { 1, 2, 8, SLOT_PAGES, 1, 3, 16, 32 };
static int memory_file;
static unsigned char *alias; /* the whole file, SLOTS * CELLS cells of SLOT_BYTES */
static unsigned char *arena; /* all slots */

static off_t cell_offset(const struct slot *slot, unsigned int cell)
{
	return (off_t)((size_t)(slot - slots) * CELLS + cell) * (off_t)SLOT_BYTES;
}

unsigned char *cell_alias(const struct slot *slot, unsigned int cell)
{
	return alias + cell_offset(slot, cell);
}

__attribute__((format(printf, 1, 2))) void violation(const char *format, ...)
{
	char text[200];
	va_list arguments;

	if (atomic_fetch_add(&violations, 1) >= VIOLATIONS_TOLD)
		return;
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	talk("violation: %s", text);
}

bool in_a_slot(const unsigned char *at)
{
	return at >= arena && at < arena + SLOTS * SLOT_BYTES;
}

void freeze(struct slot *slot)
{
	unsigned char *start = cell_alias(slot, slot->cell);

	for (unsigned int page = 0; slot->shown && page < slot->pages; page++)
		for (unsigned int word = 0; word < 2 * WRITERS_MAX; word++)
			slot->frozen[slot->cell][page].word[word] = *word_at(start, page, word);
	slot->shown = false;
}

void check_frozen(struct slot *slot, unsigned int cell, const char *when)
{
	unsigned char *start = cell_alias(slot, cell);

	for (unsigned int page = 0; page < slot->pages; page++) {
		for (unsigned int word = 0; word < 2 * WRITERS_MAX; word++) {
			uint64_t was = slot->frozen[cell][page].word[word];
			uint64_t is = *word_at(start, page, word);

			if (is == was)
				continue;
			violation("slot %td, page %u of %u, writer %u: %#" PRIx64
				  " landed in the old page: %s (was %#" PRIx64 ")",
				  slot - slots, page, slot->pages, word % WRITERS_MAX, is, when,
				  was);
			slot->frozen[cell][page].word[word] = is;
		}
	}
}

void check_names(struct slot *slot, unsigned int cell)
{
	for (unsigned int page = 0; page < slot->pages; page++) {
		for (unsigned int word = 0; word < WRITERS_MAX; word++) {
			uint64_t is = slot->frozen[cell][page].word[word];

			if (is && is >> SEQUENCE_BITS != value_of(slot, word, 0) >> SEQUENCE_BITS)
				violation("slot %td, page %u: %#" PRIx64
					  " of another slot or writer is in the word of writer %u",
					  slot - slots, page, is, word);
		}
	}
}

static void map_at(unsigned char *at, size_t bytes, int flags, int file, off_t offset)
{
	if (mmap(at, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, file, offset) == MAP_FAILED)
		fail(EXIT_FAULT, "mapping %zu bytes: %s", bytes, strerror(errno));
}

void show_next_cell(struct slot *slot)
{
	unsigned int cell = (slot->cell + 1) % CELLS;

	if (slot->used[cell])
		check_frozen(slot, cell, "before it was used again");
	map_at(slot->at, (size_t)slot->pages * PAGE_BYTES, MAP_SHARED, memory_file,
	       cell_offset(slot, cell));
	freeze(slot);
	slot->cell = cell;
	slot->shown = slot->used[cell] = true;
}

void show_private_pages(struct slot *slot)
{
	map_at(slot->at, (size_t)slot->pages * PAGE_BYTES, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	freeze(slot);
}

void check_slots_at_end(void)
{
	for (struct slot *slot = slots; slot < slots + SLOTS; slot++)
		for (unsigned int cell = 0; cell < CELLS; cell++)
			if (slot->used[cell] && !(slot->shown && cell == slot->cell))
				check_frozen(slot, cell, "at the end");
}

static void *reserve(size_t bytes, int protection)
{
	void *start = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			   0);

	if (start == MAP_FAILED)
		fail(EXIT_FAULT, "reserving %zu bytes: %s", bytes, strerror(errno));
	return start;
}

void make_slots(void)
{
	const size_t bytes = SLOTS * CELLS * SLOT_BYTES;
	unsigned char *parking = reserve(SLOTS * SLOT_BYTES, PROT_NONE);

	memory_file = memfd_create("staleness", MFD_CLOEXEC);
	if (memory_file < 0 || ftruncate(memory_file, (off_t)bytes))
		fail(EXIT_FAULT, "making a memory file of %zu bytes: %s", bytes, strerror(errno));
	alias = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_file, 0);
	if (alias == MAP_FAILED)
		fail(EXIT_FAULT, "mapping the memory file: %s", strerror(errno));
	decoy = reserve(SLOT_BYTES, PROT_READ);
	arena = reserve(SLOTS * SLOT_BYTES, PROT_NONE);
	for (unsigned int index = 0; index < SLOTS; index++) {
		struct slot *slot = &slots[index];

		slot->pages = slot_pages[index];
		slot->at = arena + index * SLOT_BYTES;
		slot->parking = parking + index * SLOT_BYTES;
		slot->cell = CELLS - 1;
		show_next_cell(slot);
	}
}
