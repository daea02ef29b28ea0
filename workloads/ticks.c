/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * ticks: whether a kernel gets the scheduler ticks that it should, and how
 * late its timers are.
 *
 * A thread on each CPU computes for --busy-us and sleeps for --sleep-us, in
 * turn, until --milliseconds are over. Before and after, /proc/timer_list is
 * read: jiffies, the time that each CPU was idle, and, where ticks come from
 * a hypervisor, how many were handled. Ticks are expected for the time that a
 * CPU was not idle; jiffies for all of it, by CLOCK_MONOTONIC. A sleep that
 * ends late by some time is a timer that was late by as much.
 *
 * A kernel that programs its ticks itself does not count them, and has no
 * "ticks.handled". Without root, whose /proc/timer_list is, there is only how
 * late timers are.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "threads.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)
#define PPM UINT64_C(1000000)
#define WAIT_FOR_OTHERS_MS 10000

static struct settings {
	uint64_t threads, milliseconds, busy_us, sleep_us;
} settings = {
	.milliseconds = 2000,
	.busy_us = 2000,
	.sleep_us = 1000,
};

struct worker {
	_Alignas(64) struct histogram late;
	pthread_t thread;
};

/* What /proc/timer_list says at one moment, summed over the CPUs. */
struct state {
	uint64_t at_ns, jiffies, idle_ns, handled, seen;
	unsigned int cpus, virtual_cpus;
};

static struct worker workers[CPUS_MAX];
static struct gate gate;
static atomic_bool stop;

static void compute_until(uint64_t end_ns)
{
	uint64_t state = 1;

	while (clock_monotonic_ns() < end_ns && !atomic_load_explicit(&stop, memory_order_relaxed))
		for (int step = 0; step < 256; step++) {
			state = state * UINT64_C(6364136223846793005) + 1;
			/* Keeps the compiler from folding the steps into one. */
			__asm__ volatile("" : "+r"(state));
		}
}

static void sleep_until(uint64_t end_ns)
{
	struct timespec end = {
		.tv_sec = (time_t)(end_ns / NS_PER_S),
		.tv_nsec = (long)(end_ns % NS_PER_S),
	};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

static void *worker_body(void *argument)
{
	struct worker *worker = argument;

	gate_pass(&gate);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		uint64_t end_ns;

		if (settings.busy_us)
			compute_until(clock_monotonic_ns() + settings.busy_us * NS_PER_US);
		if (!settings.sleep_us)
			continue;
		end_ns = clock_monotonic_ns() + settings.sleep_us * NS_PER_US;
		sleep_until(end_ns);
		histogram_add(&worker->late, clock_monotonic_ns() - end_ns);
	}
	return NULL;
}

/* The number of "  .NAME   : NUMBER ..." if @line is of that name. */
static int field(const char *line, const char *name, uint64_t *value)
{
	char found[32];

	return sscanf(line, " .%31[a-z_] : %" SCNu64, found, value) == 2 && !strcmp(found, name);
}

static struct state read_state(void)
{
	struct state state = { .at_ns = clock_monotonic_ns() };
	FILE *file = fopen("/proc/timer_list", "r");
	char line[512];
	uint64_t value;

	if (!file) {
		talk("/proc/timer_list: %s: ticks are not looked at", strerror(errno));
		return state;
	}
	while (fgets(line, sizeof(line), file)) {
		if (field(line, "idle_sleeptime", &value) ||
		    field(line, "iowait_sleeptime", &value))
			state.idle_ns += value;
		else if (field(line, "virtual", &value))
			state.virtual_cpus += value != 0;
		else if (field(line, "virtual_ticks", &value))
			state.handled += value;
		else if (field(line, "virtual_seen", &value))
			state.seen += value;
		else if (sscanf(line, "jiffies: %" SCNu64, &value) == 1)
			state.jiffies = value, state.cpus++;
	}
	fclose(file);
	if (!state.cpus)
		fail(EXIT_FAULT, "/proc/timer_list has no jiffies: a kernel with nohz is expected");
	return state;
}

