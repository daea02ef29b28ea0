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
 * "ticks.handled". "ticks.in_idle" came behind an interrupt, which does not
 * count as idle, but gave the CPU nothing to run: "ticks.given_off" is how far
 * both are from what is expected. "ticks.stolen" is for how long CPUs stood
 * ready and had no pCPU, to 10 ms: they can have had no ticks then. Without
 * root, whose /proc/timer_list is, there is only how late timers are.
 *
 * --roaming threads beside these compute all the time, on whatever CPU the
 * scheduler finds for them: "ticks.roaming" is how far they come.
 *
 * --receive-us and --grace have one thread more, on the last CPU:
 * "ticks.receive" is how long recv() took to time out, by a timer of the
 * kernel's wheel, and "ticks.grace" how long a grace period of RCU took.
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
#include "ticks/roamers.h"
#include "ticks/stolen.h"
#include "ticks/timerlist.h"
#include "ticks/wheel.h"

#define WAIT_FOR_OTHERS_MS 10000

static struct settings {
	uint64_t threads, roaming, milliseconds, busy_us, sleep_us, spread_percent, seed;
	uint64_t receive_us, grace;
} settings = {
	.milliseconds = 2000,
	.busy_us = 2000,
	.sleep_us = 1000,
	.seed = 1,
};

struct worker {
	_Alignas(64) struct histogram late;
	uint64_t random;
	pthread_t thread;
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

/* @length_us in ns, up to --spread-percent shorter or longer. */
static uint64_t spread_ns(struct worker *worker, uint64_t length_us)
{
	uint64_t length_ns = length_us * NS_PER_US;
	uint64_t most_ns = length_ns / 100 * settings.spread_percent;

	return length_ns - most_ns + random_below(&worker->random, 2 * most_ns + 1);
}

static void *worker_body(void *argument)
{
	struct worker *worker = argument;

	gate_pass(&gate);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		uint64_t end_ns;

		if (settings.busy_us)
			compute_until(clock_monotonic_ns() + spread_ns(worker, settings.busy_us));
		if (!settings.sleep_us)
			continue;
		end_ns = clock_monotonic_ns() + spread_ns(worker, settings.sleep_us);
		sleep_until(end_ns);
		histogram_add(&worker->late, clock_monotonic_ns() - end_ns);
	}
	return NULL;
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
		{ .name = "roaming", .count = &settings.roaming, .min = 0, .max = ROAMERS_MAX,
		  .help = "further threads, which compute and are bound to no CPU" },
		{ .name = "milliseconds", .count = &settings.milliseconds, .min = 1,
		  .max = 86400000, .help = "how long, ms" },
		{ .name = "busy-us", .count = &settings.busy_us, .min = 0, .max = 86400000000,
		  .help = "time of computing between two sleeps, us" },
		{ .name = "sleep-us", .count = &settings.sleep_us, .min = 0, .max = 86400000000,
		  .help = "time of a sleep, us; 0: never" },
		{ .name = "spread-percent", .count = &settings.spread_percent, .min = 0,
		  .max = 100,
		  .help = "each of both is drawn, shorter or longer by this share at most" },
		{ .name = "receive-us", .count = &settings.receive_us, .min = 0,
		  .max = 86400000000,
		  .help = "one thread more lets recv() time out after this time, us; 0: none" },
		{ .name = "grace", .count = &settings.grace, .min = 0, .max = 1,
		  .help = "1: one thread more waits for grace periods of RCU" },
		{ .name = "seed", .count = &settings.seed, .min = 0, .max = UINT64_MAX,
		  .help = "of what is drawn" },
		{ .name = NULL },
	};

	settings.threads = cpus->count;
	options_parse(argc, argv, &help, rules);
	if (!settings.busy_us && !settings.sleep_us)
		fail(EXIT_USAGE, "--busy-us 0 with --sleep-us 0: one of them must be more than 0");
}

static void report_handled(const struct ticks_passed *sum, uint64_t expected)
{
	report_metric("ticks.handled", "count", BETTER_NEUTRAL, sum->handled);
	report_metric("ticks.from_host", "count", BETTER_NEUTRAL, sum->seen);
	report_metric("ticks.in_idle", "count", BETTER_NEUTRAL, sum->in_idle);
	report_metric("ticks.early", "count", BETTER_NEUTRAL, sum->early);
	if (expected)
		report_metric("ticks.off", "ppm", BETTER_LOWER,
			      ticks_off_ppm(sum->handled, expected));
}

