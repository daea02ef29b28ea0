/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two vCPUs of a guest that are on one pCPU, of which one yields to the other without end, and
 * where Debooster may move the latter. Other guests and tasks are processes of their own. A check
 * returns 0 if all was as it has to be.
 */
#ifndef SELFTEST_KVM_DEBOOSTER_PLACES_H
#define SELFTEST_KVM_DEBOOSTER_PLACES_H

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "debooster.h"

/* Until threads are where they were started. */
#define SETTLE_US (WINDOW_MS * 1000)
/* How long a move is waited for that has to come, and one that must not; most come at once. */
#define MOVE_MS 400
#define NO_MOVE_MS 60
#define TRIES 5
/* Of a queue, Debooster looks at the eight tasks that ran last. */
#define LOOKED_AT 8
/* The longest slice that a task may ask for, and one after which others have their turn soon. */
#define LONG_SLICE_NS 100000000
#define SHORT_SLICE_NS 3000000
/* One after which Debooster tries again at once. */
#define TINY_SLICE_NS 100000

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

static inline void start_tasks(pid_t *pids, int count, int pcpu)
{
	for (int i = 0; i < count; i++)
		pids[i] = start_task(pcpu, pcpu, 0, false);
}

static inline void end(pid_t pid)
{
	kill(pid, SIGKILL);
	TEST_ASSERT(waitpid(pid, NULL, 0) == pid, "waitpid");
}

/* Ends all at once: one of low priority has to have its turn to end. */
static inline void end_tasks(const pid_t *pids, int count)
{
	for (int i = 0; i < count; i++)
		kill(pids[i], SIGKILL);
	for (int i = 0; i < count; i++)
		end(pids[i]);
}

/* Has a task of another process run on these pCPUs alone. */
static inline void allow(pid_t pid, int first, int last)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int pcpu = first; pcpu <= last; pcpu++)
		CPU_SET(pcpu, &set);
	TEST_ASSERT(!sched_setaffinity(pid, sizeof(set), &set), "moving %d to %d", pid, first);
}

/* The pCPU on which a task runs, or ran last. */
static inline int place(pid_t tid)
{
	char path[64], stat[1024], *field;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/stat", tid);
	file = fopen(path, "r");
	TEST_ASSERT(file && fgets(stat, sizeof(stat), file), "reading %s", path);
	fclose(file);
	/* Behind the name, which ends with the last bracket, comes field 3; field 39 is it. */
	field = strrchr(stat, ')') + 1;
	for (int i = 3; i < 39; i++)
		field = strchr(field + 1, ' ');
	return atoi(field);
}

/* Gives a fair task a slice of its own, whatever the base slice is. */
static inline void set_slice(pid_t tid, int nice, u64 ns)
{
	struct {
		u32 size, policy;
		u64 flags;
		s32 nice;
		u32 priority;
		u64 runtime, deadline, period;
	} attr = { .size = sizeof(attr), .nice = nice, .runtime = ns };

	TEST_ASSERT(!syscall(__NR_sched_setattr, tid, &attr, 0), "sched_setattr");
}

static inline void set_base_slice(u64 ns)
{
	char text[24];

	snprintf(text, sizeof(text), "%lu", ns);
	set_parameter(BASE_SLICE, text);
}

/*
 * Of a real-time class this thread is not in the way of fair tasks while it sleeps, and is not kept
 * waiting by many. What it starts is not of that class.
 */
static inline void hasten(bool on)
{
	const struct sched_param param = { .sched_priority = on ? 2 : 0 };

	pin(pthread_self(), on ? 1 : 0, 1);
	TEST_ASSERT(!sched_setscheduler(0, on ? SCHED_FIFO | SCHED_RESET_ON_FORK : SCHED_OTHER,
					&param), "sched_setscheduler");
}

static struct {
	struct kvm_vm *vm;
	void *code;
	struct runner yielder, boosted, third;
} pair;

static inline void stop_pair(void)
{
	stop(&pair.yielder);
	stop(&pair.boosted);
	kvm_vm_free(pair.vm);
	pair.vm = NULL;
}

/* The two that checks have, on the first pCPU; each check leaves them there. */
static inline void need_pair_with(void *code)
{
	if (pair.vm && pair.code == code)
		return;
	if (pair.vm)
		stop_pair();
	pair.code = code;
	pair.vm = vm_create(3);
	pair.yielder.vcpu = vm_vcpu_add(pair.vm, YIELDER_ID, yielder_guest_code);
	pair.boosted.vcpu = vm_vcpu_add(pair.vm, BOOSTED_ID, code);
	pair.third.vcpu = vm_vcpu_add(pair.vm, 2, code);
	start_on(&pair.boosted, 0, vcpu_thread);
	usleep(SETTLE_US / 2);
	start_on(&pair.yielder, 0, vcpu_thread);
}

