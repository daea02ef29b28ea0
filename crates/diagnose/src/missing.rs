// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a trace lost, and what was not recorded, with what cannot be concluded without it.

use steady_events::Loss;

use crate::analysis::Analysis;
use crate::build::permille;
use crate::machine::MOST_VCPUS;
use crate::model::{LossTable, Missing};
use crate::pause::MOST_PLACES;
use crate::symbols::Shift;

/// Descriptions of damage that are kept.
const DAMAGE_KEPT: usize = 5;
/// Pause-loop and halt exits from which on it can be said whether symbols fit.
const EXITS_TO_JUDGE: u64 = 20;
/// The bounds, as the rows below write them.
const _: () = assert!(MOST_VCPUS == 4096 && MOST_PLACES == 4096);

/// What was not recorded. Without symbols there is no `shift`.
pub fn rows(analysis: &Analysis, clock_is_ns: bool, shift: Option<Shift>) -> Vec<Missing> {
    let seen = &analysis.seen;
    let mut vcpus = analysis.vcpus.iter();
    let pauses = vcpus.any(|vcpu| !vcpu.pauses.places.is_empty());
    let poor =
        shift.is_some_and(|shift| shift.of >= EXITS_TO_JUDGE && shift.explained * 2 < shift.of);
    let clock = (
        !clock_is_ns,
        "a clock in nanoseconds",
        "all times are in the clock's own unit",
    );
    let others = [
        (
            analysis.machine.untold > 0,
            "vCPU threads beyond the first 4096",
            "everything about them",
        ),
        (
            analysis.vcpus.iter().any(|vcpu| vcpu.pauses.elsewhere > 0),
            "pause-loop exits of a vCPU at more than 4096 places",
            "why it spins at the others: tables of places and causes leave them out",
        ),
        (
            pauses && seen.boost == 0,
            "the probes of `steady record` on kvm_vcpu_yield_to",
            "which vCPU KVM boosts after a pause-loop exit and whether it runs: stock KVM has no \
             tracepoint there",
        ),
        (
            seen.boost > 0 && seen.boost_return == 0,
            "the return probe of `steady record` on kvm_vcpu_yield_to",
            "which boosts the scheduler agreed to",
        ),
        (
            pauses && shift.is_none(),
            "symbols of the guest's kernel (--symbols System.map)",
            "in which function guests spin, and so why",
        ),
        (
            poor,
            "symbols that fit",
            "less than half of the exits lie in functions that wait or halt: the symbols may be \
             another kernel's, and causes are not to be trusted",
        ),
    ];
    let rows = [clock]
        .into_iter()
        .chain(host_events(analysis))
        .chain(others);
    rows.filter(|(is_missing, ..)| *is_missing)
        .map(|(_, what, so)| Missing {
            what: what.to_owned(),
            so: so.to_owned(),
        })
        .collect()
}

/// Events that a host's trace should have: whether each is missing, its name, what depends on it.
fn host_events(analysis: &Analysis) -> impl Iterator<Item = (bool, &'static str, &'static str)> {
    let seen = &analysis.seen;
    let host = seen.entry + seen.exit > 0;
    [
        (
            seen.entry,
            "kvm_entry",
            "how long exits take, and how long guests spin",
        ),
        (seen.exit, "kvm_exit", "everything about exits"),
        (
            seen.switch,
            "sched_switch",
            "steal, preemption, and which vCPU ran after a boost",
        ),
        (
            seen.wakeup,
            "sched_wakeup",
            "how long a woken vCPU waits for its turn",
        ),
        (
            seen.accepted,
            "kvm_apic_accept_irq",
            "IPIs between vCPUs: which vCPU waits for which, and which boosts were wrong (a host \
             that posts interrupts does not show them)",
        ),
        (
            seen.timer_write,
            "kvm_msr or kvm_apic",
            "which exits arm a timer",
        ),
        (
            seen.host_timer,
            "local_timer_entry",
            "which exits are the host's own ticks",
        ),
    ]
    .into_iter()
    .map(move |(count, name, so)| (host && count == 0, name, so))
}

