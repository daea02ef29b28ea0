/* SPDX-License-Identifier: GPL-2.0-only */
/* The x86-64 system calls that the plugin follows (asm/unistd_64.h, linux/sched.h). */
#ifndef CALLS_H
#define CALLS_H

#include <stdbool.h>
#include <stdint.h>

/* A system call no kernel has; the program reaches us by it. Elsewhere it returns ENOSYS. */
#define MARKER_SYSCALL 0x53544459
enum marker_op { MARK_NAME, MARK_START, MARK_STOP };
#define MARKER_STARTED 0xffffffffu
#define MARKER_STOPPED 0xfffffffeu

/* These change the address space. */
enum mapping_call {
	CALL_MMAP = 9,
	CALL_MPROTECT = 10,
	CALL_MUNMAP = 11,
	CALL_BRK = 12,
	CALL_MREMAP = 25,
	CALL_MADVISE = 28,
	CALL_PKEY_MPROTECT = 329,
};

/* These replace the program, and with it this plugin, without any return. */
#define CALL_EXECVE 59
#define CALL_EXECVEAT 322

/* These make a process, or a thread of this one where CLONE_VM stands without CLONE_VFORK. */
#define CALL_CLONE 56
#define CALL_FORK 57
#define CALL_VFORK 58
#define CLONE_VM_BIT 0x100
#define CLONE_VFORK_BIT 0x4000

static inline bool is_mapping_call(int64_t num)
{
	switch (num) {
	case CALL_MMAP:
	case CALL_MPROTECT:
	case CALL_MUNMAP:
	case CALL_BRK:
	case CALL_MREMAP:
	case CALL_MADVISE:
	case CALL_PKEY_MPROTECT:
		return true;
	default:
		return false;
	}
}

/* As QEMU distinguishes a process from a thread (linux-user/syscall.c, do_fork()). */
static inline bool made_a_process(int64_t num, uint64_t flags, int64_t ret)
{
	if (ret <= 0)
		return false;
	if (num == CALL_CLONE)
		return !(flags & CLONE_VM_BIT) || (flags & CLONE_VFORK_BIT);
	return num == CALL_FORK || num == CALL_VFORK;
}

#endif
