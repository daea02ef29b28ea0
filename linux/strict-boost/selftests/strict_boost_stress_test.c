// SPDX-License-Identifier: GPL-2.0-only
/*
 * Strict Boost's account of IPIs under load: all vCPUs send to all others at the same time, by
 * every kind of destination, and the host's account is compared with tickets that they write.
 *
 * What one IPI is. For each sender, receiver and vector there is a ticket: "announced" is counted
 * up before the IPI is sent, "sent" after that. The next one of the three is not sent before the
 * receiver has confirmed this one, so that no two of a sender can become one. Two senders' can: a
 * handler may serve many of them with one interrupt.
 *
 * What the receivers count. A handler copies what is announced into "seen". Between handlers the
 * receiver copies what is sent, leaves the guest and comes back with interrupts on, so that
 * whatever was pending is taken now, and then confirms what it copied. It must have been seen:
 * there was an interrupt after it was announced. Confirmed tickets are the receivers' count.
 *
 * At the end of a round all have been confirmed, and the host must have noted as many and cleared
 * as many. Before, the vCPUs are stopped at random times, wherever they are. Then a vector that is
 * pending in a receiver's APIC has a bit for each IPI that no interrupt can have served, and for
 * no more IPIs than are not confirmed. With no vector pending there is no bit.
 *
 *	strict_boost_stress_test [IPIS [VCPUS [SEED]]]
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "strict_boost_senders.h"

#define ROUND_IPIS 20000
#define STOP_US 40000	/* between two stops, at most */
#define TELL_ROUNDS 5	/* a line for so many, as a long run may be cut */
#define APIC_ISR 0x100

static struct boost_vm boost;
static struct shared *shared;
static unsigned int seed = 1;

/* The vCPUs' threads wait here for the main thread, and it for them. */
static pthread_barrier_t stopped, resumed;
static bool idle[MAX_VCPUS], ending;

static void on_signal(int signal)
{
}

static void run_until_stopped(struct kvm_vcpu *vcpu)
{
	struct ucall uc;

	if (__vcpu_run(vcpu)) {
		TEST_ASSERT(errno == EINTR, "KVM_RUN: %d", errno);
		return;
	}
	TEST_ASSERT_KVM_EXIT_REASON(vcpu, KVM_EXIT_IO);
	if (get_ucall(vcpu, &uc) == UCALL_ABORT)
		REPORT_GUEST_ASSERT(uc);
	idle[vcpu->id] = true;
}

static void *vcpu_thread(void *argument)
{
	struct kvm_vcpu *vcpu = argument;

	while (!ending) {
		if (!idle[vcpu->id])
			run_until_stopped(vcpu);
		pthread_barrier_wait(&stopped);
		vcpu->run->immediate_exit = 0;
		pthread_barrier_wait(&resumed);
	}
	return NULL;
}

static bool in_lapic(const struct kvm_lapic_state *lapic, u32 base, u8 vector)
{
	u32 word;

	memcpy(&word, lapic->regs + base + vector / 32 * 0x10, sizeof(word));
	return word & BIT(vector % 32);
}

struct bounds {
	u64 least, most;
};

/* Which bits there must be, and which there may be, for a receiver and a vector. */
static void add_bounds(struct bounds *bounds, u32 to, int k, const struct kvm_lapic_state *lapic)
{
	bool pending = in_lapic(lapic, APIC_IRR, vectors[k]);
	/* Then a handler may be about to see more. */
	bool in_service = in_lapic(lapic, APIC_ISR, vectors[k]);
	u64 unserved = 0, unconfirmed = 0;

	for (u32 from = 0; from < boost.nr; from++) {
		unserved += (s32)(shared->sent[k][to][from] - shared->seen[k][to][from]) > 0;
		unconfirmed += shared->announced[k][to][from] != shared->confirmed[k][to][from];
	}
	if (!pending) {
		TEST_ASSERT(in_service || !unserved, "vCPU %u lost %lu IPIs", to, unserved);
		return;
	}
	bounds->least += in_service || !unserved ? 1 : unserved;
	bounds->most += unconfirmed;
}

/* Returns how many IPIs are known to be pending. */
static u64 check_midway(void)
{
	struct account account = account_of_all(&boost);
	u64 bits = account.ipis - account.taken;
	struct kvm_lapic_state lapic;
	struct bounds bounds = {};

	for (u32 to = 0; to < boost.nr; to++) {
		vcpu_ioctl(boost.vcpus[to], KVM_GET_LAPIC, &lapic);
		for (int k = 0; k < VECTORS; k++)
			add_bounds(&bounds, to, k, &lapic);
	}
	TEST_ASSERT(bounds.least <= bits && bits <= bounds.most,
		    "%lu bits are set, expected %lu to %lu", bits, bounds.least, bounds.most);
	return bounds.least;
}

