// SPDX-License-Identifier: GPL-2.0-only
/*
 * The contract of the Shoot4U hypercall: who may call it, what it refuses, whom it serves, and
 * what the host counts. Documentation/virt/kvm/x86/shoot4u.rst describes it.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#include "apic.h"
#include "shoot4u.h"

#define SLEEPING_CALLS 1000
#define EAGER_CALLS 200
#define MMIO_READS 200
#define MMIO_SECONDS 20
#define MMIO_GPA 0xd0000000ul
#define READ_ONLY_GPA 0xc0000000ul
#define READ_ONLY_SLOT 5
#define READ_ONLY_FLAGS KVM_MEM_READONLY

static struct kvm_vm *vm;
static struct kvm_vcpu *caller, *target, *other;
static struct request *request;
static vm_vaddr_t request_gva;
static struct kvm_shoot4u_call *record;
static vm_paddr_t record_gpa;

/* Spins in the guest; @arg is where it tells that it came here. */
static void spinning_guest_code(u64 *alive)
{
	for (;;)
		WRITE_ONCE(*alive, *alive + 1);
}

static void syncing_guest_code(void)
{
	for (;;)
		GUEST_SYNC(0);
}

/* Each round exits to userspace amid an instruction that KVM emulates. */
static void mmio_guest_code(void)
{
	for (;;) {
		READ_ONCE(*(u32 *)MMIO_GPA);
		GUEST_SYNC(0);
	}
}

static struct kvm_vcpu *add_vcpu(u32 id, void *code)
{
	struct kvm_vcpu *vcpu = vm_vcpu_add(vm, id, code);

	vcpu_set_cpuid_feature(vcpu, X86_FEATURE_KVM_SHOOT4U);
	return vcpu;
}

static void make_vm(void *target_code, void *other_code)
{
	struct kvm_lapic_state lapic;
	vm_vaddr_t gva;

	vm = vm_create(3);
	caller = add_vcpu(CALLER_ID, caller_guest_code);
	target = add_vcpu(TARGET_ID, target_code);
	other = add_vcpu(OTHER_ID, other_code);
	/* A new vCPU comes into KVM's map of APIC ids when anything changes in that; as VMMs do. */
	vcpu_ioctl(other, KVM_GET_LAPIC, &lapic);
	vcpu_ioctl(other, KVM_SET_LAPIC, &lapic);

	request_gva = vm_vaddr_alloc_page(vm);
	request = addr_gva2hva(vm, request_gva);
	vcpu_args_set(caller, 1, request_gva);
	gva = vm_vaddr_alloc_page(vm);
	record = addr_gva2hva(vm, gva);
	record_gpa = addr_gva2gpa(vm, gva);
	virt_map(vm, MMIO_GPA, MMIO_GPA, 1);
}

/* One page, for vCPU 65. */
static void good_record(void)
{
	memset(record, 0, getpagesize());
	record->start = 0x7000;
	record->end = 0x8000;
	record->stride_shift = 12;
	record->words = 1;
	record->first = 64;
	record->targets[0] = BIT_ULL(TARGET_ID - 64);
	*request = (struct request){ .a0 = record_gpa, .a1 = RECORD_BYTES(1), .ret = 12345 };
}

static s64 call(void)
{
	run_to_sync(caller);
	return request->ret;
}

/* Makes the call, which must return @ret and leave the record as it is. */
static void expect(const char *what, s64 ret)
{
	u64 refused = vcpu_stat(caller, "shoot4u_refused"), calls = vcpu_stat(caller, "shoot4u_calls");
	u8 *before = malloc(getpagesize());
	s64 got;

	memcpy(before, record, getpagesize());
	got = call();
	TEST_ASSERT(got == ret, "%s: returned %ld, expected %ld", what, got, ret);
	TEST_ASSERT(!memcmp(before, record, getpagesize()), "%s: the record was changed", what);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_refused") - refused, ret < 0 ? 1 : 0);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_calls") - calls, ret < 0 ? 0 : 1);
	free(before);
}

