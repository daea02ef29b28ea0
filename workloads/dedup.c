/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * dedup: a deduplicating compressor in the shape of PARSEC's program of that name.
 *
 * A pipeline of thread pools: one thread reads the input in blocks, --threads
 * split each into chunks where its content says so, as many compute the chunks'
 * digests and look them up, as many compress what was not met before, and one
 * writes the blocks in their order. So there are more threads than CPUs, and
 * they wait for each other in queues.
 *
 * A block has a buffer for what was read and one for what is written. How they
 * are given back is the point:
 *   --buffers map      each is mapped for its block and unmapped after it, as
 *                      malloc does with large ones. The lock that the next
 *                      mmap or munmap needs is held meanwhile: calls queue up
 *   --buffers discard  they are used again, and their pages are given back by
 *                      madvise(MADV_DONTNEED), as the arenas of glibc's threads
 *                      do, and jemalloc without decay. Threads do it at a time
 *   --buffers keep     they are used again as they are, to compare with
 * Each munmap and madvise shoots down the TLBs of all CPUs on which threads of
 * the program run. They are timed ("dedup.release"), with the wait for the lock.
 *
 * What it writes can be read: --unpack yes turns an archive into its input.
 * Chunks that two threads meet at the same time are not always found to be the
 * same in the same order, so that archives differ in their order; what they
 * unpack to does not.
 *
 * Unlike PARSEC's program it reads the input as it goes and compresses by a small
 * LZ77 in place of gzip, and a block goes through the pipeline as one item.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "dedup/archive.h"
#include "dedup/buffers.h"
#include "dedup/digest.h"
#include "dedup/pack.h"
#include "dedup/queue.h"
#include "dedup/store.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "threads.h"

#define THREADS_MAX 64
#define CHUNK_MIN 512
#define CHUNK_MAX 8192
#define BOUNDARY_MASK (UINT64_C(0x7ff) << 48) /* a chunk has 2 KiB and CHUNK_MIN on average */

enum stage { STAGE_SPLIT, STAGE_LOOK_UP, STAGE_PACK, STAGE_WRITE, STAGES };

static const char *const no_yes[] = { "no", "yes", NULL };

static struct settings {
	uint64_t threads, block_kib, buffers, pack, unpack, time_limit_ms;
	const char *input, *output;
} settings = {
	.block_kib = 16,
	.pack = 1,
	.time_limit_ms = 60000,
	.input = "input",
	.output = "output",
};

struct chunk {
	uint32_t start, bytes;
	bool same;
	struct chunk_id first; /* if it is the same as that */
	unsigned char sum[DIGEST_BYTES];
};

struct block {
	struct block *next; /* for who keeps several */
	uint32_t number, chunk_count;
	size_t bytes, out_bytes;
	unsigned char *data, *out; /* a buffer each, one or both at a time */
	struct chunk chunks[];
};

/* What a thread counts for itself. */
struct worker {
	pthread_t thread;
	struct histogram releases;
	uint64_t chunks, unique;
};

static struct worker *workers; /* --threads of each of the three pools, reader, writer */
static struct queue queues[STAGES]; /* before each stage */
static struct gate gate;
static uint64_t gear[256]; /* a random number for each byte */
static size_t chunks_max;
static int input_file = -1, output_file = -1;
static uint64_t input_bytes, output_bytes;
static uint32_t block_count;
static bool timed_out;

/*
 * Bytes of the chunk at the start of @data: it ends where a hash of the last 64
 * bytes is one of 2048 values, wherever in the input that is.
 */
static size_t chunk_length(const unsigned char *data, size_t bytes)
{
	size_t end = bytes < CHUNK_MAX ? bytes : CHUNK_MAX;
	uint64_t hash = 0;

	for (size_t at = 0; at < end; at++) {
		hash = (hash << 1) + gear[data[at]];
		if (at + 1 >= CHUNK_MIN && !(hash & BOUNDARY_MASK))
			return at + 1;
	}
	return end;
}

