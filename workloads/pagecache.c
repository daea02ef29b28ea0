/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * pagecache: page-cache and mmap_lock contention in the manner of ebizzy.
 *
 * Chunks of sorted numbers stand for the records of a web search. Each thread
 * picks a chunk at random (seeded), takes memory for a copy of it, copies it,
 * finds a random number in the copy by binary search and gives the memory
 * back; that is one record. How the memory is taken is the point:
 *   --memory file   the chunk is mapped from a file for each record, so that
 *                   every copy faults page-cache pages in, and the copy is
 *                   an anonymous mapping: two mmap, two munmap per record
 *   --memory mmap   chunks stay in memory; the copy is an anonymous mapping
 *   --memory heap   chunks stay in memory; the copy comes from malloc
 * mmap and munmap take mmap_lock for writing, faults take it (or the VMA's
 * lock) for reading, and each munmap shoots down the TLBs of all threads'
 * CPUs: with a preempted vCPU in the middle, everyone waits.
 *
 * The amount of work is fixed (--records) and the time measured, so that runs
 * do the same thing; --seconds turns that round.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "threads.h"

#define NS_PER_S UINT64_C(1000000000)
#define THREADS_MAX 256

enum memory { MEMORY_FILE, MEMORY_MMAP, MEMORY_HEAP };

static const char *const memory_choices[] = { "file", "mmap", "heap", NULL };

static struct settings {
	uint64_t threads, chunks, chunk_kib, records, seconds, memory, time_limit_ms, seed;
	const char *directory;
} settings = {
	.chunks = 16,
	.chunk_kib = 64,
	.records = 2000,
	.time_limit_ms = 60000,
	.seed = 1,
	.directory = "/tmp",
};

struct worker {
	pthread_t thread;
	uint64_t stream;  /* state of its random numbers */
	uint64_t records; /* to do; UINT64_MAX with --seconds */
	struct histogram histogram;
};

static struct worker *workers;
static struct gate gate;
static struct cpus cpus;
static uint64_t chunk_bytes, chunk_numbers;
static int chunk_file = -1;
static uint64_t *chunk_memory; /* all chunks in a row; NULL with MEMORY_FILE */
static uint64_t stop_ns;       /* written before the gate opens */
static atomic_bool timed_out;

static void *map(size_t bytes, int protection, int flags, int file, uint64_t offset)
{
	void *start = mmap(NULL, bytes, protection, flags, file, (off_t)offset);

	if (start == MAP_FAILED)
		fail(EXIT_FAULT, "mapping %zu bytes: %s; lower --chunk-kib or --threads", bytes,
		     strerror(errno));
	return start;
}

static void unmap(const void *start, size_t bytes)
{
	if (munmap((void *)(uintptr_t)start, bytes))
		fail(EXIT_FAULT, "munmap: %s", strerror(errno));
}

