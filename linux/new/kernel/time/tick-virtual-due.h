/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * When the hypervisor's ticks are due, by when they came. It gives them at multiples of the period
 * by its clock, on all CPUs at one time, and never before: what comes is late by the way into the
 * guest, or by a turn of another task.
 */
#ifndef _TICK_VIRTUAL_DUE_H
#define _TICK_VIRTUAL_DUE_H

#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>

/*
 * A tick that comes sooner than expected by no more was expected too late. One that comes sooner by
 * more is late for the one before.
 */
#define TICK_VIRTUAL_SOONER	(TICK_NSEC / 256)

/* Of so many ticks the least late shows by how much the others were expected too soon. */
#define TICK_VIRTUAL_LOOKS	16

/**
 * struct tick_virtual_due - when ticks are due, as far as was seen
 * @at: one of them, or a multiple of the period away
 * @least: by how much the least late was late, of those since @at moved or was seen to stand
 * @looks: how many these are
 */
struct tick_virtual_due {
	ktime_t at;
	s32 least;
	unsigned int looks;
};

/* By how much a tick that came @now is late; less than nothing: the expectation was. */
static inline s32 tick_virtual_late(ktime_t at, ktime_t now)
{
	u32 within;

	div_u64_rem(ktime_sub(now, at) + TICK_VIRTUAL_SOONER, TICK_NSEC, &within);
	return (s32)within - (s32)TICK_VIRTUAL_SOONER;
}

/*
 * A tick came @late. Those that were least late show best when they are due: one that came sooner
 * than expected at once, and else the best of TICK_VIRTUAL_LOOKS. Clocks that drift apart by
 * 500 ppm, the most that NTP does, are followed so 1/128 of a period behind. Returns whether @at
 * was looked at.
 */
static inline bool tick_virtual_look(struct tick_virtual_due *due, s32 late)
{
	due->least = due->looks++ ? min(due->least, late) : late;
	if (late >= 0 && due->looks < TICK_VIRTUAL_LOOKS)
		return false;
	WRITE_ONCE(due->at, ktime_add_ns(due->at, due->least));
	due->looks = 0;
	return true;
}

#endif /* _TICK_VIRTUAL_DUE_H */
