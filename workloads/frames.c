/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * frames: which guest-physical frames a program gets from a kernel that has
 * just booted, and from one that has worked for a while.
 *
 * A region is mapped and touched in the order of its pages, each thread its
 * own part, in pages of 4 KiB; /proc/self/pagemap has the frames (as root
 * only). Then the machine works as over a day: processes come and go, map,
 * fill, cut up and give back memory of all sizes, copy pages of their parent
 * on write, and write, rewrite and delete files, until the page cache has
 * taken what was free. The last of them stay alive while a second region is
 * mapped and looked at like the first.
 *
 * "frames.fresh" and "frames.worked" have the pages looked at; how many runs
 * of neighbours they make, in either direction, by length ("of_8": 8 to 15);
 * and "lines": how many groups of eight aligned frames hold the pages of each
 * eight neighbours, summed. A group is a cache line of nested page-table
 * entries; in order, eight pages need one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "threads.h"

#define PAGE UINT64_C(4096)
#define PAGES_PER_MIB UINT64_C(256)
#define GROUP 8 /* entries in a cache line */
#define THREADS_MAX 64
#define PROGRAMS_MAX 64
#define SLOTS 64  /* mappings that a program holds at most */
#define ORDERS 10 /* lengths of runs: 1, 2 to 3, and so on; the last is open */
#define FRAME_MASK ((UINT64_C(1) << 55) - 1)
#define PRESENT (UINT64_C(1) << 63)

static struct settings {
	uint64_t region_mib, resident_mib, programs, lives, operations, files, threads;
	uint64_t time_limit_ms, seed;
	const char *directory;
} settings = {
	.region_mib = 8,
	.resident_mib = 8,
	.programs = 4,
	.lives = 16,
	.operations = 64,
	.files = 64,
	.time_limit_ms = 600000,
	.seed = 1,
	.directory = "/tmp",
};

struct layout {
	uint64_t pages, lines, runs, of[ORDERS];
};

struct part {
	pthread_t thread;
	volatile char *start;
	uint64_t pages;
};

struct slot {
	char *start;
	uint64_t pages;
};

static struct cpus cpus;
static struct gate gate;
static volatile char *resident;
static uint64_t deadline_ns;

static void *map(uint64_t pages)
{
	void *start = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	if (start == MAP_FAILED)
		fail(EXIT_FAULT, "mapping %" PRIu64 " pages: %s; lower --region-mib", pages,
		     strerror(errno));
	/* Small pages are the question; a kernel without huge ones refuses, and has none. */
	madvise(start, pages * PAGE, MADV_NOHUGEPAGE);
	return start;
}

static void *touch_part(void *argument)
{
	struct part *part = argument;

	gate_pass(&gate);
	for (uint64_t page = 0; page < part->pages; page++)
		part->start[page * PAGE] = 1;
	return NULL;
}

static void touch(char *start, uint64_t pages)
{
	static struct part parts[THREADS_MAX];
	uint64_t each = pages / settings.threads;

	gate_init(&gate, deadline_ns);
	for (uint64_t index = 0; index < settings.threads; index++) {
		parts[index].start = start + index * each * PAGE;
		parts[index].pages = index + 1 < settings.threads ? each : pages - index * each;
		parts[index].thread = start_pinned(cpus.id[index % cpus.count], touch_part,
						   &parts[index]);
	}
	gate_open(&gate, (unsigned int)settings.threads);
	for (uint64_t index = 0; index < settings.threads; index++)
		join(parts[index].thread);
}

static void read_frames(const char *start, uint64_t *frames, uint64_t pages)
{
	off_t at = (off_t)((uintptr_t)start / PAGE * sizeof(*frames));
	size_t bytes = pages * sizeof(*frames), done = 0;
	int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	if (file < 0)
		fail(EXIT_FAULT, "/proc/self/pagemap: %s", strerror(errno));
	while (done < bytes) {
		ssize_t got = pread(file, (char *)frames + done, bytes - done, at + (off_t)done);

		if (got <= 0)
			fail(EXIT_FAULT, "/proc/self/pagemap ended early");
		done += (size_t)got;
	}
	close(file);
	for (uint64_t page = 0; page < pages; page++) {
		if (!(frames[page] & PRESENT))
			fail(EXIT_FAULT, "page %" PRIu64 " has gone; the guest lacks memory", page);
		frames[page] &= FRAME_MASK;
		if (!frames[page])
			fail(EXIT_FAULT, "the kernel hides frame numbers; run as root");
	}
}

/* Lines of nested entries that the pages of one group of neighbours need. */
static uint64_t lines_of(const uint64_t *frames, uint64_t count)
{
	uint64_t lines = 0;

	for (uint64_t page = 0; page < count; page++) {
		uint64_t before = 0;

		while (before < page && frames[before] / GROUP != frames[page] / GROUP)
			before++;
		lines += before == page;
	}
	return lines;
}

