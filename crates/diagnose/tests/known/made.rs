// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Makes traces with a known answer: a host on paper, whose events are printed as ftrace prints
//! them. Nothing here asks the code under test anything; shares follow from the parameters by
//! arithmetic.

use serde::Deserialize;

/// A trace to make: what kind, and its parameters. What a kind does not need is left out.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Recipe {
    /// Which kind.
    pub what: What,
    /// vCPUs of the first VM.
    #[serde(default = "one")]
    pub vcpus: u32,
    /// Of the time of these vCPUs, how much goes, in thousandths.
    #[serde(default)]
    pub permille: u64,
    /// How long each piece of that is, in microseconds.
    #[serde(default = "slice")]
    pub slice_us: u64,
    /// Name of the thread that runs instead, or what an exit is about, as the event prints it.
    #[serde(default)]
    pub name: String,
    /// Reason of the exits.
    #[serde(default)]
    pub reason: String,
}

fn one() -> u32 {
    1
}

fn slice() -> u64 {
    3_000
}

/// Kinds of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The pCPU idles while its vCPU is throttled.
    CpuMax,
    /// Another VM's vCPU takes turns on each pCPU.
    OtherVm,
    /// All vCPUs share one pCPU, and there is no other.
    OwnVm,
    /// A thread of the host takes turns.
    Thread,
    /// Softirqs keep woken vCPUs waiting.
    Softirq,
    /// Two vCPUs share a pCPU while another idles.
    Misplaced,
    /// Exits of one reason, about one thing, done by the VMM.
    UserExits,
    /// Exits of one reason, about one thing, done by KVM.
    Exits,
    /// The vCPU's thread waits uninterruptibly after exits of one reason.
    Stuck,
    /// Ticks and timers.
    Timers,
    /// The guest spins in a function (its address is the name).
    Spin,
    /// IPIs to a vCPU that is off its pCPU.
    Ipis,
    /// IPIs to a vCPU that is in its guest, each of which takes it out.
    Kicks,
    /// Idle guests.
    Idle,
    /// Busy guests that nothing disturbs.
    Busy,
    /// Exits without any event of the scheduler.
    ExitsOnly,
}

/// The length of every trace, in microseconds.
const LENGTH_US: u64 = 1_000_000;
const GUEST: &str = "0xffffffff81000010";

/// Lines with their time in microseconds.
struct Host {
    lines: Vec<(u64, String)>,
}

/// The trace's text.
pub fn text(recipe: &Recipe) -> String {
    let mut host = Host { lines: Vec::new() };
    for vcpu in 0..recipe.vcpus {
        host.make(recipe, vcpu);
    }
    host.lines.sort_by_key(|(us, _)| *us);
    host.lines.into_iter().map(|(_, line)| line).collect()
}

/// The thread of a vCPU of the first VM.
fn tid(vcpu: u32) -> u32 {
    1_000 + vcpu
}

/// Times from one to another, in steps.
fn every(from: u64, to: u64, step: u64) -> impl Iterator<Item = u64> {
    (0..)
        .map(move |at| from + at * step)
        .take_while(move |at| *at < to)
}

impl Host {
    fn make(&mut self, recipe: &Recipe, vcpu: u32) {
        let period = recipe.slice_us * 1000 / recipe.permille.clamp(1, 999);
        match recipe.what {
            What::CpuMax => self.turns(vcpu, vcpu, period, recipe.slice_us, ("swapper", 0)),
            What::OtherVm => {
                let (own, other) = (vcpu, 2_000 + vcpu);
                self.enters_once(vcpu, other, own);
                self.turns(vcpu, own, period, recipe.slice_us, ("CPU 0/KVM", other));
            }
            What::Thread => {
                let name = recipe.name.as_str();
                self.turns(vcpu, vcpu, period, recipe.slice_us, (name, 3_000));
            }
            What::OwnVm | What::Misplaced => self.shares(recipe, vcpu),
            What::Softirq => self.softirqs(vcpu, period, recipe.slice_us),
            What::UserExits | What::Exits | What::ExitsOnly => self.exits(recipe, vcpu, period),
            What::Stuck => self.stuck(recipe, vcpu, period),
            What::Timers => self.timers(vcpu, period, recipe.slice_us),
            What::Spin => self.spins(recipe, vcpu, period),
            What::Ipis => self.ipis(recipe, vcpu),
            What::Kicks => self.kicks(vcpu, period, recipe.slice_us),
            What::Idle => self.idles(vcpu),
            What::Busy => self.exits(recipe, vcpu, 4_000),
        }
    }

