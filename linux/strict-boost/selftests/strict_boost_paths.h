/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The paths by which an IPI leaves a vCPU: what the vCPU has to do, and who has to receive it by
 * the manuals. A vCPU's number is its APIC id, and its VP index for Hyper-V's calls.
 */
#ifndef SELFTEST_KVM_STRICT_BOOST_PATHS_H
#define SELFTEST_KVM_STRICT_BOOST_PATHS_H

#include <linux/kvm_para.h>

#include "hyperv.h"
#include "strict_boost.h"

#define APIC_LDR 0xd0
#define APIC_DFR 0xe0
#define APIC_SELF_IPI 0x3f0

enum apic_mode { XAPIC_FLAT, XAPIC_CLUSTER, X2APIC, HYPERV };

/* What a vCPU does next; written by the host. */
struct order {
	enum { ORDER_NONE, ORDER_TAKE, ORDER_ICR, ORDER_SELF_IPI, ORDER_CALL, ORDER_HV } what;
	u64 a0, a1, a2, a3;
};

/* Hyper-V's call for IPIs to a sparse set of VPs, in a page of the guest. */
struct hv_ipi_ex {
	u32 vector, reserved;
	u64 format, banks, bank[2];
};

/* One IPI: how it is sent, by whom, and who receives it. */
struct sending {
	u32 nr, sender, target;
	u8 vector;
	struct hv_ipi_ex *page;	/* of the guest, and where the guest finds it */
	vm_paddr_t page_gpa;
	struct order order;
	bool to[MAX_VCPUS];
	bool to_one;		/* of these only */
};

struct path {
	const char *name;
	enum apic_mode mode;
	u32 most;		/* vCPUs; 0: any number */
	void (*make)(struct sending *sending);
};

static inline void to_all(struct sending *sending, bool sender_too)
{
	for (u32 i = 0; i < sending->nr; i++)
		sending->to[i] = sender_too || i != sending->sender;
}

/* xAPIC: the destination is in the upper byte of the upper half. */
static inline void xapic(struct sending *sending, u32 command, u32 destination)
{
	sending->order.what = ORDER_ICR;
	sending->order.a0 = command | APIC_INT_ASSERT | sending->vector;
	sending->order.a1 = SET_APIC_DEST_FIELD((u64)destination);
}

static inline void x2apic(struct sending *sending, u32 command, u32 destination)
{
	xapic(sending, command, 0);
	sending->order.a1 = destination;
}

static inline void make_xapic_unicast(struct sending *sending)
{
	xapic(sending, APIC_DM_FIXED, sending->target);
	sending->to[sending->target] = true;
}

static inline void make_x2apic_unicast(struct sending *sending)
{
	x2apic(sending, APIC_DM_FIXED, sending->target);
	sending->to[sending->target] = true;
}

/* All of the target's eight, or four, or sixteen but the sender: those of one logical cluster. */
static inline u32 cluster_of(struct sending *sending, u32 size)
{
	u32 first = sending->target / size * size, mask = 0;

	for (u32 i = first; i < first + size && i < sending->nr; i++) {
		if (i == sending->sender)
			continue;
		mask |= BIT(i - first);
		sending->to[i] = true;
	}
	return mask;
}

static inline void make_flat(struct sending *sending)
{
	xapic(sending, APIC_DEST_LOGICAL, cluster_of(sending, 8));
}

static inline void make_flat_lowest(struct sending *sending)
{
	make_flat(sending);
	sending->order.a0 |= APIC_DM_LOWEST;
	sending->to_one = true;
}

static inline void make_xapic_cluster(struct sending *sending)
{
	xapic(sending, APIC_DEST_LOGICAL, sending->target / 4 << 4 | cluster_of(sending, 4));
}

static inline void make_x2apic_cluster(struct sending *sending)
{
	x2apic(sending, APIC_DEST_LOGICAL, sending->target / 16 << 16 | cluster_of(sending, 16));
}

static inline void make_x2apic_lowest(struct sending *sending)
{
	make_x2apic_cluster(sending);
	sending->order.a0 |= APIC_DM_LOWEST;
	sending->to_one = true;
}

static inline void make_x2apic_lowest_of_all(struct sending *sending)
{
	x2apic(sending, APIC_DEST_LOGICAL | APIC_DM_LOWEST, ~0u);
	to_all(sending, true);
	sending->to_one = true;
}

static inline void make_self(struct sending *sending)
{
	xapic(sending, APIC_DEST_SELF, 0);
	sending->to[sending->sender] = true;
}

static inline void make_self_msr(struct sending *sending)
{
	make_self(sending);
	sending->order.what = ORDER_SELF_IPI;
	sending->order.a0 = sending->vector;
}

static inline void make_all(struct sending *sending)
{
	xapic(sending, APIC_DEST_ALLINC, 0);
	to_all(sending, true);
}

static inline void make_all_but_self(struct sending *sending)
{
	xapic(sending, APIC_DEST_ALLBUT, 0);
	to_all(sending, false);
}