static void add_run(struct layout *layout, uint64_t length)
{
	unsigned int order = 0;

	while (order + 1 < ORDERS && length >> (order + 1))
		order++;
	layout->of[order]++;
	layout->runs++;
}

static void look(struct layout *layout)
{
	uint64_t pages = settings.region_mib * PAGES_PER_MIB, length = 1, step = 0;
	uint64_t *frames = calloc(pages, sizeof(*frames));
	char *region = map(pages);

	if (!frames)
		fail(EXIT_FAULT, "no memory for %" PRIu64 " frame numbers", pages);
	touch(region, pages);
	read_frames(region, frames, pages);
	layout->pages = pages;
	for (uint64_t page = 0; page < pages; page += GROUP)
		layout->lines += lines_of(frames + page, GROUP);
	for (uint64_t page = 1; page < pages; page++) {
		uint64_t here = frames[page] - frames[page - 1]; /* 1, or -1 as unsigned */

		if ((here == 1 || here == UINT64_MAX) && (length == 1 || here == step)) {
			step = here;
			length++;
			continue;
		}
		add_run(layout, length);
		length = 1;
	}
	add_run(layout, length);
	munmap(region, pages * PAGE);
	free(frames);
}

/* 1 to 512, each power of two as likely as the next. */
static uint64_t some_pages(uint64_t *stream)
{
	uint64_t top = UINT64_C(1) << random_below(stream, ORDERS);

	return top - random_below(stream, (top + 1) / 2);
}

static void change_slot(struct slot *slot, uint64_t *stream)
{
	if (!slot->pages) {
		slot->pages = some_pages(stream);
		slot->start = map(slot->pages);
		for (uint64_t page = 0; page < slot->pages; page++)
			((volatile char *)slot->start)[page * PAGE] = 1;
	} else if (slot->pages > 1 && random_below(stream, 2)) {
		uint64_t kept = slot->pages / 2;

		munmap(slot->start + kept * PAGE, (slot->pages - kept) * PAGE);
		slot->pages = kept;
	} else {
		munmap(slot->start, slot->pages * PAGE);
		slot->pages = 0;
	}
}

static void name_file(char *path, size_t size, uint64_t number)
{
	if (snprintf(path, size, "%s/frames.%" PRIu64, settings.directory, number) >= (int)size)
		fail(EXIT_USAGE, "--directory: the path is too long");
}

