/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "corpus.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "talk.h"
#include "threads.h"

#define VOCABULARY 20000

uint64_t word_hash(const char *letters, uint64_t length)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (uint64_t index = 0; index < length; index++) {
		hash ^= (unsigned char)letters[index];
		hash *= UINT64_C(0x100000001b3);
	}
	return hash;
}

void corpus_path(char *buffer, uint64_t size, const char *directory, uint64_t number)
{
	if (snprintf(buffer, size, "%s/%" PRIu64, directory, number) >= (int)size)
		fail(EXIT_USAGE, "--directory: the path is too long");
}

/* The letters of a word of the vocabulary; returns how many. */
static uint64_t spell(char *letters, uint64_t number)
{
	uint64_t stream = number, length = 2 + random_next(&stream) % (WORD_MAX - 2);

	for (uint64_t index = 0; index < length; index++)
		letters[index] = (char)('a' + random_below(&stream, 26));
	return length;
}

/* Numbers near 0 come up most: the least of three. */
static uint64_t choose(uint64_t *stream)
{
	uint64_t least = VOCABULARY;

	for (unsigned int draw = 0; draw < 3; draw++) {
		uint64_t number = random_below(stream, VOCABULARY);

		if (number < least)
			least = number;
	}
	return least;
}

/* Fills a file's text with words, each behind a space or a new line. */
static struct corpus_sum fill(char *text, uint64_t bytes, uint64_t *stream)
{
	struct corpus_sum sum = { 0 };
	char letters[WORD_MAX];
	uint64_t at = 0;

	for (;;) {
		uint64_t length = spell(letters, choose(stream));

		if (bytes - at < length + 1)
			break;
		memcpy(text + at, letters, length);
		text[at + length] = sum.words % 10 == 9 ? '\n' : ' ';
		at += length + 1;
		sum.words++;
		sum.hashes += word_hash(letters, length);
	}
	memset(text + at, ' ', bytes - at);
	return sum;
}

void corpus_remove(const char *directory, uint64_t files)
{
	char path[4096];

	for (uint64_t number = 0; number < files; number++) {
		corpus_path(path, sizeof(path), directory, number);
		unlink(path);
	}
}

struct corpus_sum corpus_make(const char *directory, uint64_t files, uint64_t bytes, uint64_t seed)
{
	struct corpus_sum all = { 0 };
	char *text = malloc(bytes);
	uint64_t stream = seed;
	char path[4096];

	if (!text)
		fail(EXIT_FAULT, "no memory for a file of %" PRIu64 " bytes", bytes);
	for (uint64_t number = 0; number < files; number++) {
		struct corpus_sum sum = fill(text, bytes, &stream);
		FILE *file;

		all.words += sum.words;
		all.hashes += sum.hashes;
		corpus_path(path, sizeof(path), directory, number);
		file = fopen(path, "we");
		if (!file || fwrite(text, 1, bytes, file) != bytes || fclose(file)) {
			int error = errno;

			corpus_remove(directory, number + 1);
			rmdir(directory);
			fail(EXIT_FAULT,
			     "writing '%s': %s; lower --files or name another --directory",
			     path, strerror(error));
		}
	}
	free(text);
	return all;
}
