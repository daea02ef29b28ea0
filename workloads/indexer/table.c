/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"

#define NONE UINT32_MAX

struct word {
	uint64_t hash;
	uint32_t first, last; /* its places, a list in the order in which they were noted */
	uint8_t length;
	char letters[WORD_MAX];
};

struct place {
	uint32_t next;
	uint32_t number, position;
};

struct table {
	uint64_t slots_mask;
	uint32_t *slots; /* index of a word, or NONE */
	struct word *words;
	struct place *places;
	uint64_t words_used, places_used, places_all;
};

struct table *table_make(uint64_t places)
{
	struct table *table = calloc(1, sizeof(*table));
	uint64_t slots = 1;

	/* At most half full: as many words as places at most. */
	while (slots < 2 * places)
		slots *= 2;
	if (table) {
		table->slots_mask = slots - 1;
		table->slots = malloc(slots * sizeof(*table->slots));
		table->words = malloc(places * sizeof(*table->words));
		table->places = malloc(places * sizeof(*table->places));
		table->places_all = places;
	}
	if (!table || !table->slots || !table->words || !table->places)
		fail(EXIT_FAULT, "no memory for a table of %" PRIu64 " places; lower --places",
		     places);
	memset(table->slots, 0xff, slots * sizeof(*table->slots));
	return table;
}

int table_full(const struct table *table)
{
	return table->places_used == table->places_all;
}

static int is_word(const struct word *word, uint64_t hash, const char *letters, uint64_t length)
{
	return word->hash == hash && word->length == length &&
	       !memcmp(word->letters, letters, length);
}

static struct word *find_or_make(struct table *table, const char *letters, uint64_t length)
{
	uint64_t hash = word_hash(letters, length), slot = hash & table->slots_mask;
	struct word *word;

	while (table->slots[slot] != NONE) {
		word = &table->words[table->slots[slot]];
		if (is_word(word, hash, letters, length))
			return word;
		slot = (slot + 1) & table->slots_mask;
	}
	table->slots[slot] = (uint32_t)table->words_used;
	word = &table->words[table->words_used++];
	word->hash = hash;
	word->first = NONE;
	word->length = (uint8_t)length;
	memcpy(word->letters, letters, length);
	return word;
}

void table_add(struct table *table, const char *letters, uint64_t length, uint64_t number,
	       uint64_t position)
{
	struct word *word = find_or_make(table, letters, length);
	uint32_t index = (uint32_t)table->places_used++;

	table->places[index] = (struct place){
		.next = NONE, .number = (uint32_t)number, .position = (uint32_t)position,
	};
	if (word->first == NONE)
		word->first = index;
	else
		table->places[word->last].next = index;
	word->last = index;
}

static int by_letters(const void *left, const void *right)
{
	const struct word *one = left, *other = right;
	uint8_t shorter = one->length < other->length ? one->length : other->length;
	int order = memcmp(one->letters, other->letters, shorter);

	return order ? order : one->length - other->length;
}

struct corpus_sum table_write(struct table *table, const char *path)
{
	struct corpus_sum sum = { 0 };
	FILE *file;

	if (!table->words_used)
		return sum;
	qsort(table->words, table->words_used, sizeof(*table->words), by_letters);
	file = fopen(path, "we");
	if (!file)
		fail(EXIT_FAULT, "making '%s': %s", path, strerror(errno));
	for (uint64_t index = 0; index < table->words_used; index++) {
		const struct word *word = &table->words[index];

		fprintf(file, "%.*s", word->length, word->letters);
		for (uint32_t at = word->first; at != NONE; at = table->places[at].next) {
			fprintf(file, " %" PRIu32 ":%" PRIu32, table->places[at].number,
				table->places[at].position);
			sum.words++;
			sum.hashes += word->hash;
		}
		fputc('\n', file);
	}
	if (ferror(file) | fclose(file))
		fail(EXIT_FAULT, "writing '%s': %s; lower --files or name another --directory",
		     path, strerror(errno));
	table->words_used = 0;
	table->places_used = 0;
	memset(table->slots, 0xff, (table->slots_mask + 1) * sizeof(*table->slots));
	return sum;
}
