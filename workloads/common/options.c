/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "talk.h"

static void print_default(FILE *out, const struct option_rule *rule)
{
	switch (rule->kind) {
	case OPTION_COUNT:
		fprintf(out, " [default %" PRIu64 "]", *rule->count);
		break;
	case OPTION_CHOICE:
		fputs(" (", out);
		for (const char *const *word = rule->choices; *word; word++)
			fprintf(out, "%s%s", word == rule->choices ? "" : "|", *word);
		fprintf(out, ") [default %s]", rule->choices[*rule->count]);
		break;
	case OPTION_TEXT:
		fprintf(out, " [default %s]", *rule->text);
		break;
	}
	fputc('\n', out);
}

static void print_help(const struct program_help *help, const struct option_rule *rules)
{
	printf("%s: %s\n\nUsage: %s [OPTIONS]\n\nOptions:\n", help->name, help->summary,
	       help->name);
	for (const struct option_rule *rule = rules; rule->name; rule++) {
		printf("  --%-17s %s", rule->name, rule->help);
		print_default(stdout, rule);
	}
	printf("  --%-17s %s\n", "help", "this text");
	printf("\nExample:\n  %s\n\n", help->example);
	printf("Prints %s on stdout; messages go to stderr.\n"
	       "Exit code: 0 done, 1 the machine refused something, 2 wrong option.\n",
	       help->output ? help->output : "one line of JSON (schema steady.workload)");
}

static void store_count(const struct option_rule *rule, const char *value)
{
	char *end = NULL;
	uint64_t number;

	errno = 0;
	number = strtoull(value, &end, 10);
	/* strtoull alone would accept "-1", " 1" and "". */
	if (!isdigit((unsigned char)value[0]) || *end || errno || number < rule->min ||
	    number > rule->max)
		fail(EXIT_USAGE,
		     "--%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64
		     "; try --help",
		     rule->name, value, rule->min, rule->max);
	*rule->count = number;
}

static void store_choice(const struct option_rule *rule, const char *value)
{
	char known[128] = "";

	for (size_t index = 0; rule->choices[index]; index++) {
		if (!strcmp(rule->choices[index], value)) {
			*rule->count = index;
			return;
		}
		strncat(known, index ? ", " : "", sizeof(known) - strlen(known) - 1);
		strncat(known, rule->choices[index], sizeof(known) - strlen(known) - 1);
	}
	fail(EXIT_USAGE, "--%s: '%s' is not known; choose one of: %s", rule->name, value, known);
}

static void store(const struct option_rule *rule, const char *value)
{
	switch (rule->kind) {
	case OPTION_COUNT:
		store_count(rule, value);
		break;
	case OPTION_CHOICE:
		store_choice(rule, value);
		break;
	case OPTION_TEXT:
		if (!*value)
			fail(EXIT_USAGE, "--%s: the value is empty; try --help", rule->name);
		*rule->text = value;
		break;
	}
}

static const struct option_rule *find(const struct option_rule *rules, const char *name,
				      size_t length)
{
	for (const struct option_rule *rule = rules; rule->name; rule++)
		if (strlen(rule->name) == length && !strncmp(rule->name, name, length))
			return rule;
	return NULL;
}

void options_parse(int argc, char **argv, const struct program_help *help,
		   const struct option_rule *rules)
{
	talk_program = help->name;
	for (int index = 1; index < argc; index++) {
		const char *word = argv[index];
		const struct option_rule *rule;
		size_t length;

		if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
			print_help(help, rules);
			exit(EXIT_SUCCESS);
		}
		if (strncmp(word, "--", 2))
			fail(EXIT_USAGE, "'%s' is not an option; try --help", word);
		length = strcspn(word + 2, "=");
		rule = find(rules, word + 2, length);
		if (!rule)
			fail(EXIT_USAGE, "unknown option '%s'; try --help", word);
		if (word[2 + length] == '=')
			store(rule, word + 3 + length);
		else if (index + 1 < argc)
			store(rule, argv[++index]);
		else
			fail(EXIT_USAGE, "--%s: the value is missing; try --help", rule->name);
	}
}
