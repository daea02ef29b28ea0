/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * pingpong: how long it takes to wake a sleeping thread on another CPU.
 *
 * Each pair is two threads on two different CPUs. One serves a ball and
 * sleeps; the other is woken by it, returns it and sleeps in turn. The time
 * from serving to having the ball back, two wake-ups, is a round trip. Between
 * them the CPUs go idle, so in a guest a round trip holds two halts, two
 * wake-up interrupts and, where timers are emulated, the ticks stopped and
 * started on the way. The ball travels by --method futex, pipe or eventfd.
 *
 * A player who returns the ball at once may have it back before the other has
 * gone to sleep, and then neither sleeps, until something disturbs the game:
 * nothing is woken, and the mean says how often that was. With --hold-us each
 * player computes for that time before it throws, so that the other sleeps by then.
 * A round trip has the returner's time in it.
 *
 * No wait has a timeout of its own, which would put a timer into what is
 * measured: the main thread watches --time-limit-ms and, when it is over, ends
 * every game by throwing balls in until both players have left.
 */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "threads.h"

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_US UINT64_C(1000)
#define PAIRS_MAX (CPUS_MAX / 2)
#define NAP_NS 10000000L

enum method { METHOD_FUTEX, METHOD_PIPE, METHOD_EVENTFD };

static const char *const method_choices[] = { "futex", "pipe", "eventfd", NULL };

static struct settings {
	uint64_t pairs, operations, warmup, hold_us, method, time_limit_ms, clock;
} settings = {
	.pairs = 1,
	.operations = 1000,
	.warmup = 20,
	.time_limit_ms = 60000,
};

/* One player's side of the table: where a ball for that player lands. */
struct side {
	_Alignas(64) atomic_uint balls; /* METHOD_FUTEX: balls not yet taken */
	int read_end, write_end;        /* METHOD_PIPE, METHOD_EVENTFD */
};

struct pair {
	struct side server_side, returner_side;
	pthread_t server, returner;
	struct histogram histogram;
};

static struct pair *pairs;
static struct gate gate;
static atomic_bool stop;
static atomic_uint playing; /* players that have not left the table */

static long futex(atomic_uint *word, int operation, unsigned int value,
		  const struct timespec *timeout)
{
	return syscall(SYS_futex, word, operation | FUTEX_PRIVATE_FLAG, value, timeout, NULL, 0);
}

static void leave_table(void)
{
	if (atomic_fetch_sub(&playing, 1) == 1)
		futex(&playing, FUTEX_WAKE, 1, NULL);
}

static void throw_ball(struct side *side)
{
	const uint64_t ball = 1;

	if (settings.method == METHOD_FUTEX) {
		atomic_fetch_add(&side->balls, 1);
		if (futex(&side->balls, FUTEX_WAKE, 1, NULL) < 0)
			fail(EXIT_FAULT, "futex wake: %s", strerror(errno));
	} else if (write(side->write_end, &ball, sizeof(ball)) != (ssize_t)sizeof(ball)) {
		fail(EXIT_FAULT, "writing a ball: %s", strerror(errno));
	}
}

static void catch_ball(struct side *side)
{
	uint64_t ball;

	if (settings.method != METHOD_FUTEX) {
		if (read(side->read_end, &ball, sizeof(ball)) != (ssize_t)sizeof(ball))
			fail(EXIT_FAULT, "reading a ball: %s", strerror(errno));
		return;
	}
	while (!atomic_load(&side->balls))
		if (futex(&side->balls, FUTEX_WAIT, 0, NULL) < 0 && errno != EAGAIN &&
		    errno != EINTR)
			fail(EXIT_FAULT, "futex wait: %s", strerror(errno));
	atomic_fetch_sub(&side->balls, 1);
}

/* Computes for as long as a ball must be held. */
static void hold_ball(void)
{
	uint64_t start_ns;

	if (!settings.hold_us)
		return;
	start_ns = clock_now_ns();
	while (clock_now_ns() - start_ns < settings.hold_us * NS_PER_US)
		;
}

static void *server_body(void *argument)
{
	struct pair *pair = argument;

	gate_pass(&gate);
	for (uint64_t done = 0; done < settings.warmup + settings.operations; done++) {
		uint64_t start_ns;

		hold_ball();
		start_ns = clock_now_ns();
		throw_ball(&pair->returner_side);
		catch_ball(&pair->server_side);
		if (atomic_load_explicit(&stop, memory_order_relaxed))
			break;
		if (done >= settings.warmup)
			histogram_add(&pair->histogram, clock_now_ns() - start_ns);
	}
	leave_table();
	return NULL;
}

static void *returner_body(void *argument)
{
	struct pair *pair = argument;

	gate_pass(&gate);
	for (uint64_t done = 0; done < settings.warmup + settings.operations; done++) {
		catch_ball(&pair->returner_side);
		if (atomic_load_explicit(&stop, memory_order_relaxed))
			break;
		hold_ball();
		throw_ball(&pair->server_side);
	}
	leave_table();
	return NULL;
}