static void change_file(uint64_t *stream)
{
	static char block[PAGE];
	char path[4096];
	uint64_t pages = some_pages(stream);
	int file;

	name_file(path, sizeof(path), random_below(stream, settings.files));
	if (!random_below(stream, 4)) {
		unlink(path);
		return;
	}
	file = open(path, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	if (file < 0)
		fail(EXIT_FAULT, "%s: %s; name another --directory", path, strerror(errno));
	/* A full disk is a part of the day: the file stays shorter. */
	while (pages-- && write(file, block, sizeof(block)) == (ssize_t)sizeof(block))
		;
	close(file);
}

/* The life of one process; with @stay it goes when that is closed. */
static void live(uint64_t seed, int stay)
{
	static struct slot slots[SLOTS];
	uint64_t stream = seed;
	char end;

	for (uint64_t done = 0; done < settings.operations; done++) {
		uint64_t page = random_below(&stream, settings.resident_mib * PAGES_PER_MIB);

		if (clock_monotonic_ns() >= deadline_ns)
			break;
		change_slot(&slots[random_below(&stream, SLOTS)], &stream);
		resident[page * PAGE] = 2; /* a copy on write */
		if (!random_below(&stream, 3))
			change_file(&stream);
	}
	while (stay >= 0 && read(stay, &end, 1) < 0 && errno == EINTR)
		;
	_exit(EXIT_SUCCESS);
}

static pid_t start_life(uint64_t seed, const int stay[2], bool stays)
{
	pid_t child = fork();

	if (child < 0)
		fail(EXIT_FAULT, "fork: %s", strerror(errno));
	if (!child) {
		close(stay[1]);
		live(seed, stays ? stay[0] : -1);
	}
	return child;
}

static void reap(void)
{
	int status;

	while (wait(&status) < 0)
		if (errno != EINTR)
			fail(EXIT_FAULT, "wait: %s", strerror(errno));
	if (!WIFEXITED(status) || WEXITSTATUS(status))
		fail(EXIT_FAULT, "a process of the day failed; give the guest more memory");
}

/* The day; returns with the last processes alive, which go when stay[1] is closed. */
static void work(const int stay[2])
{
	uint64_t seeds = settings.seed, pages = settings.resident_mib * PAGES_PER_MIB;
	uint64_t alive = 0;

	resident = map(pages);
	for (uint64_t page = 0; page < pages; page++)
		resident[page * PAGE] = 1;
	for (uint64_t life = 0; life < settings.lives; life++) {
		if (clock_monotonic_ns() >= deadline_ns)
			break;
		if (alive == settings.programs) {
			reap();
			alive--;
		}
		start_life(random_next(&seeds), stay, false);
		alive++;
	}
	for (; alive; alive--)
		reap();
	for (; alive < settings.programs; alive++)
		start_life(random_next(&seeds), stay, true);
}

static void report_layout(const char *name, const struct layout *layout)
{
	char metric[64];

	snprintf(metric, sizeof(metric), "frames.%s.pages", name);
	report_metric(metric, "count", BETTER_NEUTRAL, layout->pages);
	snprintf(metric, sizeof(metric), "frames.%s.lines", name);
	report_metric(metric, "count", BETTER_NEUTRAL, layout->lines);
	snprintf(metric, sizeof(metric), "frames.%s.runs", name);
	report_metric(metric, "count", BETTER_NEUTRAL, layout->runs);
	for (unsigned int order = 0; order < ORDERS; order++) {
		snprintf(metric, sizeof(metric), "frames.%s.of_%u", name, 1U << order);
		report_metric(metric, "count", BETTER_NEUTRAL, layout->of[order]);
	}
}

static void read_options(int argc, char **argv)
{
	const struct program_help help = {
		.name = "frames",
		.summary = "which frames a program gets, before and after a day's kind of work",
		.example = "frames --region-mib 4 --lives 8",
	};
	const struct option_rule rules[] = {
		{ .name = "region-mib", .count = &settings.region_mib, .min = 1, .max = 65536,
		  .help = "size of the region looked at, MiB" },
		{ .name = "resident-mib", .count = &settings.resident_mib, .min = 1, .max = 65536,
		  .help = "memory that processes inherit and copy on write, MiB" },
		{ .name = "programs", .count = &settings.programs, .min = 1, .max = PROGRAMS_MAX,
		  .help = "processes alive at a time" },
		{ .name = "lives", .count = &settings.lives, .min = 0, .max = 1000000000,
		  .help = "processes in all, before the last" },
		{ .name = "operations", .count = &settings.operations, .min = 1, .max = 1000000000,
		  .help = "mappings made or changed in a life" },
		{ .name = "files", .count = &settings.files, .min = 1, .max = 1000000,
		  .help = "files that are written, rewritten and deleted" },
		{ .name = "threads", .count = &settings.threads, .min = 1, .max = THREADS_MAX,
		  .help = "threads that touch the region, each its part" },
		{ .name = "directory", .kind = OPTION_TEXT, .text = &settings.directory,
		  .help = "where the files are" },
		{ .name = "seed", .count = &settings.seed, .max = UINT64_MAX,
		  .help = "seed of the choices" },
		{ .name = "time-limit-ms", .count = &settings.time_limit_ms, .min = 1,
		  .max = 86400000, .help = "end the day after this long and look" },
		{ .name = NULL },
	};

	settings.threads = cpus.count < THREADS_MAX ? cpus.count : THREADS_MAX;
	options_parse(argc, argv, &help, rules);
}

int main(int argc, char **argv)
{
	static struct layout fresh, worked;
	uint64_t start_ns, worked_ns;
	int stay[2];

	cpus_read(&cpus);
	read_options(argc, argv);
	deadline_ns = deadline_after_ms(settings.time_limit_ms);
	if (pipe2(stay, O_CLOEXEC))
		fail(EXIT_FAULT, "pipe: %s", strerror(errno));
	look(&fresh);
	start_ns = clock_monotonic_ns();
	work(stay);
	worked_ns = clock_monotonic_ns();
	/* The gate's limit is for threads that do not start, not for the day. */
	deadline_ns = deadline_after_ms(settings.time_limit_ms);
	look(&worked);
	close(stay[1]);
	for (uint64_t alive = 0; alive < settings.programs; alive++)
		reap();
	for (uint64_t number = 0; number < settings.files; number++) {
		char path[4096];

		name_file(path, sizeof(path), number);
		unlink(path);
	}
	report_work("frames", settings.lives * settings.operations, worked_ns - start_ns);
	report_layout("fresh", &fresh);
	report_layout("worked", &worked);
	report_metric("timed_out", "count", BETTER_LOWER,
		      worked_ns - start_ns >= settings.time_limit_ms * UINT64_C(1000000));
	report_print("frames");
	return EXIT_SUCCESS;
}
