// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Programs whose instructions can be counted on paper, to be captured: the first argument names
 * the file to write addresses to, the second which program.
 *
 * The measured loop is three instructions a turn, a handler's run is four: its own two and the
 * two of the C library's way back to the kernel.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4
#define ROUNDS 3
#define TURNS 40000
#define FAULTS 100
#define PAGES 400000
#define MARKER 0x53544459L
#define BEGIN 100L
#define END 200L

extern char **environ;
long hits;
static long data[64];
static char altstack[1 << 16] __attribute__((aligned(4096)));
static sigjmp_buf way_out;

void count_hit(int);
void skip_fault(int, siginfo_t *, void *);
/* Offset 168 of the third argument is the interrupted program's RIP (asm/ucontext.h). */
__asm__(".text\n"
	"count_hit:\n"
	"	incq hits(%rip)\n"
	"	ret\n"
	"skip_fault:\n"
	"	movq %r15, 168(%rdx)\n"
	"	ret\n");

static void measured(long which)
{
	long turns = TURNS;

	syscall(MARKER, 0L, BEGIN + which);
	__asm__ volatile("1:	addq %[n], (%[at])\n"
			 "	decq %[n]\n"
			 "	jnz 1b\n"
			 : [n] "+r"(turns)
			 : [at] "r"(&data[which])
			 : "memory", "cc");
	syscall(MARKER, 0L, END + which);
}

/* Each turn leaves a block at its fifth instruction, with 200 behind it. */
static void measured_faults(long which)
{
	long turns = FAULTS;

	syscall(MARKER, 0L, BEGIN + which);
	__asm__ volatile("	leaq 2f(%%rip), %%r15\n"
			 "1:	movq (%[at]), %%rax\n"
			 "	incq %%rbx\n"
			 "	incq %%rbx\n"
			 "	incq %%rbx\n"
			 "	movq %%rax, (%[bad])\n"
			 "	.rept 200\n"
			 "	nop\n"
			 "	.endr\n"
			 "2:	decq %[n]\n"
			 "	jnz 1b\n"
			 : [n] "+r"(turns)
			 : [at] "r"(&data[which]), [bad] "r"(0L)
			 : "memory", "cc", "rax", "rbx", "r15");
	syscall(MARKER, 0L, END + which);
}

/*
 * A turn is seven instructions around the end of a page: 14 bytes before it, and the fifth
 * instruction, of three bytes, crosses it.
 */
static void measured_pages(long which)
{
	long turns = PAGES;

	syscall(MARKER, 0L, BEGIN + which);
	__asm__ volatile("	jmp 1f\n"
			 "	.p2align 12\n"
			 "	.skip 4096 - 14\n"
			 "1:	addq %[n], (%[at])\n"
			 "	incq %%rbx\n"
			 "	incq %%rbx\n"
			 "	incq %%rbx\n"
			 "	incq %%rbx\n"
			 "	decq %[n]\n"
			 "	jnz 1b\n"
			 : [n] "+r"(turns)
			 : [at] "r"(&data[which])
			 : "memory", "cc", "rbx");
	syscall(MARKER, 0L, END + which);
}

static void *thread(void *which)
{
	measured((long)which);
	return NULL;
}

static void leave(int signal)
{
	(void)signal;
	siglongjmp(way_out, 1);
}

static void handle(int signal, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	if (sigaction(signal, &action, NULL) != 0)
		exit(2);
}

/* A timer whose handler runs on a stack of its own. */
static void start_timer(void)
{
	const struct itimerval every = { { 0, 500 }, { 0, 500 } };
	const stack_t stack = { .ss_sp = altstack, .ss_size = sizeof(altstack) };

	if (sigaltstack(&stack, NULL) != 0)
		exit(3);
	handle(SIGALRM, count_hit, SA_ONSTACK | SA_RESTART);
	setitimer(ITIMER_REAL, &every, NULL);
}

/* Signals, threads that come and go, vfork, longjmps. */
static void signals(void)
{
	handle(SIGSEGV, leave, SA_ONSTACK);
	start_timer();
	for (long round = 0; round < ROUNDS; round++) {
		pthread_t threads[THREADS];

		for (long i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, thread,
				       (void *)(round * THREADS + i));
		for (volatile int i = 0; i < FAULTS; i++) {
			if (!sigsetjmp(way_out, 1))
				*(volatile char *)(long)(i & 1) = 1;
		}
		if (vfork() == 0) {
			execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		measured(ROUNDS * THREADS + round);
		for (int i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		wait(NULL);
	}
}

static void pages(void)
{
	start_timer();
	measured_pages(0);
}

static void faults(void)
{
	struct sigaction action = { .sa_sigaction = skip_fault, .sa_flags = SA_SIGINFO };

	if (sigaction(SIGSEGV, &action, NULL) != 0)
		exit(2);
	measured_faults(0);
}

/* Five children and one of a child's own. */
static void children(void)
{
	char *words[] = { "true", NULL };
	pid_t pid;

	for (volatile int i = 0; i < 2; i++) {
		if (vfork() == 0) {
			execv("/bin/true", words);
			_exit(1);
		}
		wait(NULL);
	}
	if (posix_spawn(&pid, "/bin/echo", NULL, NULL, words, environ) != 0)
		exit(4);
	wait(NULL);
	if (fork() == 0) {
		if (fork() == 0)
			_exit(0);
		wait(NULL);
		_exit(0);
	}
	wait(NULL);
	if (fork() == 0) {
		for (int fd = 3; fd < 2000; fd++)
			close(fd);
		execl("/no/such/program", "false", (char *)NULL);
		execl("/bin/false", "false", (char *)NULL);
		_exit(9);
	}
	wait(NULL);
}

int main(int argc, char **argv)
{
	FILE *out = argc == 3 ? fopen(argv[1], "w") : NULL;

	if (!out)
		return 1;
	fprintf(out, "%lu %lu %lu", (unsigned long)data, (unsigned long)&hits,
		(unsigned long)altstack);
	fclose(out);
	if (strcmp(argv[2], "signals") == 0)
		signals();
	else if (strcmp(argv[2], "pages") == 0)
		pages();
	else if (strcmp(argv[2], "faults") == 0)
		faults();
	else
		children();
	return 0;
}
