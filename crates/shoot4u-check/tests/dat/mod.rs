// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes events as a trace.dat of version 6, with the fields where the kernel's structures have
//! them (TP_STRUCT__entry of kvm_shoot4u:* and of kvm_entry, kvm_exit in Linux 6.12).

use std::collections::BTreeMap;
use std::fmt::Write;

use steady_shoot4u_check::{Action, Event, FlushKind, Stamped, VcpuId};

/// Event, then its fields: name, type, bytes.
type Format = (
    &'static str,
    &'static str,
    &'static [(&'static str, &'static str, usize)],
);

const FORMATS: [Format; 7] = [
    (
        "kvm",
        "kvm_entry",
        &[
            ("vcpu_id", "unsigned int", 4),
            ("rip", "unsigned long", 8),
            ("immediate_exit", "bool", 1),
        ],
    ),
    (
        "kvm",
        "kvm_exit",
        &[
            ("exit_reason", "unsigned int", 4),
            ("guest_rip", "unsigned long", 8),
            ("isa", "u32", 4),
            ("info1", "u64", 8),
            ("info2", "u64", 8),
            ("intr_info", "u32", 4),
            ("error_code", "u32", 4),
            ("vcpu_id", "unsigned int", 4),
        ],
    ),
    (
        "kvm_shoot4u",
        "kvm_shoot4u_call",
        &[
            ("call", "u64", 8),
            ("start", "u64", 8),
            ("end", "u64", 8),
            ("vm", "u32", 4),
            ("vcpu", "u32", 4),
            ("nr_targets", "u32", 4),
            ("freed", "u8", 1),
            ("stride_shift", "u8", 1),
        ],
    ),
    (
        "kvm_shoot4u",
        "kvm_shoot4u_target",
        &[
            ("call", "u64", 8),
            ("vm", "u32", 4),
            ("vcpu", "u32", 4),
            ("pcpu", "int", 4),
            ("action", "u8", 1),
        ],
    ),
    (
        "kvm_shoot4u",
        "kvm_shoot4u_invalidate",
        &[
            ("start", "u64", 8),
            ("end", "u64", 8),
            ("vm", "u32", 4),
            ("vcpu", "u32", 4),
            ("tag", "u32", 4),
            ("pcpu", "int", 4),
        ],
    ),
    (
        "kvm_shoot4u",
        "kvm_shoot4u_done",
        &[
            ("call", "u64", 8),
            ("vm", "u32", 4),
            ("vcpu", "u32", 4),
            ("left", "u32", 4),
            ("ipis", "u32", 4),
        ],
    ),
    (
        "kvm_shoot4u",
        "kvm_shoot4u_flush",
        &[
            ("vm", "u32", 4),
            ("vcpu", "u32", 4),
            ("tag", "u32", 4),
            ("pcpu", "int", 4),
            ("kind", "u8", 1),
        ],
    ),
];

/// Number of the first format.
const FIRST_ID: u16 = 500;
const PAGE: usize = 4096;

/// A trace of `cpus` CPUs. `without` leaves a field of an event out.
pub fn write(events: &[Stamped], cpus: u32, without: Option<(&str, &str)>) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing6\0\0\x08".to_vec();
    out.extend(u32::try_from(PAGE).unwrap().to_le_bytes());
    headers(&mut out);
    out.extend(0_u32.to_le_bytes());
    out.extend(2_u32.to_le_bytes());
    for system in ["kvm", "kvm_shoot4u"] {
        out.extend(format!("{system}\0").bytes());
        let own: Vec<usize> = (0..FORMATS.len())
            .filter(|i| FORMATS[*i].0 == system)
            .collect();
        out.extend(u32::try_from(own.len()).unwrap().to_le_bytes());
        for index in own {
            let text = describe(index, without);
            out.extend(u64::try_from(text.len()).unwrap().to_le_bytes());
            out.extend(text.bytes());
        }
    }
    out.extend(0_u32.to_le_bytes());
    out.extend(0_u32.to_le_bytes());
    out.extend(0_u64.to_le_bytes());
    out.extend(cpus.to_le_bytes());
    out.extend(b"options  \0");
    out.extend(0_u16.to_le_bytes());
    out.extend(b"flyrecord\0");
    let buffers: Vec<Vec<u8>> = (0..cpus).map(|cpu| pages(events, cpu)).collect();
    let mut at = (out.len() + 16 * buffers.len()).next_multiple_of(PAGE);
    for buffer in &buffers {
        out.extend(u64::try_from(at).unwrap().to_le_bytes());
        out.extend(u64::try_from(buffer.len()).unwrap().to_le_bytes());
        at += buffer.len();
    }
    for buffer in &buffers {
        out.resize(out.len().next_multiple_of(PAGE), 0);
        out.extend(buffer);
    }
    out
}

fn headers(out: &mut Vec<u8>) {
    let page = b"\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";
    out.extend(b"header_page\0");
    out.extend(u64::try_from(page.len()).unwrap().to_le_bytes());
    out.extend(page);
    out.extend(b"header_event\0");
    out.extend(4_u64.to_le_bytes());
    out.extend(b"type");
}

