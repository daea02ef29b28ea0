/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ticks/stolen.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "talk.h"

/* USER_HZ, in which the kernel gives times to programs, is 100 on x86. */
#define NS_PER_USER_TICK UINT64_C(10000000)

bool stolen_read(uint64_t *ns)
{
	FILE *file = fopen("/proc/stat", "r");
	uint64_t ticks;
	int found;

	if (!file) {
		talk("/proc/stat: %s: steal time is not looked at", strerror(errno));
		return false;
	}
	/* user nice system idle iowait irq softirq steal; the first line is of all CPUs. */
	found = fscanf(file, "cpu %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &ticks);
	fclose(file);
	if (found != 1) {
		talk("/proc/stat begins with no eight numbers: steal time is not looked at");
		return false;
	}
	*ns = ticks * NS_PER_USER_TICK;
	return true;
}
