/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of Debooster share: a guest that asks for directed yields without end, one that
 * computes, threads for their vCPUs, how much CPU time each has, and the trace.
 */
#ifndef SELFTEST_KVM_DEBOOSTER_H
#define SELFTEST_KVM_DEBOOSTER_H

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include <linux/kvm_para.h>

#include "apic.h"
#include "test_util.h"
#include "kvm_util.h"
#include "processor.h"

#define PARAMETER "/sys/module/sched/parameters/debooster"
#define YIELDER_ID 0
#define BOOSTED_ID 1
#define WINDOW_MS 100
#define WINDOWS 8
/* Half, and what two slices of 3 ms and a tick of 4 ms are of all the windows and of one. */
#define MOST_OF_ALL 53
#define MOST_OF_WINDOW 62

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

static inline void *vcpu_thread(void *vcpu)
{
	struct kvm_vcpu *running = vcpu;
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	vcpu_run(running);
	TEST_FAIL("a vCPU left: %s", exit_reason_str(running->run->exit_reason));
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

static inline pthread_t start_on(int pcpu, void *(*body)(void *), void *argument)
{
	pthread_t thread;

	TEST_ASSERT(!pthread_create(&thread, NULL, body, argument), "pthread_create");
	pin(thread, pcpu, pcpu);
	return thread;
}

static inline void stop(pthread_t thread)
{
	void *left;

	pthread_cancel(thread);
	pthread_join(thread, &left);
}

static inline u64 cpu_time_ns(pthread_t thread)
{
	struct timespec time;
	clockid_t clock;

	TEST_ASSERT(!pthread_getcpuclockid(thread, &clock), "pthread_getcpuclockid");
	TEST_ASSERT(!clock_gettime(clock, &time), "clock_gettime");
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static inline u64 percent(u64 part, u64 other)
{
	return part * 100 / (part + other);
}

static inline void set_mode(const char *name)
{
	int fd = open(PARAMETER, O_WRONLY);

	__TEST_REQUIRE(fd >= 0, "this kernel has no " PARAMETER);
	TEST_ASSERT(write(fd, name, strlen(name)) == (ssize_t)strlen(name), "writing %s to "
		    PARAMETER, name);
	close(fd);
}

#define TRACING "/sys/kernel/tracing/"

/* Records the trace events of Debooster from now on. */
static inline void record(void)
{
	int fd;

	mount("tracefs", TRACING, "tracefs", 0, NULL);
	close(open(TRACING "trace", O_WRONLY | O_TRUNC));
	fd = open(TRACING "events/kvm_debooster/enable", O_WRONLY);
	__TEST_REQUIRE(fd >= 0, "this kernel does not trace Debooster");
	TEST_ASSERT(write(fd, "1", 1) == 1, "switching the trace on");
	close(fd);
}

/* Calls @look for what each recorded event of this name says, and returns how many there are. */
static inline int read_events(const char *name, void (*look)(const char *text, void *data),
			      void *data)
{
	FILE *trace = fopen(TRACING "trace", "r");
	char line[512], *text;
	int count = 0;

	TEST_ASSERT(trace, "opening " TRACING "trace");
	while (fgets(line, sizeof(line), trace)) {
		text = strstr(line, name);
		if (!text || text[strlen(name)] != ':')
			continue;
		look(text + strlen(name) + 1, data);
		count++;
	}
	fclose(trace);
	return count;
}

#endif /* SELFTEST_KVM_DEBOOSTER_H */
