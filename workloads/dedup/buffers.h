/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Buffers for blocks, all of one size, and the three ways in which they are given back. */
#ifndef STEADY_DEDUP_BUFFERS_H
#define STEADY_DEDUP_BUFFERS_H

#include <stddef.h>

#include "histogram.h"

enum buffers { BUFFERS_MAP, BUFFERS_DISCARD, BUFFERS_KEEP };

/* For OPTION_CHOICE; the order is that of enum buffers. */
extern const char *const buffers_choices[];

/* Before all else: how they are given back, and what each holds at least. */
void buffers_init(enum buffers way, size_t bytes);

unsigned char *buffer_take(void);

/* Adds how long the system call took, if there is one, to @releases. */
void buffer_return(unsigned char *buffer, struct histogram *releases);

#endif
