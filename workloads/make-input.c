/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * make-input: writes the input of programs that need some, the same bytes for
 * the same options on every machine.
 *
 * --kind text   words drawn from a vocabulary made from the seed, frequent ones
 *               more often, so that a compressor has about as much to do as
 *               with prose (bzip2 takes it to roughly a quarter)
 * --kind image  an RGB image in PPM: a gradient in each direction with noise,
 *               so that filters meet both smooth areas and edges
 *
 * The file appears under its name only when it is complete.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "talk.h"
#include "threads.h"

#define WORDS 4096
#define WORD_MAX_BYTES 12
#define BYTES_PER_KIB 1024

enum kind { KIND_TEXT, KIND_IMAGE };

static const char *const kind_choices[] = { "text", "image", NULL };

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

static void write_text(FILE *file, uint64_t *stream)
{
	static char words[WORDS][WORD_MAX_BYTES + 1];
	uint64_t left = settings.kib * BYTES_PER_KIB;

	for (int word = 0; word < WORDS; word++) {
		uint64_t length = 2 + random_below(stream, WORD_MAX_BYTES - 2);

		for (uint64_t letter = 0; letter < length; letter++)
			words[word][letter] = (char)('a' + random_below(stream, 26));
		words[word][length] = ' ';
	}
	while (left) {
		/* The least of three draws: low numbers, as common words, come up more. */
		uint64_t word = random_below(stream, WORDS);
		size_t length;

		for (int draw = 0; draw < 2; draw++) {
			uint64_t other = random_below(stream, WORDS);

			word = other < word ? other : word;
		}
		length = strnlen(words[word], WORD_MAX_BYTES + 1);
		length = length < left ? length : left;
		fwrite(words[word], 1, length, file);
		left -= length;
	}
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
	if (settings.kind == KIND_TEXT)
		write_text(file, &stream);
	else
		write_image(file, &stream);
	if (ferror(file) || fclose(file))
		give_up("writing", aside);
	if (rename(aside, settings.output))
		give_up("renaming", aside);
	return EXIT_SUCCESS;
}
