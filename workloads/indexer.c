/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * indexer: text indexing by many processes, in the manner of psearchy's pedsort (MOSBENCH, OSDI
 * 2010), whose stalls are not those of threads: no two share an address space, so that hardly a
 * TLB shootdown is sent, and what is waited for are the kernel's own locks and wake-ups.
 *
 * Each process takes the next file of a shared queue, maps it, puts each of its words with its
 * position into a hash table of its own, and unmaps it. When the table's places are used up, the
 * table is sorted and written to a new file. It ends when the queue is empty, with the last table
 * written. What was written is then compared with what the files hold: number of words, and the sum
 * of their hashes.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock.h"
#include "indexer/corpus.h"
#include "indexer/table.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "threads.h"

#define PROCESSES_MAX 256

static const char *const keep_choices[] = { "no", "yes", NULL };

static struct settings {
	uint64_t processes, files, file_kib, places, keep, time_limit_ms, seed;
	const char *directory;
} settings = {
	.files = 128,
	.file_kib = 16,
	.places = 8192,
	.time_limit_ms = 60000,
	.seed = 1,
	.directory = "/tmp",
};

/* What a process says of itself, in memory that all share. */
struct result {
	struct histogram histogram; /* time for each file, ns */
	struct corpus_sum found;
	uint64_t lists; /* tables written */
};

struct shared {
	_Atomic uint64_t next_file;
	_Atomic uint64_t arrived;
	atomic_bool open, timed_out;
	struct result results[];
};

static struct shared *shared;
static struct cpus cpus;
static char directory[4096];
static uint64_t deadline_ns;

static void write_list(struct table *table, struct result *result, uint64_t process)
{
	struct corpus_sum sum;
	char path[4200];

	snprintf(path, sizeof(path), "%s/list-%" PRIu64 "-%" PRIu64, directory, process,
		 result->lists);
	sum = table_write(table, path);
	if (!sum.words)
		return;
	result->lists++;
	result->found.words += sum.words;
	result->found.hashes += sum.hashes;
}

static int is_letter(char letter)
{
	return letter >= 'a' && letter <= 'z';
}

static void index_text(const char *text, uint64_t bytes, uint64_t number, struct table *table,
		       struct result *result, uint64_t process)
{
	uint64_t at = 0, end;

	for (;;) {
		while (at < bytes && !is_letter(text[at]))
			at++;
		if (at == bytes)
			return;
		for (end = at; end < bytes && end - at < WORD_MAX && is_letter(text[end]);)
			end++;
		if (table_full(table))
			write_list(table, result, process);
		table_add(table, text + at, end - at, number, at);
		at = end;
	}
}

static void index_file(uint64_t number, struct table *table, struct result *result,
		       uint64_t process)
{
	uint64_t bytes = settings.file_kib * 1024;
	char path[4200];
	char *text;
	int file;

	corpus_path(path, sizeof(path), directory, number);
	file = open(path, O_RDONLY | O_CLOEXEC);
	text = file < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
	if (text == MAP_FAILED)
		fail(EXIT_FAULT, "mapping '%s': %s", path, strerror(errno));
	close(file);
	index_text(text, bytes, number, table, result, process);
	munmap(text, bytes);
}

/* All begin at once; one that was never started is the time limit's business. */
static void wait_for_others(void)
{
	atomic_fetch_add(&shared->arrived, 1);
	while (!atomic_load(&shared->open)) {
		if (clock_monotonic_ns() >= deadline_ns)
			fail(EXIT_FAULT, "not all processes were started in the time limit");
		usleep(100);
	}
}

static void process_body(uint64_t process)
{
	struct result *result = &shared->results[process];
	struct table *table = table_make(settings.places);
	uint64_t now_ns, end_ns, number;

	wait_for_others();
	now_ns = clock_monotonic_ns();
	for (;;) {
		number = atomic_fetch_add(&shared->next_file, 1);
		if (number >= settings.files)
			break;
		if (now_ns >= deadline_ns) {
			atomic_store(&shared->timed_out, true);
			break;
		}
		index_file(number, table, result, process);
		end_ns = clock_monotonic_ns();
		histogram_add(&result->histogram, end_ns - now_ns);
		now_ns = end_ns;
	}
	write_list(table, result, process);
}

static void remove_files(void)
{
	char path[4200];

	if (settings.keep)
		return;
	corpus_remove(directory, settings.files);
	for (uint64_t process = 0; process < settings.processes; process++)
		for (uint64_t list = 0; list <= shared->results[process].lists; list++) {
			snprintf(path, sizeof(path), "%s/list-%" PRIu64 "-%" PRIu64, directory,
				 process, list);
			unlink(path);
		}
	rmdir(directory);
}

