/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the test of Paratick's MSR has its vCPU do, and how the test looks at it.
 */
#ifndef SELFTEST_KVM_PARATICK_H
#define SELFTEST_KVM_PARATICK_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <asm/kvm_paratick.h>

#include "apic.h"
#include "host_file.h"
#include "kvm_util.h"
#include "processor.h"
#include "test_util.h"

#define X86_FEATURE_KVM_PARATICK \
	KVM_X86_CPU_FEATURE(0x40000001, 0, EAX, KVM_FEATURE_PARATICK)
#define PARAMETER "/sys/module/kvm/parameters/paratick"
#define SHORTEST_PARAMETER PARAMETER "_min_period_us"

#define TICK_VECTOR 0x40
#define TIMER_VECTOR 0x41
#define DECLARE(period) (((u64)TICK_VECTOR << KVM_PARATICK_VECTOR_SHIFT) | (period))
#define MS 1000000ul
#define SHORTEST MS

/* No host has its own tick in such a period. */
#define ODD_PERIOD 3100000ul

/* The local timer counts nanoseconds: 1 GHz, divided by 1. */
#define DIVIDE_BY_1 0xb
#define TIMER_PERIOD (10 * MS)

/* Long enough for a slow host: a timer's interrupt is taken from 30 ms before a tick. */
#define LONG_PERIOD (960 * MS)

/* What the guest and the test exchange; in memory of the guest. */
struct shared {
	u64 ticks, timers;	/* interrupts so far */
	u64 value;		/* to write, or read */
	u64 until;		/* number of interrupts that ends a wait */
	u64 vector;		/* of the exception, 0: none */
};

static struct kvm_vm *vm;
static struct kvm_vcpu *vcpu;
static struct shared *shared, *guest_shared;
/* Whether the next VM's vCPU halts without leaving the guest. */
static bool halting;

static inline void tick_handler(struct ex_regs *regs)
{
	guest_shared->ticks++;
	x2apic_write_reg(APIC_EOI, 0);
}

static inline void timer_handler(struct ex_regs *regs)
{
	guest_shared->timers++;
	x2apic_write_reg(APIC_EOI, 0);
}

/* Each run of the vCPU writes the MSR and reads it back. */
static inline void writing_guest_code(struct shared *s)
{
	for (;;) {
		s->vector = wrmsr_safe(MSR_KVM_PARATICK, s->value);
		GUEST_SYNC(0);
	}
}

static inline void reading_guest_code(struct shared *s)
{
	for (;;) {
		s->vector = rdmsr_safe(MSR_KVM_PARATICK, &s->value);
		GUEST_SYNC(0);
	}
}

/* Sends INIT to the vCPU with APIC id 0. */
static inline void resetting_guest_code(void)
{
	x2apic_enable();
	x2apic_write_reg(APIC_ICR, APIC_INT_ASSERT | APIC_DM_INIT);
	GUEST_SYNC(0);
}

/* Declares, and computes until @until ticks have come. */
static inline void computing_guest_code(struct shared *s)
{
	x2apic_enable();
	wrmsr(MSR_KVM_PARATICK, s->value);
	asm volatile("sti");
	while (READ_ONCE(s->ticks) < s->until)
		cpu_relax();
	asm volatile("cli");
	GUEST_SYNC(0);
}

/* Declares, again and again, @until times, a different period each time. */
static inline void declaring_guest_code(struct shared *s)
{
	u64 round;

	x2apic_enable();
	asm volatile("sti");
	for (round = 0; round < s->until; round++)
		wrmsr(MSR_KVM_PARATICK, DECLARE(SHORTEST + (round * 7919) % SHORTEST));
	asm volatile("cli");
	GUEST_SYNC(0);
}

/* In each run: declares what it is given, and is there for a tick that comes soon. */
static inline void choosing_guest_code(struct shared *s)
{
	x2apic_enable();
	for (;;) {
		wrmsr(MSR_KVM_PARATICK, s->value);
		asm volatile("sti");
		for (u32 i = 0; i < 5000; i++)
			cpu_relax();
		asm volatile("cli");
		GUEST_SYNC(0);
	}
}

/* Declares, and is entered again and again, but takes no interrupt. */
static inline void deaf_guest_code(struct shared *s)
{
	x2apic_enable();
	wrmsr(MSR_KVM_PARATICK, s->value);
	for (;;)
		GUEST_SYNC(0);
}

static inline void start_timer(struct shared *s, u32 how, u64 period)
{
	x2apic_enable();
	wrmsr(MSR_KVM_PARATICK, s->value);
	x2apic_write_reg(APIC_TDCR, DIVIDE_BY_1);
	x2apic_write_reg(APIC_LVTT, how | TIMER_VECTOR);
	x2apic_write_reg(APIC_TMICT, period);
}

/* Computes, and is interrupted by its local timer more often than by the host. */
static inline void interrupted_guest_code(struct shared *s)
{
	start_timer(s, APIC_LVT_TIMER_PERIODIC, MS);
	asm volatile("sti");
	while (READ_ONCE(s->timers) < s->until)
		cpu_relax();
	asm volatile("cli");
	x2apic_write_reg(APIC_TMICT, 0);
	GUEST_SYNC(0);
}

/* Is interrupted by its local timer once, at once, and computes for as long as it is run. */
static inline void once_interrupted_guest_code(struct shared *s)
{
	start_timer(s, APIC_LVT_TIMER_ONESHOT, MS / 100);
	asm volatile("sti");
	while (!READ_ONCE(s->timers))
		cpu_relax();
	for (;;)
		GUEST_SYNC(0);
}

/* Sleeps, and is woken by nothing but its local timer. */
static inline void sleeping_guest_code(struct shared *s)
{
	start_timer(s, APIC_LVT_TIMER_PERIODIC, TIMER_PERIOD);
	while (READ_ONCE(s->timers) < s->until)
		asm volatile("sti; hlt; cli");
	x2apic_write_reg(APIC_TMICT, 0);
	GUEST_SYNC(0);
}

static inline void set_mode(const char *mode)
{
	set_parameter(PARAMETER, mode);
}

static inline void run(void)
{
	struct ucall uc;

	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	switch (get_ucall(vcpu, &uc)) {
	case UCALL_SYNC:
		return;
	case UCALL_ABORT:
		REPORT_GUEST_ASSERT(uc);
	default:
		TEST_FAIL("unexpected ucall %lu", uc.cmd);
	}
}

/* The exception that the guest has when it writes @value; 0: none. */
static inline u64 written(u64 value)
{
	shared->value = value;
	run();
	return shared->vector;
}

static inline u64 stat(const char *name)
{
	struct kvm_stats_header header;
	struct kvm_stats_desc *all, *desc;
	int fd = vcpu_get_stats_fd(vcpu);
	bool found = false;
	u64 value = 0;

	read_stats_header(fd, &header);
	all = read_stats_descriptors(fd, &header);
	for (u32 i = 0; i < header.num_desc && !found; i++) {
		desc = get_stats_descriptor(all, i, &header);
		found = !strcmp(desc->name, name);
		if (found)
			read_stat_data(fd, &header, desc, &value, 1);
	}
	free(all);
	close(fd);
	TEST_ASSERT(found, "the vCPU has no statistic %s", name);
	return value;
}

static inline u64 now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec * 1000 * MS + time.tv_nsec;
}

#endif /* SELFTEST_KVM_PARATICK_H */
