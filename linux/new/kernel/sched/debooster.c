// SPDX-License-Identifier: GPL-2.0-only
/*
 * Debooster: what a directed yield does besides naming the target as the next buddy. Part of
 * fair.c.
 *
 * EEVDF takes the next buddy only if it is eligible, that is, has not had more than its share;
 * else the wish is dropped without a word. The yielder may then be picked again at once. The ways
 * to mend this differ in who pays:
 *
 * no-forfeit	nobody; the yielder's deadline is put off, as in Linux up to 6.12.62.
 * penalty	the yielder: it falls behind the target in virtual time. After Ishiguro, Yasuno,
 *		Aublin and Kono, "Mitigating Excessive vCPU Spinning in VM-Agnostic KVM", VEE
 *		2021, who did so for CFS. The target gains nothing, others may go first.
 * credit	everybody else on the target's queue: the target's lag is lifted to what makes it
 *		eligible, by a slice at most and once in 6 ms for each CPU, after what was
 *		proposed on the mailing list in 2026.
 * handover	the target itself: it is picked though it is not eligible, and its virtual time
 *		goes on from where it is. It runs earlier, and later waits the longer.
 * nudge	as handover; but if the target waits for another CPU, the yielder keeps its own.
 * apart	as nudge; and before it a target that waits where another thread of its process runs
 *		is put where none does: debooster_apart.c.
 *
 * Fairness. From handover on no vruntime is changed but the yielder's, which can only lose
 * by it. A target is picked early only while it is ahead of its queue's average by no more than
 * one base slice; it then runs for a slice at most, as any entity, until its deadline and the
 * next tick. So at no time has it had more than its share by more than two slices and a tick,
 * however often it is yielded to; EEVDF itself allows one slice and a tick. Over a window of any
 * length the gain is bounded by these two slices. This holds on each level of the hierarchy of
 * groups: a VM's group gains no more than that over other VMs either.
 *
 * penalty moves the yielder behind by two slices at most, so that it cannot be starved by a target
 * that is far ahead.
 */
#include <linux/moduleparam.h>
#include <linux/sysfs.h>

#define CREATE_TRACE_POINTS
#include <trace/events/kvm_debooster.h>

enum debooster_mode {
	DEBOOSTER_OFF,
	DEBOOSTER_NO_FORFEIT,
	DEBOOSTER_PENALTY,
	DEBOOSTER_CREDIT,
	DEBOOSTER_HANDOVER,
	DEBOOSTER_NUDGE,
	DEBOOSTER_APART,
};

/* Time between two credits on one CPU. */
#define DEBOOSTER_CREDIT_NS	(6 * NSEC_PER_MSEC)

static const char * const debooster_names[] = {
	"off", "no-forfeit", "penalty", "credit", "handover", "nudge", "apart",
};

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

/* Whether the next buddy is to be picked though it is not eligible. */
static bool debooster_lends(struct cfs_rq *cfs_rq)
{
	return cfs_rq->lent == cfs_rq->next && READ_ONCE(debooster_mode) >= DEBOOSTER_HANDOVER &&
	       debooster_affords(cfs_rq, cfs_rq->next);
}

/*
 * The lowest level on which @me has somebody to give way to. With a group for each vCPU the
 * task's own queue is not it: there it is alone. On each level the entity is its queue's current
 * one, and so not in the tree.
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

/* Lifts the lag of one that waits so that it is eligible, if a slice is enough for it. */
static void debooster_lift(struct sched_entity *se)
{
	struct cfs_rq *cfs_rq = cfs_rq_of(se);
	s64 delta;

	if (se == cfs_rq->curr || entity_eligible(cfs_rq, se))
		return;

	/* The average of the others: the entity's own change would move it along. */
	__dequeue_entity(cfs_rq, se);
	delta = se->vruntime - avg_vruntime(cfs_rq);
	delta = clamp(delta, 0, (s64)calc_delta_fair(sysctl_sched_base_slice, se));
	se->vruntime -= delta;
	se->deadline -= delta;
	__enqueue_entity(cfs_rq, se);
}

static void debooster_credit(struct rq *rq, struct sched_entity *se)
{
	if (rq_clock(rq) - rq->debooster_credited < DEBOOSTER_CREDIT_NS)
		return;
	rq->debooster_credited = rq_clock(rq);
	for_each_sched_entity(se)
		debooster_lift(se);
}

/* Whether all of the target's levels can afford it; if so, they are marked. */
static bool debooster_lend(struct sched_entity *target)
{
	struct sched_entity *se = target;

	for_each_sched_entity(se) {
		if (se != cfs_rq_of(se)->curr && !debooster_affords(cfs_rq_of(se), se))
			return false;
	}
	se = target;
	for_each_sched_entity(se)
		cfs_rq_of(se)->lent = se;
	return true;
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
	struct rq *p_rq = task_rq(p);
	int mode = READ_ONCE(debooster_mode);
	bool agreed = true;

	debooster_update(p_rq, target);
	if (rq != p_rq)
		debooster_update(rq, me);

	if (mode == DEBOOSTER_CREDIT)
		debooster_credit(p_rq, target);
	if (mode >= DEBOOSTER_HANDOVER)
		agreed = debooster_lend(target);
	trace_kvm_debooster_yield(rq->curr, p, mode, cpu_of(p_rq),
				  debooster_debt(cfs_rq_of(target), target), agreed);
	if (!agreed)
		return false;

	set_next_buddy(target);
	if (rq->nr_running == 1 || (mode >= DEBOOSTER_NUDGE && rq != p_rq))
		return true;

	clear_buddies(cfs_rq_of(me), me);
	rq_clock_skip_update(rq);
	if (mode == DEBOOSTER_NO_FORFEIT) {
		me->deadline += calc_delta_fair(me->slice, me);
		return true;
	}

	if (rq == p_rq)
		find_matching_se(&me, &target);
	else
		me = debooster_contested(me);
	if (mode == DEBOOSTER_PENALTY && rq == p_rq)
		debooster_fall_behind(me, target);
	/* The next buddy is sure to be picked: there is nothing to make room for. */
	if (mode < DEBOOSTER_HANDOVER || rq != p_rq)
		debooster_forfeit(me);
	return true;
}

/* Whether a yielder whose target waits for another CPU goes on. */
bool sched_debooster_keeps(struct rq *rq, struct rq *p_rq)
{
	return rq != p_rq && READ_ONCE(debooster_mode) >= DEBOOSTER_NUDGE;
}
