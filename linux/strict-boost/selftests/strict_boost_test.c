// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strict Boost's account of IPIs that are not taken, beside what the receivers count themselves:
 * on each path by which an IPI leaves a vCPU, in VMs of 2, 8 and more than 64 vCPUs, one of which
 * is added when the others have run.
 *
 * One thread runs all vCPUs in turns, so that at each step it is known who has sent and who has
 * taken what. What happens when these are at the same time is in strict_boost_stress_test.
 */
#include <sys/mount.h>

#include "strict_boost_orders.h"

#define TRACING "/sys/kernel/tracing/"
#define LOOKS TRACING "events/kvm_strict_boost/kvm_strict_boost_look/enable"

/* What is being tested, for the messages. */
static const char *now = "unicast";

static const struct order take = { ORDER_TAKE }, hold = { ORDER_NONE };

/* Runs a vCPU and returns how often it has taken the vector; the host must have as many. */
static u64 run_and_compare(u32 vcpu, struct order order, u8 vector, u64 tracked)
{
	u64 count = shared->counts[vcpu][vector], taken = account_of(&boost, vcpu).taken;

	run(vcpu, order);
	count = shared->counts[vcpu][vector] - count;
	taken = account_of(&boost, vcpu).taken - taken;
	TEST_ASSERT(taken == count * tracked,
		    "%s: vCPU %u took vector %#x %lu times; %lu were cleared, expected %lu", now,
		    vcpu, vector, count, taken, count * tracked);
	return count;
}

static void send(const struct sending *sending, u64 noted)
{
	struct account before = account_of_all(&boost), after;

	run(sending->sender, sending->order);
	after = account_of_all(&boost);
	TEST_ASSERT(after.ipis - before.ipis == noted, "%s: %lu were noted, expected %lu",
		    now, after.ipis - before.ipis, noted);
	TEST_ASSERT(after.taken == before.taken, "%s: %lu were cleared, and nobody took one",
		    now, after.taken - before.taken);
}

static void assert_balance(void)
{
	struct account account = account_of_all(&boost);

	TEST_ASSERT(account.ipis == account.taken, "%s: %lu were noted, %lu were cleared",
		    now, account.ipis, account.taken);
}

static struct sending a_sending(const struct path *path, u32 sender, u32 target, u8 vector)
{
	struct sending sending = {
		.nr = boost.nr, .sender = sender, .target = target, .vector = vector,
		.page = &shared->page,
		.page_gpa = addr_gva2gpa(boost.vm, (vm_vaddr_t)&guest_shared->page),
	};

	path->make(&sending);
	return sending;
}

/*
 * Sends, twice: two IPIs of one vector that were not taken are one. Nobody takes it before it may,
 * then everybody does. Which one of several it was shows by who counts it.
 */
static void test_path(const struct path *path, u32 sender, u32 target, u8 vector)
{
	struct sending sending = a_sending(path, sender, target, vector);
	struct account before = account_of_all(&boost);
	u64 noted = 0, count, counted = 0;
	u32 i;

	now = path->name;
	for (i = 0; i < boost.nr; i++)
		noted += sending.to[i] && i != sender;
	if (sending.to_one) {
		run(sender, sending.order);
	} else {
		send(&sending, noted);
		send(&sending, 0);
	}
	for (i = 0; i < boost.nr; i++)
		TEST_ASSERT(!run_and_compare(i, hold, vector, 0), "%s: %u has interrupts off", now,
			    i);
	for (i = 0; i < boost.nr; i++) {
		count = run_and_compare(i, take, vector, i != sender);
		counted += count && i != sender;
		TEST_ASSERT(count == sending.to[i] || (sending.to_one && !count),
			    "%s: vCPU %u of %u took it %lu times, expected %u", now, i, boost.nr,
			    count, sending.to[i]);
	}
	if (!sending.to_one)
		TEST_ASSERT_EQ(counted, noted);
	TEST_ASSERT_EQ(account_of_all(&boost).ipis - before.ipis, counted);
	assert_balance();
}

static const struct path unicast = { "unicast", X2APIC, 0, make_x2apic_unicast };

/* Many vCPUs send one vector to one: it takes one interrupt, and owes nobody any more. */
static void test_merged(void)
{
	u32 last = boost.nr - 1;
	struct sending sending;

	for (u32 i = 0; i < last; i++) {
		sending = a_sending(&unicast, i, last, own_row[1]);
		send(&sending, 1);
	}
	TEST_ASSERT_EQ(run_and_compare(last, take, own_row[1], last), 1);
	assert_balance();
}

/* Vectors that share a row are one for the account, until the last of them is taken. */
static void test_shared_row(void)
{
	struct sending one = a_sending(&unicast, 0, 1, SHARED_ROW);
	struct sending other = a_sending(&unicast, 0, 1, SHARED_ROW_TOO);
	u64 count = shared->counts[1][SHARED_ROW_TOO];

	send(&one, 1);
	send(&other, 0);
	TEST_ASSERT_EQ(run_and_compare(1, take, SHARED_ROW, 1), 1);
	TEST_ASSERT_EQ(shared->counts[1][SHARED_ROW_TOO] - count, 1);
	assert_balance();
}

/* An IPI that the receiver loses in a reset is not waited for. */
static void test_reset(void)
{
	struct sending sending = a_sending(&unicast, 0, 1, own_row[0]);
	struct kvm_lapic_state lapic;

	send(&sending, 1);
	vcpu_ioctl(boost.vcpus[1], KVM_GET_LAPIC, &lapic);
	memset(lapic.regs + APIC_IRR, 0, 0x80);
	vcpu_ioctl(boost.vcpus[1], KVM_SET_LAPIC, &lapic);
	assert_balance();
	TEST_ASSERT_EQ(run_and_compare(1, take, own_row[0], 1), 0);
}

