/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * hostload: what a host does beside its VMs, made to measure.
 *
 * Under a name of its choice, on one CPU if it is pinned:
 * - compute: runs for --busy-us of its own CPU time, then sleeps for --idle-us, again and again,
 *   as a backup or a monitor does; with --fifo it goes before all ordinary threads;
 * - sample: has the CPU interrupted every --period-us by a sampling event that it never reads, as a
 *   profiler of the whole host does, and sleeps;
 * - scan: clears the referenced marks of every process named --of, as tools that estimate a working
 *   set do. The kernel holds the lock of that process's memory map meanwhile, and a vCPU that
 *   touches memory for the first time has to wait for it.
 *
 * It goes on until SIGTERM or SIGINT, or for --seconds, and then says how often it did it.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "options.h"
#include "report.h"
#include "talk.h"
#include "threads.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_S UINT64_C(1000000000)
#define NO_CPU UINT64_C(1024)
#define PROCESSES_MAX 64

enum mode { COMPUTE, SAMPLE, SCAN };

static struct settings {
	uint64_t mode, pcpu, busy_us, idle_us, period_us, fifo, seconds;
	const char *name, *of;
} settings = {
	.mode = COMPUTE,
	.pcpu = NO_CPU,
	.busy_us = 10000,
	.period_us = 1000,
	.name = "hostload",
	.of = "steady-vmm",
};

static volatile sig_atomic_t stop;

static void stops(int signal_number)
{
	(void)signal_number;
	stop = 1;
}

static uint64_t own_cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

/* A signal ends the sleep early; the caller looks at stop. */
static void sleep_us(uint64_t us)
{
	uint64_t ns = us * NS_PER_US;
	struct timespec left = { .tv_sec = (time_t)(ns / NS_PER_S),
				 .tv_nsec = (long)(ns % NS_PER_S) };

	if (us)
		nanosleep(&left, NULL);
}

/* One turn takes --busy-us of CPU time, however long others hold the CPU meanwhile. */
static uint64_t compute(void)
{
	uint64_t turns = 0, state = 1;

	while (!stop) {
		uint64_t end_ns = own_cpu_ns() + settings.busy_us * NS_PER_US;

		while (!stop && own_cpu_ns() < end_ns)
			for (int step = 0; step < 64; step++) {
				state = state * UINT64_C(6364136223846793005) + 1;
				__asm__ volatile("" : "+r"(state));
			}
		turns++;
		sleep_us(settings.idle_us);
	}
	return turns;
}

static uint64_t sample(void)
{
	struct perf_event_attr what = {
		.size = sizeof(what),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = settings.period_us * NS_PER_US,
	};
	uint64_t counted = 0;
	long event;

	if (settings.pcpu == NO_CPU)
		fail(EXIT_USAGE, "--mode sample needs --pcpu");
	event = syscall(SYS_perf_event_open, &what, -1, (int)settings.pcpu, -1, 0);
	if (event < 0)
		fail(EXIT_FAULT, "perf_event_open: %s", strerror(errno));
	while (!stop)
		sleep_us(NS_PER_S / NS_PER_US);
	if (read((int)event, &counted, sizeof(counted)) != sizeof(counted))
		fail(EXIT_FAULT, "read the sampling event: %s", strerror(errno));
	close((int)event);
	return counted / (settings.period_us * NS_PER_US);
}

static bool is_named(const char *process, const char *name)
{
	char path[64], comm[32] = "";
	ssize_t length;
	int file;

	snprintf(path, sizeof(path), "/proc/%s/comm", process);
	file = open(path, O_RDONLY);
	if (file < 0)
		return false;
	length = read(file, comm, sizeof(comm) - 1);
	close(file);
	comm[length > 0 ? length : 0] = '\0';
	comm[strcspn(comm, "\n")] = '\0';
	return !strcmp(comm, name);
}

