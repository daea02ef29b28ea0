// SPDX-License-Identifier: GPL-2.0-only
/*
 * Processes that the program makes. They are not recorded; this names them. Each writes lines into
 * a file beside the socket: "fork PID", written by the parent, and "exec PID PROGRAM", written by
 * the process that is about to become PROGRAM. Every line is one write(2) to a descriptor opened
 * for appending, so lines of several processes do not mix, and the file is opened again for each,
 * so a child that closes all its descriptors is named as well.
 *
 * Runs in children of programs with threads: it uses nothing but system calls and snprintf into a
 * buffer of its own.
 */
#define _GNU_SOURCE
#include "children.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

/* Of a program's path. */
#define MAX_NAME 255

static char file[512];
static uint64_t guest_base;

void children_prepare(const char *socket_path)
{
	int length = snprintf(file, sizeof(file), "%s.children", socket_path);

	if (length < 0 || (size_t)length >= sizeof(file))
		file[0] = '\0';
}

void children_set_base(uint64_t base)
{
	guest_base = base;
}

static void tell(const char *line, int length)
{
	int fd;

	if (length <= 0 || !file[0])
		return;
	fd = open(file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd < 0)
		return;
	/* A name that is lost leaves the child counted: nothing better can be done here. */
	if (write(fd, line, (size_t)length) < 0) {
	}
	close(fd);
}

void children_forked(int64_t pid)
{
	char line[32];

	tell(line, snprintf(line, sizeof(line), "fork %" PRId64 "\n", pid));
}

/* Reads the program's name out of its memory, which may not be there: the call then fails. */
static void read_name(uint64_t address, char *name)
{
	const uint64_t page = 4096;
	size_t done = 0;

	while (done < MAX_NAME) {
		uint64_t from = guest_base + address + done;
		uint64_t left = page - from % page;
		struct iovec to = {
			.iov_base = name + done,
			.iov_len = left < MAX_NAME - done ? left : MAX_NAME - done,
		};
		struct iovec of = { .iov_base = (void *)(uintptr_t)from, .iov_len = to.iov_len };
		ssize_t got = process_vm_readv(getpid(), &to, 1, &of, 1, 0);

		if (got <= 0)
			break;
		done += (size_t)got;
		if (memchr(to.iov_base, '\0', (size_t)got))
			break;
	}
	name[done] = '\0';
	for (char *at = name; *at; at++) {
		if (*at == '\n')
			*at = '?';
	}
}

void children_exec(uint64_t path_address)
{
	char name[MAX_NAME + 1], line[MAX_NAME + 32];

	read_name(path_address, name);
	tell(line, snprintf(line, sizeof(line), "exec %d %s\n", (int)getpid(), name));
}
