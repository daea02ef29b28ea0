/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the test of Strict Boost makes its situations of: a VM with a spinner, senders of IPIs and
 * candidates, with or without KVM's APICs, and threads of the candidates, each of which is brought
 * to where it has to be.
 */
#ifndef SELFTEST_KVM_STRICT_BOOST_H
#define SELFTEST_KVM_STRICT_BOOST_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include <linux/kvm_para.h>

#include "apic.h"
#include "host_file.h"
#include "hyperv.h"
#include "kvm_util.h"
#include "processor.h"

#define PARAMETER "/sys/module/kvm/parameters/strict_boost"
#define DEBOOSTER "/sys/module/sched/parameters/debooster"
#define PCPU 0
#define OTHER_PCPU 1
#define VECTOR 0x41
/* vCPUs that wait at once, and for how many of them the scheduler is asked in one look. */
#define WAITING 20
#define QUESTIONS 16
/* How long a computing candidate has had the pCPU when it is in the guest for sure. */
#define INSIDE_NS 10000000
/* What this thread waits for a candidate, in steps of 2 ms. */
#define STEPS 5000
/* Memory of a VM that is made by hand. */
#define BARE_PAGES 1024

enum { SPINNER, CANDIDATE, HOLDER, SENDER, KICKER, FIXED };
#define VCPUS (FIXED + WAITING)

/* How the candidate has left its pCPU, or has not. */
enum leaving { BY_HALT, IN_KERNEL, IN_USER };

static struct kvm_vm *vm;
static struct kvm_vcpu *vcpus[VCPUS];
static pthread_t threads[VCPUS];
static int stats[VCPUS];
static bool ended[VCPUS];
static bool second_spins;

static inline void handler(struct ex_regs *regs)
{
	x2apic_write_reg(APIC_EOI, 0);
}

static inline void say_spins(void)
{
	hyperv_hypercall(HVCALL_NOTIFY_LONG_SPIN_WAIT | HV_HYPERCALL_FAST_BIT, 0, 0);
}

static inline void prepare_spinner(u64 page_gpa)
{
	wrmsr(HV_X64_MSR_GUEST_OS_ID, HYPERV_LINUX_OS_ID);
	wrmsr(HV_X64_MSR_HYPERCALL, page_gpa);
	GUEST_SYNC(0);
}

static inline void spinner_code(u64 page_gpa)
{
	prepare_spinner(page_gpa);
	for (;;) {
		say_spins();
		GUEST_SYNC(0);
	}
}

/* Another that spins, for two looks, from when it is to. */
static inline void second_spinner_code(u64 page_gpa)
{
	prepare_spinner(page_gpa);
	while (!READ_ONCE(second_spins))
		barrier();
	say_spins();
	say_spins();
	GUEST_SYNC(0);
}

/* An IPI to the candidate, and then, one by one, to those that wait at once. */
static inline void sender_code(void)
{
	x2apic_enable();
	for (u64 id = CANDIDATE;; id = id < FIXED ? FIXED : id + 1) {
		GUEST_SYNC(0);
		x2apic_write_reg(APIC_ICR, id << 32 | APIC_DM_FIXED | VECTOR);
	}
}

static inline void kicker_code(void)
{
	x2apic_enable();
	for (;;) {
		GUEST_SYNC(0);
		kvm_hypercall(KVM_HC_KICK_CPU, 0, CANDIDATE, 0, 0);
	}
}

static inline void candidate_code(void)
{
	x2apic_enable();
	GUEST_SYNC(0);
}

static inline void bare_code(void)
{
	GUEST_SYNC(0);
}

static inline void sleeping_code(void)
{
	asm volatile("sti; hlt; cli");
	GUEST_SYNC(0);
}

/* Neither PAUSE nor anything else that leaves the guest, in whichever mode. */
static void __attribute__((naked)) computing_code(void)
{
	asm volatile("1: jmp 1b");
}

static inline void to_user_mode(struct kvm_vcpu *vcpu)
{
	struct kvm_sregs sregs;
	int stop;

	for (int level = PG_LEVEL_512G; level >= PG_LEVEL_4K; level--) {
		stop = level;
		*__vm_get_page_table_entry(vm, (u64)computing_code, &stop) |= BIT_ULL(2);
	}
	vcpu_sregs_get(vcpu, &sregs);
	sregs.cs.dpl = 3;
	sregs.cs.selector |= 3;
	sregs.ss.dpl = 3;
	sregs.ss.selector |= 3;
	vcpu_sregs_set(vcpu, &sregs);
}

static inline void run_to_sync(u32 index)
{
	struct ucall uc;

	vcpu_run(vcpus[index]);
	TEST_ASSERT_KVM_EXIT_REASON(vcpus[index], KVM_EXIT_IO);
	if (get_ucall(vcpus[index], &uc) == UCALL_ABORT)
		REPORT_GUEST_ASSERT(uc);
	TEST_ASSERT_EQ(uc.cmd, UCALL_SYNC);
}

static inline void add(u32 index, void *code)
{
	vcpus[index] = vm_vcpu_add(vm, index, code);
	stats[index] = vcpu_get_stats_fd(vcpus[index]);
	if (code == spinner_code || code == second_spinner_code) {
		vcpu_set_hv_cpuid(vcpus[index]);
		vcpu_args_set(vcpus[index], 1, addr_gva2gpa(vm, vm_vaddr_alloc_page(vm)));
	}
	run_to_sync(index);
}

