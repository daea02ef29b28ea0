/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * Command-line options, described by a table from which both the parser and
 * --help work, so that the two cannot disagree. Both "--name value" and
 * "--name=value" are accepted.
 */
#ifndef STEADY_OPTIONS_H
#define STEADY_OPTIONS_H

#include <stdint.h>

enum option_kind {
	OPTION_COUNT,  /* unsigned integer within [min, max] */
	OPTION_CHOICE, /* one word out of .choices; stored as its index */
	OPTION_TEXT,   /* any non-empty string */
};

struct option_rule {
	const char *name; /* without the dashes */
	enum option_kind kind;
	uint64_t *count;            /* OPTION_COUNT, OPTION_CHOICE: holds the default */
	const char **text;          /* OPTION_TEXT: holds the default */
	uint64_t min, max;          /* OPTION_COUNT, both inclusive */
	const char *const *choices; /* OPTION_CHOICE, ended by NULL */
	const char *help;           /* one line, with the unit */
};

struct program_help {
	const char *name;
	const char *summary; /* what it measures */
	const char *example; /* one command line */
	const char *output;  /* what it prints; NULL for the result line of report.h */
};

/*
 * Parses the command line into the rules' variables. Ends the process on
 * --help (exit 0) and on anything wrong (EXIT_USAGE). @rules is ended by an
 * entry without a name.
 */
void options_parse(int argc, char **argv, const struct program_help *help,
		   const struct option_rule *rules);

#endif
