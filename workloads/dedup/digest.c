/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "dedup/digest.h"

#include <stdint.h>
#include <string.h>

#include "talk.h"

#define BLOCK_BYTES 64
#define LENGTH_BYTES 8

static uint32_t rotate(uint32_t word, int bits)
{
	return word << bits | word >> (32 - bits);
}

static void mix(uint32_t state[5], const unsigned char *block)
{
	uint32_t words[80], a = state[0], b = state[1], c = state[2], d = state[3], e = state[4];

	for (int at = 0; at < 16; at++, block += 4)
		words[at] = (uint32_t)block[0] << 24 | (uint32_t)block[1] << 16 |
			    (uint32_t)block[2] << 8 | block[3];
	for (int at = 16; at < 80; at++)
		words[at] = rotate(words[at - 3] ^ words[at - 8] ^ words[at - 14] ^ words[at - 16],
				   1);
	for (int at = 0; at < 80; at++) {
		uint32_t sum = rotate(a, 5) + e + words[at];

		if (at < 20)
			sum += (d ^ (b & (c ^ d))) + 0x5a827999;
		else if (at < 40)
			sum += (b ^ c ^ d) + 0x6ed9eba1;
		else if (at < 60)
			sum += ((b & c) | (d & (b | c))) + 0x8f1bbcdc;
		else
			sum += (b ^ c ^ d) + 0xca62c1d6;
		e = d;
		d = c;
		c = rotate(b, 30);
		b = a;
		a = sum;
	}
	state[0] += a;
	state[1] += b;
	state[2] += c;
	state[3] += d;
	state[4] += e;
}

void digest(const unsigned char *data, size_t bytes, unsigned char result[DIGEST_BYTES])
{
	uint32_t state[5] = { 0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0 };
	unsigned char tail[2 * BLOCK_BYTES] = { 0 };
	size_t left = bytes, tail_bytes;

	for (; left >= BLOCK_BYTES; left -= BLOCK_BYTES, data += BLOCK_BYTES)
		mix(state, data);
	memcpy(tail, data, left);
	tail[left] = 0x80;
	tail_bytes = left + 1 + LENGTH_BYTES <= BLOCK_BYTES ? BLOCK_BYTES : 2 * BLOCK_BYTES;
	for (int at = 0; at < LENGTH_BYTES; at++)
		tail[tail_bytes - 1 - (size_t)at] = (unsigned char)((uint64_t)bytes * 8 >> 8 * at);
	for (size_t at = 0; at < tail_bytes; at += BLOCK_BYTES)
		mix(state, tail + at);
	for (int at = 0; at < DIGEST_BYTES; at++)
		result[at] = (unsigned char)(state[at / 4] >> (24 - 8 * (at % 4)));
}

void digest_check(void)
{
	static const unsigned char expected[DIGEST_BYTES] = {
		0x84, 0x98, 0x3e, 0x44, 0x1c, 0x3b, 0xd2, 0x6e, 0xba, 0xae,
		0x4a, 0xa1, 0xf9, 0x51, 0x29, 0xe5, 0xe5, 0x46, 0x70, 0xf1,
	};
	static const char example[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
	unsigned char result[DIGEST_BYTES];

	digest((const unsigned char *)example, sizeof(example) - 1, result);
	if (memcmp(result, expected, DIGEST_BYTES))
		fail(EXIT_FAULT, "SHA-1 is computed wrong here: the build is broken");
}
