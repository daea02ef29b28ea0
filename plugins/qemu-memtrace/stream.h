/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The raw stream from plugin to converter: messages of native (little-endian) words. It is
 * private to the two, lives only in a socket or a pipe, and has no compatibility to keep beyond
 * STREAM_VERSION; what is kept is the format of docs/formats/memtrace.md.
 */
#ifndef STREAM_H
#define STREAM_H

#include <stdbool.h>
#include <stdint.h>

#define STREAM_VERSION 1u

enum message_kind {
	MSG_HELLO = 1,	 /* body: struct hello_body */
	MSG_REGION,	 /* body: struct region_body, a range that may be the guest's */
	MSG_ACCESSES,	 /* body: count x struct raw_access */
	MSG_SYSCALL,	 /* body: struct syscall_body, a mapping call that has returned */
	MSG_MARKER,	 /* body: struct marker_body */
	MSG_END,	 /* no body: the program ended and all is flushed */
	MSG_EXEC,	 /* no body: about to become another program; more follows if not */
};

struct message_head {
	uint32_t kind;
	uint32_t thread;
	uint32_t bytes; /* length of the body */
	uint32_t magic; /* STREAM_MAGIC: a lost byte shows at the next head */
};

#define STREAM_MAGIC 0x4d455354u

struct hello_body {
	uint32_t version;
	uint32_t page_size;
	int64_t pid;
};

struct region_body {
	uint64_t start;
	uint64_t len;
	uint64_t prot;
};

struct raw_access {
	uint64_t vaddr;
	uint32_t instructions;
	uint8_t size_shift;
	uint8_t write;
	uint16_t zero;
};

struct syscall_body {
	int64_t num;
	int64_t ret;
	uint64_t arg[6];
};

struct marker_body {
	uint32_t id;
	uint32_t zero;
};

bool stream_open(const char *path);
void stream_send(uint32_t kind, uint32_t thread, const void *body, uint32_t bytes);
bool stream_is_open(void);
void stream_abandon(void);

#endif
