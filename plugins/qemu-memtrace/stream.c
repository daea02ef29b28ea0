// SPDX-License-Identifier: GPL-2.0-only
/* Sends messages to the converter, one at a time, so that none is torn by another thread's. */
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

/* High, so that a guest that closes "all" of its first few hundred descriptors misses it. */
#define STREAM_FD_MIN 900

static int stream_fd = -1;
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;

static int connect_to(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd;

	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		return -1;
	}
	strcpy(address.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

bool stream_open(const char *path)
{
	int fd = connect_to(path), high;

	if (fd < 0) {
		fprintf(stderr, "qemu-memtrace: cannot connect to %s: %s\n", path, strerror(errno));
		return false;
	}
	high = fcntl(fd, F_DUPFD_CLOEXEC, STREAM_FD_MIN);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	stream_fd = fd;
	return true;
}

bool stream_is_open(void)
{
	return __atomic_load_n(&stream_fd, __ATOMIC_RELAXED) >= 0;
}

/* In a forked child: the stream is the parent's. */
void stream_abandon(void)
{
	if (stream_fd >= 0)
		close(stream_fd);
	__atomic_store_n(&stream_fd, -1, __ATOMIC_RELAXED);
}

static void send_all(uint32_t kind, uint32_t thread, const void *body, uint32_t bytes)
{
	struct message_head head = {
		.kind = kind, .thread = thread, .bytes = bytes, .magic = STREAM_MAGIC,
	};
	struct iovec parts[2] = {
		{ .iov_base = &head, .iov_len = sizeof(head) },
		{ .iov_base = (void *)body, .iov_len = bytes },
	};
	struct iovec *next = parts;
	int left = 2;

	if (!stream_is_open())
		return;
	while (left > 0) {
		struct msghdr message = { .msg_iov = next, .msg_iovlen = (size_t)left };
		/* A reader that has gone must not kill the program with SIGPIPE. */
		ssize_t sent = sendmsg(stream_fd, &message, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent < 0) {
			/* The converter closes the stream when it has enough: no message then. */
			if (errno != EPIPE && errno != ECONNRESET)
				fprintf(stderr, "qemu-memtrace: the stream broke: %s\n",
					strerror(errno));
			stream_abandon();
			return;
		}
		while (left > 0 && (size_t)sent >= next->iov_len) {
			sent -= (ssize_t)next->iov_len;
			next++;
			left--;
		}
		if (left > 0) {
			next->iov_base = (char *)next->iov_base + sent;
			next->iov_len -= (size_t)sent;
		}
	}
}

void stream_send(uint32_t kind, uint32_t thread, const void *body, uint32_t bytes)
{
	pthread_mutex_lock(&output_lock);
	send_all(kind, thread, body, bytes);
	pthread_mutex_unlock(&output_lock);
}