static void read_options(int argc, char **argv, const struct cpus *cpus)
{
	const struct program_help help = {
		.name = "ticks",
		.summary = "scheduler ticks against time, and how late timers are",
		.example = "ticks --milliseconds 2000 --busy-us 2000 --sleep-us 1000",
	};
	const struct option_rule rules[] = {
		{ .name = "threads", .count = &settings.threads, .min = 1, .max = cpus->count,
		  .help = "threads, pinned to the CPUs in turn" },
		{ .name = "milliseconds", .count = &settings.milliseconds, .min = 1,
		  .max = 86400000, .help = "how long, ms" },
		{ .name = "busy-us", .count = &settings.busy_us, .min = 0, .max = 86400000000,
		  .help = "computes for so long between two sleeps, us" },
		{ .name = "sleep-us", .count = &settings.sleep_us, .min = 0, .max = 86400000000,
		  .help = "sleeps for so long, us; 0: never" },
		{ .name = NULL },
	};

	settings.threads = cpus->count;
	options_parse(argc, argv, &help, rules);
	if (!settings.busy_us && !settings.sleep_us)
		fail(EXIT_USAGE, "--busy-us 0 with --sleep-us 0: one of them must be more than 0");
}

/* Which of the rates that Linux can be built with on x86 the kernel has. */
static uint64_t rate(uint64_t jiffies, uint64_t length_ns)
{
	static const uint64_t rates[] = { 1000, 300, 250 };
	uint64_t about = (jiffies * NS_PER_S + length_ns / 2) / length_ns;

	for (size_t index = 0; index < sizeof(rates) / sizeof(rates[0]); index++)
		if (about * 12 >= rates[index] * 11)
			return rates[index];
	return 100;
}

static uint64_t difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static void report_ticks(const struct state *before, const struct state *after)
{
	uint64_t length_ns = after->at_ns - before->at_ns;
	uint64_t jiffies = after->jiffies - before->jiffies;
	uint64_t awake_ns = after->cpus * length_ns - (after->idle_ns - before->idle_ns);
	uint64_t hz = rate(jiffies, length_ns);
	uint64_t expected = awake_ns * hz / NS_PER_S;
	uint64_t handled = after->handled - before->handled;

	report_metric("ticks.awake", "ns", BETTER_NEUTRAL, awake_ns);
	report_metric("ticks.hz", "count", BETTER_NEUTRAL, hz);
	report_metric("ticks.jiffies_off", "count", BETTER_LOWER,
		      difference(jiffies, length_ns * hz / NS_PER_S));
	report_metric("ticks.expected", "count", BETTER_NEUTRAL, expected);
	report_metric("ticks.virtual_cpus", "count", BETTER_NEUTRAL, after->virtual_cpus);
	if (after->virtual_cpus) {
		report_metric("ticks.handled", "count", BETTER_NEUTRAL, handled);
		report_metric("ticks.from_host", "count", BETTER_NEUTRAL,
			      after->seen - before->seen);
		if (expected)
			report_metric("ticks.off", "ppm", BETTER_LOWER,
				      difference(handled, expected) * PPM / expected);
	}
}

static void print_report(const struct state *before, const struct state *after)
{
	static struct histogram late;

	for (uint64_t index = 0; index < settings.threads; index++)
		histogram_merge(&late, &workers[index].late);
	report_metric("ticks.time", "ns", BETTER_NEUTRAL, after->at_ns - before->at_ns);
	if (before->cpus && after->cpus)
		report_ticks(before, after);
	report_latency("ticks.late", &late);
	report_print("ticks");
}

int main(int argc, char **argv)
{
	static struct cpus cpus;
	struct state before, after;

	cpus_read(&cpus);
	read_options(argc, argv, &cpus);
	gate_init(&gate, deadline_after_ms(WAIT_FOR_OTHERS_MS));
	for (uint64_t index = 0; index < settings.threads; index++)
		workers[index].thread = start_pinned(cpus.id[index], worker_body, &workers[index]);
	gate_open(&gate, (unsigned int)settings.threads);
	before = read_state();
	sleep_until(before.at_ns + settings.milliseconds * NS_PER_MS);
	after = read_state();
	atomic_store(&stop, true);
	for (uint64_t index = 0; index < settings.threads; index++)
		join(workers[index].thread);
	print_report(&before, &after);
	return EXIT_SUCCESS;
}
