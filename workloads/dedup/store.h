/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The chunks that were met already, by their digests; for many threads at a time. */
#ifndef STEADY_DEDUP_STORE_H
#define STEADY_DEDUP_STORE_H

#include <stdbool.h>
#include <stdint.h>

#include "dedup/digest.h"

/* A chunk by its place in the input. */
struct chunk_id {
	uint32_t block, index;
};

void store_init(void);

/*
 * Whether a chunk of this digest was met before; then @id becomes the one that was
 * met first. Otherwise the chunk @id is the first.
 */
bool store_has(const unsigned char sum[DIGEST_BYTES], struct chunk_id *id);

#endif
