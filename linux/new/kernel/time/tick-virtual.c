// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtual ticks: a hypervisor interrupts a CPU for each scheduler tick while it runs, so that the
 * CPU need not program one. After Schildermans, Aerts, Shan and Ding, "Paratick: Reducing Timer
 * Overhead in Virtual Machines", ICPP 2021, sections 4 and 5.2.
 *
 * While a CPU runs, its tick timer is armed for nothing but the watch: about once a second it is
 * seen to that ticks still come. Going idle arms the timer for the next event, and only if that is
 * sooner than what it is armed for; waking up leaves it as it is. So the timer may fire early, or
 * on a CPU that is not idle any more, which costs less than to program it twice for each sleep.
 *
 * The hypervisor takes an interrupt of the CPU's own timer for a tick if one is due. Therefore any
 * timer interrupt does the work of a tick that is due here, whatever timer it is for.
 *
 * CPUs that are to run without ticks (nohz_full) keep to their own timer, as do those without
 * nohz and high-resolution timers both, whose tick does not come from tick-sched.c.
 */
#include <linux/cpu.h>
#include <linux/hrtimer.h>
#include <linux/interrupt.h>
#include <linux/irq_work.h>
#include <linux/math64.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/tick.h>
#include <asm/irq_regs.h>

#include "tick-internal.h"
#include "tick-virtual.h"

/*
 * How often a CPU looks whether ticks came since it looked last. One that lost them finds out at
 * the second look: they came before the first.
 */
#define TICK_VIRTUAL_WATCH	NSEC_PER_SEC

/*
 * A CPU that sleeps often arms its timer so many ticks ahead where RCU alone wants ticks of it: it
 * will wake up sooner, and have them from the hypervisor. One that does sleep serves RCU as much
 * later.
 */
#define TICK_VIRTUAL_AHEAD	(4 * TICK_NSEC)

/* A tick that comes so soon after the work of one was done is the same. */
#define TICK_VIRTUAL_SLACK	(TICK_NSEC / 8)

/*
 * The hypervisor takes a timer's interrupt for a tick that is due so soon after it. By the clock
 * here one is due a moment later: what it takes is handled here in any case, and what is handled
 * here without being taken does no harm (TICK_VIRTUAL_SLACK).
 */
#define TICK_VIRTUAL_TAKEN	(TICK_NSEC / 32)
#define TICK_VIRTUAL_EARLY	(TICK_VIRTUAL_TAKEN + TICK_NSEC / 128)

DEFINE_STATIC_KEY_FALSE(tick_virtual_key);

static const struct tick_virtual_source *tick_virtual_source __ro_after_init;

/* For what the tick's timer is armed on this CPU; KTIME_MAX: it is not. */
static ktime_t tick_virtual_armed(struct tick_sched *ts)
{
	if (!(ts->flags & TS_FLAG_HIGHRES))
		return __this_cpu_read(tick_cpu_device.evtdev)->next_event;
	if (!hrtimer_is_queued(&ts->sched_timer))
		return KTIME_MAX;
	return hrtimer_get_expires(&ts->sched_timer);
}

/* Sees to it that the tick's timer fires at @expires or sooner. */
static void tick_virtual_arm(struct tick_sched *ts, ktime_t expires)
{
	if (tick_virtual_armed(ts) <= expires)
		return;
	if (ts->flags & TS_FLAG_HIGHRES) {
		hrtimer_start(&ts->sched_timer, expires, HRTIMER_MODE_ABS_PINNED_HARD);
	} else {
		hrtimer_set_expires(&ts->sched_timer, expires);
		tick_program_event(expires, 1);
	}
}

/* Whether idle CPUs have ticks, too: nohz=off. */
static bool tick_virtual_in_idle(const struct tick_sched *ts)
{
	return !(ts->flags & TS_FLAG_NOHZ);
}

/*
 * For when a tick that is kept in idle is armed. It may fire on a CPU that runs again, as waking up
 * leaves it alone, and is to be taken for the hypervisor's then, and not to come beside it. Timers
 * that wait for the tick gain nothing by that.
 */
