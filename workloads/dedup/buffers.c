/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "dedup/buffers.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "clock.h"
#include "talk.h"

#define PAGE_BYTES 4096

const char *const buffers_choices[] = { "map", "discard", "keep", NULL };

static enum buffers how;
static size_t buffer_bytes;
static pthread_mutex_t kept_mutex = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *kept; /* free buffers; each begins with the address of the next */

void buffers_init(enum buffers way, size_t bytes)
{
	how = way;
	buffer_bytes = (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

static void *map_buffer(void)
{
	void *buffer = mmap(NULL, buffer_bytes, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (buffer == MAP_FAILED)
		fail(EXIT_FAULT, "mapping %zu bytes: %s; lower --block-kib or --threads",
		     buffer_bytes, strerror(errno));
	return buffer;
}

unsigned char *buffer_take(void)
{
	unsigned char *buffer = NULL;

	if (how == BUFFERS_MAP)
		return map_buffer();
	pthread_mutex_lock(&kept_mutex);
	if (kept) {
		buffer = kept;
		memcpy(&kept, buffer, sizeof(kept));
	}
	pthread_mutex_unlock(&kept_mutex);
	return buffer ? buffer : map_buffer();
}

void buffer_return(unsigned char *buffer, struct histogram *releases)
{
	uint64_t start_ns = clock_now_ns();

	if (how == BUFFERS_MAP && munmap(buffer, buffer_bytes))
		fail(EXIT_FAULT, "munmap: %s", strerror(errno));
	if (how == BUFFERS_DISCARD && madvise(buffer, buffer_bytes, MADV_DONTNEED))
		fail(EXIT_FAULT, "madvise(MADV_DONTNEED): %s", strerror(errno));
	if (how != BUFFERS_KEEP)
		histogram_add(releases, clock_now_ns() - start_ns);
	if (how == BUFFERS_MAP)
		return;
	pthread_mutex_lock(&kept_mutex);
	memcpy(buffer, &kept, sizeof(kept));
	kept = buffer;
	pthread_mutex_unlock(&kept_mutex);
}
