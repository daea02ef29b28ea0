/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Counts the words of a text: each thread fills a table of its own from a slice of the text, then
 * the tables are merged. Stands in for Phoenix's word count: streaming reads, scattered table
 * writes, and memory that is mapped and unmapped as tables grow. The text is made here, of words
 * "w0" to "w<N>" where low numbers are far more frequent.
 *
 * Check: how often each word was written is counted while the text is made, by number and not by
 * spelling; the tables must agree with that, word for word.
 *
 * Usage: wordcount [threads 1..64] [MiB of text 1..1024]
 */
#include <string.h>
#include <sys/mman.h>

#include "kernel.h"

#define WORDS 20000

struct entry {
	const char *word;
	uint32_t len, count;
};

struct table {
	struct entry *entries;
	uint64_t capacity, used;
};

static char *text;
static long text_len;
static struct table tables[MAX_THREADS];

static struct entry *map_entries(uint64_t capacity)
{
	void *memory = mmap(NULL, capacity * sizeof(struct entry), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	return memory;
}

/* The word's entry, or the free one where it belongs (FNV-1a, linear probing). */
static struct entry *find(const struct table *t, const char *word, uint32_t len)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (uint32_t i = 0; i < len; i++)
		hash = (hash ^ (uint8_t)word[i]) * 0x100000001b3u;
	for (uint64_t at = hash;; at++) {
		struct entry *e = &t->entries[at & (t->capacity - 1)];

		if (!e->word || (e->len == len && memcmp(e->word, word, len) == 0))
			return e;
	}
}

static void grow(struct table *t)
{
	struct table bigger = { NULL, t->capacity ? 2 * t->capacity : 256, t->used };

	bigger.entries = map_entries(bigger.capacity);
	for (uint64_t i = 0; i < t->capacity; i++)
		if (t->entries[i].word)
			*find(&bigger, t->entries[i].word, t->entries[i].len) = t->entries[i];
	if (t->entries)
		munmap(t->entries, t->capacity * sizeof(struct entry));
	*t = bigger;
}

static void add(struct table *t, const char *word, uint32_t len, uint32_t count)
{
	struct entry *e;

	if (4 * (t->used + 1) > 3 * t->capacity)
		grow(t);
	e = find(t, word, len);
	if (!e->word) {
		e->word = word;
		e->len = len;
		t->used++;
	}
	e->count += count;
}

static void count_slice(struct slice *s)
{
	long at = s->from;

	/* A word that a border cuts belongs to the slice it begins in. */
	while (at > 0 && at < s->to && text[at - 1] != ' ')
		at++;
	while (at < s->to) {
		long begin = at;

		while (at < text_len && text[at] != ' ')
			at++;
		add(&tables[s->index], text + begin, (uint32_t)(at - begin), 1);
		at++;
	}
}

/* Fills the text with whole words and returns how often each was written. */
static uint32_t *make_text(long bytes)
{
	uint32_t *written = allocate(WORDS * sizeof(*written));
	uint64_t seed = 1;

	memset(written, 0, WORDS * sizeof(*written));
	while (text_len + 8 <= bytes) {
		uint64_t span = next_random(&seed) % WORDS + 1;
		uint64_t number = next_random(&seed) % span;

		text_len += sprintf(text + text_len, "w%u ", (unsigned int)number);
		written[number]++;
	}
	return written;
}

int main(int argc, char **argv)
{
	int threads = (int)argument(argc, argv, 1, 8, 1, MAX_THREADS);
	long bytes = argument(argc, argv, 2, 4, 1, 1024) << 20, wrong = 0;
	struct table sum = { 0 };
	uint32_t *written;

	text = allocate((size_t)bytes + 16);
	written = make_text(bytes);
	trace_start();
	in_parallel(threads, text_len, count_slice);
	for (int i = 0; i < threads; i++)
		for (uint64_t at = 0; at < tables[i].capacity; at++) {
			struct entry *e = &tables[i].entries[at];

			if (e->word)
				add(&sum, e->word, e->len, e->count);
		}
	trace_stop();

	for (uint32_t number = 0; number < WORDS; number++) {
		char word[16];
		uint32_t len = (uint32_t)sprintf(word, "w%u", number);
		struct entry *e = sum.capacity ? find(&sum, word, len) : NULL;

		wrong += (e ? e->count : 0) != written[number];
	}
	printf("wordcount: %lu distinct words, %ld wrong\n", (unsigned long)sum.used, wrong);
	return wrong != 0;
}
