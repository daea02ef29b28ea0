// SPDX-License-Identifier: GPL-2.0-only
/*
 * A scheduler for sched_ext: a queue for each control group at the top, such as a VM's, first in,
 * first out. The queues have turns, in each of which one task runs for 4 ms. A task that finds an
 * idle CPU when it wakes goes there, as the kernel does it by itself. A vCPU that yields to another
 * one (yield_to(), kernel/sched/syscalls.c) is followed by that one, also in the turn of another
 * queue. Left out: weights and limits, which a host of real VMs needs.
 *
 * The queues are maps: the kernel makes queues of its own only for programs that may sleep, and
 * Debian 12's bpftool cannot load such. What is declared here is the part of the kernel's types
 * that is used; libbpf finds the rest by their names.
 */
#define SEC(name) __attribute__((section(name), used))
#define KFUNC __attribute__((section(".ksyms")))
#define MAYBE __attribute__((weak, section(".ksyms")))
#define KERNELS __attribute__((preserve_access_index))
#define SLICE_NS 4000000ULL
/* Queues of sched_ext, in kernel/sched/ext.c: of all CPUs, and of the one that asks. */
#define GLOBAL ((1ULL << 63) | 1)
#define LOCAL ((1ULL << 63) | 2)
#define MAX_GROUPS 16
#define MAX_CPUS 64
#define MAX_TASKS 4096
/* Looks into a queue for each call; the kernel takes 32 tasks of one. */
#define MAX_LOOKS 31

typedef unsigned int u32;
typedef unsigned long long u64;

struct cpumask {
	unsigned long bits[1];
} KERNELS;
struct sched_ext_entity {
	u64 slice;
	/* The kernel's only for queues by time; here: the stamp of the task's place in a queue. */
	u64 dsq_vtime;
} KERNELS;
struct task_struct {
	int pid;
	const struct cpumask *cpus_ptr;
	struct sched_ext_entity scx;
} KERNELS;
struct kernfs_node {
	u64 id;
} KERNELS;
struct cgroup {
	int level;
	struct kernfs_node *kn;
} KERNELS;
struct sched_ext_ops {
	void (*enqueue)(struct task_struct *p, u64 flags);
	void (*dispatch)(int cpu, struct task_struct *prev);
	_Bool (*yield)(struct task_struct *from, struct task_struct *to);
	int (*cgroup_init)(struct cgroup *group, void *arguments);
	void (*cgroup_exit)(struct cgroup *group);
	u32 timeout_ms;
	char name[128];
};

struct cgroup *scx_bpf_task_cgroup(struct task_struct *p) KFUNC;
struct cgroup *bpf_cgroup_ancestor(struct cgroup *group, int level) KFUNC;
void bpf_cgroup_release(struct cgroup *group) KFUNC;
struct task_struct *bpf_task_from_pid(int pid) KFUNC;
void bpf_task_release(struct task_struct *p) KFUNC;
_Bool bpf_cpumask_test_cpu(u32 cpu, const struct cpumask *mask) KFUNC;
/* Since 6.13, and what 6.12 has in its place. */
void scx_bpf_dsq_insert(struct task_struct *p, u64 queue, u64 slice_ns, u64 flags) MAYBE;
void scx_bpf_dispatch(struct task_struct *p, u64 queue, u64 slice_ns, u64 flags) MAYBE;
/* Helpers by their numbers, include/uapi/linux/bpf.h. */
static void *(*const lookup)(void *map, const void *key) = (void *)1;
static u32 (*const this_cpu)(void) = (void *)8;
static long (*const push)(void *map, const void *value, u64 flags) = (void *)87;
static long (*const pop)(void *map, void *value) = (void *)88;

char terms[] SEC("license") = "GPL";
/* Not read: of a type that no variable has, an object names the type alone. */
struct cpumask unused;

struct place {
	u32 pid, stamp;
};
struct queue {
	int (*type)[22]; /* BPF_MAP_TYPE_QUEUE */
	int (*max_entries)[MAX_TASKS];
	struct place *value;
};
struct queue q0 SEC(".maps"), q1 SEC(".maps"), q2 SEC(".maps"), q3 SEC(".maps"), q4 SEC(".maps"),
	q5 SEC(".maps"), q6 SEC(".maps"), q7 SEC(".maps"), q8 SEC(".maps"), q9 SEC(".maps"),
	qa SEC(".maps"), qb SEC(".maps"), qc SEC(".maps"), qd SEC(".maps"), qe SEC(".maps"),
	qf SEC(".maps");
struct {
	int (*type)[12]; /* BPF_MAP_TYPE_ARRAY_OF_MAPS */
	int (*max_entries)[MAX_GROUPS];
	u32 *key;
	struct queue *values[];
} queues SEC(".maps") = {
	.values = { &q0, &q1, &q2, &q3, &q4, &q5, &q6, &q7, &q8, &q9, &qa, &qb, &qc, &qd, &qe,
		    &qf },
};

