// SPDX-License-Identifier: GPL-2.0-only
/*
 * Debooster: what a directed yield does besides naming the target as the next buddy. Part of
 * fair.c.
 *
 * EEVDF takes the next buddy only if it is eligible. An entity is eligible if it has not had more
 * than its share. Otherwise the request is dropped, and nothing reports that. The scheduler may
 * then pick the yielder again at once. The modes differ in who pays:
 *
 * penalty	the yielder: it falls behind the target in virtual time. After Ishiguro, Yasuno,
 *		Aublin and Kono, "Mitigating Excessive vCPU Spinning in VM-Agnostic KVM", VEE
 *		2021, who did so for CFS. The target gains nothing, and others may run first.
 * nudge	the target itself: it is picked although it is not eligible, and its virtual time
 *		goes on from where it is. It runs earlier and later waits longer. If the target
 *		waits for another CPU, the yielder keeps its own.
 * apart	as nudge. Before that, a target that waits on a CPU where another thread of its
 *		process runs is moved to a CPU where none does: debooster_apart.c.
 *
 * Fairness of nudge and apart. They change no vruntime. A target is picked early only while it is
 * ahead of the average of its queue by at most one base slice. It then runs for at most a slice,
 * as any entity does, until its deadline and the next tick. So it has never had more than its
 * share by more than two slices and a tick, however often it is yielded to. EEVDF itself allows
 * one slice and a tick. Over a window of any length the gain is bounded by these two slices. This
 * holds on each level of the hierarchy of groups, so a VM's group gains no more than that either.
 *
 * penalty moves the yielder back by at most two slices. A target that is far ahead therefore
 * cannot starve it.
 */
#include <linux/moduleparam.h>
#include <linux/sysfs.h>

#define CREATE_TRACE_POINTS
#include <trace/events/kvm_debooster.h>

enum debooster_mode {
	DEBOOSTER_OFF,
	DEBOOSTER_PENALTY,
	DEBOOSTER_NUDGE,
	DEBOOSTER_APART,
};

static const char * const debooster_names[] = { "off", "penalty", "nudge", "apart" };

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

/* Whether the next buddy is to be picked although it is not eligible. */
static bool debooster_lends(struct cfs_rq *cfs_rq)
{
	return cfs_rq->lent && READ_ONCE(debooster_mode) >= DEBOOSTER_NUDGE &&
	       debooster_affords(cfs_rq, cfs_rq->next);
}

/*
 * A next buddy is named. Only a directed yield lends: a group that is named because a task of it
 * went to sleep has to be eligible.
 */
static void debooster_forget(struct cfs_rq *cfs_rq)
{
	cfs_rq->lent = false;
}

/*
 * The lowest level on which @me has a competitor. With a group for each vCPU this is not the
 * task's own queue, where it is alone. On each level the entity is its queue's current one, and so
 * not in the tree.
 */
static struct sched_entity *debooster_contested(struct sched_entity *me)
{
	while (parent_entity(me) && cfs_rq_of(me)->nr_running == 1)
		me = parent_entity(me);
	return me;
}

static void debooster_forfeit(struct sched_entity *me)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(me);

	if (!entity_eligible(cfs_rq, me))
		return;
	me->vruntime = me->deadline;
	update_deadline(cfs_rq, me);
}

/* Puts the yielder behind the target, which is its sibling on this level. */
static void debooster_fall_behind(struct sched_entity *me, struct sched_entity *target)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(me);
	u64 furthest = avg_vruntime(cfs_rq) + 2 * calc_delta_fair(sysctl_sched_base_slice, me);
	u64 behind = target->vruntime + 1;

	if ((s64)(behind - furthest) > 0)
		behind = furthest;
	if ((s64)(behind - me->vruntime) <= 0)
		return;
	me->vruntime = behind;
	update_deadline(cfs_rq, me);
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

static void debooster_update(struct rq *rq, struct sched_entity *se)
{
	update_rq_clock(rq);
	for_each_sched_entity(se)
		update_curr(cfs_rq_of(se));
}

/* yield_to() with a mode; both run queues are locked. Returns whether the target is to run next. */
static bool debooster_yield_to(struct rq *rq, struct task_struct *p)
{
	struct sched_entity *target = &p->se, *me = &rq->curr->se;
	int mode = READ_ONCE(debooster_mode);
	bool lends = mode >= DEBOOSTER_NUDGE;
	struct rq *p_rq = task_rq(p);
	bool agreed;

	debooster_update(p_rq, target);
	if (rq != p_rq)
		debooster_update(rq, me);

	agreed = !lends || debooster_can_lend(target);
	trace_kvm_debooster_yield(rq->curr, p, mode, cpu_of(p_rq),
				  debooster_debt(cfs_rq_of(target), target), agreed);
	if (!agreed)
		return false;

	set_next_buddy(target);
	if (lends)
		debooster_lend(target);
	if (rq->nr_running == 1 || (lends && rq != p_rq))
		return true;

	clear_buddies(cfs_rq_of(me), me);
	rq_clock_skip_update(rq);
	/* The next buddy is sure to be picked, so the yielder need not make room for it. */
	if (lends)
		return true;

	if (rq == p_rq) {
		find_matching_se(&me, &target);
		debooster_fall_behind(me, target);
	} else {
		me = debooster_contested(me);
	}
	debooster_forfeit(me);
	return true;
}

/*
 * Whether a yielder whose target waits for another CPU goes on. Other classes than the fair one
 * have a yield of their own, after which the caller has to schedule.
 */
bool sched_debooster_keeps(struct rq *rq, struct rq *p_rq)
{
	return rq != p_rq && rq->curr->sched_class == &fair_sched_class &&
	       READ_ONCE(debooster_mode) >= DEBOOSTER_NUDGE;
}
