// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Boosts that did not do what they were for.

use steady_remedies::Stall;

use super::{Context, FEW, check, listed, remedy, share, unanswered};
use crate::build::permille;
use crate::model::{
    Assumption, BoostTable, CauseId, Check, CheckId, Confidence, Evidence, EvidenceId, Finding,
    FindingId, Step, StepId,
};

/// An outcome of a look for a vCPU to boost that is a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Failure {
    Mismatch,
    Overboost,
    Lost,
}

impl Failure {
    const ALL: [Self; 3] = [Self::Mismatch, Self::Overboost, Self::Lost];

    /// Its name among the outcomes.
    fn name(self) -> &'static str {
        match self {
            Self::Mismatch => "scheduler-mismatch",
            Self::Overboost => "overboost",
            Self::Lost => "lost-opportunity",
        }
    }

    fn finding(self) -> (FindingId, CauseId) {
        match self {
            Self::Mismatch => (FindingId::BoostSchedulerMismatch, CauseId::SchedulerOrder),
            Self::Overboost => (FindingId::BoostOverboost, CauseId::AnyReady),
            Self::Lost => (FindingId::BoostLostOpportunity, CauseId::PassedOver),
        }
    }

    fn step(self) -> Step {
        match self {
            Self::Mismatch => remedy(StepId::ObeyBoost, Stall::BoostOutcome),
            Self::Overboost | Self::Lost => remedy(StepId::BoostWaitedFor, Stall::BoostTarget),
        }
    }
}

/// A finding for each way in which boosts fail often.
pub fn boosts(context: &Context<'_>) -> Vec<Finding> {
    let Some(boosts) = &context.vm.boosts else {
        return Vec::new();
    };
    if boosts.spins < FEW {
        return Vec::new();
    }
    let pauses = context.vm.pauses.as_ref();
    let wasted_ns = pauses.and_then(|pauses| pauses.outside_ns).unwrap_or(0);
    let mut findings = Vec::new();
    for failure in Failure::ALL {
        let row = boosts
            .outcomes
            .iter()
            .find(|row| row.name == failure.name());
        let Some(row) = row.filter(|row| row.count >= FEW / 4) else {
            continue;
        };
        let lost_ns = wasted_ns.saturating_mul(row.permille) / 1000;
        let (id, cause) = failure.finding();
        let mut finding = context.finding(id, lost_ns, cause);
        finding.evidence = evidence(boosts, failure, row.count, row.permille);
        finding.checks = vec![of_failure(boosts, failure)];
        finding.confidence = match failure {
            Failure::Mismatch => Confidence::High,
            Failure::Overboost | Failure::Lost => Confidence::Medium,
        };
        let by_run = pauses.and_then(|all| all.by_place.iter().max_by_key(|row| row.longest_run));
        finding.worst = by_run.and_then(|row| row.worst.clone());
        let step = failure.step();
        finding.next = vec![step.gives(lost_ns, lost_ns, Assumption::BoostEndsWait)];
        findings.push(finding);
    }
    findings
}

/// A mismatch is the scheduler's doing where others were run in the chosen vCPU's place, and not
/// where no other vCPU was left to run.
fn of_failure(boosts: &BoostTable, failure: Failure) -> Check {
    match failure {
        Failure::Mismatch => {
            let idle = boosts.instead.iter().find(|row| row.name == "idle");
            let all: u64 = boosts.instead.iter().map(|row| row.count).sum();
            let others = 1000 - permille(idle.map_or(0, |row| row.count), all).min(1000);
            check(
                CheckId::ChosenWasReady,
                all > 0 && others >= super::MOST,
                vec![share("share", others)],
            )
        }
        Failure::Overboost | Failure::Lost => unanswered(CheckId::WaitWentOn),
    }
}

fn evidence(boosts: &BoostTable, failure: Failure, times: u64, of_all: u64) -> Vec<Evidence> {
    let mut evidence = vec![
        Evidence::new(EvidenceId::BoostShare)
            .count("times", times)
            .count("spins", boosts.spins)
            .permille("share", of_all),
        Evidence::new(EvidenceId::BoostRanNext)
            .count("decided", boosts.decided)
            .count("ran_next", boosts.ran_next)
            .permille("share", boosts.ran_next_permille),
    ];
    if failure == Failure::Mismatch {
        evidence.push(listed(EvidenceId::BoostInstead, boosts.instead.iter()));
    } else if boosts.passed_over > 0 {
        let passed_over = Evidence::new(EvidenceId::BoostPassedOver);
        evidence.push(passed_over.count("looks", boosts.passed_over));
    }
    evidence
}
