// SPDX-License-Identifier: Apache-2.0 OR MIT
//! From how a test ended to what it says, and from two kernels' results to what should not be.

use serde::Serialize;
use steady_agent::event::ProgramEnd;

use super::KernelRun;
use crate::artifact::selftests::Selftest;
use crate::process::last_lines;

/// Exit code of a test that cannot be run here (`KSFT_SKIP`).
const SKIP: i32 = 4;
/// Lines of a test's output that are told of a skip or a failure.
const LAST_WORDS: usize = 6;

/// What a test says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
    if end.tainted {
        outcome = Outcome::Fail;
        how = format!("{how}; the kernel became tainted");
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
    }
}

/// What should not be: a kernel's test that says another thing on the patched kernel than on the
/// stock one, or fails where only one kernel was run; a test of ours that does not pass on the
/// patched kernel, or does more than skip on the stock one.
pub fn faults(kernels: &[KernelRun]) -> Vec<String> {
    let mut faults = Vec::new();
    for run in kernels {
        for test in &run.tests {
            let stock = run.kernel.starts_with("stock");
            let wrong = match (test.own, stock) {
                (true, true) => test.outcome != Outcome::Skip,
                (true, false) => test.outcome != Outcome::Pass,
                (false, _) => kernels.len() == 1 && test.outcome == Outcome::Fail,
            };
            if wrong {
                let outcome = test.outcome.name();
                faults.push(format!(
                    "{}: {outcome} on the {} kernel",
                    test.name, run.kernel
                ));
            }
        }
    }
    let Some((first, others)) = kernels.split_first() else {
        return faults;
    };
    for other in others {
        for (one, two) in first.tests.iter().zip(&other.tests) {
            assert_eq!(one.name, two.name, "every kernel runs the same tests");
            if !one.own && one.outcome != two.outcome {
                faults.push(format!(
                    "{}: {} on the {} kernel, {} on the {} kernel",
                    one.name,
                    one.outcome.name(),
                    first.kernel,
                    two.outcome.name(),
                    other.kernel
                ));
            }
        }
    }
    faults
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

    fn run(kernel: &'static str, own: bool, outcome: Outcome) -> KernelRun {
        let test = TestResult {
            outcome,
            own,
            ..end(exit(0), false)
        };
        KernelRun {
            kernel,
            release: String::new(),
            logs: "x".into(),
            tests: vec![test],
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
    fn a_kernels_test_is_at_fault_where_the_two_kernels_differ() {
        use Outcome::{Fail, Pass, Skip};
        let both =
            |stock, patched| faults(&[run("stock", false, stock), run("patched", false, patched)]);
        assert_eq!(both(Pass, Pass), Vec::<String>::new());
        assert_eq!(both(Fail, Fail), Vec::<String>::new());
        assert_eq!(
            both(Pass, Skip),
            ["some_test: pass on the stock kernel, skip on the patched kernel"]
        );
        assert_eq!(
            faults(&[run("stock", false, Fail)]),
            ["some_test: fail on the stock kernel"]
        );
    }

    #[test]
    fn a_test_of_ours_must_pass_patched_and_skip_stock() {
        use Outcome::{Pass, Skip};
        let both = |stock, patched| {
            faults(&[run("stock", true, stock), run("patched", true, patched)]).len()
        };
        assert_eq!(both(Skip, Pass), 0);
        assert_eq!(both(Skip, Skip), 1);
        assert_eq!(both(Pass, Pass), 1);
    }
}