/* The group of each queue. One without a queue shares the first, the root's. */
static volatile u64 groups[MAX_GROUPS];
static volatile u32 turn, stamps;
/* Of each CPU: who yielded there last, and to which task. */
static volatile struct wish {
	int from, to;
} wishes[MAX_CPUS];

static u32 find(u64 id)
{
	for (u32 at = 0; at < MAX_GROUPS; at++)
		if (groups[at] == id)
			return at;
	return MAX_GROUPS;
}

SEC("struct_ops/cgroup_init")
int fifo_cgroup_init(u64 *arguments)
{
	struct cgroup *group = (struct cgroup *)arguments[0];
	u32 at = find(0);

	if (group->level <= 1 && at < MAX_GROUPS)
		groups[at] = group->kn->id;
	return 0;
}

SEC("struct_ops/cgroup_exit")
int fifo_cgroup_exit(u64 *arguments)
{
	struct cgroup *group = (struct cgroup *)arguments[0];
	u32 at = find(group->kn->id);

	if (at < MAX_GROUPS)
		groups[at] = 0;
	return 0;
}

static u32 queue_of(struct task_struct *p)
{
	struct cgroup *group = scx_bpf_task_cgroup(p);
	struct cgroup *top = bpf_cgroup_ancestor(group, group->level > 0);
	u32 at = top ? find(top->kn->id) : 0;

	if (top)
		bpf_cgroup_release(top);
	bpf_cgroup_release(group);
	return at < MAX_GROUPS ? at : 0;
}

static void insert(struct task_struct *p, u64 queue, u64 flags)
{
	if (scx_bpf_dsq_insert)
		scx_bpf_dsq_insert(p, queue, SLICE_NS, flags);
	else
		scx_bpf_dispatch(p, queue, SLICE_NS, flags);
}

SEC("struct_ops/enqueue")
int fifo_enqueue(u64 *arguments)
{
	struct task_struct *p = (struct task_struct *)arguments[0];
	u32 at = queue_of(p);
	void *queue = lookup(&queues, &at);
	struct place place = { .pid = p->pid, .stamp = ++stamps };

	/* 0 stands for a task that waits in no queue. */
	if (!place.stamp)
		place.stamp = ++stamps;
	p->scx.dsq_vtime = place.stamp;
	if (!queue || push(queue, &place, 0))
		insert(p, GLOBAL, arguments[1]);
	return 0;
}

/* Only ops.dispatch() may choose a task, so this notes which, and ends the slice. */
SEC("struct_ops/yield")
int fifo_yield(u64 *arguments)
{
	struct task_struct *from = (struct task_struct *)arguments[0];
	struct task_struct *to = (struct task_struct *)arguments[1];
	volatile struct wish *wish = &wishes[this_cpu() % MAX_CPUS];

	from->scx.slice = 0;
	if (!to)
		return 0;
	wish->to = to->pid;
	wish->from = from->pid;
	return 1;
}

/*
 * Lets a task run that waits in a queue, with that stamp unless it is 0: on this CPU, or on the
 * next that it may run on. The kernel ignores one that does not wait any more.
 */
static _Bool run(u32 pid, u32 stamp, u32 cpu)
{
	struct task_struct *p = bpf_task_from_pid(pid);
	_Bool here = 0;

	if (!p)
		return 0;
	if (p->scx.dsq_vtime && (!stamp || p->scx.dsq_vtime == stamp)) {
		p->scx.dsq_vtime = 0;
		here = bpf_cpumask_test_cpu(cpu, p->cpus_ptr);
		insert(p, here ? LOCAL : GLOBAL, 0);
	}
	bpf_task_release(p);
	return here;
}

SEC("struct_ops/dispatch")
int fifo_dispatch(u64 *arguments)
{
	u32 cpu = arguments[0], at = turn;
	struct task_struct *prev = (struct task_struct *)arguments[1];
	volatile struct wish *wish = &wishes[cpu % MAX_CPUS];

	if (prev && wish->from == prev->pid) {
		wish->from = 0;
		if (run(wish->to, 0, cpu))
			return 0;
	}
	for (u32 i = 0; i < MAX_LOOKS; i++, at++) {
		u32 key = at % MAX_GROUPS;
		void *queue = lookup(&queues, &key);
		struct place place;

		if (queue && !pop(queue, &place) && run(place.pid, place.stamp, cpu)) {
			turn = at + 1;
			break;
		}
	}
	return 0;
}

/* The kernel ends a scheduler that leaves a task waiting for that long. */
SEC(".struct_ops")
struct sched_ext_ops fifo = {
	.enqueue = (void *)fifo_enqueue,
	.dispatch = (void *)fifo_dispatch,
	.yield = (void *)fifo_yield,
	.cgroup_init = (void *)fifo_cgroup_init,
	.cgroup_exit = (void *)fifo_cgroup_exit,
	.timeout_ms = 5000,
	.name = "fifo",
};
