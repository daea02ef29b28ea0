// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Evidence in words. The numbers come with their units; here is what is said around them.

use std::fmt::Write;

use steady_diagnose::{Evidence, EvidenceId, Quantity};
use steady_report::humane;

use super::{host_words, percent, table_words, time};

/// The sentence of a kind. `{name}` stands for a value; what is in brackets is left out where a
/// value in it is not known; `{*}` stands for all values with their names.
fn template(id: EvidenceId) -> &'static str {
    match id {
        EvidenceId::PauseShare => "{exits} pause-loop exits, {share} of all {all} of the VM",
        EvidenceId::PauseTime => {
            "{spun} spun before them and {outside} outside the guest after them"
        }
        EvidenceId::PausePlace => {
            "{exits} at {rip}[ in {function}], longest run {longest}, {ipi_pending} with an IPI of \
             the spinner's under way"
        }
        EvidenceId::RunShare => {
            "{share} of the pause-loop exits are in runs of two and more at one place"
        }
        EvidenceId::RunLongest => {
            "the longest run: {exits} exits of vCPU {vcpu} at {rip}[ in {function}] within {length}"
        }
        EvidenceId::RunCounts => {
            "{runs_10} runs of 10 and more, {runs_100} of 100 and more, among {runs}"
        }
        EvidenceId::BoostShare => "{times} of {spins} looks for a vCPU to boost, {share}",
        EvidenceId::BoostRanNext => {
            "of {decided} boosts that the scheduler agreed to, {ran_next} ran next: {share}"
        }
        EvidenceId::BoostInstead => "who ran instead: {*}",
        EvidenceId::BoostPassedOver => {
            "{looks} looks passed over a ready vCPU that had yet to take the spinner's IPI"
        }
        EvidenceId::IpiShare => {
            "{descheduled} of {all} call-function IPIs went to a descheduled vCPU, {share}"
        }
        EvidenceId::IpiDelay => {
            "it took them after {mean} on average and {max} at most; a running vCPU after \
             {running_mean}"
        }
        EvidenceId::IpiCalls => {
            "inferred: {calls} calls took {mean} on average, p99 {p99}, max {max}"
        }
        other => of_time(other),
    }
}

/// The same of steal, exits and what takes time.
fn of_time(id: EvidenceId) -> &'static str {
    match id {
        EvidenceId::StealDescheduled => {
            "descheduled {times} times for {mean} on average, {max} at most"
        }
        EvidenceId::StealWakeup => {
            "woken {times} times and kept waiting {mean} on average, {max} at most"
        }
        EvidenceId::StealAsGuestCounts => {
            "{descheduled} after being descheduled[ and {woken} after wake-ups]; a guest's steal \
             time (st) counts waits after wake-ups too"
        }
        EvidenceId::ExitShare => "{exits} exits for {reason}: {mean} on average, {max} at most",
        EvidenceId::ExitAbout => "{kind}[ {value}][, {name}]: {exits} exits, {time}",
        EvidenceId::StuckTimes => "{times} times for {mean} on average, {max} at most",
        EvidenceId::StuckAfter => "by the exit before: {*}",
        EvidenceId::StealWorst => "worst: vCPU {vcpu}, {steal} in all",
        EvidenceId::UnmarkedShare => {
            "{unmarked} of {all} times that a ready vCPU was descheduled, {share}: KVM had not \
             marked it preempted"
        }
        EvidenceId::UnmarkedTime => "{time} in all",
        EvidenceId::UnmarkedAfter => "their last exits: {*}",
        EvidenceId::TimerExits => {
            "{arms} exits to arm ({stops} to stop) and {expiries} at expiry: {share} of all"
        }
        EvidenceId::TimerTime => "{time} outside the guest for them",
        EvidenceId::TimerFormulas => {
            "by the Paratick paper's formulas, at {tick} and {idle_entries} idle entries: periodic \
             ticks {periodic}, tickless {tickless}, paratick at most {paratick_at_most}"
        }
        EvidenceId::UnknownReason => "{exits} of {isa} {reason}: {time}",
        EvidenceId::ShootdownLatency => {
            "{shootdowns} shootdowns of {targets} targets on average: mean {mean}, median {p50}, \
             p99 {p99}, max {max}"
        }
        EvidenceId::ShootdownTime => "{time} waited in all",
        EvidenceId::EventsLost => "{share} of the events were lost, so the numbers are too low",
        other => host_words::template(other)
            .or_else(|| table_words::template(other))
            .unwrap_or("{*}"),
    }
}

/// A quantity as people read it.
fn quantity(quantity: &Quantity) -> String {
    match quantity {
        Quantity::Count(count) => humane::grouped(*count),
        Quantity::Ns(ns) => time(*ns),
        Quantity::Permille(permille) => percent(*permille),
        Quantity::Hz(hz) => format!("{hz} Hz"),
        Quantity::Number(number) => number.to_string(),
        Quantity::Name(name) => name.clone(),
    }
}

/// A piece of evidence in one sentence. A value that it lacks shows as `–`.
#[must_use]
pub fn evidence_words(evidence: &Evidence) -> String {
    let mut out = String::new();
    let mut rest = template(evidence.id);
    while let Some((before, optional)) = rest.split_once('[') {
        fill(&mut out, before, evidence);
        let (inside, after) = optional.split_once(']').unwrap_or((optional, ""));
        let mut part = String::new();
        if fill(&mut part, inside, evidence) {
            out += &part;
        }
        rest = after;
    }
    fill(&mut out, rest, evidence);
    out
}

/// Writes a part of a template with its values; true if it has all of them.
fn fill(out: &mut String, template: &str, evidence: &Evidence) -> bool {
    let mut whole = true;
    let mut rest = template;
    while let Some((before, name)) = rest.split_once('{') {
        out.push_str(before);
        let (name, after) = name.split_once('}').unwrap_or((name, ""));
        if name == "*" {
            let values = evidence.values.iter();
            let values =
                values.map(|value| format!("{} {}", value.name, quantity(&value.quantity)));
            out.push_str(&values.collect::<Vec<_>>().join(", "));
        } else if let Some(value) = evidence.value(name) {
            out.push_str(&quantity(value));
        } else {
            out.push('–');
            whole = false;
        }
        rest = after;
    }
    let _ = write!(out, "{rest}");
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_told_with_their_units() {
        let evidence = Evidence::new(EvidenceId::TimerFormulas)
            .hz("tick", 250)
            .count("idle_entries", 1234)
            .count("periodic", 5)
            .count("tickless", 6)
            .count("paratick_at_most", 7);
        let said = evidence_words(&evidence);
        assert!(said.contains("at 250 Hz and"), "{said}");
        assert!(said.ends_with("paratick at most 7"), "{said}");
    }

    #[test]
    fn what_is_not_known_is_left_out_where_it_can_be_and_a_dash_elsewhere() {
        let place = Evidence::new(EvidenceId::PausePlace)
            .count("exits", 3)
            .named("rip", "0x10");
        let said = evidence_words(&place);
        assert!(said.starts_with("3 at 0x10, longest run –,"), "{said}");
        let said = evidence_words(&place.named("function", "delay_tsc"));
        assert!(
            said.starts_with("3 at 0x10 in delay_tsc, longest"),
            "{said}"
        );
    }

    #[test]
    fn a_list_is_told_with_its_own_names() {
        let list = Evidence::new(EvidenceId::BoostInstead)
            .count("idle", 2)
            .count("host task", 1);
        assert_eq!(
            evidence_words(&list),
            "who ran instead: idle 2, host task 1"
        );
    }
}
