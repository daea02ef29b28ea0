// SPDX-License-Identifier: GPL-2.0-only
/*
 * What becomes of a group's lag when Debooster moves one of its tasks to another CPU. Takes
 * kernel/sched/debooster_lag.h as the kernel does, and around it the arithmetic of Linux 6.12's
 * fair.c: entity_lag() where the task leaves, reweight_entity() of an entity off its queue and
 * place_entity() where it arrives. Times are in nanoseconds; a lag is positive if time is owed.
 * Left out: that place_entity() inflates a lag to make up for the new entity's part of the average.
 *
 * Each FAULT_ is a wrong way to carry the lag, and the program then has to fail.
 */
#include <stdio.h>

typedef long long s64;

static inline s64 div64_s64(s64 value, s64 by)
{
	return value / by;
}

static inline s64 min(s64 a, s64 b)
{
	return a < b ? a : b;
}

static inline s64 min3(s64 a, s64 b, s64 c)
{
	return min(min(a, b), c);
}

#ifdef FAULT_COPIED
static s64 debooster_carried(s64 was, unsigned long was_weight, s64 is, unsigned long is_weight)
{
	return min3(was, is, (s64)0);
}
#elif defined(FAULT_OLD_WEIGHT)
static s64 debooster_carried(s64 was, unsigned long was_weight, s64 is, unsigned long is_weight)
{
	return min3(was * (s64)was_weight / 1048576, is, (s64)0);
}
#elif defined(FAULT_OWED)
static s64 debooster_carried(s64 was, unsigned long was_weight, s64 is, unsigned long is_weight)
{
	return min(was * (s64)was_weight / (s64)is_weight, is);
}
#elif defined(FAULT_FORGIVEN)
static s64 debooster_carried(s64 was, unsigned long was_weight, s64 is, unsigned long is_weight)
{
	return min(was * (s64)was_weight / (s64)is_weight, (s64)0);
}
#else
#include "debooster_lag.h"
#endif

/* The weight of nice 0, and of a group of cpu.weight 100 that is whole on one CPU, as stored. */
#define NICE_0 (1024 << 10)
#define SLICE_NS 3000000
#define TICK_NS 4000000

static s64 to_virtual(s64 time, s64 weight)
{
	return (__int128)time * NICE_0 / weight;
}

static s64 to_time(s64 virtual, s64 weight)
{
	return (__int128)virtual * weight / NICE_0;
}

/* entity_lag(): at most two slices or a tick, of the entity's own time. */
static s64 entity_lag(s64 time, s64 weight)
{
	s64 limit = to_virtual(2 * SLICE_NS > TICK_NS ? 2 * SLICE_NS : TICK_NS, weight);
	s64 lag = to_virtual(time, weight);

	return lag < -limit ? -limit : lag > limit ? limit : lag;
}

static int failed;

/*
 * A group leaves with a lag of @left; its entity on the new CPU has one of @there, by @stale, the
 * weight of its last time there, and is given the weight @now. It has to arrive with @expected.
 */
static void moved(const char *what, s64 left, s64 weight, s64 there, s64 stale, s64 now,
		  s64 expected)
{
	s64 was = entity_lag(left, weight), is = to_virtual(there, stale);
	s64 lag = debooster_carried(was, weight, is, stale);
	s64 placed = to_time(lag * stale / now, now);
	s64 off = placed - expected;
	int wrong = off < -1000 || off > 1000;

	failed |= wrong;
	printf("%-52s leaves with %+6.2f ms, arrives with %+7.2f ms%s\n", what, left / 1e6,
	       placed / 1e6, wrong ? ", which is WRONG" : "");
}

int main(void)
{
	const s64 slice = SLICE_NS, whole = NICE_0, eighth = NICE_0 / 8, heavy = 12800LL << 10;

	moved("8 vCPUs, cpu.weight 100, never there", -slice, eighth, 0, whole, eighth, -slice);
	moved("the same, twice a slice ahead", -2 * slice, eighth, 0, whole, eighth, -2 * slice);
	moved("the same, further ahead than lag is stored", -4 * slice, eighth, 0, whole, eighth,
	      -2 * slice);
	moved("the same, was there as one of two", -slice, eighth, 0, whole / 2, eighth, -slice);
	moved("the same, arrives as one of two", -slice, eighth, 0, whole, whole / 2, -slice);
	moved("8 vCPUs, cpu.weight 10000, never there", -slice, heavy, 0, whole, heavy, -slice);
	moved("the least weight, never there", -slice, 2 << 10, 0, whole, 2 << 10, -slice);
	moved("a group for each vCPU", -slice, whole, 0, whole, whole, -slice);
	moved("a group for each vCPU, level", 0, whole, 0, whole, whole, 0);
	moved("a group for each vCPU, owed a slice", slice, whole, 0, whole, whole, 0);
	moved("8 vCPUs, owed a slice, never there", slice, eighth, 0, whole, eighth, 0);
	moved("owed a slice here, and there", slice, whole, slice, whole, whole, 0);
	moved("level, in debt there", 0, whole, -slice, whole, whole, -slice);
	moved("owed a slice, in debt there", slice, eighth, -slice, eighth, eighth, -slice);
	moved("in debt here, and more there", -slice, eighth, -2 * slice, whole, whole,
	      -2 * slice);
	moved("in debt here, and less there", -2 * slice, eighth, -slice, whole, whole,
	      -2 * slice);
	return failed;
}
