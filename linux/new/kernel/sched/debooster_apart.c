// SPDX-License-Identifier: GPL-2.0-only
/*
 * Debooster: which tasks share a CPU. The target of a directed yield may wait for a CPU on which a
 * thread of its own process runs. It is then moved to a CPU where none does. Unless fewer tasks are
 * there, a task of another process that waits there comes in exchange. Part of fair.c.
 *
 * The threads of a VMM are the vCPUs of one guest, and those that wait for each other have to run
 * at once. Two on one CPU cannot. Whichever of them runs early keeps the other off the CPU, and
 * both are soon ahead of their share. The load may be balanced when they are in pairs, so nothing
 * else separates them. After "balance scheduling" (Sukwong and Kim, "Is Co-scheduling Too Expensive
 * for SMP VMs?", EuroSys 2011), which chose the CPU at wakeup. A vCPU that computes rarely wakes.
 *
 * What others lose by it. No CPU gets more tasks than one of the two had. Without an exchange, the
 * new CPU gets no more weight than the old one had. With one, neither CPU gets more weight than it
 * had, and who comes in exchange comes to a CPU with no more weight than its own. No task that runs
 * is moved. No task leaves its NUMA node, and no process has more threads beside each other than
 * before. Both CPUs are active, have the same capacity, and have fair tasks only. Both tasks match
 * the core-scheduling cookie of the core that they come to. Debts go along on each level of the
 * hierarchy of groups, so that a task that was ahead of its share still is. The load balancer may
 * move the tasks back.
 *
 * Interrupts are off, so the numbers of CPUs and of tasks that are examined are limited. In a base
 * slice a CPU is searched from once and receives tasks once, however often a guest asks.
 */

#include "debooster_lag.h"

#define DEBOOSTER_APART_CPUS	16
#define DEBOOSTER_APART_TASKS	8

/* Threads of @p's process on this queue besides itself. */
static int debooster_siblings(struct rq *rq, struct task_struct *p)
{
	struct task_struct *other;
	int left = DEBOOSTER_APART_TASKS, found = 0;

	lockdep_assert_rq_held(rq);
	list_for_each_entry(other, &rq->cfs_tasks, se.group_node) {
		if (!left--)
			break;
		found += other != p && !other->se.sched_delayed && same_thread_group(other, p);
	}
	return found;
}

/* Whether tasks may be put on a CPU, or taken from it: it is active, and has fair tasks alone. */
static bool debooster_is_open(struct rq *rq)
{
	return cpu_active(cpu_of(rq)) &&
	       READ_ONCE(rq->nr_running) == READ_ONCE(rq->cfs.h_nr_queued);
}

/* A task's part of the weight on its CPU, through all groups that it is in. */
static u64 debooster_weight(struct task_struct *p)
{
	struct sched_entity *se = &p->se;
	u64 weight = se->load.weight;
	u64 beside;

	while (parent_entity(se)) {
		beside = max(cfs_rq_of(se)->load.weight, 1UL);
		se = parent_entity(se);
		weight = mul_u64_u64_div_u64(weight, se->load.weight, beside);
	}
	return weight;
}

/* Weights of groups are estimates: an eighth more is as much, as for the load balancer. */
static bool debooster_no_heavier(u64 weight, u64 limit)
{
	return weight <= limit + limit / 8;
}

/* Whether no task but @p is worse off by its move to @to, in exchange for @other or for nothing. */
static bool debooster_spares(struct task_struct *p, struct task_struct *other, struct rq *from,
			     struct rq *to)
{
	u64 was_from = from->cfs.load.weight, was_to = to->cfs.load.weight;
	u64 comes = debooster_weight(p), goes;

	if (!other)
		return debooster_no_heavier(was_to + comes, was_from);
	goes = debooster_weight(other);
	return debooster_no_heavier(was_to + comes, was_to + goes) &&
	       debooster_no_heavier(was_from + goes, min(was_from, was_to) + comes);
}

/* Whether a task that waits on @from may be put to wait on @to. */
static bool debooster_may_move(struct task_struct *p, struct rq *from, struct rq *to)
{
	return task_rq(p) == from && task_on_rq_queued(p) && !task_on_cpu(from, p) &&
	       p->sched_class == &fair_sched_class && !p->se.sched_delayed &&
	       !is_migration_disabled(p) && !kthread_is_per_cpu(p) &&
	       cpumask_test_cpu(cpu_of(to), p->cpus_ptr) && sched_core_cookie_match(to, p) &&
	       !throttled_lb_pair(task_group(p), cpu_of(from), cpu_of(to));
}

