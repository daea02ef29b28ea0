/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Threads that compute, bound to no CPU: what a scheduler gives them beside
 * threads that are bound, and sleep.
 */
#ifndef STEADY_ROAMERS_H
#define STEADY_ROAMERS_H

#include <stdatomic.h>
#include <stdint.h>

#include "threads.h"

#define ROAMERS_MAX 64

/* Starts @count of them at @gate, to compute until @stop. */
void roamers_start(uint64_t count, struct gate *gate, const atomic_bool *stop);

/* Behind @stop: the steps of all, from the gate on. */
uint64_t roamers_join(void);

#endif
