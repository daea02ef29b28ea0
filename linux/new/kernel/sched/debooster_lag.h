/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Debooster: the lag that a group has on a CPU to which one of its tasks is moved. It reads no
 * state of the scheduler, so that a test can compile it by itself.
 *
 * A group has an entity for each CPU, and each entity has a weight of its own. An entity that is
 * not on a queue stores its lag as virtual time, V - v: the time that it is owed, in proportion to
 * its weight. reweight_entity() and place_entity() convert it with the weight of that entity. So
 * what one entity stores has to be scaled by the weights of both before another one stores it.
 */
#ifndef _KERNEL_SCHED_DEBOOSTER_LAG_H
#define _KERNEL_SCHED_DEBOOSTER_LAG_H

#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/types.h>

/*
 * @was, @was_weight: lag and weight of the entity on the CPU that the task leaves
 * @is, @is_weight: those of the entity that it gets to, which is not on its queue
 *
 * Returns the lag for the latter. Time that the group is owed stays where it is owed: a sibling may
 * still wait there, and would be paid twice. A debt that was left behind on the new CPU stands.
 */
static inline s64 debooster_carried(s64 was, unsigned long was_weight, s64 is,
				    unsigned long is_weight)
{
	s64 carried = div64_s64(was * (s64)was_weight, (s64)is_weight);

	return min3(carried, is, (s64)0);
}

#endif /* _KERNEL_SCHED_DEBOOSTER_LAG_H */
