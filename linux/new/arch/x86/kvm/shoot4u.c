// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shoot4U: TLB shootdowns of a guest, carried out by the host. What a guest may ask for, and in
 * which mode, is in shoot4u_call.c.
 *
 * A guest names vCPUs and a range of addresses; when the hypercall returns, none of them uses a
 * translation of that range that is older than the call. Nothing waits for a vCPU to be scheduled:
 * at most for pCPUs to take an interrupt. After Ouyang, Lange and Zheng, "Shoot4U: Using VMM
 * Assists to Optimize TLB Operations on Preempted vCPUs", VEE 2016, section 4.
 *
 * Where the entries of a vCPU are: those of its tag on one pCPU. It may have left some on others
 * where it ran before, but these are never used again: VMX flushes its tag after it was loaded on
 * another pCPU than the last, SVM gives it a new tag when it enters the guest on another pCPU than
 * the last. So what a target does before its next entry, on the pCPU of that entry, reaches all.
 *
 * An initiator that reads an old vcpu->cpu has nothing to do for the new one: the new tag or the
 * flush there comes after its store to the page tables.
 *
 * Where else a translation may be: in KVM itself, while it emulates an instruction. A vCPU in that
 * state is left to the guest, which sends it an interrupt as it always did; see
 * kvm_shoot4u_translating() and kvm_shoot4u_emulating().
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bitmap.h>
#include <linux/kvm_host.h>
#include <linux/moduleparam.h>
#include <linux/nospec.h>
#include <linux/percpu.h>
#include <linux/sched/clock.h>
#include <linux/smp.h>
#include <linux/string.h>
#include <trace/events/ipi.h>
#include <uapi/linux/kvm_para.h>

#include "lapic.h"
#include "shoot4u.h"

#define CREATE_TRACE_POINTS
#include "shoot4u_trace.h"

/* The "action" of a target in the trace. */
enum shoot4u_action {
	SHOOT4U_REQUEST_KICK = 2,
	SHOOT4U_REQUEST,
	SHOOT4U_LEFT,
	SHOOT4U_NEVER_RAN,
	SHOOT4U_SELF,
};

/* How long a call with interrupts off waits for kicked vCPUs, in microseconds. */
static uint shoot4u_fast_us __read_mostly = 100;
module_param(shoot4u_fast_us, uint, 0644);

/* Targets that are served with preemption off: a call for more is carried out in parts. */
#define SHOOT4U_PART		64

/* One part of a call on its way: there is at most one on each pCPU, with preemption off. */
struct shoot4u_run {
	struct kvm_apic_map *map;
	struct kvm_shoot4u_range range;
	struct cpumask pcpus;		/* to interrupt */
	u32 first;
	u32 bits;
	u64 call;
	u64 until;			/* when interrupts were off for too long; 0: they are on */
	DECLARE_BITMAP(kicked, KVM_SHOOT4U_MAX_WORDS * 64);
};

static DEFINE_PER_CPU(struct shoot4u_run, shoot4u_runs);

void kvm_shoot4u_vcpu_init(struct kvm_vcpu *vcpu)
{
	raw_spin_lock_init(&vcpu->arch.shoot4u.lock);
}

/* Whoever an interrupt to this APIC id would reach; nobody else can be meant. */
static struct kvm_vcpu *shoot4u_find(struct kvm_apic_map *map, u32 id)
{
	struct kvm_lapic *apic;

	if (id > map->max_apic_id)
		return NULL;
	apic = map->phys_map[array_index_nospec(id, map->max_apic_id + 1)];
	return apic ? apic->vcpu : NULL;
}

/* Invalidates before the next entry of the vCPU, in its thread, loaded. */
static void shoot4u_flush(struct kvm_vcpu *vcpu, struct kvm_shoot4u_range range)
{
	u32 tag;

	preempt_disable();
	tag = kvm_x86_call(shoot4u_flush)(vcpu, &range);
	if (tag)
		trace_kvm_shoot4u_invalidate(vcpu, tag, smp_processor_id(), range.start, range.end);
	else
		kvm_x86_call(flush_tlb_guest)(vcpu);
	preempt_enable();
}

/* Puts the range before the next entry of the vCPU. */
static void shoot4u_queue(struct kvm_vcpu *vcpu, const struct kvm_shoot4u_range *range)
{
	struct kvm_shoot4u_vcpu *s = &vcpu->arch.shoot4u;

	raw_spin_lock(&s->lock);
	if (range->end == KVM_SHOOT4U_WHOLE || s->queued == KVM_SHOOT4U_QUEUE)
		s->whole = true;
	else if (!s->whole)
		s->queue[s->queued++] = *range;
	raw_spin_unlock(&s->lock);

	kvm_make_request(KVM_REQ_SHOOT4U, vcpu);
}

