// SPDX-License-Identifier: GPL-2.0-only
/*
 * The Shoot4U hypercall under load: two workers read a page whose mapping the caller swaps, while
 * their threads are moved between pCPUs; and a VM that floods the host with calls beside a VM and
 * a task that only want to compute.
 *
 * Most emulators keep no tagged TLB entries over a world switch. There the first test shows that
 * the protocol serves its targets, not that the right entry of a TLB was invalidated.
 */
#include <asm/barrier.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include "apic.h"
#include "shoot4u.h"

#define WORKERS 2
#define PAGES 2
#define ROUNDS 60
/* Turns of a worker's loop that a round waits for: it saw what was there before. */
#define TURNS 3
#define FLOOD_MS 300
#define FLOOD_TURNS 3
/* What the neighbours of a flood keep at least, of what they have beside a VM that spins. */
#define KEPT_PERCENT 25

/* Shared by the vCPUs; the pages behind it are those that swap. */
struct shared {
	u64 expected;		/* 0: do not look */
	u64 turns[WORKERS];
	u64 *view;		/* the page that is looked at */
	u64 *pte[PAGES];	/* its entry, and that of the page it is swapped with */
	struct kvm_shoot4u_call *record;
	vm_paddr_t record_gpa;
	u64 calls;
	u64 rounds;
	bool whole;
};

static void worker_guest_code(struct shared *shared, u64 index)
{
	u64 expected, value;

	/* Without, KVM may not have the vCPU in its map of APIC ids, and no vCPU can name it. */
	x2apic_enable();
	for (;;) {
		expected = READ_ONCE(shared->expected);
		rmb(); /* the value is read later: pairs with wmb() in swapper_guest_code() */
		value = READ_ONCE(*shared->view);
		rmb(); /* and before what is expected is read again */
		/* Only what was expected before and after the reading counts. */
		if (expected && expected == READ_ONCE(shared->expected))
			GUEST_ASSERT_EQ(value, expected);
		WRITE_ONCE(shared->turns[index], shared->turns[index] + 1);
	}
}

static void await_turns(struct shared *shared)
{
	for (int i = 0; i < WORKERS; i++) {
		u64 from = READ_ONCE(shared->turns[i]);

		while (READ_ONCE(shared->turns[i]) < from + TURNS)
			cpu_relax();
	}
}

static u64 call_for(struct shared *shared, u64 start, u64 end)
{
	struct kvm_shoot4u_call *record = shared->record;

	record->start = start;
	record->end = end;
	record->stride_shift = 12;
	record->words = 3;
	record->first = 0;
	record->flags = 0;
	record->targets[0] = BIT_ULL(CALLER_ID);
	record->targets[1] = BIT_ULL(TARGET_ID - 64);
	record->targets[2] = BIT_ULL(OTHER_ID - 128);
	return kvm_hypercall(KVM_HC_SHOOT4U, shared->record_gpa, RECORD_BYTES(3), 0, 0);
}

static void swapper_guest_code(struct shared *shared)
{
	u64 start = (u64)shared->view, end = start + PAGE_SIZE, entry;

	for (u64 round = 1;; round++) {
		WRITE_ONCE(shared->expected, 0);
		await_turns(shared);
		entry = *shared->pte[0];
		WRITE_ONCE(*shared->pte[0], *shared->pte[1]);
		WRITE_ONCE(*shared->pte[1], entry);
		GUEST_ASSERT_EQ(shared->whole ? call_for(shared, 0, KVM_SHOOT4U_WHOLE) :
						call_for(shared, start, end), 0);
		wmb(); /* after the swap: pairs with rmb() in worker_guest_code() */
		/* The pages hold 1 and 2, and were not swapped before the first round. */
		WRITE_ONCE(shared->expected, 1 + round % 2);
		await_turns(shared);
		if (round == shared->rounds) {
			WRITE_ONCE(shared->expected, 0);
			GUEST_SYNC(shared->rounds);
			round = 0;
		}
	}
}

static void flooding_guest_code(struct shared *shared)
{
	x2apic_enable();
	for (;;) {
		GUEST_ASSERT((s64)call_for(shared, 0, KVM_SHOOT4U_WHOLE) >= 0);
		WRITE_ONCE(shared->calls, shared->calls + 1);
	}
}

static void counting_guest_code(u64 *count)
{
	for (;;)
		WRITE_ONCE(*count, *count + 1);
}

