// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Causes that a trace does not show, or refutes: each was once named with high confidence.
//!
//! Every trace is made up here, so that who ran and why is known.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod alike;
mod before;
mod hidden;
mod interrupts;
mod more;
mod order;
mod parts;
mod quota;
mod roles;
mod shared;
mod unseen;
mod whose;

use std::fmt::Write;

use steady_decode::TraceEvents;
use steady_diagnose::{
    CauseId, Confidence, Diagnoser, Diagnosis, Finding, FindingId, StepId, VcpuNote, VmNote,
    VmNotes,
};

/// A thread and for how long it runs, in microseconds.
type Run<'a> = (&'a str, i32, u64);

const IDLE: (&str, i32) = ("swapper/0", 0);
const BY_INTERRUPT: &str = "EXTERNAL_INTERRUPT";

/// Lines of ftrace.
#[derive(Default)]
struct Lines {
    text: String,
    /// The process of a thread, where lines have one.
    process: Option<fn(i32) -> i32>,
    /// Whether only what a filter on vCPUs' threads leaves is there.
    filtered: bool,
    last_us: u64,
}

impl Lines {
    fn line(&mut self, us: u64, who: (&str, i32), cpu: u32, rest: &str) {
        self.last_us = self.last_us.max(us);
        let ((comm, tid), at) = (who, (us / 1_000_000, us % 1_000_000));
        let process = self.process.map(|of| format!(" ({:>7})", of(tid)));
        let process = process.unwrap_or_default();
        let (s, us) = at;
        let line = format!("{comm:>16}-{tid:<7}{process} [{cpu:03}] d..2. {s}.{us:06}: {rest}");
        writeln!(self.text, "{line}").unwrap();
    }

    fn enter(&mut self, us: u64, vcpu: i32, cpu: u32) {
        let rest = format!("kvm_entry: vcpu {vcpu}, rip 0xffffffff81000000");
        self.line(us, (&comm(vcpu), 1001 + vcpu), cpu, &rest);
    }

    fn exit(&mut self, us: u64, vcpu: i32, cpu: u32, reason: &str) {
        let rest = format!(
            "kvm_exit: vcpu {vcpu} reason {reason} rip 0xffffffff81000000 info1 0x0 info2 0x0 \
             intr_info 0x0 error_code 0x00000000"
        );
        self.line(us, (&comm(vcpu), 1001 + vcpu), cpu, &rest);
    }

    /// A record of a vCPU's thread.
    fn of(&mut self, us: u64, vcpu: i32, rest: &str) {
        let cpu = u32::try_from(vcpu).unwrap();
        self.line(us, (&comm(vcpu), 1001 + vcpu), cpu, rest);
    }

    fn switch(&mut self, us: u64, cpu: u32, from: (&str, i32), state: char, to: (&str, i32)) {
        self.switch_at(us, cpu, (from, 120), state, (to, 120));
    }

    /// The same with priorities.
    fn switch_at(
        &mut self,
        us: u64,
        cpu: u32,
        (from, of): ((&str, i32), i16),
        state: char,
        (to, next): ((&str, i32), i16),
    ) {
        let rest = format!(
            "sched_switch: prev_comm={} prev_pid={} prev_prio={of} prev_state={state} ==> \
             next_comm={} next_pid={} next_prio={next}",
            from.0, from.1, to.0, to.1
        );
        self.line(us, from, cpu, &rest);
    }

    fn diagnosis(&self, notes: Option<VmNotes>) -> Diagnosis {
        let mut diagnoser = Diagnoser::new();
        diagnoser.notes = notes;
        self.diagnosed(diagnoser)
    }

    fn diagnosed(&self, mut diagnoser: Diagnoser<'_>) -> Diagnosis {
        let mut text = self.text.clone();
        // Elsewhere threads run that are not vCPUs'.
        if !self.filtered {
            let mut beside = Self {
                process: self.process,
                ..Self::default()
            };
            beside.switch(self.last_us, 511, ("rcu_sched", 15), 'S', ("kthreadd", 2));
            text.push_str(&beside.text);
        }
        let reader = std::io::Cursor::new(text.into_bytes());
        let mut source = steady_tracefile::open_stream(Box::new(reader), "lines").unwrap();
        let mut events = TraceEvents::new(source.as_mut());
        let read = diagnoser.trace("lines", &mut events, &mut |_, _, _| Ok(()));
        read.unwrap();
        diagnoser.finish()
    }
}

