// SPDX-License-Identifier: GPL-2.0-only
/*
 * Whether the instructions that Shoot4U and KVM invalidate by take the entries of a TLB: a vCPU
 * leaves the guest with its entries, its page table is changed and the call made, and it looks
 * again. Each invalidation is left out, too, and must then be missed.
 *
 * The latter needs a processor that keeps the entries of a guest over exits, which few emulators
 * do. Others see no fault, and the test says so.
 */

#include "shoot4u_vm.h"

#define PAGES 2
/* What the guest reads: of the pages that are mapped at first, of the others, of one of each. */
#define OLD 21
#define NEW 43
#define LAST_OLD 23

static vm_vaddr_t pages;
/* Whether entries outlive an exit. */
static bool kept;

static void reading_guest_code(u64 *first)
{
	for (;;)
		GUEST_SYNC(READ_ONCE(first[0]) + 10 * READ_ONCE(first[PAGE_SIZE / sizeof(u64)]));
}

static void plant(const char *fault)
{
	TEST_ASSERT(try_parameter(SHOOT4U_FAULT_PARAMETER, fault), "planting %s", fault);
}

static void make_reader(void)
{
	make_vm(reading_guest_code, syncing_guest_code);
	pages = vm_vaddr_alloc_pages(vm, 2 * PAGES);
	vcpu_args_set(target, 1, pages);
	for (int i = 0; i < 2 * PAGES; i++)
		*(u64 *)addr_gva2hva(vm, pages + i * PAGE_SIZE) = i + 1;
	EXPECT(, 0);
	pin(pthread_self(), 0);
	TEST_ASSERT_EQ(run_to_sync(target), OLD);
}

static void map_others(void)
{
	for (int i = 0; i < PAGES; i++)
		*vm_get_page_table_entry(vm, pages + i * PAGE_SIZE) =
			*vm_get_page_table_entry(vm, pages + (i + PAGES) * PAGE_SIZE);
}

static void revoke_pages(bool whole)
{
	good_record();
	record->start = whole ? 0 : pages;
	record->end = whole ? KVM_SHOOT4U_WHOLE : pages + PAGES * PAGE_SIZE;
	TEST_ASSERT_EQ(call(), 0);
}

static void test_without_a_call(void)
{
	make_reader();
	map_others();
	kept = run_to_sync(target) == OLD;
	kvm_vm_free(vm);
	pr_info("  entries are %s over an exit\n", kept ? "kept" : "not kept");
}

/* SVM flushes ASIDs as a whole, and has nothing to leave out where VMX names addresses. */
static void test_invalidations(void)
{
	static const struct {
		const char *fault;
		bool whole;
		u64 vmx, svm;
	} rows[] = {
		{ "none", false, NEW, NEW },
		{ "none", true, NEW, NEW },
		{ "no-address", false, OLD, NEW },
		{ "no-address", true, NEW, NEW },
		{ "no-context", false, NEW, OLD },
		{ "no-context", true, OLD, OLD },
		{ "wrong-vpid", false, OLD, NEW },
		{ "wrong-vpid", true, OLD, NEW },
		{ "short-range", false, LAST_OLD, NEW },
	};
	u64 seen, expected;

	for (int i = 0; i < ARRAY_SIZE(rows); i++) {
		expected = !kept ? NEW : host_cpu_is_intel ? rows[i].vmx : rows[i].svm;
		make_reader();
		map_others();
		plant(rows[i].fault);
		revoke_pages(rows[i].whole);
		seen = run_to_sync(target);
		plant("none");
		pr_info("  %s, %s: %lu\n", rows[i].fault, rows[i].whole ? "whole" : "pages",
			seen);
		TEST_ASSERT(seen == expected, "the guest read %lu, expected %lu", seen, expected);
		kvm_vm_free(vm);
	}
}

/* What a vCPU has left on another pCPU goes when it comes back; on SVM by a new ASID. */
static void test_migration(void)
{
	static const char * const faults[] = { "none", "skip-migrated" };
	u64 seen, expected;

	for (int i = 0; i < ARRAY_SIZE(faults); i++) {
		expected = i && kept && host_cpu_is_intel ? OLD : NEW;
		make_reader();
		pin(pthread_self(), 1);
		TEST_ASSERT_EQ(run_to_sync(target), OLD);
		map_others();
		revoke_pages(false);
		TEST_ASSERT_EQ(run_to_sync(target), NEW);
		pin(pthread_self(), 0);
		plant(faults[i]);
		seen = run_to_sync(target);
		plant("none");
		pr_info("  %s: %lu\n", faults[i], seen);
		TEST_ASSERT(seen == expected, "the guest read %lu, expected %lu", seen, expected);
		kvm_vm_free(vm);
	}
}

int main(int argc, char *argv[])
{
	static const struct shoot4u_test tests[] = {
		{ "without a call", test_without_a_call },
		{ "invalidations", test_invalidations },
		{ "migration", test_migration },
	};

	__TEST_REQUIRE(!access(SHOOT4U_FAULT_PARAMETER, F_OK), "This kernel has no planted faults");
	TEST_REQUIRE(sysconf(_SC_NPROCESSORS_ONLN) >= 2);
	return run_tests(tests, ARRAY_SIZE(tests), argc > 1 ? argv[1] : NULL);
}
