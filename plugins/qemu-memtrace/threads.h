/* SPDX-License-Identifier: GPL-2.0-only */
/* The program's threads: what each has done, and its accesses that are not sent yet. */
#ifndef THREADS_H
#define THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "counting.h"
#include "stream.h"

#define BUFFER_ACCESSES 256
/* Instructions that a thread may run ahead of the slowest running one. */
#define DEFAULT_WINDOW 20000

struct thread {
	bool lock;	  /* guards buffer and count: the owner against threads_flush() */
	bool in_use;
	bool in_syscall;  /* outside the window's reckoning */
	uint32_t slot;
	uint32_t buffered;
	struct retired retired;
	uint64_t last; /* instructions up to the last access */
	uint64_t skew; /* added to retired for the window: catches up after a wait */
	uint64_t call_arg[6];
	struct raw_access buffer[BUFFER_ACCESSES];
};

extern uint64_t window;

void thread_begin(unsigned int vcpu);
void thread_end(struct thread *t);
struct thread *thread_of(unsigned int vcpu);
bool thread_add(struct thread *t, const struct raw_access *access);
void thread_throttle(const struct thread *t);
void thread_catch_up(struct thread *t);
void threads_flush(void);
void threads_in_child(void);

#endif
