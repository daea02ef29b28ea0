// SPDX-License-Identifier: GPL-2.0-only
/*
 * How the host carries out the Shoot4U hypercall, beyond its contract: that no vCPU is kept from
 * MMIO, what it may do with interrupts off, and where it looks for a vCPU's entries.
 */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "shoot4u_vm.h"

#define MMIO_READS 200
#define MMIO_SECONDS 20

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
	TEST_ASSERT(READ_ONCE(done) >= MMIO_READS, "the MMIO starves");
	stop_thread(flooding);
	stop_thread(reading);
	kvm_vm_free(vm);
}

/* Calls that would keep interrupts off for long take the usual path: many targets, a slow one. */
static void test_interrupts_off(void)
{
	pthread_t spinning;
	u64 alive, fast, ipis;

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
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_fast"), fast + 1);
	/* A call with an id that no vCPU has takes it too, and leaves the id. */
	good_record();
	record->first = 128;
	record->targets[0] = BIT_ULL(OTHER_ID - 128) | BIT_ULL(63);
	TEST_ASSERT_EQ(call(), 1);
	TEST_ASSERT_EQ(record->targets[0], BIT_ULL(63));
	TEST_ASSERT(try_parameter(SHOOT4U_FAST_US, "100"), "writing to " SHOOT4U_FAST_US);

	/* A vCPU that was interrupted for one call is left alone by the next, for another. */
	ipis = vcpu_stat(caller, "shoot4u_ipis");
	while (vcpu_stat(caller, "shoot4u_ipis") == ipis)
		EXPECT(record->first = 128; record->targets[0] = BIT_ULL(OTHER_ID - 128), 0);
	ipis = vcpu_stat(caller, "shoot4u_ipis");
	EXPECT(, 0);
	TEST_ASSERT_EQ(vcpu_stat(caller, "shoot4u_ipis"), ipis);
	unpin();
	stop_thread(spinning);
	kvm_vm_free(vm);
}

/* What the trace says of the parts of one call. */
struct parts {
	double first, last;	/* when the first began and the last ended, in seconds */
	double longest;		/* time that preemption was off */
	u32 nr, targets, most;	/* parts, targets in all and in one */
	bool interrupts_off;
};

static struct parts read_parts(void)
{
	FILE *trace = fopen(TRACING "trace", "r");
	struct parts parts = {};
	char line[512], flags[8], *text;
	double when, begin = 0;
	u32 targets;

	TEST_ASSERT(trace, "opening " TRACING "trace");
	while (fgets(line, sizeof(line), trace)) {
		if (sscanf(line, "%*s [%*u] %7s %lf:", flags, &when) != 2)
			continue;
		if (strstr(line, "kvm_shoot4u_call:")) {
			text = strstr(line, " targets ");
			TEST_ASSERT(text && sscanf(text, " targets %u", &targets) == 1,
				    "a line of the trace: %s", line);
			begin = when;
			parts.first = parts.nr++ ? parts.first : when;
			parts.targets += targets;
			parts.most = max(parts.most, targets);
			parts.interrupts_off |= flags[0] == 'd';
		} else if (strstr(line, "kvm_shoot4u_done:")) {
			parts.last = when;
			parts.longest = max(parts.longest, when - begin);
		}
	}
	fclose(trace);
	return parts;
}

