/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "dedup/archive.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dedup/pack.h"
#include "talk.h"

/* A chunk of the archive. */
struct piece {
	struct chunk_header header;
	size_t at; /* of what it stores */
	struct chunk_id id;
};

static struct archive {
	const char *name;
	unsigned char *bytes;
	size_t size;
	struct piece *pieces; /* ascending by id */
	size_t count;
} archive;

static _Noreturn void broken(size_t at, const char *expected)
{
	fail(EXIT_FAULT, "%s is broken at byte %zu: expected %s; pack the input again",
	     archive.name, at, expected);
}

static void *enough(void *memory)
{
	if (!memory)
		fail(EXIT_FAULT, "no memory to unpack %s", archive.name);
	return memory;
}

static void load(const char *name)
{
	FILE *file = fopen(name, "rb");
	long size;

	archive.name = name;
	if (!file || fseek(file, 0, SEEK_END) || (size = ftell(file)) < 0)
		fail(EXIT_FAULT, "%s: %s", name, strerror(errno));
	rewind(file);
	archive.size = (size_t)size;
	archive.bytes = enough(malloc(archive.size + 1));
	if (fread(archive.bytes, 1, archive.size, file) != archive.size)
		fail(EXIT_FAULT, "reading %s: %s", name, strerror(errno));
	fclose(file);
	if (archive.size < ARCHIVE_MAGIC_BYTES ||
	    memcmp(archive.bytes, ARCHIVE_MAGIC, ARCHIVE_MAGIC_BYTES))
		broken(0, ARCHIVE_MAGIC);
}

static void take(void *to, size_t bytes, size_t *at)
{
	if (bytes > archive.size - *at)
		broken(*at, "more bytes");
	memcpy(to, archive.bytes + *at, bytes);
	*at += bytes;
}

static void add_piece(size_t *at, struct chunk_id id)
{
	struct piece *piece;

	if (!(archive.count & (archive.count - 1)))
		archive.pieces = enough(realloc(archive.pieces, (archive.count * 2 + 1) *
						sizeof(*archive.pieces)));
	piece = &archive.pieces[archive.count++];
	piece->id = id;
	take(&piece->header, sizeof(piece->header), at);
	piece->at = *at;
	if (piece->header.stored > STORED_SAME)
		broken(*at, "a kind of chunk from 0 to 2");
	if (piece->header.bytes > PACK_INPUT_MAX)
		broken(*at, "a chunk of at most 65535 bytes");
	if (piece->header.follow > archive.size - *at)
		broken(*at, "the bytes of a chunk");
	*at += piece->header.follow;
}

static void read_pieces(void)
{
	size_t at = ARCHIVE_MAGIC_BYTES;

	for (uint32_t block = 0; at < archive.size; block++) {
		uint32_t chunks;

		take(&chunks, sizeof(chunks), &at);
		for (uint32_t index = 0; index < chunks; index++)
			add_piece(&at, (struct chunk_id){ block, index });
	}
}

static int compare(const void *left, const void *right)
{
	const struct chunk_id *a = &((const struct piece *)left)->id;
	const struct chunk_id *b = &((const struct piece *)right)->id;

	if (a->block != b->block)
		return a->block < b->block ? -1 : 1;
	return a->index < b->index ? -1 : a->index > b->index;
}

/* The piece that holds the bytes of @piece: itself, or the one it is the same as. */
static const struct piece *holder(const struct piece *piece)
{
	struct piece key = *piece;
	const struct piece *first;
	size_t at = piece->at;

	if (piece->header.stored != STORED_SAME)
		return piece;
	take(&key.id, sizeof(key.id), &at);
	first = bsearch(&key, archive.pieces, archive.count, sizeof(key), compare);
	if (!first || first->header.stored == STORED_SAME ||
	    first->header.bytes != piece->header.bytes)
		broken(piece->at, "the place of a chunk that has the same bytes");
	return first;
}

static void write_piece(const struct piece *piece, FILE *file)
{
	unsigned char chunk[PACK_INPUT_MAX];
	const struct piece *from = holder(piece);
	const unsigned char *stored = archive.bytes + from->at;
	uint32_t bytes = from->header.bytes;

	if (from->header.stored == STORED_PLAIN && from->header.follow != bytes)
		broken(from->at, "as many bytes as the chunk has");
	if (from->header.stored == STORED_PACKED) {
		if (!unpack(stored, from->header.follow, chunk, bytes))
			broken(from->at, "packed bytes");
		stored = chunk;
	}
	fwrite(stored, 1, bytes, file);
}

uint64_t archive_unpack(const char *from, const char *to)
{
	FILE *file;

	load(from);
	read_pieces();
	file = fopen(to, "wb");
	if (!file)
		fail(EXIT_FAULT, "%s: %s", to, strerror(errno));
	for (size_t at = 0; at < archive.count; at++)
		write_piece(&archive.pieces[at], file);
	if (ferror(file) || fclose(file))
		fail(EXIT_FAULT, "writing %s: %s", to, strerror(errno));
	return archive.count;
}
