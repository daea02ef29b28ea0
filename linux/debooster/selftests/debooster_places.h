/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two vCPUs of a guest that begin on one pCPU, of which one yields to the other without end, and
 * where Debooster may move the latter. Each check returns how often it was moved to where it must
 * not be. Other guests and tasks are processes of their own.
 */
#ifndef SELFTEST_KVM_DEBOOSTER_PLACES_H
#define SELFTEST_KVM_DEBOOSTER_PLACES_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "debooster.h"

/* Until threads are where they were started. */
#define SETTLE_US (WINDOW_MS * 1000)

static inline void *computing_thread(void *unused)
{
	for (;;)
		cpu_relax();
	return NULL;
}

/* A process that computes on a pCPU, or on any of both. */
static inline pid_t start_task(int first, int last, int nice, bool realtime)
{
	static const struct sched_param lowest = { .sched_priority = 1 };
	pid_t pid = fork();

	TEST_ASSERT(pid >= 0, "fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(pthread_self(), first, last);
	TEST_ASSERT(!setpriority(PRIO_PROCESS, 0, nice), "setpriority");
	if (realtime)
		TEST_ASSERT(!sched_setscheduler(0, SCHED_FIFO, &lowest), "SCHED_FIFO");
	computing_thread(NULL);
	return 0;
}

static inline void end(pid_t pid)
{
	kill(pid, SIGKILL);
	TEST_ASSERT(waitpid(pid, NULL, 0) == pid, "waitpid");
}

struct pair {
	struct kvm_vm *vm;
	struct runner yielder, boosted, third;
};

/* The yielder stays on the first pCPU, the boosted vCPU may run on both. */
static inline void start_pair(struct pair *pair, bool third)
{
	pair->vm = vm_create(3);
	pair->yielder.vcpu = vm_vcpu_add(pair->vm, YIELDER_ID, yielder_guest_code);
	pair->boosted.vcpu = vm_vcpu_add(pair->vm, BOOSTED_ID, counter_guest_code);
	pair->third.vcpu = vm_vcpu_add(pair->vm, 2, counter_guest_code);
	start_on(&pair->boosted, 0, vcpu_thread);
	if (third)
		start_on(&pair->third, 1, vcpu_thread);
	start_on(&pair->yielder, 0, vcpu_thread);
	usleep(SETTLE_US);
}

static inline void stop_pair(struct pair *pair, bool third)
{
	set_parameter(PARAMETER, "off");
	stop(&pair->yielder);
	stop(&pair->boosted);
	if (third)
		stop(&pair->third);
	kvm_vm_free(pair->vm);
}

/* Lets the boosted vCPU run on both pCPUs. How often Debooster then moves it to the second. */
static inline int moves(struct pair *pair)
{
	struct traced traced;

	watch();
	pin(pair->boosted.thread, 0, 1);
	usleep(WINDOWS * WINDOW_MS * 1000);
	traced = watched();
	return traced.moves;
}

/* A pair beside other processes' tasks: how often the boosted vCPU is moved to the second pCPU. */
static inline int moves_beside(const char *what, bool third, const pid_t *others, int count)
{
	struct pair pair = {};
	int moved;

	start_pair(&pair, third);
	moved = moves(&pair);
	stop_pair(&pair, third);
	for (int i = 0; i < count; i++)
		end(others[i]);
	pr_info("%s: %d moves\n", what, moved);
	return moved;
}

/* Nothing forbids it where one task of the same weight is. */
static inline int check_allowed(void)
{
	pid_t other = start_task(1, 1, 0, false);

	return !moves_beside("beside a task of its weight", false, &other, 1);
}

static inline int check_poller(void)
{
	pid_t other = start_task(1, 1, 0, true);

	return moves_beside("behind a real-time task that never waits", false, &other, 1);
}

static inline int check_weight(void)
{
	pid_t other = start_task(1, 1, -20, false);

	return moves_beside("beside a task of 86 times its weight", false, &other, 1);
}

/* The first pCPU has three tasks, so that one is to go, and the second a sibling and another. */
static inline int check_sibling(void)
{
	pid_t others[] = { start_task(0, 0, 0, false), start_task(1, 1, 0, false) };

	return moves_beside("beside another vCPU of its guest", true, others, 2);
}

#endif /* SELFTEST_KVM_DEBOOSTER_PLACES_H */
