// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The two VMMs: how each is started, and what their ends mean.

use steady_agent::event::FaultKind;
use steady_agent::outcome::{End, Outcome};
use steady_agent::plan::{VmPlan, Vmm};

use super::link;
use super::vm::Files;

const KERNEL: &str = "/lab/bzImage";
const INITRD: &str = "/lab/guest.cpio";

/// Program and arguments that start a VM.
pub fn command(vmm: Vmm, plan: &VmPlan, files: &Files) -> (&'static str, Vec<String>) {
    // `reboot=k` and `panic=-1` turn a panic into a reset that the VMM sees; QEMU's microvm has
    // no keyboard controller and takes a triple fault instead.
    let reboot = match vmm {
        Vmm::Steady => "reboot=k",
        Vmm::Qemu => "reboot=t",
    };
    let cmdline = format!(
        "console=ttyS0 quiet rootfstype=ramfs panic=-1 {reboot} tsc=reliable no_timer_check {}",
        plan.cmdline
    );
    let mut arguments = match vmm {
        Vmm::Steady => steady(plan, files),
        Vmm::Qemu => qemu(plan, files),
    };
    let word = |name: &str| match vmm {
        Vmm::Steady => format!("--{name}"),
        Vmm::Qemu => format!("-{}", if name == "cmdline" { "append" } else { name }),
    };
    let kernel = plan.kernel.as_deref().unwrap_or(KERNEL);
    for (name, value) in [
        ("kernel", kernel),
        ("initrd", INITRD),
        ("cmdline", cmdline.trim()),
    ] {
        arguments.extend([word(name), value.to_owned()]);
    }
    let program = match vmm {
        Vmm::Steady => "/usr/bin/steady-vmm",
        Vmm::Qemu => "/usr/bin/qemu-system-x86_64",
    };
    (program, arguments)
}

fn steady(plan: &VmPlan, files: &Files) -> Vec<String> {
    let mut arguments = strings([
        "--name",
        &plan.name,
        "--cpus",
        &plan.vcpus.to_string(),
        "--memory-mib",
        &plan.memory_mib.to_string(),
    ]);
    let path = |path: &std::path::Path| path.display().to_string();
    arguments.extend(strings([
        "--console",
        &path(&files.console),
        "--channel",
        &path(&files.channel),
        "--report",
        &path(&files.report),
    ]));
    if let Some(pin) = &plan.pin {
        arguments.extend(["--pin".to_owned(), join(pin.iter().map(u32::to_string))]);
    }
    if !plan.pv.is_empty() {
        arguments.extend([
            "--pv".to_owned(),
            join(
                plan.pv
                    .iter()
                    .map(|(name, &on)| format!("{}={}", steady_feature(name), switch(on))),
            ),
        ]);
    }
    if !plan.hidden_features.is_empty() {
        let bits = plan.hidden_features.iter();
        let hidden = join(bits.map(|bit| format!("{bit}={}", switch(false))));
        arguments.extend(["--pv-bit".to_owned(), hidden]);
    }
    if !plan.shown.is_kvm() {
        arguments.extend(strings(["--hypervisor", "hyper-v"]));
    }
    if plan.mwait {
        arguments.push("--mwait".to_owned());
    }
    if plan.halts {
        arguments.push("--halt-in-guest".to_owned());
    }
    if plan.disk_mib.is_some() {
        arguments.extend(["--disk".to_owned(), path(&files.disk)]);
    }
    for pipe in plan.links.iter().flat_map(link::pipes) {
        arguments.extend(["--disk".to_owned(), path(&pipe)]);
    }
    arguments
}

fn qemu(plan: &VmPlan, files: &Files) -> Vec<String> {
    // It shows the guest no feature that it has no name for, so there is nothing to hide.
    let mut cpu = "host".to_owned();
    for (name, &on) in &plan.pv {
        cpu.push_str(&format!(",{}={}", qemu_feature(name), switch(on)));
    }
    let mut arguments = strings([
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-M",
        "microvm,accel=kvm,acpi=off,pit=on,pic=on,isa-serial=on,rtc=off",
        "-name",
        &format!("{},debug-threads=on", plan.name),
        "-smp",
        &plan.vcpus.to_string(),
        "-m",
        &format!("{}M", plan.memory_mib),
        "-cpu",
        &cpu,
        "-serial",
        &format!("file:{}", files.console.display()),
        "-chardev",
        &format!(
            "socket,id=channel,path={},server=on,wait=off",
            files.channel.display()
        ),
        "-device",
        "isa-serial,chardev=channel,iobase=0x2f8,irq=3,index=1",
    ]);
    if plan.disk_mib.is_some() {
        arguments.extend(strings([
            "-drive",
            &format!("file={},format=raw,if=none,id=disk", files.disk.display()),
            "-device",
            "virtio-blk-device,drive=disk",
        ]));
    }
    arguments
}