static struct block *new_block(uint32_t number)
{
	struct block *block = calloc(1, sizeof(*block) + chunks_max * sizeof(block->chunks[0]));

	if (!block)
		fail(EXIT_FAULT, "no memory for a block");
	block->number = number;
	return block;
}

static size_t read_at(unsigned char *buffer, size_t bytes, uint64_t offset)
{
	size_t done = 0;

	while (done < bytes) {
		ssize_t now = pread(input_file, buffer + done, bytes - done,
				    (off_t)(offset + done));

		if (now < 0)
			fail(EXIT_FAULT, "reading %s: %s", settings.input, strerror(errno));
		if (!now)
			break;
		done += (size_t)now;
	}
	return done;
}

/* Reads blocks. Each ends with a chunk, so that blocks shift as little as chunks do. */
static void *read_blocks(void *argument)
{
	size_t wanted = settings.block_kib * 1024;
	uint64_t offset = 0;

	(void)argument;
	gate_pass(&gate);
	while (offset < input_bytes) {
		struct block *block;
		size_t there;

		if (clock_monotonic_ns() >= gate.deadline_ns) {
			timed_out = true;
			break;
		}
		block = new_block(block_count++);
		block->data = buffer_take();
		there = read_at(block->data, wanted + CHUNK_MAX, offset);
		if (!there)
			fail(EXIT_FAULT, "%s became shorter while it was read", settings.input);
		block->bytes = there;
		if (there > wanted)
			block->bytes = wanted + chunk_length(block->data + wanted, there - wanted);
		offset += block->bytes;
		queue_put(&queues[STAGE_SPLIT], block);
	}
	queue_leave(&queues[STAGE_SPLIT]);
	return NULL;
}

static void split(struct worker *worker, struct block *block)
{
	size_t start = 0;

	while (start < block->bytes) {
		struct chunk *chunk = &block->chunks[block->chunk_count++];

		chunk->start = (uint32_t)start;
		chunk->bytes = (uint32_t)chunk_length(block->data + start, block->bytes - start);
		start += chunk->bytes;
	}
	worker->chunks += block->chunk_count;
}

static void look_up(struct worker *worker, struct block *block)
{
	for (uint32_t index = 0; index < block->chunk_count; index++) {
		struct chunk *chunk = &block->chunks[index];

		chunk->first = (struct chunk_id){ block->number, index };
		digest(block->data + chunk->start, chunk->bytes, chunk->sum);
		chunk->same = store_has(chunk->sum, &chunk->first);
		worker->unique += !chunk->same;
	}
}

static void put(struct block *block, const void *from, size_t bytes)
{
	memcpy(block->out + block->out_bytes, from, bytes);
	block->out_bytes += bytes;
}

static void put_chunk(struct block *block, const struct chunk *chunk)
{
	struct chunk_header header = { STORED_PLAIN, chunk->bytes, chunk->bytes };
	const unsigned char *data = block->data + chunk->start;
	size_t packed = 0;

	if (chunk->same) {
		header.stored = STORED_SAME;
		header.follow = sizeof(chunk->first);
		put(block, &header, sizeof(header));
		put(block, &chunk->first, sizeof(chunk->first));
		return;
	}
	if (settings.pack)
		packed = pack(data, chunk->bytes, block->out + block->out_bytes + sizeof(header));
	if (packed) {
		header.stored = STORED_PACKED;
		header.follow = (uint32_t)packed;
	}
	put(block, &header, sizeof(header));
	if (packed)
		block->out_bytes += packed;
	else
		put(block, data, chunk->bytes);
}

static void pack_block(struct worker *worker, struct block *block)
{
	block->out = buffer_take();
	put(block, &block->chunk_count, sizeof(block->chunk_count));
	for (uint32_t index = 0; index < block->chunk_count; index++)
		put_chunk(block, &block->chunks[index]);
	buffer_return(block->data, &worker->releases);
	block->data = NULL;
}

static void write_all(const void *from, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t now = write(output_file, (const char *)from + done, bytes - done);

		if (now < 0)
			fail(EXIT_FAULT, "writing %s: %s", settings.output, strerror(errno));
		done += (size_t)now;
	}
	output_bytes += bytes;
}

