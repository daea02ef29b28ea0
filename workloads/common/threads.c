/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "threads.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

#include "clock.h"
#include "talk.h"

#define NS_PER_S UINT64_C(1000000000)
#define NS_PER_MS UINT64_C(1000000)

void cpus_read(struct cpus *cpus)
{
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set))
		fail(EXIT_FAULT, "sched_getaffinity: %s", strerror(errno));
	cpus->count = 0;
	for (unsigned int cpu = 0; cpu < CPUS_MAX && cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &set))
			cpus->id[cpus->count++] = cpu;
}

void pin_self(unsigned int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail(EXIT_FAULT, "pinning to CPU %u: %s", cpu, strerror(errno));
}

pthread_t start_pinned(unsigned int cpu, void *(*body)(void *), void *argument)
{
	pthread_attr_t attributes;
	pthread_t thread;
	cpu_set_t set;
	int error;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	error = pthread_attr_init(&attributes);
	if (!error)
		error = pthread_attr_setaffinity_np(&attributes, sizeof(set), &set);
	if (!error)
		error = pthread_create(&thread, &attributes, body, argument);
	if (error)
		fail(EXIT_FAULT, "starting a thread on CPU %u: %s", cpu, strerror(error));
	pthread_attr_destroy(&attributes);
	return thread;
}

void join(pthread_t thread)
{
	int error = pthread_join(thread, NULL);

	if (error)
		fail(EXIT_FAULT, "pthread_join: %s", strerror(error));
}

void gate_init(struct gate *gate, uint64_t deadline_ns)
{
	pthread_condattr_t attributes;

	memset(gate, 0, sizeof(*gate));
	gate->deadline_ns = deadline_ns;
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&gate->changed, &attributes);
	pthread_mutex_init(&gate->mutex, NULL);
	pthread_condattr_destroy(&attributes);
}

static void gate_wait(struct gate *gate)
{
	struct timespec end = {
		.tv_sec = (time_t)(gate->deadline_ns / NS_PER_S),
		.tv_nsec = (long)(gate->deadline_ns % NS_PER_S),
	};

	if (pthread_cond_timedwait(&gate->changed, &gate->mutex, &end) == ETIMEDOUT)
		fail(EXIT_FAULT,
		     "only %u threads were ready to start within --time-limit-ms; raise it",
		     gate->arrived);
}

void gate_pass(struct gate *gate)
{
	pthread_mutex_lock(&gate->mutex);
	gate->arrived++;
	pthread_cond_broadcast(&gate->changed);
	while (!gate->open)
		gate_wait(gate);
	pthread_mutex_unlock(&gate->mutex);
}

uint64_t gate_open(struct gate *gate, unsigned int workers)
{
	uint64_t start_ns;

	pthread_mutex_lock(&gate->mutex);
	while (gate->arrived < workers)
		gate_wait(gate);
	gate->open = true;
	start_ns = clock_monotonic_ns();
	pthread_cond_broadcast(&gate->changed);
	pthread_mutex_unlock(&gate->mutex);
	return start_ns;
}

uint64_t deadline_after_ms(uint64_t limit_ms)
{
	return clock_monotonic_ns() + limit_ms * NS_PER_MS;
}

uint64_t random_next(uint64_t *state)
{
	uint64_t value = *state += UINT64_C(0x9e3779b97f4a7c15);

	value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
	return value ^ (value >> 31);
}

uint64_t random_below(uint64_t *state, uint64_t bound)
{
	return (uint64_t)(((unsigned __int128)random_next(state) * bound) >> 64);
}
