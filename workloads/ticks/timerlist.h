/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What the kernel knows of the scheduler ticks of its CPUs: /proc/timer_list,
 * which root can read. A kernel that programs its ticks itself does not count
 * them; one that has them from a hypervisor does.
 */
#ifndef STEADY_TIMERLIST_H
#define STEADY_TIMERLIST_H

#include <stdbool.h>
#include <stdint.h>

#include "threads.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/*
 * One CPU. Ticks that came from a hypervisor and were handled while it ran;
 * those that came in idle; how many interrupts for a tick the hypervisor sent,
 * and how many found the work of a tick just done. A sleep counts when it is over.
 */
struct cpu_ticks {
	bool online, virtual;
	uint64_t idle_ns, handled, in_idle, seen, early;
};

/* At one moment. */
struct timerlist {
	uint64_t at_ns, jiffies;
	unsigned int cpus; /* on-line; 0: /proc/timer_list cannot be read */
	struct cpu_ticks cpu[CPUS_MAX];
};

/* What passed between two moments, on one CPU or summed over more. */
struct ticks_passed {
	uint64_t awake_ns;
	uint64_t handled, in_idle, seen, early;
};

/* Says why if it cannot, and ends the process if the kernel has no nohz. */
void timerlist_read(struct timerlist *list);

/* Adds what @cpu did from @before to @after; both must know it. */
void ticks_add(struct ticks_passed *sum, const struct timerlist *before,
	       const struct timerlist *after, unsigned int cpu);

/* Which of the rates that Linux can be built with on x86 gives about @jiffies in @length_ns. */
uint64_t ticks_rate(uint64_t jiffies, uint64_t length_ns);

/* The number of ticks that should come in that time. */
uint64_t ticks_expected(uint64_t time_ns, uint64_t hz);

/* How far @a is from @b, in millionths of @b, which is not 0. */
uint64_t ticks_off_ppm(uint64_t a, uint64_t b);

uint64_t ticks_difference(uint64_t a, uint64_t b);

#endif
