// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which message of Perfetto is which event of the kernel
//! (`protos/perfetto/trace/ftrace/{ftrace_event,sched,kvm,irq_vectors}.proto`).
//!
//! An event becomes a record of eight bytes a field, in the order of its definition; a text has its
//! place there (`__data_loc`) and its bytes behind.

use crate::event::{EventDef, Field, FieldKind};

/// The most bytes of a text.
const TEXT_MAX: usize = 1024;
/// Bytes of a field.
const SLOT: usize = 8;

/// A field of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Slot {
    /// Its number.
    pub number: u32,
    pub name: String,
    pub text: bool,
    pub signed: bool,
}

impl Slot {
    fn int(number: u32, name: &str) -> Self {
        Self {
            number,
            name: name.to_owned(),
            text: false,
            signed: true,
        }
    }

    fn text(number: u32, name: &str) -> Self {
        Self {
            text: true,
            ..Self::int(number, name)
        }
    }
}

/// An event and its fields.
#[derive(Debug, Clone)]
pub(super) struct Message {
    /// Its number in `FtraceEvent`; 0 for events that are known by name.
    pub number: u32,
    pub system: String,
    pub name: String,
    pub slots: Vec<Slot>,
}

/// The place of `sched_switch` in [`known`].
pub(super) const SWITCH: usize = 0;
/// The place of `sched_waking`.
pub(super) const WAKING: usize = 1;

/// The events that have messages of their own and are of use.
pub(super) fn known() -> Vec<Message> {
    let wake = |number, name| {
        let slots = vec![
            Slot::text(1, "comm"),
            Slot::int(2, "pid"),
            Slot::int(3, "prio"),
            Slot::int(5, "target_cpu"),
        ];
        message(number, "sched", name, slots)
    };
    vec![
        message(
            4,
            "sched",
            "sched_switch",
            vec![
                Slot::text(1, "prev_comm"),
                Slot::int(2, "prev_pid"),
                Slot::int(3, "prev_prio"),
                Slot::int(4, "prev_state"),
                Slot::text(5, "next_comm"),
                Slot::int(6, "next_pid"),
                Slot::int(7, "next_prio"),
            ],
        ),
        wake(20, "sched_waking"),
        wake(17, "sched_wakeup"),
        wake(114, "sched_wakeup_new"),
        message(
            491,
            "sched",
            "sched_migrate_task",
            vec![
                Slot::int(2, "pid"),
                Slot::int(4, "orig_cpu"),
                Slot::int(5, "dest_cpu"),
            ],
        ),
        message(376, "kvm", "kvm_entry", vec![Slot::int(1, "vcpu_pc")]),
        message(
            377,
            "kvm",
            "kvm_exit",
            vec![
                Slot::int(1, "esr_ec"),
                Slot::int(2, "ret"),
                Slot::int(3, "vcpu_pc"),
            ],
        ),
        message(401, "kvm", "kvm_wfx_arm64", vec![Slot::int(1, "is_wfe")]),
        message(
            400,
            "kvm",
            "kvm_vcpu_wakeup",
            vec![
                Slot::int(1, "ns"),
                Slot::int(2, "valid"),
                Slot::int(3, "waited"),
            ],
        ),
        message(
            559,
            "irq_vectors",
            "local_timer_entry",
            vec![Slot::int(1, "vector")],
        ),
    ]
}

fn message(number: u32, system: &str, name: &str, slots: Vec<Slot>) -> Message {
    Message {
        number,
        system: system.to_owned(),
        name: name.to_owned(),
        slots,
    }
}

/// The system of an event that is known by name alone.
pub(super) fn system_of(name: &str) -> &'static str {
    let systems = [
        ("kvm_", "kvm"),
        ("sched_", "sched"),
        ("csd_", "csd"),
        ("tlb_", "tlb"),
    ];
    let found = systems.iter().find(|(start, _)| name.starts_with(start));
    found.map_or("", |(_, system)| system)
}

impl Message {
    /// As a trace describes it.
    pub fn describe(&self, index: usize) -> EventDef {
        let field = |(at, slot): (usize, &Slot)| Field {
            name: slot.name.clone(),
            type_name: if slot.text {
                "__data_loc char[]"
            } else {
                "s64"
            }
            .to_owned(),
            offset: u32::try_from(at * SLOT).unwrap_or(0),
            size: if slot.text { 4 } else { 8 },
            kind: if slot.text {
                FieldKind::DataLoc { chars: true }
            } else {
                FieldKind::Int {
                    signed: slot.signed,
                }
            },
        };
        EventDef {
            system: self.system.clone(),
            name: self.name.clone(),
            id: self.number,
            index,
            fields: self.slots.iter().enumerate().map(field).collect(),
            print_fmt: String::new(),
            is_text: false,
        }
    }
}

/// Room for a record without its texts; what the message leaves out is 0.
pub(super) fn begin(data: &mut Vec<u8>, slots: usize) -> usize {
    let start = data.len();
    data.resize(start + slots * SLOT, 0);
    start
}

pub(super) fn set_number(data: &mut [u8], start: usize, slot: usize, value: u64) {
    let at = start + slot * SLOT;
    if let Some(place) = data.get_mut(at..at + SLOT) {
        place.copy_from_slice(&value.to_le_bytes());
    }
}

pub(super) fn set_text(data: &mut Vec<u8>, start: usize, slot: usize, text: &[u8]) {
    let text = &text[..text.len().min(TEXT_MAX)];
    let from = data.len() - start;
    // A record beyond what its place can say keeps its numbers and loses this text.
    let (Ok(from), Ok(len)) = (u16::try_from(from), u16::try_from(text.len())) else {
        return;
    };
    data.extend_from_slice(text);
    let place = u64::from(len) << 16 | u64::from(from);
    set_number(data, start, slot, place);
}