static ktime_t tick_virtual_kept(const struct tick_sched *ts)
{
	if (!(ts->flags & TS_FLAG_HIGHRES))
		return ts->virtual_next;
	return ktime_sub_ns(ts->virtual_next, TICK_VIRTUAL_TAKEN);
}

/*
 * Whether the CPU runs, or is on its way to: one that an interrupt has given something to run comes
 * to it before the idle loop is left.
 */
static bool tick_virtual_runs(const struct tick_sched *ts)
{
	return !(ts->flags & TS_FLAG_INIDLE) || need_resched();
}

/*
 * Whether it may be for more than RCU that this CPU keeps its tick in idle: others have none, or
 * the tick is what all timers wait for.
 */
static bool tick_virtual_keeps(const struct tick_sched *ts)
{
	return tick_virtual_in_idle(ts) || tick_nohz_full_enabled() ||
	       !(ts->flags & TS_FLAG_HIGHRES);
}

bool __tick_virtual_unticked(void)
{
	struct tick_sched *ts = tick_get_tick_sched(smp_processor_id());

	return (ts->flags & TS_FLAG_VIRTUAL) && !tick_virtual_keeps(ts);
}

/*
 * The work of a tick, unless it was done a moment ago. @runs: tick_virtual_runs(). Any other has no
 * ticks, unless it keeps them in idle: it does this for timers and RCU.
 */
static void tick_virtual_work(struct tick_sched *ts, ktime_t now, bool runs)
{
	/* As in the ordinary tick: outside of an interrupt there is nobody to account to. */
	if (!get_irq_regs()) {
		ts->next_tick = 0;
		return;
	}
	if (ktime_sub(now, ts->virtual_last) < TICK_VIRTUAL_SLACK) {
		ts->virtual_early++;
		return;
	}
	if (runs) {
		ts->virtual_last = now;
		ts->virtual_ticks++;
	} else if (tick_virtual_in_idle(ts)) {
		ts->virtual_last = now;
		ts->virtual_idle++;
	}
	tick_sched_work(ts, now);
}

/* Whether a tick is due for which the hypervisor takes a timer's interrupt. If so, the next is. */
static bool tick_virtual_pass(struct tick_sched *ts, ktime_t now)
{
	if (now < ktime_sub_ns(ts->virtual_next, TICK_VIRTUAL_EARLY))
		return false;
	ts->virtual_next = ktime_add_ns(ts->virtual_next, TICK_NSEC);
	if (ts->virtual_next <= now)
		ts->virtual_next = ktime_add_ns(now, TICK_NSEC);
	return true;
}

/* A timer interrupt of a CPU that has ticks now. */
static void tick_virtual_due(struct tick_sched *ts, ktime_t now)
{
	if (tick_virtual_pass(ts, now))
		tick_virtual_work(ts, now, tick_virtual_runs(ts));
}

/*
 * The CPU slept until @now: it is owed no tick of that time, or has its timer armed for it. The
 * hypervisor's are due at multiples of the period, too.
 */
static void tick_virtual_slept(struct tick_sched *ts, ktime_t now)
{
	bool kept = tick_virtual_in_idle(ts) || (tick_virtual_keeps(ts) && ts->virtual_retained);
	s64 passed;

	if (ts->virtual_next > now || kept)
		return;
	passed = ktime_divns(ktime_sub(now, ts->virtual_next), TICK_NSEC);
	ts->virtual_next = ktime_add_ns(ts->virtual_next, TICK_NSEC * (passed + 1));
}

/*
 * A timer interrupt that came @now. In idle, if it gave the CPU nothing to run, the tick that it is
 * taken for passes without work: whether a CPU has one is asked once in each period. Else one whose
 * timers come in step with the ticks, just before them, would have too many.
 */
void __tick_virtual_timer_interrupt(ktime_t now)
{
	struct tick_sched *ts = tick_get_tick_sched(smp_processor_id());

	if (!(ts->flags & TS_FLAG_VIRTUAL))
		return;
	if (ts->flags & TS_FLAG_INIDLE)
		tick_virtual_slept(ts, now);
	if (tick_virtual_runs(ts) || tick_virtual_in_idle(ts))
		tick_virtual_due(ts, now);
	else if (!tick_virtual_keeps(ts))
		tick_virtual_pass(ts, now);
}

