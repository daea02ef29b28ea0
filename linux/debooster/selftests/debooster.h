/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of Debooster share: a guest that asks for directed yields without end, one that
 * computes, threads for their vCPUs, CPU time, groups, and what the trace has of the yields.
 */
#ifndef SELFTEST_KVM_DEBOOSTER_H
#define SELFTEST_KVM_DEBOOSTER_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include <linux/kvm_para.h>

#include "apic.h"
#include "host_file.h"
#include "kvm_util.h"
#include "processor.h"

#define PARAMETER "/sys/module/sched/parameters/debooster"
#define BASE_SLICE "/sys/kernel/debug/sched/base_slice_ns"
#define CGROUPS "/sys/fs/cgroup/"
#define YIELDER_ID 0
#define BOOSTED_ID 1
#define WINDOW_MS 100
#define WINDOWS 8
/* What two slices of 3 ms and a tick of 4 ms are of all the windows and of one, in per cent. */
#define GAIN_OF_ALL 3
#define GAIN_OF_WINDOW 12

static inline void yielder_guest_code(void)
{
	x2apic_enable();
	for (;;)
		kvm_hypercall(KVM_HC_SCHED_YIELD, BOOSTED_ID, 0, 0, 0);
}

static inline void counter_guest_code(void)
{
	/* Without it the vCPU is in no map of APIC ids, and cannot be named. */
	x2apic_enable();
	for (;;)
		cpu_relax();
}

/* A vCPU, or a thread of the host's without one, that runs on a pCPU. */
struct runner {
	struct kvm_vcpu *vcpu;
	pthread_t thread;
	pid_t tid;
};

static inline void *vcpu_thread(void *argument)
{
	struct runner *runner = argument;
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	WRITE_ONCE(runner->tid, gettid());
	vcpu_run(runner->vcpu);
	TEST_FAIL("a vCPU left: %s", exit_reason_str(runner->vcpu->run->exit_reason));
	return NULL;
}

static inline void pin(pthread_t thread, int first, int last)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int pcpu = first; pcpu <= last; pcpu++)
		CPU_SET(pcpu, &set);
	TEST_ASSERT(!pthread_setaffinity_np(thread, sizeof(set), &set), "pinning to %d", first);
}

/* Starts a thread on a pCPU, and waits until it runs. It has to note its tid. */
static inline void start_on(struct runner *runner, int pcpu, void *(*body)(void *))
{
	runner->tid = 0;
	TEST_ASSERT(!pthread_create(&runner->thread, NULL, body, runner), "pthread_create");
	pin(runner->thread, pcpu, pcpu);
	for (int i = 0; i < 1000 && !READ_ONCE(runner->tid); i++)
		usleep(1000);
	TEST_ASSERT(runner->tid, "a thread does not run");
}

static inline void stop(struct runner *runner)
{
	pthread_cancel(runner->thread);
	pthread_join(runner->thread, NULL);
}

static inline u64 clock_ns(clockid_t clock)
{
	struct timespec time;

	TEST_ASSERT(!clock_gettime(clock, &time), "clock_gettime");
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static inline u64 cpu_time_ns(const struct runner *runner)
{
	clockid_t clock;

	TEST_ASSERT(!pthread_getcpuclockid(runner->thread, &clock), "pthread_getcpuclockid");
	return clock_ns(clock);
}

static inline u64 percent(u64 part, u64 other)
{
	return part * 100 / (part + other);
}

/* Puts threads into a group of their own with this weight, as libvirt makes one for each vCPU. */
static inline void group(const char *name, const char *weight, const struct runner *first,
			 const struct runner *second)
{
	const struct runner *runners[] = { first, second };
	char path[128], tid[16];

	mount("cgroup2", CGROUPS, "cgroup2", 0, NULL);
	set_parameter(CGROUPS "cgroup.subtree_control", "+cpu");
	snprintf(path, sizeof(path), CGROUPS "%s", name);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), CGROUPS "%s/cgroup.type", name);
	try_parameter(path, "threaded");
	snprintf(path, sizeof(path), CGROUPS "%s/cpu.weight", name);
	set_parameter(path, weight);
	snprintf(path, sizeof(path), CGROUPS "%s/cgroup.threads", name);
	for (int i = 0; i < 2; i++) {
		snprintf(tid, sizeof(tid), "%d", runners[i] ? runners[i]->tid : 0);
		if (runners[i])
			set_parameter(path, tid);
	}
}

/* What the trace has. Of the yields those that the scheduler agreed to. */
struct traced {
	u64 slice, most;	/* the base slice, and the most that a target was ahead, in ns */
	int yields, early, moves;	/* moves: to whichever pCPU */
};

static inline void require_debooster(void)
{
	TEST_REQUIRE(sysconf(_SC_NPROCESSORS_ONLN) >= 2);
	__TEST_REQUIRE(try_parameter(PARAMETER, "off"), "this kernel has no " PARAMETER);
	__TEST_REQUIRE(record_events("kvm_debooster"), "this kernel does not trace Debooster");
	TEST_ASSERT(!try_parameter(PARAMETER, "perhaps"), PARAMETER " takes any word");
}

/* Switches Debooster on, and records from its first yield. */
static inline void watch(void)
{
	set_parameter(PARAMETER, "off");
	set_parameter(TRACING "events/kvm_debooster/kvm_debooster_yield/filter", "agreed != 0");
	TEST_ASSERT(record_events("kvm_debooster"), "recording");
	set_parameter(PARAMETER, "on");
}

static inline void look_at_yield(const char *text, void *data)
{
	struct traced *traced = data;
	u64 debt;

	TEST_ASSERT(sscanf(text, " pid %*d to pid %*d on cpu %*d debt %lu agreed 1", &debt) == 1,
		    "an event: %s", text);
	traced->most = max(traced->most, debt);
}

static inline u64 base_slice_ns(void)
{
	FILE *file;
	u64 slice;

	mount("debugfs", "/sys/kernel/debug", "debugfs", 0, NULL);
	file = fopen(BASE_SLICE, "r");
	TEST_ASSERT(file && fscanf(file, "%lu", &slice) == 1, "reading " BASE_SLICE);
	fclose(file);
	return slice;
}

/* What has been recorded since watch(); leaves Debooster on. */
static inline struct traced watched(void)
{
	struct traced traced = {};

	set_parameter(TRACING "tracing_on", "0");
	traced.slice = base_slice_ns();
	traced.yields = read_events("kvm_debooster_yield", look_at_yield, &traced);
	traced.early = read_events("kvm_debooster_early", NULL, NULL);
	traced.moves = read_events("kvm_debooster_apart", NULL, NULL);
	return traced;
}

#endif /* SELFTEST_KVM_DEBOOSTER_H */
