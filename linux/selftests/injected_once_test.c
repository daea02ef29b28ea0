// SPDX-License-Identifier: GPL-2.0-only
/*
 * An interrupt that is injected at a VM entry is taken once, and never while the guest has
 * interrupts off, also when the emulated processor must stop right behind the entry. It asks the
 * emulator below, not KVM: QEMU 7.2 takes some twice. A thread on another CPU makes QEMU stop all
 * processors for a moment, by a locked instruction on an address that is not aligned.
 */
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <unistd.h>

#include "apic.h"
#include "kvm_util.h"
#include "processor.h"
#include "test_util.h"

#define VECTOR 0x40
#define RFLAGS_IF BIT(9)
#define ROUNDS 10000
/* Turns of a loop with interrupts off in each round: where a second delivery shows. */
#define OFF_TURNS 500
/* Turns of a loop between two stops. */
#define STOP_TURNS 2000

/* What the guest and the test exchange; in memory of the guest. */
struct shared {
	u64 taken;		/* interrupts so far */
	u64 taken_while_off;	/* of these, with interrupts off */
	u64 rounds;		/* interrupts that were sent */
};

static struct shared *shared, *guest_shared;
static bool done;

static void handler(struct ex_regs *regs)
{
	guest_shared->taken++;
	if (!(regs->rflags & RFLAGS_IF))
		guest_shared->taken_while_off++;
	x2apic_write_reg(APIC_EOI, 0);
}

static void guest_code(struct shared *s)
{
	x2apic_enable();
	while (s->rounds < ROUNDS) {
		s->rounds++;
		x2apic_write_reg(APIC_ICR, APIC_DEST_SELF | APIC_INT_ASSERT | VECTOR);
		asm volatile("sti");
		while (READ_ONCE(s->taken) < s->rounds)
			cpu_relax();
		asm volatile("cli");
		for (int turn = 0; turn < OFF_TURNS; turn++)
			cpu_relax();
	}
	GUEST_SYNC(0);
}

static void *stop_all(void *unused)
{
	static struct {
		char before;
		u32 counter;
	} __packed __aligned(64) unaligned;

	kvm_pin_this_task_to_pcpu(1);
	while (!READ_ONCE(done)) {
		asm volatile("lock incl %0" : "+m"(unaligned.counter));
		for (int turn = 0; turn < STOP_TURNS; turn++)
			cpu_relax();
	}
	return NULL;
}

int main(void)
{
	struct kvm_vcpu *vcpu;
	struct kvm_vm *vm;
	vm_vaddr_t page;
	pthread_t thread;

	TEST_REQUIRE(sysconf(_SC_NPROCESSORS_ONLN) > 1);
	vm = vm_create_with_one_vcpu(&vcpu, guest_code);
	vm_install_exception_handler(vm, VECTOR, handler);
	page = vm_vaddr_alloc_page(vm);
	shared = addr_gva2hva(vm, page);
	guest_shared = (struct shared *)page;
	sync_global_to_guest(vm, guest_shared);
	vcpu_args_set(vcpu, 1, page);

	TEST_ASSERT(!pthread_create(&thread, NULL, stop_all, NULL), "no thread");
	kvm_pin_this_task_to_pcpu(0);
	vcpu_run(vcpu);
	WRITE_ONCE(done, true);
	pthread_join(thread, NULL);

	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	pr_info("%lu interrupts sent, %lu taken, %lu of them with interrupts off\n",
		shared->rounds, shared->taken, shared->taken_while_off);
	TEST_ASSERT_EQ(shared->rounds, (u64)ROUNDS);
	TEST_ASSERT_EQ(shared->taken, shared->rounds);
	TEST_ASSERT_EQ(shared->taken_while_off, 0ul);
	kvm_vm_free(vm);
	return 0;
}
