/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef KERNEL_ACCESS_H
#define KERNEL_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "counting.h"

void kernel_access_prepare(void);
uint64_t lends_its_name(const uint8_t *code, bool page_ends);
enum turn turn_of(const uint8_t *code);
bool is_from_emulator(uintptr_t return_address);

#endif