fn comm(vcpu: i32) -> String {
    format!("CPU {vcpu}/KVM")
}

/// In each turn vCPU 0 runs for `run_us`, and then waits while others run on its pCPU.
fn turns<'a>(lines: &mut Lines, run_us: u64, others: impl IntoIterator<Item = Vec<Run<'a>>>) {
    let (vcpu, mut us) = (("CPU 0/KVM", 1001), 1_000_000);
    for others in others {
        lines.enter(us, 0, 0);
        us += run_us;
        lines.exit(us - 2, 0, 0, BY_INTERRUPT);
        let mut before = (vcpu, 'R');
        for (comm, tid, runs_us) in others {
            lines.switch(us, 0, before.0, before.1, (comm, tid));
            us += runs_us;
            before = ((comm, tid), 'S');
        }
        lines.switch(us, 0, before.0, before.1, vcpu);
        us += 2;
    }
    lines.enter(us, 0, 0);
}

/// The VM's notes: its threads beside the vCPU's, and the limit of its group.
fn notes(threads: &[i32], cpu_max: Option<&str>) -> Option<VmNotes> {
    let vcpu = VcpuNote {
        number: 0,
        tid: 1001,
        cpus: None,
        cgroup: None,
        cpu_max: cpu_max.map(str::to_owned),
        cpu_weight: None,
    };
    Some(VmNotes::new(vec![VmNote {
        name: Some("web".to_owned()),
        process: 1000,
        vmm: "qemu".to_owned(),
        cgroup: None,
        threads: threads.to_vec(),
        vcpus: vec![vcpu],
    }]))
}

fn the(diagnosis: &Diagnosis, id: FindingId) -> &Finding {
    let found = diagnosis.findings.iter().find(|finding| finding.id == id);
    found.unwrap_or_else(|| panic!("{id:?} is in {:#?}", diagnosis.findings))
}

fn steps(finding: &Finding) -> Vec<StepId> {
    finding.next.iter().map(|step| step.id).collect()
}

#[test]
fn of_hundreds_of_processes_the_time_goes_to_their_name_and_not_to_the_first() {
    let build = |first: i32, count: i32| (0..count).map(move |at| ("cc1", first + at, 3_000));
    let one_wait: Vec<Run<'_>> = [("sshd", 900, 100)]
        .into_iter()
        .chain(build(2000, 300))
        .collect();
    let many_waits = (0..30).map(|turn| build(2000 + turn * 10, 10).collect());
    for waits in [vec![one_wait], many_waits.collect()] {
        let mut lines = Lines::default();
        turns(&mut lines, 10_000, waits);
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        let first = &steal.culprits[0];
        assert_eq!(
            (steal.cause, first.name.as_deref()),
            (CauseId::HostTask, Some("cc1"))
        );
        assert!(first.permille >= 990, "{first:?}");
    }
}

#[test]
fn an_idle_pcpu_beside_a_ready_vcpu_is_a_limit_only_by_the_notes() {
    let quota = Some("50000 100000");
    let (limit, other) = (CauseId::CpuMax, CauseId::IdleBeside);
    let (medium, high) = (Confidence::Medium, Confidence::High);
    // Notes, how long it runs, how long it waits, the cause, how sure.
    let cases = [
        (None, 50_000, 50_000, limit, medium),
        (notes(&[], quota), 50_000, 50_000, limit, high),
        (
            notes(&[], Some("max 100000")),
            50_000,
            50_000,
            other,
            medium,
        ),
        (notes(&[], None), 50_000, 50_000, other, medium),
        // Longer than any period, and than this one.
        (None, 50_000, 2_000_000, other, medium),
        (notes(&[], quota), 50_000, 400_000, other, medium),
        // The quota was not used up.
        (notes(&[], quota), 1_000, 99_000, other, medium),
    ];
    for (at, (notes, run_us, wait_us, cause, sure)) in cases.into_iter().enumerate() {
        let mut lines = Lines::default();
        turns(
            &mut lines,
            run_us,
            vec![vec![(IDLE.0, IDLE.1, wait_us)]; 12],
        );
        let diagnosis = lines.diagnosis(notes);
        let steal = the(&diagnosis, FindingId::Steal);
        assert_eq!((steal.cause, steal.confidence), (cause, sure), "case {at}");
        let raises = steps(steal).contains(&StepId::RaiseCpuMax);
        assert_eq!(raises, cause == limit, "case {at}");
    }
}

