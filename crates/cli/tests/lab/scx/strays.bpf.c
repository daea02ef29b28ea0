// SPDX-License-Identifier: GPL-2.0-only
/* A scheduler that reads where a flag leads: the kernel refuses to load it. */
#define SEC(name) __attribute__((section(name), used))

struct task_struct {
	int pid;
};

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *p, unsigned long long flags);
	unsigned int timeout_ms;
	char name[128];
};

char terms[] SEC("license") = "GPL";

SEC("struct_ops/enqueue")
int strays_enqueue(unsigned long long *arguments)
{
	return *(int *)arguments[1];
}

SEC(".struct_ops")
struct sched_ext_ops strays = {
	.enqueue = (void *)strays_enqueue,
	.timeout_ms = 2000,
	.name = "strays",
};
