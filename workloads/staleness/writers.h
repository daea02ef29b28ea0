/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Threads that store into slots all the time, whatever becomes of the slots. */
#ifndef STEADY_STALENESS_WRITERS_H
#define STEADY_STALENESS_WRITERS_H

#include <pthread.h>
#include <setjmp.h>
#include <sys/types.h>

#include "staleness/slots.h"

struct gate;

struct writer {
	sigjmp_buf retry;
	pthread_t thread;
	_Atomic pid_t task;
	unsigned int index;
	uint64_t stream, sequence, writes, faults, answers;
	uint64_t answered[SLOTS];
};

extern struct writer writers[WRITERS_MAX];
/* The slot that each of @hot_count revokers is about to take away. */
extern atomic_uint hot[REVOKERS_MAX];
extern unsigned int hot_count;
extern atomic_bool writers_stop;

/* Makes faults in slots end the store that met them. */
void catch_faults(void);

/* Starts writer @index on @cpu; it passes @gate first. */
void start_writer(unsigned int index, unsigned int cpu, uint64_t seed, struct gate *gate);

#endif