#define EXPECT(change, ret)		\
do {					\
	good_record();			\
	change;				\
	expect(#change, ret);		\
} while (0)

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
	sregs.cs.dpl = sregs.ss.dpl = 3;
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
	static const char * const modes[] = { "eager", "deferred" };
	u64 deferred, served;

	make_vm(syncing_guest_code, syncing_guest_code);
	run_to_sync(target);
	for (int i = 0; i < ARRAY_SIZE(modes); i++) {
		set_mode(modes[i]);
		EXPECT(, 0);
	}

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

	/* Nobody but the caller ever ran. */
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

/* A target whose APIC is off is left to the caller: nothing can be sent to it by its id, and yet it may run. */
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

	/* The planted fault that passes such a target over would be seen by the lines above. */
	if (try_parameter(SHOOT4U_FAULT_PARAMETER, "ignore-emulation")) {
		good_record();
		TEST_ASSERT_EQ(call(), 0);
		TEST_ASSERT(try_parameter(SHOOT4U_FAULT_PARAMETER, "none"), "mending the fault");
	} else {
		pr_info("this kernel has no planted faults\n");
	}

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

/* Reads from MMIO for ever. */
static void *mmio_thread(void *done)
{
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	for (;;) {
		vcpu_run(target);
		if (target->run->exit_reason == KVM_EXIT_MMIO)
			WRITE_ONCE(*(int *)done, *(int *)done + 1);
	}
	return NULL;
}

/* Revokes something for ever. */
static void flooding_guest_code(struct request *request)
{
	for (;;) {
		kvm_hypercall(KVM_HC_SHOOT4U, request->a0, request->a1, 0, 0);
		WRITE_ONCE(request->ret, request->ret + 1);
	}
}

/*
 * Guest threads that unmap all the time must not keep a vCPU from its MMIO, which begins with an
 * address that the CPU translated before they did.
 */
static void test_mmio_in_a_flood(void)
{
	pthread_t reading, flooding;
	double start, alone, flooded;
	int done = 0;

	make_vm(mmio_guest_code, flooding_guest_code);
	vcpu_args_set(other, 1, request_gva);
	good_record();
	request->ret = 0;
	reading = start_thread(mmio_thread, &done);
	pin(reading, 1);
	start = seconds();
	while (READ_ONCE(done) < MMIO_READS)
		usleep(1000);
	alone = seconds() - start;

	/* A planted fault makes it so that there is always a call; a flood, only that it is likely. */
	if (!try_parameter(SHOOT4U_FAULT_PARAMETER, "always-revoked"))
		pr_info("  this kernel has no planted faults\n");
	flooding = start_thread(vcpu_thread_body, other);
	pin(flooding, 0);
	while (READ_ONCE(request->ret) < 2)
		usleep(1000);
	WRITE_ONCE(done, 0);
	start = seconds();
	while (READ_ONCE(done) < MMIO_READS && seconds() - start < MMIO_SECONDS)
		usleep(1000);
	flooded = seconds() - start;
	pr_info("  %d reads in %.3f s alone, %d in %.3f s beside %ld calls\n", MMIO_READS, alone,
		READ_ONCE(done), flooded, READ_ONCE(request->ret));
	try_parameter(SHOOT4U_FAULT_PARAMETER, "none");
	TEST_ASSERT(READ_ONCE(done) >= MMIO_READS, "the MMIO starves");
	stop_thread(flooding);
	stop_thread(reading);
	kvm_vm_free(vm);
}

/* Calls that would keep interrupts off for long take the usual path: many targets, a slow one. */
static void test_interrupts_off(void)
{
	pthread_t spinning;
	u64 alive, fast;

	make_vm(syncing_guest_code, spinning_guest_code);
	alive = vm_vaddr_alloc_page(vm);
	vcpu_args_set(other, 1, alive);
	EXPECT(, 0);
	fast = vcpu_stat(caller, "shoot4u_fast");
	if (!fast) {
		pr_info("  no call is carried out with interrupts off here\n");
		kvm_vm_free(vm);
		return;
	}
	/* Unknown ids are targets too. */
	EXPECT(record->targets[0] = ~BIT_ULL(TARGET_ID - 64), 63);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_fast"), fast + 1);
	EXPECT(record->words = 2; request->a1 = RECORD_BYTES(2);
	       record->targets[0] = ~BIT_ULL(TARGET_ID - 64); record->targets[1] = 3, 65);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_fast"), fast + 1);

	spinning = start_thread(vcpu_thread_body, other);
	pin(spinning, 1);
	pin(pthread_self(), 0);
	while (!READ_ONCE(*(u64 *)addr_gva2hva(vm, alive)))
		usleep(1000);
	TEST_ASSERT(try_parameter(SHOOT4U_FAST_US, "0"), "writing to " SHOOT4U_FAST_US);
	EXPECT(record->first = 128; record->targets[0] = BIT_ULL(OTHER_ID - 128), 0);
	TEST_ASSERT(try_parameter(SHOOT4U_FAST_US, "100"), "writing to " SHOOT4U_FAST_US);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_fast"), fast + 1);
	unpin();
	stop_thread(spinning);
	kvm_vm_free(vm);
}

/* However many VMs there are, a pCPU takes a bounded number of interrupts for vCPUs that do not run. */
static void test_interrupts_of_two_vms(void)
{
	struct kvm_vcpu *callers[2];
	struct kvm_vm *vms[2];
	u64 served = 0;
	double start;

	set_mode("eager");
	pin(pthread_self(), 0);
	for (int i = 0; i < 2; i++) {
		make_vm(syncing_guest_code, syncing_guest_code);
		run_to_sync(target);
		good_record();
		vms[i] = vm;
		callers[i] = caller;
	}
	TEST_ASSERT(try_parameter(SHOOT4U_IPIS_PER_MS, "1"), "writing to " SHOOT4U_IPIS_PER_MS);
	start = seconds();
	for (int n = 0; n < EAGER_CALLS; n++)
		for (int i = 0; i < 2; i++)
			run_to_sync(callers[i]);
	start = seconds() - start;
	TEST_ASSERT(try_parameter(SHOOT4U_IPIS_PER_MS, "64"), "writing to " SHOOT4U_IPIS_PER_MS);
	for (int i = 0; i < 2; i++) {
		served += EAGER_CALLS - vcpu_stat(callers[i], "shoot4u_limited");
		kvm_vm_free(vms[i]);
	}
	pr_info("  %lu of %d calls served by an interrupt in %.1f ms\n", served, 2 * EAGER_CALLS,
		start * 1e3);
	/* A window is 2^20 ns; the first and the last may be cut. */
	TEST_ASSERT(served <= start * 1e9 / (1 << 20) + 2, "two VMs interrupt a pCPU too often");
	set_mode("deferred");
	unpin();
}

/*
 * A target that was loaded on another pCPU, had its request served there, and came back without
 * having entered the guest: SVM gives it a new ASID when it enters on another pCPU, and not when it
 * is loaded, so that its entries are still there to be used.
 */
static void test_moved_without_entry(void)
{
	static const char * const modes[] = { "deferred", "eager" };

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || !try_events()) {
		pr_info("  needs two CPUs and tracefs\n");
		return;
	}
	for (int i = 0; i < ARRAY_SIZE(modes); i++) {
		set_mode(modes[i]);
		make_vm(syncing_guest_code, syncing_guest_code);
		pin(pthread_self(), 0);
		run_to_sync(target);
		if (i == 0)
			EXPECT(, 0);
		pin(pthread_self(), 1);
		run_without_entry(target);
		if (i == 1) {
			TEST_ASSERT(try_events(), "clearing the trace");
			EXPECT(, 0);
		}
		pin(pthread_self(), 0);
		if (i == 0)
			TEST_ASSERT(try_events(), "clearing the trace");
		run_to_sync(target);
		/* Whoever invalidates, it must be of this vCPU, and on the pCPU with the entries. */
		TEST_ASSERT(count_events("vcpu 65 ", "pcpu 0 kind ") ||
			    count_events("kvm_shoot4u_invalidate: ", "pcpu 0 range "),
			    "%s: the target entered with its old entries", modes[i]);
		kvm_vm_free(vm);
	}
	try_parameter(TRACING "events/kvm_shoot4u/enable", "0");
	set_mode("deferred");
	unpin();
}

