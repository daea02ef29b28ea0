// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which wait a stack of a kernel's log is in, by the names of its functions, innermost first.
//! Frames of the interrupt that printed it, and those that the kernel itself doubts (`?`), do not
//! count.

use steady_diagnose::CauseId;

/// Frames that are kept.
const FRAMES: usize = 48;

/// A stack as it is read.
#[derive(Debug, Clone, Default)]
pub(super) struct Stack {
    /// Names of functions, and whether each is KVM's own.
    frames: Vec<(String, bool)>,
    in_interrupt: bool,
    /// It stopped in a program.
    in_program: bool,
    /// Doubted frames and those of the interrupt: they show who printed the stack.
    pub printers: Vec<String>,
}

/// What a line adds to a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Added {
    /// Nothing: it is another line.
    Nothing,
    /// The place where the CPU was.
    Place,
    /// A frame, or a mark between frames.
    Frame,
}

/// `name` of `name+0x11e/0x4f0`.
fn function(word: &str) -> Option<&str> {
    let (name, offset) = word.split_once("+0x")?;
    let name = name
        .trim_start_matches("0010:")
        .trim_start_matches(['[', '(']);
    let named = name
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || b"_.$".contains(&byte));
    let first = name.bytes().next()?;
    let offset = offset.bytes().next()?.is_ascii_hexdigit();
    (named && offset && !first.is_ascii_digit()).then_some(name)
}

/// Without what compilers add: `.constprop.0`, `.isra.5`, `.cold`.
fn plain(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

impl Stack {
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty() && !self.in_program
    }

    /// Whether it is that of a vCPU that halts.
    pub fn is_halt(&self) -> bool {
        let halts = |(name, _): &(String, bool)| {
            ["kvm_vcpu_block", "kvm_vcpu_halt"].contains(&name.as_str())
        };
        self.frames.iter().any(halts)
    }

    /// Whether KVM worked in it, as it does on a host alone.
    pub fn is_of_kvm(&self) -> bool {
        self.frames.iter().any(|(_, kvm)| *kvm)
    }

    /// Takes a line.
    pub fn line(&mut self, text: &str, words: &[&str]) -> Added {
        if words
            .iter()
            .any(|word| matches!(*word, "<IRQ>" | "<NMI>" | "<SOFTIRQ>"))
        {
            self.in_interrupt = true;
            return Added::Frame;
        }
        if words
            .iter()
            .any(|word| matches!(*word, "</IRQ>" | "</NMI>" | "<EOI>" | "<TASK>"))
        {
            self.in_interrupt = false;
        }
        let place = words
            .iter()
            .position(|word| matches!(*word, "RIP:" | "RIP" | "NIP" | "pc"));
        if place.is_some() && text.contains("0033:") {
            // Below a system call stands the program that made it; that is not where it stopped.
            if self.frames.is_empty() {
                self.in_program = true;
            }
            return Added::Place;
        }
        let Some(at) = words.iter().position(|word| function(word).is_some()) else {
            let head = text.contains("Call Trace:") || text.contains("Call trace:");
            return if head { Added::Frame } else { Added::Nothing };
        };
        let name = plain(function(words[at]).unwrap_or_default()).to_owned();
        let doubted = at > 0 && words[at - 1] == "?";
        if doubted || (self.in_interrupt && place.is_none()) {
            if self.printers.len() < FRAMES {
                self.printers.push(name);
            }
            return Added::Frame;
        }
        let kvm = words[at..]
            .iter()
            .any(|word| matches!(*word, "[kvm]" | "[kvm_intel]" | "[kvm_amd]"));
        let again = self.frames.first().is_some_and(|(first, _)| *first == name) && place.is_some();
        if self.frames.len() < FRAMES && !again {
            self.frames.push((name, kvm));
        }
        if place.is_some() {
            Added::Place
        } else {
            Added::Frame
        }
    }

    /// The cause that the stack shows, the function that does, and the one that called for it.
    pub fn cause(&self, asleep: bool) -> (CauseId, Option<String>, Option<String>) {
        if self.frames.is_empty() {
            let cause = if self.in_program {
                CauseId::CpuStoodStill
            } else {
                CauseId::NoStack
            };
            return (cause, None, None);
        }
        for (at, (name, _)) in self.frames.iter().enumerate() {
            let Some(cause) = of_function(name) else {
                continue;
            };
            let callers = &self.frames[at + 1..];
            if cause != CauseId::WaitsForIpi {
                let caller = callers
                    .iter()
                    .find(|(caller, _)| of_function(caller) != Some(cause));
                return (
                    cause,
                    Some(name.clone()),
                    caller.map(|(caller, _)| caller.clone()),
                );
            }
            let flush = self.frames.iter().find(|(caller, _)| is_flush(caller));
            if let Some((flush, _)) = flush {
                return (
                    CauseId::WaitsForShootdown,
                    Some(name.clone()),
                    Some(flush.clone()),
                );
            }
            let caller = callers
                .iter()
                .find(|(caller, _)| of_function(caller).is_none());
            return (
                cause,
                Some(name.clone()),
                caller.map(|(caller, _)| caller.clone()),
            );
        }
        let of_kvm = self.frames.iter().find(|(_, kvm)| *kvm);
        if let Some((name, _)) = of_kvm {
            return (CauseId::KvmWork, Some(name.clone()), None);
        }
        let cause = if asleep {
            CauseId::WaitsForOwner
        } else {
            CauseId::KernelWork
        };
        let awake = self
            .frames
            .iter()
            .find(|(name, _)| !name.contains("schedule"));
        let (name, _) = awake.unwrap_or(&self.frames[0]);
        (cause, Some(name.clone()), None)
    }
}

