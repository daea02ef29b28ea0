/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of the Shoot4U hypercall share: a vCPU that calls what the host asks for,
 * statistics of a vCPU, and the module parameter.
 */
#ifndef SELFTEST_KVM_SHOOT4U_H
#define SELFTEST_KVM_SHOOT4U_H

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include <asm/kvm_para.h>
#include <asm/kvm_shoot4u.h>
#include <linux/kvm_para.h>

#include "host_file.h"
#include "test_util.h"
#include "kvm_util.h"
#include "processor.h"

#define X86_FEATURE_KVM_SHOOT4U \
	KVM_X86_CPU_FEATURE(0x40000001, 0, EAX, KVM_FEATURE_SHOOT4U)
#define SHOOT4U_PARAMETER "/sys/module/kvm/parameters/shoot4u"
#define SHOOT4U_FAST_US "/sys/module/kvm/parameters/shoot4u_fast_us"

/* The APIC ids are those of the vCPUs; the second and third are beyond one 64-bit word. */
#define CALLER_ID 0
#define TARGET_ID 65
#define OTHER_ID 130

#define RECORD_BYTES(words) (sizeof(struct kvm_shoot4u_call) + (words) * sizeof(u64))

/* What a calling vCPU reads its next hypercall from; in memory of the guest. */
struct request {
	u64 nr, a0, a1, a2, a3;
	s64 ret;
};

/* One hypercall for each run of the vCPU. */
static inline void caller_guest_code(struct request *request)
{
	for (;;) {
		request->ret = kvm_hypercall(request->nr, request->a0, request->a1, request->a2,
					     request->a3);
		GUEST_SYNC(0);
	}
}

/* Runs a vCPU to its next GUEST_SYNC; its argument. */
static inline u64 run_to_sync(struct kvm_vcpu *vcpu)
{
	struct ucall uc;

	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	switch (get_ucall(vcpu, &uc)) {
	case UCALL_SYNC:
		return uc.args[1];
	case UCALL_ABORT:
		REPORT_GUEST_ASSERT(uc);
	default:
		TEST_FAIL("vCPU %u: unexpected ucall %lu", vcpu->id, uc.cmd);
	}
	return 0;
}

static inline bool try_mode(const char *mode)
{
	return try_parameter(SHOOT4U_PARAMETER, mode);
}

static inline void set_mode(const char *mode)
{
	TEST_ASSERT(try_mode(mode), "writing %s to " SHOOT4U_PARAMETER, mode);
}

/* A statistic of a vCPU; one that does not exist is a failure. */
static inline u64 vcpu_stat(struct kvm_vcpu *vcpu, const char *name)
{
	struct kvm_stats_header header;
	struct kvm_stats_desc *all, *desc;
	int fd = vcpu_get_stats_fd(vcpu);
	bool found = false;
	u64 value = 0;

	read_stats_header(fd, &header);
	all = read_stats_descriptors(fd, &header);
	for (u32 i = 0; i < header.num_desc && !found; i++) {
		desc = get_stats_descriptor(all, i, &header);
		found = !strcmp(desc->name, name);
		if (found)
			read_stat_data(fd, &header, desc, &value, 1);
	}
	free(all);
	close(fd);
	TEST_ASSERT(found, "the vCPU has no statistic %s", name);
	return value;
}

static inline double seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec / 1e9;
}

static inline void pin(pthread_t thread, int pcpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(pcpu, &set);
	TEST_ASSERT(!pthread_setaffinity_np(thread, sizeof(set), &set), "pinning to %d", pcpu);
}

static inline void unpin(void)
{
	cpu_set_t set;

	memset(&set, 0xff, sizeof(set));
	TEST_ASSERT(!sched_setaffinity(0, sizeof(set), &set), "sched_setaffinity");
}

/*
 * Runs a vCPU with a signal pending: KVM serves its requests, and leaves before the guest is
 * entered.
 */
static inline void run_without_entry(struct kvm_vcpu *vcpu)
{
	struct {
		struct kvm_signal_mask mask;
		u8 none[8];
	} none = { .mask.len = sizeof(none.none) };
	sigset_t usr1;

	sigemptyset(&usr1);
	sigaddset(&usr1, SIGUSR1);
	TEST_ASSERT(!pthread_sigmask(SIG_BLOCK, &usr1, NULL), "pthread_sigmask");
	TEST_ASSERT(!pthread_kill(pthread_self(), SIGUSR1), "pthread_kill");
	vcpu_ioctl(vcpu, KVM_SET_SIGNAL_MASK, &none.mask);
	TEST_ASSERT(__vcpu_run(vcpu) == -1 && errno == EINTR, "KVM_RUN with a signal pending");
	TEST_ASSERT(!ioctl(vcpu->fd, KVM_SET_SIGNAL_MASK, NULL), "KVM_SET_SIGNAL_MASK");
	TEST_ASSERT(sigwaitinfo(&usr1, NULL) == SIGUSR1, "sigwaitinfo");
}

/* Begins to record Shoot4U's trace events again; false without tracefs. */
static inline bool try_events(void)
{
	return record_events("kvm_shoot4u");
}

/* How many recorded events have both texts in their line. */
static inline int count_events(const char *first, const char *second)
{
	FILE *trace = fopen(TRACING "trace", "r");
	char line[512];
	int count = 0;

	TEST_ASSERT(trace, "opening " TRACING "trace");
	while (fgets(line, sizeof(line), trace))
		count += strstr(line, first) && strstr(line, second);
	fclose(trace);
	return count;
}

static inline void *vcpu_thread_body(void *data)
{
	struct kvm_vcpu *vcpu = data;
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	vcpu_run(vcpu);
	pr_info("vCPU %u left: %s\n", vcpu->id, exit_reason_str(vcpu->run->exit_reason));
	return NULL;
}

/* Runs a vCPU that never exits to userspace, until stop_thread(). */
static inline pthread_t start_thread(void *(*body)(void *), void *argument)
{
	pthread_t thread;
	int r = pthread_create(&thread, NULL, body, argument);

	TEST_ASSERT(!r, "pthread_create: %d", r);
	return thread;
}

static inline void stop_thread(pthread_t thread)
{
	void *left;

	TEST_ASSERT(!pthread_cancel(thread), "pthread_cancel");
	TEST_ASSERT(!pthread_join(thread, &left), "pthread_join");
	TEST_ASSERT(left == PTHREAD_CANCELED, "a vCPU stopped by itself");
}

#endif /* SELFTEST_KVM_SHOOT4U_H */
