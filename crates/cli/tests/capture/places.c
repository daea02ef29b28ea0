// SPDX-License-Identifier: GPL-2.0-only
/*
 * Maps, unmaps and resizes memory by a fixed sequence, and stores a byte into what each step gave.
 * Writes how far below the end of the first mapping that was. All steps stay below 2 MiB, from
 * where on newer kernels align mappings. Linked statically: nothing else is mapped.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#define SLOTS 24
#define STEPS 600
#define PAGE 4096UL

static struct slot {
	char *at;
	unsigned long pages;
} slots[SLOTS];
static unsigned long given[STEPS];
static uint64_t state = 88172645463325252ULL;

static unsigned long below(unsigned long bound)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % bound;
}

static void *map(unsigned long pages)
{
	return mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *resized(struct slot *slot, unsigned long pages)
{
	return mremap(slot->at, slot->pages * PAGE, pages * PAGE, MREMAP_MAYMOVE);
}

/* Gives back the whole, the first half or the second one. */
static void shrink(struct slot *slot, unsigned long how)
{
	unsigned long half = slot->pages / 2;

	if (how == 0 || !half) {
		munmap(slot->at, slot->pages * PAGE);
		slot->pages = 0;
	} else if (how == 1) {
		munmap(slot->at, half * PAGE);
		slot->at += half * PAGE;
		slot->pages -= half;
	} else {
		munmap(slot->at + half * PAGE, (slot->pages - half) * PAGE);
		slot->pages = half;
	}
}

int main(int argc, char **argv)
{
	FILE *said = fopen(argv[argc > 1], "w");
	char *top = NULL;

	if (!said)
		return 1;
	syscall(0x53544459, 0L, 1L);
	for (int step = 0; step < STEPS; step++) {
		struct slot *slot = &slots[below(SLOTS)];
		unsigned long pages = 1 + below(100), how = below(6);

		if (slot->pages && how < 3) {
			shrink(slot, how);
			continue;
		}
		slot->at = slot->pages ? resized(slot, pages) : map(pages);
		if (slot->at == MAP_FAILED)
			return 2;
		slot->pages = pages;
		if (!top)
			top = slot->at + pages * PAGE;
		*(volatile char *)slot->at = 1;
		given[step] = (unsigned long)(top - slot->at);
	}
	syscall(0x53544459, 0L, 2L);
	for (int step = 0; step < STEPS; step++)
		if (given[step])
			fprintf(said, "%lu ", given[step]);
	fprintf(said, "0");
	return fclose(said) ? 3 : 0;
}
