/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * shootdown: how long the initiator of a TLB shootdown waits for its targets.
 *
 * One initiator and --targets target threads share an address space, each
 * pinned to a CPU of its own. Targets spin in user mode, so every one of them
 * is in the set of CPUs that the kernel must flush; under --method mprotect
 * they also read the mapping all the time, so that their TLBs really hold what
 * is being revoked. (madvise and munmap take the pages away: a target that read
 * them would fault, and those faults would shoot down in turn.)
 *
 * An operation: the initiator works in user mode for about --pause-us, writes
 * to the pages, then takes the right away in one system call, and the call
 * alone is timed. An initiator that did nothing but wait would meet its targets
 * only while they run, and would not see the wait for a preempted one as often
 * as a program does. The pause is drawn at random (seeded) from half to one and
 * a half times its length, to keep clear of lockstep with the timer tick.
 *
 * With --sleep-us the initiator also blocks before each operation, as a program
 * does that waits for a queue or a disk. Its vCPU then has been waiting when it
 * gets a CPU, and keeps it for a while; without, the vCPU is out of its turn as
 * often during an operation as at any other time, and every operation seems as
 * much longer as the vCPU has to share, whatever the shootdown does.
 *
 * With --target-sleep-us the targets block as well, for about that long after
 * each --target-work-us of work. The kernel leaves a CPU alone that has gone
 * idle since (lazy TLB), unless page tables are freed: then an idle vCPU, which
 * the host has halted, is woken to acknowledge. --method munmap-area frees the
 * page table of what it touched, as a program does that gives a large block of
 * memory back to the system.
 *
 * Giving the right back (mprotect) shoots down as well, and that wait would
 * leave every target running just before the timed call. So the region has 32
 * times the pages: each operation takes the next part, and only after the last
 * one is the whole given back, in one call, before the pause.
 *
 * Before the targets start, the same operations run alone in the address
 * space ("shootdown.local"): subtract that to have the price of the shootdown
 * itself. The kernel's own count of TLB interrupts says that remote flushes
 * happened ("shootdown.ipis"; with paravirtual flushing it stays lower than
 * operations times targets, because preempted vCPUs are not interrupted).
 * It counts the whole machine, so other busy programs add to it.
 *
 * More than 33 pages flush whole TLBs (tlb_single_page_flush_ceiling).
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "clock.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "threads.h"

#define PAGE_BYTES 4096
#define NS_PER_US UINT64_C(1000)
#define NS_PER_S UINT64_C(1000000000)
#define COARSE_CLOCK_NS 1000
#define PARTS 32
#define TABLE_BYTES (UINT64_C(512) * PAGE_BYTES) /* what one page table maps */
#define AREA_BYTES (2 * TABLE_BYTES)		/* the whole of one is in it */

enum method { METHOD_MPROTECT, METHOD_MADVISE, METHOD_MUNMAP, METHOD_MUNMAP_AREA };

static const char *const method_choices[] = { "mprotect", "madvise", "munmap", "munmap-area",
					     NULL };

static struct settings {
	uint64_t targets, operations, local_operations, warmup, pages, method, pause_us, sleep_us;
	uint64_t target_work_us, target_sleep_us, time_limit_ms, seed, clock;
} settings = {
	.operations = 1000,
	.local_operations = 200,
	.warmup = 20,
	.pages = 1,
	.pause_us = 100,
	.target_work_us = 1000,
	.time_limit_ms = 60000,
	.seed = 1,
};

static unsigned char *region; /* PARTS parts; methods that unmap: the latest mapping */
static const volatile unsigned char *target_view; /* NULL: targets only spin */
static atomic_uint targets_ready;
static atomic_bool targets_stop;
static uint64_t deadline_ns;
static bool timed_out;

