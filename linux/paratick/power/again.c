// SPDX-License-Identifier: GPL-2.0-only
/*
 * Starts a kernel in place of the one that runs:  again KERNEL INITRD COMMAND-LINE
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REBOOT_KEXEC 0x45584543

static int open_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		fprintf(stderr, "again: cannot open %s: %s\n", path, strerror(errno));
	return fd;
}

int main(int argc, char **argv)
{
	int kernel, initrd;

	if (argc != 4) {
		fprintf(stderr, "usage: again KERNEL INITRD COMMAND-LINE\n");
		return 2;
	}
	kernel = open_file(argv[1]);
	initrd = open_file(argv[2]);
	if (kernel < 0 || initrd < 0)
		return 1;
	if (syscall(SYS_kexec_file_load, kernel, initrd, strlen(argv[3]) + 1, argv[3], 0UL)) {
		fprintf(stderr, "again: cannot load %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	reboot(REBOOT_KEXEC);
	fprintf(stderr, "again: cannot start %s: %s\n", argv[1], strerror(errno));
	return 1;
}
