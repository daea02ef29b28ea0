/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What one process has indexed and not written yet: a hash table of words, and for each the places
 * where it was found. Written out as a sorted list when the places are used up.
 */
#ifndef STEADY_TABLE_H
#define STEADY_TABLE_H

#include <stdint.h>

#include "corpus.h"

struct table;

/* A table for @places places, made once for a process; ends the program without memory. */
struct table *table_make(uint64_t places);

/* Notes that a word was found at @position of the file @number. The table must not be full. */
void table_add(struct table *table, const char *letters, uint64_t length, uint64_t number,
	       uint64_t position);

/* Whether all places are used. */
int table_full(const struct table *table);

/*
 * Writes the list, sorted by word, each with its places in the order in which they were noted, to a
 * new file, and empties the table. Returns what was written; nothing if the table was empty.
 */
struct corpus_sum table_write(struct table *table, const char *path);

#endif
