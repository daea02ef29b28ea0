/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * CPUs this process may use, threads pinned to them from their first
 * instruction, a start gate with a limit, and a small random stream.
 */
#ifndef STEADY_THREADS_H
#define STEADY_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define CPUS_MAX 1024

/* CPUs of the affinity mask, ascending. */
struct cpus {
	unsigned int count;
	unsigned int id[CPUS_MAX];
};

/* Reads the affinity mask; call before pinning. */
void cpus_read(struct cpus *cpus);

/* Pins the calling thread. */
void pin_self(unsigned int cpu);

/* Starts a thread that runs on @cpu from birth, so it never visits another. */
pthread_t start_pinned(unsigned int cpu, void *(*body)(void *), void *argument);

void join(pthread_t thread);

/* Start gate: workers arrive and wait; the opener lets all go at once. */
struct gate {
	pthread_mutex_t mutex;
	pthread_cond_t changed;
	unsigned int arrived;
	bool open;
	uint64_t deadline_ns;
};

/* @deadline_ns: CLOCK_MONOTONIC time at which waiters give up, ending the process. */
void gate_init(struct gate *gate, uint64_t deadline_ns);
void gate_pass(struct gate *gate);
/* Waits until @workers threads have arrived, opens, and says when (ns). */
uint64_t gate_open(struct gate *gate, unsigned int workers);

/* Time, CLOCK_MONOTONIC ns, that lies @limit_ms from now. */
uint64_t deadline_after_ms(uint64_t limit_ms);

/* SplitMix64: tiny, and the same everywhere. State is any seed. */
uint64_t random_next(uint64_t *state);

/* Uniform in [0, bound), up to a bias below 2^-32 for 32-bit bounds. bound > 0. */
uint64_t random_below(uint64_t *state, uint64_t bound);

#endif
