// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtual ticks: a hypervisor interrupts a CPU for each scheduler tick while it runs, so that the
 * CPU need not program one. After Schildermans, Aerts, Shan and Ding, "Paratick: Reducing Timer
 * Overhead in Virtual Machines", ICPP 2021, sections 4 and 5.2.
 *
 * While a CPU runs, its tick timer is armed only for the watch: about once a second the CPU checks
 * that ticks still come. Going idle arms the timer for the next event, and only if that is sooner
 * than what it is armed for. Waking up leaves it alone. So the timer may fire early, or on a CPU
 * that runs again, which costs less than to program it twice for each sleep.
 *
 * Whether the tick is kept or stopped in idle is decided in tick-sched.c as ever. A CPU that keeps
 * it has its timer armed for the next jiffy, and never sleeps past that.
 *
 * The hypervisor takes an interrupt of the CPU's own timer for a tick if one is due. Therefore any
 * timer interrupt does the work of a tick that is due here, whatever timer it is for.
 *
 * A CPU that was descheduled gets one tick, however many were due, and accounts the CPU time of all
 * those periods with it. What was stolen of them is subtracted as ever.
 *
 * CPUs that run without ticks (nohz_full) keep to their own timer. Without nohz or without
 * high-resolution timers there are none.
 */
#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/tick.h>
#include <asm/irq_regs.h>

#include "tick-internal.h"
#include "tick-virtual.h"
#include "tick-virtual-due.h"

/*
 * How often a CPU looks whether ticks came since it looked last. One that lost them finds out at
 * the second look: they came before the first.
 */
#define TICK_VIRTUAL_WATCH	NSEC_PER_SEC

/* A tick of the hypervisor that comes so soon after the work of one was done is the same. */
#define TICK_VIRTUAL_SLACK	(TICK_NSEC / 8)

/*
 * A timer's interrupt that comes so soon before a tick is due does the work of that tick: in the
 * 1/32 of a period in which the hypervisor takes it for the tick, and a little more, because a tick
 * is due here a moment later than there. If the hypervisor did not take it, its tick is dropped.
 */
#define TICK_VIRTUAL_EARLY	(TICK_NSEC / 32 + TICK_NSEC / 128)

/* A jiffy begins less than this after a tick of the hypervisor is due: see tick_sched_align(). */
#define TICK_VIRTUAL_LEAD	(TICK_NSEC / 32)

/*
 * With a tick the CPU time of no more periods is accounted. The CPU may have been frozen: the host
 * does not report that as stolen. One that is descheduled for longer loses what it ran since its
 * last tick, which is little of that time.
 */
#define TICK_VIRTUAL_PERIODS	(HZ / 4)

/* The last two bits of @virtual_retained of a CPU that keeps its tick in idle time and again. */
#define TICK_VIRTUAL_OFTEN	3

DEFINE_STATIC_KEY_FALSE(tick_virtual_key);

static const struct tick_virtual_source *tick_virtual_source __ro_after_init;

/* Changed by the CPU whose duty jiffies are. */
static struct tick_virtual_due tick_virtual_due;

/* Makes the tick's timer fire at @expires or sooner. */
static void tick_virtual_arm(struct tick_sched *ts, ktime_t expires)
{
	if (!hrtimer_is_queued(&ts->sched_timer) ||
	    hrtimer_get_expires(&ts->sched_timer) > expires)
		hrtimer_start(&ts->sched_timer, expires, HRTIMER_MODE_ABS_PINNED_HARD);
}

/*
 * Whether the CPU runs, or is on its way to: one that an interrupt has given something to run comes
 * to it before the idle loop is left.
 */
static bool tick_virtual_runs(const struct tick_sched *ts)
{
	return !(ts->flags & TS_FLAG_INIDLE) || need_resched();
}

bool __tick_virtual_unticked(void)
{
	return tick_get_tick_sched(smp_processor_id())->flags & TS_FLAG_VIRTUAL;
}

unsigned long __tick_virtual_periods(void)
{
	return tick_get_tick_sched(smp_processor_id())->virtual_passed + 1;
}

/* When the next jiffy begins, for which a tick is programmed. No clock is read. */
static ktime_t tick_virtual_jiffy(void)
{
	unsigned long basejiff;

	return get_jiffies_update(&basejiff) + TICK_NSEC;
}

/*
 * The work of a tick that was @due, unless that was done a moment ago. The jiffy that it begins is
 * to have begun: see tick_sched_align(). @passed more were due since the last, and have no tick. In
 * idle they are accounted as time that was slept.
 */
static void tick_virtual_work(struct tick_sched *ts, ktime_t now, ktime_t due, u64 passed)
{
	if (ktime_sub(now, ts->virtual_last) < TICK_VIRTUAL_SLACK) {
		ts->virtual_early++;
		return;
	}
	if (tick_virtual_runs(ts)) {
		ts->virtual_last = now;
		ts->virtual_ticks++;
	}
	if (!(ts->flags & TS_FLAG_INIDLE))
		ts->virtual_passed = min_t(u64, passed, TICK_VIRTUAL_PERIODS - 1);
	tick_sched_work(ts, max(now, ktime_add_ns(due, TICK_VIRTUAL_LEAD)), true);
	ts->virtual_passed = 0;
}

