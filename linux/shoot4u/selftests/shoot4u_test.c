// SPDX-License-Identifier: GPL-2.0-only
/*
 * The contract of the Shoot4U hypercall: who may call it, what it refuses, what it serves, and
 * what the host counts. Documentation/virt/kvm/x86/shoot4u.rst describes it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "apic.h"
#include "shoot4u_vm.h"

#define SLEEPING_CALLS 1000
#define READ_ONLY_GPA 0xc0000000ul
#define READ_ONLY_SLOT 5
#define READ_ONLY_FLAGS KVM_MEM_READONLY

static void test_arguments(void)
{
	make_vm(syncing_guest_code, syncing_guest_code);
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, READ_ONLY_GPA, READ_ONLY_SLOT, 1,
				    READ_ONLY_FLAGS);

	EXPECT(request->a1 -= 8, -KVM_EINVAL);
	EXPECT(request->a1 += 8, -KVM_EINVAL);
	EXPECT(request->a1 += 1, -KVM_EINVAL);
	EXPECT(request->a1 = 0, -KVM_EINVAL);
	EXPECT(request->a1 = ~0ull - 7, -KVM_EINVAL);
	EXPECT(request->a2 = 1, -KVM_EINVAL);
	EXPECT(request->a3 = 1ull << 63, -KVM_EINVAL);
	EXPECT(record->words = 0; request->a1 = RECORD_BYTES(0), -KVM_EINVAL);
	EXPECT(record->words = 65; request->a1 = RECORD_BYTES(65), -KVM_EINVAL);
	EXPECT(record->words = 2, -KVM_EINVAL);
	EXPECT(record->words = 1u << 29, -KVM_EINVAL);
	EXPECT(record->start += 8, -KVM_EINVAL);
	EXPECT(record->end -= 1, -KVM_EINVAL);
	EXPECT(record->end = record->start, -KVM_EINVAL);
	EXPECT(record->end = 0, -KVM_EINVAL);
	EXPECT(record->start = ~0xfffull; record->end = 0x1000, -KVM_EINVAL);
	EXPECT(record->end = KVM_SHOOT4U_WHOLE, -KVM_EINVAL);
	EXPECT(record->stride_shift = 0, -KVM_EINVAL);
	EXPECT(record->stride_shift = 13, -KVM_EINVAL);
	EXPECT(record->stride_shift = 21, -KVM_EINVAL);
	EXPECT(record->stride_shift = 12 + 64, -KVM_EINVAL);
	EXPECT(record->flags = 2, -KVM_EINVAL);
	EXPECT(record->flags = 1u << 31 | KVM_SHOOT4U_FREED_TABLES, -KVM_EINVAL);
	EXPECT(record->first = 1, -KVM_EINVAL);
	EXPECT(record->first = 63, -KVM_EINVAL);
	/* Behind the last APIC id comes none, and not the caller's 0. */
	EXPECT(record->first = 0xffffffc0; record->words = 2; request->a1 = RECORD_BYTES(2);
	       record->targets[0] = 0; record->targets[1] = 1, -KVM_EINVAL);
	EXPECT(request->a0 += 4, -KVM_EFAULT);
	EXPECT(request->a0 += getpagesize() - RECORD_BYTES(0), -KVM_EFAULT);
	EXPECT(request->a0 = 1ull << 40, -KVM_EFAULT);
	EXPECT(request->a0 = MMIO_GPA, -KVM_EFAULT);
	EXPECT(request->a0 = ~7ull, -KVM_EFAULT);

	EXPECT(, 0);
	EXPECT(record->start = 0; record->end = KVM_SHOOT4U_WHOLE, 0);
	EXPECT(record->flags = KVM_SHOOT4U_FREED_TABLES, 0);
	EXPECT(record->end += 1ull << 40, 0);
	EXPECT(record->stride_shift = 21; record->start = 0; record->end = 1ull << 21, 0);
	EXPECT(record->stride_shift = 30; record->start = 0; record->end = 1ull << 30, 0);
	EXPECT(record->start = 1ull << 63; record->end = record->start + 0x1000, 0);
	EXPECT(record->words = 64; request->a1 = RECORD_BYTES(64), 0);
	/* A record without targets, and one whose targets the host does not know: they are left. */
	EXPECT(record->targets[0] = 0, 0);
	EXPECT(record->targets[0] = ~BIT_ULL(TARGET_ID - 64), 63);
	EXPECT(record->first = 0xffffffc0; record->targets[0] = ~0ull, 64);

	/* The record is only read where nothing is left to the caller. */
	good_record();
	memcpy(addr_gpa2hva(vm, READ_ONLY_GPA), record, RECORD_BYTES(1));
	request->a0 = READ_ONLY_GPA;
	expect("a read-only record", 0);
	kvm_vm_free(vm);
}