/* A task that waits on @to and may come in exchange for @p, and is not worse off then. */
static struct task_struct *debooster_counterpart(struct task_struct *p, struct rq *from,
						 struct rq *to)
{
	struct task_struct *other;
	int left = DEBOOSTER_APART_TASKS;

	list_for_each_entry(other, &to->cfs_tasks, se.group_node) {
		if (!left--)
			break;
		if (debooster_may_move(other, to, from) && debooster_spares(p, other, from, to) &&
		    debooster_siblings(from, other) <= debooster_siblings(to, other))
			return other;
	}
	return NULL;
}

/*
 * A task takes its lag along. Its groups have one for each CPU: that of the last time that they had
 * a task there.
 */
static void debooster_carry_lag(struct task_struct *p, int from, int to)
{
#ifdef CONFIG_FAIR_GROUP_SCHED
	struct task_group *group;

	for (group = task_group(p); group->parent; group = group->parent) {
		struct sched_entity *was = group->se[from], *is = group->se[to];
		s64 lag = was->vlag;

		if (is->on_rq)
			continue;
		if (was->on_rq)
			lag = entity_lag(avg_vruntime(cfs_rq_of(was)), was);
		is->vlag = debooster_carried(lag, was->load.weight, is->vlag, is->load.weight);
	}
#endif
}

static void debooster_move(struct task_struct *p, struct rq *from, struct rq *to)
{
	deactivate_task(from, p, DEQUEUE_NOCLOCK);
	debooster_carry_lag(p, cpu_of(from), cpu_of(to));
	set_task_cpu(p, cpu_of(to));
	attach_task(to, p);
}

/* Whether a CPU took part more than a base slice ago. Clocks may be a little apart. */
static bool debooster_settled(struct rq *rq, u64 now)
{
	return (s64)(now - READ_ONCE(rq->debooster_parted)) >= (s64)sysctl_sched_base_slice;
}

/* Puts @p on @to, if that parts it from its siblings. */
static bool debooster_part(struct task_struct *p, struct rq *from, struct rq *to, u64 now)
{
	struct task_struct *other = NULL;

	guard(double_rq_lock)(from, to);
	update_rq_clock(from);
	update_rq_clock(to);
	if (!debooster_is_open(from) || !debooster_is_open(to) ||
	    !debooster_may_move(p, from, to) || debooster_siblings(to, p))
		return false;
	if (to->nr_running >= from->nr_running) {
		other = debooster_counterpart(p, from, to);
		if (!other)
			return false;
	} else if (!debooster_spares(p, NULL, from, to)) {
		return false;
	}

	WRITE_ONCE(to->debooster_parted, now);
	trace_kvm_debooster_apart(p, other, cpu_of(from), cpu_of(to));
	debooster_move(p, from, to);
	if (other)
		debooster_move(other, to, from);
	return true;
}

/* A guess without locks: what runs there is not of the same process. */
static bool debooster_promises(struct task_struct *p, int cpu, u64 now)
{
	struct rq *rq = cpu_rq(cpu);

	return debooster_is_open(rq) && cpumask_test_cpu(cpu, p->cpus_ptr) &&
	       arch_scale_cpu_capacity(cpu) == arch_scale_cpu_capacity(task_cpu(p)) &&
	       debooster_settled(rq, now) &&
	       !same_thread_group(rcu_dereference(rq->curr), p);
}

/* The CPUs among which a task may be moved as by the load balancer, within a NUMA node. */
static const struct cpumask *debooster_around(int cpu)
{
	struct sched_domain *sd, *widest = NULL;

	for_each_domain(cpu, sd) {
		if (sd->flags & SD_NUMA)
			break;
		widest = sd;
	}
	return widest ? sched_domain_span(widest) : cpumask_of(cpu);
}

/* Before a directed yield to @p, whose pi_lock is held. */
void sched_debooster_apart(struct task_struct *p)
{
	int here = task_cpu(p), left = DEBOOSTER_APART_CPUS, cpu;
	struct rq *from = cpu_rq(here);
	u64 now;

	if (READ_ONCE(debooster_mode) != DEBOOSTER_ON || p->nr_cpus_allowed == 1)
		return;

	now = local_clock();
	guard(rcu)();
	/* Checked again under the lock; most yields end here. */
	if (!task_on_rq_queued(p) || task_on_cpu(from, p) || !debooster_settled(from, now) ||
	    !same_thread_group(rcu_dereference(from->curr), p))
		return;
	WRITE_ONCE(from->debooster_parted, now);
	for_each_cpu_wrap(cpu, debooster_around(here), here + 1) {
		if (!left--)
			return;
		if (cpu != here && debooster_promises(p, cpu, now) &&
		    debooster_part(p, from, cpu_rq(cpu), now))
			return;
	}
}
