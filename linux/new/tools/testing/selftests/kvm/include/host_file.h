/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Files of the host's kernel that tests of KVM write and read: parameters, and the trace.
 */
#ifndef SELFTEST_KVM_HOST_FILE_H
#define SELFTEST_KVM_HOST_FILE_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "test_util.h"

#define TRACING "/sys/kernel/tracing/"

/* false: the kernel does not know the file or the value. */
static inline bool try_parameter(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	close(fd);
	return done;
}

static inline void set_parameter(const char *path, const char *value)
{
	TEST_ASSERT(try_parameter(path, value), "writing %s to %s", value, path);
}

/* Records the events of a trace system from now on; false: it cannot be done. */
static inline bool record_events(const char *system)
{
	char path[128];

	mount("tracefs", TRACING, "tracefs", 0, NULL);
	close(open(TRACING "trace", O_WRONLY | O_TRUNC));
	snprintf(path, sizeof(path), TRACING "events/%s/enable", system);
	return try_parameter(path, "1") && try_parameter(TRACING "tracing_on", "1");
}

/*
 * Calls @look for what each recorded event of this name says, and returns how many there are. None
 * may have been lost.
 */
static inline int read_events(const char *name, void (*look)(const char *text, void *data),
			      void *data)
{
	FILE *trace = fopen(TRACING "trace", "r");
	unsigned long kept, written;
	char line[512], *text;
	int count = 0;

	TEST_ASSERT(trace, "opening " TRACING "trace");
	while (fgets(line, sizeof(line), trace)) {
		if (sscanf(line, "# entries-in-buffer/entries-written: %lu/%lu", &kept,
			   &written) == 2)
			TEST_ASSERT(kept == written, "%lu events of %lu", kept, written);
		text = strstr(line, name);
		if (!text || text[strlen(name)] != ':')
			continue;
		if (look)
			look(text + strlen(name) + 1, data);
		count++;
	}
	fclose(trace);
	return count;
}

#endif /* SELFTEST_KVM_HOST_FILE_H */
