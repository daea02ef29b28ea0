// SPDX-License-Identifier: GPL-2.0-only
/*
 * A Shoot4U call that comes between the exit of its target and the use of what was translated for
 * it: at an MMIO write, a write to an ioeventfd by VMX's fast path, and the decode of what raised
 * #GP on SVM. KVM is made to wait there; without that a test would have to be lucky.
 *
 * Not here: the emulation of SGX's ENCLS, which no emulator of the lab has.
 */
#include <linux/kvm.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/eventfd.h>

#include "shoot4u_vm.h"

#define WAITING "/sys/module/kvm/parameters/shoot4u_waiting"
/* Where the page of MMIO_GPA is mapped to when it is revoked. */
#define NEW_GPA (MMIO_GPA + 0x1000)
#define NOT_CANONICAL BIT_ULL(63)
/* The CPU does not raise #GP for what only a nested host may do, so KVM need not look. */
#define X86_FEATURE_SVME_ADDR_CHK KVM_X86_CPU_FEATURE(0x8000000A, 0, EDX, 28)

static void writing_guest_code(void)
{
	for (;;) {
		WRITE_ONCE(*(u32 *)MMIO_GPA, 1);
		GUEST_SYNC(0);
	}
}

/* As a guest that may have guests of its own: KVM then intercepts its #GPs. */
static void faulting_guest_code(void)
{
	wrmsr(MSR_EFER, rdmsr(MSR_EFER) | EFER_SVME);
	for (;;) {
		GUEST_SYNC(0);
		GUEST_ASSERT_EQ(kvm_asm_safe("cmpb $0, (%%rax)", "a"(NOT_CANONICAL)), GP_VECTOR);
	}
}

static void plant(const char *wait)
{
	TEST_ASSERT(try_parameter(SHOOT4U_FAULT_PARAMETER, wait), "planting %s", wait);
}

static bool is_waiting(void)
{
	char text[16] = "";
	int fd = open(WAITING, O_RDONLY);

	TEST_ASSERT(fd >= 0 && read(fd, text, sizeof(text) - 1) > 0, "reading " WAITING);
	close(fd);
	return atoi(text) > 0;
}

static pthread_t running;
static bool came_through;

static void *run_target(void *unused)
{
	vcpu_run(target);
	WRITE_ONCE(came_through, true);
	return NULL;
}

/* Runs the target in a thread, until it waits or has come through without. */
static void run_to(const char *wait)
{
	came_through = false;
	plant(wait);
	running = start_thread(run_target, NULL);
	while (!is_waiting() && !READ_ONCE(came_through))
		usleep(1000);
}

/* Lets it go on to its next exit to userspace; whether it had waited. */
static bool go_on(void)
{
	bool waited = !READ_ONCE(came_through);

	plant("none");
	TEST_ASSERT(!pthread_join(running, NULL), "pthread_join");
	return waited;
}

/* Maps the page that the target writes to. */
static void map_only(vm_paddr_t gpa)
{
	u64 *pte = vm_get_page_table_entry(vm, MMIO_GPA);

	*pte = (*pte & ~PHYSICAL_PAGE_MASK) | gpa;
}

/* The same, and revokes what it was mapped to before. */
static s64 map_to(vm_paddr_t gpa)
{
	map_only(gpa);
	good_record();
	record->start = MMIO_GPA;
	record->end = MMIO_GPA + getpagesize();
	return call();
}

/*
 * The address of a page fault is not used when its translation was revoked since, and is used, as
 * KVM ever did, when nothing was.
 */
static void test_mmio(void)
{
	bool waited;
	s64 left;

	make_vm(writing_guest_code, syncing_guest_code);
	EXPECT(, 0);
	vcpu_run(target);
	TEST_ASSERT_KVM_EXIT_REASON(target, KVM_EXIT_MMIO);
	TEST_ASSERT_EQ(target->run->mmio.phys_addr, MMIO_GPA);
	run_to_sync(target);

	run_to("wait-exit");
	left = map_to(NEW_GPA);
	waited = go_on();
	TEST_ASSERT(waited, "nothing waited behind the exit");
	TEST_ASSERT_EQ(left, 0);
	TEST_ASSERT_KVM_EXIT_REASON(target, KVM_EXIT_MMIO);
	TEST_ASSERT(target->run->mmio.phys_addr == NEW_GPA, "the write went to %#llx, revoked",
		    target->run->mmio.phys_addr);

	run_to_sync(target);
	run_to("wait-exit");
	map_only(MMIO_GPA);
	waited = go_on();
	TEST_ASSERT(waited, "nothing waited behind the exit");
	TEST_ASSERT_KVM_EXIT_REASON(target, KVM_EXIT_MMIO);
	TEST_ASSERT(target->run->mmio.phys_addr == NEW_GPA, "the page tables were walked for %#llx",
		    target->run->mmio.phys_addr);
	kvm_vm_free(vm);
}

