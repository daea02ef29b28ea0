// SPDX-License-Identifier: GPL-2.0-only
/*
 * qemu-memtrace: a QEMU TCG plugin that streams every data access of a Linux program under
 * qemu-x86_64, the instructions between accesses, and the system calls that change the address
 * space, to a converter on a Unix socket.
 *
 * Order. Accesses gather in a buffer per thread. Before a mapping call is sent, every thread's
 * buffer is flushed, and mapping calls run one at a time from entry to return. So an access that
 * the program orders before an unmapping stands before it in the stream, and one to a new mapping
 * stands after it. Elsewhere the order between threads is that of buffers of BUFFER_ACCESSES
 * (threads.h).
 *
 * Left out: accesses the kernel makes (read(2) into a buffer, signal frames), instruction
 * fetches, System V shared memory (its accesses lie in no known range), forked children, which
 * are only named (children.h). A vector access shows as the pieces QEMU makes of it. Instruction
 * counts are exact but for blocks that a fault leaves early (counting.h).
 *
 * Options: socket=PATH (needed), skip=N (record after N instructions of all threads together),
 * wait-marker=on (record between the program's start and stop markers, which are ignored
 * otherwise), window=N (how many instructions a thread may run ahead of the slowest running one;
 * 0 for no limit).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "calls.h"
#include "children.h"
#include "kernel_access.h"
#include "qemu_api.h"
#include "regions.h"
#include "stream.h"
#include "threads.h"

#define PAGE 4096u   /* of x86-64, whatever the host's */
#define INSN_MAX 15u /* bytes of an instruction: Intel SDM, volume 2, section 2.3.11 */

static pthread_mutex_t mapping_lock = PTHREAD_MUTEX_INITIALIZER;

static bool disabled;  /* a forked child */
static bool recording;
static bool wait_marker;
static uint64_t skip_left;

static void send_marker(struct thread *t, uint32_t id)
{
	struct marker_body body = { .id = id };

	threads_flush();
	stream_send(MSG_MARKER, t->slot, &body, sizeof(body));
}

static void set_recording(struct thread *t, bool on)
{
	if (__atomic_exchange_n(&recording, on, __ATOMIC_ACQ_REL) != on)
		send_marker(t, on ? MARKER_STARTED : MARKER_STOPPED);
}

static void on_vcpu_init(qemu_plugin_id_t id, unsigned int vcpu)
{
	(void)id;
	thread_begin(vcpu);
}

static void on_vcpu_exit(qemu_plugin_id_t id, unsigned int vcpu)
{
	struct thread *t = thread_of(vcpu);

	(void)id;
	if (t && !disabled)
		thread_end(t);
}