static unsigned char *map_pages(uint64_t pages, int protection)
{
	void *start = mmap(NULL, pages * PAGE_BYTES, protection,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (start == MAP_FAILED)
		fail(EXIT_FAULT, "mapping %" PRIu64 " pages: %s; lower --pages", pages,
		     strerror(errno));
	/* A huge page would turn many flushes into one; kernels without them say EINVAL. */
	madvise(start, pages * PAGE_BYTES, MADV_NOHUGEPAGE);
	return start;
}

static void protect(unsigned char *start, uint64_t pages, int protection)
{
	if (mprotect(start, pages * PAGE_BYTES, protection))
		fail(EXIT_FAULT, "mprotect: %s", strerror(errno));
}

/* The mapping that lasts: inaccessible neighbours keep the kernel from merging it. */
static void make_region(void)
{
	if (settings.method == METHOD_MUNMAP || settings.method == METHOD_MUNMAP_AREA)
		return;
	region = map_pages(PARTS * settings.pages + 2, PROT_NONE) + PAGE_BYTES;
	protect(region, PARTS * settings.pages, PROT_READ | PROT_WRITE);
	if (settings.method == METHOD_MPROTECT)
		target_view = region;
}

static void touch(unsigned char *start, uint64_t pages)
{
	for (uint64_t page = 0; page < pages; page++)
		((volatile unsigned char *)start)[page * PAGE_BYTES] = 1;
}

static unsigned char *part_of(uint64_t operation)
{
	if (settings.method == METHOD_MUNMAP || settings.method == METHOD_MUNMAP_AREA)
		return region;
	return region + operation % PARTS * settings.pages * PAGE_BYTES;
}

/* Before the pause: whatever may shoot down by itself. */
static void give_back(uint64_t operation)
{
	if (settings.method != METHOD_MPROTECT || operation % PARTS)
		return;
	protect(region, PARTS * settings.pages, PROT_READ | PROT_WRITE);
	touch(region, PARTS * settings.pages);
}

/* After the pause: loads the initiator's TLB, without a shootdown. */
static void arm(uint64_t operation)
{
	if (settings.method == METHOD_MUNMAP)
		region = map_pages(settings.pages, PROT_READ | PROT_WRITE);
	if (settings.method == METHOD_MUNMAP_AREA) {
		region = map_pages(AREA_BYTES / PAGE_BYTES, PROT_READ | PROT_WRITE);
		touch(region + (-(uintptr_t)region & (TABLE_BYTES - 1)), settings.pages);
		return;
	}
	touch(part_of(operation), settings.pages);
}

/* Takes the right away: the timed call. */
static void revoke(unsigned char *part)
{
	switch ((enum method)settings.method) {
	case METHOD_MPROTECT:
		protect(part, settings.pages, PROT_READ);
		break;
	case METHOD_MADVISE:
		if (madvise(part, settings.pages * PAGE_BYTES, MADV_DONTNEED))
			fail(EXIT_FAULT, "madvise(MADV_DONTNEED): %s", strerror(errno));
		break;
	case METHOD_MUNMAP:
		if (munmap(part, settings.pages * PAGE_BYTES))
			fail(EXIT_FAULT, "munmap: %s", strerror(errno));
		break;
	case METHOD_MUNMAP_AREA:
		if (munmap(part, AREA_BYTES))
			fail(EXIT_FAULT, "munmap: %s", strerror(errno));
		break;
	}
}

/* From half to one and a half times @mean_us; 0 draws nothing. */
static uint64_t draw_ns(uint64_t *stream, uint64_t mean_us)
{
	uint64_t mean_ns = mean_us * NS_PER_US;

	return mean_ns ? mean_ns / 2 + random_below(stream, mean_ns + 1) : 0;
}

static void block(uint64_t *stream, uint64_t mean_us)
{
	uint64_t length_ns = draw_ns(stream, mean_us);
	struct timespec length = {
		.tv_sec = (time_t)(length_ns / NS_PER_S),
		.tv_nsec = (long)(length_ns % NS_PER_S),
	};

	/* Cut short by a signal, the pause is shorter: nothing depends on its length. */
	if (length_ns)
		nanosleep(&length, NULL);
}

static void work_in_user_mode(uint64_t *stream)
{
	uint64_t length_ns = draw_ns(stream, settings.pause_us), end_ns;

	if (!length_ns)
		return;
	end_ns = clock_now_ns() + length_ns;
	do {
		/* Arithmetic between readings, or the pause would be all clock reading. */
		for (int step = 0; step < 64; step++)
			random_next(stream);
		__asm__ volatile("" : : "r"(*stream) : "memory");
	} while (clock_now_ns() < end_ns);
}

static void *target_body(void *argument)
{
	const volatile unsigned char *view = target_view;
	uint64_t stream = settings.seed + 1 + (uint64_t)(uintptr_t)argument, end_ns = 0;

	atomic_fetch_add(&targets_ready, 1);
	while (!atomic_load_explicit(&targets_stop, memory_order_relaxed)) {
		for (uint64_t page = 0; view && page < PARTS * settings.pages; page++)
			(void)view[page * PAGE_BYTES];
		if (settings.target_sleep_us && clock_now_ns() >= end_ns) {
			block(&stream, settings.target_sleep_us);
			end_ns = clock_now_ns() + draw_ns(&stream, settings.target_work_us);
		}
	}
	return NULL;
}

/* TLB interrupts taken so far, all CPUs together. */
static uint64_t count_tlb_interrupts(void)
{
	static char line[32768]; /* 12 characters per CPU, CPUS_MAX of them */
	FILE *file = fopen("/proc/interrupts", "r");
	uint64_t sum = 0;
	bool found = false;

	if (!file)
		fail(EXIT_FAULT, "/proc/interrupts: %s; is /proc mounted?", strerror(errno));
	while (!found && fgets(line, sizeof(line), file)) {
		char *cursor = line + strspn(line, " ");

		if (strncmp(cursor, "TLB:", 4))
			continue;
		found = true;
		for (cursor += 4;;) {
			char *end;
			uint64_t count = strtoull(cursor, &end, 10);

			if (end == cursor)
				break;
			sum += count;
			cursor = end;
		}
	}
	fclose(file);
	if (!found)
		fail(EXIT_FAULT, "/proc/interrupts has no TLB line: not an x86 SMP kernel?");
	return sum;
}

/* What a series gives beside its histogram; both without the warm-up. */
struct series {
	struct histogram histogram;
	uint64_t time_ns;
	uint64_t ipis;
};

/* One operation after the other. */
static void run_series(uint64_t operations, struct series *series)
{
	uint64_t stream = settings.seed, series_start_ns = clock_monotonic_ns();
	uint64_t ipis = count_tlb_interrupts();

	for (uint64_t done = 0; done < settings.warmup + operations; done++) {
		uint64_t start_ns, end_ns;
		unsigned char *part;

		if (clock_monotonic_ns() >= deadline_ns) {
			timed_out = true;
			break;
		}
		if (done == settings.warmup) {
			ipis = count_tlb_interrupts();
			series_start_ns = clock_monotonic_ns();
		}
		give_back(done);
		work_in_user_mode(&stream);
		block(&stream, settings.sleep_us);
		arm(done);
		part = part_of(done);
		start_ns = clock_now_ns();
		revoke(part);
		end_ns = clock_now_ns();
		if (done >= settings.warmup)
			histogram_add(&series->histogram, end_ns - start_ns);
	}
	series->time_ns = clock_monotonic_ns() - series_start_ns;
	series->ipis = count_tlb_interrupts() - ipis;
}

static void start_targets(const struct cpus *cpus, pthread_t *threads)
{
	for (uint64_t target = 0; target < settings.targets; target++)
		threads[target] = start_pinned(cpus->id[target + 1], target_body,
					       (void *)(uintptr_t)target);
	while (atomic_load(&targets_ready) < settings.targets) {
		if (clock_monotonic_ns() >= deadline_ns)
			fail(EXIT_FAULT,
			     "only %u of %" PRIu64
			     " targets were running within --time-limit-ms; raise it",
			     atomic_load(&targets_ready), settings.targets);
		sched_yield();
	}
}

static void read_options(int argc, char **argv, const struct cpus *cpus)
{
	const struct program_help help = {
		.name = "shootdown",
		.summary = "latency of a TLB shootdown, seen by its initiator",
		.example = "shootdown --targets 1 --operations 2000 --method mprotect",
	};
	const struct option_rule rules[] = {
		{ .name = "targets", .count = &settings.targets, .min = 1, .max = CPUS_MAX - 1,
		  .help = "target threads, one per CPU beside the initiator's" },
		{ .name = "operations", .count = &settings.operations, .min = 1, .max = 100000000,
		  .help = "timed operations" },
		{ .name = "local-operations", .count = &settings.local_operations, .min = 0,
		  .max = 100000000, .help = "control operations without targets" },
		{ .name = "warmup", .count = &settings.warmup, .min = 0, .max = 1000000,
		  .help = "operations before the timed ones" },
		{ .name = "pages", .count = &settings.pages, .min = 1, .max = 512,
		  .help = "pages revoked by each operation" },
		{ .name = "method", .kind = OPTION_CHOICE, .count = &settings.method,
		  .choices = method_choices, .help = "call that revokes" },
		{ .name = "pause-us", .count = &settings.pause_us, .min = 0, .max = 10000000,
		  .help = "user-mode work between operations, us" },
		{ .name = "sleep-us", .count = &settings.sleep_us, .min = 0, .max = 10000000,
		  .help = "time blocked before each operation, us" },
		{ .name = "target-sleep-us", .count = &settings.target_sleep_us, .min = 0,
		  .max = 10000000, .help = "time for which targets block now and then, us" },
		{ .name = "target-work-us", .count = &settings.target_work_us, .min = 0,
		  .max = 10000000, .help = "user-mode work of targets between two blocks, us" },
		{ .name = "clock", .kind = OPTION_CHOICE, .count = &settings.clock,
		  .choices = clock_choices, .help = "clock for the timed call and the pauses" },
		{ .name = "seed", .count = &settings.seed, .max = UINT64_MAX,
		  .help = "seed of the pauses" },
		{ .name = "time-limit-ms", .count = &settings.time_limit_ms, .min = 1,
		  .max = 86400000, .help = "stop after this long and report what was done" },
		{ .name = NULL },
	};

	settings.targets = cpus->count > 1 ? cpus->count - 1 : 1;
	options_parse(argc, argv, &help, rules);
	if (cpus->count < 2)
		fail(EXIT_USAGE, "needs 2 CPUs, for the initiator and a target; only 1 may be used "
		     "here");
	if (settings.targets >= cpus->count)
		fail(EXIT_USAGE,
		     "--targets %" PRIu64 ": %u CPUs may be used and one is the initiator's, "
		     "so at most %u",
		     settings.targets, cpus->count, cpus->count - 1);
}

static void print_report(const struct series *remote, const struct series *local, uint64_t step_ns)
{
	report_latency("shootdown.latency", &remote->histogram);
	if (settings.local_operations)
		report_latency("shootdown.local", &local->histogram);
	report_work("shootdown", remote->histogram.count, remote->time_ns);
	report_metric("shootdown.ipis", "count", BETTER_NEUTRAL, remote->ipis);
	report_metric("shootdown.local_ipis", "count", BETTER_NEUTRAL, local->ipis);
	report_metric("shootdown.targets", "count", BETTER_NEUTRAL, settings.targets);
	report_metric("clock_step", "ns", BETTER_NEUTRAL, step_ns);
	report_metric("timed_out", "count", BETTER_LOWER, timed_out);
	report_print("shootdown");
}

int main(int argc, char **argv)
{
	static struct series remote, local;
	static pthread_t threads[CPUS_MAX];
	static struct cpus cpus;
	uint64_t step_ns;

	cpus_read(&cpus);
	read_options(argc, argv, &cpus);
	pin_self(cpus.id[0]);
	clock_choose((enum clock_kind)settings.clock);
	step_ns = clock_step_ns();
	if (step_ns > COARSE_CLOCK_NS)
		talk("the clock steps by %" PRIu64 " ns: single latencies below that read as 0 or "
		     "one step; try --clock tsc", step_ns);
	deadline_ns = deadline_after_ms(settings.time_limit_ms);
	make_region();

	if (settings.local_operations)
		run_series(settings.local_operations, &local);
	start_targets(&cpus, threads);
	run_series(settings.operations, &remote);
	atomic_store(&targets_stop, true);
	for (uint64_t target = 0; target < settings.targets; target++)
		join(threads[target]);

	print_report(&remote, &local, step_ns);
	return EXIT_SUCCESS;
}
