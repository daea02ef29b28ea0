// SPDX-License-Identifier: GPL-2.0-only
/*
 * The rule of Ishiguro, Yasuno, Aublin and Kono, "Mitigating Excessive vCPU Spinning in VM-Agnostic
 * KVM", VEE 2021, who made it for CFS, carried to EEVDF: the yielder falls behind the target in
 * virtual time. The target gains nothing, and others may run first. Part of debooster.c.
 *
 * The yielder is moved back by at most two slices. A target that is far ahead therefore cannot
 * starve it.
 */

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

static bool debooster_penalty(struct rq *rq, struct task_struct *p)
{
	struct sched_entity *target = &p->se, *me = &rq->curr->se;

	debooster_update(task_rq(p), target);
	if (rq != task_rq(p))
		debooster_update(rq, me);
	set_next_buddy(target);
	if (rq->nr_running == 1)
		return true;
	clear_buddies(cfs_rq_of(me), me);
	rq_clock_skip_update(rq);

	if (rq == task_rq(p)) {
		find_matching_se(&me, &target);
		debooster_fall_behind(me, target);
	} else {
		me = debooster_contested(me);
	}
	if (entity_eligible(cfs_rq_of(me), me)) {
		me->vruntime = me->deadline;
		update_deadline(cfs_rq_of(me), me);
	}
	return true;
}
