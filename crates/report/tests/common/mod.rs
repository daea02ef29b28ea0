// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made-up results with the size and shape of real ones. The figures measure nothing.

use steady_measures::{
    Artifact, Better, Clock, EngineInfo, Histogram, Metric, Phase, Repetition, RunResult,
    ScenarioInfo, Unit, VariantResult, Warning,
};

/// What makes one variant differ from another.
struct Model {
    name: &'static str,
    title: &'static str,
    remedies: &'static [&'static str],
    /// Latency of most shootdowns.
    usual_ns: u64,
    /// One in this number of calls waits for a preempted vCPU.
    one_waits_in: u64,
    wait_ns: u64,
    exits_permille: i64,
}

const MODELS: [Model; 4] = [
    Model {
        name: "ipi",
        title: "No paravirtual flush, no paravirtual IPI",
        remedies: &[],
        usual_ns: 61_000,
        one_waits_in: 2,
        wait_ns: 3_000_000,
        exits_permille: 1_000,
    },
    Model {
        name: "kvm-pv",
        title: "All that stock 6.12 offers",
        remedies: &["pv-tlb-flush", "pv-ipi", "pv-sched-yield"],
        usual_ns: 48_000,
        one_waits_in: 18,
        wait_ns: 2_400_000,
        exits_permille: 640,
    },
    Model {
        name: "eager",
        title: "Shoot4U, invalidating at once",
        remedies: &["shoot4u"],
        usual_ns: 22_000,
        one_waits_in: 400,
        wait_ns: 90_000,
        exits_permille: 410,
    },
    Model {
        name: "deferred",
        title: "Shoot4U, invalidating before the next entry",
        remedies: &["shoot4u"],
        usual_ns: 15_500,
        one_waits_in: 500,
        wait_ns: 60_000,
        exits_permille: 300,
    },
];

/// A small generator, so that latencies spread; the same numbers on every machine.
struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// Two VMs, four variants, three repetitions, on VMX in Bochs.
pub fn bochs() -> RunResult {
    let engine = EngineInfo {
        name: "bochs".to_owned(),
        version: "3.0".to_owned(),
        clock: Clock::Instructions {
            per_second: 100_000_000,
        },
        description: "A Linux KVM host in Bochs: VMX with EPT, VPID and pause-loop exiting"
            .to_owned(),
    };
    let reasons = [
        ("EXTERNAL_INTERRUPT", 18_400),
        ("APIC_WRITE", 12_100),
        ("HLT", 6_900),
        ("PAUSE_INSTRUCTION", 4_300),
        ("PREEMPTION_TIMER", 2_950),
        ("EPT_VIOLATION", 1_830),
        ("MSR_WRITE", 940),
        ("VMCALL", 610),
        ("CPUID", 88),
    ];
    result(engine, 3, 1, &reasons)
}

/// The same on SVM in QEMU, one repetition, everything slower.
pub fn qemu() -> RunResult {
    let engine = EngineInfo {
        name: "qemu".to_owned(),
        version: "7.2.22".to_owned(),
        clock: Clock::Wall,
        description: "A Linux KVM host in QEMU without virtualization hardware: SVM with nested \
                      paging"
            .to_owned(),
    };
    let reasons = [
        ("interrupt", 9_100),
        ("hlt", 3_300),
        ("npf", 2_100),
        ("msr", 800),
    ];
    result(engine, 1, 3, &reasons)
}

fn result(engine: EngineInfo, repetitions: u32, slow: u64, reasons: &[(&str, i64)]) -> RunResult {
    let scenario = ScenarioInfo {
        name: "two-vms".to_owned(),
        title: "Two VMs on the same CPUs".to_owned(),
        question: "How long does a TLB shootdown take when its targets share their pCPUs with \
                   another VM?"
            .to_owned(),
        digest: "9f2c".repeat(16),
    };
    let command = format!("steady run scenarios/two-vms.toml --engine {}", engine.name);
    let mut result = RunResult::new(scenario, engine, 1);
    for (key, value) in [
        ("kernel.release", "6.12.63"),
        ("kernel.config_sha256", &"41d0".repeat(16)),
        ("image_sha256", &"c07b".repeat(16)),
        ("vmm", "steady-vmm 0.1.0"),
        ("pcpus", "2"),
    ] {
        result.config.insert(key.to_owned(), value.to_owned());
    }
    result.variants = MODELS
        .iter()
        .map(|model| variant(model, repetitions, slow, reasons))
        .collect();
    result.run.started = "2026-01-02T03:04:05Z".to_owned();
    result.run.tool = "steady 0.1.0".to_owned();
    result.run.machine = "x86_64, 2 CPUs, Debian 12".to_owned();
    result.run.command = command;
    result.run.wall_ms = 214_300;
    for model in &MODELS {
        for (phase, wall_ms) in [
            ("boot", 9_200),
            ("guests-up", 14_700),
            ("workloads", 41_000),
            ("collect", 850),
        ] {
            result.run.phases.push(Phase {
                variant: model.name.to_owned(),
                repetition: 0,
                phase: phase.to_owned(),
                wall_ms,
            });
        }
    }
    result.seal();
    result
}