/*
 * The hypervisor's ticks are due at multiples of the period by its clock. Those that were least
 * late tell best when that is; late ones, as after the CPU was descheduled, move it by a little.
 */
static void tick_virtual_expect(struct tick_sched *ts, ktime_t now)
{
	s64 late = ktime_sub(now, ts->virtual_next);
	u32 within;

	if (late > 0) {
		div_u64_rem(late, TICK_NSEC, &within);
		now = ktime_sub_ns(now, within - within / 64);
	}
	ts->virtual_next = ktime_add_ns(now, TICK_NSEC);
}

/* The hypervisor's tick, on its vector. */
void tick_virtual_interrupt(void)
{
	struct tick_sched *ts = tick_get_tick_sched(smp_processor_id());
	ktime_t now;
	bool runs;

	/* One that was under way when they were withdrawn. */
	if (!(ts->flags & TS_FLAG_VIRTUAL))
		return;

	now = ktime_get();
	ts->virtual_seen++;
	tick_virtual_expect(ts, now);
	runs = tick_virtual_runs(ts);
	if (!runs && !tick_virtual_in_idle(ts))
		ts->virtual_idle++;
	/* It woke up: what for comes next, and entering the interrupt has updated jiffies. */
	if (!runs && (ts->flags & TS_FLAG_STOPPED))
		return;
	tick_virtual_work(ts, now, runs);
}

/*
 * Whether ticks can be relied on. None since the last look is no proof that they ceased: own
 * timers may have stood in for all of them, or the CPU slept. Asking is an exit: a timer that fires
 * for kept ticks, which stand in for the hypervisor's, does not look each time.
 */
static bool tick_virtual_alive(struct tick_sched *ts, ktime_t now)
{
	bool seen = ts->virtual_seen != ts->virtual_watched;

	if (ktime_sub(now, ts->virtual_looked) < TICK_VIRTUAL_WATCH / 2)
		return true;
	ts->virtual_looked = now;
	ts->virtual_watched = ts->virtual_seen;
	return seen || tick_virtual_source->declared() || tick_virtual_source->declare(TICK_NSEC);
}

/*
 * For when the tick's timer, which fires @now, is to be armed again. Who keeps the tick in idle and
 * was there since it fired last, would only have to program it anew there: it has the next at once.
 * Any other that sleeps often is as late as it would be.
 */
static ktime_t tick_virtual_again(struct tick_sched *ts, ktime_t now)
{
	bool retained = ts->virtual_retained;

	ts->virtual_retained = 0;
	if (!retained)
		return ktime_add_ns(now, TICK_VIRTUAL_WATCH);
	return tick_virtual_keeps(ts) ? tick_virtual_kept(ts) :
	       ktime_add_ns(now, TICK_VIRTUAL_AHEAD);
}

/* The tick's timer fired in the idle loop, which arms it for what is next but for a kept tick. */
static enum hrtimer_restart tick_virtual_idle(struct tick_sched *ts, ktime_t now)
{
	if (!tick_virtual_keeps(ts) || (ts->flags & TS_FLAG_STOPPED)) {
		tick_virtual_work(ts, now, false);
		return HRTIMER_NORESTART;
	}
	tick_virtual_due(ts, now);
	hrtimer_set_expires(&ts->sched_timer, tick_virtual_again(ts, now));
	return HRTIMER_RESTART;
}

/*
 * The tick's timer fired. Returns false, and the tick is an ordinary one again, if the hypervisor
 * gives none any more: the guest was migrated or reset.
 */
bool tick_virtual_timer(struct tick_sched *ts, enum hrtimer_restart *restart)
{
	ktime_t now = ktime_get();

	if (ts->flags & TS_FLAG_INIDLE) {
		*restart = tick_virtual_idle(ts, now);
		return true;
	}

	if (!tick_virtual_alive(ts, now)) {
		ts->flags &= ~TS_FLAG_VIRTUAL;
		pr_info_once("virtual ticks ceased on CPU %d, which programs its own again\n",
			     smp_processor_id());
		return false;
	}

	tick_virtual_due(ts, now);
	hrtimer_set_expires(&ts->sched_timer, tick_virtual_again(ts, now));
	*restart = HRTIMER_RESTART;
	return true;
}