/*
 * Ticks that were due until @now are not any more: the CPU slept, or one does for all. Returns how
 * many. The hypervisor's are due at multiples of the period, too.
 */
static u64 tick_virtual_skip(struct tick_sched *ts, ktime_t now)
{
	u64 passed;

	if (ts->virtual_next > now)
		return 0;
	passed = ktime_divns(ktime_sub(now, ts->virtual_next), TICK_NSEC) + 1;
	ts->virtual_next = ktime_add_ns(ts->virtual_next, TICK_NSEC * passed);
	return passed;
}

/*
 * A timer interrupt that came @now. In idle, if it gave the CPU nothing to run, the tick that it is
 * taken for passes without work: whether a CPU has one is asked once in each period. Else one whose
 * timers come in step with the ticks, just before them, would have too many.
 */
void __tick_virtual_timer_interrupt(ktime_t now)
{
	struct tick_sched *ts = tick_get_tick_sched(smp_processor_id());
	ktime_t due;
	u64 passed;

	if (!(ts->flags & TS_FLAG_VIRTUAL))
		return;
	if (ts->flags & TS_FLAG_INIDLE)
		tick_virtual_skip(ts, now);
	due = ts->virtual_next;
	if (now < ktime_sub_ns(due, TICK_VIRTUAL_EARLY))
		return;
	ts->virtual_next = ktime_add_ns(due, TICK_NSEC);
	passed = tick_virtual_skip(ts, now);
	/* As in the ordinary tick: outside of an interrupt there is nothing to account to. */
	if (tick_virtual_runs(ts) && get_irq_regs())
		tick_virtual_work(ts, now, due, passed);
}

/*
 * Returns when the tick was due that came @now, and in @passed how many more were due since the
 * last. One CPU looks for all, whose duty jiffies are: others may have few ticks, or late ones. The
 * tick may be of a period that was skipped, for a timer's interrupt that came first.
 */
static ktime_t tick_virtual_expect(struct tick_sched *ts, ktime_t now, u64 *passed)
{
	s32 late = tick_virtual_late(READ_ONCE(tick_virtual_due.at), now);
	ktime_t due = ktime_sub_ns(now, max(late, 0)), next = ts->virtual_next;

	if (READ_ONCE(tick_do_timer_cpu) == smp_processor_id() &&
	    tick_virtual_look(&tick_virtual_due, late))
		tick_sched_align(tick_virtual_due.at);

	ts->virtual_next = ktime_add_ns(due, TICK_NSEC);
	*passed = due > next ? ktime_divns(ktime_sub(due, next) + TICK_NSEC / 2, TICK_NSEC) : 0;
	return due;
}

/* The hypervisor's tick, on its vector. */
void tick_virtual_interrupt(void)
{
	struct tick_sched *ts = tick_get_tick_sched(smp_processor_id());
	ktime_t now, due;
	u64 passed;

	/* One that was under way when they were withdrawn. */
	if (!(ts->flags & TS_FLAG_VIRTUAL))
		return;

	now = ktime_get();
	ts->virtual_seen++;
	due = tick_virtual_expect(ts, now, &passed);
	if (!tick_virtual_runs(ts)) {
		ts->virtual_idle++;
		/* It woke up: what for comes next, and entering the interrupt updated jiffies. */
		if (ts->flags & TS_FLAG_STOPPED)
			return;
	}
	tick_virtual_work(ts, now, due, passed);
}

/*
 * Whether ticks can be relied on. That none came since the last look does not prove that they
 * ceased: own timers may have stood in for all of them, or the CPU slept, so the hypervisor is
 * asked. But if it has what was declared, and a tick was due long ago on a CPU that did not sleep,
 * it gives none. Asking is an exit: a timer that fires for kept ticks does not look each time.
 */
static bool tick_virtual_alive(struct tick_sched *ts, ktime_t now)
{
	bool seen = ts->virtual_seen != ts->virtual_watched;

	if (ktime_sub(now, ts->virtual_looked) < TICK_VIRTUAL_WATCH / 2)
		return true;
	ts->virtual_looked = now;
	ts->virtual_watched = ts->virtual_seen;
	if (seen)
		return true;
	if (!tick_virtual_source->declared())
		return tick_virtual_source->declare(TICK_NSEC);
	return (ts->flags & TS_FLAG_INIDLE) ||
	       ktime_sub(now, ts->virtual_next) < TICK_VIRTUAL_WATCH / 2;
}

/*
 * The tick is an ordinary one again. It goes on from the beginning of a jiffy, for which the timer
 * is not armed. In idle, where it may be armed for another time than next_tick, the idle loop is to
 * program it.
 */