/* Honours the request, in the thread of the vCPU, loaded. */
void kvm_shoot4u_serve(struct kvm_vcpu *vcpu)
{
	struct kvm_shoot4u_vcpu *s = &vcpu->arch.shoot4u;
	struct kvm_shoot4u_range ranges[KVM_SHOOT4U_QUEUE];
	u32 i, count;
	bool whole;

	raw_spin_lock(&s->lock);
	whole = s->whole;
	count = s->queued;
	memcpy(ranges, s->queue, count * sizeof(ranges[0]));
	s->whole = false;
	s->queued = 0;
	raw_spin_unlock(&s->lock);

	/* Moved to another pCPU in between, none of the entries that were here is used again. */
	for (i = 0; i < count && !whole; i++)
		shoot4u_flush(vcpu, ranges[i]);
	if (whole)
		shoot4u_flush(vcpu, (struct kvm_shoot4u_range){ .end = KVM_SHOOT4U_WHOLE });
	vcpu->stat.shoot4u_served++;
}

/*
 * Whether KVM may hold an address that was translated for the target before this call. To be asked
 * when the target's entries are gone: else it could enter with the new count, use an old entry,
 * leave with the address, and find the count as it was at its entry.
 */
static bool shoot4u_is_translating(struct kvm_vcpu *target)
{
	atomic_inc(&target->arch.shoot4u.revoked);
	/*
	 * Pairs with kvm_shoot4u_translating(): either the flag is seen here, or the count and the
	 * guest's page tables are seen there.
	 */
	smp_mb__after_atomic();
	/* Pairs with kvm_shoot4u_emulated(): once the flag is down, what KVM stored is stored. */
	return smp_load_acquire(&target->arch.shoot4u.translating);
}

/* Decides how one target's entries go. */
static void shoot4u_aim(struct kvm_vcpu *vcpu, struct kvm_vcpu *target, u32 bit,
			struct shoot4u_run *run)
{
	enum shoot4u_action action;
	int pcpu;

	/* The guest's page tables were written before. Pairs with that behind IN_GUEST_MODE. */
	smp_mb();
	pcpu = READ_ONCE(target->cpu);
	if (target == vcpu) {
		shoot4u_queue(target, &run->range);
		action = SHOOT4U_SELF;
	} else if (pcpu < 0) {
		action = SHOOT4U_NEVER_RAN;
	} else {
		shoot4u_queue(target, &run->range);
		vcpu->stat.shoot4u_deferred++;
		/* Makes an entry that is under way look again at the requests. */
		action = SHOOT4U_REQUEST;
		if (kvm_vcpu_exiting_guest_mode(target) != OUTSIDE_GUEST_MODE) {
			__set_bit(bit, run->kicked);
			__cpumask_set_cpu(READ_ONCE(target->cpu), &run->pcpus);
			action = SHOOT4U_REQUEST_KICK;
		}
	}

	trace_kvm_shoot4u_target(target, run->call, pcpu, action);
}

/*
 * Interrupts the pCPUs, and waits for kicked targets to have left the guest. Any interrupt makes
 * them leave; this one needs no end to be waited for. A kicked vCPU was loaded, with interrupts
 * off, when its mode was changed, and nobody else ends that mode; so the wait is for the pCPU to
 * take the interrupt, and for no vCPU to be scheduled. A pCPU that has its interrupts off may take
 * its time: false, if this one has, and may not wait any longer.
 *
 * Not kvm_make_vcpus_request_mask(), though the request and the look at the mode are KVM's: it
 * waits by smp_call_function_many(), which needs interrupts on, and the fast path has them off. Nor
 * kvm_vcpu_kick(), which waits for nothing and wakes vCPUs that block.
 */
static bool shoot4u_interrupt(struct shoot4u_run *run)
{
	struct kvm_vcpu *target;
	u32 bit, pcpu;

	for_each_cpu(pcpu, &run->pcpus)
		smp_send_reschedule(pcpu);
	for_each_set_bit(bit, run->kicked, run->bits) {
		target = shoot4u_find(run->map, run->first + bit);
		while (READ_ONCE(target->mode) == EXITING_GUEST_MODE) {
			if (run->until && local_clock() >= run->until)
				return false;
			cpu_relax();
		}
	}
	/* What is read of a target is read after it left. */
	smp_mb();
	return true;
}

/* Ends a part of a call of which nothing is promised. */
static long shoot4u_give_up(struct kvm_vcpu *vcpu, struct shoot4u_run *run,
			    const unsigned long *targets, u32 ipis)
{
	struct kvm_vcpu *target;
	u32 bit, left = 0;

	for_each_set_bit(bit, targets, run->bits) {
		target = shoot4u_find(run->map, run->first + bit);
		if (!target)
			continue;
		trace_kvm_shoot4u_target(target, run->call, READ_ONCE(target->cpu), SHOOT4U_LEFT);
		left++;
	}
	trace_kvm_shoot4u_done(vcpu, run->call, left, ipis);
	return -KVM_EOPNOTSUPP;
}

