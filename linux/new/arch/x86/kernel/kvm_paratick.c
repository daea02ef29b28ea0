// SPDX-License-Identifier: GPL-2.0-only
/*
 * Paratick, the guest's side: each CPU declares to the host the period of its scheduler tick, and
 * has an interrupt for each tick while it runs. What is done with them, and without a timer, is in
 * kernel/time/tick-virtual.c.
 */
#define pr_fmt(fmt) "paratick: " fmt

#include <linux/cc_platform.h>
#include <linux/init.h>
#include <linux/interrupt.h>
#include <linux/kvm_para.h>
#include <linux/percpu.h>
#include <linux/tick-virtual.h>
#include <asm/apic.h>
#include <asm/desc.h>
#include <asm/hardirq.h>
#include <asm/idtentry.h>
#include <asm/irq_regs.h>
#include <asm/kvm_paratick.h>
#include <asm/msr.h>
#include <asm/processor.h>
#include <uapi/asm/kvm_paratick.h>

/* What this CPU's host was asked for; 0: nothing. */
static DEFINE_PER_CPU(u64, paratick_declared);

static bool paratick_disabled __initdata;

static int __init paratick_disable(char *unused)
{
	paratick_disabled = true;
	return 0;
}
early_param("noparatick", paratick_disable);

/* A guest that was reset, or migrated to a host that knows of no ticks, reads something else. */
static bool paratick_is_declared(void)
{
	u64 value;

	return !rdmsrl_safe(MSR_KVM_PARATICK, &value) &&
	       value == __this_cpu_read(paratick_declared);
}

/*
 * A host that has no such register, or does not want to tick so fast, refuses. One that ignores
 * what it does not know (kvm.ignore_msrs) takes any value, and keeps none.
 */
static bool paratick_declare(u32 period_ns)
{
	u64 value = ((u64)KVM_PARATICK_VECTOR << KVM_PARATICK_VECTOR_SHIFT) | period_ns;

	__this_cpu_write(paratick_declared, value);
	if (!wrmsrl_safe(MSR_KVM_PARATICK, value) && paratick_is_declared())
		return true;
	__this_cpu_write(paratick_declared, 0);
	return false;
}

static void paratick_withdraw(void)
{
	if (!__this_cpu_read(paratick_declared))
		return;
	wrmsrl_safe(MSR_KVM_PARATICK, 0);
	__this_cpu_write(paratick_declared, 0);
}

static const struct tick_virtual_source paratick_source = {
	.declare = paratick_declare,
	.declared = paratick_is_declared,
	.withdraw = paratick_withdraw,
};

DEFINE_IDTENTRY_SYSVEC(sysvec_kvm_paratick)
{
	struct pt_regs *old_regs = set_irq_regs(regs);

	apic_eoi();
	inc_irq_stat(kvm_paratick_count);
	tick_virtual_interrupt();
	set_irq_regs(old_regs);
}

/* After a crash nothing else of the kernel can be relied on, and no timer is programmed. */
void kvm_paratick_guest_offline(bool crashed)
{
	if (crashed)
		paratick_withdraw();
	else
		tick_virtual_stop();
}

void __init kvm_paratick_guest_init(void)
{
	if (paratick_disabled || !kvm_para_has_feature(KVM_FEATURE_PARATICK))
		return;
	/* A CPU that polls in idle is not seen to run, nor to sleep. */
	if (boot_option_idle_override == IDLE_POLL)
		return;
	/* The host is not to interrupt it at its own pleasure. */
	if (cc_platform_has(CC_ATTR_GUEST_STATE_ENCRYPT))
		return;

	sysvec_install(KVM_PARATICK_VECTOR, sysvec_kvm_paratick);
	tick_virtual_register(&paratick_source);
	pr_info("the host gives scheduler ticks\n");
}
