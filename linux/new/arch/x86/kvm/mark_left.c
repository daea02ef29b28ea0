// SPDX-License-Identifier: GPL-2.0-only
/* The parameter of mark_left.h. */
#include <linux/module.h>

#include "mark_left.h"

bool __read_mostly kvm_mark_left;
EXPORT_SYMBOL_GPL(kvm_mark_left);
module_param_named(mark_left, kvm_mark_left, bool, 0444);