static int make_ioeventfd(vm_paddr_t gpa)
{
	struct kvm_ioeventfd event = { .addr = gpa, .fd = eventfd(0, EFD_NONBLOCK) };

	TEST_ASSERT(event.fd >= 0, "eventfd");
	vm_ioctl(vm, KVM_IOEVENTFD, &event);
	return event.fd;
}

/* How many writes there were since this was asked last. */
static u64 writes(int fd)
{
	eventfd_t count;

	return eventfd_read(fd, &count) ? 0 : count;
}

/*
 * A write to an ioeventfd of any length, which VMX carries out by the address of the exit alone,
 * and SVM by emulation as any other.
 */
static void test_fast_mmio(void)
{
	int old, new;
	u64 emulated;
	s64 left;

	make_vm(writing_guest_code, syncing_guest_code);
	old = make_ioeventfd(MMIO_GPA);
	new = make_ioeventfd(NEW_GPA);
	EXPECT(, 0);
	/* At the first write KVM learns that there is no memory. */
	run_to_sync(target);
	emulated = vcpu_stat(target, "insn_emulation");
	run_to_sync(target);
	TEST_ASSERT_EQ(writes(old), 2);
	if (host_cpu_is_intel)
		TEST_ASSERT_EQ(vcpu_stat(target, "insn_emulation"), emulated);

	run_to("wait-exit");
	left = map_to(NEW_GPA);
	go_on();
	TEST_ASSERT_EQ(left, 0);
	TEST_ASSERT(!writes(old) && writes(new) == 1, "the write went to what was revoked");

	/* And while the address is being used the target is left to the caller. */
	run_to_sync(target);
	TEST_ASSERT_EQ(writes(new), 1);
	run_to("wait-flagged");
	left = map_to(MMIO_GPA);
	go_on();
	TEST_ASSERT(left == 1, "a target amid fast MMIO was passed over");
	TEST_ASSERT_EQ(record->targets[0], BIT_ULL(TARGET_ID - 64));
	TEST_ASSERT_EQ(writes(old) + writes(new), 1);
	EXPECT(, 0);
	close(old);
	close(new);
	kvm_vm_free(vm);
}

/* The instruction that raised #GP is fetched with the flag up. */
static void test_decode(void)
{
	bool waited;
	s64 left;

	if (!kvm_cpu_has(X86_FEATURE_SVM) || this_cpu_has(X86_FEATURE_SVME_ADDR_CHK)) {
		pr_info("  needs SVM that raises #GP for addresses of a nested host\n");
		return;
	}
	make_vm(faulting_guest_code, syncing_guest_code);
	EXPECT(, 0);
	run_to_sync(target);

	run_to("wait-decode");
	good_record();
	left = call();
	waited = go_on();
	TEST_ASSERT(waited, "no instruction was decoded");
	TEST_ASSERT(left == 1, "a target amid a decode was passed over");
	TEST_ASSERT_EQ(record->targets[0], BIT_ULL(TARGET_ID - 64));
	run_to_sync(target);
	EXPECT(, 0);
	kvm_vm_free(vm);
}

int main(int argc, char *argv[])
{
	static const struct shoot4u_test tests[] = {
		{ "an MMIO write", test_mmio },
		{ "a write to an ioeventfd", test_fast_mmio },
		{ "the decode behind a #GP", test_decode },
	};

	__TEST_REQUIRE(!access(WAITING, F_OK), "KVM of this kernel does not wait for tests");
	return run_tests(tests, ARRAY_SIZE(tests), argc > 1 ? argv[1] : NULL);
}
