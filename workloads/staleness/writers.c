/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "staleness/writers.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "threads.h"

struct writer writers[WRITERS_MAX];
atomic_uint hot[REVOKERS_MAX];
unsigned int hot_count;
atomic_bool writers_stop;

static _Thread_local struct writer *self;
static struct gate *start_gate;

/* A slot that was taken away ends a writer's store here. */
static void on_fault(int signal_number, siginfo_t *info, void *context)
{
	const unsigned char *at = info->si_addr;

	(void)context;
	if (!self || !in_a_slot(at)) {
		signal(signal_number, SIG_DFL); /* not ours: let it end the process */
		return;
	}
	siglongjmp(self->retry, 1);
}

static void answer(struct writer *writer, struct slot *slot, uint64_t number)
{
	for (unsigned int page = 0; page < slot->pages; page++)
		*word_at(slot->at, page, ANSWER + writer->index) = number;
	writer->answered[slot - slots] = number;
	writer->answers++;
	atomic_store_explicit(&slot->answered[writer->index], number, memory_order_release);
}

/* Mostly what is about to be taken away, so that translations are there to go stale. */
static struct slot *choose_slot(uint64_t *stream)
{
	unsigned int revoker = (unsigned int)random_below(stream, hot_count);

	if (random_below(stream, 4))
		return &slots[atomic_load_explicit(&hot[revoker], memory_order_relaxed)];
	return &slots[random_below(stream, SLOTS)];
}

/* The last page each time: it is what a range that is too short leaves out. */
static void store(struct writer *writer, struct slot *slot)
{
	unsigned int page = (unsigned int)random_below(&writer->stream, slot->pages);
	uint64_t value = value_of(slot, writer->index, ++writer->sequence);

	*word_at(slot->at, page, writer->index) = value;
	*word_at(slot->at, slot->pages - 1, writer->index) = value;
	writer->writes++;
}

static void *writer_body(void *argument)
{
	struct writer *writer = argument;

	self = writer;
	atomic_store(&writer->task, (pid_t)syscall(SYS_gettid));
	gate_pass(start_gate);
	/* Nothing lives in locals across the jump. */
	if (sigsetjmp(writer->retry, 0))
		writer->faults++;
	while (!atomic_load_explicit(&writers_stop, memory_order_relaxed)) {
		struct slot *slot = choose_slot(&writer->stream);
		uint64_t number = atomic_load_explicit(&slot->number, memory_order_acquire);

		if (number && number != writer->answered[slot - slots])
			answer(writer, slot, number);
		store(writer, slot);
	}
	return NULL;
}

void catch_faults(void)
{
	struct sigaction action = { .sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_NODEFER };

	sigaction(SIGSEGV, &action, NULL);
}

void start_writer(unsigned int index, unsigned int cpu, uint64_t seed, struct gate *gate)
{
	struct writer *writer = &writers[index];

	start_gate = gate;
	writer->index = index;
	writer->stream = seed;
	writer->thread = start_pinned(cpu, writer_body, writer);
}
