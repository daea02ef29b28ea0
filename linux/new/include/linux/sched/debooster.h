/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Debooster: what callers of yield_to() have to know of it.
 */
#ifndef _LINUX_SCHED_DEBOOSTER_H
#define _LINUX_SCHED_DEBOOSTER_H

/* Answer of yield_to(): the target is to run on its own CPU, and the caller has kept its. */
#define YIELD_TO_KEPT	2

#endif /* _LINUX_SCHED_DEBOOSTER_H */
