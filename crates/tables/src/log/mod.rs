// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A kernel's log, of a guest or a host, from `dmesg`, the journal, syslog or a console: what it
//! complains of, how often, how long, and in which wait the stacks behind the complaints are.
//!
//! A thread's stack alone, as `/proc/PID/stack` has it, is read too.
//!
//! Left out: complaints of devices that nothing waits for.

use std::collections::{BTreeMap, BTreeSet};

use steady_diagnose::CauseId;

use crate::kind::Kind;
use crate::table::{Fact, Line, Reader, Side, Table};

mod complaint;
mod finding;
mod stack;

use complaint::{Of, complaint};
use finding::found;
use stack::{Added, Stack};

/// Lines behind a complaint in which its stack is looked for.
const STACK_LINES: u64 = 160;
/// Letters of a line that a finding shows.
const SHOWN: usize = 140;
/// CPUs, and kinds of stacks, that are kept of each kind of complaint.
const CPUS: usize = 4096;
const STACKS: usize = 256;
/// Lines that a log without a complaint has at least.
const LINES: u64 = 5;
/// The same of one that has no other lines.
const FEW_LINES: u64 = 3;

type Wait = (CauseId, Option<String>, Option<String>);

#[derive(Debug, Default)]
struct Complaints {
    times: u64,
    cpus: BTreeSet<u32>,
    longest_ns: Option<u64>,
    first: Option<(u64, String)>,
    waits: BTreeMap<Wait, u64>,
}

/// Reads the log.
#[derive(Debug, Default)]
pub(crate) struct Log {
    by_kind: BTreeMap<Of, Complaints>,
    /// The complaint whose stack comes, where it began, and the stack. A log that was cut may have
    /// a stack alone.
    open: Option<(Option<Of>, u64, String, Stack)>,
    lines: u64,
    of_kernel: u64,
    /// Lines of a thread's stack, as `/proc/PID/stack` has it, and that stack.
    of_stack: u64,
    stack: Stack,
    guest: bool,
    host: bool,
    /// What the machine calls itself, in syslog and the journal.
    machine: Option<String>,
}

/// The machine's name in a line such as `Oct 24 01:36:33 NAME kernel: …`.
fn machine_of(text: &str) -> Option<&str> {
    let (before, _) = text.split_once(" kernel: ")?;
    let name = before.rsplit(' ').next()?;
    let is_name = name.starts_with(|letter: char| letter.is_ascii_alphabetic());
    (before.contains(':') && is_name).then_some(name)
}

/// Whether a line looks like the kernel's: `[ 12.345678] …`, `… kernel: …`, `<4>[…`.
fn is_kernel(text: &str) -> bool {
    if text.contains(" kernel: ") {
        return true;
    }
    let text = text
        .trim_start()
        .trim_start_matches(|letter: char| "<0123456789>".contains(letter));
    let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) else {
        return false;
    };
    let time = inner.0.trim();
    time.contains('.')
        && time
            .bytes()
            .all(|byte| byte.is_ascii_digit() || byte == b'.')
}

impl Log {
    fn machine(&mut self, text: &str) {
        self.host |= text.contains(" Comm: CPU ") && text.contains("/KVM");
        if text.contains("Hypervisor detected:") || text.contains("kvm-clock") {
            self.guest = true;
        }
        if let Some((_, name)) = text.split_once("Hardware name: ") {
            let guests = [
                "QEMU",
                "KVM",
                "OpenStack",
                "Amazon EC2",
                "Google",
                "CloudStack",
                "Alibaba Cloud",
                "Bochs",
                "oVirt",
                "RHEV",
                "Virtual Machine",
                "DigitalOcean",
                "Nutanix",
                "Xen",
                "VMware",
                "VirtualBox",
                "Parallels",
            ];
            let guest = guests.iter().any(|guest| name.contains(guest));
            self.guest |= guest;
            self.host |= !guest;
        }
    }

    /// Ends a stack: counts it under its complaint.
    fn close(&mut self) {
        let Some((of, number, text, stack)) = self.open.take() else {
            return;
        };
        let printed = |name: &str| stack.printers.iter().any(|printer| printer.contains(name));
        // Without its head the printer says what it was.
        let anonymous = || match () {
            () if printed("watchdog_timer_fn") || printed("watchdog_hrtimer") => {
                Some(Of::SoftLockup)
            }
            () if printed("rcu_check_gp_kthread") || printed("rcu_sched_clock_irq") => {
                Some(Of::RcuStall)
            }
            () => None,
        };
        let Some(of_stack) = of.or_else(anonymous) else {
            return;
        };
        let asleep = of_stack == Of::HungTask;
        let complaints = self.by_kind.entry(of_stack).or_default();
        if of.is_none() {
            complaints.times += 1;
            complaints.first.get_or_insert((number, text));
        }
        if stack.is_empty() {
            return;
        }
        self.host |= stack.is_of_kvm();
        let wait = stack.cause(asleep);
        if complaints.waits.len() < STACKS || complaints.waits.contains_key(&wait) {
            *complaints.waits.entry(wait).or_default() += 1;
        }
    }

