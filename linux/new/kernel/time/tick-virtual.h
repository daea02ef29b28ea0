/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual ticks: what the tick's own code calls. With the symbol off each is nothing.
 */
#ifndef _TICK_VIRTUAL_H
#define _TICK_VIRTUAL_H

#include <linux/tick-virtual.h>

#include "tick-sched.h"

#ifdef CONFIG_TICK_VIRTUAL

/* Whether this CPU's tick is given by the hypervisor at present. */
static inline bool tick_virtual(const struct tick_sched *ts)
{
	return static_branch_unlikely(&tick_virtual_key) && (ts->flags & TS_FLAG_VIRTUAL);
}

void tick_sched_work(struct tick_sched *ts, ktime_t now, bool due);
void tick_sched_align(ktime_t due);

bool tick_virtual_timer(struct tick_sched *ts, enum hrtimer_restart *restart);
void __tick_virtual_retain(struct tick_sched *ts);
void tick_virtual_sleep(struct tick_sched *ts, ktime_t expires);
void tick_virtual_wake(struct tick_sched *ts);
void __tick_virtual_timer_interrupt(ktime_t now);

/* The idle loop keeps the tick: see that there is one while the CPU sleeps. */
static inline void tick_virtual_retain(struct tick_sched *ts)
{
	if (tick_virtual(ts))
		__tick_virtual_retain(ts);
}

/* A timer interrupt that came @now is over but for its softirqs, whoever's timer it was for. */
static inline void tick_virtual_timer_interrupt(ktime_t now)
{
	if (static_branch_unlikely(&tick_virtual_key))
		__tick_virtual_timer_interrupt(now);
}

#else /* !CONFIG_TICK_VIRTUAL */

static inline bool tick_virtual(const struct tick_sched *ts)
{
	return false;
}

static inline bool tick_virtual_timer(struct tick_sched *ts, enum hrtimer_restart *restart)
{
	return false;
}

static inline void tick_virtual_retain(struct tick_sched *ts) { }
static inline void tick_virtual_sleep(struct tick_sched *ts, ktime_t expires) { }
static inline void tick_virtual_wake(struct tick_sched *ts) { }
static inline void tick_virtual_timer_interrupt(ktime_t now) { }

#endif /* CONFIG_TICK_VIRTUAL */
#endif /* _TICK_VIRTUAL_H */
