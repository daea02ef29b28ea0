/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Time in nanoseconds. CLOCK_MONOTONIC is the default. A guest without PV
 * clock may run on a clock source that steps by whole ticks (a "nopv" guest
 * whose TSC the kernel distrusts): shootdowns are far shorter than that, so
 * the programs measure the step, report it, and can read the TSC instead,
 * scaled by its rate against CLOCK_MONOTONIC.
 */
#ifndef STEADY_CLOCK_H
#define STEADY_CLOCK_H

#include <stdint.h>

enum clock_kind { CLOCK_KIND_MONOTONIC, CLOCK_KIND_TSC };

/* For OPTION_CHOICE; the order is that of enum clock_kind. */
extern const char *const clock_choices[];

/* Chooses the clock of clock_now_ns(); calibrates the TSC (100 ms) if that is it. */
void clock_choose(enum clock_kind kind);

/* Nanoseconds since an arbitrary start; never runs back on one CPU. */
uint64_t clock_now_ns(void);

/* Always CLOCK_MONOTONIC: for limits and whole runs, whatever clock_choose() said. */
uint64_t clock_monotonic_ns(void);

/* Smallest step seen between two readings of clock_now_ns() that differ. */
uint64_t clock_step_ns(void);

#endif
