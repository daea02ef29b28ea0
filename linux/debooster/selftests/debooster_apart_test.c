// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two vCPUs of a guest on one pCPU, and two of another on a second. Each may run on both. A guest
 * yields without end to the vCPU that it shares a pCPU with: sched.debooster=apart has to separate
 * the two, and the guest must not gain by it. The other guest is in a process of its own.
 *
 * Then a task of a real-time class that never waits has the second pCPU: nobody may be moved there.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "debooster.h"

/* Windows at whose end the two may be together: they are parted at a yield, and not before. */
#define MOST_TOGETHER 1
/* Until threads are where they were started. */
#define SETTLE_US (WINDOW_MS * 1000)
/* Windows at whose end the two are together with "nudge", or the test shows nothing. */
#define LEAST_TOGETHER 2

struct vcpu {
	struct kvm_vcpu *vcpu;
	pthread_t thread;
	pid_t tid;
};

static struct vcpu pair[2];

static void *noted_thread(void *argument)
{
	struct vcpu *vcpu = argument;

	WRITE_ONCE(vcpu->tid, gettid());
	return vcpu_thread(vcpu->vcpu);
}

static void pin_pair(int first, int last)
{
	for (int i = 0; i < 2; i++)
		pin(pair[i].thread, first, last);
}

/* Has two vCPUs run, beginning on one pCPU. */
static void start_pair(int pcpu, void *first, void *second)
{
	struct kvm_vm *vm = vm_create(2);

	pair[0].vcpu = vm_vcpu_add(vm, YIELDER_ID, first);
	pair[1].vcpu = vm_vcpu_add(vm, BOOSTED_ID, second);
	for (int i = 0; i < 2; i++)
		pair[i].thread = start_on(pcpu, noted_thread, &pair[i]);
	usleep(SETTLE_US);
	pin_pair(0, 1);
}

static pid_t start_other(void)
{
	pid_t pid = fork();

	TEST_ASSERT(pid >= 0, "fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start_pair(1, counter_guest_code, counter_guest_code);
	for (;;)
		pause();
}

/* A process that never waits, in a real-time class, on the second pCPU. */
static pid_t start_poller(void)
{
	static const struct sched_param lowest = { .sched_priority = 1 };
	pid_t pid = fork();

	TEST_ASSERT(pid >= 0, "fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	pin(pthread_self(), 1, 1);
	TEST_ASSERT(!sched_setscheduler(0, SCHED_FIFO, &lowest), "SCHED_FIFO");
	for (;;)
		cpu_relax();
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	TEST_ASSERT(waitpid(pid, NULL, 0) == pid, "waitpid");
}

/* Counts moves to the second pCPU. */
static void count_move(const char *text, void *data)
{
	int *count = data, to;

	TEST_ASSERT(sscanf(text, " pid %*d from cpu %*d for pid %*d from cpu %d", &to) == 1,
		    "an event: %s", text);
	*count += to == 1;
}

static void must_not_move_behind_a_poller(void)
{
	pid_t poller;
	int moves = 0;

	pin_pair(0, 0);
	usleep(SETTLE_US);
	poller = start_poller();
	usleep(SETTLE_US);
	record();
	pin_pair(0, 1);
	usleep(WINDOWS * WINDOW_MS * 1000);
	read_events("kvm_debooster_apart", count_move, &moves);
	pr_info("behind a real-time task that never waits: %d moves\n", moves);
	end(poller);
	TEST_ASSERT(!moves, "a vCPU was put behind a real-time task");
}

/* The pCPU on which a thread runs, or ran last. */
static int place(const struct vcpu *vcpu)
{
	char path[64], stat[1024], *field;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", READ_ONCE(vcpu->tid));
	file = fopen(path, "r");
	TEST_ASSERT(file && fgets(stat, sizeof(stat), file), "reading %s", path);
	fclose(file);
	/* Behind the name, which ends with the last bracket, comes field 3; field 39 is it. */
	field = strrchr(stat, ')') + 1;
	for (int i = 3; i < 39; i++)
		field = strchr(field + 1, ' ');
	return atoi(field);
}

static u64 process_time_ns(pid_t pid)
{
	struct timespec time;
	clockid_t clock;

	TEST_ASSERT(!clock_getcpuclockid(pid, &clock), "clock_getcpuclockid");
	TEST_ASSERT(!clock_gettime(clock, &time), "clock_gettime");
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

/* Counts at how many ends of windows the pair is together; checks its share. */
static int windows_together(const char *mode, pid_t other)
{
	u64 first[2], from[2], to[2], share, most = 0;
	int together = 0;

	from[0] = process_time_ns(0);
	from[1] = process_time_ns(other);
	memcpy(first, from, sizeof(from));
	for (int i = 0; i < WINDOWS; i++) {
		usleep(WINDOW_MS * 1000);
		to[0] = process_time_ns(0);
		to[1] = process_time_ns(other);
		together += place(&pair[0]) == place(&pair[1]);
		share = percent(to[0] - from[0], to[1] - from[1]);
		most = max(most, share);
		memcpy(from, to, sizeof(from));
	}
	share = percent(to[0] - first[0], to[1] - first[1]);
	pr_info("%-6s together at the end of %d of %d windows; has %lu %%, most %lu %% in %d ms\n",
		mode, together, WINDOWS, share, most, WINDOW_MS);
	TEST_ASSERT(share <= MOST_OF_ALL, "%s: %lu %%", mode, share);
	TEST_ASSERT(most <= MOST_OF_WINDOW, "%s: %lu %% in a window", mode, most);
	return together;
}

int main(int argc, char *argv[])
{
	int together, moves = 0;
	pid_t other;

	TEST_REQUIRE(sysconf(_SC_NPROCESSORS_ONLN) >= 2);
	set_mode("nudge");
	other = start_other();
	start_pair(0, yielder_guest_code, counter_guest_code);
	together = windows_together("nudge", other);
	TEST_ASSERT(together >= LEAST_TOGETHER, "not together to begin with");

	record();
	set_mode("apart");
	usleep(SETTLE_US);
	together = windows_together("apart", other);
	read_events("kvm_debooster_apart", count_move, &moves);
	end(other);
	TEST_ASSERT(together <= MOST_TOGETHER, "not put apart");
	TEST_ASSERT(moves, "put apart by somebody else");

	must_not_move_behind_a_poller();
	set_mode("off");
	return 0;
}
