/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "dedup/pack.h"

#include <stdint.h>
#include <string.h>

#define HASH_BITS 10
#define LITERALS_MAX 128
#define MATCH_MAX (127 + PACK_MATCH_MIN)
#define MATCH_CODE_BYTES 3

struct sink {
	unsigned char *out;
	size_t used, room;
};

static uint32_t slot_of(const unsigned char *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return word * UINT32_C(2654435761) >> (32 - HASH_BITS);
}

static bool put_literals(struct sink *sink, const unsigned char *from, size_t bytes)
{
	while (bytes) {
		size_t run = bytes < LITERALS_MAX ? bytes : LITERALS_MAX;

		if (sink->used + 1 + run > sink->room)
			return false;
		sink->out[sink->used++] = (unsigned char)(run - 1);
		memcpy(sink->out + sink->used, from, run);
		sink->used += run;
		from += run;
		bytes -= run;
	}
	return true;
}

static bool put_match(struct sink *sink, size_t distance, size_t length)
{
	if (sink->used + MATCH_CODE_BYTES > sink->room)
		return false;
	sink->out[sink->used++] = (unsigned char)(128 + length - PACK_MATCH_MIN);
	sink->out[sink->used++] = (unsigned char)distance;
	sink->out[sink->used++] = (unsigned char)(distance >> 8);
	return true;
}

size_t pack(const unsigned char *in, size_t bytes, unsigned char *out)
{
	uint16_t seen[1 << HASH_BITS] = { 0 }; /* where the hash was last seen, plus 1 */
	struct sink sink = { .out = out, .room = bytes ? bytes - 1 : 0 };
	size_t at = 0, literals = 0;

	if (bytes > PACK_INPUT_MAX)
		return 0;
	while (at + PACK_MATCH_MIN <= bytes) {
		uint32_t slot = slot_of(in + at);
		size_t before = seen[slot], length = PACK_MATCH_MIN;

		seen[slot] = (uint16_t)(at + 1);
		if (!before || memcmp(in + before - 1, in + at, PACK_MATCH_MIN)) {
			at++;
			continue;
		}
		before--;
		while (length < MATCH_MAX && at + length < bytes &&
		       in[before + length] == in[at + length])
			length++;
		if (!put_literals(&sink, in + literals, at - literals) ||
		    !put_match(&sink, at - before, length))
			return 0;
		at += length;
		literals = at;
	}
	return put_literals(&sink, in + literals, bytes - literals) ? sink.used : 0;
}

bool unpack(const unsigned char *in, size_t bytes, unsigned char *out, size_t out_bytes)
{
	size_t at = 0, made = 0;

	while (at < bytes) {
		size_t code = in[at++], length, distance;

		if (code < 128) {
			length = code + 1;
			if (length > bytes - at || length > out_bytes - made)
				return false;
			memcpy(out + made, in + at, length);
			at += length;
			made += length;
			continue;
		}
		if (bytes - at < MATCH_CODE_BYTES - 1)
			return false;
		length = code - 128 + PACK_MATCH_MIN;
		distance = in[at] | (size_t)in[at + 1] << 8;
		at += MATCH_CODE_BYTES - 1;
		if (!distance || distance > made || length > out_bytes - made)
			return false;
		/* Byte by byte: a match may overlap what it makes. */
		for (; length; length--, made++)
			out[made] = out[made - distance];
	}
	return made == out_bytes;
}
