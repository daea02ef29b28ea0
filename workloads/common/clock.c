/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "clock.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "talk.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#else
#error "the guest programs read the x86 time stamp counter: build them for x86-64"
#endif

#define NS_PER_S UINT64_C(1000000000)
#define CALIBRATION_NS UINT64_C(100000000)
#define STEP_SAMPLES 16

const char *const clock_choices[] = { "monotonic", "tsc", NULL };

static enum clock_kind chosen = CLOCK_KIND_MONOTONIC;
static uint64_t tsc_origin;
static uint64_t tsc_ticks; /* ticks in ... */
static uint64_t tsc_span_ns; /* ... this many nanoseconds */

uint64_t clock_monotonic_ns(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_MONOTONIC, &now))
		fail(EXIT_FAULT, "clock_gettime(CLOCK_MONOTONIC): %s", strerror(errno));
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static uint64_t read_tsc(void)
{
	unsigned int aux;

	/*
	 * rdtscp waits for earlier instructions, the fence keeps later ones
	 * behind it: the timed call cannot leak out on either side.
	 */
	uint64_t ticks = __rdtscp(&aux);

	_mm_lfence();
	return ticks;
}

/* Waits for the clock to step, so that both ends of a span lie on a step. */
static uint64_t next_step_ns(void)
{
	uint64_t before = clock_monotonic_ns(), now;

	do {
		now = clock_monotonic_ns();
	} while (now == before);
	return now;
}

void clock_choose(enum clock_kind kind)
{
	uint64_t start_ns, end_ns, end_tsc;

	chosen = kind;
	if (kind != CLOCK_KIND_TSC)
		return;
	start_ns = next_step_ns();
	tsc_origin = read_tsc();
	do {
		end_ns = next_step_ns();
		end_tsc = read_tsc();
	} while (end_ns - start_ns < CALIBRATION_NS);
	if (end_tsc <= tsc_origin)
		fail(EXIT_FAULT, "the TSC stands still; use --clock monotonic");
	tsc_ticks = end_tsc - tsc_origin;
	tsc_span_ns = end_ns - start_ns;
}

uint64_t clock_now_ns(void)
{
	if (chosen == CLOCK_KIND_MONOTONIC)
		return clock_monotonic_ns();
	/* 128 bits: ticks times nanoseconds pass 64 bits within a minute. */
	return (uint64_t)((unsigned __int128)(read_tsc() - tsc_origin) * tsc_span_ns / tsc_ticks);
}

uint64_t clock_step_ns(void)
{
	uint64_t smallest = UINT64_MAX;

	for (int sample = 0; sample < STEP_SAMPLES; sample++) {
		uint64_t before = clock_now_ns(), now;

		do {
			now = clock_now_ns();
		} while (now == before);
		if (now > before && now - before < smallest)
			smallest = now - before;
	}
	return smallest;
}