/* Whoever waited for a target that is stopped, or waits for its SIPI, would wait for ever. */
static void test_nobody_is_waited_for(void)
{
	static const char * const modes[] = { "eager", "deferred" };
	struct kvm_mp_state stopped = { .mp_state = KVM_MP_STATE_INIT_RECEIVED };
	pthread_t waiting;
	double start;

	make_vm(syncing_guest_code, spinning_guest_code);
	run_to_sync(target);
	vcpu_mp_state_set(other, &stopped);
	waiting = start_thread(vcpu_thread_body, other);
	for (int i = 0; i < ARRAY_SIZE(modes); i++) {
		set_mode(modes[i]);
		start = seconds();
		for (int n = 0; n < SLEEPING_CALLS; n++) {
			good_record();
			record->words = 2;
			record->targets[1] = BIT_ULL(OTHER_ID - 128);
			request->a1 = RECORD_BYTES(2);
			TEST_ASSERT_EQ(call(), 0);
		}
		pr_info("%s: %d calls for sleeping targets, %.1f us each\n", modes[i],
			SLEEPING_CALLS, (seconds() - start) / SLEEPING_CALLS * 1e6);
	}
	stop_thread(waiting);
	set_mode("deferred");
	kvm_vm_free(vm);
}

/* A vCPU that is reset by INIT and started anew is a target like any other. */
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

/* All tests, or those that have the first argument in their names. */
int main(int argc, char *argv[])
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "the feature bit", test_feature_bit },
		{ "arguments", test_arguments },
		{ "user mode", test_user_mode },
		{ "modes", test_modes },
		{ "targets", test_targets },
		{ "a target whose APIC is off", test_apic_off },
		{ "an emulating target", test_emulating },
		{ "MMIO in a flood of calls", test_mmio_in_a_flood },
		{ "interrupts off", test_interrupts_off },
		{ "interrupts of two VMs", test_interrupts_of_two_vms },
		{ "a target that moved without entering", test_moved_without_entry },
		{ "nobody is waited for", test_nobody_is_waited_for },
		{ "reset", test_reset },
	};

	__TEST_REQUIRE(!access(SHOOT4U_PARAMETER, F_OK), "This kernel has no Shoot4U");
	__TEST_REQUIRE(try_mode("deferred") && kvm_cpu_has(X86_FEATURE_KVM_SHOOT4U),
		       "Shoot4U needs two-dimensional paging");
	for (int i = 0; i < ARRAY_SIZE(tests); i++) {
		if (argc > 1 && !strstr(tests[i].name, argv[1]))
			continue;
		pr_info("%s\n", tests[i].name);
		tests[i].run();
	}
	return 0;
}
