// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Causes that the model of a host can have, each with the answers that are right.

use super::host::{
    EPT_MISCONFIG, EPT_VIOLATION, EXTERNAL_INTERRUPT, HLT, Host, IO_INSTRUCTION, Recorder, Thread,
    What,
};

/// What is wrong on the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Nothing.
    Nothing,
    /// A thread of the host takes turns on a pCPU.
    HostTask,
    /// Another VM's vCPU does.
    OtherVm,
    /// Two vCPUs of the VM share a pCPU.
    OwnVm,
    /// A limit: the pCPU idles though the vCPU was switched out ready.
    Limit,
    /// One stall behind a thread of the host, under the bound of shares.
    OneStall,
    /// One wait in D state, under that bound.
    OneStuck,
    /// The VMM keeps the vCPU asleep.
    Held,
    /// D state after memory faults.
    Stuck,
    /// A vhost thread waits for its pCPU while the vCPU is halted.
    Server,
    /// Accesses to a port that the VMM answers.
    Device,
    /// The vCPU halts and is woken at once.
    Idle,
    /// The VMM collects dirty pages while the vCPU waits in its exit.
    DirtyRing,
    /// Two vCPUs share a pCPU while another idles.
    Imbalance,
    /// Nothing runs anywhere for a while.
    StoodStill,
    /// A vhost thread takes turns on the vCPU's pCPU.
    Vhost,
    /// The VMM does I/O in the vCPU's own thread, in D state.
    VmmIo,
    /// Exits in a storm, recorded without entries.
    Storm,
}

impl Cause {
    pub const ALL: [Self; 18] = [
        Self::Nothing,
        Self::HostTask,
        Self::OtherVm,
        Self::OwnVm,
        Self::Limit,
        Self::OneStall,
        Self::OneStuck,
        Self::Held,
        Self::Stuck,
        Self::Server,
        Self::Device,
        Self::Idle,
        Self::DirtyRing,
        Self::Imbalance,
        Self::StoodStill,
        Self::Vhost,
        Self::VmmIo,
        Self::Storm,
    ];

    /// Whether what such a recorder leaves out is what would show it: nothing can be found then, or
    /// less than the cause.
    pub fn is_hidden_from(self, recorder: Recorder) -> bool {
        // Who keeps a server waiting is not one of the VM's threads, and that it serves shows by a
        // wake-up.
        let servers = matches!(recorder, Recorder::OwnThreads | Recorder::NoWakeups);
        self == Self::Server && servers
    }

    /// The first finding and its cause, each way in which it may be reported.
    pub fn answers(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Self::Nothing | Self::Idle => &[],
            Self::HostTask => &[("steal", "host-task")],
            Self::OtherVm => &[
                ("steal", "other-vm"),
                ("host-overcommitted", "too-many-vcpus"),
            ],
            Self::OwnVm => &[("steal", "own-vm")],
            Self::Limit => &[("steal", "cpu-max")],
            Self::OneStall => &[("long-stall", "host-task")],
            Self::OneStuck => &[("long-stall", "memory-returns")],
            Self::Held => &[("asleep", "vmm-holds")],
            Self::Stuck => &[("uninterruptible", "memory-returns")],
            Self::Server => &[("server-waits", "host-task")],
            Self::Device => &[("slow-exits", "user-device")],
            Self::DirtyRing => &[("slow-exits", "dirty-ring")],
            Self::Imbalance => &[("steal", "imbalance")],
            Self::StoodStill => &[("host-stood-still", "stood-still")],
            // Whose it is shows by its process.
            Self::Vhost => &[("steal", "vhost"), ("steal", "own-vmm")],
            Self::VmmIo => &[("uninterruptible", "vmm-io")],
            Self::Storm => &[("exit-storm", "exit-rate")],
        }
    }
}

/// Sizes of a host and of what is wrong.
#[derive(Debug, Clone, Copy)]
pub struct Size {
    /// vCPUs of the VM.
    pub vcpus: u32,
    /// A round of turns, in microseconds.
    pub period_us: u64,
    /// Of a round, how much goes, in thousandths.
    pub permille: u64,
    /// Rounds.
    pub rounds: u64,
    /// Time between what belongs together, in nanoseconds: no two hosts are alike.
    pub jitter: u64,
}

/// The process of the VM that is looked at; its threads follow.
pub const OWN: i32 = 1000;
const OTHER: i32 = 2000;
const US: u64 = 1000;