    fn at(&mut self, us: u64, cpu: u32, (comm, tid): (&str, u32), event: &str) {
        let us = us + LENGTH_US;
        let (s, rest) = (us / 1_000_000, us % 1_000_000);
        let line = format!("{comm:>16}-{tid} [{cpu:03}] {s}.{rest:06}: {event}\n");
        self.lines.push((us, line));
    }

    fn entry(&mut self, us: u64, cpu: u32, vcpu: u32) {
        let comm = format!("CPU {vcpu}/KVM");
        let event = format!("kvm_entry: vcpu {vcpu}, rip {GUEST}");
        self.at(us, cpu, (&comm, tid(vcpu)), &event);
    }

    fn exit(&mut self, us: u64, cpu: u32, vcpu: u32, reason: &str, rip: &str) {
        let comm = format!("CPU {vcpu}/KVM");
        let event = format!("kvm_exit: vcpu {vcpu} reason {reason} rip {rip} info1 0x0 info2 0x0");
        self.at(us, cpu, (&comm, tid(vcpu)), &event);
    }

    fn own(&mut self, us: u64, cpu: u32, vcpu: u32, event: &str) {
        let comm = format!("CPU {vcpu}/KVM");
        self.at(us, cpu, (&comm, tid(vcpu)), event);
    }

