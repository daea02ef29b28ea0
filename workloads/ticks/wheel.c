/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ticks/wheel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include "clock.h"
#include "report.h"
#include "talk.h"
#include "ticks/timerlist.h"

#define SAMPLES_MAX 4096
/* MEMBARRIER_CMD_GLOBAL of <linux/membarrier.h>: synchronize_rcu() for programs. */
#define MEMBARRIER_GLOBAL 1
/*
 * Each wait begins later after the end of the last by this part of a jiffy: the
 * golden section spreads any number of beginnings evenly over a jiffy of 250 Hz.
 */
#define SPREAD_NS 4000000
#define GOLDEN_PPM 618034

/* How long each wait took. A histogram's percentiles are too coarse to distinguish 2 %. */
struct samples {
	uint64_t count;
	uint64_t ns[SAMPLES_MAX];
};

static struct samples receives, graces;
static uint64_t early;
static pthread_t thread;
static uint64_t timeout_us;
static bool with_grace, started;
static struct gate *start_gate;
static const atomic_bool *stopped;

static void add(struct samples *samples, uint64_t start_ns)
{
	if (samples->count < SAMPLES_MAX)
		samples->ns[samples->count++] = clock_monotonic_ns() - start_ns;
}

static void open_pair(int pair[2])
{
	struct timeval timeout = {
		.tv_sec = (time_t)(timeout_us / 1000000),
		.tv_usec = (suseconds_t)(timeout_us % 1000000),
	};

	if (socketpair(AF_UNIX, SOCK_DGRAM, 0, pair) ||
	    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)))
		fail(EXIT_FAULT, "a pair of sockets with a timeout: %s", strerror(errno));
}

static void close_pair(const int pair[2])
{
	close(pair[0]);
	close(pair[1]);
}

static void receive(const int pair[2])
{
	uint64_t start_ns = clock_monotonic_ns();
	char byte;

	if (recv(pair[0], &byte, 1, 0) >= 0 || errno != EAGAIN)
		fail(EXIT_FAULT, "recv() from an empty socket: %s, not a timeout", strerror(errno));
	add(&receives, start_ns);
	early += clock_monotonic_ns() - start_ns < timeout_us * NS_PER_US;
}

static void wait_for_grace(void)
{
	uint64_t start_ns = clock_monotonic_ns();

	if (syscall(SYS_membarrier, MEMBARRIER_GLOBAL, 0, 0))
		fail(EXIT_FAULT, "membarrier(MEMBARRIER_CMD_GLOBAL): %s", strerror(errno));
	add(&graces, start_ns);
}

static void spin(uint64_t round)
{
	uint64_t length_ns = round * GOLDEN_PPM % 1000000 * SPREAD_NS / 1000000;
	uint64_t end_ns = clock_monotonic_ns() + length_ns;

	while (clock_monotonic_ns() < end_ns)
		;
}

static void *wheel_body(void *unused)
{
	int pair[2];

	gate_pass(start_gate);
	open_pair(pair);
	for (uint64_t round = 0; !atomic_load_explicit(stopped, memory_order_relaxed); round++) {
		spin(round);
		/* What a closed socket leaves waits for a grace period: in every second round. */
		if (round % 2) {
			close_pair(pair);
			open_pair(pair);
		}
		if (timeout_us)
			receive(pair);
		if (with_grace)
			wait_for_grace();
	}
	close_pair(pair);
	return unused;
}

static int compare(const void *left, const void *right)
{
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

static void report_part(const char *name, const char *part, uint64_t ns)
{
	char full[40];

	snprintf(full, sizeof(full), "%s.%s", name, part);
	report_metric(full, "ns", BETTER_LOWER, ns);
}

/* The smallest that @percent of them do not exceed. */
static uint64_t percentile(const struct samples *samples, uint64_t percent)
{
	return samples->ns[(samples->count * percent + 99) / 100 - 1];
}

static void report_samples(const char *name, struct samples *samples)
{
	char full[40];

	snprintf(full, sizeof(full), "%s.count", name);
	report_metric(full, "count", BETTER_NEUTRAL, samples->count);
	if (!samples->count)
		return;
	qsort(samples->ns, samples->count, sizeof(samples->ns[0]), compare);
	report_part(name, "min", samples->ns[0]);
	report_part(name, "p50", percentile(samples, 50));
	report_part(name, "p99", percentile(samples, 99));
	report_part(name, "max", samples->ns[samples->count - 1]);
}

void wheel_start(unsigned int cpu, uint64_t receive_us, bool grace, struct gate *gate,
		 const atomic_bool *stop)
{
	timeout_us = receive_us;
	with_grace = grace;
	start_gate = gate;
	stopped = stop;
	started = true;
	thread = start_pinned(cpu, wheel_body, NULL);
}

void wheel_report(void)
{
	if (!started)
		return;
	join(thread);
	if (timeout_us) {
		report_samples("ticks.receive", &receives);
		report_metric("ticks.receive.early", "count", BETTER_LOWER, early);
	}
	if (with_grace)
		report_samples("ticks.grace", &graces);
}
