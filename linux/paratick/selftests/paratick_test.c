// SPDX-License-Identifier: GPL-2.0-only
/*
 * The contract of Paratick's MSR: who may declare what, how it is read, saved, restored and
 * reset, and which ticks come. Documentation/virt/kvm/x86/paratick.rst describes it.
 */
#include "paratick.h"

static void make_vm(void *code, bool aware)
{
	vm_vaddr_t page;

	vm = vm_create(1);
	if (halting)
		vm_enable_cap(vm, KVM_CAP_X86_DISABLE_EXITS, KVM_X86_DISABLE_EXITS_HLT);
	vcpu = vm_vcpu_add(vm, 0, code);
	if (aware)
		vcpu_set_cpuid_feature(vcpu, X86_FEATURE_KVM_PARATICK);
	else
		vcpu_clear_cpuid_feature(vcpu, X86_FEATURE_KVM_PARATICK);
	vm_install_exception_handler(vm, TICK_VECTOR, tick_handler);
	vm_install_exception_handler(vm, TIMER_VECTOR, timer_handler);
	page = vm_vaddr_alloc_page(vm);
	shared = addr_gva2hva(vm, page);
	guest_shared = (struct shared *)page;
	sync_global_to_guest(vm, guest_shared);
	vcpu_args_set(vcpu, 1, page);
}

static void test_feature_bit(void)
{
	make_vm(writing_guest_code, false);
	TEST_ASSERT_EQ(written(DECLARE(4 * MS)), GP_VECTOR);
	TEST_ASSERT_EQ(written(0), GP_VECTOR);
	TEST_ASSERT(_vcpu_set_msr(vcpu, MSR_KVM_PARATICK, DECLARE(4 * MS)) != 1,
		    "a vCPU without the feature was made to have ticks");
	kvm_vm_free(vm);

	make_vm(reading_guest_code, false);
	run();
	TEST_ASSERT_EQ(shared->vector, GP_VECTOR);
	kvm_vm_free(vm);
}

static void test_values(void)
{
	static const u64 refused[] = {
		4 * MS,						/* no vector */
		(31ull << KVM_PARATICK_VECTOR_SHIFT) | 4 * MS,	/* of an exception */
		DECLARE(0),
		DECLARE(1),
		DECLARE(SHORTEST - 1),
		DECLARE(KVM_PARATICK_MAX_PERIOD + 1ul),
		DECLARE(4 * MS) | BIT_ULL(40),
		DECLARE(4 * MS) | BIT_ULL(63),
		~0ull,
	};
	static const u64 accepted[] = {
		DECLARE(SHORTEST), DECLARE(3333333), DECLARE(4 * MS),
		DECLARE(KVM_PARATICK_MAX_PERIOD),
		(32ull << KVM_PARATICK_VECTOR_SHIFT) | 4 * MS,
		(255ull << KVM_PARATICK_VECTOR_SHIFT) | 4 * MS,
		0,
	};

	make_vm(writing_guest_code, true);
	for (int i = 0; i < ARRAY_SIZE(refused); i++) {
		TEST_ASSERT_EQ(written(refused[i]), GP_VECTOR);
		TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_KVM_PARATICK), 0);
	}
	for (int i = 0; i < ARRAY_SIZE(accepted); i++) {
		TEST_ASSERT_EQ(written(accepted[i]), 0);
		TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_KVM_PARATICK), accepted[i]);
	}
	TEST_ASSERT_EQ(written(DECLARE(4 * MS)), 0);
	TEST_ASSERT_EQ(written(~0ull), GP_VECTOR);
	TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_KVM_PARATICK), DECLARE(4 * MS));
	kvm_vm_free(vm);
}