/* Opens clear_refs of each process of that name; returns how many there are. */
static unsigned int find_marks(int *files)
{
	unsigned int found = 0;
	struct dirent *entry;
	DIR *proc = opendir("/proc");

	if (!proc)
		fail(EXIT_FAULT, "opendir /proc: %s", strerror(errno));
	while (found < PROCESSES_MAX && (entry = readdir(proc))) {
		char path[64];

		if (strspn(entry->d_name, "0123456789") != strlen(entry->d_name) ||
		    strlen(entry->d_name) > 16 || !is_named(entry->d_name, settings.of))
			continue;
		snprintf(path, sizeof(path), "/proc/%.16s/clear_refs", entry->d_name);
		files[found] = open(path, O_WRONLY);
		if (files[found] < 0)
			fail(EXIT_FAULT, "open %s: %s", path, strerror(errno));
		found++;
	}
	closedir(proc);
	if (!found)
		fail(EXIT_FAULT, "no process is named %s", settings.of);
	return found;
}

static uint64_t scan(void)
{
	int files[PROCESSES_MAX];
	unsigned int count = find_marks(files);
	uint64_t scans = 0;

	while (!stop) {
		for (unsigned int at = 0; at < count; at++)
			if (write(files[at], "1", 1) != 1 && errno != EINTR)
				fail(EXIT_FAULT, "write clear_refs: %s", strerror(errno));
		scans++;
		sleep_us(settings.idle_us);
	}
	return scans;
}

static void read_options(int argc, char **argv)
{
	static const char *const modes[] = { "compute", "sample", "scan", NULL };
	const struct program_help help = {
		.name = "hostload",
		.summary = "what a host does beside its VMs",
		.example = "hostload --name backup --busy-us 4000 --idle-us 6000 --seconds 1",
	};
	const struct option_rule rules[] = {
		{ .name = "mode", .kind = OPTION_CHOICE, .count = &settings.mode, .choices = modes,
		  .help = "compute, sample or scan" },
		{ .name = "name", .kind = OPTION_TEXT, .text = &settings.name,
		  .help = "name of its thread; the kernel keeps 15 letters" },
		{ .name = "of", .kind = OPTION_TEXT, .text = &settings.of,
		  .help = "scan: name of the processes that it looks over" },
		{ .name = "pcpu", .count = &settings.pcpu, .min = 0, .max = NO_CPU,
		  .help = "CPU that it runs on, or that it has interrupted; 1024: any" },
		{ .name = "busy-us", .count = &settings.busy_us, .min = 1, .max = 10000000,
		  .help = "compute: CPU time of one turn, us" },
		{ .name = "idle-us", .count = &settings.idle_us, .min = 0, .max = 10000000,
		  .help = "compute, scan: sleep between two turns, us" },
		{ .name = "period-us", .count = &settings.period_us, .min = 10, .max = 1000000,
		  .help = "sample: time between two interrupts, us" },
		{ .name = "fifo", .count = &settings.fifo, .min = 0, .max = 99,
		  .help = "real-time priority under SCHED_FIFO; 0: an ordinary thread" },
		{ .name = "seconds", .count = &settings.seconds, .min = 0, .max = 86400,
		  .help = "stop after this long, s; 0: on SIGTERM or SIGINT" },
		{ .name = NULL },
	};

	options_parse(argc, argv, &help, rules);
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = stops };
	uint64_t start_ns = clock_monotonic_ns(), turns;

	read_options(argc, argv);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	alarm((unsigned int)settings.seconds);
	prctl(PR_SET_NAME, settings.name);
	if (settings.pcpu != NO_CPU && settings.mode != SAMPLE)
		pin_self((unsigned int)settings.pcpu);
	if (settings.fifo) {
		struct sched_param priority = { .sched_priority = (int)settings.fifo };

		if (sched_setscheduler(0, SCHED_FIFO, &priority))
			fail(EXIT_FAULT, "SCHED_FIFO: %s", strerror(errno));
	}
	switch ((enum mode)settings.mode) {
	case SAMPLE:
		turns = sample();
		break;
	case SCAN:
		turns = scan();
		break;
	default:
		turns = compute();
	}
	report_work("hostload", turns, clock_monotonic_ns() - start_ns);
	report_print("hostload");
	return EXIT_SUCCESS;
}