/// Why there may be so little in a trace.
pub fn words(loss: &Loss) -> String {
    let cut = loss.cut.as_ref();
    let cut = cut.map(|cut| format!("it is cut off at {}", cut.place));
    let undescribed = (loss.undescribed > 0).then(|| {
        format!(
            "{} records are of events that it does not describe",
            loss.undescribed
        )
    });
    let unread = loss.unread_lines;
    let unread = (unread > 0).then(|| {
        let first = loss.unread.first().map_or("", String::as_str);
        format!("{unread} lines could not be read, the first: {first}")
    });
    let others = loss.other_records;
    let others = (others > 0 && loss.unread_lines == 0).then(|| {
        format!(
            "it holds {others} records of other kinds, such as samples of CPU cycles, which show \
             where time went and not who ran"
        )
    });
    let words = cut.into_iter().chain(undescribed).chain(unread);
    let words = words.chain(others);
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        return String::new();
    }
    format!(" ({})", words.join(", "))
}

/// What was lost of a trace, and what could not be read in it.
pub fn loss(loss: &Loss, analysis: &Analysis) -> LossTable {
    let lost = loss.lost_events;
    LossTable {
        lost_events: lost,
        lost_permille: permille(lost, lost.saturating_add(analysis.seen.all)),
        unknown_gaps: loss.unknown_gaps,
        clock_set_back: analysis.clock_set_back,
        truncated: loss.cut.as_ref().map(|cut| match cut.missing_bytes {
            Some(bytes) => format!("{}, {bytes} bytes short", cut.place),
            None => cut.place.clone(),
        }),
        undescribed: loss.undescribed,
        other_records: loss.other_records,
        unread_lines: loss.unread_lines,
        unread_permille: permille(
            loss.unread_lines,
            loss.unread_lines.saturating_add(analysis.seen.all),
        ),
        unread: loss.unread.iter().take(DAMAGE_KEPT).cloned().collect(),
        out_of_order: loss.out_of_order,
        late_permille: analysis.late_permille,
        damaged: loss.damaged,
        damage: loss.damage.iter().take(DAMAGE_KEPT).cloned().collect(),
        unreadable: loss.unreadable,
        unknown_exits: analysis.seen.unknown_exit,
        open_exits: analysis.vcpus.iter().map(|vcpu| vcpu.exits.uncounted).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_events::{Event, ExitReason, Gap, Isa, Kind};

    fn whats(analysis: &Analysis) -> Vec<String> {
        let rows = rows(analysis, true, None).into_iter();
        rows.map(|row| row.what).collect()
    }

    fn event(analysis: &mut Analysis, tid: i32, kind: Kind<'_>) {
        analysis.event(&Event {
            time_ns: 0,
            cpu: 0,
            tid,
            comm: b"CPU 0/KVM",
            process: 0,
            gap: Gap::None,
            kind,
        });
    }

    #[test]
    fn vcpus_beyond_the_bound_are_told_of() {
        let mut analysis = Analysis::default();
        let most = i32::try_from(MOST_VCPUS).unwrap();
        for tid in 1..=most {
            event(&mut analysis, tid, Kind::Entry { vcpu: None });
        }
        let what = "vCPU threads beyond the first 4096".to_owned();
        assert!(!whats(&analysis).contains(&what));
        event(&mut analysis, most + 1, Kind::Entry { vcpu: None });
        assert!(whats(&analysis).contains(&what));
    }

    #[test]
    fn places_beyond_the_bound_are_told_of() {
        let mut analysis = Analysis::default();
        let pause_at = |analysis: &mut Analysis, rip| {
            let reason = ExitReason::new(Isa::Vmx, 40);
            let (vcpu, interrupt) = (None, 0);
            event(
                analysis,
                1,
                Kind::Exit {
                    vcpu,
                    reason,
                    rip,
                    interrupt,
                    address: 0,
                },
            );
        };
        let most = u64::try_from(MOST_PLACES).unwrap();
        (0..most).for_each(|rip| pause_at(&mut analysis, rip));
        let what = "pause-loop exits of a vCPU at more than 4096 places".to_owned();
        assert!(!whats(&analysis).contains(&what));
        pause_at(&mut analysis, most);
        assert!(whats(&analysis).contains(&what));
    }
}
