// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How a kernel says that something is wrong with it, though it goes on: locks that are taken in
//! an order that can deadlock, sleeping where none may, RCU's rules, memory, lists, hangs.
//!
//! A run in which one does so has an end and numbers, but not those of a sound machine. Most lines
//! come from kernels that check themselves. Lock order's checks end with their first complaint in
//! a boot (`debug_locks_off()`). Left out: panics, which end a run anyway, and what firmware lacks.

/// How such lines begin in Linux 6.12, without their time stamps.
const BEGINNINGS: [&str; 21] = [
    // kernel/locking/lockdep.c, kernel/rcu/update.c, mm/, kernel/panic.c (`WARN`, `VM_WARN_ON`)
    "WARNING: ",
    // kernel/locking/lockdep.c: `print_lock_invalid_wait_context()`, `print_lock_name()`
    "[ BUG: ",
    "INFO: trying to register non-static key",
    "INFO: lockdep is turned off",
    "DEBUG_LOCKS_WARN_ON(",
    // kernel/sched/core.c, lib/smp_processor_id.c, kernel/workqueue.c, mm/kfence/report.c,
    // mm/page_alloc.c, arch/x86/mm/fault.c; without a colon mm/slub.c
    "BUG: ",
    "BUG ",
    // lib/bug.c, `BUG_ON` and `VM_BUG_ON`
    "kernel BUG at ",
    // kernel/rcu/tree_stall.h
    "rcu: INFO: ",
    "INFO: rcu_",
    // kernel/watchdog.c, kernel/hung_task.c
    "watchdog: BUG: ",
    "watchdog: CPU",
    "INFO: task ",
    // lib/debugobjects.c, lib/list_debug.c, lib/refcount.c, mm/debug.c, lib/ubsan.c
    "ODEBUG: ",
    "list_add corruption",
    "list_add double add",
    "list_del corruption",
    "refcount_t: ",
    "page dumped because: ",
    // arch/x86/kernel/dumpstack.c, arch/x86/kernel/traps.c
    "Oops: ",
    "general protection fault",
];

/// The complaint in a line of a kernel's log or console: its text without the time stamp.
#[must_use]
pub fn complaint(line: &str) -> Option<&str> {
    let text = without_stamp(line.trim()).trim();
    let complains = BEGINNINGS.iter().any(|word| text.starts_with(word));
    complains.then_some(text)
}

/// Without `[   12.345678] ` before it.
fn without_stamp(line: &str) -> &str {
    let stamp = line.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    match stamp {
        Some((time, text)) if is_time(time.trim()) => text,
        _ => line,
    }
}

fn is_time(text: &str) -> bool {
    let digit = |letter: char| letter.is_ascii_digit();
    text.starts_with(digit) && text.chars().all(|letter| digit(letter) || letter == '.')
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.12 prints them, each from a format string of its sources.
    const COMPLAINTS: [&str; 27] = [
        "WARNING: possible circular locking dependency detected",
        "WARNING: possible recursive locking detected",
        "WARNING: possible irq lock inversion dependency detected",
        "WARNING: HARDIRQ-safe -> HARDIRQ-unsafe lock order detected",
        "WARNING: inconsistent lock state",
        "WARNING: bad unlock balance detected!",
        "[ BUG: Invalid wait context ]",
        "BUG: MAX_LOCKDEP_CHAINS too low!",
        "WARNING: suspicious RCU usage",
        "rcu: INFO: rcu_sched self-detected stall on CPU",
        "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 1-... }",
        "BUG: sleeping function called from invalid context at kernel/locking/mutex.c:585",
        "BUG: scheduling while atomic: steady-vmm/71/0x00000002",
        "BUG: using smp_processor_id() in preemptible [00000000] code: steady-vmm/71",
        "BUG: KFENCE: use-after-free read in kvm_destroy_vm+0x1/0x2",
        "BUG: Bad page state in process steady-vmm  pfn:1234",
        "BUG kmalloc-64 (Not tainted): Poison overwritten",
        "ODEBUG: activate active (active state 0) object: 00000000 object type: timer_list",
        "WARNING: CPU: 1 PID: 71 at mm/rmap.c:1234 folio_add_anon_rmap_ptes+0x1/0x2",
        "kernel BUG at mm/huge_memory.c:3170!",
        "page dumped because: VM_BUG_ON_PAGE(PageTail(page))",
        "list_add corruption. next->prev should be prev (1), but was 2. (next=3).",
        "list_del corruption, 0000000000000001->next is LIST_POISON1 (2)",
        "refcount_t: underflow; use-after-free.",
        "INFO: task steady-vmm:71 blocked for more than 120 seconds.",
        "watchdog: BUG: soft lockup - CPU#1 stuck for 22s! [steady-vmm:71]",
        "BUG: workqueue lockup - pool cpus=0 node=0 flags=0x0 nice=0 stuck for 31s!",
    ];

    #[test]
    fn each_complaint_is_found_bare_and_behind_its_time_stamp() {
        for text in COMPLAINTS {
            assert_eq!(complaint(text), Some(text));
            let on_console = format!("[   21.867513] {text}\r");
            assert_eq!(complaint(&on_console), Some(text), "{on_console}");
        }
    }

    #[test]
    fn every_beginning_is_that_of_a_line_that_a_kernel_prints() {
        let more = [
            "list_add double add: new=1, prev=2, next=3.",
            "INFO: trying to register non-static key.",
            "INFO: lockdep is turned off.",
            "DEBUG_LOCKS_WARN_ON(1)",
            "INFO: rcu_tasks detected stalls on tasks:",
            "watchdog: CPU1: Watchdog detected hard LOCKUP on cpu 1",
            "Oops: 0002 [#1] PREEMPT SMP",
            "general protection fault, probably for non-canonical address 0x1: 0000 [#1] SMP",
        ];
        let lines: Vec<&str> = COMPLAINTS.into_iter().chain(more).collect();
        for word in BEGINNINGS {
            assert!(lines.iter().any(|line| line.starts_with(word)), "{word}");
        }
    }

    #[test]
    fn what_firmware_and_drivers_lack_is_no_complaint() {
        for line in [
            "[    0.010348] ACPI BIOS Error (bug): A valid RSDP was not found",
            "[    0.121551] [Firmware Bug]: TSC_DEADLINE disabled due to Errata",
            "[    0.160117] kvm_intel: VMX not supported by CPU 0",
            "no stamp: BUG: here",
            "[ not a stamp ] BUG: here",
            "",
        ] {
            assert_eq!(complaint(line), None, "{line}");
        }
    }
}