static inline void make_vm_with(u32 nr, void *more_code)
{
	static void * const codes[] = {
		spinner_code, candidate_code, candidate_code, sender_code, kicker_code,
	};

	vm = vm_create(nr);
	vm_install_exception_handler(vm, VECTOR, handler);
	for (u32 i = 0; i < nr; i++)
		add(i, i < FIXED ? codes[i] : more_code);
}

static inline void make_vm(u32 nr)
{
	make_vm_with(nr, candidate_code);
}

/* A spinner and a candidate whose APICs are the VMM's. */
static inline void make_bare_vm(void)
{
	vm = ____vm_create(VM_SHAPE_DEFAULT);
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, 0, 0, BARE_PAGES, 0);
	kvm_vm_elf_load(vm, program_invocation_name);
	ucall_init(vm, (u64)BARE_PAGES * getpagesize());
	sync_global_to_guest(vm, host_cpu_is_intel);
	sync_global_to_guest(vm, host_cpu_is_amd);
	add(SPINNER, spinner_code);
	add(CANDIDATE, bare_code);
}

static inline void pin(pthread_t thread, int pcpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(pcpu, &set);
	TEST_ASSERT(!pthread_setaffinity_np(thread, sizeof(set), &set), "pinning to %d", pcpu);
}

static inline void nothing(int signal)
{
}

/*
 * One vCPU until it is asked to leave, or has been woken and has taken what woke it. The thread
 * stays until then, so that the time for which it ran can be read.
 */
static inline void *candidate_thread(void *argument)
{
	static const struct sched_param none;
	struct kvm_vcpu *vcpu = argument;
	int left;

	TEST_ASSERT(!sched_setscheduler(0, SCHED_OTHER, &none), "SCHED_OTHER");
	left = __vcpu_run(vcpu);
	TEST_ASSERT(!left || errno == EINTR, "vCPU %u: KVM_RUN: %s", vcpu->id, strerror(errno));
	WRITE_ONCE(ended[vcpu->id], true);
	while (!READ_ONCE(vcpu->run->immediate_exit))
		usleep(2000);
	return NULL;
}

static inline u64 stat_of(u32 index, const char *name)
{
	struct kvm_stats_header header;
	struct kvm_stats_desc *all, *desc;
	u64 value = UINT64_MAX;

	read_stats_header(stats[index], &header);
	all = read_stats_descriptors(stats[index], &header);
	for (u32 i = 0; i < header.num_desc; i++) {
		desc = get_stats_descriptor(all, i, &header);
		if (!strcmp(desc->name, name))
			read_stat_data(stats[index], &header, desc, &value, 1);
	}
	free(all);
	TEST_ASSERT(value != UINT64_MAX, "a vCPU has no statistic %s", name);
	return value;
}

/* For how long a candidate's thread has run. */
static inline u64 run_ns(u32 index)
{
	struct timespec time;
	clockid_t clock;

	TEST_ASSERT(!pthread_getcpuclockid(threads[index], &clock), "pthread_getcpuclockid");
	TEST_ASSERT(!clock_gettime(clock, &time), "clock_gettime");
	return time.tv_sec * NSEC_PER_SEC + time.tv_nsec;
}

/* Waits until a candidate is where it has to be: asleep, or computing in the guest. */
static inline void wait_for(u32 index, enum leaving leaving, u64 ran_ns)
{
	for (int step = 0; step < STEPS; step++) {
		usleep(2000);
		if (leaving == BY_HALT ? stat_of(index, "blocking") :
					 run_ns(index) >= ran_ns + INSIDE_NS)
			return;
	}
	TEST_FAIL("vCPU %u does not come to where it has to be", index);
}

/* Has a thread run a candidate, until it is where it has to be. */
static inline void go_on(u32 index, enum leaving leaving)
{
	ended[index] = false;
	TEST_ASSERT(!pthread_create(&threads[index], NULL, candidate_thread, vcpus[index]),
		    "pthread_create");
	wait_for(index, leaving, 0);
	usleep(2000);
}

static inline void start(u32 index, enum leaving leaving)
{
	struct kvm_vcpu *vcpu = vcpus[index];
	struct kvm_regs regs;

	vcpu_regs_get(vcpu, &regs);
	/* As behind a call, clear of what the vCPU was doing. */
	regs.rsp = (regs.rsp & ~0xfull) - 0x108;
	regs.rip = (u64)(leaving == BY_HALT ? sleeping_code : computing_code);
	vcpu_regs_set(vcpu, &regs);
	if (leaving == IN_USER)
		to_user_mode(vcpu);
	go_on(index, leaving);
}

/* Has one compute on the other pCPU: a vCPU waits for that on which it ran last. */
static inline void start_elsewhere(u32 index)
{
	u64 before;

	start(index, IN_KERNEL);
	before = run_ns(index);
	pin(threads[index], OTHER_PCPU);
	wait_for(index, IN_KERNEL, before);
}

static inline void stop(u32 index)
{
	vcpus[index]->run->immediate_exit = 1;
	pthread_kill(threads[index], SIGUSR1);
	TEST_ASSERT(!pthread_join(threads[index], NULL), "pthread_join");
}

static inline void free_vm(u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		close(stats[i]);
	kvm_vm_free(vm);
}

#endif /* SELFTEST_KVM_STRICT_BOOST_H */
