// SPDX-License-Identifier: GPL-2.0-only
/*
 * When a guest with Paratick takes the hypervisor's ticks to be due. Takes
 * kernel/time/tick-virtual-due.h as the kernel does. Ticks are due each 4 ms by the hypervisor's
 * clock, and come at least 40 us later. Jiffies are moved as tick_sched_align() does. As many late
 * ticks in a row as the kernel looks at, 16, mislead it until an early one; with these numbers
 * there are none.
 *
 * Each FAULT_ is a wrong way to find out, and the program then has to fail.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

typedef long long s64, ktime_t;
typedef unsigned long long u64;
typedef int s32;
typedef unsigned int u32;

#define TICK_NSEC 4000000
#define WRITE_ONCE(what, value) ((what) = (value))

static inline s32 min(s32 a, s32 b)
{
	return a < b ? a : b;
}

static inline u64 div_u64_rem(u64 value, u32 by, u32 *rest)
{
	*rest = value % by;
	return value / by;
}

static inline ktime_t ktime_sub(ktime_t a, ktime_t b)
{
	return a - b;
}

static inline ktime_t ktime_add_ns(ktime_t a, s64 ns)
{
	return a + ns;
}

#include "tick-virtual-due.h"

/* As the kernel has it, or one of the faults. */
static s32 late_by(ktime_t at, ktime_t now)
{
#ifdef FAULT_HALF
	s64 late = ((now - at) % TICK_NSEC + TICK_NSEC) % TICK_NSEC;

	return late < TICK_NSEC / 2 ? late : late - TICK_NSEC;
#else
	return tick_virtual_late(at, now);
#endif
}

static bool look(struct tick_virtual_due *due, s32 late)
{
#if defined(FAULT_SHARE)
	due->at += late < 0 ? late : late / 64;
	return true;
#elif defined(FAULT_EACH)
	due->at += late;
	return true;
#elif defined(FAULT_SOONER_ALONE)
	due->at += late < 0 ? late : 0;
	return true;
#else
	return tick_virtual_look(due, late);
#endif
}

static u64 seed = 1;

static u32 below(u32 limit)
{
	seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (seed >> 33) % limit;
}

static int failed;

/* An offset of phases: less than half a period either way. */
static s64 phase(s64 ns)
{
	ns %= TICK_NSEC;
	return ns > TICK_NSEC / 2 ? ns - TICK_NSEC : ns < -TICK_NSEC / 2 ? ns + TICK_NSEC : ns;
}

/*
 * 5,000 ticks, of which @late_percent come when the CPU gets its turn again. The guest's clock
 * slows by @ppm, and after half of the ticks the hypervisor's moves by @jump_ns, as by a migration.
 * From 512 ticks after the beginning, and after that, no expectation may be off by more than 1/32
 * of a period, and jiffies may move for the drift and twice more.
 */
static void run(const char *what, u32 late_percent, s64 ppm, s64 jump_ns)
{
	int moves = 0, allowed = 2 + llabs(ppm) * 4000 * (TICK_NSEC / 1000000) / (TICK_NSEC / 128);
	s64 jiffy = 0, worst = 0, first = 1234567;
	struct tick_virtual_due due = { 0 };

	for (int tick = 1; tick <= 5000; tick++) {
		s64 at, off, late = 40000 + below(20000);
		bool settled = tick % 2500 > 512;

		if (tick == 2500)
			first += jump_ns;
		if (below(100) < late_percent)
			late = 40000 + below(TICK_NSEC);
		at = first + tick * (TICK_NSEC + ppm * (TICK_NSEC / 1000000));
		off = look(&due, late_by(due.at, at + late)) ? phase(due.at - jiffy) : 0;
		if (llabs(off) >= TICK_NSEC / 128) {
			moves += settled;
			jiffy += off;
		}
		off = llabs(phase(due.at - at - 40000));
		if (settled && off > worst)
			worst = off;
	}
	bool wrong = worst > TICK_NSEC / 32 || moves > allowed;

	failed |= wrong;
	printf("%-44s off by %6.1f us, jiffies move %4d times of %3d%s\n", what, worst / 1e3, moves,
	       allowed, wrong ? ", which is WRONG" : "");
}

int main(void)
{
	run("a CPU of its own", 0, 0, 0);
	run("every second tick late by some of a period", 50, 0, 0);
	run("the guest's clock is fast by 500 ppm", 0, -500, 0);
	run("the guest's clock is slow by 500 ppm", 0, 500, 0);
	run("slow by 500 ppm, one of four late", 25, 500, 0);
	run("another host, 1.5 ms later", 0, 0, 1500000);
	run("another host, 1.5 ms sooner", 50, 0, -1500000);
	run("another host, 2.5 ms sooner", 50, 0, -2500000);
	return failed;
}