/* The CPU is about to sleep without ticks, and has an event at @expires. */
void tick_virtual_sleep(struct tick_sched *ts, ktime_t expires)
{
	if (expires != KTIME_MAX)
		tick_virtual_arm(ts, expires);
}

/* Whether a CPU that keeps its tick in idle does so for nothing but RCU and near timers. */
static bool tick_virtual_may_delay(struct tick_sched *ts)
{
	return !tick_virtual_keeps(ts) &&
	       !irq_work_needs_cpu() && !(local_softirq_pending() & BIT(TIMER_SOFTIRQ));
}

/* The CPU is about to sleep, and is to have its ticks. */
void __tick_virtual_retain(struct tick_sched *ts)
{
	unsigned long basejiff;
	u64 basemono, latest;

	/* It will not sleep, or it has been armed for its next event. */
	if (need_resched() || (ts->flags & TS_FLAG_STOPPED))
		return;

	if (tick_virtual_may_delay(ts)) {
		basemono = get_jiffies_update(&basejiff);
		latest = min_t(u64, get_next_timer_interrupt(basejiff, basemono),
			       basemono + TICK_VIRTUAL_AHEAD);
		/* Who runs meanwhile keeps the time, or whoever wakes up. */
		if (READ_ONCE(tick_do_timer_cpu) == smp_processor_id())
			WRITE_ONCE(tick_do_timer_cpu, TICK_DO_TIMER_NONE);
	} else {
		/* When the hypervisor would give one, so that there is one either way. */
		latest = tick_virtual_keeps(ts) ? tick_virtual_kept(ts) :
			 get_jiffies_update(&basejiff) + TICK_NSEC;
	}
	ts->virtual_retained = 1;
	tick_virtual_arm(ts, latest);
}

/* The CPU is about to run. */
void tick_virtual_wake(struct tick_sched *ts)
{
	ktime_t now = ktime_get();

	ts->next_tick = 0;
	tick_virtual_slept(ts, now);
	tick_virtual_arm(ts, ktime_add_ns(now, TICK_VIRTUAL_WATCH));
}

/* From now on ticks come from the hypervisor, if it gives any. */
void tick_virtual_start(void)
{
	int cpu = smp_processor_id();
	struct tick_sched *ts = tick_get_tick_sched(cpu);

	lockdep_assert_irqs_disabled();
	if (!static_branch_unlikely(&tick_virtual_key) || (ts->flags & TS_FLAG_VIRTUAL) ||
	    !(ts->flags & (TS_FLAG_HIGHRES | TS_FLAG_NOHZ)) || tick_nohz_full_cpu(cpu) ||
	    !tick_virtual_source->declare(TICK_NSEC))
		return;

	ts->virtual_last = ktime_get();
	ts->virtual_next = ktime_add_ns(ts->virtual_last, TICK_NSEC);
	ts->virtual_looked = ts->virtual_last;
	ts->virtual_watched = ts->virtual_seen - 1;
	ts->flags |= TS_FLAG_VIRTUAL;
}

/*
 * The hypervisor is to give no more: the CPU goes offline, is suspended, or another kernel
 * follows.
 */
void tick_virtual_stop(void)
{
	struct tick_sched *ts = tick_get_tick_sched(smp_processor_id());

	lockdep_assert_irqs_disabled();
	if (!static_branch_unlikely(&tick_virtual_key) || !(ts->flags & TS_FLAG_VIRTUAL))
		return;

	tick_virtual_source->withdraw();
	/* Timekeeping may be suspended: no clock is read. A time that has passed fires at once. */
	if (!(ts->flags & TS_FLAG_STOPPED))
		tick_virtual_arm(ts, ts->virtual_next);
	ts->flags &= ~TS_FLAG_VIRTUAL;
}

void __init tick_virtual_register(const struct tick_virtual_source *source)
{
	tick_virtual_source = source;
	static_branch_enable(&tick_virtual_key);
}