static struct kvm_vcpu *add_vcpu(struct kvm_vm *vm, u32 id, void *code)
{
	struct kvm_vcpu *vcpu = vm_vcpu_add(vm, id, code);

	vcpu_set_cpuid_feature(vcpu, X86_FEATURE_KVM_SHOOT4U);
	return vcpu;
}

static struct shared *share(struct kvm_vm *vm, vm_vaddr_t *gva)
{
	struct shared *shared;
	vm_vaddr_t record = vm_vaddr_alloc_page(vm);

	*gva = vm_vaddr_alloc_page(vm);
	shared = addr_gva2hva(vm, *gva);
	memset(shared, 0, sizeof(*shared));
	shared->record = (void *)record;
	shared->record_gpa = addr_gva2gpa(vm, record);
	return shared;
}

/* Two pages, and windows through which the guest writes their page-table entries. */
static void make_pages(struct kvm_vm *vm, struct shared *shared)
{
	vm_vaddr_t pages = vm_vaddr_alloc_pages(vm, PAGES);
	vm_vaddr_t windows = vm_vaddr_unused_gap(vm, PAGES * PAGE_SIZE, KVM_UTIL_MIN_VADDR);

	shared->view = (void *)pages;
	for (int i = 0; i < PAGES; i++) {
		u64 *pte = vm_get_page_table_entry(vm, pages + i * PAGE_SIZE);
		vm_paddr_t entry = addr_hva2gpa(vm, pte);

		/*
		 * QEMU may set the accessed bit after reading the entry, and lose a swap between.
		 */
		*pte |= PTE_ACCESSED_MASK | PTE_DIRTY_MASK;
		*(u64 *)addr_gva2hva(vm, pages + i * PAGE_SIZE) = i + 1;
		virt_pg_map(vm, windows + i * PAGE_SIZE, entry & PAGE_MASK);
		shared->pte[i] = (void *)(windows + i * PAGE_SIZE + (entry & ~PAGE_MASK));
	}
}

struct mover {
	pid_t tasks[WORKERS];
	bool stop;
	u64 moves;
};

static struct mover mover;

static void *worker_thread(void *argument)
{
	struct kvm_vcpu *vcpu = argument;
	struct ucall uc;
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	WRITE_ONCE(mover.tasks[vcpu->id == OTHER_ID], syscall(SYS_gettid));
	vcpu_run(vcpu);
	/* A worker comes out of the guest only if it read what it may not. */
	if (get_ucall(vcpu, &uc) == UCALL_ABORT)
		REPORT_GUEST_ASSERT(uc);
	TEST_FAIL("worker %u left the guest", vcpu->id);
	return NULL;
}

/* Moves the workers' threads from pCPU to pCPU all the time. */
static void *mover_thread(void *unused)
{
	int pcpus = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	while (!READ_ONCE(mover.stop)) {
		CPU_ZERO(&set);
		CPU_SET(mover.moves / WORKERS % pcpus, &set);
		TEST_ASSERT(!sched_setaffinity(READ_ONCE(mover.tasks[mover.moves % WORKERS]),
					       sizeof(set), &set), "sched_setaffinity");
		mover.moves++;
		usleep(2000);
	}
	return NULL;
}

static void test_swap(bool whole)
{
	struct kvm_vcpu *workers[WORKERS], *swapper;
	pthread_t threads[WORKERS], moving;
	struct shared *shared;
	struct kvm_vm *vm;
	vm_vaddr_t gva;

	vm = vm_create(3);
	swapper = add_vcpu(vm, CALLER_ID, swapper_guest_code);
	workers[0] = add_vcpu(vm, TARGET_ID, worker_guest_code);
	workers[1] = add_vcpu(vm, OTHER_ID, worker_guest_code);
	shared = share(vm, &gva);
	make_pages(vm, shared);
	shared->rounds = ROUNDS;
	shared->whole = whole;
	memset(&mover, 0, sizeof(mover));
	vcpu_args_set(swapper, 1, gva);
	for (int i = 0; i < WORKERS; i++) {
		vcpu_args_set(workers[i], 2, gva, (u64)i);
		threads[i] = start_thread(worker_thread, workers[i]);
		while (!READ_ONCE(mover.tasks[i]))
			usleep(100);
	}
	moving = start_thread(mover_thread, NULL);
	run_to_sync(swapper);
	WRITE_ONCE(mover.stop, true);
	pthread_join(moving, NULL);
	pr_info("%s: %d swaps, %lu moves, %lu IPIs, %lu left\n", whole ? "whole" : "page",
		ROUNDS, mover.moves, vcpu_stat(swapper, "shoot4u_ipis"),
		vcpu_stat(swapper, "shoot4u_left"));
	TEST_ASSERT(mover.moves > WORKERS, "no worker was moved");
	for (int i = 0; i < WORKERS; i++)
		stop_thread(threads[i]);
	kvm_vm_free(vm);
}

