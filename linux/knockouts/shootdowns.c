// SPDX-License-Identifier: GPL-2.0-only
/*
 * A guest's program for linux/knockout: TLB shootdowns of one kind.
 *
 *   shootdowns page|pages|tables|turns running|asleep COUNT
 *
 * A thread on CPU 0 does COUNT operations; threads on the other CPUs have used the pages, and run
 * or are asleep meanwhile. page: revokes writes to one page; pages: to 64, which are flushed as a
 * whole; tables: unmaps 4 MiB with their page tables; turns: as page, by two threads in turn.
 * Fails if CPU 0 can write to what it revoked. Prints how many flushes that CPUs did themselves
 * were of everything, by the kernel's trace.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CPUS 4
#define PAGE 4096ul
#define LARGE (2ul << 20)
#define TRACING "/sys/kernel/tracing/"

static char *memory;
static atomic_int ready, turn;
static atomic_bool stopped;
static bool is_asleep;
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static sigjmp_buf refused;

static void write_to(char *place)
{
	__atomic_store_n(place, 1, __ATOMIC_RELAXED);
}

static void bind_to(long cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		exit(2);
}

static void on_fault(int signal)
{
	siglongjmp(refused, 1);
}

static bool can_write(char *place)
{
	if (sigsetjmp(refused, 1))
		return false;
	write_to(place);
	return true;
}

static void set_writable(char *place, size_t size, bool is_writable)
{
	if (mprotect(place, size, is_writable ? PROT_READ | PROT_WRITE : PROT_READ))
		exit(3);
}

/* Revokes writes, and gives them back. */
static void revoke_writes(char *place, size_t size)
{
	write_to(place);
	set_writable(place, size, false);
	if (can_write(place)) {
		printf("FAILED: a write landed where it may not\n");
		exit(1);
	}
	set_writable(place, size, true);
}

static void *user(void *cpu)
{
	bind_to((long)cpu);
	for (size_t at = 0; at < 3 * LARGE; at += LARGE)
		write_to(memory + at);
	ready++;
	if (is_asleep) {
		pthread_mutex_lock(&gate);
		pthread_mutex_unlock(&gate);
	}
	while (!stopped)
		;
	return NULL;
}

/* The other of two that take turns, on CPU 1. */
static void *second(void *count)
{
	bind_to(1);
	for (long round = 0; round < (long)count; round++) {
		while (turn != 1)
			;
		set_writable(memory + PAGE, PAGE, round % 2);
		turn = 0;
	}
	return NULL;
}

static void take_turns(long count)
{
	pthread_t thread;

	write_to(memory);
	write_to(memory + PAGE);
	pthread_create(&thread, NULL, second, (void *)count);
	for (long round = 0; round < count; round++) {
		set_writable(memory, PAGE, round % 2);
		turn = 1;
		while (turn)
			;
	}
	pthread_join(thread, NULL);
}

/* Unmaps what lies between two parts of 2 MiB that stay, so that page tables go. */
static void unmap(void)
{
	char *place = memory + 4 * LARGE;

	if (mmap(place, 2 * LARGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != place)
		exit(4);
	write_to(place);
	write_to(place + LARGE);
	munmap(place, 2 * LARGE);
}

static void put(const char *path, const char *words)
{
	FILE *file = fopen(path, "w");

	if (file) {
		fputs(words, file);
		fclose(file);
	}
}

/* Flushes of everything that the trace has, which CPUs did for themselves. */
static int whole_flushes(void)
{
	FILE *file = fopen(TRACING "trace", "r");
	char line[512];
	int count = 0;

	while (file && fgets(line, sizeof(line), file))
		count += strstr(line, "local mm shootdown") && strstr(line, "pages:-1");
	if (file)
		fclose(file);
	return count;
}

int main(int argc, char **argv)
{
	pthread_t thread[CPUS];
	long users = CPUS - 1, count;

	if (argc != 4)
		return 2;
	is_asleep = !strcmp(argv[2], "asleep");
	count = atol(argv[3]);
	if (!strcmp(argv[1], "turns"))
		users = 0;
	signal(SIGSEGV, on_fault);
	bind_to(0);
	memory = mmap(NULL, 8 * LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		return 4;
	memory += LARGE - (unsigned long)memory % LARGE;
	pthread_mutex_lock(&gate);
	for (long cpu = 1; cpu <= users; cpu++)
		pthread_create(&thread[cpu], NULL, user, (void *)cpu);
	while (ready < users)
		usleep(1000);
	usleep(20000);
	put(TRACING "trace", "");
	put(TRACING "events/tlb/tlb_flush/enable", "1");
	if (!users)
		take_turns(count);
	for (long round = 0; users && round < count; round++) {
		if (!strcmp(argv[1], "tables"))
			unmap();
		else
			revoke_writes(memory, strcmp(argv[1], "pages") ? PAGE : 64 * PAGE);
	}
	put(TRACING "events/tlb/tlb_flush/enable", "0");
	printf("whole %d\n", whole_flushes());
	stopped = true;
	pthread_mutex_unlock(&gate);
	for (long cpu = 1; cpu <= users; cpu++)
		pthread_join(thread[cpu], NULL);
	return 0;
}
