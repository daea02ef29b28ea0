// SPDX-License-Identifier: GPL-2.0-only
/*
 * Threads, their buffers, and the window that keeps one from running far ahead of the others. A
 * thread's slot is given again when the thread has gone; the counts in it run on, so that nothing
 * is reckoned backwards.
 */
#include "threads.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define MAX_THREADS 4096
/* A throttled thread gives up after this many waits: the others may be waiting for it. */
#define MAX_YIELDS 32
#define MAX_SLEEPS 20
#define SLEEP_NS 50000

static struct thread *by_vcpu[MAX_THREADS];
static struct thread *by_slot[MAX_THREADS];
static uint32_t slots; /* slots ever used */
static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;

uint64_t window = DEFAULT_WINDOW;

static void lock_thread(struct thread *t)
{
	while (__atomic_exchange_n(&t->lock, true, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock_thread(struct thread *t)
{
	__atomic_store_n(&t->lock, false, __ATOMIC_RELEASE);
}

struct thread *thread_of(unsigned int vcpu)
{
	return vcpu < MAX_THREADS ? by_vcpu[vcpu] : NULL;
}

/* The caller holds the thread's lock. */
static void flush(struct thread *t)
{
	if (t->buffered)
		stream_send(MSG_ACCESSES, t->slot, t->buffer,
			    t->buffered * (uint32_t)sizeof(t->buffer[0]));
	t->buffered = 0;
}

/* Sends what every thread has gathered. */
void threads_flush(void)
{
	uint32_t count = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++) {
		lock_thread(by_slot[i]);
		flush(by_slot[i]);
		unlock_thread(by_slot[i]);
	}
}

/* Whether the buffer was full and has been sent. */
bool thread_add(struct thread *t, const struct raw_access *access)
{
	bool full;

	lock_thread(t);
	t->buffer[t->buffered++] = *access;
	full = t->buffered == BUFFER_ACCESSES;
	if (full)
		flush(t);
	unlock_thread(t);
	return full;
}

static uint64_t clock_of(const struct thread *t)
{
	return __atomic_load_n(&t->retired.done, __ATOMIC_RELAXED) +
	       __atomic_load_n(&t->skew, __ATOMIC_RELAXED);
}

/* The clock of the slowest running thread but this one; UINT64_MAX if it runs alone. */
static uint64_t slowest_other(const struct thread *self)
{
	uint32_t count = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
	uint64_t slowest = UINT64_MAX;

	for (uint32_t i = 0; i < count; i++) {
		const struct thread *t = by_slot[i];

		if (t == self || !__atomic_load_n(&t->in_use, __ATOMIC_RELAXED) ||
		    __atomic_load_n(&t->in_syscall, __ATOMIC_RELAXED))
			continue;
		if (clock_of(t) < slowest)
			slowest = clock_of(t);
	}
	return slowest;
}

/*
 * Lets the others catch up. Without this the order of a trace is that of the host's time slices,
 * in which threads hardly ever run beside each other when there are more of them than host CPUs.
 */
void thread_throttle(const struct thread *t)
{
	const struct timespec nap = { .tv_nsec = SLEEP_NS };

	for (int i = 0; i < MAX_YIELDS + MAX_SLEEPS; i++) {
		uint64_t slowest = slowest_other(t);

		if (slowest == UINT64_MAX || clock_of(t) <= slowest + window)
			return;
		if (i < MAX_YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
}

void thread_catch_up(struct thread *t)
{
	uint64_t slowest = slowest_other(t), now = clock_of(t);

	if (slowest != UINT64_MAX && now < slowest)
		__atomic_store_n(&t->skew, t->skew + slowest - now, __ATOMIC_RELAXED);
}

void thread_begin(unsigned int vcpu)
{
	uint32_t slot = 0;
	struct thread *t;

	pthread_mutex_lock(&threads_lock);
	while (slot < slots && by_slot[slot]->in_use)
		slot++;
	if (vcpu >= MAX_THREADS || slot >= MAX_THREADS) {
		fprintf(stderr, "qemu-memtrace: more than %d threads at a time\n", MAX_THREADS);
		_exit(1);
	}
	if (slot == slots) {
		by_slot[slot] = calloc(1, sizeof(struct thread));
		if (!by_slot[slot]) {
			fprintf(stderr, "qemu-memtrace: out of memory for a thread's buffer\n");
			_exit(1);
		}
		by_slot[slot]->slot = slot;
		__atomic_store_n(&slots, slot + 1, __ATOMIC_RELEASE);
	}
	t = by_slot[slot];
	/* Until its first instruction it counts as waiting, lest it hold the others back. */
	t->in_syscall = true;
	retired_leave(&t->retired);
	t->last = t->retired.done;
	__atomic_store_n(&t->in_use, true, __ATOMIC_RELEASE);
	by_vcpu[vcpu] = t;
	pthread_mutex_unlock(&threads_lock);
}

void thread_end(struct thread *t)
{
	lock_thread(t);
	flush(t);
	unlock_thread(t);
	__atomic_store_n(&t->in_use, false, __ATOMIC_RELEASE);
}

/* In a forked child, in which whoever held the lock does not exist. */
void threads_in_child(void)
{
	pthread_mutex_init(&threads_lock, NULL);
}