static void *spinning_task(void *count)
{
	int old;

	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
	for (;;)
		WRITE_ONCE(*(u64 *)count, *(u64 *)count + 1);
	return NULL;
}

struct neighbours {
	u64 vm, task, calls;
};

/*
 * On pCPU 0 a vCPU of the busy VM; on pCPU 1 two of them, a vCPU of another VM and a task.
 * What the neighbours count in a while, beside vCPUs that do this.
 */
static void run_beside(void *code, struct neighbours *sum)
{
	struct kvm_vm *busy = vm_create(3), *neighbour;
	static const u32 ids[] = { CALLER_ID, TARGET_ID, OTHER_ID };
	struct kvm_vcpu *vcpus[ARRAY_SIZE(ids)], *counter;
	pthread_t threads[ARRAY_SIZE(ids)], counting, task;
	struct shared *shared[ARRAY_SIZE(ids)];
	static u64 task_count;
	vm_vaddr_t gva;
	u64 *count;
	int i;

	neighbour = vm_create_with_one_vcpu(&counter, counting_guest_code);
	gva = vm_vaddr_alloc_page(neighbour);
	count = addr_gva2hva(neighbour, gva);
	*count = task_count = 0;
	vcpu_args_set(counter, 1, gva);
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		vcpus[i] = add_vcpu(busy, ids[i], code);
		shared[i] = share(busy, &gva);
		vcpu_args_set(vcpus[i], 1,
			      code == counting_guest_code ? gva + offsetof(struct shared, turns) :
							    gva);
	}
	for (i = 0; i < ARRAY_SIZE(ids); i++) {
		threads[i] = start_thread(vcpu_thread_body, vcpus[i]);
		pin(threads[i], !!i);
	}
	counting = start_thread(vcpu_thread_body, counter);
	task = start_thread(spinning_task, &task_count);
	pin(counting, 1);
	pin(task, 1);
	usleep(FLOOD_MS * 1000);
	sum->vm += READ_ONCE(*count);
	sum->task += READ_ONCE(task_count);
	for (i = 0; i < ARRAY_SIZE(ids); i++)
		sum->calls += READ_ONCE(shared[i]->calls);
	stop_thread(task);
	stop_thread(counting);
	for (i = 0; i < ARRAY_SIZE(ids); i++)
		stop_thread(threads[i]);
	kvm_vm_free(neighbour);
	kvm_vm_free(busy);
}

static void test_flood(void)
{
	struct neighbours spinning = {}, flooded = {};

	/* In turns, so that what else the machine does falls on all. */
	for (int turn = 0; turn < FLOOD_TURNS; turn++) {
		run_beside(counting_guest_code, &spinning);
		run_beside(flooding_guest_code, &flooded);
	}
	TEST_ASSERT(spinning.vm && spinning.task, "the neighbours did not run");
	pr_info("flood of %lu calls in %d ms\n", flooded.calls, FLOOD_MS * FLOOD_TURNS);
	pr_info("  of what vCPUs that spin leave: the other VM keeps %lu %%, a task %lu %%\n",
		flooded.vm * 100 / spinning.vm, flooded.task * 100 / spinning.task);
	TEST_ASSERT(flooded.calls, "nothing was flooded");
	TEST_ASSERT(flooded.vm * 100 >= spinning.vm * KEPT_PERCENT, "the other VM starves");
	TEST_ASSERT(flooded.task * 100 >= spinning.task * KEPT_PERCENT, "the host starves");
}

int main(void)
{
	__TEST_REQUIRE(!access(SHOOT4U_PARAMETER, F_OK), "This kernel has no Shoot4U");
	__TEST_REQUIRE(try_mode("deferred") && kvm_cpu_has(X86_FEATURE_KVM_SHOOT4U),
		       "Shoot4U needs two-dimensional paging");
	TEST_REQUIRE(sysconf(_SC_NPROCESSORS_ONLN) >= 2);
	test_swap(false);
	test_swap(true);
	test_flood();
	return 0;
}
