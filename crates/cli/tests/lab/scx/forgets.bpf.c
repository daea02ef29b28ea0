// SPDX-License-Identifier: GPL-2.0-only
/* A scheduler that forgets each task that finds no idle CPU: the kernel ends it. */
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
int forgets_enqueue(unsigned long long *arguments)
{
	return 0;
}

SEC(".struct_ops")
struct sched_ext_ops forgets = {
	.enqueue = (void *)forgets_enqueue,
	.timeout_ms = 2000,
	.name = "forgets",
};