static void test_feature_bit(void)
{
	const struct kvm_cpuid2 *supported = kvm_get_supported_cpuid();
	struct kvm_cpuid_entry2 *entry;

	TEST_ASSERT(kvm_cpu_has(X86_FEATURE_KVM_SHOOT4U), "not among %u supported leaves",
		    supported->nent);
	for (int enforce = 0; enforce < 2; enforce++) {
		for (int has = 0; has < 2; has++) {
			make_vm(syncing_guest_code, syncing_guest_code);
			vcpu_enable_cap(caller, KVM_CAP_ENFORCE_PV_FEATURE_CPUID, enforce);
			vcpu_set_or_clear_cpuid_feature(caller, X86_FEATURE_KVM_SHOOT4U, has);
			EXPECT(, has ? 0 : -KVM_ENOSYS);
			kvm_vm_free(vm);
		}
	}

	/* A target needs no feature bit: it is the caller's translations that are revoked. */
	make_vm(syncing_guest_code, syncing_guest_code);
	entry = vcpu_get_cpuid_entry(target, KVM_CPUID_FEATURES);
	entry->eax = 0;
	vcpu_set_cpuid(target);
	EXPECT(, 0);
	kvm_vm_free(vm);
}

/* Pages of selftests are the supervisor's. */
static void map_all_for_user(void)
{
	int level;

	for (sparsebit_idx_t page = sparsebit_first_set(vm->vpages_mapped); page;
	     page = sparsebit_next_set(vm->vpages_mapped, page)) {
		for (level = PG_LEVEL_512G; level >= PG_LEVEL_4K; level--) {
			int wanted = level;

			*__vm_get_page_table_entry(vm, page << vm->page_shift, &wanted) |=
				PTE_USER_MASK;
		}
	}
}

static void test_user_mode(void)
{
	struct kvm_sregs sregs;
	struct kvm_regs regs;

	make_vm(syncing_guest_code, syncing_guest_code);
	map_all_for_user();
	EXPECT(, 0);
	vcpu_sregs_get(caller, &sregs);
	sregs.cs.dpl = 3;
	sregs.ss.dpl = 3;
	sregs.cs.selector |= 3;
	sregs.ss.selector |= 3;
	vcpu_sregs_set(caller, &sregs);
	/* The I/O instruction of a ucall must still be allowed. */
	vcpu_regs_get(caller, &regs);
	regs.rflags |= 3 << 12;
	vcpu_regs_set(caller, &regs);

	good_record();
	TEST_ASSERT_EQ(call(), -KVM_EPERM);
	kvm_vm_free(vm);
}

static void test_modes(void)
{
	u64 deferred, served;

	make_vm(syncing_guest_code, syncing_guest_code);
	run_to_sync(target);
	EXPECT(, 0);

	/* A stopped target costs no interrupt now and an invalidation when it runs again. */
	deferred = vcpu_stat(caller, "shoot4u_deferred");
	served = vcpu_stat(target, "shoot4u_served");
	EXPECT(, 0);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_deferred"), deferred + 1);
	TEST_ASSERT_EQ(vcpu_stat(target, "shoot4u_served"), served);
	run_to_sync(target);
	TEST_ASSERT_EQ(vcpu_stat(target, "shoot4u_served"), served + 1);

	/* So do more ranges than the queue holds, in one go. */
	for (int i = 0; i < 100; i++)
		EXPECT(, 0);
	run_to_sync(target);
	TEST_ASSERT_EQ(vcpu_stat(target, "shoot4u_served"), served + 2);

	/* Switched off under a guest that has the feature. */
	set_mode("off");
	EXPECT(, -KVM_ENOSYS);
	set_mode("deferred");
	EXPECT(, 0);
	TEST_ASSERT(!try_mode("sometimes"), "an unknown mode was taken");
	kvm_vm_free(vm);
}

static void test_targets(void)
{
	u64 targets, ipis;

	/* No vCPU but the caller ever ran. */
	make_vm(syncing_guest_code, syncing_guest_code);
	targets = vcpu_stat(caller, "shoot4u_targets");
	EXPECT(, 0);
	EXPECT(record->first = 128; record->targets[0] = BIT_ULL(OTHER_ID - 128), 0);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_targets"), targets + 2);

	/* All three, the caller among them, in one call of three words. */
	run_to_sync(target);
	run_to_sync(other);
	ipis = vcpu_stat(caller, "shoot4u_ipis");
	EXPECT(record->first = 0; record->words = 3; request->a1 = RECORD_BYTES(3);
	       record->targets[0] = BIT_ULL(CALLER_ID);
	       record->targets[1] = BIT_ULL(TARGET_ID - 64);
	       record->targets[2] = BIT_ULL(OTHER_ID - 128), 0);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_targets"), targets + 5);
	TEST_ASSERT(vcpu_stat(caller, "shoot4u_ipis") - ipis <= 2, "more than one IPI for a pCPU");
	run_to_sync(target);
	TEST_ASSERT(vcpu_stat(target, "shoot4u_served"), "the target's request was lost");
	TEST_ASSERT(vcpu_stat(caller, "shoot4u_served"), "the caller's own request was lost");
	kvm_vm_free(vm);
}

