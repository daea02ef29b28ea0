// SPDX-License-Identifier: Apache-2.0 OR MIT

use steady_lab_artifacts::kernel::Flavor;

use super::*;

const STOCK: Build = Build {
    series: Series::Stock,
    flavor: Flavor::Lab,
};
const PATCHED: Build = Build {
    series: Series::Patched,
    flavor: Flavor::Lab,
};
const DEBUG: Build = Build {
    series: Series::Patched,
    flavor: Flavor::Debug,
};

fn run(build: Build, own: bool, repetition: u32, outcome: Outcome) -> KernelRun {
    KernelRun {
        kernel: build.name(),
        build,
        release: String::new(),
        repetition,
        seed: 1,
        logs: "x".into(),
        lost: None,
        complaints: Vec::new(),
        tests: vec![TestResult {
            name: "some_test".to_owned(),
            own,
            outcome,
            wall_ns: 1,
            how: String::new(),
            last_words: String::new(),
            warnings: Vec::new(),
            complaints: Vec::new(),
        }],
    }
}

fn report(repetitions: u32, runs: Vec<KernelRun>) -> Report {
    let own = runs[0].tests.first().is_some_and(|test| test.own);
    let names = [("some_test".to_owned(), own)];
    Report::new(("bochs", "3.0".to_owned()), repetitions, &names, runs, None)
}

fn faults_of(runs: Vec<KernelRun>) -> Vec<String> {
    report(1, runs).faults
}

#[test]
fn a_kernels_test_is_at_fault_where_the_two_kernels_differ() {
    use Outcome::{Fail, Pass, Skip};
    let both = |stock, patched| {
        faults_of(vec![
            run(STOCK, false, 0, stock),
            run(PATCHED, false, 0, patched),
        ])
    };
    assert_eq!(both(Pass, Pass), Vec::<String>::new());
    assert_eq!(both(Fail, Fail), Vec::<String>::new());
    assert_eq!(
        both(Pass, Skip),
        ["some_test: pass on the stock kernel, skip on the patched kernel"]
    );
    assert_eq!(
        faults_of(vec![run(STOCK, false, 0, Fail)]),
        ["some_test: fail on the stock kernel"]
    );
}

#[test]
fn a_test_of_ours_must_pass_patched_and_skip_stock() {
    use Outcome::{Pass, Skip};
    let both = |stock, patched| {
        let runs = vec![run(STOCK, true, 0, stock), run(PATCHED, true, 0, patched)];
        faults_of(runs).len()
    };
    assert_eq!(both(Skip, Pass), 0);
    assert_eq!(both(Skip, Skip), 1);
    assert_eq!(both(Pass, Pass), 1);
}

#[test]
fn a_kernel_is_compared_with_the_stock_one_of_its_own_configuration() {
    use Outcome::{Fail, Pass};
    let lab = [run(STOCK, false, 0, Fail), run(PATCHED, false, 0, Fail)];
    let mut runs = Vec::from(lab);
    runs.push(run(DEBUG, false, 0, Fail));
    assert_eq!(
        faults_of(runs),
        ["some_test: fail on the patched-debug kernel"]
    );
    let stock_debug = Build {
        series: Series::Stock,
        ..DEBUG
    };
    let runs = vec![run(stock_debug, false, 0, Fail), run(DEBUG, false, 0, Pass)];
    assert_eq!(
        faults_of(runs),
        ["some_test: fail on the stock-debug kernel, pass on the patched-debug kernel"]
    );
}

#[test]
fn a_test_that_is_not_the_same_each_time_is_unsteady_and_a_fault() {
    use Outcome::{Fail, Pass};
    let outcomes = [Pass, Fail, Pass];
    let runs: Vec<KernelRun> = (0..3)
        .flat_map(|at| {
            [
                run(STOCK, false, at, Pass),
                run(PATCHED, false, at, outcomes[at as usize]),
            ]
        })
        .collect();
    let report = report(3, runs);
    assert!(report.tests[0].unsteady);
    assert_eq!(
        report.faults,
        [
            "some_test: pass on the stock kernel, fail on the patched kernel (1 of 3 repetitions)",
            "some_test: unsteady on the patched kernel: 2 pass, 1 fail",
        ]
    );
}