fn own(vcpu: u32) -> Thread {
    Thread::vcpu(vcpu, OWN + 1 + vcpu.cast_signed(), OWN)
}

fn other(vcpu: u32) -> Thread {
    Thread::vcpu(vcpu, OTHER + 1 + vcpu.cast_signed(), OTHER)
}

/// Makes the host.
pub fn make(cause: Cause, size: Size) -> Host {
    let mut host = Host::default();
    for vcpu in 0..size.vcpus {
        for round in 0..size.rounds {
            let mut begin = ZERO + round * size.period_us * US + u64::from(vcpu) * 7 * US;
            if cause == Cause::StoodStill && round >= size.rounds / 4 {
                begin += STILL_NS + size.jitter % STILL_NS;
            }
            turn(&mut host, cause, size, vcpu, begin, round);
            let noisy = size.jitter % 2 == 1 || NEEDS_SWITCHES.contains(&cause);
            let noisy = noisy && cause != Cause::Storm;
            if noisy && (vcpu % 2 == 0 || !shares(cause)) && !is_once(cause, size, vcpu, round) {
                noise(&mut host, cause, size, vcpu, begin);
            }
        }
    }
    if cause == Cause::Imbalance {
        // Another pCPU goes idle and stays so.
        let (init, idle) = (Thread::new("init", 1, 1), Thread::idle(40));
        host.switch(ZERO - US, 40, &init, "S", &idle);
    }
    host
}

const ZERO: u64 = 100_000_000_000;
/// The host stands still for this long, in nanoseconds, and up to twice as long.
const STILL_NS: u64 = 400_000_000;
/// What is judged only where threads were switched.
const NEEDS_SWITCHES: [Cause; 3] = [Cause::DirtyRing, Cause::StoodStill, Cause::Nothing];

/// Whether two vCPUs of the VM share a pCPU.
fn shares(cause: Cause) -> bool {
    matches!(cause, Cause::OwnVm | Cause::Imbalance)
}

/// Whether the one stall is this round of the vCPU.
fn is_once(cause: Cause, size: Size, vcpu: u32, round: u64) -> bool {
    let once = matches!(cause, Cause::OneStall | Cause::OneStuck);
    once && vcpu == 0 && round == size.rounds / 4
}

/// In the middle of its turn the vCPU leaves its guest, and a kworker runs for a moment.
fn noise(host: &mut Host, cause: Cause, size: Size, vcpu: u32, begin: u64) {
    let (me, task) = (own(vcpu), Thread::new("kworker/0:1", 31, 31));
    let cpu = if shares(cause) { vcpu / 2 } else { vcpu };
    let runs = size.period_us * US / 1000 * (1000 - size.permille);
    let at = begin + runs / 2;
    host.exit(at - US, cpu, &me, vcpu, EXTERNAL_INTERRUPT);
    host.switch(at, cpu, &me, "R", &task);
    host.switch(at + 9 * US, cpu, &task, "I", &me);
    host.entry(at + 10 * US, cpu, &me, vcpu);
    host.waits("kworker", 9 * US);
}

