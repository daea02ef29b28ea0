/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The guest of strict_boost_stress_test: vCPUs that all send IPIs to each other, and count them
 * with tickets. What these are is said there.
 */
#ifndef SELFTEST_KVM_STRICT_BOOST_SENDERS_H
#define SELFTEST_KVM_STRICT_BOOST_SENDERS_H

#include <linux/kvm_para.h>

#include "strict_boost.h"

/* As many as have a row of the account each. */
#define VECTORS 3

static const u8 vectors[VECTORS] = { 0x41, 0x52, 0x63 };

/* For each vector and receiver, by sender. */
typedef u32 tickets[VECTORS][MAX_VCPUS][MAX_VCPUS];

/* In memory of the guest. */
struct shared {
	u64 index[MAX_VCPUS];
	u64 random[MAX_VCPUS];
	u64 sent_ipis[MAX_VCPUS], received_ipis[MAX_VCPUS];
	u64 interrupts[MAX_VCPUS];
	u64 goal;		/* IPIs that each is to have sent when the round ends */
	u64 finished;		/* vCPUs that have, and whose IPIs are confirmed */
	u32 nr;
	tickets announced, sent;	/* written by the sender */
	tickets seen, confirmed;	/* written by the receiver */
	u32 copied[MAX_VCPUS][VECTORS][MAX_VCPUS];
};

static struct shared *guest_shared;

static inline u64 draw(u64 me)
{
	u64 *state = &guest_shared->random[me];

	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static inline void handler(struct ex_regs *regs)
{
	struct shared *all = guest_shared;
	u64 me = self();
	int k;

	for (k = 0; vectors[k] != regs->vector; k++)
		;
	for (u32 from = 0; from < all->nr; from++)
		WRITE_ONCE(all->seen[k][me][from], READ_ONCE(all->announced[k][me][from]));
	WRITE_ONCE(all->interrupts[me], all->interrupts[me] + 1);
	x2apic_write_reg(APIC_EOI, 0);
}

static inline void receive(u64 me)
{
	struct shared *all = guest_shared;
	u32 from, copied;
	int k;

	for (k = 0; k < VECTORS; k++)
		for (from = 0; from < all->nr; from++)
			WRITE_ONCE(all->copied[me][k][from], READ_ONCE(all->sent[k][me][from]));
	take_interrupts();
	for (k = 0; k < VECTORS; k++) {
		for (from = 0; from < all->nr; from++) {
			copied = all->copied[me][k][from];
			if (copied == all->confirmed[k][me][from])
				continue;
			/* It was sent, and there was no interrupt since it was announced: lost. */
			GUEST_ASSERT((s32)(READ_ONCE(all->seen[k][me][from]) - copied) >= 0);
			GUEST_ASSERT_EQ(copied, all->confirmed[k][me][from] + 1);
			all->received_ipis[me]++;
			WRITE_ONCE(all->confirmed[k][me][from], copied);
		}
	}
}

static inline bool is_free(u64 me, int k, u32 to)
{
	return to != me && READ_ONCE(guest_shared->confirmed[k][to][me]) ==
			   guest_shared->sent[k][to][me];
}

/* How an IPI is addressed. */
enum kind { UNICAST, CLUSTER, CALL, ALL_BUT_SELF, KINDS };

/* Whether @to is within reach of an IPI of this kind to the one at @first. */
static inline bool in_reach(enum kind kind, u32 first, u32 to)
{
	switch (kind) {
	case UNICAST:
		return to == first;
	case CLUSTER:
		return to / 16 == first / 16;
	default:
		return true;
	}
}

static inline void deliver(enum kind kind, u8 vector, u32 first, const u64 *to)
{
	u64 command = APIC_INT_ASSERT | vector;

	switch (kind) {
	case UNICAST:
		x2apic_write_reg(APIC_ICR, (u64)first << 32 | command);
		break;
	case CLUSTER:
		x2apic_write_reg(APIC_ICR, (u64)(first / 16) << 48 | APIC_DEST_LOGICAL | command |
				 (to[first / 64] >> first % 64 / 16 * 16 & 0xffff) << 32);
		break;
	case CALL:
		kvm_hypercall(KVM_HC_SEND_IPI, to[0], to[1], 0, vector);
		break;
	default:
		x2apic_write_reg(APIC_ICR, APIC_DEST_ALLBUT | command);
	}
}

/* Sends to those of the kind's reach that are free; a shorthand needs all. Returns to how many. */
static inline u32 send(u64 me, int k, enum kind kind, u32 first)
{
	struct shared *all = guest_shared;
	u64 set[2] = {};
	u32 to, count = 0;

	for (to = 0; to < all->nr; to++) {
		if (!in_reach(kind, first, to) || !is_free(me, k, to))
			continue;
		set[to / 64] |= BIT_ULL(to % 64);
		count++;
	}
	if (!count || (kind == ALL_BUT_SELF && count != all->nr - 1))
		return 0;
	for (to = 0; to < all->nr; to++)
		if (set[to / 64] & BIT_ULL(to % 64))
			WRITE_ONCE(all->announced[k][to][me], all->announced[k][to][me] + 1);
	deliver(kind, vectors[k], first, set);
	for (to = 0; to < all->nr; to++)
		if (set[to / 64] & BIT_ULL(to % 64))
			WRITE_ONCE(all->sent[k][to][me], all->sent[k][to][me] + 1);
	all->sent_ipis[me] += count;
	return count;
}

/* A vCPU that has not confirmed an IPI of this one; this one if there is none. */
static inline u32 laggard(u64 me)
{
	for (int k = 0; k < VECTORS; k++)
		for (u32 to = 0; to < guest_shared->nr; to++)
			if (to != me && !is_free(me, k, to))
				return to;
	return me;
}

static inline void guest_code(u64 me)
{
	struct shared *all = guest_shared;
	bool finished;
	u32 sent;

	set_self(&all->index[me]);
	x2apic_enable();
	for (;;) {
		GUEST_SYNC(0);
		finished = false;
		do {
			/* At times the vCPU goes on with what it has not taken. */
			if (finished || draw(me) % 4)
				receive(me);
			sent = 0;
			for (int k = 0; k < VECTORS && all->sent_ipis[me] < all->goal; k++)
				sent += send(me, k, draw(me) % KINDS, draw(me) % all->nr);
			if (!sent && laggard(me) != me)
				kvm_hypercall(KVM_HC_SCHED_YIELD, laggard(me), 0, 0, 0);
			if (!finished && all->sent_ipis[me] >= all->goal && laggard(me) == me) {
				finished = true;
				__atomic_fetch_add(&all->finished, 1, __ATOMIC_SEQ_CST);
			}
		} while (READ_ONCE(all->finished) < all->nr);
	}
}

#endif /* SELFTEST_KVM_STRICT_BOOST_SENDERS_H */
