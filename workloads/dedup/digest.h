/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* SHA-1 (FIPS 180-4), by which chunks are distinguished; PARSEC's dedup uses the same. */
#ifndef STEADY_DEDUP_DIGEST_H
#define STEADY_DEDUP_DIGEST_H

#include <stddef.h>

#define DIGEST_BYTES 20

void digest(const unsigned char *data, size_t bytes, unsigned char result[DIGEST_BYTES]);

/* Ends the process if digest() does not give the standard's own example. */
void digest_check(void);

#endif
