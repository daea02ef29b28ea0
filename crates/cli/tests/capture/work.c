// SPDX-License-Identifier: Apache-2.0 OR MIT
/*
 * Four stretches of work between markers. Each marker is the instruction after a load, so that
 * the instructions from load to load are those from marker to marker.
 */
#include <unistd.h>

#define VALUES 150
#define TIMES 5
#define LENGTH 37

/* A string instruction; all bytes are 0 until 1 is stored, so scan and comparison go on. */
#define STRING(text) do { \
	void *source = from, *target = to; \
	long turns = LENGTH, value = 1; \
	__asm__ volatile(text \
			 : "+D"(target), "+S"(source), "+c"(turns), "+a"(value) \
			 : \
			 : "memory", "cc"); \
} while (0)

static unsigned long values[VALUES];
static char from[8 * LENGTH], to[8 * LENGTH];

static void mark(long id)
{
	long result = 0x53544459;

	__asm__ volatile("movq (%[at]), %%rcx\n"
			 "syscall\n"
			 : "+a"(result)
			 : [at] "r"(values), "D"(0L), "S"(id)
			 : "rcx", "r11", "memory");
}

static void sort(void)
{
	for (long i = 1; i < VALUES; i++) {
		unsigned long value = values[i];
		long at = i;

		for (; at > 0 && values[at - 1] > value; at--)
			values[at] = values[at - 1];
		values[at] = value;
	}
}

int main(void)
{
	unsigned long state = 1;
	double sum = 0;

	mark(0);
	for (int i = 0; i < VALUES; i++) {
		state = state * 6364136223846793005UL + 1442695040888963407UL;
		values[i] = state >> 40;
	}
	mark(1);
	sort();
	mark(2);
	for (int i = 0; i < TIMES; i++) {
		STRING("rep movsb");
		STRING("rep movsq");
		STRING("repne scasb");
		STRING("repe cmpsb");
		STRING("rep stosb");
		STRING("rep lodsb");
		STRING("movsb");
		STRING("cmpsb");
	}
	mark(3);
	for (int i = 0; i < VALUES; i++)
		sum += 1.0 / (double)(values[i] + 1);
	from[0] = (char)sum;
	mark(4);
	_exit(0);
}