static inline void make_xapic_broadcast(struct sending *sending)
{
	xapic(sending, APIC_DM_FIXED, 0xff);
	to_all(sending, true);
}

static inline void make_xapic_logical_broadcast(struct sending *sending)
{
	xapic(sending, APIC_DEST_LOGICAL, 0xff);
	to_all(sending, true);
}

static inline void make_x2apic_broadcast(struct sending *sending)
{
	x2apic(sending, APIC_DM_FIXED, ~0u);
	to_all(sending, true);
}

static inline void make_x2apic_logical_broadcast(struct sending *sending)
{
	x2apic(sending, APIC_DEST_LOGICAL, ~0u);
	to_all(sending, true);
}

/* Every other vCPU from 1 on; the hypercall has them in two masks. */
static inline void make_call(struct sending *sending)
{
	u64 mask[2] = {}, first = 1;

	for (u64 i = first; i < sending->nr; i += 2) {
		mask[(i - first) / 64] |= BIT_ULL((i - first) % 64);
		sending->to[i] = true;
	}
	sending->order = (struct order){ ORDER_CALL, mask[0], mask[1], first, sending->vector };
}

static inline void hv(struct sending *sending, u64 control, u64 input, u64 output)
{
	sending->order = (struct order){ ORDER_HV, control, input, output };
}

/* Without a set the call can name the first 64 VPs only. */
static inline void make_hv_fast(struct sending *sending)
{
	u64 mask;

	sending->target %= 64;
	mask = cluster_of(sending, 8);
	hv(sending, HVCALL_SEND_IPI | HV_HYPERCALL_FAST_BIT, sending->vector,
	   mask << sending->target / 8 * 8);
}

static inline void make_hv_sparse(struct sending *sending)
{
	struct hv_ipi_ex *page = sending->page;
	u32 banks = (sending->nr + 63) / 64;

	*page = (struct hv_ipi_ex){ .vector = sending->vector, .banks = BIT(banks) - 1 };
	to_all(sending, false);
	for (u32 i = 0; i < sending->nr; i++)
		page->bank[i / 64] |= (u64)sending->to[i] << i % 64;
	hv(sending, HVCALL_SEND_IPI_EX | banks << HV_HYPERCALL_VARHEAD_OFFSET,
	   sending->page_gpa, sending->page_gpa + 4096);
}

static inline void make_hv_all(struct sending *sending)
{
	*sending->page = (struct hv_ipi_ex){ .vector = sending->vector, .format = 1 };
	to_all(sending, true);
	hv(sending, HVCALL_SEND_IPI_EX, sending->page_gpa, sending->page_gpa + 4096);
}

static const struct path paths[] = {
	{ "xAPIC unicast", XAPIC_FLAT, 0, make_xapic_unicast },
	{ "xAPIC self", XAPIC_FLAT, 0, make_self },
	{ "xAPIC all", XAPIC_FLAT, 0, make_all },
	{ "xAPIC all but self", XAPIC_FLAT, 0, make_all_but_self },
	{ "xAPIC broadcast", XAPIC_FLAT, 0, make_xapic_broadcast },
	{ "xAPIC flat", XAPIC_FLAT, 8, make_flat },
	{ "xAPIC flat, lowest priority", XAPIC_FLAT, 8, make_flat_lowest },
	{ "xAPIC flat, broadcast", XAPIC_FLAT, 8, make_xapic_logical_broadcast },
	{ "xAPIC, hypercall", XAPIC_FLAT, 0, make_call },
	{ "xAPIC cluster", XAPIC_CLUSTER, 60, make_xapic_cluster },
	{ "xAPIC cluster, broadcast", XAPIC_CLUSTER, 60, make_xapic_logical_broadcast },
	{ "x2APIC unicast", X2APIC, 0, make_x2apic_unicast },
	{ "x2APIC self", X2APIC, 0, make_self },
	{ "x2APIC self by its own register", X2APIC, 0, make_self_msr },
	{ "x2APIC all", X2APIC, 0, make_all },
	{ "x2APIC all but self", X2APIC, 0, make_all_but_self },
	{ "x2APIC broadcast", X2APIC, 0, make_x2apic_broadcast },
	{ "x2APIC logical broadcast", X2APIC, 0, make_x2apic_logical_broadcast },
	{ "x2APIC cluster", X2APIC, 0, make_x2apic_cluster },
	{ "x2APIC cluster, lowest priority", X2APIC, 0, make_x2apic_lowest },
	{ "x2APIC all, lowest priority", X2APIC, 0, make_x2apic_lowest_of_all },
	{ "x2APIC, hypercall", X2APIC, 0, make_call },
	{ "Hyper-V, fast", HYPERV, 0, make_hv_fast },
	{ "Hyper-V, sparse set", HYPERV, 0, make_hv_sparse },
	{ "Hyper-V, all", HYPERV, 0, make_hv_all },
};

#endif /* SELFTEST_KVM_STRICT_BOOST_PATHS_H */