/*
 * Serves the targets of a part of a valid call, and leaves in @targets those that the guest has to
 * interrupt. Returns how many, or an error if it took too long with interrupts off.
 */
static long shoot4u_serve_all(struct kvm_vcpu *vcpu, struct shoot4u_run *run,
			      unsigned long *targets)
{
	u32 bit, ipis, count = 0, left = 0, unknown = 0;
	struct kvm_vcpu *target;

	for_each_set_bit(bit, targets, run->bits) {
		target = shoot4u_find(run->map, run->first + bit);
		count++;
		if (target)
			shoot4u_aim(vcpu, target, bit, run);
		else
			unknown++;
	}

	ipis = cpumask_weight(&run->pcpus);
	if (ipis && !shoot4u_interrupt(run))
		return shoot4u_give_up(vcpu, run, targets, ipis);

	for_each_set_bit(bit, targets, run->bits) {
		target = shoot4u_find(run->map, run->first + bit);
		/* One that the host cannot place, as with its APIC off, may be running. */
		if (!target)
			continue;
		if (target != vcpu && shoot4u_is_translating(target)) {
			trace_kvm_shoot4u_target(target, run->call, READ_ONCE(target->cpu),
						 SHOOT4U_LEFT);
			left++;
		} else {
			__clear_bit(bit, targets);
		}
	}

	vcpu->stat.shoot4u_targets += count;
	vcpu->stat.shoot4u_ipis += ipis;
	vcpu->stat.shoot4u_left += left + unknown;
	/* The trace is of vCPUs; who is unknown has no events in it. */
	trace_kvm_shoot4u_done(vcpu, run->call, left, ipis);
	return left + unknown;
}

/* Carries out a part of a call: @words words of targets, the first of which has the id @first. */
static long shoot4u_carry_out_part(struct kvm_vcpu *vcpu, const struct kvm_shoot4u_range *range,
				   bool freed, u64 *words, u32 first, u32 nr_words)
{
	unsigned long *targets = (unsigned long *)words;
	struct shoot4u_run *run;
	long left;

	run = get_cpu_ptr(&shoot4u_runs);
	rcu_read_lock();
	run->map = rcu_dereference(vcpu->kvm->arch.apic_map);
	/* KVM has no map where two vCPUs share an APIC id; it then looks at every vCPU's APIC. */
	if (!run->map) {
		rcu_read_unlock();
		put_cpu_ptr(&shoot4u_runs);
		return -KVM_EOPNOTSUPP;
	}
	run->until = 0;
	if (irqs_disabled())
		run->until = local_clock() + READ_ONCE(shoot4u_fast_us) * NSEC_PER_USEC;
	run->range = *range;
	run->first = first;
	run->bits = nr_words * 64;
	run->call = atomic64_inc_return(&vcpu->kvm->arch.shoot4u.calls);
	bitmap_zero(run->kicked, run->bits);
	cpumask_clear(&run->pcpus);

	trace_kvm_shoot4u_call(vcpu, run->call, freed, &run->range,
			       bitmap_weight(targets, run->bits));

	left = shoot4u_serve_all(vcpu, run, targets);
	rcu_read_unlock();
	put_cpu_ptr(&shoot4u_runs);
	return left;
}

/* How many words from @words on have at most SHOOT4U_PART targets together; at least one word. */
static u32 shoot4u_part(const u64 *words, u32 nr_words)
{
	u32 targets = hweight64(words[0]), nr = 1;

	while (nr < nr_words) {
		targets += hweight64(words[nr]);
		if (targets > SHOOT4U_PART)
			break;
		nr++;
	}
	return nr;
}

/*
 * Carries out a valid call, with interrupts on or off. Returns the number of targets that are left
 * to the guest, now alone in @record, or an error.
 * Each part has its promise by itself when it is over, so that preemption can be on between two.
 */
long kvm_shoot4u_carry_out(struct kvm_vcpu *vcpu, const struct kvm_shoot4u_range *range,
			   struct kvm_shoot4u_record *record)
{
	bool freed = record->head.flags & KVM_SHOOT4U_FREED_TABLES;
	u32 done, nr, words = record->head.words;
	long left, all = 0;

	for (done = 0; done < words; done += nr) {
		nr = shoot4u_part(record->targets + done, words - done);
		left = shoot4u_carry_out_part(vcpu, range, freed, record->targets + done,
					      record->head.first + done * 64, nr);
		if (left < 0)
			return left;
		all += left;
	}
	vcpu->stat.shoot4u_calls++;
	return all;
}

/* KVM is about to flush the vCPU's context itself. */
void kvm_shoot4u_flushing(struct kvm_vcpu *vcpu, enum kvm_shoot4u_flush kind)
{
	trace_kvm_shoot4u_flush(vcpu, kvm_x86_call(shoot4u_tag)(vcpu), vcpu->cpu, kind);
}
EXPORT_SYMBOL_GPL(kvm_shoot4u_flushing);