static inline void need_pair(void)
{
	need_pair_with(counter_guest_code);
}

static inline void put_pair(int pcpu)
{
	pin(pair.boosted.thread, pcpu, pcpu);
	pin(pair.yielder.thread, pcpu, pcpu);
}

/* Records moves from now on, and nothing else. */
static inline void record_moves(void)
{
	set_parameter(TRACING "events/kvm_debooster/enable", "0");
	TEST_ASSERT(record_events("kvm_debooster/kvm_debooster_apart"), "recording");
}

static inline int moves_until_now(void)
{
	return read_events("kvm_debooster_apart", NULL, NULL);
}

static inline void look_at_exchange(const char *text, void *data)
{
	int other;

	TEST_ASSERT(sscanf(text, " pid %*d from cpu %*d for pid %d", &other) == 1, "an event: %s",
		    text);
	*(int *)data += !!other;
}

/* How often a task has been moved as soon as it was, or when the time is over. */
static inline int moves_within(int ms)
{
	int moved = 0;

	for (int i = 0; i < 20 && !moved; i++) {
		usleep(ms * 50);
		moved = moves_until_now();
	}
	return moved;
}

/* How often the boosted vCPU is moved once it, and one that may come for it, run on both pCPUs. */
static inline int moves(pid_t other, int ms)
{
	record_moves();
	set_parameter(PARAMETER, "on");
	if (other)
		allow(other, 0, 1);
	pin(pair.boosted.thread, 0, 1);
	return moves_within(ms);
}

/* The same; how often it is moved in exchange for another. */
static inline int exchanges(pid_t other, int ms)
{
	int count = 0;

	moves(other, ms);
	read_events("kvm_debooster_apart", look_at_exchange, &count);
	return count;
}

static inline int leave(const char *what, const pid_t *others, int count, int broken)
{
	set_parameter(PARAMETER, "off");
	put_pair(0);
	end_tasks(others, count);
	pr_info("%s: %d\n", what, broken);
	return broken;
}

/* A pair beside other processes' tasks: how often the boosted vCPU is moved to the second pCPU. */
static inline int moves_beside(const char *what, const pid_t *others, int count)
{
	need_pair();
	usleep(SETTLE_US / 2);
	return leave(what, others, count, moves(0, NO_MOVE_MS));
}

/* Nothing forbids it where one task of the same weight is. */
static inline int check_allowed(void)
{
	pid_t other = start_task(1, 1, 0, false);

	need_pair();
	usleep(SETTLE_US / 2);
	return leave("beside a task of its weight", &other, 1, !moves(0, MOVE_MS));
}

static inline int check_poller(void)
{
	pid_t other = start_task(1, 1, 0, true);

	return moves_beside("behind a real-time task that never waits", &other, 1);
}

static inline int check_weight(void)
{
	pid_t other = start_task(1, 1, -20, false);

	return moves_beside("beside a task of 86 times its weight", &other, 1);
}

/* The first pCPU has three tasks, so that one is to go, and the second a sibling and another. */
static inline int check_sibling(void)
{
	pid_t others[] = { start_task(0, 0, 0, false), start_task(1, 1, 0, false) };
	int broken;

	need_pair();
	start_on(&pair.third, 1, vcpu_thread);
	broken = moves_beside("beside another vCPU of its guest", others, 2);
	stop(&pair.third);
	return broken;
}

/* Either pCPU has two tasks: no third comes where none may leave for it. */
static inline int check_fuller(void)
{
	pid_t others[] = { start_task(1, 1, -5, false), start_task(1, 1, -5, false) };

	return moves_beside("in exchange for nothing", others, 2);
}

/*
 * Two tasks are on either pCPU. While Debooster is off nothing moves. Once it is on, one comes in
 * exchange, unless a third one of the kernel's is on the first pCPU just then.
 */
static inline int check_exchange(void)
{
	enum { OFF = 1, NONE = 2, ALONE = 4 };
	int broken, count = 0;
	pid_t others[2];

	start_tasks(others, 2, 1);
	need_pair();
	usleep(SETTLE_US / 2);
	allow(others[0], 0, 1);
	record_moves();
	pin(pair.boosted.thread, 0, 1);
	broken = moves_within(NO_MOVE_MS / 2) ? OFF : 0;
	for (int i = 0; i < TRIES && !count; i++) {
		pin(pair.boosted.thread, 0, 0);
		allow(others[0], 1, 1);
		count = exchanges(others[0], NO_MOVE_MS);
	}
	if (!count)
		broken |= NONE;
	if (place(others[0]) != 0)
		broken |= ALONE;
	return leave("in exchange for one of its weight", others, 2, broken);
}