    fn switch(&mut self, us: u64, cpu: u32, from: (&str, u32), state: &str, to: (&str, u32)) {
        let event = format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio=120 prev_state={state} ==> \
             next_comm={} next_pid={} next_prio=120",
            from.0, from.1, to.0, to.1
        );
        self.at(us, cpu, from, &event);
    }

    fn wakes(&mut self, us: u64, cpu: u32, waker: (&str, u32), vcpu: u32) {
        let event = format!(
            "sched_wakeup: comm=CPU {vcpu}/KVM pid={} prio=120 target_cpu={cpu:03}",
            tid(vcpu)
        );
        self.at(us, cpu, waker, &event);
    }

    /// A thread of another VM shows that it is a vCPU, after the first VM and on a pCPU of its own.
    fn enters_once(&mut self, cpu: u32, thread: u32, vcpu: u32) {
        let event = format!("kvm_entry: vcpu {vcpu}, rip {GUEST}");
        self.at(4, cpu + 16, ("CPU 0/KVM", thread), &event);
        let event =
            format!("kvm_exit: vcpu {vcpu} reason EXTERNAL_INTERRUPT rip {GUEST} info1 0x0");
        self.at(5, cpu + 16, ("CPU 0/KVM", thread), &event);
    }

    /// In each period the vCPU runs, is interrupted, and another runs for a slice.
    fn turns(&mut self, cpu: u32, vcpu: u32, period: u64, slice: u64, other: (&str, u32)) {
        let comm = format!("CPU {vcpu}/KVM");
        let own = (comm.as_str(), tid(vcpu));
        for begin in every(2, LENGTH_US - period, period) {
            let off = begin + period - slice;
            self.entry(begin, cpu, vcpu);
            self.exit(off, cpu, vcpu, "EXTERNAL_INTERRUPT", GUEST);
            self.switch(off, cpu, own, "R", other);
            self.switch(begin + period, cpu, other, "S", own);
        }
    }

    /// All vCPUs take turns on pCPU 0; where they are misplaced, pCPU 1 goes idle first.
    fn shares(&mut self, recipe: &Recipe, vcpu: u32) {
        let (vcpus, slice) = (u64::from(recipe.vcpus), recipe.slice_us);
        if recipe.what == What::Misplaced && vcpu == 0 {
            self.switch(0, 1, ("init", 1), "S", ("swapper", 0));
        }
        let own = format!("CPU {vcpu}/KVM");
        let next = (vcpu + 1) % recipe.vcpus;
        let next_comm = format!("CPU {next}/KVM");
        let begin = u64::from(vcpu) * slice;
        for at in every(begin, LENGTH_US - slice, slice * vcpus) {
            self.entry(at + 1, 0, vcpu);
            self.exit(at + slice, 0, vcpu, "EXTERNAL_INTERRUPT", GUEST);
            let to = (next_comm.as_str(), tid(next));
            self.switch(at + slice, 0, (&own, tid(vcpu)), "R", to);
        }
    }

    /// A vCPU halts, is woken by an interrupt, and waits until a softirq is over.
    fn softirqs(&mut self, vcpu: u32, period: u64, slice: u64) {
        let comm = format!("CPU {vcpu}/KVM");
        let (own, idle) = ((comm.as_str(), tid(vcpu)), ("swapper", 0));
        for at in every(0, LENGTH_US - period, period) {
            self.entry(at, vcpu, vcpu);
            let halts = at + period - slice - 40;
            self.exit(halts, vcpu, vcpu, "HLT", GUEST);
            self.switch(halts + 1, vcpu, own, "S", idle);
            let woken = at + period - slice;
            self.at(woken, vcpu, idle, "softirq_entry: vec=3 [action=NET_RX]");
            self.wakes(woken, vcpu, idle, vcpu);
            self.at(
                at + period - 1,
                vcpu,
                idle,
                "softirq_exit: vec=3 [action=NET_RX]",
            );
            self.switch(at + period - 1, vcpu, idle, "R", own);
        }
    }

    /// In each period one exit that takes a slice.
    fn exits(&mut self, recipe: &Recipe, vcpu: u32, period: u64) {
        let busy = recipe.what == What::Busy;
        let slice = if busy { 4 } else { recipe.slice_us };
        let reason = if busy { "CPUID" } else { &recipe.reason };
        let comm = format!("CPU {vcpu}/KVM");
        if recipe.what != What::ExitsOnly {
            self.switch(0, vcpu, ("init", 1), "S", (&comm, tid(vcpu)));
        }
        for at in every(1, LENGTH_US - period, period) {
            self.entry(at, vcpu, vcpu);
            let left = at + period - slice;
            self.exit(left, vcpu, vcpu, reason, GUEST);
            if !recipe.name.is_empty() {
                self.own(left, vcpu, vcpu, &recipe.name);
            }
            if recipe.what == What::UserExits {
                self.own(
                    left + 1,
                    vcpu,
                    vcpu,
                    "kvm_userspace_exit: reason KVM_EXIT_IO (2)",
                );
            }
        }
    }

    /// In each period an exit, after which the thread waits uninterruptibly for a slice.
    fn stuck(&mut self, recipe: &Recipe, vcpu: u32, period: u64) {
        let comm = format!("CPU {vcpu}/KVM");
        let (own, idle) = ((comm.as_str(), tid(vcpu)), ("swapper", 0));
        for at in every(0, LENGTH_US - period, period) {
            self.entry(at, vcpu, vcpu);
            let left = at + period - recipe.slice_us - 4;
            self.exit(left, vcpu, vcpu, &recipe.reason, GUEST);
            self.switch(left + 1, vcpu, own, "D", idle);
            let back = left + 1 + recipe.slice_us;
            self.wakes(back, vcpu, idle, vcpu);
            self.switch(back + 1, vcpu, idle, "R", own);
        }
    }

    /// In each period the guest arms its timer, which takes a slice, and it expires.
    fn timers(&mut self, vcpu: u32, period: u64, slice: u64) {
        for at in every(0, LENGTH_US - period, period) {
            self.entry(at, vcpu, vcpu);
            let left = at + period - 2 * slice;
            self.exit(left, vcpu, vcpu, "MSR_WRITE", GUEST);
            self.own(left, vcpu, vcpu, "kvm_msr: msr_write 6e0 = 0x1000");
            self.entry(left + slice, vcpu, vcpu);
            self.exit(left + slice, vcpu, vcpu, "PREEMPTION_TIMER", GUEST);
        }
    }

    /// In each period the guest spins for a slice, and leaves with a pause-loop exit.
    fn spins(&mut self, recipe: &Recipe, vcpu: u32, period: u64) {
        for at in every(0, LENGTH_US - period, period) {
            let spin = at + period - recipe.slice_us;
            self.exit(spin - 2, vcpu, vcpu, "CPUID", GUEST);
            self.entry(spin - 1, vcpu, vcpu);
            self.exit(
                at + period - 2,
                vcpu,
                vcpu,
                "PAUSE_INSTRUCTION",
                &recipe.name,
            );
            self.entry(at + period - 1, vcpu, vcpu);
        }
    }

    /// vCPU 0 sends IPIs to vCPU 1 just after that one went off its pCPU, which idles not.
    fn ipis(&mut self, recipe: &Recipe, vcpu: u32) {
        let (slice, period) = (recipe.slice_us, 10_000);
        if vcpu == 1 {
            return self.turns(1, 1, period, slice, ("backup", 3_000));
        }
        self.switch(0, 0, ("init", 1), "S", ("CPU 0/KVM", tid(0)));
        for at in every(2, LENGTH_US - period, period) {
            self.entry(at, 0, 0);
            let sends = at + period - slice + 10;
            self.exit(sends, 0, 0, "APIC_WRITE", GUEST);
            let event = "kvm_apic_accept_irq: apicid 1 vec 252 (Fixed|edge)";
            self.own(sends, 0, 0, event);
            self.entry(sends + 2, 0, 0);
            self.exit(at + period - 1, 0, 0, "CPUID", GUEST);
        }
    }

    /// In each period vCPU 0 sends an IPI to vCPU 1, which an interrupt takes out of its guest for
    /// a slice.
    fn kicks(&mut self, vcpu: u32, period: u64, slice: u64) {
        self.switch(
            0,
            vcpu,
            ("init", 1),
            "S",
            (&format!("CPU {vcpu}/KVM"), tid(vcpu)),
        );
        for at in every(2, LENGTH_US - period, period) {
            self.entry(at, vcpu, vcpu);
            let sends = at + period - slice - 10;
            if vcpu == 0 {
                self.exit(sends, 0, 0, "APIC_WRITE", GUEST);
                let event = "kvm_apic_accept_irq: apicid 1 vec 252 (Fixed|edge)";
                self.own(sends, 0, 0, event);
                self.entry(sends + 2, 0, 0);
                self.exit(at + period - 1, 0, 0, "CPUID", GUEST);
            } else {
                self.exit(at + period - slice, 1, 1, "EXTERNAL_INTERRUPT", GUEST);
            }
        }
    }

    /// The guest wakes for a moment a hundred times a second.
    fn idles(&mut self, vcpu: u32) {
        let comm = format!("CPU {vcpu}/KVM");
        let (own, idle) = ((comm.as_str(), tid(vcpu)), ("swapper", 0));
        for at in every(0, LENGTH_US - 10_000, 10_000) {
            self.entry(at, vcpu, vcpu);
            self.exit(at + 60, vcpu, vcpu, "HLT", GUEST);
            self.switch(at + 62, vcpu, own, "S", idle);
            self.wakes(at + 9_990, vcpu, idle, vcpu);
            self.switch(at + 9_995, vcpu, idle, "R", own);
        }
    }
}