/// One round of one vCPU on its pCPU.
fn turn(host: &mut Host, cause: Cause, size: Size, vcpu: u32, begin: u64, round: u64) {
    let me = own(vcpu);
    let idle = Thread::idle(vcpu);
    let period = size.period_us * US;
    let off = period / 1000 * size.permille;
    let runs = period - off;
    let (gap, end) = (size.jitter % 900 + 100, begin + period);
    let out = begin + runs;
    // The one stall is the first vCPU's, once.
    let once = is_once(cause, size, vcpu, round);
    match cause {
        Cause::HostTask => turns(
            host,
            (begin, out, end),
            vcpu,
            &Thread::new("backup", 777, 777),
        ),
        Cause::OtherVm => against(host, (begin, out, end), vcpu, gap),
        Cause::OwnVm | Cause::Imbalance => siblings(host, (begin, out, end), vcpu, gap),
        Cause::Limit => turns(host, (begin, out, end), vcpu, &idle),
        Cause::Vhost => {
            let vhost = Thread::new("vhost-1000", OWN + 50 + vcpu.cast_signed(), OWN);
            turns(host, (begin, out, end), vcpu, &vhost);
        }
        Cause::Storm => storm(host, (begin, end), vcpu, size),
        Cause::OneStall if once => {
            turns(
                host,
                (begin, begin + 10 * US, end),
                vcpu,
                &Thread::new("backup", 777, 777),
            );
        }
        Cause::OneStuck if once => stuck(host, (begin, begin + 10 * US, end), vcpu, gap),
        Cause::Stuck => stuck(host, (begin, out, end), vcpu, gap),
        Cause::VmmIo => vmm_io(host, (begin, out, end), vcpu, gap),
        Cause::Held => held(host, (begin, out, end), vcpu, gap),
        Cause::Server => server(host, (begin, out, end), vcpu, gap),
        Cause::Device => device(host, (begin, out, end), vcpu, gap),
        Cause::Idle => {
            host.entry(begin + gap, vcpu, &me, vcpu);
            host.exit(out, vcpu, &me, vcpu, HLT);
            host.switch(out + gap, vcpu, &me, "S", &idle);
            host.wake(end - 9 * US, vcpu, &idle, &me, vcpu);
            host.switch(end - 8 * US, vcpu, &idle, "R", &me);
        }
        Cause::DirtyRing => {
            host.entry(begin + gap, vcpu, &me, vcpu);
            host.exit(out, vcpu, &me, vcpu, EPT_VIOLATION);
            let (address, code) = (0x7f_c036_d000, 0x182);
            host.push(out + gap, vcpu, &me, What::Fault { address, code });
            let reason = (31, "KVM_EXIT_DIRTY_RING_FULL");
            host.push(out + 2 * gap, vcpu, &me, What::ToVmm { reason });
            host.truth.exits += end - out;
        }
        Cause::Nothing | Cause::StoodStill | Cause::OneStall | Cause::OneStuck => {
            host.entry(begin + gap, vcpu, &me, vcpu);
            host.exit(end - 5 * US, vcpu, &me, vcpu, EXTERNAL_INTERRUPT);
        }
    }
}

/// Another VM's vCPU runs on the pCPU for the rest of the period.
fn against(host: &mut Host, (begin, out, end): (u64, u64, u64), vcpu: u32, gap: u64) {
    let me = own(vcpu);
    let him = other(vcpu);
    host.entry(begin + gap, vcpu, &me, vcpu);
    host.exit(out - gap, vcpu, &me, vcpu, EXTERNAL_INTERRUPT);
    host.switch(out, vcpu, &me, "R", &him);
    host.entry(out + gap, vcpu, &him, vcpu);
    host.exit(end - gap, vcpu, &him, vcpu, EXTERNAL_INTERRUPT);
    host.switch(end, vcpu, &him, "R", &me);
    host.waits("vm", end - out);
}

/// Two vCPUs of the VM take turns on one pCPU.
fn siblings(host: &mut Host, (begin, out, end): (u64, u64, u64), vcpu: u32, gap: u64) {
    let me = own(vcpu);
    // vCPUs 2n and 2n+1 share pCPU n.
    if vcpu % 2 == 1 {
        return;
    }
    let (cpu, next) = (vcpu / 2, own(vcpu + 1));
    host.entry(begin + gap, cpu, &me, vcpu);
    host.exit(out - gap, cpu, &me, vcpu, EXTERNAL_INTERRUPT);
    host.switch(out, cpu, &me, "R", &next);
    host.entry(out + gap, cpu, &next, vcpu + 1);
    host.exit(end - gap, cpu, &next, vcpu + 1, EXTERNAL_INTERRUPT);
    host.switch(end, cpu, &next, "R", &me);
    host.waits("own", end - begin);
}

/// The VMM emulates a device until the period ends.
fn device(host: &mut Host, (begin, out, end): (u64, u64, u64), vcpu: u32, gap: u64) {
    let me = own(vcpu);
    host.entry(begin + gap, vcpu, &me, vcpu);
    host.exit(out, vcpu, &me, vcpu, IO_INSTRUCTION);
    host.push(out + gap, vcpu, &me, What::Port { port: 0x3f8 });
    let reason = (2, "KVM_EXIT_IO");
    host.push(out + 2 * gap, vcpu, &me, What::ToVmm { reason });
    host.truth.exits += end - out;
    // The scheduler was recorded too: another thread came and went for a moment.
    let task = Thread::new("rcu_sched", 15, 15);
    host.switch(begin, vcpu, &task, "S", &me);
    host.switch(begin - gap, vcpu, &me, "R", &task);
}