/* Starts recording once the instructions to skip have gone by. */
static void skip(struct thread *t, uint64_t count)
{
	uint64_t left = __atomic_load_n(&skip_left, __ATOMIC_RELAXED);

	if (left == 0)
		return;
	while (!__atomic_compare_exchange_n(&skip_left, &left, left > count ? left - count : 0,
					    true, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
		if (left == 0)
			return;
	}
	if (left <= count && !wait_marker && !disabled)
		set_recording(t, true);
}

static void on_block(unsigned int vcpu, void *data)
{
	struct thread *t = thread_of(vcpu);
	uint64_t mark = (uintptr_t)data;

	retired_block(&t->retired, mark);
	if (t->in_syscall) {
		/* The first block of a new thread, or of a signal handler. */
		thread_catch_up(t);
		__atomic_store_n(&t->in_syscall, false, __ATOMIC_RELAXED);
	}
	if (!__atomic_load_n(&recording, __ATOMIC_RELAXED))
		skip(t, mark_place(mark));
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	struct thread *t = thread_of(vcpu);
	uint64_t mark = (uintptr_t)data, now, gone;
	struct raw_access access;
	bool write = qemu_plugin_mem_is_store(info);

	if (retired_is_stale(&t->retired, mark) ||
	    ((mark & (write ? MARK_LENDS_STORES : MARK_LENDS_LOADS)) &&
	     is_from_emulator((uintptr_t)__builtin_return_address(0))))
		return;
	now = retired_access(&t->retired, mark, write);
	gone = now - t->last;
	if (now < t->last) {
		fprintf(stderr, "qemu-memtrace: thread %u's count of instructions ran back\n",
			t->slot);
		_exit(1);
	}
	t->last = now;
	if (!__atomic_load_n(&recording, __ATOMIC_RELAXED))
		return;
	access = (struct raw_access){
		.vaddr = vaddr,
		.instructions = gone < UINT32_MAX ? (uint32_t)gone : UINT32_MAX,
		.size_shift = (uint8_t)qemu_plugin_mem_size_shift(info),
		.write = write,
	};
	if (thread_add(t, &access) && window)
		thread_throttle(t);
}

static void on_first_block(struct qemu_plugin_tb *tb)
{
	struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
	uint64_t host = (uintptr_t)qemu_plugin_insn_haddr(first);
	uint64_t guest_base = host - qemu_plugin_insn_vaddr(first);

	children_set_base(guest_base);
	regions_send_new(guest_base);
}

/*
 * The mark of the i-th instruction of a block that QEMU numbers `block`; `is_end` says whether it
 * ends what is counted as one. QEMU 7 names one instruction too many where that would cross into
 * the next page: it takes the instruction back and never runs it. So an instruction that could is
 * counted as a block of its own.
 */
static uint64_t mark_insn(struct qemu_plugin_tb *tb, size_t i, uint64_t block, bool *is_end)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, count - 1);
	struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
	const uint8_t *code = qemu_plugin_insn_haddr(insn);
	uint64_t page_end = (qemu_plugin_tb_vaddr(tb) | (PAGE - 1)) + 1;
	bool alone = count > 1 && qemu_plugin_insn_vaddr(last) + INSN_MAX > page_end;
	uint64_t mark = alone && i + 1 == count ? mark_of(block + 1, 1) : mark_of(block, i + 1);
	uint64_t end = qemu_plugin_insn_vaddr(insn) + qemu_plugin_insn_size(insn);

	*is_end = i + 1 == count || (alone && i + 2 == count);
	if (!*is_end || !code)
		return *is_end ? mark_last(mark, 0, TURN_NONE) : mark;
	return mark_last(mark, i + 1 == count ? lends_its_name(code, end >= page_end) : 0,
			 turn_of(code));
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	static bool begun;
	static uint64_t blocks;
	size_t count = qemu_plugin_tb_n_insns(tb);
	uint64_t block = __atomic_add_fetch(&blocks, 2, __ATOMIC_RELAXED);

	(void)id;
	if (disabled)
		return;
	if (!__atomic_exchange_n(&begun, true, __ATOMIC_ACQ_REL))
		on_first_block(tb);
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		bool is_end;
		void *mark = (void *)(uintptr_t)mark_insn(tb, i, block, &is_end);

		if (is_end)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, on_block,
							       QEMU_PLUGIN_CB_NO_REGS, mark);
		qemu_plugin_register_vcpu_mem_cb(insn, on_access, QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_RW, mark);
	}
}

static void on_syscall(qemu_plugin_id_t id, unsigned int vcpu, int64_t num, uint64_t a1,
		       uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
		       uint64_t a7, uint64_t a8)
{
	struct thread *t = thread_of(vcpu);
	const uint64_t args[6] = { a1, a2, a3, a4, a5, a6 };

	(void)id, (void)a7, (void)a8;
	if (num == CALL_EXECVE || num == CALL_EXECVEAT)
		children_exec(num == CALL_EXECVE ? a1 : a2);
	memcpy(t->call_arg, args, sizeof(args));
	if (disabled)
		return;
	if (num == MARKER_SYSCALL) {
		if (a1 == MARK_NAME)
			send_marker(t, (uint32_t)a2);
		else if (wait_marker && (a1 == MARK_START || a1 == MARK_STOP))
			set_recording(t, a1 == MARK_START);
		return;
	}
	__atomic_store_n(&t->in_syscall, true, __ATOMIC_RELAXED);
	if (num == CALL_EXECVE || num == CALL_EXECVEAT) {
		threads_flush();
		stream_send(MSG_EXEC, t->slot, NULL, 0);
	}
	if (is_mapping_call(num))
		pthread_mutex_lock(&mapping_lock);
}

