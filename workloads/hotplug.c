/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * hotplug: whether a CPU that goes off-line and comes back has its scheduler
 * ticks again, as one that stays has them all the time.
 *
 * A thread on each CPU computes. In each of --rounds the CPU --cpu is on-line
 * for --online-ms, in which its ticks are counted, is taken off-line by
 * /sys/devices/system/cpu, and is brought back after --offline-ms. Its thread
 * is pinned to it again each time. Ticks are expected for the time in which a
 * CPU is not idle, as in "ticks".
 *
 * A kernel that programs its ticks itself does not count them, and has no
 * "hotplug.handled". Needs root, and a CPU that can be taken off-line: for a
 * guest, and not for a machine that others use.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "threads.h"
#include "ticks/timerlist.h"

#define WAIT_FOR_OTHERS_MS 10000
/* A thread that was moved is on its CPU again, and what came with it is over. */
#define SETTLE_MS 20

static struct settings {
	uint64_t cpu, rounds, online_ms, offline_ms;
} settings = {
	.rounds = 5,
	.online_ms = 400,
	.offline_ms = 100,
};

/* What is summed over the rounds. */
struct sums {
	struct ticks_passed plugged;
	struct histogram off, on;
	uint64_t virtual_rounds, jiffies_off;
};

static pthread_t workers[CPUS_MAX];
static struct gate gate;
static atomic_bool stop;

static void *worker_body(void *unused)
{
	uint64_t state = 1;

	(void)unused;
	gate_pass(&gate);
	while (!atomic_load_explicit(&stop, memory_order_relaxed))
		for (int step = 0; step < 256; step++) {
			state = state * UINT64_C(6364136223846793005) + 1;
			/* Keeps the compiler from folding the steps into one. */
			__asm__ volatile("" : "+r"(state));
		}
	return NULL;
}

static void sleep_ms(uint64_t milliseconds)
{
	struct timespec left = {
		.tv_sec = (time_t)(milliseconds / 1000),
		.tv_nsec = (long)(milliseconds % 1000 * NS_PER_MS),
	};

	while (nanosleep(&left, &left) && errno == EINTR)
		;
}

/* The threads that compute are not to keep this one from looking in time. */
static void go_first(void)
{
	const struct sched_param first = { .sched_priority = 1 };

	if (sched_setscheduler(0, SCHED_FIFO, &first))
		fail(EXIT_FAULT, "SCHED_FIFO: %s", strerror(errno));
}

/* Takes the CPU off-line (0) or brings it back (1). */
static void plug(char state, struct histogram *took)
{
	uint64_t begin_ns = clock_monotonic_ns();
	char path[80];
	int file;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%" PRIu64 "/online", settings.cpu);
	file = open(path, O_WRONLY | O_CLOEXEC);
	if (file < 0)
		fail(EXIT_FAULT, "%s: %s", path, strerror(errno));
	if (write(file, &state, 1) != 1)
		fail(EXIT_FAULT, "write %c to %s: %s", state, path, strerror(errno));
	close(file);
	histogram_add(took, clock_monotonic_ns() - begin_ns);
}

/* The kernel has let the thread run on any CPU. */
static void pin_again(void)
{
	cpu_set_t only;
	int error;

	CPU_ZERO(&only);
	CPU_SET(settings.cpu, &only);
	error = pthread_setaffinity_np(workers[settings.cpu], sizeof(only), &only);
	if (error)
		fail(EXIT_FAULT, "pin a thread to CPU %" PRIu64 ": %s", settings.cpu,
		     strerror(error));
}

/* On-line and counted, then off-line, then on-line again. */
static void one_round(struct sums *sums)
{
	static struct timerlist before, after;

	sleep_ms(SETTLE_MS);
	timerlist_read(&before);
	sleep_ms(settings.online_ms);
	timerlist_read(&after);
	if (after.cpus) {
		ticks_add(&sums->plugged, &before, &after, (unsigned int)settings.cpu);
		sums->virtual_rounds += after.cpu[settings.cpu].virtual;
	}
	plug('0', &sums->off);
	sleep_ms(settings.offline_ms);
	plug('1', &sums->on);
	pin_again();
}

