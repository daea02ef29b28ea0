/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "dedup/store.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"

#define BUCKETS 4096

struct entry {
	struct entry *next;
	unsigned char sum[DIGEST_BYTES];
	struct chunk_id id;
};

static struct bucket {
	pthread_mutex_t mutex;
	struct entry *first;
} buckets[BUCKETS];

void store_init(void)
{
	for (unsigned int at = 0; at < BUCKETS; at++)
		pthread_mutex_init(&buckets[at].mutex, NULL);
}

static struct entry *find(const struct bucket *bucket, const unsigned char sum[DIGEST_BYTES])
{
	struct entry *entry = bucket->first;

	while (entry && memcmp(entry->sum, sum, DIGEST_BYTES))
		entry = entry->next;
	return entry;
}

bool store_has(const unsigned char sum[DIGEST_BYTES], struct chunk_id *id)
{
	struct bucket *bucket = &buckets[(sum[0] | (unsigned int)sum[1] << 8) % BUCKETS];
	struct entry *entry;
	bool known;

	pthread_mutex_lock(&bucket->mutex);
	entry = find(bucket, sum);
	known = entry;
	if (known) {
		*id = entry->id;
	} else {
		entry = malloc(sizeof(*entry));
		if (!entry)
			fail(EXIT_FAULT, "no memory for the digest of a chunk");
		memcpy(entry->sum, sum, DIGEST_BYTES);
		entry->id = *id;
		entry->next = bucket->first;
		bucket->first = entry;
	}
	pthread_mutex_unlock(&bucket->mutex);
	return known;
}