/* What a guest reads that was restored here, or whose host thought again. */
static void test_reading(void)
{
	const struct kvm_msr_list *list = kvm_get_msr_index_list();
	bool listed = false;

	for (u32 i = 0; i < list->nmsrs; i++)
		listed |= list->indices[i] == MSR_KVM_PARATICK;
	TEST_ASSERT(listed, "the MSR would not be saved");

	make_vm(reading_guest_code, true);
	run();
	TEST_ASSERT(!shared->vector && !shared->value, "nothing declared it");

	vcpu_set_msr(vcpu, MSR_KVM_PARATICK, DECLARE(4 * MS));
	run();
	TEST_ASSERT_EQ(shared->value, DECLARE(4 * MS));

	set_mode("off");
	run();
	TEST_ASSERT_EQ(shared->value, 0);
	TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_KVM_PARATICK), DECLARE(4 * MS));
	set_mode("filled");
	run();
	TEST_ASSERT_EQ(shared->value, DECLARE(4 * MS));

	/* From a host that let guests have more ticks. */
	vcpu_set_msr(vcpu, MSR_KVM_PARATICK, DECLARE(SHORTEST / 2));
	run();
	TEST_ASSERT_EQ(shared->value, 0);
	TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_KVM_PARATICK), DECLARE(SHORTEST / 2));
	TEST_ASSERT(_vcpu_set_msr(vcpu, MSR_KVM_PARATICK, ~0ull) != 1, "nonsense was restored");
	kvm_vm_free(vm);
}

/* A mode that is not one is refused, and the mode stays. */
static void test_modes(void)
{
	TEST_ASSERT(!try_parameter(PARAMETER, "always"), "a mode that is not one is let pass");
	make_vm(writing_guest_code, true);
	TEST_ASSERT_EQ(written(DECLARE(4 * MS)), 0);
	kvm_vm_free(vm);
}

static void test_off(void)
{
	make_vm(writing_guest_code, true);
	set_mode("off");
	TEST_ASSERT_EQ(written(DECLARE(4 * MS)), GP_VECTOR);
	TEST_ASSERT_EQ(written(0), 0);
	set_mode("filled");
	kvm_vm_free(vm);
}

/* No administrator can let a guest ask for a tick each nanosecond. */
static void test_limits(void)
{
	TEST_ASSERT(!try_parameter(SHORTEST_PARAMETER, "0"), "periods of any length are let pass");
	TEST_ASSERT(!try_parameter(SHORTEST_PARAMETER, "99"), "10101 ticks a second are let pass");
	TEST_ASSERT(!try_parameter(SHORTEST_PARAMETER, "1000001"), "no period is let pass");
	TEST_ASSERT(try_parameter(SHORTEST_PARAMETER, "1000"), "the default is refused");
}

/* A vCPU that halts without leaving the guest is not seen to sleep. */
static void test_halting_in_the_guest(void)
{
	halting = true;
	make_vm(writing_guest_code, true);
	halting = false;
	TEST_ASSERT_EQ(written(DECLARE(4 * MS)), GP_VECTOR);
	TEST_ASSERT_EQ(written(0), 0);
	kvm_vm_free(vm);
}

static void test_reset(void)
{
	struct kvm_vcpu *sender;
	struct kvm_mp_state state;

	make_vm(writing_guest_code, true);
	sender = vm_vcpu_add(vm, 1, resetting_guest_code);
	TEST_ASSERT_EQ(written(DECLARE(4 * MS)), 0);
	vcpu_run(sender);
	TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_KVM_PARATICK), DECLARE(4 * MS));
	/* INIT is taken when the vCPU's state is looked at. */
	vcpu_mp_state_get(vcpu, &state);
	TEST_ASSERT_EQ(vcpu_get_msr(vcpu, MSR_KVM_PARATICK), 0);
	kvm_vm_free(vm);
}

/* Ticks come to a guest that computes, and no sooner than declared. */
static void test_rate(const char *mode, u64 period, u64 count)
{
	u64 start, length;

	set_mode(mode);
	make_vm(computing_guest_code, true);
	shared->value = DECLARE(period);
	shared->until = count;
	start = now();
	run();
	length = now() - start;
	pr_info("%s: %lu ticks of %lu ns in %lu ns, %lu of them by a timer\n", mode, count, period,
		length, stat("paratick_filled"));
	TEST_ASSERT(length >= (count - 1) * period, "too many ticks");
	TEST_ASSERT(stat("paratick_injected") >= count, "ticks from elsewhere");
	TEST_ASSERT(strcmp(mode, "host-ticks") || !stat("paratick_filled"), "a timer was armed");
	TEST_ASSERT(period != ODD_PERIOD || stat("paratick_filled") >= count / 4,
		    "the host's own ticks alone");
	kvm_vm_free(vm);
	set_mode("filled");
}

