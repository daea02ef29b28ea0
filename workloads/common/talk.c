/* SPDX-License-Identifier: Apache-2.0 OR MIT */
#include "talk.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

const char *talk_program = "workload";

static void say(const char *format, va_list arguments)
{
	fprintf(stderr, "%s: ", talk_program);
	vfprintf(stderr, format, arguments);
	fputc('\n', stderr);
}

void talk(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

void fail(int code, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
	/*
	 * _Exit, not exit: other threads may be spinning, and nothing half
	 * written may be flushed to stdout.
	 */
	_Exit(code);
}