fn variant(model: &Model, repetitions: u32, slow: u64, reasons: &[(&str, i64)]) -> VariantResult {
    VariantResult {
        name: model.name.to_owned(),
        title: model.title.to_owned(),
        remedies: model.remedies.iter().map(|&name| name.to_owned()).collect(),
        repetitions: (0..repetitions)
            .map(|index| repetition(model, index, slow, reasons))
            .collect(),
    }
}

fn repetition(model: &Model, index: u32, slow: u64, reasons: &[(&str, i64)]) -> Repetition {
    let mut draw = Draw(u64::from(index) + model.usual_ns);
    let mut histogram = Histogram::new();
    for _ in 0..2_000 {
        let mut value = model.usual_ns * 3 / 4 + draw.below(model.usual_ns / 2);
        value += (draw.below(1_000) * draw.below(1_000) * draw.below(1_000)) * value / 800_000_000;
        if draw.below(model.one_waits_in) == 0 {
            value += model.wait_ns / 8 + draw.below(model.wait_ns);
        }
        histogram.record(value * slow);
    }
    let latency = histogram
        .distribution("shootdown.latency", Unit::Ns)
        .expect("the sum fits")
        .in_vm("vm0")
        .of_workload("latency");
    let mut metrics = latency.summary().expect("latencies fit");
    let mean = i64::try_from(latency.mean().expect("values")).expect("fits");
    let of_latency = |name: &str, unit, better, value| {
        Metric::new(name, unit, better, value)
            .in_vm("vm0")
            .of_workload("latency")
    };
    let ops = 1_000_000_000_000 / mean;
    metrics.push(of_latency(
        "throughput",
        Unit::OpsPerKs,
        Better::Higher,
        ops,
    ));
    metrics.push(of_latency("time", Unit::Ns, Better::Lower, mean * 2_000));
    metrics.push(of_latency("timed_out", Unit::Count, Better::Lower, 0));
    let spin = i64::try_from(41_000_000_000 + draw.below(900_000_000)).expect("fits");
    metrics.push(
        Metric::new("throughput", Unit::OpsPerKs, Better::Higher, spin)
            .in_vm("vm1")
            .of_workload("neighbour"),
    );
    for (vm, share) in [("vm0", 1_000), ("vm1", 180)] {
        of_vm(&mut metrics, vm, share, model, &mut draw, reasons);
    }
    Repetition {
        index,
        seed: None,
        metrics,
        distributions: vec![latency],
        warnings: warnings(model, index),
        artifacts: vec![Artifact {
            name: "trace".to_owned(),
            path: format!("{}/{index}/trace.dat", model.name),
            sha256: "07e1".repeat(16),
            bytes: 18_350_080,
        }],
    }
}

fn of_vm(
    metrics: &mut Vec<Metric>,
    vm: &str,
    share: i64,
    model: &Model,
    draw: &mut Draw,
    reasons: &[(&str, i64)],
) {
    let mut push = |name: &str, unit, better, value| {
        metrics.push(Metric::new(name, unit, better, value).in_vm(vm));
    };
    let mut total = 0;
    for &(reason, count) in reasons {
        let noise = i64::try_from(draw.below(60)).expect("fits") + 970;
        let count = count * share / 1_000 * model.exits_permille / 1_000 * noise / 1_000;
        push(
            &format!("exits.{reason}"),
            Unit::Count,
            Better::Lower,
            count,
        );
        total += count;
    }
    push("exits.total", Unit::Count, Better::Lower, total);
    push(
        "stat.halt_exits",
        Unit::Count,
        Better::Lower,
        6_900 * share / 1_000,
    );
    push(
        "stat.hypercalls",
        Unit::Count,
        Better::Neutral,
        610 * share / 1_000,
    );
    let tried = 900 * model.exits_permille / 1_000 * share / 1_000;
    push(
        "stat.directed_yield_attempted",
        Unit::Count,
        Better::Neutral,
        tried,
    );
    push(
        "stat.directed_yield_successful",
        Unit::Count,
        Better::Neutral,
        tried / 3,
    );
    push("stat.nmi_injections", Unit::Count, Better::Neutral, 0);
    push("cpu_time", Unit::Ns, Better::Neutral, 3_100_000_000);
    let shootdown = 1_400_000_000 * share / 1_000 * model.exits_permille / 1_000;
    for (class, time) in [
        ("user", 3_100_000_000 - shootdown - 520_000_000),
        ("other", 410_000_000),
        ("shootdown", shootdown),
        ("lock", 110_000_000),
    ] {
        push(
            &format!("guest_time.{class}"),
            Unit::Ns,
            Better::Neutral,
            time,
        );
    }
}

fn warnings(model: &Model, index: u32) -> Vec<Warning> {
    if model.name != "kvm-pv" || index != 0 {
        return Vec::new();
    }
    vec![Warning {
        code: "events-lost".to_owned(),
        text: "The trace lost 412 of 1,204,339 events; exits by reason are a lower bound."
            .to_owned(),
    }]
}
