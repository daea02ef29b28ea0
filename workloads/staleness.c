/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * staleness: does a write ever land where it may not any more?
 *
 * Writers store into slots, a few pages each, all the time. Revokers take the
 * pages of a slot away, in one of the ways below, while writers use them. A CPU
 * that kept a translation after the revoking call returned is seen in one of
 * two ways:
 *
 * frozen: a slot shows a cell of a memory file. After mprotect, munmap, a move
 * by mremap, or another cell mapped over it, nothing may change that cell. The
 * revoker looks through a second mapping of the file: right after the call, a
 * random while later, and once more before the cell is used again, since a CPU
 * that was preempted writes late.
 *
 * arrives: after the call, writers are given a new number, store it through the
 * slot and say so; the revoker must then find it in the page that the slot
 * shows now. This covers madvise(MADV_DONTNEED), whose old page is free and
 * cannot be looked at, the page that the kernel moved elsewhere in physical
 * memory (compaction), and the cell that was mapped over another one.
 *
 * Every value also names its slot and writer, so that one that lands in a
 * stranger's cell is known. Meanwhile writers and revokers are moved between
 * CPUs. "staleness.live" and "staleness.answers" say how much was seen: an
 * operation during which no writer wrote proves nothing.
 *
 * Exit code 1 on a violation. --plant makes one: without the revoking call
 * (frozen), or with the revoker looking at another page (arrives).
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "staleness/slots.h"
#include "staleness/writers.h"
#include "threads.h"

#define ANSWER_LIMIT_NS UINT64_C(2000000)

enum kind { PROTECT, UNMAP, MOVE, REMAP, DISCARD, COMPACT, KINDS };

static const char *const kind_choices[] = { "protect", "unmap", "move", "remap", "discard",
					    "compact", "all", NULL };
static const char *const plant_choices[] = { "no", "yes", NULL };

static struct settings {
	uint64_t writers, revokers, operations, kind, compact_every, move_every, live_us;
	uint64_t watch_us, time_limit_ms, seed, plant;
} settings = {
	.revokers = 1,
	.operations = 1000,
	.kind = KINDS,
	.move_every = 10,
	.live_us = 5000,
	.watch_us = 100,
	.time_limit_ms = 60000,
	.seed = 1,
};

struct revoker {
	pthread_t thread;
	unsigned int index;
	uint64_t stream, live, moves, unanswered;
	uint64_t done[KINDS];
};

static struct revoker revokers[REVOKERS_MAX];
static struct cpus cpus;
static struct gate gate;
static _Atomic uint64_t next_operation;
static bool can_compact;
static uint64_t deadline_ns;

static void spin_until(uint64_t end_ns)
{
	while (clock_monotonic_ns() < end_ns)
		__builtin_ia32_pause();
}

/* Waits until a writer writes to what the slot shows; whether one did. */
static bool wait_for_writes(unsigned char *view, unsigned int pages)
{
	uint64_t end_ns = clock_monotonic_ns() + settings.live_us * 1000;
	uint64_t before[WRITERS_MAX];

	for (unsigned int word = 0; word < settings.writers; word++)
		before[word] = *word_at(view, pages - 1, word);
	do {
		for (unsigned int word = 0; word < settings.writers; word++)
			if (*word_at(view, pages - 1, word) != before[word])
				return true;
		/* The writer may be waiting for this very CPU. */
		sched_yield();
	} while (clock_monotonic_ns() < end_ns);
	return false;
}

/* Gives writers a number and looks where their answers arrive. */
static void check_arrives(struct revoker *revoker, struct slot *slot, unsigned char *view,
			  enum kind kind)
{
	uint64_t end_ns = clock_monotonic_ns() + ANSWER_LIMIT_NS;
	uint64_t number = ++slot->told;
	unsigned int seen = 0;

	atomic_store_explicit(&slot->number, number, memory_order_release);
	while (seen < settings.writers && clock_monotonic_ns() < end_ns) {
		seen = 0;
		for (unsigned int writer = 0; writer < settings.writers; writer++)
			seen += atomic_load_explicit(&slot->answered[writer],
						     memory_order_acquire) == number;
		if (seen < settings.writers)
			sched_yield();
	}
	for (unsigned int writer = 0; writer < settings.writers; writer++) {
		if (atomic_load_explicit(&slot->answered[writer], memory_order_acquire) != number) {
			revoker->unanswered++;
			continue;
		}
		for (unsigned int page = 0; page < slot->pages; page++) {
			uint64_t is = *word_at(view, page, ANSWER + writer);

			if (is != number)
				violation("%s, slot %td, page %u of %u: writer %u stored %" PRIu64
					  " after the call, but the page holds %" PRIu64,
					  kind_choices[kind], slot - slots, page, slot->pages,
					  writer, number, is);
		}
	}
	atomic_store_explicit(&slot->number, 0, memory_order_release);
}

