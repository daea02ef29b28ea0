/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * The files to index: words of letters, seeded, a few of them frequent and most of them rare.
 */
#ifndef STEADY_CORPUS_H
#define STEADY_CORPUS_H

#include <stdint.h>

/* Letters of the longest word. */
#define WORD_MAX 16

/* What a whole corpus holds, or what was found of it: the same, if nothing was lost or doubled. */
struct corpus_sum {
	uint64_t words;
	uint64_t hashes; /* of all words, added up, modulo 2^64 */
};

/* FNV-1a of 64 bits over the letters of a word. */
uint64_t word_hash(const char *letters, uint64_t length);

/* Path of the file with this number, in @buffer of @size bytes. */
void corpus_path(char *buffer, uint64_t size, const char *directory, uint64_t number);

/*
 * Makes @files files of @bytes bytes each. If the directory does not take them, removes it with
 * what was made and ends the program.
 */
struct corpus_sum corpus_make(const char *directory, uint64_t files, uint64_t bytes, uint64_t seed);

/* Removes files 0 to @files - 1, as many as there are. */
void corpus_remove(const char *directory, uint64_t files);

#endif
