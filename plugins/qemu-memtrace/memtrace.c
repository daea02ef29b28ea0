// SPDX-License-Identifier: GPL-2.0-only
/*
 * qemu-memtrace: a QEMU TCG plugin that streams every data access of a Linux program under
 * qemu-x86_64, the instructions between accesses, and the system calls that change the address
 * space, to a converter on a Unix socket.
 *
 * Order. Accesses gather in a buffer per thread. Before a mapping call is sent, every thread's
 * buffer is flushed, and mapping calls run one at a time from entry to return. So an access that
 * the program orders before an unmapping stands before it in the stream, and one to a new mapping
 * stands after it. Elsewhere the order between threads is that of buffers of BUFFER_ACCESSES.
 *
 * Left out: accesses the kernel makes (read(2) into a buffer, signal frames), instruction
 * fetches, forked children, System V shared memory (its accesses lie in no known range). A vector access shows as the pieces QEMU makes of it. Instruction
 * counts are exact but for blocks that a fault leaves early.
 *
 * Options: socket=PATH (needed), skip=N (record after N instructions of all threads together),
 * wait-marker=on (record between the program's start and stop markers, which are ignored
 * otherwise), window=N (how many instructions a thread may run ahead of the slowest running one;
 * 0 for no limit).
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "qemu_api.h"
#include "regions.h"
#include "stream.h"

#define BUFFER_ACCESSES 256
#define MAX_THREADS 4096
#define DEFAULT_WINDOW 20000
/* A throttled thread gives up after this many waits: the others may be waiting for it. */
#define MAX_YIELDS 32
#define MAX_SLEEPS 20
#define SLEEP_NS 50000

/* A system call no kernel has; the program reaches us by it. Elsewhere it returns ENOSYS. */
#define MARKER_SYSCALL 0x53544459
enum marker_op { MARK_NAME, MARK_START, MARK_STOP };
#define MARKER_STARTED 0xffffffffu
#define MARKER_STOPPED 0xfffffffeu

/* x86-64 system calls that change the address space. */
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

struct thread {
	bool lock;	  /* guards buffer and count: the owner against flush_all() */
	bool in_use;
	bool in_syscall;  /* outside the window's reckoning */
	uint32_t slot;
	uint32_t buffered;
	uint64_t block_start; /* instructions before the current block */
	uint64_t retired;     /* the same, the current block included */
	uint64_t last;	      /* instructions up to the last access */
	uint64_t skew;	      /* added to retired for the window: catches up after a wait */
	uint64_t call_arg[6];
	struct raw_access buffer[BUFFER_ACCESSES];
};

static struct thread *by_vcpu[MAX_THREADS];
static struct thread *by_slot[MAX_THREADS];
static uint32_t slots; /* slots ever used */

static pthread_mutex_t threads_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t output_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t mapping_lock = PTHREAD_MUTEX_INITIALIZER;

static bool disabled;  /* a forked child */
static bool recording;
static bool wait_marker;
static uint64_t skip_left;
static uint64_t window = DEFAULT_WINDOW;