#[test]
fn before_a_pcpus_ring_begins_a_vcpu_may_have_run_there() {
    let waited = |idled: bool| {
        let mut lines = Lines::default();
        lines.enter(1_000_000, 0, 1);
        lines.exit(1_049_998, 0, 1, BY_INTERRUPT);
        lines.switch(1_050_000, 1, ("CPU 0/KVM", 1001), 'R', ("cc1", 900));
        lines.switch(5_040_000, 1, ("cc1", 900), 'S', ("cc1", 901));
        lines.text += "##### CPU 0 buffer started ####\n";
        if idled {
            lines.switch(5_050_000, 0, IDLE, 'R', ("CPU 0/KVM", 1001));
        }
        lines.enter(5_050_000, 0, 0);
        lines.exit(5_060_000, 0, 0, BY_INTERRUPT);
        lines.enter(5_060_010, 0, 0);
        let diagnosis = lines.diagnosis(None);
        let waits = diagnosis.traces[0].vms[0].waits.clone().unwrap();
        (waits.waited_ns, waits.unknown_ns)
    };
    assert_eq!(waited(true), (4_000_000_000, 0));
    assert_eq!(waited(false), (0, 4_000_000_000));
}

#[test]
fn what_lies_between_two_captures_or_was_left_out_is_not_known() {
    let waited = |remark: &str| {
        let mut lines = Lines::default();
        lines.enter(1_000_000, 0, 0);
        lines.exit(1_009_998, 0, 0, BY_INTERRUPT);
        lines.switch(1_010_000, 0, ("CPU 0/KVM", 1001), 'R', ("cc1", 900));
        lines.text += remark;
        lines.switch(9_010_000, 0, ("cc1", 900), 'S', ("CPU 0/KVM", 1001));
        lines.enter(9_010_000, 0, 0);
        let diagnosis = lines.diagnosis(None);
        let waits = diagnosis.traces[0].vms[0].waits.clone().unwrap();
        (waits.waited_ns, waits.unknown_ns)
    };
    assert_eq!(waited(""), (8_000_000_000, 0));
    assert_eq!(waited("# a note\n"), (8_000_000_000, 0));
    // An empty line ends a call chain.
    let chain = "\tffffffff81a2b3c4 schedule+0x24 ([kernel.kallsyms])\n\n";
    assert_eq!(waited(chain), (8_000_000_000, 0));
    let marks = [
        "[...]",
        "...",
        "[snip]",
        "--- SNIP ---",
        "[cut 2000 lines]",
        "(many lines skipped)",
        // Heads of another capture.
        "# tracer: nop\n#",
        "# captured on    : Tue Nov 25 10:12:01 2025",
        "cpus=4",
        // What stands between two captures, and a paste's empty line.
        "$ cat trace2.txt",
        "-----8<-----",
        "",
    ];
    for mark in marks {
        assert_eq!(waited(&format!("{mark}\n")), (0, 8_000_000_000), "{mark}");
    }
}

#[test]
fn a_vcpu_may_have_run_on_pcpus_of_which_there_are_no_records() {
    let head = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 99/99   #P:8\n#\n";
    for (head, sure) in [("", Confidence::High), (head, Confidence::Medium)] {
        let mut lines = Lines::default();
        lines.text += head;
        turns(
            &mut lines,
            10_000,
            vec![vec![("stress-ng", 900, 80_000)]; 12],
        );
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        assert_eq!(steal.confidence, sure, "{steal:#?}");
    }
}

