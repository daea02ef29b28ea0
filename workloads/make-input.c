/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * make-input: writes the input of programs that need some, the same bytes for
 * the same options on every machine.
 *
 * --kind text   words drawn from a vocabulary made from the seed, frequent ones
 *               more often, so that a compressor has about as much to do as
 *               with prose (bzip2 takes it to roughly a quarter)
 * --kind versions  such text in pieces of up to 16 KiB, of which about half are
 *               copies of earlier ones, as in a backup of several versions
 * --kind image  an RGB image in PPM: a gradient in each direction with noise,
 *               so that filters meet both smooth areas and edges
 *
 * The file appears under its name only when it is complete.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "talk.h"
#include "threads.h"

#define WORDS 4096
#define WORD_MAX_BYTES 12
#define BYTES_PER_KIB 1024

#define PIECE_MIN_BYTES 1024
#define PIECE_MAX_BYTES 16384

enum kind { KIND_TEXT, KIND_IMAGE, KIND_VERSIONS };

static const char *const kind_choices[] = { "text", "image", "versions", NULL };

static struct settings {
	uint64_t kind, kib, width, height, seed;
	const char *output;
} settings = {
	.kib = 512,
	.width = 256,
	.height = 256,
	.seed = 1,
	.output = "input",
};

/* A word ends with a space, so that text is words one after another. */
struct vocabulary {
	char words[WORDS][WORD_MAX_BYTES + 1];
};

static void make_vocabulary(struct vocabulary *vocabulary, uint64_t *stream)
{
	for (int word = 0; word < WORDS; word++) {
		uint64_t length = 2 + random_below(stream, WORD_MAX_BYTES - 2);
		char *letters = vocabulary->words[word];

		for (uint64_t letter = 0; letter < length; letter++)
			letters[letter] = (char)('a' + random_below(stream, 26));
		letters[length] = ' ';
	}
}

static void make_text(const struct vocabulary *vocabulary, char *text, uint64_t left,
		      uint64_t *stream)
{
	while (left) {
		/* The least of three draws: low numbers, as common words, come up more. */
		uint64_t word = random_below(stream, WORDS);
		size_t length;

		for (int draw = 0; draw < 2; draw++) {
			uint64_t other = random_below(stream, WORDS);

			word = other < word ? other : word;
		}
		length = strnlen(vocabulary->words[word], WORD_MAX_BYTES + 1);
		length = length < left ? length : left;
		memcpy(text, vocabulary->words[word], length);
		text += length;
		left -= length;
	}
}

/* New pieces and copies of what is there, in turns as the stream has it. */
static void make_versions(const struct vocabulary *vocabulary, char *text, uint64_t bytes,
			  uint64_t *stream)
{
	uint64_t made = 0;

	while (made < bytes) {
		uint64_t length = PIECE_MIN_BYTES +
				  random_below(stream, PIECE_MAX_BYTES - PIECE_MIN_BYTES + 1);
		bool again = random_below(stream, 2) && length <= made;

		length = length < bytes - made ? length : bytes - made;
		if (again)
			memcpy(text + made, text + random_below(stream, made - length + 1), length);
		else
			make_text(vocabulary, text + made, length, stream);
		made += length;
	}
}

static void write_text(FILE *file, uint64_t *stream)
{
	static struct vocabulary vocabulary;
	uint64_t bytes = settings.kib * BYTES_PER_KIB;
	char *text = malloc(bytes);

	if (!text)
		fail(EXIT_FAULT, "no memory for %" PRIu64 " bytes; lower --kib", bytes);
	make_vocabulary(&vocabulary, stream);
	if (settings.kind == KIND_TEXT)
		make_text(&vocabulary, text, bytes, stream);
	else
		make_versions(&vocabulary, text, bytes, stream);
	fwrite(text, 1, bytes, file);
	free(text);
}

static void write_image(FILE *file, uint64_t *stream)
{
	fprintf(file, "P6\n%" PRIu64 " %" PRIu64 "\n255\n", settings.width, settings.height);
	for (uint64_t row = 0; row < settings.height; row++) {
		for (uint64_t column = 0; column < settings.width; column++) {
			uint64_t noise = random_below(stream, 32);

			putc((int)(column * 223 / settings.width + noise), file);
			putc((int)(row * 223 / settings.height + noise), file);
			putc((int)(((column ^ row) & 64 ? 160 : 64) + noise), file);
		}
	}
}

static void read_options(int argc, char **argv)
{
	const struct program_help help = {
		.name = "make-input",
		.summary = "writes a text to compress or an image to filter",
		.example = "make-input --kind text --kib 512 --output /tmp/text",
		.output = "nothing",
	};
	const struct option_rule rules[] = {
		{ .name = "kind", .kind = OPTION_CHOICE, .count = &settings.kind,
		  .choices = kind_choices, .help = "what to write" },
		{ .name = "kib", .count = &settings.kib, .min = 1, .max = 1 << 22,
		  .help = "size of the text, KiB" },
		{ .name = "width", .count = &settings.width, .min = 1, .max = 65535,
		  .help = "width of the image, pixels" },
		{ .name = "height", .count = &settings.height, .min = 1, .max = 65535,
		  .help = "height of the image, pixels" },
		{ .name = "seed", .count = &settings.seed, .max = UINT64_MAX,
		  .help = "seed of the content" },
		{ .name = "output", .kind = OPTION_TEXT, .text = &settings.output,
		  .help = "the file" },
		{ .name = NULL },
	};

	options_parse(argc, argv, &help, rules);
}

/* Leaves no half of a file behind. */
static _Noreturn void give_up(const char *doing, const char *aside)
{
	int error = errno;

	remove(aside);
	fail(EXIT_FAULT, "%s %s for %s: %s", doing, aside, settings.output, strerror(error));
}

int main(int argc, char **argv)
{
	char aside[4096];
	uint64_t stream;
	FILE *file;

	read_options(argc, argv);
	stream = settings.seed;
	if (snprintf(aside, sizeof(aside), "%s.part", settings.output) >= (int)sizeof(aside))
		fail(EXIT_USAGE, "--output: the path is too long");
	file = fopen(aside, "wb");
	if (!file)
		fail(EXIT_FAULT, "%s: %s", aside, strerror(errno));
	if (settings.kind == KIND_IMAGE)
		write_image(file, &stream);
	else
		write_text(file, &stream);
	if (ferror(file) || fclose(file))
		give_up("writing", aside);
	if (rename(aside, settings.output))
		give_up("renaming", aside);
	return EXIT_SUCCESS;
}