static void tick_virtual_end(struct tick_sched *ts)
{
	ts->flags &= ~TS_FLAG_VIRTUAL;
	ts->last_tick = tick_virtual_jiffy();
	ts->next_tick = 0;
}

/*
 * The tick's timer fired in idle: it is the CPU's own tick, and never dropped. The idle loop arms
 * it for what is next if the tick is stopped.
 */
static void tick_virtual_idle(struct tick_sched *ts, ktime_t now)
{
	if (get_irq_regs())
		tick_sched_work(ts, now, true);
	else
		ts->next_tick = 0;
}

/*
 * The tick's timer fired. Returns false, and the tick is an ordinary one again, if the hypervisor
 * gives none any more: the guest was migrated or reset.
 *
 * A CPU that kept its tick in idle before each of the last two expiries likely does so again. It
 * has the timer armed for the next jiffy at once, as it would else program it twice for each. The
 * others have it armed for the watch.
 */
bool tick_virtual_timer(struct tick_sched *ts, enum hrtimer_restart *restart)
{
	ktime_t now = ktime_get();

	if (!tick_virtual_alive(ts, now)) {
		tick_virtual_end(ts);
		pr_info_once("virtual ticks ceased on CPU %d, which programs its own again\n",
			     smp_processor_id());
		hrtimer_set_expires(&ts->sched_timer, ts->last_tick);
		return false;
	}
	if (ts->flags & TS_FLAG_INIDLE)
		tick_virtual_idle(ts, now);
	else
		/* A tick that is due follows. The timer may have been armed for the wheel's. */
		tick_sched_work(ts, now, false);

	*restart = ts->flags & TS_FLAG_STOPPED ? HRTIMER_NORESTART : HRTIMER_RESTART;
	if (ts->virtual_retained == TICK_VIRTUAL_OFTEN)
		hrtimer_set_expires(&ts->sched_timer, tick_virtual_jiffy());
	else
		hrtimer_set_expires(&ts->sched_timer, ktime_add_ns(now, TICK_VIRTUAL_WATCH));
	ts->virtual_retained = (ts->virtual_retained << 1) & TICK_VIRTUAL_OFTEN;
	return true;
}

/* The CPU is about to sleep without ticks, and has an event at @expires. */
void tick_virtual_sleep(struct tick_sched *ts, ktime_t expires)
{
	if (expires != KTIME_MAX)
		tick_virtual_arm(ts, expires);
}

/* The idle loop keeps the tick, unless the CPU will not sleep or has stopped its tick before. */
void __tick_virtual_retain(struct tick_sched *ts)
{
	if (need_resched() || (ts->flags & TS_FLAG_STOPPED))
		return;
	ts->virtual_retained |= 1;
	tick_virtual_arm(ts, tick_virtual_jiffy());
}

/* The CPU is about to run. */
void tick_virtual_wake(struct tick_sched *ts)
{
	ktime_t now = ktime_get();

	ts->next_tick = 0;
	tick_virtual_skip(ts, now);
	tick_virtual_arm(ts, ktime_add_ns(now, TICK_VIRTUAL_WATCH));
}

/*
 * From now on ticks come from the hypervisor, if it gives any. Neither this nor tick_virtual_stop()
 * reads a clock: timekeeping may be suspended.
 */
void tick_virtual_start(void)
{
	int cpu = smp_processor_id();
	struct tick_sched *ts = tick_get_tick_sched(cpu);

	lockdep_assert_irqs_disabled();
	if (!static_branch_unlikely(&tick_virtual_key) || (ts->flags & TS_FLAG_VIRTUAL))
		return;
	if (!(ts->flags & TS_FLAG_HIGHRES) != !(ts->flags & TS_FLAG_NOHZ))
		pr_info_once("virtual ticks are not for nohz=off or highres=off\n");
	if (!(ts->flags & TS_FLAG_HIGHRES) || !(ts->flags & TS_FLAG_NOHZ) ||
	    tick_nohz_full_cpu(cpu) || !tick_virtual_source->declare(TICK_NSEC))
		return;

	ts->virtual_next = tick_virtual_jiffy();
	ts->virtual_watched = ts->virtual_seen - 1;
	ts->flags |= TS_FLAG_VIRTUAL;
}

/*
 * The hypervisor is to give no more: the CPU goes offline, is suspended, or another kernel
 * follows. The tick goes on from the beginning of a jiffy, now or when the CPU wakes up.
 */
void tick_virtual_stop(void)
{
	struct tick_sched *ts = tick_get_tick_sched(smp_processor_id());

	lockdep_assert_irqs_disabled();
	if (!static_branch_unlikely(&tick_virtual_key) || !(ts->flags & TS_FLAG_VIRTUAL))
		return;

	tick_virtual_source->withdraw();
	tick_virtual_end(ts);
	if (!(ts->flags & TS_FLAG_STOPPED))
		tick_virtual_arm(ts, ts->last_tick);
}

void __init tick_virtual_register(const struct tick_virtual_source *source)
{
	tick_virtual_source = source;
	static_branch_enable(&tick_virtual_key);
}
