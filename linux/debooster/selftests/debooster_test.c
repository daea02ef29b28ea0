// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest that yields on purpose gains nothing by it: with groups and without, with weights, beside
 * a task of a real-time class, and where a task of its group sleeps again and again.
 */
#include "debooster_checks.h"

int main(int argc, char *argv[])
{
	int broken;

	require_debooster();
	for (int i = 0; i < ARRAY_SIZE(shapes); i++) {
		broken = check_hostile(&shapes[i]);
		TEST_ASSERT(!broken, "%s: bounds %#x are broken", shapes[i].name, broken);
	}
	return 0;
}
