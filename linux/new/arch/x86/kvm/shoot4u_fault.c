// SPDX-License-Identifier: GPL-2.0-only
/*
 * Shoot4U: the module parameter that plants a fault, or has vCPUs wait where a test wants to come
 * between.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/moduleparam.h>
#include <linux/sched.h>
#include <linux/sched/signal.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "shoot4u_fault.h"

static const char * const shoot4u_fault_names[] = {
	"none", "skip-pcpu", "skip-migrated", "wrong-vpid", "drop-request", "short-range",
	"ignore-emulation", "always-revoked", "no-address", "no-context",
	"wait-exit", "wait-flagged", "wait-decode",
};

int kvm_shoot4u_planted __read_mostly;
EXPORT_SYMBOL_GPL(kvm_shoot4u_planted);

static int shoot4u_set_fault(const char *value, const struct kernel_param *param)
{
	int chosen = sysfs_match_string(shoot4u_fault_names, value);

	if (chosen < 0)
		return chosen;
	WRITE_ONCE(kvm_shoot4u_planted, chosen);
	return 0;
}

static int shoot4u_get_fault(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%s\n", shoot4u_fault_names[READ_ONCE(kvm_shoot4u_planted)]);
}

static const struct kernel_param_ops shoot4u_fault_ops = {
	.set = shoot4u_set_fault,
	.get = shoot4u_get_fault,
};
module_param_cb(shoot4u_fault, &shoot4u_fault_ops, NULL, 0644);

static atomic_t shoot4u_waiting = ATOMIC_INIT(0);

/* Stands here until another fault is planted, or none. */
void __kvm_shoot4u_wait(enum kvm_shoot4u_fault wait)
{
	atomic_inc(&shoot4u_waiting);
	while (kvm_shoot4u_has(wait) && !fatal_signal_pending(current))
		schedule_timeout_killable(1);
	atomic_dec(&shoot4u_waiting);
}
EXPORT_SYMBOL_GPL(__kvm_shoot4u_wait);

static int shoot4u_get_waiting(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%d\n", atomic_read(&shoot4u_waiting));
}

static const struct kernel_param_ops shoot4u_waiting_ops = {
	.get = shoot4u_get_waiting,
};
module_param_cb(shoot4u_waiting, &shoot4u_waiting_ops, NULL, 0444);
