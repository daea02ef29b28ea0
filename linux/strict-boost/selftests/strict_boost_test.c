// SPDX-License-Identifier: GPL-2.0-only
/*
 * Which vCPUs Strict Boost chooses, by how they left their pCPU and whether an interrupt waits for
 * them; that those of other pCPUs come first; how many it asks for at most in one look, and after
 * the scheduler has agreed; and that it does without KVM's APICs.
 *
 * Most are on one pCPU. The candidates have threads of their own, which this thread keeps from
 * running, being of a real-time class, while it runs the spinner and the senders in turns. So
 * nothing moves meanwhile, and for the same reason the scheduler agrees to nothing, unless this
 * thread leaves its class: every vCPU is judged for every cause, and all choices are in the trace.
 */
#include "strict_boost.h"

/* How often a try may be cut off or refused: where time is the wall's, the host's load does it. */
#define TRIES 10
/* By how much a try is later in the turns of candidates than the last. */
#define PHASE_US 700

struct situation {
	const char *name;
	enum leaving leaving;
	u32 from;		/* the vCPU that has sent it an IPI or a lock; itself: none */
	bool holder;		/* another vCPU was preempted in kernel mode */
	const char *expected;	/* vCPU and cause of each choice, in their order */
};

static const struct situation situations[] = {
	{ "asleep", BY_HALT, CANDIDATE, false, "" },
	{ "woken by an IPI", BY_HALT, SENDER, false, " 1 pending" },
	{ "woken to have a lock", BY_HALT, KICKER, false, " 1 lock" },
	{ "preempted in kernel mode", IN_KERNEL, CANDIDATE, false, " 1 lock" },
	{ "preempted in kernel mode with an IPI", IN_KERNEL, SENDER, false, " 1 pending 1 lock" },
	{ "preempted in user mode", IN_USER, CANDIDATE, false, "" },
	{ "preempted in user mode with an IPI", IN_USER, SENDER, false, " 1 pending" },
	{ "user mode, and a holder", IN_USER, CANDIDATE, true, " 2 lock" },
	{ "user mode with an IPI, and a holder", IN_USER, SENDER, true, " 1 pending 2 lock" },
	{ "woken by an IPI, and a holder", BY_HALT, SENDER, true, " 1 pending 2 lock" },
};

/* The choices, and why; and the vCPUs that the scheduler was asked for, in this order. */
struct choice {
	char chosen[2048], judged[2048];
	u32 asked[2 * VCPUS], count, agreed;
};

static void add_words(char *text, size_t size, u32 vcpu, const char *words)
{
	size_t used = strlen(text);

	snprintf(text + used, size - used, " %u %s", vcpu, words);
}

static void look_at_judged(const char *text, void *data)
{
	struct choice *choice = data;
	char cause[16], verdict[16], words[40];
	u32 vcpu;

	TEST_ASSERT(sscanf(text, " vm %*u for %*u vcpu %u cause %15s verdict %15s", &vcpu, cause,
			   verdict) == 3, "an event: %s", text);
	snprintf(words, sizeof(words), "%s %s;", cause, verdict);
	add_words(choice->judged, sizeof(choice->judged), vcpu, words);
	if (!strcmp(verdict, "chosen"))
		add_words(choice->chosen, sizeof(choice->chosen), vcpu, cause);
}

static void look_at_answer(const char *text, void *data)
{
	struct choice *choice = data;
	int answer;

	TEST_ASSERT(choice->count < ARRAY_SIZE(choice->asked), "the scheduler was asked too often");
	TEST_ASSERT(sscanf(text, " vm %*u for %*u vcpu %u cause %*s answer %d",
			   &choice->asked[choice->count++], &answer) == 2, "an event: %s", text);
	choice->agreed += answer > 0;
}

static pthread_t poller;
static bool polls;

/* Has a pCPU until it is cancelled. It is of the class of who starts it: candidates wait for it. */
static void *polling_thread(void *unused)
{
	pin(pthread_self(), OTHER_PCPU);
	WRITE_ONCE(polls, true);
	for (;;)
		pthread_testcancel();
	return NULL;
}

static void start_poller(void)
{
	TEST_ASSERT(!pthread_create(&poller, NULL, polling_thread, NULL), "pthread_create");
	for (int step = 0; step < STEPS && !READ_ONCE(polls); step++)
		usleep(2000);
	TEST_ASSERT(READ_ONCE(polls), "the other pCPU is not taken");
}

static void stop_poller(void)
{
	if (!polls)
		return;
	TEST_ASSERT(!pthread_cancel(poller), "pthread_cancel");
	TEST_ASSERT(!pthread_join(poller, NULL), "pthread_join");
	polls = false;
}

/*
 * Has the spinner say that it spins, a number of times. Nothing may sleep before, or the candidates
 * run: to clear the trace and to read it takes a grace period of RCU. On PREEMPT_RT none ends while
 * a poller has its pCPU. So that is started after the trace was cleared, and stopped here.
 */
static struct choice look(int times)
{
	struct choice choice = {};

