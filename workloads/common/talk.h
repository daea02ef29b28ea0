/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/*
 * What a guest program says to people: always on stderr, because stdout holds
 * nothing but the one result line.
 */
#ifndef STEADY_TALK_H
#define STEADY_TALK_H

/* Exit codes that every guest program shares. */
#define EXIT_FAULT 1 /* the machine refused something; the text says what */
#define EXIT_USAGE 2 /* an option is wrong; the text says which, and the right form */

/* Name printed before every message; set once, by options_parse(). */
extern const char *talk_program;

__attribute__((format(printf, 1, 2))) void talk(const char *format, ...);

/* Prints the message and ends the whole process with @code. */
__attribute__((noreturn, format(printf, 2, 3))) void fail(int code, const char *format, ...);

#endif
