/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef REGIONS_H
#define REGIONS_H

#include <stdint.h>

void regions_remember(void);
void regions_send_new(uint64_t guest_base);

#endif
