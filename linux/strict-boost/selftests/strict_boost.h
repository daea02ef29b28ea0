/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the tests of Strict Boost's account of IPIs share: a VM with the statistics of all its vCPUs
 * at hand, the window in which a vCPU takes interrupts, and the module parameter.
 */
#ifndef SELFTEST_KVM_STRICT_BOOST_H
#define SELFTEST_KVM_STRICT_BOOST_H

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apic.h"
#include "test_util.h"
#include "kvm_util.h"
#include "processor.h"

#define STRICT_BOOST_PARAMETER "/sys/module/kvm/parameters/strict_boost"
#define MAX_VCPUS 80

/* A VM, and what the host has of the account: a statistic of each vCPU. */
struct boost_vm {
	struct kvm_vm *vm;
	u32 nr;
	struct kvm_vcpu *vcpus[MAX_VCPUS];
	int stats[MAX_VCPUS];
	struct kvm_stats_header header;
	struct kvm_stats_desc *descriptors, *ipis, *taken;
};

/* What the host knows of the VM at one time: the sum over its vCPUs. */
struct account {
	u64 ipis;	/* bits that were set */
	u64 taken;	/* of these, cleared */
};

static inline bool try_parameter(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	close(fd);
	return done;
}

static inline void set_mode(const char *mode)
{
	TEST_ASSERT(try_parameter(STRICT_BOOST_PARAMETER, mode),
		    "writing %s to " STRICT_BOOST_PARAMETER, mode);
}

static inline struct kvm_stats_desc *descriptor(struct boost_vm *boost, const char *name)
{
	struct kvm_stats_desc *desc;

	for (u32 i = 0; i < boost->header.num_desc; i++) {
		desc = get_stats_descriptor(boost->descriptors, i, &boost->header);
		if (!strcmp(desc->name, name))
			return desc;
	}
	TEST_FAIL("a vCPU has no statistic %s", name);
	return NULL;
}

static inline struct kvm_vcpu *boost_add_vcpu(struct boost_vm *boost, void *code)
{
	u32 id = boost->nr++;

	TEST_ASSERT(id < MAX_VCPUS, "too many vCPUs");
	boost->vcpus[id] = vm_vcpu_add(boost->vm, id, code);
	boost->stats[id] = vcpu_get_stats_fd(boost->vcpus[id]);
	if (!boost->descriptors) {
		read_stats_header(boost->stats[id], &boost->header);
		boost->descriptors = read_stats_descriptors(boost->stats[id], &boost->header);
		boost->ipis = descriptor(boost, "strict_boost_ipis");
		boost->taken = descriptor(boost, "strict_boost_taken");
	}
	return boost->vcpus[id];
}

static inline void boost_free(struct boost_vm *boost)
{
	for (u32 i = 0; i < boost->nr; i++)
		close(boost->stats[i]);
	free(boost->descriptors);
	kvm_vm_free(boost->vm);
}

static inline struct account account_of(struct boost_vm *boost, u32 vcpu)
{
	struct account account;

	read_stat_data(boost->stats[vcpu], &boost->header, boost->ipis, &account.ipis, 1);
	read_stat_data(boost->stats[vcpu], &boost->header, boost->taken, &account.taken, 1);
	return account;
}

static inline struct account account_of_all(struct boost_vm *boost)
{
	struct account sum = {}, one;

	for (u32 i = 0; i < boost->nr; i++) {
		one = account_of(boost, i);
		sum.ipis += one.ipis;
		sum.taken += one.taken;
	}
	return sum;
}

/* Runs a vCPU to its next GUEST_SYNC. */
static inline void run_to_sync(struct kvm_vcpu *vcpu)
{
	struct ucall uc;

	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	switch (get_ucall(vcpu, &uc)) {
	case UCALL_SYNC:
		return;
	case UCALL_ABORT:
		REPORT_GUEST_ASSERT(uc);
	default:
		TEST_FAIL("vCPU %u: unexpected ucall %lu", vcpu->id, uc.cmd);
	}
}

/* In the guest: the vCPU whose code this is has its number at @mine. */
static inline void set_self(u64 *mine)
{
	wrmsr(MSR_FS_BASE, (u64)mine);
}

/* That number, in a handler too. */
static inline u64 self(void)
{
	u64 index;

	asm volatile("mov %%fs:0, %0" : "=r"(index));
	return index;
}

/*
 * In the guest, which has interrupts off everywhere else: takes all that are pending. CPUID leaves
 * the guest, and on the way back KVM has what was pending injected one after the other before the
 * next instruction. The stack pointer moves over the red zone.
 */
static inline void take_interrupts(void)
{
	u32 eax = 0, ecx = 0;

	asm volatile("lea -128(%%rsp), %%rsp\n\t"
		     "sti\n\t"
		     "nop\n\t"
		     "cpuid\n\t"
		     "cli\n\t"
		     "lea 128(%%rsp), %%rsp"
		     : "+a"(eax), "+c"(ecx) : : "rbx", "rdx", "cc", "memory");
}

#endif /* SELFTEST_KVM_STRICT_BOOST_H */
