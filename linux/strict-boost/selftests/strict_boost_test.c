// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strict Boost's account of IPIs: by each way that an IPI leaves a vCPU, with more vectors than
 * there are rows, to receivers that halt and that spin. Every IPI that a receiver counts must
 * have been noted at its sending and cleared at its taking.
 *
 * Usage: strict_boost_test [ROUNDS]
 */
#include <asm/barrier.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "apic.h"
#include "test_util.h"
#include "kvm_util.h"
#include "processor.h"

#define PARAMETER "/sys/module/kvm/parameters/strict_boost"
#define RECEIVERS 2
#define VECTORS 6
#define FIRST_VECTOR 0x41
#define ROUNDS 200
/* Rounds of the guest's loop after which an IPI counts as lost. */
#define PATIENCE 2000000000ULL

enum way { UNICAST, LOGICAL, ALL_BUT_SELF, BROADCAST, PV, WAYS };

static const char * const way_names[] = {
	"unicast", "logical", "all but self", "broadcast", "hypercall"
};

static u64 received[RECEIVERS];
static u64 ready;
static bool halting;
static u64 rounds = ROUNDS;

static void guest_ipi_handler(struct ex_regs *regs)
{
	u64 me = x2apic_read_reg(APIC_ID);

	/* The sender is reached by a broadcast too. */
	if (me)
		WRITE_ONCE(received[me - 1], received[me - 1] + 1);
	x2apic_write_reg(APIC_EOI, 0);
}

static void receiver_guest_code(void)
{
	x2apic_enable();
	__atomic_fetch_add(&ready, 1, __ATOMIC_SEQ_CST);
	for (;;) {
		if (READ_ONCE(halting))
			asm volatile("sti; hlt; cli");
		else
			asm volatile("sti; pause; pause; cli");
	}
}

/* Sends to all receivers. Ids are small, so that all are in cluster 0. */
static void send(enum way way, u8 vector)
{
	u64 icr = APIC_DM_FIXED | APIC_INT_ASSERT | vector;
	int i;

	switch (way) {
	case UNICAST:
		for (i = 1; i <= RECEIVERS; i++)
			x2apic_write_reg(APIC_ICR, icr | (u64)i << 32);
		break;
	case LOGICAL:
		x2apic_write_reg(APIC_ICR, icr | APIC_DEST_LOGICAL | 0x6ull << 32);
		break;
	case ALL_BUT_SELF:
		x2apic_write_reg(APIC_ICR, icr | APIC_DEST_ALLBUT);
		break;
	case BROADCAST:
		x2apic_write_reg(APIC_ICR, icr | 0xffffffffull << 32);
		break;
	default:
		kvm_hypercall(KVM_HC_SEND_IPI, 0x6, 0, 0, icr & ~APIC_INT_ASSERT);
	}
}

static void sender_guest_code(void)
{
	u64 expected = 0, patience;
	enum way way;
	int i;

	x2apic_enable();
	while (READ_ONCE(ready) < RECEIVERS)
		cpu_relax();
	asm volatile("sti");

	for (way = UNICAST; way < WAYS; way++) {
		for (u64 round = 0; round < rounds; round++) {
			WRITE_ONCE(halting, round & 1);
			send(way, FIRST_VECTOR + round % VECTORS);
			expected++;
			for (i = 0; i < RECEIVERS; i++) {
				patience = PATIENCE;
				while (READ_ONCE(received[i]) != expected && --patience)
					cpu_relax();
				GUEST_ASSERT_EQ(READ_ONCE(received[i]), expected);
			}
		}
		GUEST_SYNC(way);
	}
	GUEST_DONE();
}

