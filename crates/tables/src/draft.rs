// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Findings of tables, put together piece by piece.

use steady_diagnose::{
    CauseId, Confidence, Evidence, EvidenceId, Finding, FindingId, Severity, Step, StepId,
};

/// From this share on, in thousandths, something is severe.
const SEVERE: u64 = 100;
/// From this share on something is major; below it nothing is a finding.
pub(crate) const MAJOR: u64 = 10;
/// Pieces of evidence that a finding has at most.
const EVIDENCE: usize = 16;

/// A finding with low confidence and no numbers yet.
pub(crate) fn finding(id: FindingId, cause: CauseId) -> Finding {
    Finding {
        id,
        of: None,
        severity: Severity::Major,
        trace: 0,
        vm: None,
        vcpu: None,
        lost_ns: 0,
        lost_ns_per_s: 0,
        at_most_ns: None,
        lost_permille: 0,
        evidence: Vec::new(),
        cause,
        culprits: Vec::new(),
        confidence: Confidence::Low,
        checks: Vec::new(),
        worst: None,
        next: Vec::new(),
        sharper_with: Vec::new(),
    }
}

/// What makers of findings add to them.
pub(crate) trait Draft: Sized {
    /// The share that was lost, in thousandths, which also says how bad it is; the time in all.
    fn lost(self, permille: u64, ns: u64) -> Self;
    fn severity(self, severity: Severity) -> Self;
    fn with(self, evidence: Evidence) -> Self;
    fn all(self, evidence: impl IntoIterator<Item = Evidence>) -> Self;
    fn of(self, of: &str) -> Self;
    fn vm(self, vm: Option<&str>) -> Self;
    fn sure(self, confidence: Confidence) -> Self;
    fn then(self, id: StepId, name: &str) -> Self;
}

impl Draft for Finding {
    fn lost(mut self, permille: u64, ns: u64) -> Self {
        self.lost_permille = permille;
        self.lost_ns = ns;
        self.severity(match permille {
            SEVERE.. => Severity::Severe,
            MAJOR.. => Severity::Major,
            _ => Severity::Minor,
        })
    }

    fn severity(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }

    fn with(mut self, evidence: Evidence) -> Self {
        if self.evidence.len() < EVIDENCE {
            self.evidence.push(evidence);
        }
        self
    }

    fn all(self, evidence: impl IntoIterator<Item = Evidence>) -> Self {
        evidence.into_iter().take(EVIDENCE).fold(self, Self::with)
    }

    fn of(mut self, of: &str) -> Self {
        self.of = Some(of.to_owned());
        self
    }

    fn vm(mut self, vm: Option<&str>) -> Self {
        self.vm = vm.map(str::to_owned);
        self
    }

    fn sure(mut self, confidence: Confidence) -> Self {
        assert_ne!(
            confidence,
            Confidence::High,
            "a table never shows that much"
        );
        self.confidence = confidence;
        self
    }

    fn then(mut self, id: StepId, name: &str) -> Self {
        self.next.push(step(id, Some(name)));
        self
    }
}

/// A finding about what is not CPU time: `of` memory, I/O or interrupts.
pub(crate) fn pressure(of: &str, cause: CauseId) -> Finding {
    let mut made = finding(FindingId::OtherPressure, cause).of(of);
    made.next.push(step(
        match cause {
            CauseId::MemoryPressure => StepId::StopReclaim,
            CauseId::IoPressure => StepId::LookAtStorage,
            _ => StepId::MoveInterrupts,
        },
        None,
    ));
    made.then(StepId::RecordWhile, crate::kind::RECORD)
}

/// A note that a table lacks what it could show, and the command that has it.
pub(crate) fn not_measured(of: &str, rows: u64, ask: &str) -> Finding {
    finding(FindingId::NotMeasured, CauseId::NotCounted)
        .of(of)
        .severity(Severity::Note)
        .with(Evidence::new(EvidenceId::TableLacks).count("rows", rows))
        .then(StepId::AskTool, ask)
}

/// Raises what the bounds of a share would call minor: another bound made it a finding.
pub(crate) fn at_least_major(finding: Finding) -> Finding {
    let severity = finding.severity.max(Severity::Major);
    finding.severity(severity)
}

/// A step; `name` is a command or what it is about.
pub(crate) fn step(id: StepId, name: Option<&str>) -> Step {
    Step {
        id,
        name: name.map(str::to_owned),
        knob: None,
        value: None,
        remedy: None,
        available: true,
        gain: None,
    }
}

/// A path as a shell takes it: systemd's names have backslashes.
pub(crate) fn quoted(path: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "/._-:@".contains(letter);
    match path.chars().all(plain) {
        true => path.to_owned(),
        false => format!("'{}'", path.replace('\'', "'\\''")),
    }
}