/* A target whose APIC is off is left to the caller: it cannot be named by its id, and may run. */
static void test_apic_off(void)
{
	make_vm(syncing_guest_code, syncing_guest_code);
	run_to_sync(target);
	EXPECT(, 0);
	vcpu_set_msr(target, MSR_IA32_APICBASE,
		     vcpu_get_msr(target, MSR_IA32_APICBASE) & ~MSR_IA32_APICBASE_ENABLE);
	EXPECT(, 1);
	kvm_vm_free(vm);
}

/* A target that stopped amid an emulation is left to the caller. */
static void test_emulating(void)
{
	make_vm(mmio_guest_code, syncing_guest_code);
	run_to_sync(other);
	vcpu_run(target);
	TEST_ASSERT_KVM_EXIT_REASON(target, KVM_EXIT_MMIO);

	good_record();
	record->words = 2;
	record->targets[1] = BIT_ULL(OTHER_ID - 128);
	request->a1 = RECORD_BYTES(2);
	TEST_ASSERT_EQ(call(), 1);
	TEST_ASSERT_EQ(record->targets[0], BIT_ULL(TARGET_ID - 64));
	TEST_ASSERT_EQ(record->targets[1], 0);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_left"), 1);

	/* Left targets must be told, so this record has to be writable. */
	vm_userspace_mem_region_add(vm, VM_MEM_SRC_ANONYMOUS, READ_ONLY_GPA, READ_ONLY_SLOT, 1,
				    READ_ONLY_FLAGS);
	good_record();
	memcpy(addr_gpa2hva(vm, READ_ONLY_GPA), record, RECORD_BYTES(1));
	request->a0 = READ_ONLY_GPA;
	TEST_ASSERT_EQ(call(), -KVM_EFAULT);

	/* The emulation is over when KVM has the data, whether the vCPU enters the guest or not. */
	memset(target->run->mmio.data, 0, sizeof(target->run->mmio.data));
	vcpu_run_complete_io(target);
	EXPECT(, 0);
	run_to_sync(target);
	EXPECT(, 0);
	kvm_vm_free(vm);
}

/* A caller that waited for a target that is stopped, or waits for its SIPI, would wait for ever. */
static void test_nobody_is_waited_for(void)
{
	struct kvm_mp_state stopped = { .mp_state = KVM_MP_STATE_INIT_RECEIVED };
	pthread_t waiting;
	double start;

	make_vm(syncing_guest_code, spinning_guest_code);
	run_to_sync(target);
	vcpu_mp_state_set(other, &stopped);
	waiting = start_thread(vcpu_thread_body, other);
	start = seconds();
	for (int n = 0; n < SLEEPING_CALLS; n++) {
		good_record();
		record->words = 2;
		record->targets[1] = BIT_ULL(OTHER_ID - 128);
		request->a1 = RECORD_BYTES(2);
		TEST_ASSERT_EQ(call(), 0);
	}
	pr_info("%d calls for sleeping targets, %.1f us each\n", SLEEPING_CALLS,
		(seconds() - start) / SLEEPING_CALLS * 1e6);
	stop_thread(waiting);
	kvm_vm_free(vm);
}

/* A vCPU that is reset by INIT and started again is a target like any other. */
static void test_reset(void)
{
	struct kvm_mp_state init = { .mp_state = KVM_MP_STATE_INIT_RECEIVED };
	struct kvm_mp_state runnable = { .mp_state = KVM_MP_STATE_RUNNABLE };
	u64 served;

	make_vm(syncing_guest_code, syncing_guest_code);
	run_to_sync(target);
	vcpu_mp_state_set(target, &init);
	EXPECT(, 0);
	vcpu_mp_state_set(target, &runnable);
	served = vcpu_stat(target, "shoot4u_served");
	run_to_sync(target);
	TEST_ASSERT_EQ(vcpu_stat(target, "shoot4u_served"), served + 1);
	EXPECT(, 0);
	kvm_vm_free(vm);
}

/* The caller serves itself before it is back, and nothing is deferred. */
static void test_caller_alone(void)
{
	u64 served, deferred;

	make_vm(syncing_guest_code, syncing_guest_code);
	EXPECT(, 0);
	served = vcpu_stat(caller, "shoot4u_served");
	deferred = vcpu_stat(caller, "shoot4u_deferred");
	EXPECT(record->first = 0; record->targets[0] = BIT_ULL(CALLER_ID), 0);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_served"), served + 1);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_deferred"), deferred);
	kvm_vm_free(vm);
}

