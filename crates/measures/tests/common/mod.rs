// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small result that the tests of this crate share.

use steady_measures::{
    Artifact, Better, Clock, EngineInfo, Histogram, Metric, Phase, Repetition, RunResult,
    ScenarioInfo, Unit, VariantResult, Warning,
};

/// Two variants, two repetitions each, every optional part present at least once.
pub fn sample() -> RunResult {
    let scenario = ScenarioInfo {
        name: "two-vms".to_owned(),
        title: "Two VMs on the same CPUs".to_owned(),
        question: "How long does a shootdown wait for a preempted vCPU?".to_owned(),
        digest: "5".repeat(64),
    };
    let engine = EngineInfo {
        name: "bochs".to_owned(),
        version: "3.0".to_owned(),
        clock: Clock::Instructions {
            per_second: 100_000_000,
        },
        description: "Emulated host with VMX".to_owned(),
    };
    let mut result = RunResult::new(scenario, engine, 7);
    result
        .config
        .insert("kernel.release".to_owned(), "6.12.63".to_owned());
    result.variants = vec![variant("ipi", 400_000), variant("kvm-pv", 20_000)];
    result.run.started = "2026-01-02T03:04:05Z".to_owned();
    result.run.wall_ms = 61_500;
    result.run.phases.push(Phase {
        variant: "ipi".to_owned(),
        repetition: 0,
        phase: "boot".to_owned(),
        wall_ms: 9_000,
    });
    result.seal();
    result
}

fn variant(name: &str, latency_ns: u64) -> VariantResult {
    VariantResult {
        name: name.to_owned(),
        title: format!("Variant {name}"),
        remedies: vec!["pv-tlb-flush".to_owned()],
        repetitions: (0..2).map(|index| repetition(index, latency_ns)).collect(),
    }
}

fn repetition(index: u32, latency_ns: u64) -> Repetition {
    let mut histogram = Histogram::new();
    for step in 0..50 {
        histogram.record(latency_ns + 1_000 * step + u64::from(index));
    }
    let latency = histogram
        .distribution("shootdown.latency", Unit::Ns)
        .expect("the sum fits")
        .in_vm("vm0")
        .of_workload("latency");
    let exits = Metric::new(
        "exits.EXTERNAL_INTERRUPT",
        Unit::Count,
        Better::Lower,
        1_234,
    );
    let mut metrics = latency.summary().expect("latencies fit 63 bits");
    metrics.push(exits.in_vm("vm0"));
    Repetition {
        index,
        seed: Some(1 + u64::from(index)),
        metrics,
        distributions: vec![latency],
        warnings: vec![Warning {
            code: "events-lost".to_owned(),
            text: "The trace lost 3 events.".to_owned(),
        }],
        artifacts: vec![Artifact {
            name: "trace".to_owned(),
            path: format!("{index}/trace.dat"),
            sha256: "a".repeat(64),
            bytes: 4_096,
        }],
    }
}
