// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where guest time goes: a guest RIP to one of five classes, by the symbols of the guest's kernel.
//!
//! The classes are those of the Shoot4U paper's Figure 2 (`k:tlb`, `k:lock`, `k:other`, `u:*`) and
//! idle. Waiting in `smp_call_function_many_cond` is shown as a shootdown, since nearly all such
//! calls of the workloads are; what else calls it (membarrier, for one) is in it.

use std::path::Path;

use crate::error::LabError;

/// A class of guest time, as `guest_time.<class>` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Sending, taking and waiting for TLB shootdowns.
    Shootdown,
    /// Waiting for spinlocks, mutexes and semaphores.
    Lock,
    /// The rest of the kernel.
    Other,
    /// User mode.
    User,
    /// The idle loop.
    Idle,
}

impl Class {
    /// All classes.
    pub const ALL: [Self; 5] = [
        Self::Shootdown,
        Self::Lock,
        Self::Other,
        Self::User,
        Self::Idle,
    ];

    /// The word of the metric's name.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Shootdown => "shootdown",
            Self::Lock => "lock",
            Self::Other => "other",
            Self::User => "user",
            Self::Idle => "idle",
        }
    }
}

/// Lowest kernel address of x86-64 with four-level page tables.
const KERNEL_FROM: u64 = 0xffff_8000_0000_0000;

/// Beginnings of the names of functions, by class. Names of Linux 6.12.
const BEGINNINGS: [(Class, &[&str]); 3] = [
    (
        Class::Shootdown,
        &[
            "smp_call_function",
            "generic_smp_call_function",
            "__flush_smp_call_function",
            "flush_smp_call_function",
            "__sysvec_call_function",
            "sysvec_call_function",
            "asm_sysvec_call_function",
            "native_send_call_func",
            "arch_send_call_function",
            "flush_tlb",
            "native_flush_tlb",
            "kvm_flush_tlb",
            "arch_tlbbatch_flush",
            "tlb_",
            "should_flush_tlb",
            "kvm_smp_send_call_func",
            "kvm_send_ipi",
            "__send_ipi_mask",
            "__x2apic_send_IPI",
            "x2apic_send_IPI",
            "on_each_cpu",
        ],
    ),
    (
        Class::Lock,
        &[
            "native_queued_spin_lock",
            "__pv_queued_spin_lock",
            "pv_wait",
            "pv_kick",
            "kvm_wait",
            "kvm_kick",
            "queued_read_lock",
            "queued_write_lock",
            "osq_",
            "mutex_spin",
            "__mutex",
            "mutex_lock",
            "mutex_unlock",
            "rwsem_",
            "down_read",
            "down_write",
            "up_read",
            "up_write",
            "_raw_spin_lock",
            "_raw_read_lock",
            "_raw_write_lock",
            "__down",
            "rtmutex",
            "rt_mutex",
        ],
    ),
    (
        Class::Idle,
        &[
            "default_idle",
            "pv_native_safe_halt",
            "native_safe_halt",
            "cpu_idle",
            "do_idle",
            "cpuidle_",
            "default_enter_idle",
            "poll_idle",
        ],
    ),
];

/// The text symbols of a kernel.
#[derive(Debug, Clone)]
pub struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Reads a `System.map`.
    ///
    /// # Errors
    /// [`LabError::Artifact`] if it cannot be read or holds no text symbols.
    pub fn load(path: &Path) -> Result<Self, LabError> {
        let text =
            std::fs::read_to_string(path).map_err(|error| LabError::io("read", path, error))?;
        let symbols = Self::parse(&text);
        if symbols.0.is_empty() {
            let error = std::io::Error::new(
                std::io::ErrorKind::InvalidData,
                "it holds no text symbols; expected lines like `ffffffff81000000 T _text`",
            );
            return Err(LabError::io("use", path, error));
        }
        Ok(symbols)
    }

    fn parse(text: &str) -> Self {
        let mut symbols: Vec<(u64, String)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let is_text = matches!(words.next()?, "t" | "T" | "w" | "W");
                is_text.then_some((address, words.next()?.to_owned()))
            })
            .collect();
        symbols.sort();
        Self(symbols)
    }

    /// The function that a kernel address is in.
    #[must_use]
    pub fn name(&self, address: u64) -> Option<&str> {
        let after = self.0.partition_point(|&(start, _)| start <= address);
        self.0[..after].last().map(|(_, name)| name.as_str())
    }

    /// The class of a guest RIP.
    #[must_use]
    pub fn class(&self, rip: u64) -> Class {
        if rip < KERNEL_FROM {
            return Class::User;
        }
        let name = self.name(rip).unwrap_or_default();
        let fits = |beginnings: &[&str]| {
            beginnings
                .iter()
                .any(|beginning| name.starts_with(beginning))
        };
        BEGINNINGS
            .iter()
            .find(|(_, beginnings)| fits(beginnings))
            .map_or(Class::Other, |&(class, _)| class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Symbols {
        Symbols::parse(
            "0000000000000000 D __per_cpu_start\n\
             ffffffff81000000 T _text\n\
             ffffffff81100000 t smp_call_function_many_cond\n\
             ffffffff81100800 T native_queued_spin_lock_slowpath\n\
             ffffffff81100a00 T vfs_read\n\
             ffffffff81100b00 t pv_native_safe_halt\n\
             ffffffff81200000 d not_code\n",
        )
    }

    #[test]
    fn an_address_belongs_to_the_function_that_starts_at_or_below_it() {
        assert_eq!(
            symbols().name(0xffff_ffff_8110_0000),
            Some("smp_call_function_many_cond")
        );
        assert_eq!(
            symbols().name(0xffff_ffff_8110_07ff),
            Some("smp_call_function_many_cond")
        );
        assert_eq!(symbols().name(0xffff_ffff_80ff_ffff), None);
    }

    #[test]
    fn each_kind_of_function_has_its_class() {
        let symbols = symbols();
        assert_eq!(symbols.class(0x40_1000), Class::User);
        assert_eq!(symbols.class(0xffff_ffff_8110_0123), Class::Shootdown);
        assert_eq!(symbols.class(0xffff_ffff_8110_0810), Class::Lock);
        assert_eq!(symbols.class(0xffff_ffff_8110_0a10), Class::Other);
        assert_eq!(symbols.class(0xffff_ffff_8110_0b01), Class::Idle);
    }
}
