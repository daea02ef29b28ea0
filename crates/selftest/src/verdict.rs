// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From how a test ended to what it says.

use serde::Serialize;
use steady_agent::complaint::complaint;
use steady_agent::event::ProgramEnd;
use steady_lab_artifacts::process::last_lines;
use steady_lab_artifacts::selftests::Selftest;

/// Exit code of a test that cannot be run here (`KSFT_SKIP`).
const SKIP: i32 = 4;
/// Lines of a test's output that are shown of a skip or a failure.
const LAST_WORDS: usize = 6;

/// What a test says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// What it tests is right.
    Pass,
    /// What it needs is not there.
    Skip,
    /// What it tests is wrong, or it did not come to its end.
    Fail,
}

impl Outcome {
    /// Every one.
    pub const ALL: [Self; 3] = [Self::Pass, Self::Skip, Self::Fail];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Skip => "skip",
            Self::Fail => "fail",
        }
    }
}

/// One test on one kernel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TestResult {
    /// Its name.
    pub name: String,
    /// Whether it is this project's.
    pub own: bool,
    /// What it says.
    pub outcome: Outcome,
    /// Its length by the emulated host's clock, in nanoseconds.
    pub wall_ns: u64,
    /// How it ended, if it did not pass.
    pub how: String,
    /// The end of its output, if it did not pass.
    pub last_words: String,
    /// What the kernel warned of meanwhile.
    pub warnings: Vec<String>,
    /// Those of them that say that something is wrong with it.
    pub complaints: Vec<String>,
}

/// What the end of a test says.
pub fn judge(test: &Selftest, end: &ProgramEnd) -> TestResult {
    let output = &end.output;
    let (mut outcome, mut how) = match (output.timed_out, output.exit_code, output.signal) {
        (true, ..) => (Outcome::Fail, format!("no end within {} s", test.limit_s)),
        (false, Some(0), _) => (Outcome::Pass, String::new()),
        (false, Some(SKIP), _) => (Outcome::Skip, "skipped".to_owned()),
        (false, Some(code), _) => (Outcome::Fail, format!("exit code {code}")),
        (false, None, Some(signal)) => (Outcome::Fail, format!("signal {signal}")),
        (false, None, None) => (Outcome::Fail, "an unknown end".to_owned()),
    };
    let complaints: Vec<String> = (end.warnings.iter())
        .filter_map(|line| complaint(line).map(str::to_owned))
        .collect();
    let wrongs = [
        (end.tainted, "the kernel became tainted"),
        (!complaints.is_empty(), "the kernel complained"),
    ];
    for (_, wrong) in wrongs.into_iter().filter(|(is, _)| *is) {
        outcome = Outcome::Fail;
        how = format!("{how}; {wrong}");
        how = how.trim_start_matches("; ").to_owned();
    }
    let text = format!("{}\n{}", output.stdout.trim(), output.stderr.trim());
    let last_words = match outcome {
        Outcome::Pass => String::new(),
        _ => last_lines(text.trim(), LAST_WORDS),
    };
    TestResult {
        name: test.name.clone(),
        own: test.own,
        outcome,
        wall_ns: output.wall_ns,
        how,
        last_words,
        warnings: end.warnings.clone(),
        complaints,
    }
}

/// That a test was running when its host was lost.
pub fn lost(test: &Selftest, how: &str) -> TestResult {
    TestResult {
        name: test.name.clone(),
        own: test.own,
        outcome: Outcome::Fail,
        wall_ns: 0,
        how: format!("the host was lost while it ran: {how}"),
        last_words: String::new(),
        warnings: Vec::new(),
        complaints: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_agent::channel::Output;

    fn end(output: Output, tainted: bool) -> TestResult {
        let test = Selftest {
            name: "some_test".into(),
            limit_s: 9,
            own: false,
        };
        let end = ProgramEnd {
            program: test.name.clone(),
            output,
            warnings: Vec::new(),
            tainted,
        };
        judge(&test, &end)
    }

    fn exit(code: i32) -> Output {
        Output {
            exit_code: Some(code),
            stdout: "some words".into(),
            ..Output::default()
        }
    }

    #[test]
    fn exit_codes_limits_and_taints_say_what_kselftest_says() {
        assert_eq!(end(exit(0), false).outcome, Outcome::Pass);
        assert_eq!(end(exit(4), false).outcome, Outcome::Skip);
        assert_eq!(end(exit(4), false).last_words, "some words");
        assert_eq!(end(exit(254), false).how, "exit code 254");
        assert_eq!(end(exit(0), true).how, "the kernel became tainted");
        assert_eq!(end(exit(0), true).outcome, Outcome::Fail);
        let late = Output {
            timed_out: true,
            signal: Some(9),
            ..Output::default()
        };
        assert_eq!(end(late, false).how, "no end within 9 s");
    }

    #[test]
    fn a_test_under_which_the_kernel_complains_has_failed_whatever_it_says() {
        let test = Selftest {
            name: "some_test".into(),
            limit_s: 9,
            own: false,
        };
        let lines = ["kvm: a word", "WARNING: suspicious RCU usage"];
        let warned = judge(
            &test,
            &ProgramEnd {
                program: test.name.clone(),
                output: exit(0),
                warnings: lines.map(str::to_owned).into(),
                tainted: false,
            },
        );
        assert_eq!(warned.outcome, Outcome::Fail);
        assert_eq!(warned.how, "the kernel complained");
        assert_eq!(warned.complaints, [lines[1]]);
        assert_eq!(warned.warnings, lines);
    }
}
