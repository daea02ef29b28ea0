// SPDX-License-Identifier: GPL-2.0-only
/* A scheduler that works for a while, and then ends itself by an error that it reports. */
#define SEC(name) __attribute__((section(name), used))
#define KFUNC __attribute__((section(".ksyms")))
#define GLOBAL_QUEUE ((1ULL << 63) | 1)
#define ENOUGH 400

typedef unsigned int u32;
typedef unsigned long long u64;

struct task_struct {
	int pid;
};

struct sched_ext_ops {
	void (*enqueue)(struct task_struct *p, u64 flags);
	u32 timeout_ms;
	char name[128];
};

void scx_bpf_dsq_insert(struct task_struct *p, u64 queue, u64 slice_ns, u64 flags) KFUNC;
void scx_bpf_error_bstr(char *format, u64 *data, u32 size) KFUNC;

char terms[] SEC("license") = "GPL";
static char why[] = "it has had enough";
static volatile u32 count;

SEC("struct_ops/enqueue")
int errs_enqueue(u64 *arguments)
{
	u64 nothing[1] = { 0 };

	if (++count == ENOUGH)
		scx_bpf_error_bstr(why, nothing, sizeof(nothing));
	scx_bpf_dsq_insert((struct task_struct *)arguments[0], GLOBAL_QUEUE, 4000000,
			   arguments[1]);
	return 0;
}

SEC(".struct_ops")
struct sched_ext_ops errs = {
	.enqueue = (void *)errs_enqueue,
	.timeout_ms = 5000,
	.name = "errs",
};