static void open_side(struct side *side)
{
	int ends[2];

	if (settings.method == METHOD_PIPE) {
		if (pipe(ends))
			fail(EXIT_FAULT, "pipe: %s", strerror(errno));
		side->read_end = ends[0];
		side->write_end = ends[1];
	} else if (settings.method == METHOD_EVENTFD) {
		side->read_end = eventfd(0, 0);
		if (side->read_end < 0)
			fail(EXIT_FAULT, "eventfd: %s", strerror(errno));
		side->write_end = side->read_end;
	}
}

static void start_pairs(const struct cpus *cpus)
{
	size_t bytes = settings.pairs * sizeof(*pairs);

	pairs = aligned_alloc(_Alignof(struct pair), bytes);
	if (!pairs)
		fail(EXIT_FAULT, "no memory for %" PRIu64 " pairs", settings.pairs);
	memset(pairs, 0, bytes);
	atomic_store(&playing, (unsigned int)(2 * settings.pairs));
	for (uint64_t index = 0; index < settings.pairs; index++) {
		struct pair *pair = &pairs[index];

		open_side(&pair->server_side);
		open_side(&pair->returner_side);
		pair->server = start_pinned(cpus->id[2 * index % cpus->count], server_body, pair);
		pair->returner = start_pinned(cpus->id[(2 * index + 1) % cpus->count],
					      returner_body, pair);
	}
}

/* Sleeps until all players have left (true) or the limit is over (false). */
static bool games_end_in_time(void)
{
	unsigned int left;

	while ((left = atomic_load(&playing))) {
		uint64_t now_ns = clock_monotonic_ns(), rest_ns;
		struct timespec timeout;

		if (now_ns >= gate.deadline_ns)
			return false;
		rest_ns = gate.deadline_ns - now_ns;
		timeout.tv_sec = (time_t)(rest_ns / NS_PER_S);
		timeout.tv_nsec = (long)(rest_ns % NS_PER_S);
		futex(&playing, FUTEX_WAIT, left, &timeout);
	}
	return true;
}

/* Sleeps while the games last; true when the limit ended them. */
static bool watch(void)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	if (games_end_in_time())
		return false;
	atomic_store(&stop, true);
	while (atomic_load(&playing)) {
		/* One ball a nap: too few to fill a pipe before both have left. */
		for (uint64_t index = 0; index < settings.pairs; index++) {
			throw_ball(&pairs[index].server_side);
			throw_ball(&pairs[index].returner_side);
		}
		nanosleep(&nap, NULL);
	}
	return true;
}

static void read_options(int argc, char **argv, const struct cpus *cpus)
{
	const struct program_help help = {
		.name = "pingpong",
		.summary = "round trips between sleeping threads on different CPUs",
		.example = "pingpong --pairs 1 --operations 2000 --method futex",
	};
	const struct option_rule rules[] = {
		{ .name = "pairs", .count = &settings.pairs, .min = 1, .max = PAIRS_MAX,
		  .help = "pairs of threads; pair n plays on CPUs 2n and 2n+1, round and round" },
		{ .name = "operations", .count = &settings.operations, .min = 1, .max = 100000000,
		  .help = "timed round trips of each pair" },
		{ .name = "warmup", .count = &settings.warmup, .min = 0, .max = 1000000,
		  .help = "round trips of each pair before the timed ones" },
		{ .name = "hold-us", .count = &settings.hold_us, .min = 0, .max = 1000000,
		  .help = "how long a player computes before it throws" },
		{ .name = "method", .kind = OPTION_CHOICE, .count = &settings.method,
		  .choices = method_choices, .help = "what wakes" },
		{ .name = "clock", .kind = OPTION_CHOICE, .count = &settings.clock,
		  .choices = clock_choices, .help = "clock for the round trips" },
		{ .name = "time-limit-ms", .count = &settings.time_limit_ms, .min = 1,
		  .max = 86400000, .help = "stop after this long and report what was done" },
		{ .name = NULL },
	};

	options_parse(argc, argv, &help, rules);
	if (cpus->count < 2)
		fail(EXIT_USAGE, "needs 2 CPUs, one for each player; only 1 may be used here");
}

int main(int argc, char **argv)
{
	static struct histogram histogram;
	static struct cpus cpus;
	uint64_t start_ns, time_ns, step_ns;
	bool timed_out;

	cpus_read(&cpus);
	read_options(argc, argv, &cpus);
	clock_choose((enum clock_kind)settings.clock);
	step_ns = clock_step_ns();
	gate_init(&gate, deadline_after_ms(settings.time_limit_ms));
	start_pairs(&cpus);
	start_ns = gate_open(&gate, (unsigned int)(2 * settings.pairs));
	timed_out = watch();
	for (uint64_t index = 0; index < settings.pairs; index++) {
		join(pairs[index].server);
		join(pairs[index].returner);
		histogram_merge(&histogram, &pairs[index].histogram);
	}
	time_ns = clock_monotonic_ns() - start_ns;

	report_latency("pingpong.round_trip", &histogram);
	report_work("pingpong", histogram.count, time_ns);
	report_metric("pingpong.pairs", "count", BETTER_NEUTRAL, settings.pairs);
	report_metric("clock_step", "ns", BETTER_NEUTRAL, step_ns);
	report_metric("timed_out", "count", BETTER_LOWER, timed_out);
	report_print("pingpong");
	return EXIT_SUCCESS;
}