static void test_rates(void)
{
	test_rate("filled", 10 * MS, 20);
	test_rate("filled", 4 * MS, 50);
	test_rate("filled", ODD_PERIOD, 50);
	test_rate("filled", MS, 100);
	test_rate("host-ticks", 4 * MS, 50);
	test_rate("host-ticks", MS, 20);
}

static void test_declaring_in_a_loop(void)
{
	u64 start, length;

	make_vm(declaring_guest_code, true);
	shared->until = 20000;
	start = now();
	run();
	length = now() - start;
	pr_info("%lu ticks in %lu ns\n", shared->ticks, length);
	TEST_ASSERT(shared->ticks <= length / SHORTEST + 1, "more ticks than the limit allows");
	TEST_ASSERT(stat("paratick_filled") <= length / SHORTEST + 1, "more timers than that");
	kvm_vm_free(vm);
}

/* A guest that knows the host's clock chooses periods of which a multiple comes at once. */
static void test_choosing_periods(void)
{
	u64 start, length, soon;

	make_vm(choosing_guest_code, true);
	start = now();
	for (u32 round = 0; round < 200; round++) {
		soon = now() + MS / 20;
		shared->value = DECLARE(soon / (soon / (2 * SHORTEST)));
		run();
	}
	length = now() - start;
	pr_info("%lu ticks in %lu ns\n", shared->ticks, length);
	if (length > 150 * SHORTEST)
		pr_info("  the host is too slow to show it\n");
	TEST_ASSERT(shared->ticks <= length / SHORTEST + 1, "more ticks than the limit allows");
	kvm_vm_free(vm);
}

/* The timer for a tick of an odd period is not left when the next period needs none. */
static void test_another_period(void)
{
	make_vm(choosing_guest_code, true);
	shared->value = DECLARE(LONG_PERIOD / 4 + 1);
	run();
	shared->value = DECLARE(4 * MS);
	for (u64 start = now(); now() < start + LONG_PERIOD / 2;)
		run();
	TEST_ASSERT(shared->ticks >= 40, "%lu ticks", shared->ticks);
	TEST_ASSERT_EQ(stat("paratick_filled"), 0);
	kvm_vm_free(vm);
}

/* A timer is programmed once for a tick, however often the guest is entered before. */
static void test_one_timer_a_tick(void)
{
	int timers;

	make_vm(once_interrupted_guest_code, true);
	shared->value = DECLARE(LONG_PERIOD + 1);
	run();
	TEST_ASSERT(record_events("kvm_paratick/kvm_paratick_fill"), "no trace of timers");
	for (u32 round = 0; round < 100; round++)
		run();
	set_parameter(TRACING "events/kvm_paratick/kvm_paratick_fill/enable", "0");
	timers = read_events("kvm_paratick_fill", NULL, NULL);
	pr_info("%d timers in 100 runs\n", timers);
	/* One for each pCPU that it came to, and each tick. */
	TEST_ASSERT(timers <= 20, "a timer for each entry");
	kvm_vm_free(vm);
}

/* A VM that ends takes its timers with it: the next one, which has its memory, gets none. */
static void test_ending(void)
{
	for (u32 round = 0; round < 5; round++) {
		make_vm(choosing_guest_code, true);
		shared->value = DECLARE(LONG_PERIOD / 8 + 1);
		run();
		kvm_vm_free(vm);
		make_vm(choosing_guest_code, true);
		usleep(LONG_PERIOD / 4 / 1000);
		TEST_ASSERT_EQ(stat("paratick_filled"), 0);
		kvm_vm_free(vm);
	}
}