static void compact(void)
{
	int file = open("/proc/sys/vm/compact_memory", O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, "1", 1) != 1)
		fail(EXIT_FAULT, "/proc/sys/vm/compact_memory: %s", strerror(errno));
	close(file);
}

/* The call that takes the slot's pages away. */
static void take_away(struct slot *slot, enum kind kind)
{
	size_t bytes = (size_t)slot->pages * PAGE_BYTES;
	int error = 0;

	switch (kind) {
	case PROTECT:
		error = mprotect(slot->at, bytes, PROT_READ);
		break;
	case UNMAP:
		error = munmap(slot->at, bytes);
		break;
	case MOVE:
		error = mremap(slot->at, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			       slot->parking) == MAP_FAILED;
		break;
	case REMAP:
		show_next_cell(slot);
		break;
	case DISCARD:
		error = madvise(slot->at, bytes, MADV_DONTNEED);
		break;
	case COMPACT:
		compact();
		break;
	case KINDS:
		break;
	}
	if (error)
		fail(EXIT_FAULT, "%s: %s", kind_choices[kind], strerror(errno));
}

/* The old page stays there to be looked at. */
static void operate_frozen(struct revoker *revoker, struct slot *slot, enum kind kind)
{
	unsigned int cell;

	show_next_cell(slot);
	cell = slot->cell;
	revoker->live += wait_for_writes(cell_alias(slot, cell), slot->pages);
	if (!settings.plant)
		take_away(slot, kind);
	/* Another cell was mapped over this one, which froze it. */
	if (slot->cell == cell)
		freeze(slot);
	check_names(slot, cell);
	spin_until(clock_monotonic_ns() +
		   random_below(&revoker->stream, settings.watch_us * 1000 + 1));
	check_frozen(slot, cell, kind_choices[kind]);
	if (slot->cell != cell)
		check_arrives(revoker, slot, cell_alias(slot, slot->cell), kind);
}

/* The old page is gone: only the new one can be looked at. */
static void operate_arrives(struct revoker *revoker, struct slot *slot, enum kind kind)
{
	unsigned char *view = slot->at;

	if (kind == DISCARD) {
		show_private_pages(slot);
	} else {
		show_next_cell(slot);
		view = cell_alias(slot, slot->cell);
	}
	revoker->live += wait_for_writes(view, slot->pages);
	take_away(slot, kind);
	check_arrives(revoker, slot, settings.plant ? decoy : view, kind);
}

static void move_a_thread(struct revoker *revoker)
{
	uint64_t who = random_below(&revoker->stream, settings.writers + 1);
	pid_t task = who < settings.writers ? atomic_load(&writers[who].task) : 0;
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpus.id[random_below(&revoker->stream, cpus.count)], &set);
	if (sched_setaffinity(task, sizeof(set), &set))
		fail(EXIT_FAULT, "moving a thread: %s", strerror(errno));
	revoker->moves++;
}

static enum kind choose_kind(struct revoker *revoker, uint64_t operation)
{
	if (settings.kind != KINDS)
		return (enum kind)settings.kind;
	if (can_compact && settings.compact_every && !((operation + 1) % settings.compact_every))
		return COMPACT;
	return (enum kind)random_below(&revoker->stream, COMPACT);
}

static void *revoker_body(void *argument)
{
	struct revoker *revoker = argument;
	uint64_t own = (SLOTS - revoker->index + settings.revokers - 1) / settings.revokers;
	uint64_t operation;

	gate_pass(&gate);
	while ((operation = atomic_fetch_add(&next_operation, 1)) < settings.operations &&
	       clock_monotonic_ns() < deadline_ns) {
		/* A slot has one revoker, so that it knows what the slot shows. */
		struct slot *slot = &slots[revoker->index +
					   settings.revokers * random_below(&revoker->stream, own)];
		enum kind kind = choose_kind(revoker, operation);

		atomic_store_explicit(&hot[revoker->index], (unsigned int)(slot - slots),
				      memory_order_relaxed);
		if (settings.move_every && !(operation % settings.move_every))
			move_a_thread(revoker);
		if (kind == DISCARD || kind == COMPACT)
			operate_arrives(revoker, slot, kind);
		else
			operate_frozen(revoker, slot, kind);
		revoker->done[kind]++;
	}
	return NULL;
}

static uint64_t count_moved_pages(void)
{
	FILE *file = fopen("/proc/vmstat", "r");
	uint64_t moved = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "pgmigrate_success %" SCNu64, &moved) == 1)
			break;
	if (file)
		fclose(file);
	return moved;
}

