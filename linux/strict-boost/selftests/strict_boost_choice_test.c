// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whom Strict Boost chooses in each of its modes, by what is known of the vCPU that could run: how
 * it left its pCPU, and who has sent it what.
 *
 * All are on one pCPU. The candidates have threads of their own, which this thread keeps from
 * running, being of a real-time class, while it runs the spinner and the senders in turns. So
 * nothing moves meanwhile, and for the same reason the scheduler agrees to nothing: every vCPU is
 * judged for every cause that the mode has, and what would have come first shows in the trace.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <time.h>

#include "strict_boost_orders.h"

#define TRACING "/sys/kernel/tracing/"
#define EVENTS TRACING "events/kvm_strict_boost/enable"
#define JUDGED "kvm_strict_boost_judged:"
#define PCPU 0
/* How long a computing candidate has had the pCPU when it is in the guest for sure. */
#define INSIDE_NS 10000000
/* What this thread waits for a candidate, in steps of 2 ms. */
#define STEPS 5000

enum { SPINNER, CANDIDATE, SENDER, HOLDER, KICKER, VCPUS };

/* How the candidate has left its pCPU, or has not. */
enum leaving { BY_HALT, IN_KERNEL, IN_USER };

struct situation {
	const char *name;
	enum leaving leaving;
	u32 from;		/* who has sent it an IPI; itself: nobody */
	bool holder;		/* another vCPU was preempted in kernel mode */
	const char *expected[5];	/* by mode: vCPU and cause of the first choice */
};

static const char * const modes[] = { "off", "observe", "track", "pending", "shared" };

static const struct situation situations[] = {
	{ "asleep", BY_HALT, CANDIDATE, false, { "-", "-", "-", "-", "-" } },
	{ "woken by the spinner's IPI", BY_HALT, SPINNER, false,
	  { "-", "1 lock", "1 ipi", "1 pending", "1 ipi" } },
	{ "woken by another's IPI", BY_HALT, SENDER, false,
	  { "-", "1 lock", "-", "1 pending", "1 shared" } },
	{ "woken to have a lock", BY_HALT, KICKER, false,
	  { "-", "1 lock", "1 lock", "1 lock", "1 lock" } },
	{ "preempted in kernel mode", IN_KERNEL, CANDIDATE, false,
	  { "-", "1 lock", "1 lock", "1 lock", "1 lock" } },
	{ "preempted in kernel mode with the spinner's IPI", IN_KERNEL, SPINNER, false,
	  { "-", "1 lock", "1 ipi", "1 pending", "1 ipi" } },
	{ "preempted in kernel mode with another's IPI", IN_KERNEL, SENDER, false,
	  { "-", "1 lock", "1 lock", "1 pending", "1 lock" } },
	{ "preempted in user mode", IN_USER, CANDIDATE, false, { "-", "-", "-", "-", "-" } },
	{ "preempted in user mode with the spinner's IPI", IN_USER, SPINNER, false,
	  { "-", "-", "1 ipi", "1 pending", "1 ipi" } },
	{ "preempted in user mode with another's IPI", IN_USER, SENDER, false,
	  { "-", "-", "-", "1 pending", "1 shared" } },
	{ "user mode, the spinner's IPI, and a holder", IN_USER, SPINNER, true,
	  { "-", "3 lock", "1 ipi", "1 pending", "1 ipi" } },
	{ "user mode, another's IPI, and a holder", IN_USER, SENDER, true,
	  { "-", "3 lock", "3 lock", "1 pending", "3 lock" } },
	{ "woken by another's IPI, and a holder", BY_HALT, SENDER, true,
	  { "-", "1 lock", "3 lock", "1 pending", "3 lock" } },
};

static pthread_t threads[VCPUS];
/* What the last look was about, for the message: each vCPU judged, for which cause, and how. */
static char judged[512];

static void kicker_code(void)
{
	x2apic_enable();
	for (;;) {
		GUEST_SYNC(0);
		kvm_hypercall(KVM_HC_KICK_CPU, 0, CANDIDATE, 0, 0);
	}
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
		*__vm_get_page_table_entry(boost.vm, (u64)computing_code, &stop) |= BIT_ULL(2);
	}
	vcpu_sregs_get(vcpu, &sregs);
	sregs.cs.dpl = 3;
	sregs.cs.selector |= 3;
	sregs.ss.dpl = 3;
	sregs.ss.selector |= 3;
	vcpu_sregs_set(vcpu, &sregs);
}

static void nothing(int signal)
{
}

/* One vCPU until it is told to leave, or has been woken and has taken what woke it. */
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

static u64 stat_of(u32 vcpu, const char *name)
{
	u64 value;

	read_stat_data(boost.stats[vcpu], &boost.header, descriptor(&boost, name), &value, 1);
	return value;
}