	while (times--)
		run_to_sync(SPINNER);
	stop_poller();
	TEST_ASSERT_EQ((u64)read_events("kvm_strict_boost_look", NULL, NULL),
		       stat_of(SPINNER, "strict_boost_looks"));
	read_events("kvm_strict_boost_judged", look_at_judged, &choice);
	read_events("kvm_strict_boost_answer", look_at_answer, &choice);
	return choice;
}

static void test_situation(const struct situation *situation, bool on)
{
	const char *expected = on ? situation->expected : "";
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
	TEST_ASSERT_EQ(stat_of(SPINNER, "strict_boost_nobody"), on);
	TEST_ASSERT_EQ(choice.agreed, 0);
	TEST_ASSERT(!strcmp(expected, choice.chosen), "%s, %s: choices%s, expected%s; judged:%s",
		    on ? "on" : "off", situation->name, choice.chosen, expected, choice.judged);
	stop(CANDIDATE);
	if (situation->holder)
		stop(HOLDER);
	free_vm(FIXED);
}

/* One that waits for another pCPU is asked for first, though its number is higher. */
static void test_places(void)
{
	struct choice choice;

	set_parameter(PARAMETER, "on");
	make_vm(FIXED + 1);
	start(CANDIDATE, IN_KERNEL);
	start_elsewhere(FIXED);
	record_events("kvm_strict_boost");
	start_poller();
	for (int i = 0; i < 2; i++)
		run_to_sync(SENDER);
	choice = look(1);
	/* Both are asked for a second time as holders of a lock. */
	TEST_ASSERT_EQ(choice.count, 4);
	TEST_ASSERT(choice.asked[0] == FIXED && choice.asked[1] == CANDIDATE,
		    "asked for %u and %u; judged:%s", choice.asked[0], choice.asked[1],
		    choice.judged);
	stop(CANDIDATE);
	stop(FIXED);
	free_vm(FIXED + 1);
}

/*
 * Has a spinner look twice while two wait for the other pCPU, and ask for @at_once of them in each.
 * Until then they have the pCPU in turns, and how far one is ahead depends on when in a turn they
 * are stopped: @phase_us later. Returns false if the scheduler refused one: then the look went on
 * to others.
 */
static bool agreed_to_all(u32 at_once, u32 phase_us)
{
	static const struct sched_param none, first = { .sched_priority = 1 };
	struct choice choice;
	bool refused;

	make_vm(FIXED + 2);
	start_elsewhere(FIXED);
	start_elsewhere(FIXED + 1);
	record_events("kvm_strict_boost");
	usleep(phase_us);
	start_poller();
	for (int i = 0; i < 3; i++)
		run_to_sync(SENDER);
	TEST_ASSERT(!sched_setscheduler(0, SCHED_OTHER, &none), "SCHED_OTHER");
	choice = look(2);
	TEST_ASSERT(!sched_setscheduler(0, SCHED_FIFO, &first), "SCHED_FIFO");
	refused = choice.count != choice.agreed;
	TEST_ASSERT_EQ(stat_of(SPINNER, "strict_boost_agreed"), choice.agreed);
	TEST_ASSERT_EQ(stat_of(SPINNER, "strict_boost_refused"), choice.count - choice.agreed);
	for (u32 i = 0; i < choice.count; i++)
		TEST_ASSERT(choice.asked[i] == FIXED || choice.asked[i] == FIXED + 1,
			    "asked for %u; judged:%s", choice.asked[i], choice.judged);
	if (!refused) {
		TEST_ASSERT_EQ(choice.count, 2 * at_once);
		for (u32 i = 0; i < choice.count; i += 2)
			TEST_ASSERT(choice.asked[i] + choice.asked[i + 1] == 2 * FIXED + 1,
				    "asked for %u and %u; judged:%s", choice.asked[i],
				    choice.asked[i + 1], choice.judged);
		TEST_ASSERT_EQ(stat_of(SPINNER, "strict_boost_ipi_looks"), 2);
		TEST_ASSERT_EQ(stat_of(SPINNER, "strict_boost_nobody"), 0);
	}
	for (u32 i = FIXED; i < FIXED + 2; i++)
		stop(i);
	free_vm(FIXED + 2);
	return !refused;
}

/*
 * A look ends with the first that the scheduler agrees to, and the next begins behind it, unless
 * Debooster lets the spinner keep its pCPU: then it has both. Debooster may refuse one that is too
 * far ahead of its queue. Without it none is refused.
 */
static void test_agreed(bool keeps)
{
	bool agreed = false;

	set_parameter(PARAMETER, "on");
	TEST_ASSERT(try_parameter(DEBOOSTER, keeps ? "on" : "off") || !keeps, DEBOOSTER);
	for (int i = 0; i < (keeps ? TRIES : 1) && !agreed; i++)
		agreed = agreed_to_all(keeps ? 2 : 1, i * PHASE_US);
	TEST_ASSERT(agreed, "%s: one was refused in each try", keeps ? "on" : "off");
	try_parameter(DEBOOSTER, "off");
}

