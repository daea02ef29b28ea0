/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef CHILDREN_H
#define CHILDREN_H

#include <stdint.h>

void children_prepare(const char *socket_path);
void children_set_base(uint64_t base);
void children_forked(int64_t pid);
void children_exec(uint64_t path_address);

#endif
