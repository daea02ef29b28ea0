/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A VM whose vCPUs do what the host tells them, one thing at each run: send an IPI, take what is
 * pending, or nothing. Each counts what it takes.
 */
#ifndef SELFTEST_KVM_STRICT_BOOST_ORDERS_H
#define SELFTEST_KVM_STRICT_BOOST_ORDERS_H

#include "strict_boost_paths.h"

/* The first three vectors of a VM have a row of the account each, all others share one. */
static const u8 own_row[] = { 0x41, 0x52, 0x63 };
#define SHARED_ROW 0x74
#define SHARED_ROW_TOO 0x85
#define NMI 2

/* In memory of the guest. */
struct shared {
	u64 index[MAX_VCPUS];
	struct order orders[MAX_VCPUS];
	u64 counts[MAX_VCPUS][256];	/* what each vCPU has taken, by itself */
	struct hv_ipi_ex page __aligned(PAGE_SIZE);
	enum apic_mode mode;
	u64 hypercall_gpa;
};

static struct shared *guest_shared;	/* as the guest has it */
static struct shared *shared;		/* as the host has it */
static struct boost_vm boost;

static inline void handler(struct ex_regs *regs)
{
	u64 *count = &guest_shared->counts[self()][regs->vector];

	WRITE_ONCE(*count, *count + 1);
	if (regs->vector == NMI)
		return;
	if (guest_shared->mode >= X2APIC)
		x2apic_write_reg(APIC_EOI, 0);
	else
		xapic_write_reg(APIC_EOI, 0);
}

static inline void enable_apic(u64 index)
{
	if (guest_shared->mode >= X2APIC) {
		x2apic_enable();
	} else {
		xapic_enable();
		xapic_write_reg(APIC_DFR, guest_shared->mode == XAPIC_FLAT ? ~0u : 0x0fffffff);
		xapic_write_reg(APIC_LDR, SET_APIC_DEST_FIELD(guest_shared->mode == XAPIC_FLAT ?
				1u << index % 8 : index / 4 << 4 | 1u << index % 4));
	}
	if (guest_shared->mode == HYPERV) {
		wrmsr(HV_X64_MSR_GUEST_OS_ID, HYPERV_LINUX_OS_ID);
		wrmsr(HV_X64_MSR_HYPERCALL, guest_shared->hypercall_gpa);
	}
}

static inline void obey(struct order *order)
{
	switch (order->what) {
	case ORDER_NONE:
		break;
	case ORDER_TAKE:
		take_interrupts();
		break;
	case ORDER_SELF_IPI:
		x2apic_write_reg(APIC_SELF_IPI, order->a0);
		break;
	case ORDER_CALL:
		kvm_hypercall(KVM_HC_SEND_IPI, order->a0, order->a1, order->a2, order->a3);
		break;
	case ORDER_HV:
		hyperv_hypercall(order->a0, order->a1, order->a2);
		break;
	case ORDER_ICR:
		if (guest_shared->mode >= X2APIC) {
			x2apic_write_reg(APIC_ICR, order->a1 << 32 | order->a0);
		} else {
			xapic_write_reg(APIC_ICR2, order->a1);
			xapic_write_reg(APIC_ICR, order->a0);
		}
	}
}

/* Interrupts are off, but where they are taken. */
static inline void guest_code(u64 index)
{
	set_self(&guest_shared->index[index]);
	enable_apic(index);
	for (;;) {
		GUEST_SYNC(0);
		obey(&guest_shared->orders[index]);
	}
}

static inline void run(u32 vcpu, struct order order)
{
	shared->orders[vcpu] = order;
	run_to_sync(boost.vcpus[vcpu]);
}

static inline void add_vcpu(void)
{
	u32 index = boost.nr;
	struct kvm_vcpu *vcpu = boost_add_vcpu(&boost, guest_code);

	shared->index[index] = index;
	if (shared->mode == HYPERV)
		vcpu_set_hv_cpuid(vcpu);
	vcpu_args_set(vcpu, 1, (u64)index);
	run_to_sync(vcpu);
}

static inline void make_vm(enum apic_mode mode, u32 early, u32 late)
{
	int pages = sizeof(struct shared) / PAGE_SIZE + 1;
	vm_vaddr_t gva;

	memset(&boost, 0, sizeof(boost));
	boost.vm = __vm_create(VM_SHAPE_DEFAULT, early + late, pages);
	gva = vm_vaddr_alloc(boost.vm, sizeof(struct shared), KVM_UTIL_MIN_VADDR);
	guest_shared = (void *)gva;
	sync_global_to_guest(boost.vm, guest_shared);
	shared = addr_gva2hva(boost.vm, gva);
	memset(shared, 0, sizeof(*shared));
	shared->mode = mode;
	shared->hypercall_gpa = addr_gva2gpa(boost.vm, vm_vaddr_alloc_page(boost.vm));
	virt_pg_map(boost.vm, APIC_DEFAULT_GPA, APIC_DEFAULT_GPA);
	for (int i = 0; i < ARRAY_SIZE(own_row); i++)
		vm_install_exception_handler(boost.vm, own_row[i], handler);
	vm_install_exception_handler(boost.vm, SHARED_ROW, handler);
	vm_install_exception_handler(boost.vm, SHARED_ROW_TOO, handler);
	vm_install_exception_handler(boost.vm, NMI, handler);
	for (u32 i = 0; i < early; i++)
		add_vcpu();
}

#endif /* SELFTEST_KVM_STRICT_BOOST_ORDERS_H */
