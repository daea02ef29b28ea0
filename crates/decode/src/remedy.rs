// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Tracepoints of remedies in the form that they have in common ([`steady_events::RemedyEvent`]).

use steady_events::{Kind, RemedyEvent, RemedyStep};
use steady_tracefile::EventDef;

use crate::fields::{Fields, Row};

const CALL: &str = "_call";
const TARGET: &str = "_target";
const DONE: &str = "_done";
const TICK: &str = "_tick";

/// Rows by what they end in; the last is for whatever else a remedy records.
static ROWS: [Row; 5] = [
    Row {
        name: CALL,
        system: None,
        fields: &["call", "nr_targets"],
        read: |f| {
            let targets = f.u32(1);
            told(f, RemedyStep::Begun { targets })
        },
    },
    Row {
        name: TARGET,
        system: None,
        fields: &["call", "vm", "vcpu", "action"],
        read: |f| {
            let (vm, vcpu, outcome) = (f.u32(1), f.u32(2), f.u64(3));
            told(f, RemedyStep::Target { vm, vcpu, outcome })
        },
    },
    Row {
        name: DONE,
        system: None,
        fields: &["call", "left"],
        read: |f| {
            let left = f.u32(1);
            told(f, RemedyStep::Done { left })
        },
    },
    Row {
        name: TICK,
        system: None,
        fields: &["how"],
        read: |f| {
            // The numbers are the tracepoint's; text prints their words.
            if f.u64(0) == Some(1) || f.str(0) == Some(b"injected") {
                return Some(Kind::TickInjected);
            }
            let event = &f.event().name;
            let remedy = RemedyEvent::of_system(system(f.event())?)?;
            let step = RemedyStep::Other { event };
            let call = None;
            Some(Kind::Remedy(RemedyEvent { remedy, call, step }))
        },
    },
    Row {
        name: "",
        system: None,
        fields: &["call"],
        read: |f| {
            let (system, event) = (&f.event().system, &f.event().name);
            let remedy = RemedyEvent::of_system(system)?;
            let (call, step) = (f.u64(0), RemedyStep::Other { event });
            Some(Kind::Remedy(RemedyEvent { remedy, call, step }))
        },
    },
];

/// The system of a remedy's event. Text of ftrace names no system: there it shows in the names of
/// the three tracepoints of a call, and of a tick.
fn system(event: &EventDef) -> Option<&str> {
    if !event.system.is_empty() {
        return Some(&event.system);
    }
    [CALL, TARGET, DONE, TICK]
        .iter()
        .find_map(|end| event.name.strip_suffix(end))
}

/// How the records of an event are read, if it is a remedy's.
pub fn row(event: &EventDef) -> Option<&'static Row> {
    let system = system(event)?;
    RemedyEvent::of_system(system)?;
    let own = event.name.strip_prefix(system);
    ROWS.iter()
        .find(|row| own == Some(row.name))
        .or_else(|| ROWS.last())
}

fn told<'a>(f: &Fields<'_, 'a>, step: RemedyStep<'a>) -> Option<Kind<'a>> {
    let remedy = RemedyEvent::of_system(system(f.event())?)?;
    let call = f.u64(0);
    // Without a system only the name speaks for it, and `kvm_hv_hypercall_done` is KVM's own.
    if call.is_none() && f.event().system.is_empty() {
        return Some(Kind::Other);
    }
    Some(Kind::Remedy(RemedyEvent { remedy, call, step }))
}