fn strings<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

fn join(words: impl Iterator<Item = String>) -> String {
    words.collect::<Vec<_>>().join(",")
}

fn switch(on: bool) -> &'static str {
    if on { "on" } else { "off" }
}

/// A scenario's name of a PV feature as `steady-vmm --pv` has it.
fn steady_feature(name: &str) -> String {
    match name {
        "eoi" => "pv-eoi".to_owned(),
        other => other.replace('_', "-"),
    }
}

/// The same as a property of QEMU's CPU.
fn qemu_feature(name: &str) -> String {
    match name {
        "clocksource" => "kvmclock".to_owned(),
        "async_pf" => "kvm-asyncpf".to_owned(),
        "steal_time" | "poll_control" => format!("kvm-{}", name.replace('_', "-")),
        other => format!("kvm-pv-{}", other.replace('_', "-")),
    }
}

/// What a VM's end means, from `steady-vmm`'s report and the guest's console.
pub fn diagnose(report: &str, console: &str) -> (FaultKind, Option<String>) {
    let panic = console
        .lines()
        .find(|line| line.contains("Kernel panic - not syncing"));
    let outcome = serde_json::from_str::<End>(report).map(|end| end.outcome);
    let said = |text: &str| Some(text.to_owned());
    match (panic, outcome) {
        (Some(line), _) => (FaultKind::GuestPanic, Some(line.trim().to_owned())),
        (None, Ok(Outcome::GuestPanic)) => (FaultKind::GuestPanic, said("the guest panicked")),
        (None, Ok(Outcome::TripleFault)) => (
            FaultKind::GuestTripleFault,
            said("the guest triple-faulted"),
        ),
        (None, Ok(Outcome::GuestReset)) => (FaultKind::GuestReset, said("the guest reset itself")),
        (None, Ok(Outcome::Clean)) => (
            FaultKind::GuestReset,
            said("the guest stopped without being asked"),
        ),
        (None, Ok(Outcome::Running | Outcome::Error | Outcome::KvmError | Outcome::Killed))
        | (None, Err(_)) => (FaultKind::Vmm, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_on_the_console_is_a_panic_whatever_the_report_says() {
        let (kind, text) = diagnose(
            r#"{"outcome":"guest-reset"}"#,
            "x\n[    1.0] Kernel panic - not syncing: Attempted to kill init!\n",
        );
        assert_eq!(kind, FaultKind::GuestPanic);
        assert!(text.unwrap().contains("Attempted to kill init"));
    }

    #[test]
    fn an_end_without_report_or_panic_is_the_vmms() {
        assert_eq!(diagnose("", ""), (FaultKind::Vmm, None));
    }

    #[test]
    fn a_clean_end_that_nobody_asked_for_is_the_guests() {
        let (kind, text) = diagnose(r#"{"outcome":"clean"}"#, "");
        assert_eq!(kind, FaultKind::GuestReset);
        assert!(text.unwrap().contains("without being asked"));
    }

    #[test]
    fn each_outcome_is_a_fault_of_its_kind() {
        for (word, kind, told) in [
            ("running", FaultKind::Vmm, false),
            ("clean", FaultKind::GuestReset, true),
            ("error", FaultKind::Vmm, false),
            ("guest-panic", FaultKind::GuestPanic, true),
            ("triple-fault", FaultKind::GuestTripleFault, true),
            ("guest-reset", FaultKind::GuestReset, true),
            ("kvm-error", FaultKind::Vmm, false),
            ("killed", FaultKind::Vmm, false),
            ("a word of another build", FaultKind::Vmm, false),
        ] {
            let report = format!("{{\"outcome\":\"{word}\",\"detail\":\"x\"}}");
            let (found, text) = diagnose(&report, "");
            assert_eq!((found, text.is_some()), (kind, told), "{word}");
        }
    }

    #[test]
    fn features_and_kvm_itself_are_hidden_only_where_the_plan_says_so() {
        let plan = |bits: &str| -> VmPlan {
            let text = format!(
                r#"{{"name":"a","vcpus":1,"memory_mib":64,"pin":null,"cpu_weight":100,
                "cgroup":"none","disk_mib":null,"cmdline":"","start_delay_us":0,
                "background":false,"pv":{{}},
                {bits}"workloads":[]}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let files = Files {
            console: "c".into(),
            channel: "s".into(),
            report: "r".into(),
            said: "w".into(),
            disk: "d".into(),
        };
        let after = |plan: &VmPlan| {
            let (_, words) = command(Vmm::Steady, plan, &files);
            let at = words.iter().position(|word| word == "--pv-bit")?;
            words.get(at + 1).cloned()
        };
        let hidden = plan(r#""hidden_features":[28,30],"#);
        assert_eq!(after(&hidden).as_deref(), Some("28=off,30=off"));
        assert_eq!(after(&plan("")), None);
        let json = serde_json::to_string(&plan("")).unwrap();
        assert!(!json.contains("hidden"), "{json}");
        let shows = |plan: &VmPlan| {
            let (_, words) = command(Vmm::Steady, plan, &files);
            let at = words.iter().position(|word| word == "--hypervisor")?;
            words.get(at + 1).cloned()
        };
        let hyperv = plan(r#""shown":"hyper-v","#);
        assert_eq!(shows(&hyperv).as_deref(), Some("hyper-v"));
        assert_eq!(shows(&plan("")), None);
        assert!(!json.contains("shown"), "{json}");
        for (key, option) in [("mwait", "--mwait"), ("halts", "--halt-in-guest")] {
            let has = |plan: &VmPlan| {
                let (_, words) = command(Vmm::Steady, plan, &files);
                words.iter().any(|word| word == option)
            };
            let asked = plan(&format!(r#""{key}":true,"#));
            assert!(has(&asked) && !has(&plan("")), "{key}");
            assert!(!json.contains(key), "{json}");
        }
    }

    #[test]
    fn a_guest_boots_its_hosts_kernel_where_its_plan_names_no_other() {
        let mut plan: VmPlan = serde_json::from_str(
            r#"{"name":"a","vcpus":1,"memory_mib":64,"pin":null,"cpu_weight":100,
            "cgroup":"none","disk_mib":null,"cmdline":"","start_delay_us":0,
            "background":false,"pv":{},"workloads":[]}"#,
        )
        .unwrap();
        let files = Files::of("no-such-vm");
        for vmm in [Vmm::Steady, Vmm::Qemu] {
            let boots = |plan: &VmPlan, kernel: &str| {
                let (_, words) = command(vmm, plan, &files);
                words.iter().filter(|word| *word == kernel).count() == 1
            };
            plan.kernel = None;
            assert!(boots(&plan, "/lab/bzImage"));
            plan.kernel = Some("/lab/other".to_owned());
            assert!(boots(&plan, "/lab/other") && !boots(&plan, "/lab/bzImage"));
        }
        plan.kernel = None;
        let json = serde_json::to_string(&plan).unwrap();
        assert!(!json.contains("kernel"), "{json}");
    }

    #[test]
    fn both_vmms_know_every_pv_feature_of_the_scenario_by_its_own_name() {
        for (scenario, steady, qemu) in [
            ("tlb_flush", "tlb-flush", "kvm-pv-tlb-flush"),
            ("ipi", "ipi", "kvm-pv-ipi"),
            ("sched_yield", "sched-yield", "kvm-pv-sched-yield"),
            ("unhalt", "unhalt", "kvm-pv-unhalt"),
            ("eoi", "pv-eoi", "kvm-pv-eoi"),
            ("steal_time", "steal-time", "kvm-steal-time"),
            ("async_pf", "async-pf", "kvm-asyncpf"),
            ("poll_control", "poll-control", "kvm-poll-control"),
            ("clocksource", "clocksource", "kvmclock"),
        ] {
            assert_eq!(
                (
                    steady_feature(scenario).as_str(),
                    qemu_feature(scenario).as_str()
                ),
                (steady, qemu)
            );
        }
    }
}
