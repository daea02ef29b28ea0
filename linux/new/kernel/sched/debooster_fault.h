/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Faults planted in Debooster at run time. Part of debooster.c.
 */
enum debooster_fault {
	DEBOOSTER_FAULT_NONE,
	DEBOOSTER_FAULT_ALLOWANCE,	/* a target may be ahead by sixteen slices */
	DEBOOSTER_FAULT_LEVEL,		/* only the target's own level has to afford it */
	DEBOOSTER_FAULT_LENT,		/* what was lent once stays lent */
	DEBOOSTER_FAULT_POLLER,		/* a task is put behind one of a real-time class */
	DEBOOSTER_FAULT_SIBLING,	/* or beside another thread of its process */
	DEBOOSTER_FAULT_WEIGHT,		/* or on a CPU with more weight than its own */
};

#ifdef CONFIG_SCHED_DEBOOSTER_FAULTS
static const char * const debooster_fault_names[] = {
	"none", "allowance", "level", "lent", "poller", "sibling", "weight",
};

static int debooster_fault __read_mostly;

static int debooster_set_fault(const char *value, const struct kernel_param *param)
{
	int chosen = sysfs_match_string(debooster_fault_names, value);

	if (chosen < 0)
		return chosen;
	WRITE_ONCE(debooster_fault, chosen);
	return 0;
}

static const struct kernel_param_ops debooster_fault_ops = { .set = debooster_set_fault };

module_param_cb(debooster_fault, &debooster_fault_ops, NULL, 0200);

static bool debooster_has(enum debooster_fault fault)
{
	return READ_ONCE(debooster_fault) == fault;
}
#else
static inline bool debooster_has(enum debooster_fault fault)
{
	return false;
}
#endif
