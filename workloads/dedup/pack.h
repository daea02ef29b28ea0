/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * A small compressor of the LZ77 kind: runs of literals, and matches within the
 * same chunk. A byte n below 128 goes before n + 1 literals; n from 128 on, with
 * two bytes of distance, stands for n - 128 + PACK_MATCH_MIN bytes seen before.
 */
#ifndef STEADY_DEDUP_PACK_H
#define STEADY_DEDUP_PACK_H

#include <stdbool.h>
#include <stddef.h>

#define PACK_MATCH_MIN 4
#define PACK_INPUT_MAX 65535 /* so that positions and distances have two bytes */

/* Packs into @out, which has room for @bytes; 0 if the result is not shorter than that. */
size_t pack(const unsigned char *in, size_t bytes, unsigned char *out);

/* False unless @in unpacks to exactly @out_bytes. */
bool unpack(const unsigned char *in, size_t bytes, unsigned char *out, size_t out_bytes);

#endif
