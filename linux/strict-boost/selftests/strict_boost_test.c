// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which vCPU Strict Boost chooses, by how it left its pCPU and whether an interrupt waits for it;
 * and how many it asks for at most in one look.
 *
 * All are on one pCPU. The candidates have threads of their own, which this thread keeps from
 * running, being of a real-time class, while it runs the spinner and the senders in turns. So
 * nothing moves meanwhile, and for the same reason the scheduler agrees to nothing: every vCPU is
 * judged for every cause, and what would have come first shows in the trace.
 */
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
#define PCPU 0
#define VECTOR 0x41
/* vCPUs that wait at once, and for how many of them the scheduler is asked in one look. */
#define WAITING 20
#define QUESTIONS 16
/* How long a computing candidate has had the pCPU when it is in the guest for sure. */
#define INSIDE_NS 10000000
/* What this thread waits for a candidate, in steps of 2 ms. */
#define STEPS 5000

enum { SPINNER, CANDIDATE, HOLDER, SENDER, KICKER, FIXED };
#define VCPUS (FIXED + WAITING)

/* How the candidate has left its pCPU, or has not. */
enum leaving { BY_HALT, IN_KERNEL, IN_USER };

struct situation {
	const char *name;
	enum leaving leaving;
	u32 from;		/* the vCPU that has sent it an IPI or a lock; itself: none */
	bool holder;		/* another vCPU was preempted in kernel mode */
	const char *expected;	/* vCPU and cause of the first choice */
};

static const struct situation situations[] = {
	{ "asleep", BY_HALT, CANDIDATE, false, "-" },
	{ "woken by an IPI", BY_HALT, SENDER, false, "1 pending" },
	{ "woken to have a lock", BY_HALT, KICKER, false, "1 lock" },
	{ "preempted in kernel mode", IN_KERNEL, CANDIDATE, false, "1 lock" },
	{ "preempted in kernel mode with an IPI", IN_KERNEL, SENDER, false, "1 pending" },
	{ "preempted in user mode", IN_USER, CANDIDATE, false, "-" },
	{ "preempted in user mode with an IPI", IN_USER, SENDER, false, "1 pending" },
	{ "user mode, and a holder", IN_USER, CANDIDATE, true, "2 lock" },
	{ "user mode with an IPI, and a holder", IN_USER, SENDER, true, "1 pending" },
	{ "woken by an IPI, and a holder", BY_HALT, SENDER, true, "1 pending" },
};

static struct kvm_vm *vm;
static struct kvm_vcpu *vcpus[VCPUS];
static pthread_t threads[VCPUS];
static int stats[VCPUS];

static void handler(struct ex_regs *regs)
{
	x2apic_write_reg(APIC_EOI, 0);
}

static void spinner_code(u64 page_gpa)
{
	wrmsr(HV_X64_MSR_GUEST_OS_ID, HYPERV_LINUX_OS_ID);
	wrmsr(HV_X64_MSR_HYPERCALL, page_gpa);
	for (;;) {
		GUEST_SYNC(0);
		hyperv_hypercall(HVCALL_NOTIFY_LONG_SPIN_WAIT | HV_HYPERCALL_FAST_BIT, 0, 0);
	}
}

/* An IPI to the candidate, and then, one by one, to those that wait at once. */
static void sender_code(void)
{
	x2apic_enable();
	for (u64 id = CANDIDATE;; id = id < FIXED ? FIXED : id + 1) {
		GUEST_SYNC(0);
		x2apic_write_reg(APIC_ICR, id << 32 | APIC_DM_FIXED | VECTOR);
	}
}

static void kicker_code(void)
{
	x2apic_enable();
	for (;;) {
		GUEST_SYNC(0);
		kvm_hypercall(KVM_HC_KICK_CPU, 0, CANDIDATE, 0, 0);
	}
}

static void candidate_code(void)
{
	x2apic_enable();
	GUEST_SYNC(0);
}

static void sleeping_code(void)
{
	asm volatile("sti; hlt; cli");
	GUEST_SYNC(0);
}

/* Neither PAUSE nor anything else that leaves the guest, in whichever mode. */
static void __attribute__((naked)) computing_code(void)
{
	asm volatile("1: jmp 1b");
}

