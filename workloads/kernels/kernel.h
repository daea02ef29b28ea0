/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* What the three kernels share: threads over slices, arguments, random numbers, trace markers. */
#ifndef KERNEL_H
#define KERNEL_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define MAX_THREADS 64

/* Recorded by plugins/qemu-memtrace; on any kernel a call that fails with ENOSYS and does nothing. */
#define TRACE_SYSCALL 0x53544459
static inline void trace_start(void) { syscall(TRACE_SYSCALL, 1L, 0L); }
static inline void trace_stop(void) { syscall(TRACE_SYSCALL, 2L, 0L); }

/* The argument at `at`, or `otherwise`; ends the program when it is not a number in range. */
static inline long argument(int argc, char **argv, int at, long otherwise, long low, long high)
{
	char *end = NULL;
	long value = at < argc ? strtol(argv[at], &end, 10) : otherwise;

	if (end && (*end || value < low || value > high)) {
		fprintf(stderr, "%s: argument %d: expected a number from %ld to %ld, found %s\n",
			argv[0], at, low, high, argv[at]);
		exit(2);
	}
	return value;
}

static inline void *allocate(size_t bytes)
{
	void *memory = malloc(bytes);

	if (!memory) {
		fprintf(stderr, "out of memory for %zu bytes\n", bytes);
		exit(2);
	}
	return memory;
}

/* SplitMix64: the same numbers everywhere. */
static inline uint64_t next_random(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

struct slice {
	long from, to;
	int index;
	void (*work)(struct slice *);
};

static inline void *slice_main(void *slice)
{
	((struct slice *)slice)->work(slice);
	return NULL;
}

/* Runs `work` over 0..count, cut into one slice per thread, and waits for all. */
static inline void in_parallel(int threads, long count, void (*work)(struct slice *))
{
	pthread_t ids[MAX_THREADS];
	struct slice slices[MAX_THREADS];

	for (int i = 0; i < threads; i++) {
		slices[i] = (struct slice){ count * i / threads, count * (i + 1) / threads, i, work };
		if (pthread_create(&ids[i], NULL, slice_main, &slices[i]) != 0) {
			fprintf(stderr, "cannot start thread %d of %d\n", i + 1, threads);
			exit(2);
		}
	}
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
}

#endif