fn describe(index: usize, without: Option<(&str, &str)>) -> String {
    let (_, name, fields) = FORMATS[index];
    let id = usize::from(FIRST_ID) + index;
    let mut text = format!(
        "name: {name}\nID: {id}\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    );
    let mut offset = 8_usize;
    for (field, kind, size) in fields {
        offset = offset.next_multiple_of(*size);
        if without != Some((name, field)) {
            let signed = u8::from(*kind == "int");
            writeln!(
                text,
                "\tfield:{kind} {field};\toffset:{offset};\tsize:{size};\tsigned:{signed};"
            )
            .unwrap();
        }
        offset += size;
    }
    text + "\nprint fmt: \"\"\n"
}

/// Events in a page.
const PER_PAGE: usize = 50;

/// The pages of one CPU.
fn pages(events: &[Stamped], cpu: u32) -> Vec<u8> {
    let mut out = Vec::new();
    let own: Vec<&Stamped> = events.iter().filter(|e| e.cpu == cpu).collect();
    for chunk in own.chunks(PER_PAGE) {
        let mut last = chunk[0].time_ns;
        let mut data = Vec::new();
        for event in chunk {
            let record = record(event);
            let words = u32::try_from(record.len() / 4).unwrap();
            let delta = u32::try_from(event.time_ns - last).unwrap();
            assert!(words <= 28 && delta < 1 << 27);
            data.extend((words | delta << 5).to_le_bytes());
            data.extend(record);
            last = event.time_ns;
        }
        assert!(16 + data.len() <= PAGE, "the events fit their page");
        out.extend(chunk[0].time_ns.to_le_bytes());
        out.extend(u64::try_from(data.len()).unwrap().to_le_bytes());
        out.extend(data);
        out.resize(out.len().next_multiple_of(PAGE), 0);
    }
    out
}

fn record(stamped: &Stamped) -> Vec<u8> {
    let (name, thread, values) = values(&stamped.event);
    let index = FORMATS.iter().position(|f| f.1 == name).unwrap();
    let mut out = (FIRST_ID + u16::try_from(index).unwrap())
        .to_le_bytes()
        .to_vec();
    out.extend([0, 0]);
    // In the thread of the vCPU, or in an interrupt of whoever runs.
    let pid = thread.map_or(1, |vcpu| vcpu.vm * 10 + vcpu.vcpu);
    out.extend(pid.to_le_bytes());
    for (field, _, size) in FORMATS[index].2 {
        out.resize(out.len().next_multiple_of(*size), 0);
        let value = values.get(field).copied().unwrap_or(0);
        out.extend(&value.to_le_bytes()[..*size]);
    }
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

/// An event's name, the vCPU in whose thread it is recorded, and its fields. The numbers of actions
/// and kinds are the kernel's, written down here once more: taken from the reader, they would agree
/// with it whatever it said.
#[expect(clippy::too_many_lines, reason = "an arm for each event")]
fn values(event: &Event) -> (&'static str, Option<VcpuId>, BTreeMap<&'static str, u64>) {
    let mut set = BTreeMap::new();
    let mut who = |vcpu: VcpuId, more: &[(&'static str, u64)]| {
        set.extend([("vm", vcpu.vm.into()), ("vcpu", vcpu.vcpu.into())]);
        set.insert("vcpu_id", vcpu.vcpu.into());
        set.extend(more.iter().copied());
    };
    let place = |pcpu: Option<u32>| pcpu.map_or(u64::MAX, u64::from);
    let (name, thread) = match *event {
        Event::Entry { vcpu } => {
            who(vcpu, &[]);
            ("kvm_entry", Some(vcpu))
        }
        Event::Exit { vcpu } => {
            who(vcpu, &[]);
            ("kvm_exit", Some(vcpu))
        }
        Event::StrayEntry { .. } => unreachable!("no host makes one"),
        Event::Call {
            initiator,
            call,
            freed,
            range,
            targets,
        } => {
            let range = [("start", range.start), ("end", range.end)];
            who(initiator, &[("call", call), ("freed", freed.into())]);
            set.extend(range);
            set.insert("nr_targets", targets.into());
            ("kvm_shoot4u_call", Some(initiator))
        }
        Event::Target {
            target,
            call,
            pcpu,
            action,
        } => {
            let action = match action {
                Action::Ipi => 1,
                Action::Kicked => 2,
                Action::Queued => 3,
                Action::Left => 4,
                Action::NeverRan => 5,
                Action::Own => 6,
            };
            who(
                target,
                &[("call", call), ("pcpu", place(pcpu)), ("action", action)],
            );
            ("kvm_shoot4u_target", None)
        }
        Event::Invalidate {
            vcpu,
            tag,
            pcpu,
            range,
        } => {
            who(vcpu, &[("tag", tag.into()), ("pcpu", place(pcpu))]);
            set.extend([("start", range.start), ("end", range.end)]);
            ("kvm_shoot4u_invalidate", None)
        }
        Event::Done {
            initiator,
            call,
            left,
            ipis,
        } => {
            who(
                initiator,
                &[("call", call), ("left", left.into()), ("ipis", ipis.into())],
            );
            ("kvm_shoot4u_done", Some(initiator))
        }
        Event::Flush {
            vcpu,
            pcpu,
            kind,
            tag,
        } => {
            let kind = number_of(kind);
            let tag = tag.map_or(0, u64::from);
            who(vcpu, &[("tag", tag), ("pcpu", place(pcpu)), ("kind", kind)]);
            ("kvm_shoot4u_flush", Some(vcpu))
        }
    };
    (name, thread, set)
}

fn number_of(kind: FlushKind) -> u64 {
    match kind {
        FlushKind::All => 1,
        FlushKind::Current => 2,
        FlushKind::Guest => 3,
        FlushKind::NewAsid => 4,
        FlushKind::Vmrun => 5,
    }
}
