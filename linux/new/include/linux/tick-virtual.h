/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Virtual ticks: the scheduler tick of a CPU comes from a hypervisor instead of from a timer.
 */
#ifndef _LINUX_TICK_VIRTUAL_H
#define _LINUX_TICK_VIRTUAL_H

#include <linux/jump_label.h>
#include <linux/types.h>

/**
 * struct tick_virtual_source - who gives the ticks. All are called with interrupts off, for this
 * CPU
 * @declare: asks for a tick every @period_ns nanoseconds that the CPU runs; false: there are none
 * @declared: whether what was asked for still stands
 * @withdraw: no more ticks are wanted
 */
struct tick_virtual_source {
	bool (*declare)(u32 period_ns);
	bool (*declared)(void);
	void (*withdraw)(void);
};

#ifdef CONFIG_TICK_VIRTUAL
DECLARE_STATIC_KEY_FALSE(tick_virtual_key);

void tick_virtual_register(const struct tick_virtual_source *source);
void tick_virtual_interrupt(void);
void tick_virtual_start(void);
void tick_virtual_stop(void);
bool __tick_virtual_unticked(void);
unsigned long __tick_virtual_periods(void);

/* Whether this CPU has its ticks from the hypervisor, and may have none in idle. */
static inline bool tick_virtual_unticked(void)
{
	return static_branch_unlikely(&tick_virtual_key) && __tick_virtual_unticked();
}

/* Of how many periods the CPU time is accounted with the tick whose work this CPU does. */
static inline unsigned long tick_virtual_periods(void)
{
	return static_branch_unlikely(&tick_virtual_key) ? __tick_virtual_periods() : 1;
}
#else
static inline bool tick_virtual_unticked(void) { return false; }
static inline unsigned long tick_virtual_periods(void) { return 1; }
static inline void tick_virtual_start(void) { }
static inline void tick_virtual_stop(void) { }
#endif

#endif /* _LINUX_TICK_VIRTUAL_H */