#[test]
fn an_exit_whose_thread_sleeps_in_the_vmm_does_not_call_for_another_device() {
    let mut lines = Lines::default();
    lines.enter(1_000_000, 1, 1);
    for at in (1_000_000..4_000_000).step_by(100_000) {
        lines.enter(at, 0, 0);
        lines.exit(at + 10_000, 0, 0, "IO_INSTRUCTION");
        lines.of(
            at + 10_050,
            0,
            "kvm_pio: pio_write at 0xcf8 size 4 count 1 val 0x0",
        );
        lines.of(at + 10_100, 0, "kvm_userspace_exit: reason KVM_EXIT_IO (2)");
        lines.switch(at + 10_200, 0, ("CPU 0/KVM", 1001), 'S', IDLE);
        lines.exit(at + 99_000, 1, 1, BY_INTERRUPT);
        lines.of(
            at + 99_500,
            1,
            "sched_wakeup: comm=CPU 0/KVM pid=1001 prio=120 target_cpu=000",
        );
        lines.switch(at + 99_600, 0, IDLE, 'R', ("CPU 0/KVM", 1001));
        lines.enter(at + 99_990, 1, 1);
    }
    lines.enter(4_000_000, 0, 0);
    let diagnosis = lines.diagnosis(None);
    let slow = the(&diagnosis, FindingId::SlowExits);
    assert_eq!(
        (slow.cause, slow.confidence),
        (CauseId::VmmSleeps, Confidence::Medium)
    );
    assert!(!steps(slow).contains(&StepId::Virtio));
    let mut names = slow.culprits.iter().filter_map(|of| of.name.as_deref());
    assert!(names.any(|name| name == "CPU 1/KVM (1002)"), "{slow:#?}");
}

/// Exits of vCPU 0 every 100 us, each of 60 us, with these records in it.
fn exits(lines: &mut Lines, reason: &str, inside: impl Fn(u64) -> Vec<String>) {
    lines.switch(1_000_000, 3, ("b", 10), 'S', ("a", 9));
    for at in 0..2_000_u64 {
        let us = 1_000_010 + at * 100;
        lines.enter(us, 0, 0);
        lines.exit(us + 40, 0, 0, reason);
        for rest in inside(at) {
            lines.of(us + 50, 0, &rest);
        }
    }
    lines.enter(1_000_010 + 2_000 * 100, 0, 0);
}

#[test]
fn exits_for_ipis_and_for_protected_pages_are_not_the_hosts_interrupts_or_new_memory() {
    let fault = |page: u64, error: u64| {
        let address = (page << 12) + (1 << 32);
        vec![format!(
            "kvm_page_fault: vcpu 0 rip 0x1 address {address:#018x} error_code {error:#x}"
        )]
    };
    let host_irq = "irq_handler_entry: irq=30 name=eth0";
    type Inside = Box<dyn Fn(u64) -> Vec<String>>;
    let cases: [(&str, &str, Inside, CauseId, Confidence); 6] = [
        (
            "an IPI's vector is put in",
            BY_INTERRUPT,
            Box::new(|_| vec!["kvm_inj_virq: IRQ 0xfd".to_owned()]),
            CauseId::OwnIpis,
            Confidence::Medium,
        ),
        (
            "interrupts in these exits",
            BY_INTERRUPT,
            Box::new(move |_| vec![host_irq.to_owned()]),
            CauseId::HostInterrupts,
            Confidence::High,
        ),
        (
            "one interrupt anywhere",
            BY_INTERRUPT,
            Box::new(move |at| vec![host_irq.to_owned(); usize::from(at == 0)]),
            CauseId::HostInterrupts,
            Confidence::Medium,
        ),
        (
            "a page that could be read was written",
            "EPT_VIOLATION",
            Box::new(move |at| fault(at, 0x18a)),
            CauseId::WriteProtected,
            Confidence::Medium,
        ),
        (
            "a page that was not there",
            "EPT_VIOLATION",
            Box::new(move |at| fault(at, 0x182)),
            CauseId::MappingMemory,
            Confidence::Medium,
        ),
        (
            "one page again and again",
            "EPT_VIOLATION",
            Box::new(move |_| fault(7, 0x182)),
            CauseId::MappingMemory,
            Confidence::Medium,
        ),
    ];
    for (what, reason, inside, cause, sure) in cases {
        let mut lines = Lines::default();
        exits(&mut lines, reason, inside);
        let diagnosis = lines.diagnosis(None);
        let slow = the(&diagnosis, FindingId::SlowExits);
        assert_eq!((slow.cause, slow.confidence), (cause, sure), "{what}");
    }
}