/* How long a call takes for many vCPUs that do not run, and that few are served at once. */
static void test_many_targets(void)
{
	static const u32 counts[] = { 8, 64, 254 };
	struct parts parts;

	if (!try_events()) {
		pr_info("  needs tracefs\n");
		return;
	}
	for (int i = 0; i < ARRAY_SIZE(counts); i++) {
		make_large_vm(counts[i] + 1, syncing_guest_code, syncing_guest_code);
		good_record();
		record->first = 0;
		record->words = 4;
		request->a1 = RECORD_BYTES(4);
		memset(record->targets, 0, 4 * sizeof(u64));
		for (u32 id = 1, made = 0; made < counts[i]; id++) {
			struct kvm_vcpu *vcpu = id == TARGET_ID ? target : id == OTHER_ID ? other :
						add_vcpu(id, syncing_guest_code);

			put_on_map(vcpu);
			run_to_sync(vcpu);
			record->targets[id / 64] |= BIT_ULL(id % 64);
			made++;
		}
		TEST_ASSERT(try_events(), "clearing the trace");
		TEST_ASSERT_EQ(call(), 0);
		parts = read_parts();
		TEST_ASSERT(parts.nr && parts.last >= parts.first, "no events of the call");
		TEST_ASSERT(!parts.interrupts_off || counts[i] <= 64, "interrupts were off");
		TEST_ASSERT_EQ(parts.targets, counts[i]);
		TEST_ASSERT(parts.most <= 64, "%u targets with preemption off", parts.most);
		pr_info("  %u targets: %.0f us, interrupts %s; %u parts, the longest %.0f us\n",
			counts[i], (parts.last - parts.first) * 1e6,
			parts.interrupts_off ? "off" : "on", parts.nr, parts.longest * 1e6);
		kvm_vm_free(vm);
	}
	try_parameter(TRACING "events/kvm_shoot4u/enable", "0");
}

/*
 * A target that was loaded on another pCPU, had its request served there, and came back without
 * having entered the guest: SVM gives it a new ASID when it enters on another pCPU, and not when it
 * is loaded, so that its entries are still there to be used.
 */
static void test_moved_without_entry(void)
{
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || !try_events()) {
		pr_info("  needs two CPUs and tracefs\n");
		return;
	}
	make_vm(syncing_guest_code, syncing_guest_code);
	pin(pthread_self(), 0);
	run_to_sync(target);
	EXPECT(, 0);
	pin(pthread_self(), 1);
	run_without_entry(target);
	pin(pthread_self(), 0);
	TEST_ASSERT(try_events(), "clearing the trace");
	run_to_sync(target);
	/* Whoever invalidates must do so on the pCPU with the entries. */
	TEST_ASSERT(count_events("vcpu 65 ", "pcpu 0 kind ") ||
		    count_events("kvm_shoot4u_invalidate: ", "pcpu 0 range "),
		    "the target entered with its old entries");
	kvm_vm_free(vm);
	try_parameter(TRACING "events/kvm_shoot4u/enable", "0");
	unpin();
}

#define WHOLE "0x0-0xffffffffffffffff"
#define X86_FEATURE_FLUSHBYASID KVM_X86_CPU_FEATURE(0x8000000A, 0, EDX, 6)

/*
 * Runs the target, before whose entry VMX invalidates this range as many times. SVM flushes all
 * that the target has, by a new ASID or at VMRUN.
 */
static void expect_invalidated(const char *what, const char *range, int times)
{
	char text[64];
	int all, same;

	TEST_ASSERT(try_events(), "clearing the trace");
	run_to_sync(target);
	if (!host_cpu_is_intel) {
		all = count_events("kvm_shoot4u_flush: ", "vcpu 65 ");
		TEST_ASSERT(all || !times, "%s: nothing was flushed", what);
		return;
	}
	snprintf(text, sizeof(text), " range %s\n", range);
	all = count_events("kvm_shoot4u_invalidate: ", "vcpu 65 ");
	same = count_events("kvm_shoot4u_invalidate: ", text);
	TEST_ASSERT(all == times && same == times, "%s: %d invalidations, %d of %s; expected %d",
		    what, all, same, range, times);
}