static void set_apic_id(struct kvm_vcpu *vcpu, u32 id)
{
	struct kvm_lapic_state lapic;

	vcpu_ioctl(vcpu, KVM_GET_LAPIC, &lapic);
	*(u32 *)(lapic.regs + APIC_ID) = id << 24;
	vcpu_ioctl(vcpu, KVM_SET_LAPIC, &lapic);
}

/* Where two vCPUs share an APIC id, no vCPU can be named, of those two or others. */
static void test_shared_apic_id(void)
{
	make_vm(syncing_guest_code, syncing_guest_code);
	run_to_sync(target);
	EXPECT(, 0);
	set_apic_id(other, CALLER_ID);
	EXPECT(, -KVM_EOPNOTSUPP);
	EXPECT(record->words = 64; request->a1 = RECORD_BYTES(64), -KVM_EOPNOTSUPP);
	set_apic_id(other, OTHER_ID);
	EXPECT(, 0);
	kvm_vm_free(vm);
}

/* A hypercall of another number is not one of ours, whatever its arguments are. */
static void test_other_number(void)
{
	u64 calls, refused;

	make_vm(syncing_guest_code, syncing_guest_code);
	EXPECT(, 0);
	calls = vcpu_stat(caller, "shoot4u_calls");
	refused = vcpu_stat(caller, "shoot4u_refused");
	good_record();
	request->nr |= BIT_ULL(32);
	TEST_ASSERT_EQ(call(), -KVM_ENOSYS);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_calls"), calls);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_refused"), refused);
	kvm_vm_free(vm);
}

#define VMCALL "\x0f\x01\xc1"
#define VMMCALL "\x0f\x01\xd9"
#define CPUID "\x0f\xa2"
#define NOP 0x90

/* Runs one instruction in the guest, which must stop right behind it; what it left in RAX. */
static u64 step(struct kvm_vcpu *vcpu, const char *instruction)
{
	struct kvm_guest_debug debug = {
		.control = KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_SINGLESTEP,
	};
	/* What a guest may read it may run. */
	u64 code = request_gva + sizeof(*request);
	struct kvm_regs regs;

	memset(request + 1, NOP, 16);
	memcpy(request + 1, instruction, strlen(instruction));
	vcpu_regs_get(vcpu, &regs);
	regs.rip = code;
	regs.rax = KVM_HC_SHOOT4U;
	regs.rbx = record_gpa;
	regs.rcx = RECORD_BYTES(1);
	regs.rdx = 0;
	regs.rsi = 0;
	vcpu_regs_set(vcpu, &regs);
	vcpu_guest_debug_set(vcpu, &debug);
	vcpu_run(vcpu);
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_DEBUG);
	TEST_ASSERT_EQ(vcpu->run->debug.arch.pc, code + strlen(instruction));
	vcpu_regs_get(vcpu, &regs);
	return regs.rax;
}

/* A VMM that steps through a guest stops behind the call, and a vCPU that stopped is served. */
static void test_single_steps(void)
{
	u64 calls;

	/* Bochs, whose SVM has NRIPS, takes the trap of a step that exits in the host. */
	if (this_cpu_has(X86_FEATURE_SVM) && this_cpu_has(X86_FEATURE_NRIPS)) {
		pr_info("  needs VMX, or SVM without NRIPS\n");
		return;
	}
	make_vm(syncing_guest_code, syncing_guest_code);
	EXPECT(, 0);
	/* KVM may skip an instruction by its emulator, which holds nothing then. */
	run_to_sync(target);
	vcpu_run_complete_io(target);
	step(target, CPUID);
	EXPECT(, 0);

	calls = vcpu_stat(caller, "shoot4u_calls");
	good_record();
	vcpu_run_complete_io(caller);
	TEST_ASSERT_EQ(step(caller, host_cpu_is_amd ? VMMCALL : VMCALL), 0);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_calls"), calls + 1);
	kvm_vm_free(vm);
}

int main(int argc, char *argv[])
{
	static const struct shoot4u_test tests[] = {
		{ "the feature bit", test_feature_bit },
		{ "arguments", test_arguments },
		{ "user mode", test_user_mode },
		{ "modes", test_modes },
		{ "targets", test_targets },
		{ "a target whose APIC is off", test_apic_off },
		{ "an emulating target", test_emulating },
		{ "no vCPU is waited for", test_nobody_is_waited_for },
		{ "reset", test_reset },
		{ "the caller alone", test_caller_alone },
		{ "a shared APIC id", test_shared_apic_id },
		{ "another number", test_other_number },
		{ "single steps", test_single_steps },
	};

	return run_tests(tests, ARRAY_SIZE(tests), argc > 1 ? argv[1] : NULL);
}