static void lock_thread(struct thread *t)
{
	while (__atomic_exchange_n(&t->lock, true, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock_thread(struct thread *t)
{
	__atomic_store_n(&t->lock, false, __ATOMIC_RELEASE);
}

static void send_locked(uint32_t kind, uint32_t slot, const void *body, uint32_t bytes)
{
	pthread_mutex_lock(&output_lock);
	stream_send(kind, slot, body, bytes);
	pthread_mutex_unlock(&output_lock);
}

/* The caller holds the thread's lock. */
static void flush(struct thread *t)
{
	if (t->buffered)
		send_locked(MSG_ACCESSES, t->slot, t->buffer,
			    t->buffered * (uint32_t)sizeof(t->buffer[0]));
	t->buffered = 0;
}

static void flush_all(void)
{
	uint32_t count = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count; i++) {
		lock_thread(by_slot[i]);
		flush(by_slot[i]);
		unlock_thread(by_slot[i]);
	}
}

static void send_marker(struct thread *t, uint32_t id)
{
	struct marker_body body = { .id = id };

	flush_all();
	send_locked(MSG_MARKER, t->slot, &body, sizeof(body));
}

static void set_recording(struct thread *t, bool on)
{
	if (__atomic_exchange_n(&recording, on, __ATOMIC_ACQ_REL) != on)
		send_marker(t, on ? MARKER_STARTED : MARKER_STOPPED);
}

static uint64_t clock_of(const struct thread *t)
{
	return __atomic_load_n(&t->retired, __ATOMIC_RELAXED) +
	       __atomic_load_n(&t->skew, __ATOMIC_RELAXED);
}

/* The clock of the slowest running thread but this one; UINT64_MAX if it runs alone. */
static uint64_t slowest_other(const struct thread *self)
{
	uint32_t count = __atomic_load_n(&slots, __ATOMIC_ACQUIRE);
	uint64_t slowest = UINT64_MAX;

	for (uint32_t i = 0; i < count; i++) {
		const struct thread *t = by_slot[i];

		if (t == self || !__atomic_load_n(&t->in_use, __ATOMIC_RELAXED) ||
		    __atomic_load_n(&t->in_syscall, __ATOMIC_RELAXED))
			continue;
		if (clock_of(t) < slowest)
			slowest = clock_of(t);
	}
	return slowest;
}

/*
 * Lets the others catch up. Without this the order of a trace is that of the host's time slices,
 * in which threads hardly ever run beside each other when there are more of them than host CPUs.
 */
static void throttle(const struct thread *t)
{
	const struct timespec nap = { .tv_nsec = SLEEP_NS };

	for (int i = 0; i < MAX_YIELDS + MAX_SLEEPS; i++) {
		uint64_t slowest = slowest_other(t);

		if (slowest == UINT64_MAX || clock_of(t) <= slowest + window)
			return;
		if (i < MAX_YIELDS)
			sched_yield();
		else
			nanosleep(&nap, NULL);
	}
}

static void catch_up(struct thread *t)
{
	uint64_t slowest = slowest_other(t), now = clock_of(t);

	if (slowest != UINT64_MAX && now < slowest)
		__atomic_store_n(&t->skew, t->skew + slowest - now, __ATOMIC_RELAXED);
}

static void on_vcpu_init(qemu_plugin_id_t id, unsigned int vcpu)
{
	uint32_t slot = 0;
	struct thread *t;

	(void)id;
	pthread_mutex_lock(&threads_lock);
	while (slot < slots && by_slot[slot]->in_use)
		slot++;
	if (vcpu >= MAX_THREADS || slot >= MAX_THREADS) {
		fprintf(stderr, "qemu-memtrace: more than %d threads at a time\n", MAX_THREADS);
		_exit(1);
	}
	if (slot == slots) {
		by_slot[slot] = calloc(1, sizeof(struct thread));
		if (!by_slot[slot]) {
			fprintf(stderr, "qemu-memtrace: out of memory for a thread's buffer\n");
			_exit(1);
		}
		by_slot[slot]->slot = slot;
		__atomic_store_n(&slots, slot + 1, __ATOMIC_RELEASE);
	}
	t = by_slot[slot];
	/* Until its first instruction it counts as waiting, lest it hold the others back. */
	t->in_syscall = true;
	t->last = t->block_start = t->retired;
	__atomic_store_n(&t->in_use, true, __ATOMIC_RELEASE);
	by_vcpu[vcpu] = t;
	pthread_mutex_unlock(&threads_lock);
}

static void on_vcpu_exit(qemu_plugin_id_t id, unsigned int vcpu)
{
	struct thread *t = vcpu < MAX_THREADS ? by_vcpu[vcpu] : NULL;

	(void)id;
	if (!t || disabled)
		return;
	lock_thread(t);
	flush(t);
	unlock_thread(t);
	__atomic_store_n(&t->in_use, false, __ATOMIC_RELEASE);
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
	struct thread *t = by_vcpu[vcpu];
	uint64_t count = (uintptr_t)data;

	t->block_start = t->retired;
	__atomic_store_n(&t->retired, t->retired + count, __ATOMIC_RELAXED);
	if (t->in_syscall) {
		/* The first block of a new thread, or of a signal handler. */
		catch_up(t);
		__atomic_store_n(&t->in_syscall, false, __ATOMIC_RELAXED);
	}
	if (!__atomic_load_n(&recording, __ATOMIC_RELAXED))
		skip(t, count);
}

static void on_access(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t vaddr, void *data)
{
	struct thread *t = by_vcpu[vcpu];
	uint64_t now = t->block_start + (uintptr_t)data, gone = now - t->last;
	bool full;

	t->last = now;
	if (!__atomic_load_n(&recording, __ATOMIC_RELAXED))
		return;
	lock_thread(t);
	t->buffer[t->buffered++] = (struct raw_access){
		.vaddr = vaddr,
		.instructions = gone < UINT32_MAX ? (uint32_t)gone : UINT32_MAX,
		.size_shift = (uint8_t)qemu_plugin_mem_size_shift(info),
		.write = qemu_plugin_mem_is_store(info),
	};
	full = t->buffered == BUFFER_ACCESSES;
	if (full)
		flush(t);
	unlock_thread(t);
	if (full && window)
		throttle(t);
}

static void on_translate(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	static bool regions_sent;
	size_t count = qemu_plugin_tb_n_insns(tb);

	(void)id;
	if (disabled)
		return;
	if (!__atomic_exchange_n(&regions_sent, true, __ATOMIC_ACQ_REL)) {
		struct qemu_plugin_insn *first = qemu_plugin_tb_get_insn(tb, 0);
		uint64_t host = (uintptr_t)qemu_plugin_insn_haddr(first);

		pthread_mutex_lock(&output_lock);
		regions_send_new(host - qemu_plugin_insn_vaddr(first));
		pthread_mutex_unlock(&output_lock);
	}
	qemu_plugin_register_vcpu_tb_exec_cb(tb, on_block, QEMU_PLUGIN_CB_NO_REGS,
					     (void *)(uintptr_t)count);
	for (size_t i = 0; i < count; i++)
		qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), on_access,
						 QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
						 (void *)(uintptr_t)(i + 1));
}

