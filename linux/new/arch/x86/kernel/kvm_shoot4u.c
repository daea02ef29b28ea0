// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shoot4U, the guest's side: a TLB shootdown is one hypercall that names its targets. The host
 * returns when none of them can use what is revoked; no target is interrupted, and none that is
 * not running is waited for.
 *
 * Where PV TLB flush is offered it goes first: a vCPU that the host has marked as preempted is left
 * a note in its steal time, which costs no hypercall. What is named here is everybody else, among
 * them the vCPUs that are preempted without the mark.
 *
 * A target's tlb_gen stays behind the flush that the host did for it. Alone this would turn its
 * next flush of a range into one of everything, as generations are missing. So whoever had the host
 * do it leaves a note, and the target counts what is noted without a gap when it begins a shootdown
 * itself. A note that is lost costs a flush that was not needed.
 *
 * A target between reading tlb_gen and loading CR3 in switch_mm_irqs_off() has its old entries
 * invalidated under all PCIDs, and walks page tables that were changed before the call.
 *
 * Kernels that leave CPUs in mm_cpumask until a flush finds them with another mm (trim_cpumask) do
 * not find them here: they are neither named nor interrupted, and cost a look at each flush.
 *
 * Page tables are freed by RCU, as the host sends no interrupt that a lockless walker holds off.
 * Shootdowns of kernel addresses are not covered: x86 has no paravirtual operation for them.
 */
#define pr_fmt(fmt) "shoot4u: " fmt

#include <linux/cc_platform.h>
#include <linux/cpumask.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/jump_label.h>
#include <linux/kvm_para.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <asm/apic.h>
#include <asm/cmpxchg.h>
#include <asm/paravirt.h>
#include <asm/pgtable_types.h>
#include <asm/tlb.h>
#include <asm/tlbflush.h>
#include <uapi/asm/kvm_shoot4u.h>

#include "kvm_shoot4u.h"

/* 1024 APIC ids in a call; more CPUs take more calls. */
#define SHOOT4U_WORDS	16

struct shoot4u_record {
	struct kvm_shoot4u_call head;
	u64 targets[SHOOT4U_WORDS];
};

/* What this CPU has under way; used with interrupts off. Aligned so that it stays in one page. */
struct shoot4u_cpu {
	struct shoot4u_record record;
	u64 gpa;
} __aligned(256);

static DEFINE_PER_CPU(struct shoot4u_cpu, shoot4u_cpu);

/* Flushes that are noted for a CPU; more, and the oldest notes are gone. */
#define SHOOT4U_NOTES	16

/* The host flushed for generation @tlb_gen of the mm with @ctx_id: true for ever once it is. */
union shoot4u_note {
	struct {
		u64 ctx_id;
		u64 tlb_gen;
	};
	u128 both;
};

struct shoot4u_notes {
	union shoot4u_note of[SHOOT4U_NOTES];
};

static DEFINE_PER_CPU_SHARED_ALIGNED(struct shoot4u_notes, shoot4u_notes);
/* CPUs that are left to IPIs; used with preemption off. */
static DEFINE_PER_CPU(struct cpumask, shoot4u_rest);

static DEFINE_STATIC_KEY_FALSE(shoot4u_used);

/*
 * Until when the host is not asked, in jiffies; 0: it is. A host that the guest was migrated to may
 * not know the call, and its administrator may switch it off: then only one call in a second
 * pays for an exit in vain, and finds out when it is there again.
 */
static unsigned long shoot4u_pause __read_mostly;

static bool shoot4u_disabled __initdata;

static int __init shoot4u_disable(char *unused)
{
	shoot4u_disabled = true;
	return 0;
}
early_param("noshoot4u", shoot4u_disable);

static bool shoot4u_paused(void)
{
	unsigned long until = READ_ONCE(shoot4u_pause);

	if (likely(!until))
		return false;
	if (time_before(jiffies, until))
		return true;
	WRITE_ONCE(shoot4u_pause, 0);
	return false;
}