static void *take_memory(void)
{
	void *memory;

	if (settings.memory != MEMORY_HEAP)
		return map(chunk_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	memory = malloc(chunk_bytes);
	if (!memory)
		fail(EXIT_FAULT, "malloc of %" PRIu64 " bytes failed", chunk_bytes);
	return memory;
}

static void return_memory(void *memory)
{
	if (settings.memory == MEMORY_HEAP)
		free(memory);
	else
		unmap(memory, chunk_bytes);
}

/* The numbers of a chunk are 0, 1, 2, ...: number n must be found at index n. */
static uint64_t search(const uint64_t *numbers, uint64_t wanted)
{
	uint64_t low = 0, high = chunk_numbers;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (numbers[middle] < wanted)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void do_record(uint64_t *stream)
{
	uint64_t chunk = random_below(stream, settings.chunks);
	uint64_t wanted = random_below(stream, chunk_numbers), found;
	uint64_t *copy = take_memory();
	const uint64_t *source;

	if (settings.memory == MEMORY_FILE)
		source = map(chunk_bytes, PROT_READ, MAP_SHARED, chunk_file, chunk * chunk_bytes);
	else
		source = chunk_memory + chunk * chunk_numbers;
	memcpy(copy, source, chunk_bytes);
	if (settings.memory == MEMORY_FILE)
		unmap(source, chunk_bytes);
	found = search(copy, wanted);
	if (found != wanted)
		fail(EXIT_FAULT, "chunk %" PRIu64 ": %" PRIu64 " found at %" PRIu64
		     ": memory was corrupted", chunk, wanted, found);
	return_memory(copy);
}

static void *worker_body(void *argument)
{
	struct worker *worker = argument;
	uint64_t now_ns;

	gate_pass(&gate);
	now_ns = clock_monotonic_ns();
	for (uint64_t done = 0; done < worker->records; done++) {
		uint64_t end_ns;

		if (now_ns >= gate.deadline_ns)
			atomic_store(&timed_out, true);
		if (now_ns >= gate.deadline_ns || now_ns >= stop_ns)
			break;
		do_record(&worker->stream);
		end_ns = clock_monotonic_ns();
		histogram_add(&worker->histogram, end_ns - now_ns);
		now_ns = end_ns;
	}
	return NULL;
}

/* A file of its own in --directory, already unlinked: nothing stays behind. */
static int open_chunk_file(void)
{
	char path[4096];
	int file;

	if (snprintf(path, sizeof(path), "%s/pagecache.XXXXXX", settings.directory) >=
	    (int)sizeof(path))
		fail(EXIT_USAGE, "--directory: the path is too long");
	file = mkostemp(path, O_CLOEXEC);
	if (file < 0)
		fail(EXIT_FAULT, "making a file in '%s': %s; name another --directory",
		     settings.directory, strerror(errno));
	unlink(path);
	if (ftruncate(file, (off_t)(settings.chunks * chunk_bytes)))
		fail(EXIT_FAULT, "sizing the file in '%s': %s", settings.directory,
		     strerror(errno));
	return file;
}

static void make_chunks(void)
{
	uint64_t bytes = settings.chunks * chunk_bytes;
	uint64_t *numbers;
	int error;

	if (settings.memory == MEMORY_FILE) {
		chunk_file = open_chunk_file();
		/* A full disk would be a SIGBUS on the first write; this names it. */
		error = posix_fallocate(chunk_file, 0, (off_t)bytes);
		if (error && error != EOPNOTSUPP && error != EINVAL)
			fail(EXIT_FAULT, "filling the file in '%s' with %" PRIu64 " bytes: %s",
			     settings.directory, bytes, strerror(error));
		numbers = map(bytes, PROT_READ | PROT_WRITE, MAP_SHARED, chunk_file, 0);
	} else {
		numbers = map(bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		chunk_memory = numbers;
	}
	for (uint64_t chunk = 0; chunk < settings.chunks; chunk++)
		for (uint64_t index = 0; index < chunk_numbers; index++)
			numbers[chunk * chunk_numbers + index] = index;
	if (settings.memory == MEMORY_FILE)
		unmap(numbers, bytes);
	/* Otherwise glibc would turn large mallocs into mmap, which is the other mode. */
	if (settings.memory == MEMORY_HEAP && !mallopt(M_MMAP_MAX, 0))
		fail(EXIT_FAULT, "mallopt(M_MMAP_MAX, 0) failed");
}

static void start_workers(void)
{
	uint64_t seeds = settings.seed;

	workers = calloc(settings.threads, sizeof(*workers));
	if (!workers)
		fail(EXIT_FAULT, "no memory for %" PRIu64 " threads", settings.threads);
	for (uint64_t index = 0; index < settings.threads; index++) {
		struct worker *worker = &workers[index];

		worker->stream = random_next(&seeds);
		worker->records = settings.records / settings.threads +
				  (index < settings.records % settings.threads);
		if (settings.seconds)
			worker->records = UINT64_MAX;
		worker->thread = start_pinned(cpus.id[index % cpus.count], worker_body, worker);
	}
}

static void read_options(int argc, char **argv)
{
	const struct program_help help = {
		.name = "pagecache",
		.summary = "records searched while threads map, fault and unmap memory",
		.example = "pagecache --threads 2 --records 2000 --memory file",
	};
	const struct option_rule rules[] = {
		{ .name = "threads", .count = &settings.threads, .min = 1, .max = THREADS_MAX,
		  .help = "threads, pinned to the CPUs in turn" },
		{ .name = "chunks", .count = &settings.chunks, .min = 1, .max = 65536,
		  .help = "chunks to search in" },
		{ .name = "chunk-kib", .count = &settings.chunk_kib, .min = 4, .max = 65536,
		  .help = "size of a chunk, KiB, rounded up to a multiple of 4" },
		{ .name = "records", .count = &settings.records, .min = 1, .max = 1000000000,
		  .help = "records to search, all threads together" },
		{ .name = "seconds", .count = &settings.seconds, .min = 0, .max = 86400,
		  .help = "search this long, s, whatever --records says; 0: count records" },
		{ .name = "memory", .kind = OPTION_CHOICE, .count = &settings.memory,
		  .choices = memory_choices, .help = "how memory for a record is taken" },
		{ .name = "directory", .kind = OPTION_TEXT, .text = &settings.directory,
		  .help = "where the file of --memory file is made" },
		{ .name = "seed", .count = &settings.seed, .max = UINT64_MAX,
		  .help = "seed of the choices" },
		{ .name = "time-limit-ms", .count = &settings.time_limit_ms, .min = 1,
		  .max = 86400000, .help = "stop after this long and report what was done" },
		{ .name = NULL },
	};

	settings.threads = cpus.count < THREADS_MAX ? cpus.count : THREADS_MAX;
	options_parse(argc, argv, &help, rules);
	chunk_bytes = (settings.chunk_kib + 3) / 4 * 4096;
	chunk_numbers = chunk_bytes / sizeof(uint64_t);
}

static void print_report(const struct histogram *histogram, uint64_t time_ns, uint64_t minor_faults,
			 uint64_t major_faults)
{
	report_latency("pagecache.record", histogram);
	report_work("pagecache", histogram->count, time_ns);
	report_metric("pagecache.minor_faults", "count", BETTER_NEUTRAL, minor_faults);
	report_metric("pagecache.major_faults", "count", BETTER_NEUTRAL, major_faults);
	report_metric("pagecache.threads", "count", BETTER_NEUTRAL, settings.threads);
	report_metric("timed_out", "count", BETTER_LOWER, atomic_load(&timed_out));
	report_print("pagecache");
}

int main(int argc, char **argv)
{
	static struct histogram histogram;
	struct rusage before, after;
	uint64_t start_ns, time_ns;

	cpus_read(&cpus);
	read_options(argc, argv);
	/* So that a record costs the same number of faults everywhere; no huge pages, no error. */
	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
	gate_init(&gate, deadline_after_ms(settings.time_limit_ms));
	make_chunks();
	stop_ns = settings.seconds ? clock_monotonic_ns() + settings.seconds * NS_PER_S : UINT64_MAX;
	start_workers();
	getrusage(RUSAGE_SELF, &before);
	start_ns = gate_open(&gate, (unsigned int)settings.threads);
	for (uint64_t index = 0; index < settings.threads; index++) {
		join(workers[index].thread);
		histogram_merge(&histogram, &workers[index].histogram);
	}
	time_ns = clock_monotonic_ns() - start_ns;
	getrusage(RUSAGE_SELF, &after);
	print_report(&histogram, time_ns, (uint64_t)(after.ru_minflt - before.ru_minflt),
		     (uint64_t)(after.ru_majflt - before.ru_majflt));
	return EXIT_SUCCESS;
}