/* Returns how many IPIs there have been. */
static u64 check_end(void)
{
	struct account account = account_of_all(&boost);
	u64 sent = 0, received = 0;

	for (u32 i = 0; i < boost.nr; i++) {
		TEST_ASSERT(account_of(&boost, i).ipis == shared->sent_ipis[i],
			    "vCPU %u has sent %lu, %lu were noted", i, shared->sent_ipis[i],
			    account_of(&boost, i).ipis);
		sent += shared->sent_ipis[i];
		received += shared->received_ipis[i];
	}
	TEST_ASSERT(received == sent && account.ipis == received && account.taken == received,
		    "%lu sent, %lu received, %lu noted, %lu cleared", sent, received,
		    account.ipis, account.taken);
	return received;
}

static bool stop_all(pthread_t *threads)
{
	bool all_idle = true;

	for (u32 i = 0; i < boost.nr; i++) {
		boost.vcpus[i]->run->immediate_exit = 1;
		pthread_kill(threads[i], SIGUSR1);
	}
	pthread_barrier_wait(&stopped);
	for (u32 i = 0; i < boost.nr; i++)
		all_idle &= idle[i];
	return all_idle;
}

static void make_vm(u32 nr, pthread_t *threads)
{
	vm_vaddr_t gva;

	memset(&boost, 0, sizeof(boost));
	boost.vm = __vm_create(VM_SHAPE_DEFAULT, nr, sizeof(struct shared) / PAGE_SIZE + 1);
	gva = vm_vaddr_alloc(boost.vm, sizeof(struct shared), KVM_UTIL_MIN_VADDR);
	guest_shared = (void *)gva;
	sync_global_to_guest(boost.vm, guest_shared);
	shared = addr_gva2hva(boost.vm, gva);
	memset(shared, 0, sizeof(*shared));
	shared->nr = nr;
	for (int k = 0; k < VECTORS; k++)
		vm_install_exception_handler(boost.vm, vectors[k], handler);
	pthread_barrier_init(&stopped, NULL, nr + 1);
	pthread_barrier_init(&resumed, NULL, nr + 1);
	ending = false;
	for (u32 i = 0; i < nr; i++) {
		shared->index[i] = i;
		shared->random[i] = (u64)rand_r(&seed) << 32 | rand_r(&seed) | 1;
		vcpu_args_set(boost_add_vcpu(&boost, guest_code), 1, (u64)i);
		/* Every APIC is in KVM's map before anybody sends. */
		run_to_sync(boost.vcpus[i]);
		idle[i] = true;
	}
	for (u32 i = 0; i < nr; i++)
		TEST_ASSERT(!pthread_create(&threads[i], NULL, vcpu_thread, boost.vcpus[i]),
			    "pthread_create");
}

static u64 nanoseconds(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static void tell(u64 received, u64 begin, u64 midway, u64 stops)
{
	u64 interrupts = 0;

	for (u32 i = 0; i < boost.nr; i++)
		interrupts += shared->interrupts[i];
	pr_info("%u vCPUs: %lu IPIs in %lu interrupts, noted and cleared, in %lu ms; ", boost.nr,
		received, interrupts, (nanoseconds(CLOCK_MONOTONIC) - begin) / 1000000);
	pr_info("%lu pending at %lu stops\n", midway, stops);
	fflush(stdout);
}

static void stress(u32 nr, u64 ipis)
{
	u64 received = 0, stops = 0, midway = 0, rounds = 0;
	u64 begin = nanoseconds(CLOCK_MONOTONIC);
	pthread_t threads[MAX_VCPUS];

	make_vm(nr, threads);
	while (received < ipis) {
		stop_all(threads);
		shared->goal += ROUND_IPIS / nr;
		shared->finished = 0;
		memset(idle, 0, sizeof(idle));
		pthread_barrier_wait(&resumed);
		for (;;) {
			usleep(rand_r(&seed) % STOP_US);
			if (stop_all(threads))
				break;
			midway += check_midway();
			stops++;
			pthread_barrier_wait(&resumed);
		}
		received = check_end();
		if (++rounds % TELL_ROUNDS == 0 || received >= ipis)
			tell(received, begin, midway, stops);
		pthread_barrier_wait(&resumed);
	}
	stop_all(threads);
	ending = true;
	pthread_barrier_wait(&resumed);
	for (u32 i = 0; i < nr; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&stopped);
	pthread_barrier_destroy(&resumed);
	boost_free(&boost);
}

int main(int argc, char *argv[])
{
	u64 ipis = argc > 1 ? strtoull(argv[1], NULL, 0) : 20000;
	u32 nr = argc > 2 ? strtoul(argv[2], NULL, 0) : 2;
	struct sigaction action = { .sa_handler = on_signal };

	seed = argc > 3 ? strtoul(argv[3], NULL, 0) : nanoseconds(CLOCK_REALTIME);
	TEST_ASSERT(nr >= 2 && nr <= MAX_VCPUS, "VCPUS is %u, expected 2 to %u", nr, MAX_VCPUS);
	__TEST_REQUIRE(!access(STRICT_BOOST_PARAMETER, F_OK), "this kernel has no Strict Boost");
	sigaction(SIGUSR1, &action, NULL);
	set_mode("track");
	pr_info("seed %u\n", seed);
	if (argc > 2) {
		stress(nr, ipis);
	} else {
		stress(2, ipis);
		stress(8, ipis);
		stress(72, ipis);
	}
	set_mode("off");
	return 0;
}