/*
 * Whether the flush concerns a remote CPU: by the same reading of its state as
 * should_flush_tlb() in arch/x86/mm/tlb.c.
 */
static bool shoot4u_concerns(int cpu, const struct flush_tlb_info *info)
{
	struct mm_struct *loaded;

	if (info->freed_tables)
		return true;

	loaded = per_cpu(cpu_tlbstate.loaded_mm, cpu);
	smp_rmb(); /* is_lazy is at least as new as loaded_mm */
	if (per_cpu(cpu_tlbstate_shared.is_lazy, cpu))
		return false;
	return !info->mm || loaded == LOADED_MM_SWITCHING || loaded == info->mm;
}

static bool shoot4u_takes_notes(const struct flush_tlb_info *info)
{
	return info->mm && info->new_tlb_gen != TLB_GENERATION_INVALID &&
	       system_has_cmpxchg128();
}

/* The host has flushed for this CPU. Where two write one note at a time, either may be lost. */
static void shoot4u_note(int cpu, const struct flush_tlb_info *info)
{
	union shoot4u_note *note = per_cpu_ptr(shoot4u_notes.of, cpu), old, new;

	note += info->new_tlb_gen % SHOOT4U_NOTES;
	old.ctx_id = READ_ONCE(note->ctx_id);
	old.tlb_gen = READ_ONCE(note->tlb_gen);
	new.ctx_id = info->mm->context.ctx_id;
	new.tlb_gen = info->new_tlb_gen;
	arch_cmpxchg128(&note->both, old.both, new.both);
}

static bool shoot4u_is_noted(u64 ctx_id, u64 tlb_gen)
{
	union shoot4u_note *notes = this_cpu_ptr(shoot4u_notes.of), want;

	want.ctx_id = ctx_id;
	want.tlb_gen = tlb_gen;
	return arch_cmpxchg128(&notes[tlb_gen % SHOOT4U_NOTES].both, want.both,
			       want.both) == want.both;
}

/* Counts as done what the host flushed for this CPU, before it flushes itself, interrupts off. */
static void shoot4u_catch_up(const struct flush_tlb_info *info)
{
	u16 asid = this_cpu_read(cpu_tlbstate.loaded_mm_asid);
	u64 gen;

	if (!shoot4u_takes_notes(info) || this_cpu_read(cpu_tlbstate.loaded_mm) != info->mm)
		return;
	gen = this_cpu_read(cpu_tlbstate.ctxs[asid].tlb_gen);
	while (gen + 1 < info->new_tlb_gen &&
	       shoot4u_is_noted(info->mm->context.ctx_id, gen + 1))
		gen++;
	this_cpu_write(cpu_tlbstate.ctxs[asid].tlb_gen, gen);
}

/*
 * Makes the call, and adds to @rest those of its CPUs that the host did not serve: all, after
 * an error, which leaves the record as it was.
 */
static void shoot4u_call(struct shoot4u_cpu *this, const struct cpumask *cpus, int from, int to,
			 const struct flush_tlb_info *info, struct cpumask *rest)
{
	struct kvm_shoot4u_call *head = &this->record.head;
	long left;
	u32 bit;
	int cpu;

	left = kvm_hypercall4(KVM_HC_SHOOT4U, this->gpa, sizeof(*head) + head->words * sizeof(u64),
			      0, 0);
	if (!left && !shoot4u_takes_notes(info))
		return;
	if (left == -KVM_ENOSYS)
		WRITE_ONCE(shoot4u_pause, (jiffies + HZ) ?: 1);

	for (cpu = from; cpu < to; cpu = cpumask_next(cpu, cpus)) {
		bit = per_cpu(x86_cpu_to_apicid, cpu) - head->first;
		if (bit < head->words * 64 &&
		    (this->record.targets[bit / 64] & BIT_ULL(bit % 64))) {
			if (left)
				__cpumask_set_cpu(cpu, rest);
			else
				shoot4u_note(cpu, info);
		}
	}
}

