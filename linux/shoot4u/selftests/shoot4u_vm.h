/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A VM of three vCPUs for the tests of the Shoot4U hypercall: one that calls and two others, and a
 * call that is changed bit by bit.
 */
#ifndef SELFTEST_KVM_SHOOT4U_VM_H
#define SELFTEST_KVM_SHOOT4U_VM_H

#include <stdlib.h>

#include "shoot4u.h"

#define MMIO_GPA 0xd0000000ul

static struct kvm_vm *vm;
static struct kvm_vcpu *caller, *target, *other;
static struct request *request;
static vm_vaddr_t request_gva;
static struct kvm_shoot4u_call *record;
static vm_paddr_t record_gpa;

/* Spins in the guest; @alive is where it says that it came here. */
static inline void spinning_guest_code(u64 *alive)
{
	for (;;)
		WRITE_ONCE(*alive, *alive + 1);
}

static inline void syncing_guest_code(void)
{
	for (;;)
		GUEST_SYNC(0);
}

/* Each round exits to userspace amid an instruction that KVM emulates. */
static inline void mmio_guest_code(void)
{
	for (;;) {
		READ_ONCE(*(u32 *)MMIO_GPA);
		GUEST_SYNC(0);
	}
}

static inline struct kvm_vcpu *add_vcpu(u32 id, void *code)
{
	struct kvm_vcpu *vcpu = vm_vcpu_add(vm, id, code);

	vcpu_set_cpuid_feature(vcpu, X86_FEATURE_KVM_SHOOT4U);
	return vcpu;
}

/* A new vCPU comes into KVM's map of APIC ids when anything changes in that; VMMs do as much. */
static inline void put_on_map(struct kvm_vcpu *vcpu)
{
	struct kvm_lapic_state lapic;

	vcpu_ioctl(vcpu, KVM_GET_LAPIC, &lapic);
	vcpu_ioctl(vcpu, KVM_SET_LAPIC, &lapic);
}

static inline void make_large_vm(u32 vcpus, void *target_code, void *other_code)
{
	vm_vaddr_t gva;

	vm = vm_create(vcpus);
	caller = add_vcpu(CALLER_ID, caller_guest_code);
	target = add_vcpu(TARGET_ID, target_code);
	other = add_vcpu(OTHER_ID, other_code);
	put_on_map(other);

	request_gva = vm_vaddr_alloc_page(vm);
	request = addr_gva2hva(vm, request_gva);
	vcpu_args_set(caller, 1, request_gva);
	gva = vm_vaddr_alloc_page(vm);
	record = addr_gva2hva(vm, gva);
	record_gpa = addr_gva2gpa(vm, gva);
	virt_map(vm, MMIO_GPA, MMIO_GPA, 1);
}

static inline void make_vm(void *target_code, void *other_code)
{
	make_large_vm(3, target_code, other_code);
}

/* One page, for vCPU 65. */
static inline void good_record(void)
{
	memset(record, 0, getpagesize());
	record->start = 0x7000;
	record->end = 0x8000;
	record->stride_shift = 12;
	record->words = 1;
	record->first = 64;
	record->targets[0] = BIT_ULL(TARGET_ID - 64);
	*request = (struct request){
		.nr = KVM_HC_SHOOT4U, .a0 = record_gpa, .a1 = RECORD_BYTES(1), .ret = 12345
	};
}

static inline s64 call(void)
{
	run_to_sync(caller);
	return request->ret;
}

/* Makes the call, which must return @ret and leave the record as it is. */
static inline void expect(const char *what, s64 ret)
{
	u64 refused = vcpu_stat(caller, "shoot4u_refused");
	u64 calls = vcpu_stat(caller, "shoot4u_calls");
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

struct shoot4u_test {
	const char *name;
	void (*run)(void);
};

/* All tests, or those that have the first argument of the command line in their names. */
static inline int run_tests(const struct shoot4u_test *tests, int count, const char *part)
{
	__TEST_REQUIRE(!access(SHOOT4U_PARAMETER, F_OK), "This kernel has no Shoot4U");
	__TEST_REQUIRE(try_mode("deferred") && kvm_cpu_has(X86_FEATURE_KVM_SHOOT4U),
		       "Shoot4U needs two-dimensional paging");
	for (int i = 0; i < count; i++) {
		if (part && !strstr(tests[i].name, part))
			continue;
		pr_info("%s\n", tests[i].name);
		tests[i].run();
	}
	return 0;
}

#endif /* SELFTEST_KVM_SHOOT4U_VM_H */
