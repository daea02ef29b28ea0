// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tells accesses of the emulated kernel from those of the program.
 *
 * QEMU 7 reports accesses that its own functions make through a list of callbacks which
 * translated code sets before an instruction and clears behind it. An instruction that leaves its
 * block by itself does not come to the clearing, so the list stays set, and when a signal arrives
 * before the next block the FPU state that QEMU stores into the signal frame is reported as stores
 * of that instruction (QEMU 8 clears the list itself). None of those instructions stores by one of
 * QEMU's functions itself: what they store, translated code stores. So such a report is the
 * kernel's if it is of a store and QEMU's own code made it.
 */
#define _GNU_SOURCE
#include "kernel_access.h"

#include <link.h>
#include <stddef.h>

static uintptr_t emulator_start, emulator_end;

/* The first object is the emulator itself. */
static int note_emulator(struct dl_phdr_info *info, size_t size, void *data)
{
	(void)size, (void)data;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *part = &info->dlpi_phdr[i];

		if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
			continue;
		emulator_start = info->dlpi_addr + part->p_vaddr;
		emulator_end = emulator_start + part->p_memsz;
	}
	return 1;
}

void kernel_access_prepare(void)
{
	dl_iterate_phdr(note_emulator, NULL);
}

/* Whether the call that returns there was made by QEMU's code and not by translated code. */
bool is_from_emulator(uintptr_t return_address)
{
	return return_address >= emulator_start && return_address < emulator_end;
}

static bool is_prefix(uint8_t byte)
{
	switch (byte) {
	case 0x26: case 0x2e: case 0x36: case 0x3e: case 0x64: case 0x65: /* segments */
	case 0x66: case 0x67: case 0xf0: case 0xf2: case 0xf3:
		return true;
	default:
		return (byte & 0xf0) == 0x40; /* REX */
	}
}

/*
 * Whether an instruction of 64-bit code leaves its block by itself: jumps, calls and returns,
 * string instructions, which may repeat themselves by a jump, and those after which the
 * translator looks at the flags or the state anew. Opcodes: Intel SDM, volume 2, appendix A.
 */
bool leaves_block(const uint8_t *code)
{
	int at = 0;

	/* An instruction has at most 15 bytes, and there is at least one after its prefixes. */
	while (at < 14 && is_prefix(code[at]))
		at++;
	switch (code[at]) {
	case 0x70 ... 0x7f:			/* Jcc */
	case 0x9d:				/* POPF */
	case 0xa4 ... 0xa7:			/* MOVS, CMPS */
	case 0xaa ... 0xaf:			/* STOS, LODS, SCAS */
	case 0xc2: case 0xc3:			/* RET */
	case 0xca: case 0xcb: case 0xcf:	/* far RET, IRET */
	case 0xe0 ... 0xe3:			/* LOOP, JRCXZ */
	case 0xe8: case 0xe9: case 0xeb:	/* CALL, JMP */
		return true;
	case 0x0f:
		if (code[at + 1] == 0xae)	/* XRSTOR */
			return (code[at + 2] & 0x38) == 0x28;
		return (code[at + 1] & 0xf0) == 0x80;	/* Jcc */
	case 0xff:				/* CALL, JMP, far JMP */
		return (code[at + 1] & 0x38) == 0x10 || (code[at + 1] & 0x30) == 0x20;
	default:
		return false;
	}
}

/* How a repeated string instruction counts; TURN_NONE for all others. */
enum turn turn_of(const uint8_t *code)
{
	bool repeated = false;
	int at = 0;

	for (; at < 14 && is_prefix(code[at]); at++)
		repeated |= code[at] == 0xf2 || code[at] == 0xf3;
	if (!repeated)
		return TURN_NONE;
	switch (code[at]) {
	case 0xa4: case 0xa5: case 0xac ... 0xaf: /* MOVS, LODS, SCAS */
		return TURN_LOAD;
	case 0xaa: case 0xab: /* STOS */
		return TURN_STORE;
	case 0xa6: case 0xa7: /* CMPS */
		return TURN_SECOND_LOAD;
	default:
		return TURN_NONE;
	}
}