static void to_user_mode(struct kvm_vcpu *vcpu)
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

static void run_to_sync(u32 index)
{
	struct ucall uc;

	vcpu_run(vcpus[index]);
	TEST_ASSERT_KVM_EXIT_REASON(vcpus[index], KVM_EXIT_IO);
	if (get_ucall(vcpus[index], &uc) == UCALL_ABORT)
		REPORT_GUEST_ASSERT(uc);
	TEST_ASSERT_EQ(uc.cmd, UCALL_SYNC);
}

static void add(u32 index, void *code)
{
	vcpus[index] = vm_vcpu_add(vm, index, code);
	stats[index] = vcpu_get_stats_fd(vcpus[index]);
	if (index == SPINNER) {
		vcpu_set_hv_cpuid(vcpus[index]);
		vcpu_args_set(vcpus[index], 1, addr_gva2gpa(vm, vm_vaddr_alloc_page(vm)));
	}
	run_to_sync(index);
}

static void make_vm(u32 nr)
{
	static void * const codes[] = {
		spinner_code, candidate_code, candidate_code, sender_code, kicker_code,
	};

	vm = vm_create(nr);
	vm_install_exception_handler(vm, VECTOR, handler);
	for (u32 i = 0; i < nr; i++)
		add(i, i < FIXED ? codes[i] : candidate_code);
}

static void nothing(int signal)
{
}

/* One vCPU until it is asked to leave, or has been woken and has taken what woke it. */
static void *candidate_thread(void *argument)
{
	static const struct sched_param none;
	struct kvm_vcpu *vcpu = argument;
	int left;

	TEST_ASSERT(!sched_setscheduler(0, SCHED_OTHER, &none), "SCHED_OTHER");
	left = __vcpu_run(vcpu);
	TEST_ASSERT(!left || errno == EINTR, "vCPU %u: KVM_RUN: %s", vcpu->id, strerror(errno));
	return NULL;
}

static u64 stat_of(u32 index, const char *name)
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

/* Whether a candidate is where it has to be: asleep, or computing in the guest. */
static bool has_arrived(u32 index, enum leaving leaving)
{
	struct timespec time;
	clockid_t clock;

	if (leaving == BY_HALT)
		return stat_of(index, "blocking");
	TEST_ASSERT(!pthread_getcpuclockid(threads[index], &clock), "pthread_getcpuclockid");
	TEST_ASSERT(!clock_gettime(clock, &time), "clock_gettime");
	return time.tv_sec || time.tv_nsec >= INSIDE_NS;
}

static void start(u32 index, enum leaving leaving)
{
	struct kvm_vcpu *vcpu = vcpus[index];
	struct kvm_regs regs;
	int step;

	vcpu_regs_get(vcpu, &regs);
	/* As behind a call, clear of what the vCPU was doing. */
	regs.rsp = (regs.rsp & ~0xfull) - 0x108;
	regs.rip = (u64)(leaving == BY_HALT ? sleeping_code : computing_code);
	vcpu_regs_set(vcpu, &regs);
	if (leaving == IN_USER)
		to_user_mode(vcpu);
	TEST_ASSERT(!pthread_create(&threads[index], NULL, candidate_thread, vcpu),
		    "pthread_create");
	for (step = 0; step < STEPS && !has_arrived(index, leaving); step++)
		usleep(2000);
	TEST_ASSERT(step < STEPS, "vCPU %u does not come to where it has to be", index);
	usleep(2000);
}

static void stop(u32 index)
{
	vcpus[index]->run->immediate_exit = 1;
	pthread_kill(threads[index], SIGUSR1);
	TEST_ASSERT(!pthread_join(threads[index], NULL), "pthread_join");
}

static void free_vm(u32 nr)
{
	for (u32 i = 0; i < nr; i++)
		close(stats[i]);
	kvm_vm_free(vm);
}

/* The first choice, and why; and the vCPUs that the scheduler was asked for, in this order. */
struct choice {
	char first[32], judged[2048];
	u32 asked[2 * VCPUS], count;
};

