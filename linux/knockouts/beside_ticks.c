// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest's program for linux/knockout: timers that fire shortly before each tick of the host.
 *
 *   beside_ticks busy|waking|idle FIRST_US LAST_US TICKS
 *
 * On each CPU a timer fires before each of TICKS ticks, at first FIRST_US before, at last LAST_US.
 * busy: a thread computes there meanwhile, and the timer wakes another. waking: that thread wakes
 * up 2 ms before a tick, and computes until 0.5 ms behind it. idle: the timer wakes no thread.
 * Ticks are due where CLOCK_MONOTONIC_COARSE moves on, which a computing CPU sees.
 * Prints how many ticks of the host had their work done on all CPUs, per cent of those that were
 * due, and the CPU time that was counted, per cent of what passed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 4000000LL
#define CPUS 2
#define CALIBRATION 25

static long long phase_ns, first_ns, last_ns, ticks;
static atomic_bool stopped;

static long long now_ns(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static struct timespec at(long long ns)
{
	return (struct timespec){ ns / 1000000000, ns % 1000000000 };
}

static void bind_to(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit(1);
}

/* Where in a period a tick is due: the earliest of some that came. */
static void calibrate(void)
{
	long long reference = 0, least = TICK_NS, before, off;

	for (int i = 0; i < CALIBRATION; i++) {
		before = now_ns(CLOCK_MONOTONIC_COARSE);
		while (now_ns(CLOCK_MONOTONIC_COARSE) == before)
			;
		before = now_ns(CLOCK_MONOTONIC);
		if (!reference)
			reference = before;
		off = (before - reference) % TICK_NS;
		if (off > TICK_NS / 2)
			off -= TICK_NS;
		if (off < least)
			least = off;
	}
	phase_ns = (reference + least) % TICK_NS;
}

static long long fires_at(long long start, long long index)
{
	return start + index * TICK_NS - first_ns - (last_ns - first_ns) * index / ticks;
}

/* The first tick that is due 20 ms from now or later. */
static long long begin(void)
{
	long long now = now_ns(CLOCK_MONOTONIC) + 5 * TICK_NS;

	return now - now % TICK_NS + phase_ns;
}

static void *compute(void *cpu)
{
	bind_to((long)cpu);
	while (!stopped)
		;
	return NULL;
}

static void *wake_and_compute(void *cpu)
{
	long long tick = begin();

	bind_to((long)cpu);
	for (; !stopped; tick += TICK_NS) {
		struct timespec time = at(tick - TICK_NS / 2);

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
		while (now_ns(CLOCK_MONOTONIC) < tick + TICK_NS / 8)
			;
	}
	return NULL;
}

static void *woken(void *cpu)
{
	long long start = begin();

	bind_to((long)cpu);
	for (long long index = 0; index < ticks; index++) {
		struct timespec time = at(fires_at(start, index));

		clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
	}
	return NULL;
}

/* Timers that no thread waits for: as many as there are ticks, each on this CPU. */
static void *unheard(void *cpu)
{
	long long start = begin();
	struct timespec time = at(start + ticks * TICK_NS);
	int file[ticks];

	bind_to((long)cpu);
	for (long long index = 0; index < ticks; index++) {
		struct itimerspec set = { .it_value = at(fires_at(start, index)) };

		file[index] = timerfd_create(CLOCK_MONOTONIC, 0);
		timerfd_settime(file[index], TFD_TIMER_ABSTIME, &set, NULL);
	}
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, NULL);
	for (long long index = 0; index < ticks; index++)
		close(file[index]);
	return NULL;
}

/* The sum of the first numbers behind a word at the beginning of lines of a file. */
static long long sum(const char *path, const char *word, int count)
{
	FILE *file = fopen(path, "r");
	char line[4096], *next;
	long long all = 0;

	while (file && fgets(line, sizeof(line), file)) {
		next = line + strspn(line, " .");
		if (strncmp(next, word, strlen(word)))
			continue;
		next += strcspn(next, " :");
		next += strspn(next, " :");
		for (int i = 0; i < count; i++)
			all += strtoll(next, &next, 10);
	}
	if (file)
		fclose(file);
	return all;
}

int main(int argc, char **argv)
{
	pthread_t thread[2 * CPUS];
	long long handled, counted, start;
	int threads = 0;
	bool is_idle, is_waking;

	if (argc != 5)
		return 2;
	is_idle = !strcmp(argv[1], "idle");
	is_waking = !strcmp(argv[1], "waking");
	first_ns = atoll(argv[2]) * 1000;
	last_ns = atoll(argv[3]) * 1000;
	ticks = atoll(argv[4]);
	bind_to(0);
	/* Timers are to fire when they are due. Threads take this over. */
	prctl(PR_SET_TIMERSLACK, 1);
	calibrate();
	for (long cpu = 0; !is_idle && cpu < CPUS; cpu++)
		pthread_create(&thread[threads++], NULL, is_waking ? wake_and_compute : compute,
			       (void *)cpu);
	handled = sum("/proc/timer_list", "virtual_ticks", 1);
	counted = sum("/proc/stat", "cpu ", 3);
	start = now_ns(CLOCK_MONOTONIC);
	for (long cpu = 0; cpu < CPUS; cpu++)
		pthread_create(&thread[threads++], NULL, is_idle ? unheard : woken, (void *)cpu);
	for (int i = threads; i-- > threads - CPUS;)
		pthread_join(thread[i], NULL);
	start = now_ns(CLOCK_MONOTONIC) - start;
	handled = sum("/proc/timer_list", "virtual_ticks", 1) - handled;
	counted = sum("/proc/stat", "cpu ", 3) - counted;
	stopped = true;
	printf("handled %lld counted %lld\n",
	       handled * 100 * TICK_NS / start / CPUS,
	       counted * 100 * 10000000LL / start / CPUS);
	return 0;
}