static struct block *next_of(struct block **waiting, uint32_t number)
{
	struct block *block = *waiting;

	if (!block || block->number != number)
		return NULL;
	*waiting = block->next;
	return block;
}

/* Writes blocks in their order; those that come before their turn wait in a sorted list. */
static void *write_blocks(void *argument)
{
	struct worker *worker = argument;
	struct block *waiting = NULL, *block;
	uint32_t number = 0;

	gate_pass(&gate);
	write_all(ARCHIVE_MAGIC, ARCHIVE_MAGIC_BYTES);
	while ((block = queue_take(&queues[STAGE_WRITE]))) {
		struct block **place = &waiting;

		while (*place && (*place)->number < block->number)
			place = &(*place)->next;
		block->next = *place;
		*place = block;
		while ((block = next_of(&waiting, number))) {
			write_all(block->out, block->out_bytes);
			buffer_return(block->out, &worker->releases);
			free(block);
			number++;
		}
	}
	if (waiting)
		fail(EXIT_FAULT, "block %" PRIu32 " never came to be written", number);
	return NULL;
}

/* A thread of one of the three pools. */
static void work(struct worker *worker, enum stage stage,
		 void (*step)(struct worker *worker, struct block *block))
{
	struct block *block;

	gate_pass(&gate);
	while ((block = queue_take(&queues[stage]))) {
		step(worker, block);
		queue_put(&queues[stage + 1], block);
	}
	queue_leave(&queues[stage + 1]);
}

static void *split_blocks(void *argument)
{
	work(argument, STAGE_SPLIT, split);
	return NULL;
}

static void *look_up_blocks(void *argument)
{
	work(argument, STAGE_LOOK_UP, look_up);
	return NULL;
}

static void *pack_blocks(void *argument)
{
	work(argument, STAGE_PACK, pack_block);
	return NULL;
}

/* Not pinned: the guest's scheduler places the threads of such a program. */
static void start(struct worker *worker, void *(*body)(void *))
{
	int error = pthread_create(&worker->thread, NULL, body, worker);

	if (error)
		fail(EXIT_FAULT, "starting a thread: %s; lower --threads", strerror(error));
}

static unsigned int start_workers(void)
{
	void *(*const pools[])(void *) = { split_blocks, look_up_blocks, pack_blocks };
	unsigned int count = (unsigned int)settings.threads, started = 0;

	workers = calloc(3 * count + 2, sizeof(*workers));
	if (!workers)
		fail(EXIT_FAULT, "no memory for %u threads", 3 * count + 2);
	queue_init(&queues[STAGE_SPLIT], 1);
	for (enum stage stage = STAGE_LOOK_UP; stage < STAGES; stage++)
		queue_init(&queues[stage], count);
	for (unsigned int pool = 0; pool < 3; pool++)
		for (unsigned int thread = 0; thread < count; thread++)
			start(&workers[started++], pools[pool]);
	start(&workers[started++], read_blocks);
	start(&workers[started++], write_blocks);
	return started;
}