/* Whether a candidate is where it is to be: asleep, or computing in the guest. */
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
	struct kvm_vcpu *vcpu = boost.vcpus[index];
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
	TEST_ASSERT(step < STEPS, "vCPU %u does not come to where it is to be", index);
	usleep(2000);
}

static void stop(u32 index)
{
	boost.vcpus[index]->run->immediate_exit = 1;
	pthread_kill(threads[index], SIGUSR1);
	TEST_ASSERT(!pthread_join(threads[index], NULL), "pthread_join");
}

/* An IPI to the candidate, or the call for a lock's next owner; from itself, nothing. */
static void send_to_candidate(u32 from)
{
	struct sending sending = {
		.nr = boost.nr, .sender = from, .target = CANDIDATE, .vector = own_row[0],
	};

	if (from == CANDIDATE)
		return;
	if (from != KICKER)
		make_x2apic_unicast(&sending);
	run(from, sending.order);
}

/* Has the spinner say that it spins. Who is the first choice, and why: "-" if nobody is. */
static void first_choice(char *choice, size_t size)
{
	struct order spin = { ORDER_HV, HVCALL_NOTIFY_LONG_SPIN_WAIT | HV_HYPERCALL_FAST_BIT };
	char line[512], cause[16], verdict[16], *text;
	u32 vm, spinner, vcpu;
	FILE *trace;

	snprintf(choice, size, "-");
	judged[0] = '\0';
	run(SPINNER, spin);
	trace = fopen(TRACING "trace", "r");
	TEST_ASSERT(trace, "opening " TRACING "trace");
	while (fgets(line, sizeof(line), trace)) {
		text = strstr(line, JUDGED);
		if (!text)
			continue;
		TEST_ASSERT(sscanf(text + strlen(JUDGED),
				   " vm %u for %u vcpu %u cause %15s verdict %15s",
				   &vm, &spinner, &vcpu, cause, verdict) == 5 &&
			    spinner == SPINNER, "a line of the trace: %s", line);
		snprintf(judged + strlen(judged), sizeof(judged) - strlen(judged), " %u %s %s;",
			 vcpu, cause, verdict);
		if (choice[0] == '-' && !strcmp(verdict, "chosen"))
			snprintf(choice, size, "%u %s", vcpu, cause);
	}
	fclose(trace);
}

static void test_situation(const struct situation *situation, int mode)
{
	char choice[32];
	u64 looks;

	set_mode(modes[mode]);
	make_vm(HYPERV, KICKER, 1);
	run_to_sync(boost_add_vcpu(&boost, kicker_code));
	TEST_ASSERT_EQ(boost.nr, VCPUS);
	start(CANDIDATE, situation->leaving);
	if (situation->holder)
		start(HOLDER, IN_KERNEL);
	/* It waits for RCU, in which time all others run: from here on nothing may sleep. */
	close(open(TRACING "trace", O_WRONLY | O_TRUNC));
	send_to_candidate(situation->from);
	looks = stat_of(SPINNER, "strict_boost_looks");
	first_choice(choice, sizeof(choice));
	TEST_ASSERT_EQ(stat_of(SPINNER, "strict_boost_looks") - looks, mode != 0);
	TEST_ASSERT(!strcmp(situation->expected[mode], choice),
		    "%s, %s: first choice %s, expected %s; judged:%s", modes[mode],
		    situation->name, choice, situation->expected[mode], judged);
	stop(CANDIDATE);
	if (situation->holder)
		stop(HOLDER);
	boost_free(&boost);
}

int main(void)
{
	static const struct sched_param first = { .sched_priority = 1 };
	static const struct sigaction leave = { .sa_handler = nothing };
	int i, mode;

	__TEST_REQUIRE(!access(STRICT_BOOST_PARAMETER, F_OK), "this kernel has no Strict Boost");
	mount("tracefs", TRACING, "tracefs", 0, NULL);
	__TEST_REQUIRE(try_parameter(EVENTS, "1"), "this kernel does not trace Strict Boost");
	/* There posted interrupts are candidates in every mode. */
	__TEST_REQUIRE(!host_cpu_is_intel || !get_kvm_intel_param_bool("enable_apicv"),
		       "this CPU delivers interrupts itself");
	TEST_ASSERT(!sigaction(SIGUSR1, &leave, NULL), "sigaction");
	kvm_pin_this_task_to_pcpu(PCPU);
	TEST_ASSERT(!sched_setscheduler(0, SCHED_FIFO, &first), "SCHED_FIFO");
	for (i = 0; i < ARRAY_SIZE(situations); i++)
		for (mode = 0; mode < ARRAY_SIZE(modes); mode++)
			test_situation(&situations[i], mode);
	set_mode("off");
	try_parameter(EVENTS, "0");
	pr_info("%lu situations in %lu modes\n", ARRAY_SIZE(situations), ARRAY_SIZE(modes));
	return 0;
}