#[test]
fn a_timer_armed_once_a_millisecond_is_a_tick_of_a_thousand_or_one_program() {
    let mut lines = Lines::default();
    lines.switch(1_000_000, 3, ("b", 10), 'S', ("a", 9));
    for us in (1_000_010..2_000_010).step_by(1_000) {
        lines.enter(us, 0, 0);
        lines.exit(us + 400, 0, 0, "PREEMPTION_TIMER");
        lines.enter(us + 450, 0, 0);
        lines.exit(us + 460, 0, 0, "MSR_WRITE");
        lines.of(us + 462, 0, "kvm_msr: msr_write 6e0 = 0xf4240");
        lines.enter(us + 500, 0, 0);
        lines.exit(us + 990, 0, 0, BY_INTERRUPT);
    }
    let diagnosis = lines.diagnosis(None);
    let timers = the(&diagnosis, FindingId::TimerExits);
    assert_eq!(
        (timers.cause, timers.confidence),
        (CauseId::GuestTicks, Confidence::Medium)
    );
    let asks = timers.next.iter().find(|step| step.id == StepId::GiveHz);
    assert_eq!(asks.unwrap().name.as_deref(), Some("1000"));
}

#[test]
fn a_thread_of_the_vms_own_vmm_is_not_one_of_the_host() {
    let by_process = |lines: &mut Lines| lines.process = Some(|_| 1000);
    let by_nothing = |_: &mut Lines| {};
    type Makes = fn(&mut Lines);
    let cases: [(Makes, Option<VmNotes>, CauseId); 3] = [
        (by_process, None, CauseId::OwnVmm),
        (by_nothing, notes(&[1005], None), CauseId::OwnVmm),
        (by_nothing, None, CauseId::HostTask),
    ];
    for (at, (makes, notes, cause)) in cases.into_iter().enumerate() {
        let mut lines = Lines::default();
        makes(&mut lines);
        turns(
            &mut lines,
            10_000,
            vec![vec![("IO iothread1", 1005, 15_000)]; 30],
        );
        let diagnosis = lines.diagnosis(notes);
        let steal = the(&diagnosis, FindingId::Steal);
        assert_eq!(steal.cause, cause, "case {at}");
        assert_eq!(steal.culprits[0].name.as_deref(), Some("IO iothread1"));
        let weighs = steps(steal).contains(&StepId::WeighVms);
        assert_eq!(weighs, cause == CauseId::HostTask, "case {at}");
    }
}

#[test]
fn a_kernel_thread_that_no_tool_moves_is_not_to_be_moved() {
    for (name, moves) in [
        ("idle_inject/0", false),
        ("migration/0", false),
        ("kworker/0:1", false),
        // The kernel lets no program set the pCPUs of a worker.
        ("kworker/u8:1", false),
        ("kworker/u8:2+flush-254:0", false),
        ("stress-ng", true),
        // QEMU's, when it migrates a guest, and a daemon: the kernel's have a pCPU's number.
        ("migration", true),
        ("watchdog", true),
    ] {
        let mut lines = Lines::default();
        turns(&mut lines, 10_000, vec![vec![(name, 900, 15_000)]; 30]);
        let diagnosis = lines.diagnosis(None);
        let steal = the(&diagnosis, FindingId::Steal);
        let moved = steps(steal).contains(&StepId::MoveHostTask);
        assert_eq!(moved, moves, "{name}: {:?}", steal.next);
        assert!(!steal.next.is_empty());
    }
}
