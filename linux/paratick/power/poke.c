// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sends a character to whoever listens at a Unix socket:  poke SOCKET
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sockaddr_un place = { .sun_family = AF_UNIX };
	int fd;

	if (argc != 2 || strlen(argv[1]) >= sizeof(place.sun_path)) {
		fprintf(stderr, "usage: poke SOCKET\n");
		return 2;
	}
	memcpy(place.sun_path, argv[1], strlen(argv[1]) + 1);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&place, sizeof(place)) ||
	    write(fd, "x", 1) != 1) {
		fprintf(stderr, "poke: cannot reach %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	/* Who closes at once may take the character along. */
	sleep(1);
	return 0;
}
