// SPDX-License-Identifier: GPL-2.0-only
/*
 * A hostile guest: one of its vCPUs does nothing but ask the host to run another one, by the
 * hypercall for directed yields, as often as it can. The other shares its pCPU with a vCPU of a
 * second VM, which must keep its half whatever sched.debooster is, but for what "credit" is known
 * to give away.
 */
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
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

struct mode {
	const char *name;
	bool fair;
};

static const struct mode modes[] = {
	{ "off", true }, { "no-forfeit", true }, { "penalty", true }, { "credit", false },
	{ "handover", true }, { "nudge", true },
};

static void yielder_guest_code(void)
{
	x2apic_enable();
	for (;;)
		kvm_hypercall(KVM_HC_SCHED_YIELD, BOOSTED_ID, 0, 0, 0);
}

static void counter_guest_code(void)
{
	/* Without it the vCPU is in no map of APIC ids, and cannot be named. */
	x2apic_enable();
	for (;;)
		cpu_relax();
}

static void *vcpu_thread(void *vcpu)
{
	struct kvm_vcpu *running = vcpu;
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	vcpu_run(running);
	TEST_FAIL("a vCPU left: %s", exit_reason_str(running->run->exit_reason));
	return NULL;
}

static pthread_t start_on(struct kvm_vcpu *vcpu, int pcpu)
{
	pthread_t thread;
	cpu_set_t set;

	TEST_ASSERT(!pthread_create(&thread, NULL, vcpu_thread, vcpu), "pthread_create");
	CPU_ZERO(&set);
	CPU_SET(pcpu, &set);
	TEST_ASSERT(!pthread_setaffinity_np(thread, sizeof(set), &set), "pinning to %d", pcpu);
	return thread;
}

static u64 cpu_time_ns(pthread_t thread)
{
	struct timespec time;
	clockid_t clock;

	TEST_ASSERT(!pthread_getcpuclockid(thread, &clock), "pthread_getcpuclockid");
	TEST_ASSERT(!clock_gettime(clock, &time), "clock_gettime");
	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static u64 percent(u64 part, u64 other)
{
	return part * 100 / (part + other);
}

static void set_mode(const char *name)
{
	int fd = open(PARAMETER, O_WRONLY);

	__TEST_REQUIRE(fd >= 0, "this kernel has no " PARAMETER);
	TEST_ASSERT(write(fd, name, strlen(name)) == (ssize_t)strlen(name), "writing %s to "
		    PARAMETER, name);
	close(fd);
}

/* What the boosted vCPU has of its pCPU, in per cent, over all windows; the most in one of them. */
static u64 boosted_share(pthread_t boosted, pthread_t neighbour, u64 *most)
{
	u64 first[2], from[2], to[2], share;
	int i;

	*most = 0;
	usleep(WINDOW_MS * 1000);
	from[0] = cpu_time_ns(boosted);
	from[1] = cpu_time_ns(neighbour);
	first[0] = from[0];
	first[1] = from[1];
	for (i = 0; i < WINDOWS; i++) {
		usleep(WINDOW_MS * 1000);
		to[0] = cpu_time_ns(boosted);
		to[1] = cpu_time_ns(neighbour);
		share = percent(to[0] - from[0], to[1] - from[1]);
		*most = max(*most, share);
		memcpy(from, to, sizeof(from));
	}
	return percent(to[0] - first[0], to[1] - first[1]);
}

static void stop(pthread_t thread)
{
	void *left;

	pthread_cancel(thread);
	pthread_join(thread, &left);
}

int main(int argc, char *argv[])
{
	struct kvm_vm *hostile = vm_create(2), *other = vm_create(1);
	pthread_t yielder, boosted, neighbour;
	struct kvm_vcpu *vcpus[3];
	u64 all, most;

	TEST_REQUIRE(sysconf(_SC_NPROCESSORS_ONLN) >= 2);
	vcpus[0] = vm_vcpu_add(hostile, YIELDER_ID, yielder_guest_code);
	vcpus[1] = vm_vcpu_add(hostile, BOOSTED_ID, counter_guest_code);
	vcpus[2] = vm_vcpu_add(other, 0, counter_guest_code);
	set_mode("off");
	yielder = start_on(vcpus[0], 0);
	boosted = start_on(vcpus[1], 1);
	neighbour = start_on(vcpus[2], 1);

	for (int i = 0; i < ARRAY_SIZE(modes); i++) {
		set_mode(modes[i].name);
		all = boosted_share(boosted, neighbour, &most);
		pr_info("%-10s the boosted vCPU has %lu %%, at most %lu %% in %d ms\n",
			modes[i].name, all, most, WINDOW_MS);
		if (modes[i].fair) {
			TEST_ASSERT(all <= MOST_OF_ALL, "%s: %lu %%", modes[i].name, all);
			TEST_ASSERT(most <= MOST_OF_WINDOW, "%s: %lu %%", modes[i].name, most);
		}
	}
	set_mode("off");
	stop(yielder);
	stop(boosted);
	stop(neighbour);
	kvm_vm_free(hostile);
	kvm_vm_free(other);
	return 0;
}