static void test_timer_counts(void)
{
	set_mode("host-ticks");
	make_vm(interrupted_guest_code, true);
	/* Due when neither the host's tick comes nor the timer. */
	shared->value = DECLARE(3333333);
	shared->until = 200;
	run();
	pr_info("%lu timers, %lu ticks, %lu taken\n", shared->timers, shared->ticks,
		stat("paratick_taken"));
	/* 60 are due; every fourth interrupt is the host's. */
	TEST_ASSERT(stat("paratick_taken") >= 10, "ticks beside timers");
	kvm_vm_free(vm);
	set_mode("filled");
}

/* A timer's interrupt @before a tick is due, and whether it is taken for the tick. */
static void test_timer_before(u64 before, bool taken)
{
	u64 due = (now() / LONG_PERIOD + 2) * LONG_PERIOD, begin = due - before;
	struct timespec start = { begin / (1000 * MS), begin % (1000 * MS) };

	make_vm(once_interrupted_guest_code, true);
	shared->value = DECLARE(LONG_PERIOD);
	clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &start, NULL);
	run();
	pr_info("a timer %ld ns before a tick is due\n", (long)(due - now()));
	do
		run();
	while (now() < due);
	run();
	run();
	TEST_ASSERT_EQ(shared->timers, 1);
	TEST_ASSERT_EQ(stat("paratick_taken"), taken);
	TEST_ASSERT_EQ(shared->ticks, !taken);
	kvm_vm_free(vm);
}

static void test_timer_just_before(void)
{
	u64 taken_from = LONG_PERIOD / KVM_PARATICK_TAKEN;

	test_timer_before(taken_from / 3, true);
	test_timer_before(3 * taken_from, false);
}

/* While one tick is pending the next ones are not counted as given. */
static void test_pending(void)
{
	make_vm(deaf_guest_code, true);
	shared->value = DECLARE(4 * MS);
	for (u64 start = now(); now() < start + 60 * MS;)
		run();
	pr_info("%lu ticks, %lu suppressed\n", stat("paratick_injected"),
		stat("paratick_suppressed"));
	TEST_ASSERT_EQ(stat("paratick_injected"), 1);
	TEST_ASSERT(stat("paratick_suppressed") >= 3, "no ticks are due");
	kvm_vm_free(vm);
}

/* None of the ticks that are due while a vCPU sleeps. */
static void test_sleep(void)
{
	make_vm(sleeping_guest_code, true);
	shared->value = DECLARE(4 * MS);
	shared->until = 40;
	run();
	pr_info("%lu timers, %lu ticks, %lu taken\n", shared->timers, shared->ticks,
		stat("paratick_taken"));
	TEST_ASSERT(shared->ticks + stat("paratick_taken") <= shared->until / 2,
		    "ticks for the time asleep");
	kvm_vm_free(vm);

	/* Nor has one any that sleeps and has declared nothing. */
	make_vm(sleeping_guest_code, true);
	shared->until = 5;
	run();
	TEST_ASSERT_EQ(shared->ticks + stat("paratick_taken") + stat("paratick_injected"), 0);
	kvm_vm_free(vm);
}

int main(void)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {
		{ "the feature bit", test_feature_bit },
		{ "values", test_values },
		{ "reading", test_reading },
		{ "modes", test_modes },
		{ "off", test_off },
		{ "limits of the shortest period", test_limits },
		{ "halting in the guest", test_halting_in_the_guest },
		{ "reset", test_reset },
		{ "rates", test_rates },
		{ "declaring in a loop", test_declaring_in_a_loop },
		{ "choosing periods", test_choosing_periods },
		{ "another period", test_another_period },
		{ "one timer a tick", test_one_timer_a_tick },
		{ "ending", test_ending },
		{ "a timer counts as a tick", test_timer_counts },
		{ "a timer just before a tick", test_timer_just_before },
		{ "one is pending", test_pending },
		{ "none for the time asleep", test_sleep },
	};

	__TEST_REQUIRE(!access(PARAMETER, F_OK), "This kernel has no Paratick");
	set_mode("filled");
	TEST_REQUIRE(kvm_cpu_has(X86_FEATURE_KVM_PARATICK));
	for (int i = 0; i < ARRAY_SIZE(tests); i++) {
		pr_info("%s\n", tests[i].name);
		tests[i].run();
	}
	return 0;
}
