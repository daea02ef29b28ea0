/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ticks/roamers.h"

#include <string.h>

#include "talk.h"

#define STEPS_PER_CHECK 4096

struct roamer {
	/* A cache line each: the threads share nothing. */
	_Alignas(64) uint64_t steps;
	pthread_t thread;
};

static struct roamer roamers[ROAMERS_MAX];
static uint64_t started;
static struct gate *start_gate;
static const atomic_bool *stopped;

static void *roamer_body(void *argument)
{
	struct roamer *roamer = argument;
	uint64_t state = 1, steps = 0;

	gate_pass(start_gate);
	while (!atomic_load_explicit(stopped, memory_order_relaxed)) {
		for (int step = 0; step < STEPS_PER_CHECK; step++) {
			state = state * UINT64_C(6364136223846793005) + 1;
			/* Keeps the compiler from folding the steps into one. */
			__asm__ volatile("" : "+r"(state));
		}
		steps += STEPS_PER_CHECK;
	}
	roamer->steps = steps;
	return NULL;
}

void roamers_start(uint64_t count, struct gate *gate, const atomic_bool *stop)
{
	if (count > ROAMERS_MAX)
		fail(EXIT_FAULT, "more than %d threads that are bound to no CPU", ROAMERS_MAX);
	start_gate = gate;
	stopped = stop;
	for (; started < count; started++) {
		struct roamer *roamer = &roamers[started];
		int error = pthread_create(&roamer->thread, NULL, roamer_body, roamer);

		if (error)
			fail(EXIT_FAULT, "starting a thread: %s", strerror(error));
	}
}

uint64_t roamers_join(void)
{
	uint64_t total = 0;

	for (uint64_t index = 0; index < started; index++) {
		join(roamers[index].thread);
		total += roamers[index].steps;
	}
	return total;
}
