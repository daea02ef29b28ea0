// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paratick: scheduler ticks of a guest, given by the host. After Schildermans, Aerts, Shan and
 * Ding, "Paratick: Reducing Timer Overhead in Virtual Machines", ICPP 2021, sections 4 and 5.1.
 *
 * A vCPU declares a period and a vector. Ticks are due at the multiples of the period on the
 * host's CLOCK_MONOTONIC, where the host's own tick is if the periods are the same: it comes a
 * moment later, and never a moment too early. Whenever the vCPU is about to enter the guest and
 * one is due since the last, it gets one interrupt, however many have passed: a vCPU that is
 * descheduled is not interrupted for them. An interrupt of its local timer since one was due, or
 * a moment before, does as well, because the guest does the work of a tick then. What was due
 * while the vCPU was halted is dropped, unlike in the paper: a vCPU that wakes many times in a
 * period would have every tick awake, and its CPU time, which the guest counts by ticks, would be
 * more than it had.
 *
 * Where the host's tick comes too late for a tick, a timer of the host interrupts the guest: a
 * guest with a higher or an odd rate, or a CPU without ticks. It is armed before an entry, for
 * the CPU that the vCPU runs on. SVM has no timer of its own for this, and the same one serves
 * VMX.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/hrtimer.h>
#include <linux/kvm_host.h>
#include <linux/math64.h>
#include <linux/moduleparam.h>
#include <linux/string.h>
#include <linux/tick.h>
#include <uapi/linux/kvm_para.h>

#include "lapic.h"
#include "paratick.h"
#include "x86.h"

#define CREATE_TRACE_POINTS
#include "paratick_trace.h"

/* The "how" of a tick in the trace. */
#define PARATICK_INJECTED	1
#define PARATICK_TAKEN		2	/* an interrupt of the local timer stands for it */
#define PARATICK_SUPPRESSED	3	/* the last one is still pending, or the APIC is off */

static const char * const paratick_mode_names[] = { "off", "host-ticks", "filled" };
static int paratick_mode __read_mostly = KVM_PARATICK_FILLED;

/* The shortest period that a guest may declare, in microseconds: 1000 ticks a second. */
static uint paratick_min_period_us __read_mostly = 1000;

/* A host that gave ticks faster than that would do little else. */
static int paratick_set_min_period(const char *value, const struct kernel_param *param)
{
	return param_set_uint_minmax(value, param, 100, USEC_PER_SEC);
}

static const struct kernel_param_ops paratick_min_period_ops = {
	.set = paratick_set_min_period,
	.get = param_get_uint,
};
module_param_cb(paratick_min_period_us, &paratick_min_period_ops, &paratick_min_period_us, 0644);

static int paratick_set_mode(const char *value, const struct kernel_param *param)
{
	int mode = sysfs_match_string(paratick_mode_names, value);

	if (mode < 0)
		return mode;
	WRITE_ONCE(paratick_mode, mode);
	return 0;
}

static int paratick_get_mode(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%s\n", paratick_mode_names[READ_ONCE(paratick_mode)]);
}

static const struct kernel_param_ops paratick_mode_ops = {
	.set = paratick_set_mode,
	.get = paratick_get_mode,
};
module_param_cb(paratick, &paratick_mode_ops, NULL, 0644);

bool kvm_paratick_offered(void)
{
	return READ_ONCE(paratick_mode) != KVM_PARATICK_OFF;
}

static u64 paratick_min_period(void)
{
	return (u64)READ_ONCE(paratick_min_period_us) * NSEC_PER_USEC;
}

/*
 * Whether ticks of this period are given: the administrator may have changed his mind. A vCPU that
 * halts without leaving the guest is not seen to sleep, and would be woken for each.
 */
static bool paratick_stands(struct kvm_vcpu *vcpu, u32 period)
{
	return kvm_paratick_offered() && period >= paratick_min_period() &&
	       !kvm_hlt_in_guest(vcpu->kvm) && !kvm_mwait_in_guest(vcpu->kvm);
}

/* Never without the feature bit, whatever the VMM lets pass of stock features. */
static bool paratick_allowed(struct kvm_vcpu *vcpu)
{
	return vcpu->arch.pv_cpuid.features & BIT(KVM_FEATURE_PARATICK);
}

static bool paratick_valid(struct kvm_vcpu *vcpu, u64 data)
{
	u8 vector = data >> KVM_PARATICK_VECTOR_SHIFT;
	u32 period = data;

	if (!data)
		return true;
	return !(data >> (KVM_PARATICK_VECTOR_SHIFT + 8)) && vector >= 32 && period &&
	       period <= KVM_PARATICK_MAX_PERIOD && lapic_in_kernel(vcpu);
}

/* The first time after @now at which a tick is due. */
static void paratick_advance(struct kvm_paratick_vcpu *p, u64 now)
{
	p->next = (div_u64(now, p->period) + 1) * p->period;
}

int kvm_paratick_set_msr(struct kvm_vcpu *vcpu, u64 data, bool host_initiated)
{
	struct kvm_paratick_vcpu *p = &vcpu->arch.paratick;
	u32 period = data;
	bool refused;

	if (!paratick_allowed(vcpu))
		return KVM_MSR_RET_UNSUPPORTED;

	/* What is restored stays as it is, but without ticks the guest reads that it has none. */
	refused = !paratick_valid(vcpu, data) ||
		  (data && !host_initiated && !paratick_stands(vcpu, period));
	trace_kvm_paratick_declare(vcpu, period, data >> KVM_PARATICK_VECTOR_SHIFT, refused);
	if (refused)
		return 1;

	p->msr = data;
	WRITE_ONCE(p->period, period);
	if (period) {
		paratick_advance(p, ktime_get_ns());
		/* However often it is declared, there is no more than one tick in that time. */
		p->next = max(p->next, p->last + paratick_min_period());
	}
	return 0;
}