static void open_files(void)
{
	struct stat status;

	input_file = open(settings.input, O_RDONLY | O_CLOEXEC);
	if (input_file < 0 || fstat(input_file, &status))
		fail(EXIT_FAULT, "--input %s: %s; make-input --kind versions makes one",
		     settings.input, strerror(errno));
	input_bytes = (uint64_t)status.st_size;
	output_file = open(settings.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (output_file < 0)
		fail(EXIT_FAULT, "--output %s: %s", settings.output, strerror(errno));
}

static void read_options(int argc, char **argv, const struct cpus *cpus)
{
	const struct program_help help = {
		.name = "dedup",
		.summary = "packs a file, parts that repeat once, in a pipeline of threads",
		.example = "dedup --input text --output text.dedup --threads 2",
	};
	const struct option_rule rules[] = {
		{ .name = "input", .kind = OPTION_TEXT, .text = &settings.input,
		  .help = "the file to pack, or the archive to unpack" },
		{ .name = "output", .kind = OPTION_TEXT, .text = &settings.output,
		  .help = "the file to write" },
		{ .name = "unpack", .kind = OPTION_CHOICE, .count = &settings.unpack,
		  .choices = no_yes, .help = "turn an archive into what was packed" },
		{ .name = "threads", .count = &settings.threads, .min = 1, .max = THREADS_MAX,
		  .help = "threads of each of the three pools" },
		{ .name = "block-kib", .count = &settings.block_kib, .min = 4, .max = 4096,
		  .help = "what a thread is given at a time, KiB" },
		{ .name = "buffers", .kind = OPTION_CHOICE, .count = &settings.buffers,
		  .choices = buffers_choices, .help = "how memory for a block is given back" },
		{ .name = "pack", .kind = OPTION_CHOICE, .count = &settings.pack,
		  .choices = no_yes, .help = "compress what was not met before" },
		{ .name = "time-limit-ms", .count = &settings.time_limit_ms, .min = 1,
		  .max = 86400000, .help = "stop after this long and report what was done" },
		{ .name = NULL },
	};

	settings.threads = cpus->count < THREADS_MAX ? cpus->count : THREADS_MAX;
	options_parse(argc, argv, &help, rules);
}

static void prepare(void)
{
	size_t most = settings.block_kib * 1024 + CHUNK_MAX;
	uint64_t stream = 1;

	digest_check();
	store_init();
	for (int byte = 0; byte < 256; byte++)
		gear[byte] = random_next(&stream);
	/* All but the last chunk of a block have CHUNK_MIN bytes at least. */
	chunks_max = most / CHUNK_MIN + 1;
	/* What is packed never gets longer, so its headers are what comes on top. */
	buffers_init((enum buffers)settings.buffers,
		     most + sizeof(uint32_t) +
		     chunks_max * (sizeof(struct chunk_header) + sizeof(struct chunk_id)));
	gate_init(&gate, deadline_after_ms(settings.time_limit_ms));
}

static void print_report(uint64_t time_ns, unsigned int threads)
{
	static struct histogram releases;
	uint64_t chunks = 0, unique = 0;

	for (unsigned int thread = 0; thread < threads; thread++) {
		histogram_merge(&releases, &workers[thread].releases);
		chunks += workers[thread].chunks;
		unique += workers[thread].unique;
	}
	report_latency("dedup.release", &releases);
	report_work("dedup", block_count, time_ns);
	report_metric("dedup.input", "bytes", BETTER_NEUTRAL, input_bytes);
	report_metric("dedup.output", "bytes", BETTER_NEUTRAL, output_bytes);
	report_metric("dedup.chunks", "count", BETTER_NEUTRAL, chunks);
	report_metric("dedup.unique", "count", BETTER_NEUTRAL, unique);
		report_metric("dedup.threads", "count", BETTER_NEUTRAL, threads);
	report_metric("timed_out", "count", BETTER_LOWER, timed_out);
	report_print("dedup");
}

static int unpack_archive(void)
{
	uint64_t start_ns = clock_monotonic_ns(), chunks;

	chunks = archive_unpack(settings.input, settings.output);
	report_work("dedup", chunks, clock_monotonic_ns() - start_ns);
	report_metric("timed_out", "count", BETTER_LOWER, 0);
	report_print("dedup");
	return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
	static struct cpus cpus;
	uint64_t start_ns, time_ns;
	unsigned int threads;

	cpus_read(&cpus);
	read_options(argc, argv, &cpus);
	if (settings.unpack)
		return unpack_archive();
	prepare();
	open_files();
	threads = start_workers();
	start_ns = gate_open(&gate, threads);
	for (unsigned int thread = 0; thread < threads; thread++)
		join(workers[thread].thread);
	time_ns = clock_monotonic_ns() - start_ns;
	if (close(output_file))
		fail(EXIT_FAULT, "writing %s: %s", settings.output, strerror(errno));
	print_report(time_ns, threads);
	return EXIT_SUCCESS;
}