/*
 * A task that would come in exchange would come to a pCPU with half as much weight again as its
 * own. Once the load balancer has moved one, the boosted vCPU may go without an exchange.
 */
static inline int check_heavier(void)
{
	pid_t others[] = {
		start_task(0, 0, -4, false), start_task(1, 1, 0, false),
		start_task(1, 1, 0, false), start_task(1, 1, 0, false),
	};
	int broken = 0;

	need_pair();
	usleep(SETTLE_US / 2);
	for (int i = 0; i < TRIES && !broken; i++) {
		pin(pair.boosted.thread, 0, 0);
		allow(others[1], 1, 1);
		broken = exchanges(others[1], NO_MOVE_MS);
	}
	return leave("in exchange for one that loses by it", others, 4, broken);
}

/*
 * Long queues, with two tasks of the second pCPU that rarely run. One of them might come in
 * exchange, but Debooster does not look that far, and the others must not. The other one is a
 * sibling that does not forbid the move, once others may come.
 */
static inline int check_long_queues(void)
{
	enum { FOUND = 1, FORBIDDEN = 2 };
	pid_t here[LOOKED_AT], there[LOOKED_AT + 2];
	int broken = 0;

	need_pair();
	there[0] = start_task(1, 1, 19, false);
	start_on(&pair.third, 1, vcpu_thread);
	set_slice(pair.third.tid, 19, LONG_SLICE_NS);
	set_slice(there[0], 19, LONG_SLICE_NS);
	usleep(SETTLE_US / 4);
	start_tasks(here, LOOKED_AT, 0);
	start_tasks(there + 1, LOOKED_AT + 1, 1);
	for (int i = 0; i < 2 && !broken; i++) {
		pin(pair.boosted.thread, 0, 0);
		allow(there[0], 1, 1);
		allow(there[0], 0, 1);
		/* Who is given other pCPUs is at the head of its queue, until others have run. */
		usleep(SETTLE_US);
		broken = exchanges(0, NO_MOVE_MS) ? FOUND : 0;
	}
	pin(pair.boosted.thread, 0, 0);
	allow(there[0], 1, 1);
	allow(there[1], 0, 1);
	if (!moves(there[2], MOVE_MS))
		broken |= FORBIDDEN;
	end_tasks(here, LOOKED_AT);
	leave("to and from a long queue", there, LOOKED_AT + 2, broken);
	stop(&pair.third);
	return broken;
}

/*
 * A pCPU takes part once in a base slice, which is long here. One from which the boosted vCPU could
 * not go is not searched again. It receives nothing either, when the pair has come to the other.
 */
static inline int check_settled(void)
{
	enum { AGAIN = 1, RECEIVED = 2, NEVER = 4 };
	const u64 slice = base_slice_ns(), long_slice = MOVE_MS * 1000000ULL;
	pid_t others[2];
	u64 began, took;
	int broken;

	start_tasks(others, 2, 0);
	need_pair();
	put_pair(1);
	set_slice(pair.yielder.tid, 0, SHORT_SLICE_NS);
	set_slice(pair.boosted.tid, 0, SHORT_SLICE_NS);
	for (int i = 0; i < 2; i++)
		set_slice(others[i], 0, SHORT_SLICE_NS);
	usleep(MOVE_MS * 1000);
	set_base_slice(long_slice);
	began = clock_ns(CLOCK_MONOTONIC);
	moves(0, NO_MOVE_MS / 4);
	allow(others[0], 0, 1);
	broken = moves_within(NO_MOVE_MS / 2) ? AGAIN : 0;
	put_pair(0);
	allow(others[1], 1, 1);
	allow(others[0], 1, 1);
	record_moves();
	allow(others[0], 0, 1);
	pin(pair.boosted.thread, 0, 1);
	if (moves_within(NO_MOVE_MS / 2))
		broken |= RECEIVED;
	took = clock_ns(CLOCK_MONOTONIC) - began;
	set_base_slice(slice);
	if (took > long_slice) {
		pr_info("the host took %lu ns, which shows nothing\n", took);
		broken = 0;
	}
	if (!broken && !moves_within(MOVE_MS))
		broken |= NEVER;
	set_slice(pair.yielder.tid, 0, 0);
	set_slice(pair.boosted.tid, 0, 0);
	return leave("twice in a base slice", others, 2, broken);
}

#endif /* SELFTEST_KVM_DEBOOSTER_PLACES_H */
