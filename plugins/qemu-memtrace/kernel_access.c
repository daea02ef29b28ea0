// SPDX-License-Identifier: GPL-2.0-only
/*
 * Distinguishes accesses of the emulated kernel from the program's.
 *
 * QEMU 7 reports accesses that its own functions make through a list of callbacks which
 * translated code sets before an instruction and clears behind it. The clearing is left out behind
 * an instruction that ends its block, by itself or because the page ends there. So the list stays
 * set, and when a signal arrives before the next block the FPU state that QEMU stores into the
 * signal frame is reported as accesses of that instruction (QEMU 8 clears the list itself).
 * Most such instructions access nothing by QEMU's functions: translated code does what they load
 * and store. What QEMU's own code reports of them is the kernel's. Left out: a signal right behind
 * an instruction at the end of a page that does use functions (x87, a lock, XSAVE), and the load
 * that QEMU makes of a frame behind XRSTOR.
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
 * translator looks at the flags or the state again. Opcodes: Intel SDM, volume 2, appendix A.
 */
static bool leaves_block(const uint8_t *opcode)
{
	switch (opcode[0]) {
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
		if (opcode[1] == 0xae)	/* XRSTOR */
			return (opcode[2] & 0x38) == 0x28;
		return (opcode[1] & 0xf0) == 0x80;	/* Jcc */
	case 0xff:				/* CALL, JMP, far JMP */
		return (opcode[1] & 0x38) == 0x10 || (opcode[1] & 0x30) == 0x20;
	default:
		return false;
	}
}

/* What QEMU's own functions do for the instruction: MARK_LENDS_ bits of what they never do. */
static uint64_t lent(const uint8_t *opcode, bool locked)
{
	switch (opcode[0]) {
	case 0x86: case 0x87: case 0xc8:	/* XCHG, ENTER */
	case 0xc4: case 0xc5:			/* AVX's moves by a mask */
	case 0xd8 ... 0xdf:			/* x87 */
		return 0;
	case 0xca: case 0xcb: case 0xcf:	/* far RET, IRET */
		return MARK_LENDS_STORES;
	case 0x0f:
		if (opcode[1] == 0xae)		/* XRSTOR, XSAVE and its like */
			return (opcode[2] & 0x38) == 0x28 ? MARK_LENDS_STORES : 0;
		if (locked || opcode[1] == 0xc7 || opcode[1] == 0xf7)
			return 0;		/* CMPXCHG16B, moves by a mask */
		break;
	default:
		if (locked)
			return 0;
	}
	return MARK_LENDS_STORES | MARK_LENDS_LOADS;
}

/*
 * What QEMU's own code reports in a block's last instruction's name, and is the kernel's, as
 * MARK_LENDS_ bits; `page_ends` says that no other instruction follows in the page.
 */
uint64_t lends_its_name(const uint8_t *code, bool page_ends)
{
	bool locked = false;
	int at = 0;

	/* An instruction has at most 15 bytes, and there is at least one after its prefixes. */
	for (; at < 14 && is_prefix(code[at]); at++)
		locked |= code[at] == 0xf0;
	if (!page_ends && !leaves_block(code + at))
		return 0;
	return lent(code + at, locked);
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
