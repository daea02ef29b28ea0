/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a group owes on a pCPU, and what becomes of it where Debooster moves one of its vCPUs to
 * another pCPU. The group has little weight and one competitor. So it waits long after each turn
 * there, and it owes what it had in the turn.
 */
#ifndef SELFTEST_KVM_DEBOOSTER_DEBTS_H
#define SELFTEST_KVM_DEBOOSTER_DEBTS_H

#include "debooster_places.h"

#define FEATURES "/sys/kernel/debug/sched/features"
#define DEBTOR "debtor"
/* A turn of that length is paid back in more than 100 ms, if the weight is 2 beside one of 100. */
#define TURN_NS 2000000
#define WEIGHT "2"
#define OBSERVED_MS 50
/* What a vCPU may have run by then that must not have run at all: on the way to its new pCPU. */
#define MOST_NS 1000000

/* Does not pause, which would be taken for spinning, and end its turn. */
static inline void steady_guest_code(void)
{
	x2apic_enable();
	asm volatile("1: jmp 1b");
}

/* Removes a group without vCPUs: one that is made then owes nothing. */
static inline void forget_debts(void)
{
	rmdir(CGROUPS DEBTOR);
}

/* What a thread had run when that was last accounted: to ask for its clock would end its slice. */
static inline u64 accounted_ns(const struct runner *runner)
{
	char path[64];
	FILE *file;
	u64 ns;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", runner->tid);
	file = fopen(path, "r");
	TEST_ASSERT(file && fscanf(file, "%lu", &ns) == 1, "reading %s", path);
	fclose(file);
	return ns;
}

/*
 * Has ticks end turns, and not the scheduler's own timer, which is on in 7.3 and ends them after
 * the tiny slice of this test. Returns whether that was on.
 */
static inline bool set_hrtick(bool on)
{
	char features[2048] = " ";
	FILE *file = fopen(FEATURES, "r");

	TEST_ASSERT(file && fgets(features + 1, sizeof(features) - 1, file), "reading " FEATURES);
	fclose(file);
	set_parameter(FEATURES, on ? "HRTICK" : "NO_HRTICK");
	return strstr(features, " HRTICK ");
}

static inline void restore_hrtick(void)
{
	set_hrtick(true);
}

/* Waits until these have had a turn, and wait again. */
static inline void wait_for_turn(const struct runner *first, const struct runner *second)
{
	u64 before = 0, last = 0, now;

	for (int i = 0; i < 5000; i++) {
		now = accounted_ns(first) + accounted_ns(second);
		if (now == last) {
			if (before && now - before >= TURN_NS)
				return;
			before = now;
		}
		last = now;
		usleep(1000);
	}
	TEST_FAIL("a group of little weight has no turn");
}

/*
 * How long the boosted vCPU runs from when it may run on both pCPUs; it has to be moved at once.
 * Shows nothing where this thread came to look so late that the debt may be paid.
 */
static inline u64 ran_once_free(void)
{
	u64 before = cpu_time_ns(&pair.boosted), began = clock_ns(CLOCK_MONOTONIC), ran, took;

	pin(pair.boosted.thread, 0, 1);
	usleep(OBSERVED_MS * 1000);
	ran = cpu_time_ns(&pair.boosted) - before;
	took = clock_ns(CLOCK_MONOTONIC) - began;
	TEST_ASSERT(moves_until_now(), "not moved although it owes");
	pr_info("ran for %lu ns in %lu although it owed; ", ran, took);
	return took > 3 * OBSERVED_MS * 1000000ULL / 2 ? 0 : ran;
}

/* A debt goes along, though another vCPU of the group stays behind and owes the same. */
static inline int check_debt(void)
{
	pid_t other = start_task(1, 1, 0, false);
	bool hrtick = set_hrtick(false);
	u64 ran;

	/* Also where an assertion ends the test. */
	if (hrtick)
		atexit(restore_hrtick);
	forget_debts();
	need_pair_with(steady_guest_code);
	usleep(SETTLE_US / 2);
	start_on(&pair.third, 0, vcpu_thread);
	group(DEBTOR, WEIGHT, &pair.boosted, &pair.third);
	record_moves();
	set_parameter(PARAMETER, "on");
	wait_for_turn(&pair.boosted, &pair.third);
	ran = ran_once_free();
	set_hrtick(hrtick);
	stop(&pair.third);
	return leave("a debt goes along", &other, 1, ran > MOST_NS);
}

#endif /* SELFTEST_KVM_DEBOOSTER_DEBTS_H */
