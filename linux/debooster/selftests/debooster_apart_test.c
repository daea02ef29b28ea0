// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where Debooster moves a vCPU to, where it must not move one, how far and how often it looks for a
 * place, and what becomes of debts. Then two vCPUs of a guest are on one pCPU, and two of another
 * on a second. One yields to the other without end: Debooster has to separate the two, which
 * without it stay together, and the guest must not gain by it. At last, what Debooster does while a
 * pCPU goes and comes back.
 */
#include "debooster_debts.h"

/* Windows at whose end the two may be together: they are parted at a yield, and not before. */
#define MOST_TOGETHER 1
/* Windows at whose end the two are together without Debooster, or the test shows nothing. */
#define LEAST_TOGETHER 2
#define ONLINE "/sys/devices/system/cpu/cpu1/online"

static struct runner free_pair[2];

/* Has two vCPUs run, beginning on one pCPU, each free to run on both. */
static void start_free_pair(int pcpu, void *first, void *second)
{
	struct kvm_vm *vm = vm_create(2);

	free_pair[0].vcpu = vm_vcpu_add(vm, YIELDER_ID, first);
	free_pair[1].vcpu = vm_vcpu_add(vm, BOOSTED_ID, second);
	for (int i = 0; i < 2; i++)
		start_on(&free_pair[i], pcpu, vcpu_thread);
	usleep(SETTLE_US);
	for (int i = 0; i < 2; i++)
		pin(free_pair[i].thread, 0, 1);
}

static pid_t start_other(void)
{
	pid_t pid = fork();

	TEST_ASSERT(pid >= 0, "fork");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	start_free_pair(1, counter_guest_code, counter_guest_code);
	for (;;)
		pause();
}

static void process_times(pid_t other, u64 *ns)
{
	clockid_t clock;

	ns[0] = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
	TEST_ASSERT(!clock_getcpuclockid(other, &clock), "clock_getcpuclockid");
	ns[1] = clock_ns(clock);
}

/* Counts at how many ends of windows the pair is together; checks its share. */
static int windows_together(const char *mode, pid_t other)
{
	u64 first[2], from[2], to[2], share, most = 0;
	int together = 0;

	process_times(other, first);
	memcpy(from, first, sizeof(from));
	for (int i = 0; i < WINDOWS; i++) {
		usleep(WINDOW_MS * 1000);
		process_times(other, to);
		together += place(free_pair[0].tid) == place(free_pair[1].tid);
		most = max(most, percent(to[0] - from[0], to[1] - from[1]));
		memcpy(from, to, sizeof(from));
	}
	share = percent(to[0] - first[0], to[1] - first[1]);
	pr_info("%-3s together at the end of %d of %d windows; has %lu %%, most %lu %% in %d ms\n",
		mode, together, WINDOWS, share, most, WINDOW_MS);
	TEST_ASSERT(share <= 50 + GAIN_OF_ALL, "%s: %lu %%", mode, share);
	TEST_ASSERT(most <= 50 + GAIN_OF_WINDOW, "%s: %lu %% in a window", mode, most);
	return together;
}

static void must_be_put_apart(void)
{
	pid_t other = start_other();
	struct traced traced;
	int together;

	start_free_pair(0, yielder_guest_code, counter_guest_code);
	together = windows_together("off", other);
	TEST_ASSERT(together >= LEAST_TOGETHER, "not together to begin with");
	watch();
	usleep(SETTLE_US);
	together = windows_together("on", other);
	traced = watched();
	TEST_ASSERT(together <= MOST_TOGETHER, "not put apart");
	TEST_ASSERT(traced.moves, "put apart by somebody else");
	TEST_ASSERT(traced.most <= traced.slice + traced.slice / 1000, "ahead by %lu ns",
		    traced.most);

	/* While the second pCPU is gone nothing is moved there. */
	for (int i = 0; i < 3; i++) {
		set_parameter(ONLINE, "0");
		watch();
		usleep(SETTLE_US);
		traced = watched();
		set_parameter(ONLINE, "1");
		TEST_ASSERT(!traced.moves, "%d moves to a pCPU that is gone", traced.moves);
	}
	end(other);
	stop(&free_pair[0]);
	stop(&free_pair[1]);
}

/* The base slice as this test has found it. */
static u64 slice;

static void restore_slice(void)
{
	set_base_slice(slice);
}

static void must_be_exchanged(void)
{
	TEST_ASSERT(!check_exchange(), "not exchanged for one of its weight");
}

static void must_stay_within_limits(void)
{
	TEST_ASSERT(!check_allowed(), "not moved where it may be");
	TEST_ASSERT(!check_poller(), "put behind a real-time task");
	TEST_ASSERT(!check_weight(), "put on a pCPU with more weight");
	TEST_ASSERT(!check_fuller(), "put where more tasks are");
	TEST_ASSERT(!check_heavier(), "another put on a pCPU with more weight");
	TEST_ASSERT(!check_sibling(), "put beside another vCPU of its guest");
}

static void must_not_search_long(void)
{
	TEST_ASSERT(!check_long_queues(), "long queues are searched to their ends");
}

static void must_settle(void)
{
	TEST_ASSERT(!check_settled(), "searched or filled too often, or never again");
}

static void must_pay_debts(void)
{
	TEST_ASSERT(!check_debt(), "a debt was left behind");
}

static const struct {
	const char *name;
	void (*test)(void);
} parts[] = {
	{ "exchange", must_be_exchanged },
	{ "limits", must_stay_within_limits },
	{ "queues", must_not_search_long },
	{ "settled", must_settle },
	{ "debts", must_pay_debts },
};

/* Does all, or only the part that is named. */
int main(int argc, char *argv[])
{
	require_debooster();
	slice = base_slice_ns();
	atexit(restore_slice);
	hasten(true);
	set_base_slice(TINY_SLICE_NS);
	for (int i = 0; i < ARRAY_SIZE(parts); i++) {
		if (argc == 1 || !strcmp(argv[1], parts[i].name))
			parts[i].test();
	}
	if (pair.vm)
		stop_pair();
	forget_debts();
	restore_slice();
	hasten(false);
	if (argc == 1)
		must_be_put_apart();
	set_parameter(PARAMETER, "off");
	return 0;
}