static bool is_mapping_call(int64_t num)
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

static void on_syscall(qemu_plugin_id_t id, unsigned int vcpu, int64_t num, uint64_t a1,
		       uint64_t a2, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6,
		       uint64_t a7, uint64_t a8)
{
	struct thread *t = by_vcpu[vcpu];
	const uint64_t args[6] = { a1, a2, a3, a4, a5, a6 };

	(void)id, (void)a7, (void)a8;
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
		flush_all();
		send_locked(MSG_EXEC, t->slot, NULL, 0);
	}
	if (is_mapping_call(num)) {
		pthread_mutex_lock(&mapping_lock);
		memcpy(t->call_arg, args, sizeof(args));
	}
}

static void on_syscall_return(qemu_plugin_id_t id, unsigned int vcpu, int64_t num, int64_t ret)
{
	struct thread *t = by_vcpu[vcpu];

	(void)id;
	if (disabled)
		return;
	if (is_mapping_call(num)) {
		struct syscall_body body = { .num = num, .ret = ret };

		memcpy(body.arg, t->call_arg, sizeof(body.arg));
		flush_all();
		send_locked(MSG_SYSCALL, t->slot, &body, sizeof(body));
		pthread_mutex_unlock(&mapping_lock);
	}
	catch_up(t);
	__atomic_store_n(&t->in_syscall, false, __ATOMIC_RELAXED);
}

static void on_exit_of_program(qemu_plugin_id_t id, void *data)
{
	(void)id, (void)data;
	if (disabled)
		return;
	flush_all();
	/* Other threads may still run for a moment: what they do comes after the end. */
	__atomic_store_n(&recording, false, __ATOMIC_RELEASE);
	send_locked(MSG_END, 0, NULL, 0);
}

/* Only the first process is traced; its child must neither write nor wait for our locks. */
static void in_forked_child(void)
{
	disabled = true;
	recording = false;
	skip_left = 0;
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

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

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
	pthread_atfork(NULL, NULL, in_forked_child);

	qemu_plugin_register_vcpu_init_cb(id, on_vcpu_init);
	qemu_plugin_register_vcpu_exit_cb(id, on_vcpu_exit);
	qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
	qemu_plugin_register_vcpu_syscall_cb(id, on_syscall);
	qemu_plugin_register_vcpu_syscall_ret_cb(id, on_syscall_return);
	qemu_plugin_register_atexit_cb(id, on_exit_of_program, NULL);
	return 0;
}