static void read_options(int argc, char **argv)
{
	const struct program_help help = {
		.name = "staleness",
		.summary = "looks for writes that land where they may not any more",
		.example = "staleness --operations 200 --seed 7",
	};
	const struct option_rule rules[] = {
		{ .name = "writers", .count = &settings.writers, .min = 1, .max = WRITERS_MAX,
		  .help = "threads that write" },
		{ .name = "revokers", .count = &settings.revokers, .min = 1, .max = REVOKERS_MAX,
		  .help = "threads that take pages away" },
		{ .name = "operations", .count = &settings.operations, .min = 1, .max = 100000000,
		  .help = "revoking calls, all revokers together" },
		{ .name = "kind", .kind = OPTION_CHOICE, .count = &settings.kind,
		  .choices = kind_choices, .help = "how pages are taken away" },
		{ .name = "compact-every", .count = &settings.compact_every, .max = 1000000,
		  .help = "with all kinds, operations from one compaction to the next; 0: none" },
		{ .name = "move-every", .count = &settings.move_every, .max = 1000000,
		  .help = "operations from one move of a thread to the next; 0: none" },
		{ .name = "live-us", .count = &settings.live_us, .max = 1000000,
		  .help = "longest wait for a write before the call, us" },
		{ .name = "watch-us", .count = &settings.watch_us, .max = 1000000,
		  .help = "longest watch over the old page, us" },
		{ .name = "plant", .kind = OPTION_CHOICE, .count = &settings.plant,
		  .choices = plant_choices, .help = "make violations, to see them found" },
		{ .name = "seed", .count = &settings.seed, .max = UINT64_MAX,
		  .help = "seed of every choice" },
		{ .name = "time-limit-ms", .count = &settings.time_limit_ms, .min = 1,
		  .max = 86400000, .help = "stop after this long and report what was done" },
		{ .name = NULL },
	};

	settings.writers = cpus.count < WRITERS_MAX ? cpus.count : WRITERS_MAX;
	options_parse(argc, argv, &help, rules);
}

static void print_report(uint64_t time_ns, uint64_t moved_pages)
{
	uint64_t done = 0, live = 0, moves = 0, unanswered = 0, writes = 0, faults = 0, answers = 0;
	char name[64];

	for (unsigned int kind = 0; kind < KINDS; kind++) {
		uint64_t sum = 0;

		for (uint64_t index = 0; index < settings.revokers; index++)
			sum += revokers[index].done[kind];
		snprintf(name, sizeof(name), "staleness.%s", kind_choices[kind]);
		report_metric(name, "count", BETTER_NEUTRAL, sum);
		done += sum;
	}
	for (uint64_t index = 0; index < settings.revokers; index++) {
		live += revokers[index].live;
		moves += revokers[index].moves;
		unanswered += revokers[index].unanswered;
	}
	for (uint64_t index = 0; index < settings.writers; index++) {
		writes += writers[index].writes;
		faults += writers[index].faults;
		answers += writers[index].answers;
	}
	report_work("staleness", done, time_ns);
	report_metric("staleness.violations", "count", BETTER_LOWER, atomic_load(&violations));
	report_metric("staleness.live", "count", BETTER_HIGHER, live);
	report_metric("staleness.answers", "count", BETTER_HIGHER, answers);
	report_metric("staleness.unanswered", "count", BETTER_NEUTRAL, unanswered);
	report_metric("staleness.writes", "count", BETTER_NEUTRAL, writes);
	report_metric("staleness.faults", "count", BETTER_NEUTRAL, faults);
	report_metric("staleness.thread_moves", "count", BETTER_NEUTRAL, moves);
	report_metric("staleness.moved_pages", "count", BETTER_NEUTRAL, moved_pages);
	report_metric("timed_out", "count", BETTER_LOWER, done < settings.operations);
	report_print("staleness");
}

int main(int argc, char **argv)
{
	uint64_t start_ns, moved_pages, seed;

	cpus_read(&cpus);
	read_options(argc, argv);
	can_compact = !access("/proc/sys/vm/compact_memory", W_OK);
	if (settings.kind == COMPACT && !can_compact)
		fail(EXIT_FAULT, "/proc/sys/vm/compact_memory: %s", strerror(errno));
	make_slots();
	catch_faults();
	seed = settings.seed;
	deadline_ns = deadline_after_ms(settings.time_limit_ms);
	gate_init(&gate, deadline_ns);
	moved_pages = count_moved_pages();
	hot_count = (unsigned int)settings.revokers;
	for (unsigned int index = 0; index < settings.writers; index++)
		start_writer(index, cpus.id[index % cpus.count], random_next(&seed), &gate);
	for (unsigned int index = 0; index < settings.revokers; index++) {
		revokers[index].index = index;
		revokers[index].stream = random_next(&seed);
		revokers[index].thread = start_pinned(cpus.id[index % cpus.count], revoker_body,
						      &revokers[index]);
	}
	start_ns = gate_open(&gate, (unsigned int)(settings.writers + settings.revokers));
	for (unsigned int index = 0; index < settings.revokers; index++)
		join(revokers[index].thread);
	atomic_store(&writers_stop, true);
	for (unsigned int index = 0; index < settings.writers; index++)
		join(writers[index].thread);
	check_slots_at_end();
	print_report(clock_monotonic_ns() - start_ns, count_moved_pages() - moved_pages);
	return atomic_load(&violations) ? EXIT_FAULT : EXIT_SUCCESS;
}
