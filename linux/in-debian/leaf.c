// SPDX-License-Identifier: GPL-2.0-only
/* What KVM offers this guest: EAX of CPUID leaf 0x40000001, its feature bits, in hexadecimal. */
#include <cpuid.h>
#include <stdio.h>

int main(void)
{
	unsigned int eax, ebx, ecx, edx;

	__cpuid(0x40000001, eax, ebx, ecx, edx);
	printf("%08x\n", eax);
	return 0;
}
