/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The file that dedup writes, in the byte order of the machine: "STEADYDD", then for
 * each block of the input the number of its chunks, and for each chunk a header and
 * what it stores. A chunk that was met before stores where it was met first, which
 * may be further on: threads meet chunks in any order.
 */
#ifndef STEADY_DEDUP_ARCHIVE_H
#define STEADY_DEDUP_ARCHIVE_H

#include <stddef.h>
#include <stdint.h>

#include "dedup/store.h"

#define ARCHIVE_MAGIC "STEADYDD"
#define ARCHIVE_MAGIC_BYTES 8

enum stored { STORED_PLAIN, STORED_PACKED, STORED_SAME };

struct chunk_header {
	uint32_t stored; /* enum stored */
	uint32_t bytes;	 /* of the chunk */
	uint32_t follow; /* bytes that come behind this header */
};

/*
 * Reads the archive @from and writes what was packed to @to; the number of its
 * chunks. Ends the process, naming the byte, if the archive is broken.
 */
uint64_t archive_unpack(const char *from, const char *to);

#endif