static void report_cpu(unsigned int cpu, const char *what, uint64_t value)
{
	char name[40];

	snprintf(name, sizeof(name), "ticks.cpu%u.%s", cpu, what);
	report_metric(name, "count", BETTER_NEUTRAL, value);
}

/* Of all CPUs, and of each: what one lacks, another may have too many of. */
static void report_given(const struct timerlist *before, const struct timerlist *after,
			 const struct ticks_passed *sum, uint64_t hz)
{
	uint64_t expected = ticks_expected(sum->awake_ns, hz);

	if (expected)
		report_metric("ticks.given_off", "ppm", BETTER_LOWER,
			      ticks_off_ppm(sum->handled + sum->in_idle, expected));
	for (unsigned int cpu = 0; cpu < CPUS_MAX; cpu++) {
		struct ticks_passed one = { 0 };

		if (!after->cpu[cpu].online || !after->cpu[cpu].virtual)
			continue;
		ticks_add(&one, before, after, cpu);
		report_cpu(cpu, "handled", one.handled);
		report_cpu(cpu, "in_idle", one.in_idle);
		report_cpu(cpu, "expected", ticks_expected(one.awake_ns, hz));
	}
}

static void report_ticks(const struct timerlist *before, const struct timerlist *after)
{
	uint64_t length_ns = after->at_ns - before->at_ns;
	uint64_t jiffies = after->jiffies - before->jiffies;
	uint64_t hz = ticks_rate(jiffies, length_ns);
	unsigned int virtual_cpus = 0;
	struct ticks_passed sum = { 0 };
	uint64_t expected;

	for (unsigned int cpu = 0; cpu < CPUS_MAX; cpu++) {
		if (!after->cpu[cpu].online)
			continue;
		ticks_add(&sum, before, after, cpu);
		virtual_cpus += after->cpu[cpu].virtual;
	}
	expected = ticks_expected(sum.awake_ns, hz);
	report_metric("ticks.awake", "ns", BETTER_NEUTRAL, sum.awake_ns);
	report_metric("ticks.hz", "count", BETTER_NEUTRAL, hz);
	report_metric("ticks.jiffies_off", "count", BETTER_LOWER,
		      ticks_difference(jiffies, length_ns * hz / NS_PER_S));
	report_metric("ticks.expected", "count", BETTER_NEUTRAL, expected);
	report_metric("ticks.virtual_cpus", "count", BETTER_NEUTRAL, virtual_cpus);
	if (!virtual_cpus)
		return;
	report_handled(&sum, expected);
	report_given(before, after, &sum, hz);
}

static void print_report(const struct timerlist *before, const struct timerlist *after)
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
	static struct timerlist before, after;
	uint64_t stolen_before_ns, stolen_after_ns, start_ns, steps;
	static struct cpus cpus;
	bool stolen, wheel;

	cpus_read(&cpus);
	read_options(argc, argv, &cpus);
	wheel = settings.receive_us || settings.grace;
	gate_init(&gate, deadline_after_ms(WAIT_FOR_OTHERS_MS));
	for (uint64_t index = 0; index < settings.threads; index++) {
		workers[index].random = settings.seed + (index << 32);
		workers[index].thread = start_pinned(cpus.id[index], worker_body, &workers[index]);
	}
	roamers_start(settings.roaming, &gate, &stop);
	if (wheel)
		wheel_start(cpus.id[cpus.count - 1], settings.receive_us, settings.grace, &gate,
			    &stop);
	start_ns = gate_open(&gate,
			     (unsigned int)(settings.threads + settings.roaming + wheel));
	stolen = stolen_read(&stolen_before_ns);
	timerlist_read(&before);
	sleep_until(before.at_ns + settings.milliseconds * NS_PER_MS);
	timerlist_read(&after);
	if (stolen && stolen_read(&stolen_after_ns))
		report_metric("ticks.stolen", "ns", BETTER_NEUTRAL,
			      stolen_after_ns - stolen_before_ns);
	atomic_store(&stop, true);
	for (uint64_t index = 0; index < settings.threads; index++)
		join(workers[index].thread);
	wheel_report();
	steps = roamers_join();
	if (settings.roaming)
		report_work("ticks.roaming", steps, clock_monotonic_ns() - start_ns);
	print_report(&before, &after);
	return EXIT_SUCCESS;
}