/// Whether it is one of an NFS client.
pub(super) fn is_of_nfs(name: &str) -> bool {
    ["rpc_", "__rpc_", "nfs"]
        .iter()
        .any(|begin| name.starts_with(begin))
}

fn is_flush(name: &str) -> bool {
    let parts = [
        "flush_tlb",
        "tlbbatch_flush",
        "ptep_clear_flush",
        "tlb_flush",
        "tlb_finish_mmu",
    ];
    parts.iter().any(|part| name.contains(part))
}

/// Beginnings of names of functions, and what a CPU in them waits for.
const WAITS: [(CauseId, &str); 6] = [
    (
        CauseId::WaitsForIpi,
        "smp_call_function csd_lock_wait generic_exec_single on_each_cpu multi_cpu_stop \
         stop_machine stop_one_cpu text_poke_sync membarrier_ cpu_stop_queue",
    ),
    (
        CauseId::WaitsForLock,
        "native_queued_spin_lock __pv_queued_spin_lock queued_spin_lock queued_write_lock \
         queued_read_lock _raw_spin_lock _raw_read_lock _raw_write_lock __ticket_spin_lock \
         ticket_spin_lock kvm_wait pv_wait osq_lock rwsem_spin_on_owner mutex_spin_on_owner \
         rwsem_optimistic_spin mcs_spin_lock",
    ),
    (
        CauseId::WaitsForIo,
        "io_schedule wait_on_page_bit folio_wait_bit blk_ submit_bio_wait jbd2_ xfs_buf_ nfs_ \
         nfs4_ rpc_ __rpc_ \
         bit_wait_io wait_on_buffer __wait_on_buffer wbt_wait rq_qos_wait blkdev_",
    ),
    (
        CauseId::WaitsForOwner,
        "mutex_lock __mutex_lock rwsem_down_ down_read down_write __down rt_mutex_ futex_ \
         wait_for_completion __wait_for_common flush_work synchronize_rcu wait_rcu_gp \
         __wait_rcu_gp",
    ),
    (
        CauseId::TimerWork,
        "delay_tsc __delay __const_udelay hrtimer_ __hrtimer run_timer_ __run_timers tick_ \
         read_hpet acpi_pm_read ktime_get i8253_read",
    ),
    (
        CauseId::CpuStoodStill,
        "default_idle native_safe_halt pv_native_safe_halt mwait_idle intel_idle acpi_idle \
         acpi_safe_halt cpuidle_ do_idle cpu_idle native_halt arch_cpu_idle cpu_do_idle \
         poll_idle amd_e400_idle",
    ),
];

fn of_function(name: &str) -> Option<CauseId> {
    let begins = |names: &str| names.split(' ').any(|known| name.starts_with(known));
    let matched = WAITS.iter().find(|(_, names)| begins(names));
    matched.map(|(cause, _)| *cause)
}