static void on_syscall_return(qemu_plugin_id_t id, unsigned int vcpu, int64_t num, int64_t ret)
{
	struct thread *t = thread_of(vcpu);

	(void)id;
	if (made_a_process(num, t->call_arg[0], ret))
		children_forked(ret);
	if (disabled)
		return;
	if (is_mapping_call(num)) {
		struct syscall_body body = { .num = num, .ret = ret };

		memcpy(body.arg, t->call_arg, sizeof(body.arg));
		threads_flush();
		stream_send(MSG_SYSCALL, t->slot, &body, sizeof(body));
		pthread_mutex_unlock(&mapping_lock);
	}
	thread_catch_up(t);
	__atomic_store_n(&t->in_syscall, false, __ATOMIC_RELAXED);
}

static void on_exit_of_program(qemu_plugin_id_t id, void *data)
{
	(void)id, (void)data;
	if (disabled)
		return;
	threads_flush();
	/* Other threads may still run for a moment: what they do comes after the end. */
	__atomic_store_n(&recording, false, __ATOMIC_RELEASE);
	stream_send(MSG_END, 0, NULL, 0);
}

/*
 * Only the first process is traced; its child must neither send nor wait for our locks. It reports
 * the programs that it becomes and the children that it makes (children.c).
 */
static void in_forked_child(void)
{
	disabled = true;
	recording = false;
	skip_left = 0;
	threads_in_child();
	stream_abandon();
}

static bool parse_number(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && *end == '\0' && errno == 0;
}

static const char *value_of(const char *option, const char *name)
{
	size_t len = strlen(name);

	return strncmp(option, name, len) == 0 && option[len] == '=' ? option + len + 1 : NULL;
}

static bool parse_option(const char *option, const char **socket_path)
{
	const char *value;

	if ((value = value_of(option, "socket")))
		*socket_path = value;
	else if ((value = value_of(option, "skip")))
		return parse_number(value, &skip_left);
	else if ((value = value_of(option, "window")))
		return parse_number(value, &window);
	else if ((value = value_of(option, "wait-marker")) && strcmp(value, "on") == 0)
		wait_marker = true;
	else
		return false;
	return true;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_version = 2;

/*
 * Runs before QEMU reads the version. What this plugin calls is the same in all versions; the
 * function looked for went away with version 2.
 */
__attribute__((constructor)) static void choose_version(void)
{
	if (dlsym(RTLD_DEFAULT, "qemu_plugin_n_vcpus"))
		qemu_plugin_version = 1;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int argc,
					   char **argv)
{
	const char *socket_path = NULL;
	struct hello_body hello = { .version = STREAM_VERSION };

	if (info->system_emulation || strcmp(info->target_name, "x86_64") != 0) {
		fprintf(stderr, "qemu-memtrace: needs qemu-x86_64, this is %s%s\n",
			info->system_emulation ? "qemu-system-" : "qemu-", info->target_name);
		return 1;
	}
	for (int i = 0; i < argc; i++) {
		if (!parse_option(argv[i], &socket_path)) {
			fprintf(stderr, "qemu-memtrace: unknown option or bad value: %s\n", argv[i]);
			return 1;
		}
	}
	if (!socket_path) {
		fprintf(stderr, "qemu-memtrace: expected the option socket=PATH\n");
		return 1;
	}
	if (!stream_open(socket_path))
		return 1;
	recording = skip_left == 0 && !wait_marker;
	hello.page_size = 4096;
	hello.pid = getpid();
	stream_send(MSG_HELLO, 0, &hello, sizeof(hello));
	regions_remember();
	kernel_access_prepare();
	children_prepare(socket_path);
	pthread_atfork(NULL, NULL, in_forked_child);

	qemu_plugin_register_vcpu_init_cb(id, on_vcpu_init);
	qemu_plugin_register_vcpu_exit_cb(id, on_vcpu_exit);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
	qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
	return 0;
}