static u64 vcpu_stat(struct kvm_vcpu *vcpu, const char *name)
{
	struct kvm_stats_desc *all, *desc;
	struct kvm_stats_header header;
	int fd = vcpu_get_stats_fd(vcpu);
	bool found = false;
	u64 value = 0;

	read_stats_header(fd, &header);
	all = read_stats_descriptors(fd, &header);
	for (u32 i = 0; i < header.num_desc && !found; i++) {
		desc = get_stats_descriptor(all, i, &header);
		found = !strcmp(desc->name, name);
		if (found)
			read_stat_data(fd, &header, desc, &value, 1);
	}
	free(all);
	close(fd);
	TEST_ASSERT(found, "the vCPU has no statistic %s", name);
	return value;
}

static void *receiver_thread(void *vcpu)
{
	struct kvm_vcpu *receiver = vcpu;
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	vcpu_run(receiver);
	TEST_FAIL("a receiver left: %s", exit_reason_str(receiver->run->exit_reason));
	return NULL;
}

/* A mode that there is not is refused, and the one before stays. */
static void test_parameter(int fd)
{
	TEST_ASSERT(write(fd, "no such mode", 12) == -1, "a mode that there is not was taken");
	TEST_ASSERT(write(fd, "track", 5) == 5, "writing track to " PARAMETER);
}

static void run_ways(struct kvm_vcpu *sender, struct kvm_vcpu **receivers)
{
	u64 noted, taken, before = 0, sent;
	struct ucall uc;

	for (int way = UNICAST; way < WAYS; way++) {
		vcpu_run(sender);
		TEST_ASSERT_KVM_EXIT_REASON(sender, KVM_EXIT_IO);
		if (get_ucall(sender, &uc) == UCALL_ABORT)
			REPORT_GUEST_ASSERT(uc);
		TEST_ASSERT_EQ(uc.cmd, UCALL_SYNC);
		noted = vcpu_stat(sender, "strict_boost_ipis");
		taken = vcpu_stat(sender, "strict_boost_taken");
		for (int i = 0; i < RECEIVERS; i++)
			taken += vcpu_stat(receivers[i], "strict_boost_taken");
		sent = RECEIVERS * rounds * (way + 1);
		pr_info("%-12s %lu sent and received, %lu noted, %lu cleared\n", way_names[way],
			sent - before, noted - before, taken - before);
		TEST_ASSERT_EQ(noted, sent);
		TEST_ASSERT_EQ(taken, sent);
		before = sent;
	}
}

int main(int argc, char *argv[])
{
	struct kvm_vcpu *sender, *receivers[RECEIVERS];
	pthread_t threads[RECEIVERS];
	char mode[16] = "";
	struct kvm_vm *vm;
	void *left;
	int fd;

	if (argc > 1)
		rounds = atoi_positive("rounds", argv[1]);
	fd = open(PARAMETER, O_RDWR);
	__TEST_REQUIRE(fd >= 0, "this kernel has no " PARAMETER);
	TEST_ASSERT(read(fd, mode, sizeof(mode) - 1) > 0, "reading " PARAMETER);
	test_parameter(fd);

	vm = vm_create(1 + RECEIVERS);
	sender = vm_vcpu_add(vm, 0, sender_guest_code);
	for (int i = 0; i < RECEIVERS; i++)
		receivers[i] = vm_vcpu_add(vm, i + 1, receiver_guest_code);
	for (int i = 0; i < VECTORS; i++)
		vm_install_exception_handler(vm, FIRST_VECTOR + i, guest_ipi_handler);
	sync_global_to_guest(vm, rounds);
	for (int i = 0; i < RECEIVERS; i++)
		TEST_ASSERT(!pthread_create(&threads[i], NULL, receiver_thread, receivers[i]),
			    "pthread_create");

	run_ways(sender, receivers);

	for (int i = 0; i < RECEIVERS; i++) {
		pthread_cancel(threads[i]);
		pthread_join(threads[i], &left);
	}
	kvm_vm_free(vm);
	TEST_ASSERT(write(fd, mode, strcspn(mode, "\n")) > 0, "restoring " PARAMETER);
	close(fd);
	return 0;
}