static void report_cpu(const char *whose, const struct ticks_passed *passed, uint64_t hz)
{
	const uint64_t expected = ticks_expected(passed->awake_ns, hz);
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{ "expected", expected },
		{ "handled", passed->handled },
		{ "from_host", passed->seen },
	};
	char name[40];

	for (size_t index = 0; index < sizeof(counts) / sizeof(counts[0]); index++) {
		snprintf(name, sizeof(name), "hotplug.%s.%s", whose, counts[index].name);
		report_metric(name, "count", BETTER_NEUTRAL, counts[index].value);
	}
	snprintf(name, sizeof(name), "hotplug.%s.off", whose);
	if (expected)
		report_metric(name, "ppm", BETTER_LOWER, ticks_off_ppm(passed->handled, expected));
}

static void print_report(const struct sums *sums, const struct timerlist *before,
			 const struct timerlist *after)
{
	uint64_t length_ns = after->at_ns - before->at_ns;
	uint64_t jiffies = after->jiffies - before->jiffies;
	uint64_t hz = ticks_rate(jiffies, length_ns);
	struct ticks_passed stayed = { 0 };

	report_metric("hotplug.rounds", "count", BETTER_NEUTRAL, settings.rounds);
	report_metric("hotplug.virtual_rounds", "count", BETTER_NEUTRAL, sums->virtual_rounds);
	report_latency("hotplug.offline", &sums->off);
	report_latency("hotplug.online", &sums->on);
	if (before->cpus && after->cpus) {
		report_metric("hotplug.jiffies_off", "count", BETTER_LOWER,
			      ticks_difference(jiffies, length_ns * hz / NS_PER_S));
		for (unsigned int cpu = 0; cpu < CPUS_MAX; cpu++)
			if (after->cpu[cpu].virtual && cpu != settings.cpu)
				ticks_add(&stayed, before, after, cpu);
		if (sums->virtual_rounds) {
			report_cpu("plugged", &sums->plugged, hz);
			report_cpu("stayed", &stayed, hz);
		}
	}
	report_print("hotplug");
}

static void read_options(int argc, char **argv, const struct cpus *cpus)
{
	const struct program_help help = {
		.name = "hotplug",
		.summary = "scheduler ticks of a CPU that goes off-line and comes back",
		.example = "hotplug --cpu 1 --rounds 5 --online-ms 400 --offline-ms 100",
	};
	const struct option_rule rules[] = {
		{ .name = "cpu", .count = &settings.cpu, .min = 1, .max = CPUS_MAX - 1,
		  .help = "which CPU; there is no default, lest a machine lose one unasked" },
		{ .name = "rounds", .count = &settings.rounds, .min = 1, .max = 1000000,
		  .help = "how often it goes and comes back" },
		{ .name = "online-ms", .count = &settings.online_ms, .min = 1, .max = 86400000,
		  .help = "how long its ticks are counted in each round, ms" },
		{ .name = "offline-ms", .count = &settings.offline_ms, .min = 0, .max = 86400000,
		  .help = "how long it is away in each round, ms" },
		{ .name = NULL },
	};

	options_parse(argc, argv, &help, rules);
	for (unsigned int index = 0; index < cpus->count; index++)
		if (cpus->id[index] == settings.cpu && settings.cpu)
			return;
	fail(EXIT_USAGE, "--cpu %" PRIu64 ": expected --cpu with a CPU of this process, not 0",
	     settings.cpu);
}

int main(int argc, char **argv)
{
	static struct timerlist before, after;
	static struct sums sums;
	static struct cpus cpus;

	cpus_read(&cpus);
	read_options(argc, argv, &cpus);
	gate_init(&gate, deadline_after_ms(WAIT_FOR_OTHERS_MS));
	for (unsigned int index = 0; index < cpus.count; index++)
		workers[cpus.id[index]] = start_pinned(cpus.id[index], worker_body, NULL);
	gate_open(&gate, cpus.count);
	go_first();
	timerlist_read(&before);
	for (uint64_t round = 0; round < settings.rounds; round++)
		one_round(&sums);
	timerlist_read(&after);
	atomic_store(&stop, true);
	for (unsigned int index = 0; index < cpus.count; index++)
		join(workers[cpus.id[index]]);
	print_report(&sums, &before, &after);
	return EXIT_SUCCESS;
}