static void look_at_judged(const char *text, void *data)
{
	struct choice *choice = data;
	char cause[16], verdict[16];
	size_t used = strlen(choice->judged);
	u32 vcpu;

	TEST_ASSERT(sscanf(text, " vm %*u for 0 vcpu %u cause %15s verdict %15s", &vcpu, cause,
			   verdict) == 3, "an event: %s", text);
	snprintf(choice->judged + used, sizeof(choice->judged) - used, " %u %s %s;", vcpu, cause,
		 verdict);
	if (choice->first[0] == '-' && !strcmp(verdict, "chosen"))
		snprintf(choice->first, sizeof(choice->first), "%u %s", vcpu, cause);
}

static void look_at_answer(const char *text, void *data)
{
	struct choice *choice = data;
	int answer;

	TEST_ASSERT(choice->count < ARRAY_SIZE(choice->asked), "the scheduler was asked too often");
	TEST_ASSERT(sscanf(text, " vm %*u for 0 vcpu %u cause %*s answer %d",
			   &choice->asked[choice->count++], &answer) == 2, "an event: %s", text);
	TEST_ASSERT(answer <= 0, "the scheduler agreed");
}

/*
 * Has the spinner say that it spins, a number of times. Nothing may sleep before, or the candidates
 * run: to clear the trace and to read it takes a grace period of RCU.
 */
static struct choice look(int times)
{
	struct choice choice = { .first = "-" };

	while (times--)
		run_to_sync(SPINNER);
	read_events("kvm_strict_boost_judged", look_at_judged, &choice);
	read_events("kvm_strict_boost_answer", look_at_answer, &choice);
	return choice;
}

static void test_situation(const struct situation *situation, bool on)
{
	const char *expected = on ? situation->expected : "-";
	struct choice choice;

	set_parameter(PARAMETER, on ? "on" : "off");
	make_vm(FIXED);
	start(CANDIDATE, situation->leaving);
	if (situation->holder)
		start(HOLDER, IN_KERNEL);
	record_events("kvm_strict_boost");
	if (situation->from != CANDIDATE)
		run_to_sync(situation->from);
	choice = look(1);
	TEST_ASSERT_EQ(stat_of(SPINNER, "strict_boost_looks"), on);
	TEST_ASSERT(!strcmp(expected, choice.first),
		    "%s, %s: first choice %s, expected %s; judged:%s", on ? "on" : "off",
		    situation->name, choice.first, expected, choice.judged);
	stop(CANDIDATE);
	if (situation->holder)
		stop(HOLDER);
	free_vm(FIXED);
}

/* Refusals count: a look ends after 16 questions, and the next one begins behind the last. */
static void test_questions(void)
{
	struct choice choice;

	set_parameter(PARAMETER, "on");
	make_vm(VCPUS);
	for (u32 i = FIXED; i < VCPUS; i++)
		start(i, BY_HALT);
	record_events("kvm_strict_boost");
	for (u32 i = FIXED; i <= VCPUS; i++)
		run_to_sync(SENDER);
	choice = look(2);
	TEST_ASSERT_EQ(choice.count, 2 * QUESTIONS);
	TEST_ASSERT_EQ(choice.asked[QUESTIONS], choice.asked[QUESTIONS - 1] + 1);
	for (u32 i = FIXED; i < VCPUS; i++)
		stop(i);
	free_vm(VCPUS);
}

int main(void)
{
	static const struct sched_param first = { .sched_priority = 1 };
	static const struct sigaction leave = { .sa_handler = nothing };

	__TEST_REQUIRE(try_parameter(PARAMETER, "off"), "this kernel has no Strict Boost");
	__TEST_REQUIRE(record_events("kvm_strict_boost"), "this kernel does not trace it");
	TEST_ASSERT(!sigaction(SIGUSR1, &leave, NULL), "sigaction");
	kvm_pin_this_task_to_pcpu(PCPU);
	TEST_ASSERT(!sched_setscheduler(0, SCHED_FIFO, &first), "SCHED_FIFO");
	for (int i = 0; i < ARRAY_SIZE(situations); i++) {
		test_situation(&situations[i], false);
		test_situation(&situations[i], true);
	}
	test_questions();
	set_parameter(PARAMETER, "off");
	return 0;
}
