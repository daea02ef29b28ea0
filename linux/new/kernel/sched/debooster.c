// SPDX-License-Identifier: GPL-2.0-only
/*
 * Debooster: what a directed yield does besides naming the target as the next buddy. Part of
 * fair.c.
 *
 * EEVDF takes the next buddy only if it is eligible. An entity is eligible if it has not had more
 * than its share. Otherwise the request is dropped, and nothing reports that. The scheduler may
 * then pick the yielder again at once.
 *
 * With Debooster the target is picked although it is not eligible, and its virtual time goes on
 * from where it is. It runs earlier and later waits longer. If the target waits for another CPU,
 * the yielder keeps its own. Before that, a target that waits on a CPU where another thread of its
 * process runs is moved to a CPU where none does: debooster_apart.c.
 *
 * Fairness. No vruntime is changed. A target is picked early only while it is ahead of the average
 * of its queue by at most one base slice. It then runs for at most a slice, as any entity does,
 * until its deadline and the next tick. So it has never had more than its share by more than two
 * slices and a tick, however often it is yielded to. EEVDF itself allows one slice and a tick. Over
 * a window of any length the gain is bounded by these two slices. This holds on each level of the
 * hierarchy of groups, so a VM's group gains no more than that either.
 */
#include <linux/moduleparam.h>
#include <linux/sysfs.h>

#define CREATE_TRACE_POINTS
#include <trace/events/kvm_debooster.h>

enum debooster_mode {
	DEBOOSTER_OFF,
	DEBOOSTER_ON,
};

static const char * const debooster_names[] = { "off", "on" };

static int debooster_mode __read_mostly;

static int debooster_set(const char *value, const struct kernel_param *param)
{
	int chosen = sysfs_match_string(debooster_names, value);

	if (chosen < 0)
		return chosen;
	WRITE_ONCE(debooster_mode, chosen);
	return 0;
}

static int debooster_get(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%s\n", debooster_names[READ_ONCE(debooster_mode)]);
}

static const struct kernel_param_ops debooster_ops = {
	.set = debooster_set,
	.get = debooster_get,
};

#undef MODULE_PARAM_PREFIX
#define MODULE_PARAM_PREFIX "sched."
module_param_cb(debooster, &debooster_ops, NULL, 0644);

static void set_next_buddy(struct sched_entity *se);

/* By how much an entity is ahead of its queue, in virtual time; 0 if it is eligible. */
static u64 debooster_debt(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	s64 ahead;

	if (entity_eligible(cfs_rq, se))
		return 0;
	ahead = se->vruntime - avg_vruntime(cfs_rq);
	return max(ahead, 0);
}

/* Whether an entity that is not eligible may run early. */
static bool debooster_affords(struct cfs_rq *cfs_rq, struct sched_entity *se)
{
	return debooster_debt(cfs_rq, se) <= calc_delta_fair(sysctl_sched_base_slice, se);
}

/* Whether the next buddy will be picked although it is not eligible. */
static bool debooster_lends(struct cfs_rq *cfs_rq)
{
	if (!cfs_rq->lent || READ_ONCE(debooster_mode) != DEBOOSTER_ON ||
	    !debooster_affords(cfs_rq, cfs_rq->next))
		return false;
	trace_kvm_debooster_early(cpu_of(rq_of(cfs_rq)));
	return true;
}

/*
 * A next buddy is named. Only a directed yield lends: a group that is named because a task of it
 * went to sleep has to be eligible.
 */
static void debooster_forget(struct cfs_rq *cfs_rq)
{
	cfs_rq->lent = false;
}

/* Whether all of the target's levels can afford that it runs early. */
static bool debooster_can_lend(struct sched_entity *target)
{
	struct sched_entity *se = target;

	for_each_sched_entity(se) {
		if (se != cfs_rq_of(se)->curr && !debooster_affords(cfs_rq_of(se), se))
			return false;
	}
	return true;
}

/* Marks the levels on which the target was named: set_next_buddy() stops below an idle group. */
static void debooster_lend(struct sched_entity *target)
{
	struct sched_entity *se = target;

	for_each_sched_entity(se)
		cfs_rq_of(se)->lent = cfs_rq_of(se)->next == se;
}

/* The time by which the target is ahead of its queue, on the level where that is most. */
static u64 debooster_most_debt(struct sched_entity *target)
{
	struct sched_entity *se = target;
	u64 most = 0;

	for_each_sched_entity(se) {
		if (se != cfs_rq_of(se)->curr)
			most = max(most, mul_u64_u64_div_u64(debooster_debt(cfs_rq_of(se), se),
							     se->load.weight, NICE_0_LOAD));
	}
	return most;
}

static void debooster_update(struct rq *rq, struct sched_entity *se)
{
	update_rq_clock(rq);
	for_each_sched_entity(se)
		update_curr(cfs_rq_of(se));
}

/* yield_to() in place of fair.c's, with both run queues locked: whether the target runs next. */
static bool debooster_yield_to(struct rq *rq, struct task_struct *p)
{
	struct sched_entity *target = &p->se, *me = &rq->curr->se;
	struct rq *p_rq = task_rq(p);
	bool agreed;

	debooster_update(p_rq, target);
	agreed = debooster_can_lend(target);
	if (trace_kvm_debooster_yield_enabled())
		trace_kvm_debooster_yield(rq->curr, p, cpu_of(p_rq), debooster_most_debt(target),
					  agreed);
	if (!agreed)
		return false;

	set_next_buddy(target);
	debooster_lend(target);
	if (rq == p_rq) {
		/* The next buddy is sure to be picked: the yielder need not make room for it. */
		clear_buddies(cfs_rq_of(me), me);
		rq_clock_skip_update(rq);
	}
	return true;
}

/*
 * Whether a yielder whose target waits for another CPU goes on. Other classes than the fair one
 * have a yield of their own, after which the caller has to schedule.
 */
bool sched_debooster_keeps(struct rq *rq, struct rq *p_rq)
{
	return rq != p_rq && rq->curr->sched_class == &fair_sched_class &&
	       READ_ONCE(debooster_mode) == DEBOOSTER_ON;
}