static void start(uint64_t process)
{
	pid_t parent = getpid(), child = fork();

	if (child < 0) {
		int error = errno;

		remove_files();
		fail(EXIT_FAULT, "starting process %" PRIu64 ": %s; lower --processes", process,
		     strerror(error));
	}
	if (child)
		return;
	/* None outlives the one that counts. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent)
		_exit(EXIT_FAULT);
	pin_self(cpus.id[process % cpus.count]);
	process_body(process);
	_exit(EXIT_SUCCESS);
}

static void wait_for_all(void)
{
	int status, failed = 0;

	for (uint64_t process = 0; process < settings.processes; process++) {
		while (wait(&status) < 0)
			if (errno != EINTR)
				fail(EXIT_FAULT, "waiting for processes: %s", strerror(errno));
		failed |= status;
	}
	remove_files();
	/* The one that failed has said why. */
	if (failed)
		fail(EXIT_FAULT, "a process failed");
}

static void check(const struct corpus_sum *made, const struct corpus_sum *found)
{
	if (!atomic_load(&shared->timed_out) &&
	    (made->words != found->words || made->hashes != found->hashes))
		fail(EXIT_FAULT, "the files hold %" PRIu64 " words, %" PRIu64
		     " were written: memory or files were corrupted", made->words, found->words);
}

static void read_options(int argc, char **argv)
{
	const struct program_help help = {
		.name = "indexer",
		.summary = "files indexed by processes that map them and sort their words",
		.example = "indexer --processes 2 --files 64",
	};
	const struct option_rule rules[] = {
		{ .name = "processes", .count = &settings.processes, .min = 1, .max = PROCESSES_MAX,
		  .help = "processes, pinned to the CPUs in turn" },
		{ .name = "files", .count = &settings.files, .min = 1, .max = 1000000,
		  .help = "files to index, all processes together" },
		{ .name = "file-kib", .count = &settings.file_kib, .min = 1, .max = 65536,
		  .help = "size of a file, KiB" },
		{ .name = "places", .count = &settings.places, .min = 1, .max = 100000000,
		  .help = "words that a process keeps before it sorts and writes them" },
		{ .name = "directory", .kind = OPTION_TEXT, .text = &settings.directory,
		  .help = "where a folder for files and lists is made" },
		{ .name = "keep", .kind = OPTION_CHOICE, .count = &settings.keep,
		  .choices = keep_choices, .help = "whether files and lists stay there" },
		{ .name = "seed", .count = &settings.seed, .max = UINT64_MAX,
		  .help = "seed of the files" },
		{ .name = "time-limit-ms", .count = &settings.time_limit_ms, .min = 1,
		  .max = 86400000, .help = "stop after this long and report what was done" },
		{ .name = NULL },
	};

	settings.processes = cpus.count < PROCESSES_MAX ? cpus.count : PROCESSES_MAX;
	options_parse(argc, argv, &help, rules);
}

static void prepare(void)
{
	size_t bytes = sizeof(*shared) + settings.processes * sizeof(struct result);

	shared = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		fail(EXIT_FAULT, "mapping %zu bytes: %s", bytes, strerror(errno));
	if (snprintf(directory, sizeof(directory), "%s/indexer.XXXXXX", settings.directory) >=
	    (int)sizeof(directory))
		fail(EXIT_USAGE, "--directory: the path is too long");
	if (!mkdtemp(directory))
		fail(EXIT_FAULT, "making a folder in '%s': %s; name another --directory",
		     settings.directory, strerror(errno));
}

static void report(const struct corpus_sum *made, uint64_t time_ns)
{
	static struct histogram histogram;
	struct corpus_sum found = { 0 };
	uint64_t lists = 0;

	for (uint64_t process = 0; process < settings.processes; process++) {
		const struct result *result = &shared->results[process];

		histogram_merge(&histogram, &result->histogram);
		found.words += result->found.words;
		found.hashes += result->found.hashes;
		lists += result->lists;
	}
	check(made, &found);
	report_latency("indexer.file", &histogram);
	report_work("indexer", histogram.count, time_ns);
	report_metric("indexer.words", "count", BETTER_NEUTRAL, found.words);
	report_metric("indexer.lists", "count", BETTER_NEUTRAL, lists);
	report_metric("indexer.processes", "count", BETTER_NEUTRAL, settings.processes);
	report_metric("timed_out", "count", BETTER_LOWER, atomic_load(&shared->timed_out));
	report_print("indexer");
}

int main(int argc, char **argv)
{
	struct corpus_sum made;
	uint64_t start_ns;

	cpus_read(&cpus);
	read_options(argc, argv);
	prepare();
	made = corpus_make(directory, settings.files, settings.file_kib * 1024, settings.seed);
	deadline_ns = deadline_after_ms(settings.time_limit_ms);
	for (uint64_t process = 0; process < settings.processes; process++)
		start(process);
	while (atomic_load(&shared->arrived) < settings.processes &&
	       clock_monotonic_ns() < deadline_ns)
		usleep(100);
	start_ns = clock_monotonic_ns();
	atomic_store(&shared->open, true);
	wait_for_all();
	report(&made, clock_monotonic_ns() - start_ns);
	return EXIT_SUCCESS;
}
