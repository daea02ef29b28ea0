/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * How long what waits for jiffies takes: timeouts of recv(), which are timers
 * of the kernel's timer wheel, and grace periods of its RCU.
 */
#ifndef STEADY_WHEEL_H
#define STEADY_WHEEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "threads.h"

/*
 * Starts a thread at @gate, on @cpu, that does so until @stop: it lets recv()
 * time out after @receive_us (0: never), and waits for a grace period if @grace.
 */
void wheel_start(unsigned int cpu, uint64_t receive_us, bool grace, struct gate *gate,
		 const atomic_bool *stop);

/* Behind @stop: waits for the thread, and reports how long both took. */
void wheel_report(void);

#endif