/* Calls that many times, and says what the target's next entry must find invalidated. */
#define INVALIDATES(change, calls, range, times)		\
do {								\
	for (int n = 0; n < (calls); n++)			\
		EXPECT(change, 0);				\
	expect_invalidated(#change, range, times);		\
} while (0)

/* Without VPIDs VMX keeps no entries over an exit, and invalidates none. */
static bool has_tags(void)
{
	FILE *file = fopen("/sys/module/kvm_intel/parameters/vpid", "r");
	bool has = !file || fgetc(file) == 'Y';

	if (file)
		fclose(file);
	return has;
}

/* What is invalidated for a call: its range, or all where that is cheaper or necessary. */
static void test_invalidated(void)
{
	if (!has_tags() || !try_events()) {
		pr_info("  needs tracefs, and on VMX VPIDs\n");
		return;
	}
	make_vm(syncing_guest_code, syncing_guest_code);
	pin(pthread_self(), 0);
	run_to_sync(target);
	INVALIDATES(, 1, "0x7000-0x8000", 1);
	expect_invalidated("no call", WHOLE, 0);
	INVALIDATES(record->end = record->start + 33 * PAGE_SIZE, 1, "0x7000-0x28000", 1);
	INVALIDATES(record->end = record->start + 34 * PAGE_SIZE, 1, WHOLE, 1);
	INVALIDATES(record->start = 0; record->end = KVM_SHOOT4U_WHOLE, 1, WHOLE, 1);
	INVALIDATES(record->flags = KVM_SHOOT4U_FREED_TABLES, 1, WHOLE, 1);
	INVALIDATES(record->stride_shift = 21; record->start = 0; record->end = 1ull << 21, 1,
		    WHOLE, 1);
	INVALIDATES(record->stride_shift = 30; record->start = 0; record->end = 1ull << 30, 1,
		    WHOLE, 1);
	INVALIDATES(record->start = 1ull << 63; record->end = record->start + PAGE_SIZE, 1,
		    WHOLE, 1);
	/* The last page below the hole, whose end is not canonical. */
	INVALIDATES(record->start = 0x7ffffffff000; record->end = 0x800000000000, 1,
		    "0x7ffffffff000-0x800000000000", 1);

	/* As many ranges as the queue holds, one more, and a range before and behind the whole. */
	INVALIDATES(, 16, "0x7000-0x8000", 16);
	INVALIDATES(, 17, WHOLE, 1);
	EXPECT(, 0);
	EXPECT(record->start = 0; record->end = KVM_SHOOT4U_WHOLE, 0);
	INVALIDATES(, 1, WHOLE, 1);
	expect_invalidated("no call", WHOLE, 0);
	kvm_vm_free(vm);
	try_parameter(TRACING "events/kvm_shoot4u/enable", "0");
	unpin();
}

/* What KVM flushes itself is in the trace too: on another pCPU, and on SVM for each call. */
static void test_flushes(void)
{
	u32 eax, asids, ecx, edx;

	if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || !try_events()) {
		pr_info("  needs two CPUs and tracefs\n");
		return;
	}
	make_vm(syncing_guest_code, syncing_guest_code);
	pin(pthread_self(), 0);
	run_to_sync(target);
	EXPECT(, 0);
	run_to_sync(target);
	pin(pthread_self(), 1);
	TEST_ASSERT(try_events(), "clearing the trace");
	run_to_sync(target);
	TEST_ASSERT(count_events("vcpu 65 ", host_cpu_is_intel ? "pcpu 1 kind all" :
								 "pcpu 1 kind new-asid"),
		    "no flush for another pCPU");
	if (!host_cpu_is_intel) {
		/* By the ASID each time; or all of them at once, where they are used up. */
		__cpuid(0x8000000A, 0, &eax, &asids, &ecx, &edx);
		if (this_cpu_has(X86_FEATURE_FLUSHBYASID))
			asids = 1;
		TEST_ASSERT(try_events(), "clearing the trace");
		for (u32 n = 0; n <= asids; n++) {
			EXPECT(, 0);
			run_to_sync(target);
		}
		TEST_ASSERT(count_events("kvm_shoot4u_flush: ", "kind vmrun"), "no VMRUN flushed");
	}
	kvm_vm_free(vm);
	try_parameter(TRACING "events/kvm_shoot4u/enable", "0");
	unpin();
}

int main(int argc, char *argv[])
{
	static const struct shoot4u_test tests[] = {
		{ "what is invalidated", test_invalidated },
		{ "flushes of KVM", test_flushes },
		{ "MMIO in a flood of calls", test_mmio_in_a_flood },
		{ "interrupts off", test_interrupts_off },
		{ "many targets", test_many_targets },
		{ "a target that moved without entering", test_moved_without_entry },
	};

	return run_tests(tests, ARRAY_SIZE(tests), argc > 1 ? argv[1] : NULL);
}
