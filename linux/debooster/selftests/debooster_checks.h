/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hostile guests, and what they must not get by yields. A check returns the bounds that were
 * broken, and asserts that they were put to the test at all.
 *
 * One vCPU does nothing but ask the host to run another one, by the hypercall for directed yields,
 * as often as it can. KVM passes a yield on only where somebody else waits for the yielder's pCPU,
 * so a thread of low priority does.
 */
#ifndef SELFTEST_KVM_DEBOOSTER_CHECKS_H
#define SELFTEST_KVM_DEBOOSTER_CHECKS_H

#include "debooster.h"

/* Yields that the scheduler must have agreed to in all windows, or the check shows nothing. */
#define LEAST_YIELDS 20
/* Of the hierarchy of groups here, at most. */
#define LEVELS 2

/* Bounds: of the share over all windows and in one, of a target's lead, and of early picks. */
enum { SHARE = 1, WINDOW = 2, LEAD = 4, EARLY = 8 };

/* How the boosted vCPU and its neighbour, of another VM, share the second pCPU. */
struct shape {
	const char *name;
	const char *weights[2];	/* of a group for each of the two; NULL: none */
	int nice;		/* of the boosted vCPU */
	u64 share;		/* what it is due of what the two have, in per cent */
	bool sleeper;		/* a thread that sleeps again and again is in its group */
	bool realtime;		/* a task of a real-time class has a third of the pCPU */
};

static const struct shape shapes[] = {
	{ "one queue", { NULL, NULL }, 0, 50, false, false },
	{ "a weight of a third", { NULL, NULL }, 5, 25, false, false },
	{ "a group each", { "100", "100" }, 0, 50, false, false },
	{ "a group of a third", { "33", "100" }, 0, 25, false, false },
	{ "a group with a sleeper", { "100", "100" }, 0, 50, true, false },
	{ "beside a real-time task", { NULL, NULL }, 0, 50, false, true },
};

#define ONE_QUEUE (&shapes[0])
#define GROUPS (&shapes[2])
#define SLEEPER (&shapes[4])

struct hostile {
	struct kvm_vm *vms[2];
	struct runner yielder, waiting, boosted, neighbour, sleeper, realtime;
};

/* Waits for the yielder's pCPU, and has almost nothing of it. */
static inline void *waiting_thread(void *argument)
{
	TEST_ASSERT(nice(19) == 19, "nice");
	WRITE_ONCE(((struct runner *)argument)->tid, gettid());
	for (;;)
		pthread_testcancel();
	return NULL;
}

static inline void *sleeping_thread(void *argument)
{
	WRITE_ONCE(((struct runner *)argument)->tid, gettid());
	for (;;)
		usleep(300);
	return NULL;
}

static inline void *realtime_thread(void *argument)
{
	static const struct sched_param lowest = { .sched_priority = 1 };
	u64 began;

	TEST_ASSERT(!sched_setscheduler(0, SCHED_FIFO, &lowest), "SCHED_FIFO");
	WRITE_ONCE(((struct runner *)argument)->tid, gettid());
	for (;;) {
		began = clock_ns(CLOCK_THREAD_CPUTIME_ID);
		while (clock_ns(CLOCK_THREAD_CPUTIME_ID) - began < 1000000)
			cpu_relax();
		usleep(2000);
	}
	return NULL;
}

static inline void start_hostile(struct hostile *hostile, const struct shape *shape)
{
	struct runner *sleeper = shape->sleeper ? &hostile->sleeper : NULL;

	hostile->vms[0] = vm_create(2);
	hostile->vms[1] = vm_create(1);
	hostile->yielder.vcpu = vm_vcpu_add(hostile->vms[0], YIELDER_ID, yielder_guest_code);
	hostile->boosted.vcpu = vm_vcpu_add(hostile->vms[0], BOOSTED_ID, counter_guest_code);
	hostile->neighbour.vcpu = vm_vcpu_add(hostile->vms[1], 0, counter_guest_code);
	start_on(&hostile->boosted, 1, vcpu_thread);
	start_on(&hostile->neighbour, 1, vcpu_thread);
	TEST_ASSERT(!setpriority(PRIO_PROCESS, hostile->boosted.tid, shape->nice), "setpriority");
	if (sleeper)
		start_on(sleeper, 1, sleeping_thread);
	if (shape->weights[0]) {
		group("boosted", shape->weights[0], &hostile->boosted, sleeper);
		group("neighbour", shape->weights[1], &hostile->neighbour, NULL);
	}
	if (shape->realtime)
		start_on(&hostile->realtime, 1, realtime_thread);
	start_on(&hostile->waiting, 0, waiting_thread);
	start_on(&hostile->yielder, 0, vcpu_thread);
}

static inline void stop_hostile(struct hostile *hostile, const struct shape *shape)
{
	set_parameter(PARAMETER, "off");
	stop(&hostile->yielder);
	stop(&hostile->waiting);
	stop(&hostile->boosted);
	stop(&hostile->neighbour);
	if (shape->sleeper)
		stop(&hostile->sleeper);
	if (shape->realtime)
		stop(&hostile->realtime);
	kvm_vm_free(hostile->vms[0]);
	kvm_vm_free(hostile->vms[1]);
}

/* What the two have had: the boosted vCPU with the sleeper, and the neighbour. */
static inline void times(const struct hostile *hostile, const struct shape *shape, u64 *ns)
{
	ns[0] = cpu_time_ns(&hostile->boosted);
	ns[1] = cpu_time_ns(&hostile->neighbour);
	if (shape->sleeper)
		ns[0] += cpu_time_ns(&hostile->sleeper);
}

/* The shares from the first yield on: a lead that is built up counts. */
static inline int check_shares(const struct hostile *hostile, const struct shape *shape)
{
	u64 first[2], from[2], to[2], share, most = 0;

	times(hostile, shape, first);
	memcpy(from, first, sizeof(from));
	for (int i = 0; i < WINDOWS; i++) {
		usleep(WINDOW_MS * 1000);
		times(hostile, shape, to);
		most = max(most, percent(to[0] - from[0], to[1] - from[1]));
		memcpy(from, to, sizeof(from));
	}
	share = percent(to[0] - first[0], to[1] - first[1]);
	pr_info("%-24s %lu %% of %lu due, most %lu %% in %d ms;", shape->name, share,
		shape->share, most, WINDOW_MS);
	return (share > shape->share + GAIN_OF_ALL ? SHARE : 0) |
	       (most > shape->share + GAIN_OF_WINDOW ? WINDOW : 0);
}

/*
 * No vCPU has more than its share, no yield is agreed to for a target that is ahead by more than a
 * base slice on any level, and a yield is good for one early pick on each level.
 */
static inline int check_hostile(const struct shape *shape)
{
	struct hostile hostile = {};
	struct traced traced;
	int broken;

	start_hostile(&hostile, shape);
	watch();
	broken = check_shares(&hostile, shape);
	traced = watched();
	pr_info(" %d yields, %d early picks, ahead by %lu ns at most, of a slice of %lu\n",
		traced.yields, traced.early, traced.most, traced.slice);
	TEST_ASSERT(traced.yields >= LEAST_YIELDS, "%d yields", traced.yields);
	TEST_ASSERT(traced.most, "no target was ahead of its queue");
	/* Where a lead is rounded, by a thousandth. */
	if (traced.most > traced.slice + traced.slice / 1000)
		broken |= LEAD;
	if (traced.early > LEVELS * traced.yields)
		broken |= EARLY;
	stop_hostile(&hostile, shape);
	return broken;
}

#endif /* SELFTEST_KVM_DEBOOSTER_CHECKS_H */
