/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * spin: takes all the CPU time it can get, as the CPU-bound neighbour does in
 * the machine that stands beside the one under test.
 *
 * Threads pinned to the CPUs in turn step a linear congruential generator:
 * arithmetic alone, no system call, no memory beyond a register, so that
 * nothing but the scheduler can stop them. On SIGTERM or SIGINT, or after
 * --seconds, it says how many steps each thread did; how unequal the shares
 * are is the difference of "spin.least" and "spin.most".
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "threads.h"

#define THREADS_MAX 1024
#define STEPS_PER_CHECK 4096
#define MS_PER_S UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)

static struct settings {
	uint64_t threads, seconds, time_limit_ms;
} settings = {
	.time_limit_ms = 3600000,
};

struct worker {
	/* A cache line each: the threads share nothing. */
	_Alignas(64) uint64_t steps;
	pthread_t thread;
};

static struct worker workers[THREADS_MAX];
static struct gate gate;
static atomic_bool stop;

static void *worker_body(void *argument)
{
	struct worker *worker = argument;
	uint64_t state = 1, steps = 0;

	gate_pass(&gate);
	while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
		for (int step = 0; step < STEPS_PER_CHECK; step++) {
			state = state * UINT64_C(6364136223846793005) + 1;
			/* Keeps the compiler from folding the steps into one. */
			__asm__ volatile("" : "+r"(state));
		}
		steps += STEPS_PER_CHECK;
	}
	worker->steps = steps;
	return NULL;
}

static sigset_t stop_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	return set;
}

/* Sleeps until a signal or the end of @limit_ms; true when a signal came. */
static bool wait_for_signal(const sigset_t *signals, uint64_t limit_ms)
{
	uint64_t end_ns = deadline_after_ms(limit_ms);

	for (;;) {
		uint64_t now_ns = clock_monotonic_ns();
		uint64_t left_ns = end_ns > now_ns ? end_ns - now_ns : 0;
		struct timespec left = {
			.tv_sec = (time_t)(left_ns / (MS_PER_S * NS_PER_MS)),
			.tv_nsec = (long)(left_ns % (MS_PER_S * NS_PER_MS)),
		};

		if (sigtimedwait(signals, NULL, &left) > 0)
			return true;
		if (errno == EAGAIN)
			return false;
		if (errno != EINTR)
			fail(EXIT_FAULT, "sigtimedwait: %s", strerror(errno));
	}
}

static void read_options(int argc, char **argv, const struct cpus *cpus)
{
	const struct program_help help = {
		.name = "spin",
		.summary = "arithmetic on every CPU until it must stop",
		.example = "spin --threads 2 --seconds 5",
	};
	const struct option_rule rules[] = {
		{ .name = "threads", .count = &settings.threads, .min = 1, .max = THREADS_MAX,
		  .help = "threads, pinned to the CPUs in turn" },
		{ .name = "seconds", .count = &settings.seconds, .min = 0, .max = 86400,
		  .help = "stop after this long, s; 0: on SIGTERM or SIGINT" },
		{ .name = "time-limit-ms", .count = &settings.time_limit_ms, .min = 1,
		  .max = 86400000, .help = "stop after this long and report what was done" },
		{ .name = NULL },
	};

	settings.threads = cpus->count;
	options_parse(argc, argv, &help, rules);
}

static void print_report(uint64_t time_ns, bool timed_out)
{
	uint64_t total = 0, least = UINT64_MAX, most = 0;

	for (uint64_t index = 0; index < settings.threads; index++) {
		uint64_t steps = workers[index].steps;

		total += steps;
		least = steps < least ? steps : least;
		most = steps > most ? steps : most;
	}
	report_work("spin", total, time_ns);
	report_metric("spin.least", "count", BETTER_HIGHER, least);
	report_metric("spin.most", "count", BETTER_NEUTRAL, most);
	report_metric("spin.threads", "count", BETTER_NEUTRAL, settings.threads);
	report_metric("timed_out", "count", BETTER_LOWER, timed_out);
	report_print("spin");
}

int main(int argc, char **argv)
{
	static struct cpus cpus;
	const sigset_t signals = stop_signals();
	uint64_t start_ns, limit_ms;
	bool stopped, timed_out;

	/* Before any thread exists, so that all inherit the mask and only main is woken. */
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	cpus_read(&cpus);
	read_options(argc, argv, &cpus);
	limit_ms = settings.time_limit_ms;
	if (settings.seconds && settings.seconds * MS_PER_S < limit_ms)
		limit_ms = settings.seconds * MS_PER_S;
	gate_init(&gate, deadline_after_ms(settings.time_limit_ms));
	for (uint64_t index = 0; index < settings.threads; index++)
		workers[index].thread = start_pinned(cpus.id[index % cpus.count], worker_body,
						     &workers[index]);
	start_ns = gate_open(&gate, (unsigned int)settings.threads);
	stopped = wait_for_signal(&signals, limit_ms);
	atomic_store(&stop, true);
	for (uint64_t index = 0; index < settings.threads; index++)
		join(workers[index].thread);
	timed_out = !stopped && limit_ms == settings.time_limit_ms;
	print_report(clock_monotonic_ns() - start_ns, timed_out);
	return EXIT_SUCCESS;
}