/*
 * Has the spinner look in the class of its candidates until the scheduler agrees, which it does
 * once the candidate is not too far ahead. Returns for how long the candidate ran in that look; 0
 * also if it came to its end before. @looked: how often that had looked itself by then.
 */
static u64 look_until_agreed(u32 candidate, u64 *looked)
{
	static const struct sched_param none, first = { .sched_priority = 1 };
	u64 before, agreed = 0, ran = 0;

	*looked = 0;
	TEST_ASSERT(!sched_setscheduler(0, SCHED_OTHER, &none), "SCHED_OTHER");
	for (int i = 0; i < STEPS && !agreed && !READ_ONCE(ended[candidate]); i++) {
		*looked = stat_of(candidate, "strict_boost_looks");
		before = run_ns(candidate);
		run_to_sync(SPINNER);
		ran = run_ns(candidate) - before;
		agreed = stat_of(SPINNER, "strict_boost_agreed");
	}
	TEST_ASSERT(!sched_setscheduler(0, SCHED_FIFO, &first), "SCHED_FIFO");
	TEST_ASSERT(agreed == 1 || (!agreed && READ_ONCE(ended[candidate])), "agreed to %lu",
		    agreed);
	return agreed ? ran : 0;
}

/* In a look that is agreed to, the one that waits for this pCPU has it. */
static void test_gives_way(void)
{
	u64 looked;

	set_parameter(PARAMETER, "on");
	set_parameter(DEBOOSTER, "on");
	make_vm(FIXED);
	start(CANDIDATE, IN_KERNEL);
	TEST_ASSERT(look_until_agreed(CANDIDATE, &looked), "the pCPU was not given up");
	stop(CANDIDATE);
	free_vm(FIXED);
	set_parameter(DEBOOSTER, "off");
}

/* Whether the second spinner looked twice for holders of a lock before its share ended. */
static bool looked_twice(void)
{
	static const char spins[] = " 0 lock spins;";
	struct choice choice = {};
	const char *look, *next;

	read_events("kvm_strict_boost_judged", look_at_judged, &choice);
	look = strstr(choice.judged, " 0 lock ");
	TEST_ASSERT(!look || strstr(look, spins) == look, "judged:%s", choice.judged);
	next = look ? strstr(look + strlen(spins), " 0 lock ") : NULL;
	TEST_ASSERT(!next || strstr(next, " 0 lock chosen;") == next, "judged:%s", choice.judged);
	return next;
}

/*
 * Has the second spinner have the pCPU after the first gave way. Returns false if it had it before,
 * and looked while the first did not spin, or did not look twice.
 */
static bool two_spin(void)
{
	u64 looked;
	bool seen;

	set_parameter(PARAMETER, "on");
	set_parameter(DEBOOSTER, "on");
	make_vm_with(FIXED + 1, second_spinner_code);
	go_on(FIXED, IN_KERNEL);
	record_events("kvm_strict_boost");
	second_spins = true;
	sync_global_to_guest(vm, second_spins);
	seen = look_until_agreed(FIXED, &looked) && !looked && looked_twice();
	stop(FIXED);
	free_vm(FIXED + 1);
	second_spins = false;
	set_parameter(DEBOOSTER, "off");
	return seen;
}

/* One that gave way while it spun is passed over by another's look, and chosen by the next. */
static void test_two_spin(void)
{
	bool seen = false;

	for (int i = 0; i < TRIES && !seen; i++)
		seen = two_spin();
	TEST_ASSERT(seen, "the second spinner never looked twice");
}

/* A VM whose APICs are the VMM's shows no interrupt that waits, and has its holders found. */
static void test_without_apics(void)
{
	struct choice choice;

	set_parameter(PARAMETER, "on");
	make_bare_vm();
	start(CANDIDATE, IN_KERNEL);
	record_events("kvm_strict_boost");
	choice = look(1);
	TEST_ASSERT(!strcmp(choice.chosen, " 1 lock"), "choices%s", choice.chosen);
	stop(CANDIDATE);
	free_vm(CANDIDATE + 1);
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

	TEST_REQUIRE(sysconf(_SC_NPROCESSORS_ONLN) > OTHER_PCPU);
	__TEST_REQUIRE(try_parameter(PARAMETER, "off"), "this kernel has no Strict Boost");
	__TEST_REQUIRE(record_events("kvm_strict_boost"), "this kernel does not trace it");
	TEST_ASSERT(!sigaction(SIGUSR1, &leave, NULL), "sigaction");
	kvm_pin_this_task_to_pcpu(PCPU);
	TEST_ASSERT(!sched_setscheduler(0, SCHED_FIFO, &first), "SCHED_FIFO");
	for (int i = 0; i < ARRAY_SIZE(situations); i++) {
		test_situation(&situations[i], false);
		test_situation(&situations[i], true);
	}
	test_places();
	test_agreed(false);
	if (!access(DEBOOSTER, F_OK)) {
		test_agreed(true);
		test_gives_way();
		test_two_spin();
	}
	test_without_apics();
	test_questions();
	set_parameter(PARAMETER, "off");
	return 0;
}
