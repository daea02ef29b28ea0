// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Runs a program on the processor itself, one instruction at a time, and prints how many stood
 * between each marker and the one before it: the oracle of the captured counts.
 */
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#define MARKER 0x53544459
#define SYSCALL_OPCODE 0x050f

static int is_marker(pid_t child, const struct user_regs_struct *regs)
{
	long code;

	if (regs->rax != MARKER || regs->rdi != 0)
		return 0;
	code = ptrace(PTRACE_PEEKTEXT, child, (void *)regs->rip, NULL);
	return (code & 0xffff) == SYSCALL_OPCODE;
}

int main(int argc, char **argv)
{
	long steps = 0, marked = 0;
	struct user_regs_struct regs;
	pid_t child;
	int status;

	if (argc < 2)
		return 2;
	child = fork();
	if (child == 0) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		execv(argv[1], argv + 1);
		_exit(3);
	}
	while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
		if (ptrace(PTRACE_GETREGS, child, NULL, &regs) != 0)
			return 4;
		if (is_marker(child, &regs)) {
			printf("%ld\n", steps - marked);
			marked = steps;
		}
		if (ptrace(PTRACE_SINGLESTEP, child, NULL, NULL) != 0)
			return 5;
		steps++;
	}
	return 0;
}
