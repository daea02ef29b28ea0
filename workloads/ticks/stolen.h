/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * For how long the CPUs of a guest stood ready and had no pCPU: the steal time
 * of /proc/stat, which the kernel has in hundredths of a second.
 */
#ifndef STEADY_STOLEN_H
#define STEADY_STOLEN_H

#include <stdbool.h>
#include <stdint.h>

/* Of all CPUs since boot, into @ns; says why and is false if it cannot be read. */
bool stolen_read(uint64_t *ns);

#endif
