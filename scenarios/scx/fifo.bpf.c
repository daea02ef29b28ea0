// SPDX-License-Identifier: GPL-2.0-only
/*
 * A scheduler for sched_ext: one queue for all CPUs, first in, first out, slices of 4 ms. What
 * finds an idle CPU when it wakes goes there, as the kernel does it by itself. Left out: weights,
 * control groups and limits, which a host of real VMs needs.
 *
 * Kernels have scx_bpf_dsq_insert() since 6.13 (kernel/sched/ext.c). What is declared here is the
 * part of the kernel's types that is used; libbpf finds the rest by their names.
 */
#define SEC(name) __attribute__((section(name), used))
#define SLICE_NS 4000000ULL
/* SCX_DSQ_GLOBAL of include/linux/sched/ext.h. */
#define GLOBAL_QUEUE ((1ULL << 63) | 1)

typedef unsigned int u32;
typedef unsigned long long u64;

/* It is not read here, and has a member so that libbpf takes it for the kernel's. */
struct task_struct {
	int pid;
};

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *p, u64 flags);
	u32 timeout_ms;
	char name[128];
};

void scx_bpf_dsq_insert(struct task_struct *p, u64 queue, u64 slice_ns, u64 flags)
	__attribute__((section(".ksyms")));

char terms[] SEC("license") = "GPL";

SEC("struct_ops/enqueue")
int fifo_enqueue(u64 *arguments)
{
	scx_bpf_dsq_insert((struct task_struct *)arguments[0], GLOBAL_QUEUE, SLICE_NS,
			   arguments[1]);
	return 0;
}

/* The kernel ends a scheduler that leaves a task waiting for that long. */
SEC(".struct_ops")
struct sched_ext_ops fifo = {
	.enqueue = (void *)fifo_enqueue,
	.timeout_ms = 5000,
	.name = "fifo",
};