    /// The stack of a thread alone: where it waits, if it does not idle.
    fn alone(&mut self) {
        if self.stack.is_halt() {
            return;
        }
        let complaints = self.by_kind.entry(Of::Stack).or_default();
        complaints.times = 1;
        complaints.waits.insert(self.stack.cause(true), 1);
    }

    fn side(&self) -> Side {
        match (self.guest, self.host) {
            (true, _) => Side::Guest,
            (false, true) => Side::Host,
            (false, false) => Side::Unknown,
        }
    }
}

fn shown(text: &str) -> String {
    let shown: String = text.trim().chars().take(SHOWN).collect();
    shown.trim_end_matches([':', '.']).to_owned()
}

impl Reader for Log {
    fn is_endless(&self) -> bool {
        true
    }

    fn line(&mut self, line: &Line<'_>) {
        let text = line.text;
        if text.is_empty() {
            return;
        }
        self.lines += 1;
        if text.trim_start().starts_with("[<") && self.of_stack < STACK_LINES {
            self.of_stack += u64::from(self.stack.line(text, line.words) == Added::Frame);
        }
        self.of_kernel += u64::from(is_kernel(text));
        if self.machine.is_none() {
            self.machine = machine_of(text).map(str::to_owned);
        }
        // Other programs' logs speak of storage and memory too.
        let counts = |of: Of| !of.is_of_devices() || is_kernel(text);
        if let Some(found) = complaint(text).filter(|found| counts(found.of)) {
            self.close();
            let complaints = self.by_kind.entry(found.of).or_default();
            complaints.times += 1;
            if complaints.cpus.len() < CPUS {
                complaints.cpus.extend(found.cpu);
            }
            complaints.longest_ns = complaints.longest_ns.max(found.ns);
            complaints
                .first
                .get_or_insert_with(|| (line.number, shown(text)));
            self.host |= text.contains("/KVM:") || text.contains("/KVM/") || text.contains("[qemu");
            self.open = Some((Some(found.of), line.number, String::new(), Stack::default()));
            return;
        }
        self.machine(text);
        match &mut self.open {
            Some((_, begun, _, stack)) => {
                let end = line.number.saturating_sub(*begun) > STACK_LINES;
                let before = stack.is_empty();
                let added = stack.line(text, line.words);
                // The backtrace of another CPU is another stack of the same complaint.
                let another = text.contains("NMI backtrace for cpu") && !before;
                if end || another {
                    let of = self.open.as_ref().and_then(|(of, ..)| *of);
                    self.close();
                    self.open = of
                        .filter(|_| another)
                        .map(|of| (Some(of), line.number, String::new(), Stack::default()));
                }
                let _ = added;
            }
            None => {
                let mut stack = Stack::default();
                if stack.line(text, line.words) == Added::Place {
                    self.open = Some((None, line.number, shown(text), stack));
                }
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Option<Table> {
        self.close();
        if self.by_kind.is_empty() && self.of_stack > 0 && self.of_stack + 1 >= self.lines {
            self.alone();
        }
        if self.by_kind.contains_key(&Of::HungTask) {
            self.by_kind.remove(&Of::Owned);
        }
        let whole = self.lines >= FEW_LINES && self.of_kernel == self.lines;
        let like_a_log = whole || self.lines >= LINES && self.of_kernel * 2 > self.lines;
        if self.by_kind.is_empty() && self.of_stack == 0 && !like_a_log {
            return None;
        }
        let side = self.side();
        let mut table = Table::new(Kind::KernelLog, side, self.lines);
        for (of, complaints) in &self.by_kind {
            let machine = self.machine.as_deref();
            table.findings.push(found(*of, complaints, side, machine));
        }
        // A host's own lockup does not show what its guests waited for.
        if side == Side::Guest && self.by_kind.contains_key(&Of::RcuStarved) {
            table.facts.push(Fact::Waits);
        }
        Some(table)
    }
}