/// The vCPU is interrupted, and another thread runs.
fn turns(host: &mut Host, (begin, out, end): (u64, u64, u64), vcpu: u32, who: &Thread) {
    let me = own(vcpu);
    host.entry(begin + US, vcpu, &me, vcpu);
    host.exit(out - US, vcpu, &me, vcpu, EXTERNAL_INTERRUPT);
    host.switch(out, vcpu, &me, "R", who);
    host.switch(end, vcpu, who, "S", &me);
    host.waits(&who.comm, end - out);
}

fn stuck(host: &mut Host, (begin, out, end): (u64, u64, u64), vcpu: u32, gap: u64) {
    let (me, idle) = (own(vcpu), Thread::idle(vcpu));
    host.entry(begin + US, vcpu, &me, vcpu);
    host.exit(out - US, vcpu, &me, vcpu, EPT_VIOLATION);
    host.switch(out, vcpu, &me, "D", &idle);
    host.wake(end - 2 * gap, vcpu, &idle, &me, vcpu);
    host.switch(end - gap, vcpu, &idle, "R", &me);
    host.truth.stuck += end - 2 * gap - out;
    host.longest(end - 2 * gap - out);
}

/// The VMM answers an access to a port, and waits for I/O of its own meanwhile.
fn vmm_io(host: &mut Host, (begin, out, end): (u64, u64, u64), vcpu: u32, gap: u64) {
    let (me, idle) = (own(vcpu), Thread::idle(vcpu));
    host.entry(begin + US, vcpu, &me, vcpu);
    host.exit(out - 3 * US, vcpu, &me, vcpu, IO_INSTRUCTION);
    host.push(out - 2 * US, vcpu, &me, What::Port { port: 0x1f0 });
    let reason = (2, "KVM_EXIT_IO");
    host.push(out - US, vcpu, &me, What::ToVmm { reason });
    host.switch(out, vcpu, &me, "D", &idle);
    host.wake(end - 2 * gap, vcpu, &idle, &me, vcpu);
    host.switch(end - gap, vcpu, &idle, "R", &me);
    host.truth.stuck += end - 2 * gap - out;
    host.longest(end - 2 * gap - out);
}

/// Exits 2 to 14 us apart, of which no entry was recorded.
fn storm(host: &mut Host, (begin, end): (u64, u64), vcpu: u32, size: Size) {
    let (me, apart) = (own(vcpu), (2 + size.jitter % 13) * US);
    let mut at = begin;
    while at < end {
        host.exit(at, vcpu, &me, vcpu, EPT_MISCONFIG);
        at += apart;
    }
}

fn held(host: &mut Host, (begin, out, end): (u64, u64, u64), vcpu: u32, gap: u64) {
    let (me, idle) = (own(vcpu), Thread::idle(vcpu));
    let vmm = Thread::new("qemu-kvm", OWN, OWN);
    host.entry(begin + US, vcpu, &me, vcpu);
    host.exit(out - 2 * US, vcpu, &me, vcpu, EXTERNAL_INTERRUPT);
    let reason = (10, "KVM_EXIT_INTR");
    host.push(out - US, vcpu, &me, What::ToVmm { reason });
    host.switch(out, vcpu, &me, "S", &idle);
    host.wake(end - 2 * gap, vcpu + 64, &vmm, &me, vcpu);
    host.switch(end - gap, vcpu, &idle, "R", &me);
    host.truth.asleep += end - 2 * gap - out;
    host.longest(end - 2 * gap - out);
}

fn server(host: &mut Host, (begin, out, end): (u64, u64, u64), vcpu: u32, gap: u64) {
    let (me, idle) = (own(vcpu), Thread::idle(vcpu));
    let vhost = Thread::new("vhost-1000", OWN + 50 + vcpu.cast_signed(), OWN);
    let hog = Thread::new("backup", 777 + vcpu.cast_signed(), 777);
    let cpu = vcpu + 64;
    host.entry(begin + US, vcpu, &me, vcpu);
    host.exit(out - US, vcpu, &me, vcpu, HLT);
    host.switch(out, vcpu, &me, "S", &idle);
    host.wake(out + gap, cpu, &hog, &vhost, cpu);
    host.switch(end - 5 * US, cpu, &hog, "R", &vhost);
    host.wake(end - 4 * US, cpu, &vhost, &me, vcpu);
    host.switch(end - 3 * US, vcpu, &idle, "R", &me);
    host.switch(end - 2 * US, cpu, &vhost, "S", &hog);
    host.truth.served += end - 5 * US - out - gap;
    host.longest(end - 5 * US - out - gap);
}