#[test]
fn a_test_that_fails_alike_each_time_on_both_kernels_is_steady() {
    let runs: Vec<KernelRun> = (0..4)
        .flat_map(|at| [STOCK, PATCHED].map(|build| run(build, false, at, Outcome::Fail)))
        .collect();
    let report = report(4, runs);
    assert!(!report.tests[0].unsteady);
    assert_eq!(report.tests[0].kernels[1].words(), "4 fail");
    assert_eq!(report.faults, Vec::<String>::new());
}

#[test]
fn what_a_lost_host_left_counts_and_the_loss_is_a_fault() {
    let mut lost = run(PATCHED, false, 1, Outcome::Pass);
    lost.lost = Some("the emulated host stood still".to_owned());
    lost.tests.clear();
    let runs = vec![run(PATCHED, false, 0, Outcome::Pass), lost];
    let report = report(2, runs);
    let outcomes = &report.tests[0].kernels[0].outcomes;
    assert_eq!(outcomes, &[Some(Outcome::Pass), None]);
    assert!(!report.tests[0].unsteady);
    assert_eq!(
        report.faults,
        ["the patched kernel's run 2 of 2 was lost: the emulated host stood still\nlogs: x"]
    );
}

#[test]
fn a_complaint_is_a_fault_where_the_stock_kernel_has_not_the_same() {
    let splat = |text: &str, build| {
        let mut run = run(build, false, 0, Outcome::Fail);
        run.tests[0].complaints = vec![text.to_owned()];
        run
    };
    let lock = "WARNING: possible circular locking dependency detected";
    let warn = "WARNING: CPU: 1 PID: 71 at virt/kvm/kvm_main.c:12 kvm_init+0x1/0x9";
    let other_boot = "WARNING: CPU: 0 PID: 9 at virt/kvm/kvm_main.c:18 kvm_init+0xa/0x9";
    let alike = vec![splat(warn, STOCK), splat(other_boot, PATCHED)];
    assert_eq!(faults_of(alike), Vec::<String>::new());
    let new = vec![splat(warn, STOCK), splat(lock, PATCHED)];
    assert_eq!(
        faults_of(new),
        [format!("some_test: the patched kernel complained: {lock}")]
    );
}

#[test]
fn a_complaint_outside_of_the_tests_is_a_fault_too() {
    let boots = |build, complaints: &[&str]| KernelRun {
        complaints: complaints.iter().map(|&text| text.to_owned()).collect(),
        ..run(build, false, 0, Outcome::Pass)
    };
    let rcu = "WARNING: suspicious RCU usage";
    let alike = vec![boots(STOCK, &[rcu]), boots(PATCHED, &[rcu])];
    assert_eq!(faults_of(alike), Vec::<String>::new());
    let new = vec![boots(STOCK, &[]), boots(PATCHED, &[rcu])];
    assert_eq!(
        faults_of(new),
        [format!("the patched kernel complained: {rcu}")]
    );
    assert_eq!(faults_of(vec![boots(DEBUG, &[rcu])]).len(), 1);
}

#[test]
fn the_json_says_its_version_and_nothing_of_what_is_not_there() {
    let report = report(2, vec![run(PATCHED, false, 0, Outcome::Pass)]);
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["version"], 2);
    assert_eq!(json["tests"][0]["kernels"][0]["outcomes"][0], "pass");
    assert!(json["tests"][0]["kernels"][0]["outcomes"][1].is_null());
    assert!(json.get("partial").is_none());
    assert!(json["runs"][0].get("lost").is_none());
}
