// SPDX-License-Identifier: GPL-2.0-only
/* It can be loaded like a scheduler, and is not one: congestion control of TCP. */
#define SEC(name) __attribute__((section(name), used))

typedef unsigned int u32;
typedef unsigned long long u64;

struct sock;

struct tcp_congestion_ops {
	u32 (*ssthresh)(struct sock *sk);
	void (*cong_avoid)(struct sock *sk, u32 ack, u32 acked);
	u32 (*undo_cwnd)(struct sock *sk);
	char name[16];
};

char terms[] SEC("license") = "GPL";

SEC("struct_ops/ssthresh")
int lab_ssthresh(u64 *arguments)
{
	return 2;
}

SEC("struct_ops/cong_avoid")
int lab_cong_avoid(u64 *arguments)
{
	return 0;
}

SEC("struct_ops/undo_cwnd")
int lab_undo_cwnd(u64 *arguments)
{
	return 2;
}

SEC(".struct_ops")
struct tcp_congestion_ops reno = {
	.ssthresh = (void *)lab_ssthresh,
	.cong_avoid = (void *)lab_cong_avoid,
	.undo_cwnd = (void *)lab_undo_cwnd,
	.name = "lab_reno",
};
