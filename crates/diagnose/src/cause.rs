// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Why a guest's kernel spins, by the function that does.
//!
//! The first three causes are those of the PLE study: waiting for an IPI to be taken, for a
//! spinlock, for time to pass. Its section 4.2 names `smp_call_function_many`,
//! `native_queued_spin_lock_slowpath` and `delay_tsc`; the talk on Strict Boost and Debooster adds
//! the reader-writer locks and `try_to_wake_up`.

use serde::{Deserialize, Serialize};

/// A cause.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// Other vCPUs have to take an IPI: shootdowns for the most part.
    IpiWait,
    /// Another vCPU holds a spinlock.
    Spinlock,
    /// Another vCPU holds a lock of another kind, or has to finish what it does.
    OtherLock,
    /// A time has to pass.
    TimedDelay,
    /// A program spins. Intel's pause-loop exiting never shows it, AMD's does.
    UserSpin,
    /// The function is unknown, or waits for something unknown.
    Unknown,
}

impl Cause {
    /// All causes.
    pub const ALL: [Self; 6] = [
        Self::IpiWait,
        Self::Spinlock,
        Self::OtherLock,
        Self::TimedDelay,
        Self::UserSpin,
        Self::Unknown,
    ];

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::IpiWait => "IPI wait",
            Self::Spinlock => "spinlock",
            Self::OtherLock => "other lock",
            Self::TimedDelay => "timed delay",
            Self::UserSpin => "user program",
            Self::Unknown => "unknown",
        }
    }
}

/// Beginnings of names of functions, Linux 3.10 to 6.12.
const BEGINNINGS: [(Cause, &[&str]); 4] = [
    (
        Cause::IpiWait,
        &[
            "smp_call_function",
            "generic_exec_single",
            "csd_lock_wait",
            "__csd_lock_wait",
            "on_each_cpu",
            "flush_tlb_multi",
            "native_flush_tlb_multi",
            "native_flush_tlb_others",
            "kvm_flush_tlb_multi",
            "flush_tlb_others",
            "native_apic_wait_icr_idle",
            "native_apic_icr_write",
            "text_poke",
        ],
    ),
    (
        Cause::Spinlock,
        &[
            "native_queued_spin_lock_slowpath",
            "queued_spin_lock_slowpath",
            "__pv_queued_spin_lock_slowpath",
            "_raw_spin_lock",
            "_raw_spin_trylock",
            "virt_spin_lock",
            "ticket_spin_lock",
            "__ticket_spin_lock",
            "pv_wait",
            "kvm_wait",
        ],
    ),
    (
        Cause::OtherLock,
        &[
            "queued_read_lock_slowpath",
            "queued_write_lock_slowpath",
            "_raw_read_lock",
            "_raw_write_lock",
            "osq_lock",
            "mutex_spin_on_owner",
            "__mutex_lock",
            "mutex_lock",
            "rwsem_",
            "down_",
            "__down",
            "rt_mutex",
            "try_to_wake_up",
            "task_rq_lock",
            "__task_rq_lock",
            "wait_task_inactive",
            "bit_spin",
            "__bit_spin",
            "hrtimer_cancel_wait_running",
            "hrtimer_try_to_cancel",
            "timer_delete_sync",
            "del_timer_sync",
            "__seqcount",
            "ktime_get",
            "cpuhp_",
            "stop_machine",
            "multi_cpu_stop",
        ],
    ),
    (
        Cause::TimedDelay,
        &[
            "delay_tsc",
            "delay_loop",
            "delay_halt",
            "__delay",
            "__udelay",
            "__ndelay",
            "__const_udelay",
            "native_calibrate",
            "pit_",
        ],
    ),
];

/// The cause of spinning in a function of the guest's kernel.
#[must_use]
pub fn cause_of(function: &str) -> Cause {
    let fits = |beginnings: &[&str]| beginnings.iter().any(|each| function.starts_with(each));
    let row = BEGINNINGS.iter().find(|(_, beginnings)| fits(beginnings));
    row.map_or(Cause::Unknown, |&(cause, _)| cause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_functions_that_the_study_and_the_talk_name_have_their_causes() {
        let expected = [
            ("smp_call_function_many", Cause::IpiWait),
            ("smp_call_function_many_cond", Cause::IpiWait),
            ("smp_call_function_single", Cause::IpiWait),
            ("native_queued_spin_lock_slowpath", Cause::Spinlock),
            ("queued_write_lock_slowpath", Cause::OtherLock),
            ("queued_read_lock_slowpath", Cause::OtherLock),
            ("try_to_wake_up", Cause::OtherLock),
            ("delay_tsc", Cause::TimedDelay),
            ("vfs_read", Cause::Unknown),
        ];
        for (function, cause) in expected {
            assert_eq!(cause_of(function), cause, "{function}");
        }
    }
}