int kvm_paratick_get_msr(struct kvm_vcpu *vcpu, u64 *data, bool host_initiated)
{
	struct kvm_paratick_vcpu *p = &vcpu->arch.paratick;

	if (!paratick_allowed(vcpu))
		return KVM_MSR_RET_UNSUPPORTED;
	*data = host_initiated || paratick_stands(vcpu, p->period) ? p->msr : 0;
	return 0;
}

static bool paratick_is_pending(struct kvm_vcpu *vcpu, u8 vector)
{
	u32 waiting = kvm_lapic_get_reg(vcpu->arch.apic, APIC_IRR + REG_POS(vector));

	return waiting & BIT(VEC_POS(vector));
}

/*
 * Whether an interrupt of the local timer stands for the tick: one since it was due, or so shortly
 * before that the guest may still be at it. For a vCPU that it has just woken the tick would be one
 * more interrupt before what it was woken for. The guest does the same sum by its own clock. If
 * several ticks were due, the last counts: the guest may have done the work of those before.
 */
static bool paratick_is_taken(const struct kvm_paratick_vcpu *p, u64 due)
{
	return READ_ONCE(p->timer_at) + p->period / KVM_PARATICK_TAKEN >= due;
}

static u8 paratick_give(struct kvm_vcpu *vcpu, u64 due)
{
	struct kvm_paratick_vcpu *p = &vcpu->arch.paratick;
	struct kvm_lapic_irq irq = {
		.delivery_mode = APIC_DM_FIXED,
		.vector = p->msr >> KVM_PARATICK_VECTOR_SHIFT,
	};

	if (paratick_is_taken(p, due)) {
		vcpu->stat.paratick_taken++;
		return PARATICK_TAKEN;
	}
	if (paratick_is_pending(vcpu, irq.vector) || kvm_apic_set_irq(vcpu, &irq, NULL) <= 0) {
		vcpu->stat.paratick_suppressed++;
		return PARATICK_SUPPRESSED;
	}
	vcpu->stat.paratick_injected++;
	return PARATICK_INJECTED;
}

void __kvm_paratick_inject(struct kvm_vcpu *vcpu)
{
	struct kvm_paratick_vcpu *p = &vcpu->arch.paratick;
	u64 now = ktime_get_ns(), due = p->next;

	if (now < due || !paratick_stands(vcpu, p->period))
		return;

	p->last = now;
	paratick_advance(p, now);
	trace_kvm_paratick_tick(vcpu, now - due, paratick_give(vcpu, p->next - p->period));
}

/* A sleeping CPU has no ticks: none is owed for the time until now. */
void __kvm_paratick_slept(struct kvm_vcpu *vcpu)
{
	struct kvm_paratick_vcpu *p = &vcpu->arch.paratick;
	u64 now = ktime_get_ns();

	if (now >= p->next)
		paratick_advance(p, now);
}

/* Whether the host would not interrupt the guest in time by its own tick. */
static bool paratick_must_fill(const struct kvm_paratick_vcpu *p, int cpu)
{
	u32 behind;

	if (READ_ONCE(paratick_mode) != KVM_PARATICK_FILLED)
		return false;
	div_u64_rem(p->next, TICK_NSEC, &behind);
	return behind || tick_nohz_full_cpu(cpu);
}

void __kvm_paratick_entering(struct kvm_vcpu *vcpu)
{
	struct kvm_paratick_vcpu *p = &vcpu->arch.paratick;
	int cpu = smp_processor_id();

	if (p->armed == p->next && p->armed_cpu == cpu)
		return;
	p->armed = p->next;
	p->armed_cpu = cpu;
	if (!paratick_must_fill(p, cpu)) {
		/* One for what was declared before may be left. */
		hrtimer_try_to_cancel(&p->timer);
		return;
	}

	hrtimer_start(&p->timer, ns_to_ktime(p->next), HRTIMER_MODE_ABS_PINNED_HARD);
	trace_kvm_paratick_fill(vcpu, p->next);
}

/* The interrupt alone does it: it took the guest out, and a tick is due before the next entry. */
static enum hrtimer_restart paratick_timer(struct hrtimer *timer)
{
	struct kvm_vcpu *vcpu = container_of(timer, struct kvm_vcpu, arch.paratick.timer);

	vcpu->stat.paratick_filled++;
	return HRTIMER_NORESTART;
}

void kvm_paratick_vcpu_init(struct kvm_vcpu *vcpu)
{
	struct hrtimer *timer = &vcpu->arch.paratick.timer;

	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_PINNED_HARD);
	timer->function = paratick_timer;
}

void kvm_paratick_vcpu_reset(struct kvm_vcpu *vcpu)
{
	vcpu->arch.paratick.msr = 0;
	WRITE_ONCE(vcpu->arch.paratick.period, 0);
}

void kvm_paratick_vcpu_destroy(struct kvm_vcpu *vcpu)
{
	hrtimer_cancel(&vcpu->arch.paratick.timer);
}
