// SPDX-License-Identifier: GPL-2.0-only
/*
 * Each fault that can be planted in Debooster is seen by a check of its tests.
 */
#include "debooster_checks.h"
#include "debooster_places.h"

#define FAULT "/sys/module/sched/parameters/debooster_fault"

/* Each returns whether the bound is broken that the fault is about. */
static int one_queue(void)
{
	return check_hostile(ONE_QUEUE) & LEAD;
}

static int groups(void)
{
	return check_hostile(GROUPS) & LEAD;
}

static int sleeper(void)
{
	return check_hostile(SLEEPER) & EARLY;
}

static const struct {
	const char *name;
	int (*check)(void);
} faults[] = {
	{ "allowance", one_queue },
	{ "level", groups },
	{ "lent", sleeper },
	{ "poller", check_poller },
	{ "sibling", check_sibling },
	{ "weight", check_weight },
};

int main(int argc, char *argv[])
{
	int broken;

	require_debooster();
	__TEST_REQUIRE(try_parameter(FAULT, "none"), "this kernel has no " FAULT);
	for (int i = 0; i < ARRAY_SIZE(faults); i++) {
		set_parameter(FAULT, faults[i].name);
		broken = faults[i].check();
		set_parameter(FAULT, "none");
		TEST_ASSERT(broken, "the fault %s is not seen", faults[i].name);
	}
	return 0;
}
