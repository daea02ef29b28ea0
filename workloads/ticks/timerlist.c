/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "ticks/timerlist.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "clock.h"
#include "talk.h"

#define PPM UINT64_C(1000000)

/* The number of "  .NAME   : NUMBER ..." if @line is of that name. */
static bool field(const char *line, const char *name, uint64_t *value)
{
	char found[32];

	return sscanf(line, " .%31[a-z_] : %" SCNu64, found, value) == 2 && !strcmp(found, name);
}

/* One line on a CPU. */
static void read_line(struct timerlist *list, struct cpu_ticks *cpu, const char *line)
{
	uint64_t value;

	if (field(line, "idle_sleeptime", &value) || field(line, "iowait_sleeptime", &value))
		cpu->idle_ns += value;
	else if (field(line, "virtual", &value))
		cpu->virtual = value != 0;
	else if (field(line, "virtual_ticks", &value))
		cpu->handled = value;
	else if (field(line, "virtual_idle", &value))
		cpu->in_idle = value;
	else if (field(line, "virtual_seen", &value))
		cpu->seen = value;
	else if (field(line, "virtual_early", &value))
		cpu->early = value;
	else if (sscanf(line, "jiffies: %" SCNu64, &value) == 1) {
		list->jiffies = value;
		cpu->online = true;
		list->cpus++;
	}
}

void timerlist_read(struct timerlist *list)
{
	FILE *file = fopen("/proc/timer_list", "r");
	struct cpu_ticks *cpu = NULL;
	char line[512];
	unsigned int id;

	memset(list, 0, sizeof(*list));
	list->at_ns = clock_monotonic_ns();
	if (!file) {
		talk("/proc/timer_list: %s: ticks are not looked at", strerror(errno));
		return;
	}
	while (fgets(line, sizeof(line), file)) {
		/* By the same clock, and nearer to what follows than ours. */
		if (sscanf(line, "now at %" SCNu64 " nsecs", &list->at_ns) == 1)
			continue;
		if (sscanf(line, "cpu: %u", &id) == 1)
			cpu = id < CPUS_MAX ? &list->cpu[id] : NULL;
		else if (cpu)
			read_line(list, cpu, line);
	}
	fclose(file);
	if (!list->cpus)
		fail(EXIT_FAULT, "/proc/timer_list has no jiffies: a kernel with nohz is expected");
}

void ticks_add(struct ticks_passed *sum, const struct timerlist *before,
	       const struct timerlist *after, unsigned int cpu)
{
	const struct cpu_ticks *from = &before->cpu[cpu];
	const struct cpu_ticks *to = &after->cpu[cpu];
	uint64_t time_ns = after->at_ns - before->at_ns;

	sum->awake_ns += time_ns - (to->idle_ns - from->idle_ns);
	sum->handled += to->handled - from->handled;
	sum->in_idle += to->in_idle - from->in_idle;
	sum->seen += to->seen - from->seen;
	sum->early += to->early - from->early;
}

uint64_t ticks_rate(uint64_t jiffies, uint64_t length_ns)
{
	static const uint64_t rates[] = { 1000, 300, 250 };
	uint64_t about = (jiffies * NS_PER_S + length_ns / 2) / length_ns;

	for (size_t index = 0; index < sizeof(rates) / sizeof(rates[0]); index++)
		if (about * 12 >= rates[index] * 11)
			return rates[index];
	return 100;
}

uint64_t ticks_expected(uint64_t time_ns, uint64_t hz)
{
	return (time_ns * hz + NS_PER_S / 2) / NS_PER_S;
}

uint64_t ticks_difference(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

uint64_t ticks_off_ppm(uint64_t a, uint64_t b)
{
	return ticks_difference(a, b) * PPM / b;
}