/* An interrupt of a device has no sender, and an NMI no vector. */
static void test_untracked(void)
{
	struct sending nmi = a_sending(&unicast, 0, 1, NMI);
	struct kvm_msi msi = { .address_lo = APIC_DEFAULT_GPA | 1 << 12, .data = own_row[2] };

	TEST_ASSERT(__vm_ioctl(boost.vm, KVM_SIGNAL_MSI, &msi) == 1, "KVM_SIGNAL_MSI");
	TEST_ASSERT_EQ(account_of_all(&boost).ipis, account_of_all(&boost).taken);
	TEST_ASSERT_EQ(run_and_compare(1, take, own_row[2], 0), 1);
	nmi.order.a0 |= APIC_DM_NMI;
	send(&nmi, 0);
	TEST_ASSERT_EQ(run_and_compare(1, hold, NMI, 0), 1);
	assert_balance();
}

/* Has a vCPU spin: of how many vCPUs does the host say that they have not taken its IPIs? */
static u32 awaited_by(u32 vcpu)
{
	struct order spin = { ORDER_HV, HVCALL_NOTIFY_LONG_SPIN_WAIT | HV_HYPERCALL_FAST_BIT };
	char line[512], *text;
	u32 awaited = ~0u;
	FILE *trace;

	close(open(TRACING "trace", O_WRONLY | O_TRUNC));
	run(vcpu, spin);
	trace = fopen(TRACING "trace", "r");
	TEST_ASSERT(trace, "opening " TRACING "trace");
	while (fgets(line, sizeof(line), trace)) {
		text = strstr(line, " awaited ");
		if (text)
			awaited = atoi(text + strlen(" awaited "));
	}
	fclose(trace);
	TEST_ASSERT(awaited != ~0u, "no look of vCPU %u was traced", vcpu);
	return awaited;
}

/* The account of each vCPU is its own, and follows each receiver. */
static void test_looks(void)
{
	static const struct path all = { "all", HYPERV, 0, make_hv_sparse };
	struct sending sending = a_sending(&all, 0, 1, own_row[0]);
	u32 last = boost.nr - 1;

	send(&sending, last);
	TEST_ASSERT_EQ(awaited_by(0), last);
	TEST_ASSERT_EQ(awaited_by(last), 0);
	sending = a_sending(&all, 1, 0, own_row[2]);
	send(&sending, last);
	TEST_ASSERT_EQ(awaited_by(1), last);
	for (u32 i = last; i > 1; i--) {
		run(i, hold);
		TEST_ASSERT_EQ(awaited_by(0), i);
		run(i, take);
		TEST_ASSERT_EQ(awaited_by(0), i - 1);
		TEST_ASSERT_EQ(awaited_by(1), i - 1);
	}
	run(0, take);
	TEST_ASSERT_EQ(awaited_by(1), 0);
	run(1, take);
	TEST_ASSERT_EQ(awaited_by(0), 0);
	assert_balance();
}

static void claim_rows(void)
{
	struct sending sending;

	for (int i = 0; i < ARRAY_SIZE(own_row); i++) {
		sending = a_sending(&unicast, 0, 1, own_row[i]);
		if (shared->mode < X2APIC)
			make_xapic_unicast(&sending);
		send(&sending, 1);
		TEST_ASSERT_EQ(run_and_compare(1, take, own_row[i], 1), 1);
	}
}

static void test_vm(enum apic_mode mode, u32 early, u32 late)
{
	u32 run_paths = 0;

	make_vm(mode, early, late);
	if (early > 1)
		claim_rows();
	while (boost.nr < early + late)
		add_vcpu();
	claim_rows();
	for (int i = 0; i < ARRAY_SIZE(paths); i++) {
		if (paths[i].mode != mode || (paths[i].most && boost.nr > paths[i].most))
			continue;
		test_path(&paths[i], 0, boost.nr - 1, own_row[0]);
		test_path(&paths[i], boost.nr - 1, 0, own_row[1]);
		test_path(&paths[i], boost.nr / 2, 1, SHARED_ROW);
		run_paths++;
	}
	now = "unicast";
	if (mode == X2APIC) {
		test_merged();
		test_shared_row();
		test_reset();
		test_untracked();
	}
	if (mode == HYPERV)
		test_looks();
	pr_info("%u vCPUs, mode %u: %u paths, %lu IPIs noted and taken\n", boost.nr, mode,
		run_paths, account_of_all(&boost).ipis);
	boost_free(&boost);
}

int main(void)
{
	/* vCPUs that are there from the beginning, and those that are added when they have run. */
	static const u32 sizes[][2] = { { 1, 1 }, { 7, 1 }, { 64, 8 } };

	__TEST_REQUIRE(!access(STRICT_BOOST_PARAMETER, F_OK), "this kernel has no Strict Boost");
	mount("tracefs", TRACING, "tracefs", 0, NULL);
	__TEST_REQUIRE(try_parameter(LOOKS, "1"), "this kernel does not trace Strict Boost");
	set_mode("track");
	for (int i = 0; i < ARRAY_SIZE(sizes); i++)
		for (int mode = XAPIC_FLAT; mode <= HYPERV; mode++)
			if (mode != XAPIC_CLUSTER || sizes[i][0] < 60)
				test_vm(mode, sizes[i][0], sizes[i][1]);
	set_mode("off");
	try_parameter(LOOKS, "0");
	return 0;
}
