// SPDX-License-Identifier: GPL-2.0-only
/*
 * A hostile guest: one of its vCPUs does nothing but ask the host to run another one, by the
 * hypercall for directed yields, as often as it can. KVM passes a yield on only where somebody else
 * waits for the yielder's pCPU, so a thread of low priority does. The boosted vCPU shares its own
 * pCPU with a vCPU of a second VM, which must keep its half in every mode of sched.debooster.
 */
#include "debooster.h"

/* Yields that the scheduler must have agreed to in all windows, or the test shows nothing. */
#define LEAST_YIELDS 20

static const char * const modes[] = { "off", "penalty", "nudge", "apart" };
#define FIRST_THAT_LENDS 2	/* of the modes */

/* The base slice of eight pCPUs and more; with fewer it is shorter. */
#define MOST_DEBT_NS 3000000

struct shares {
	u64 all;	/* what the boosted vCPU has of its pCPU over all windows, in per cent */
	u64 most;	/* the most in one of them */
	u64 yields;	/* that the scheduler agreed to, in all windows */
};

/* Waits for the yielder's pCPU, and has next to nothing of it. */
static void *waiting_thread(void *unused)
{
	TEST_ASSERT(nice(19) == 19, "nice");
	for (;;)
		pthread_testcancel();
	return NULL;
}

/* Of the yielder; asked for before it runs, as its thread then has the vCPU. */
static int stats_fd;

/* Directed yields of the yielder that the scheduler agreed to. */
static u64 agreed_yields(void)
{
	struct kvm_stats_header header;
	struct kvm_stats_desc *all, *desc;
	u64 value = UINT64_MAX;

	read_stats_header(stats_fd, &header);
	all = read_stats_descriptors(stats_fd, &header);
	for (u32 i = 0; i < header.num_desc; i++) {
		desc = get_stats_descriptor(all, i, &header);
		if (!strcmp(desc->name, "directed_yield_successful"))
			read_stat_data(stats_fd, &header, desc, &value, 1);
	}
	free(all);
	TEST_ASSERT(value != UINT64_MAX, "KVM does not count directed yields");
	return value;
}

static struct shares boosted_shares(pthread_t boosted, pthread_t neighbour)
{
	u64 first[2], from[2], to[2], share;
	struct shares shares = {};
	int i;

	usleep(WINDOW_MS * 1000);
	from[0] = cpu_time_ns(boosted);
	from[1] = cpu_time_ns(neighbour);
	first[0] = from[0];
	first[1] = from[1];
	shares.yields = agreed_yields();
	for (i = 0; i < WINDOWS; i++) {
		usleep(WINDOW_MS * 1000);
		to[0] = cpu_time_ns(boosted);
		to[1] = cpu_time_ns(neighbour);
		share = percent(to[0] - from[0], to[1] - from[1]);
		shares.most = max(shares.most, share);
		memcpy(from, to, sizeof(from));
	}
	shares.all = percent(to[0] - first[0], to[1] - first[1]);
	shares.yields = agreed_yields() - shares.yields;
	return shares;
}

/* A target that is to run next though it is not eligible is ahead by a base slice at most. */
static void check_debt(const char *text, void *data)
{
	unsigned long debt;
	int mode, agreed;

	TEST_ASSERT(sscanf(text, " pid %*d to pid %*d on cpu %*d mode %d debt %lu agreed %d",
			   &mode, &debt, &agreed) == 3, "an event: %s", text);
	if (mode >= FIRST_THAT_LENDS && agreed)
		TEST_ASSERT(debt <= MOST_DEBT_NS, "ahead by %lu ns: %s", debt, text);
}

static void check(const char *mode, const struct shares *shares)
{
	TEST_ASSERT(shares->yields >= LEAST_YIELDS, "%s: %lu yields", mode, shares->yields);
	TEST_ASSERT(shares->all <= MOST_OF_ALL, "%s: %lu %%", mode, shares->all);
	TEST_ASSERT(shares->most <= MOST_OF_WINDOW, "%s: %lu %%", mode, shares->most);
}

int main(int argc, char *argv[])
{
	struct kvm_vm *hostile = vm_create(2), *other = vm_create(1);
	pthread_t yielder, boosted, neighbour, waiting;
	struct kvm_vcpu *vcpus[3];
	struct shares shares;

	TEST_REQUIRE(sysconf(_SC_NPROCESSORS_ONLN) >= 2);
	vcpus[0] = vm_vcpu_add(hostile, YIELDER_ID, yielder_guest_code);
	vcpus[1] = vm_vcpu_add(hostile, BOOSTED_ID, counter_guest_code);
	vcpus[2] = vm_vcpu_add(other, 0, counter_guest_code);
	stats_fd = vcpu_get_stats_fd(vcpus[0]);
	set_mode("off");
	yielder = start_on(0, vcpu_thread, vcpus[0]);
	boosted = start_on(1, vcpu_thread, vcpus[1]);
	neighbour = start_on(1, vcpu_thread, vcpus[2]);
	waiting = start_on(0, waiting_thread, NULL);

	for (int i = 0; i < ARRAY_SIZE(modes); i++) {
		set_mode(modes[i]);
		record();
		shares = boosted_shares(boosted, neighbour);
		pr_info("%-8s %lu yields: the boosted vCPU has %lu %%, at most %lu %% in %d ms\n",
			modes[i], shares.yields, shares.all, shares.most, WINDOW_MS);
		check(modes[i], &shares);
		TEST_ASSERT(!i || read_events("kvm_debooster_yield", check_debt, NULL),
			    "%s: no yield is traced", modes[i]);
	}
	set_mode("off");
	stop(yielder);
	stop(boosted);
	stop(neighbour);
	stop(waiting);
	kvm_vm_free(hostile);
	kvm_vm_free(other);
	return 0;
}