/* Begins a call with its first target. */
static void shoot4u_begin(struct shoot4u_cpu *this, u32 apicid, const struct flush_tlb_info *info)
{
	struct kvm_shoot4u_call *head = &this->record.head;

	memset(&this->record, 0, sizeof(this->record));
	if (info->end == TLB_FLUSH_ALL) {
		head->end = KVM_SHOOT4U_WHOLE;
		head->stride_shift = PAGE_SHIFT;
	} else {
		head->stride_shift = info->stride_shift;
		head->start = round_down(info->start, 1ULL << info->stride_shift);
		head->end = round_up(info->end, 1ULL << info->stride_shift);
	}
	head->flags = info->freed_tables ? KVM_SHOOT4U_FREED_TABLES : 0;
	head->first = round_down(apicid, 64);
}

void kvm_shoot4u_flush_tlb_multi(const struct cpumask *cpus, const struct flush_tlb_info *info)
{
	struct cpumask *rest = this_cpu_ptr(&shoot4u_rest);
	int cpu, from = -1, me = smp_processor_id();
	struct shoot4u_cpu *this;
	unsigned long flags;
	u32 id, bit;

	if (!static_branch_likely(&shoot4u_used) || shoot4u_paused()) {
		native_flush_tlb_multi(cpus, info);
		return;
	}

	cpumask_clear(rest);
	if (cpumask_test_cpu(me, cpus))
		__cpumask_set_cpu(me, rest);

	local_irq_save(flags);
	this = this_cpu_ptr(&shoot4u_cpu);
	if (!this->gpa)
		this->gpa = slow_virt_to_phys(&this->record);

	for_each_cpu(cpu, cpus) {
		if (cpu == me || !shoot4u_concerns(cpu, info))
			continue;
		id = per_cpu(x86_cpu_to_apicid, cpu);
		bit = id - this->record.head.first;
		if (from >= 0 && bit >= SHOOT4U_WORDS * 64) {
			shoot4u_call(this, cpus, from, cpu, info, rest);
			from = -1;
		}
		if (from < 0) {
			shoot4u_begin(this, id, info);
			bit = id - this->record.head.first;
			from = cpu;
		}
		this->record.targets[bit / 64] |= BIT_ULL(bit % 64);
		this->record.head.words = max(this->record.head.words, bit / 64 + 1);
	}
	if (from >= 0)
		shoot4u_call(this, cpus, from, nr_cpu_ids, info, rest);
	if (cpumask_test_cpu(me, cpus))
		shoot4u_catch_up(info);
	local_irq_restore(flags);

	/* Flushes this CPU as well, and counts and traces the shootdown. */
	native_flush_tlb_multi(rest, info);
}

void __init kvm_shoot4u_guest_init(void)
{
	if (shoot4u_disabled || !kvm_para_has_feature(KVM_FEATURE_SHOOT4U) ||
	    num_possible_cpus() == 1)
		return;
	/* As PV TLB flush: on CPUs of their own vCPUs answer interrupts at once. */
	if (kvm_para_has_hint(KVM_HINTS_REALTIME) || boot_cpu_has(X86_FEATURE_MWAIT))
		return;
	/* The host could not read the calls. */
	if (cc_platform_has(CC_ATTR_GUEST_MEM_ENCRYPT))
		return;

	BUILD_BUG_ON(SHOOT4U_WORDS > KVM_SHOOT4U_MAX_WORDS);
	BUILD_BUG_ON(PAGE_SIZE % sizeof(struct shoot4u_cpu));
	/* PV TLB flush calls on by itself. */
	if (pv_ops.mmu.flush_tlb_multi == native_flush_tlb_multi)
		pv_ops.mmu.flush_tlb_multi = kvm_shoot4u_flush_tlb_multi;
	pv_ops.mmu.tlb_remove_table = tlb_remove_table;
	static_branch_enable(&shoot4u_used);
	pr_info("TLB shootdowns are carried out by the host\n");
}
