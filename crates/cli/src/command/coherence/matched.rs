// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace of a whole host beside what the host's own kernel traced of the same run.
//!
//! Bochs writes one, KVM's tracepoints are the other. Where both name a thing, they must name the
//! same ones in the same order for each vCPU, or the first difference is shown. Left out: what the
//! host has no tracepoint for, above all what a guest invalidates itself, which causes no exit.

use std::io::Write;

use anyhow::Context;
use steady_memtrace::host::{Beside, Comparison, Seen, Sequences};
use steady_scenario::{Hypervisor, Variant};

use super::traced::Traced;

/// What is recorded and no tracepoint names.
const UNTRACED: &str = "not traced: guests' INVLPG, INVPCID and MOV to CR3; the host's INVLPG, \
                        INVPCID and INVEPT, and its IPIs as they are sent";
/// Differences that are shown of each kind.
const SHOWN: usize = 4;

/// What is compared of a variant's runs. A run does not record the tracepoint that hypercalls of
/// Hyper-V have, and what KVM invalidates for them has none. With APICv an IPI is written to the
/// virtual APIC's page, and no exit has its vector.
pub fn compared(variant: &Variant) -> Vec<Seen> {
    let kvm = variant.hypervisor == Hypervisor::Kvm;
    let is = |seen: &Seen| match seen {
        Seen::Hypercall | Seen::Invalidated | Seen::Flushed => kvm,
        Seen::Ipi => !variant.switches.apicv,
        _ => true,
    };
    Seen::ALL.into_iter().filter(is).collect()
}

/// Prints both, of the kinds that are `compared`; whether they agree and nothing was lost.
pub fn print(
    out: &mut impl Write,
    captured: &Sequences,
    traced: &Traced,
    compared: &[Seen],
) -> anyhow::Result<bool> {
    let both = captured.beside(&traced.of).context(
        "compare the host's trace with what was recorded: its kernel begins to trace when the \
         guests are up (--after-ticks)",
    )?;
    writeln!(
        out,
        "  beside the kernel's own trace, since it began, of {} vCPUs in order:",
        both.vcpus
    )?;
    for kind in both
        .kinds
        .iter()
        .filter(|kind| compared.contains(&kind.seen))
    {
        print_kind(out, kind)?;
    }
    if both.ours_later > 0 {
        let later = both.ours_later;
        writeln!(
            out,
            "    {later} VM exits were recorded after the kernel's trace had ended"
        )?;
    }
    print_alone(out, &both)?;
    writeln!(out, "    {UNTRACED}")?;
    if traced.lost > 0 {
        let lost = traced.lost;
        writeln!(
            out,
            "    the kernel's trace lost {lost} events, so nothing is certain"
        )?;
    }
    Ok(traced.lost == 0 && both.agrees(compared))
}

fn print_alone(out: &mut impl Write, both: &Comparison) -> std::io::Result<()> {
    for vpid in &both.ours_alone {
        writeln!(out, "    VPID {vpid}: recorded, and not traced")?;
    }
    for thread in &both.theirs_alone {
        writeln!(out, "    thread {thread}: traced, and not recorded")?;
    }
    Ok(())
}

fn print_kind(out: &mut impl Write, kind: &Beside) -> std::io::Result<()> {
    let what = match kind.seen {
        Seen::Exit => "VM exits, by reason and vector",
        Seen::Entry => "VM entries, by processor",
        Seen::MsrRead => "MSRs read",
        Seen::MsrWrite => "MSRs written, with what",
        Seen::Ipi => "IPIs sent, by vector",
        Seen::Hypercall => "hypercalls, by number",
        Seen::Injected => "interrupts injected, by vector",
        Seen::Invalidated => "pages invalidated by INVVPID, by address",
        Seen::Flushed => "vCPUs invalidated whole by INVVPID",
    };
    writeln!(
        out,
        "    {what}: {} recorded, {} traced, {} agree",
        kind.ours, kind.theirs, kind.agreed
    )?;
    let shown = |value: Option<u128>| value.map_or("missing".to_owned(), |it| format!("{it:#x}"));
    for of in kind.differences.iter().take(SHOWN) {
        writeln!(
            out,
            "      VPID {}: number {} is {} as recorded, and {} as traced",
            of.vpid,
            of.at + 1,
            shown(of.ours),
            shown(of.theirs)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use steady_memtrace::host::{exit, written};
    use steady_scenario::Scenario;

    use super::super::traced::traced;
    use super::*;

    /// A vCPU's round of a guest that sets its timer, as ftrace prints it.
    fn round(at: u64, injected: &str) -> String {
        let head = |part: u64| format!(" CPU 0/KVM-70 [001] d..1. {at}.00000{part}: ");
        let exit = "rip 0x1 info1 0x0 info2 0x0 intr_info";
        let lines = [
            format!("kvm_exit: vcpu 0 reason MSR_WRITE {exit} 0x0 error_code 0x0"),
            format!("kvm_msr: msr_write 6e0 = 0x5{at:08x}"),
            "kvm_entry: vcpu 0, rip 0x1".to_owned(),
            format!("kvm_exit: vcpu 0 reason EXTERNAL_INTERRUPT {exit} 0x800000ec error_code 0x0"),
            format!(
                "kvm_some_invalidate: start={} end={}",
                at << 12,
                (at + 2) << 12
            ),
            format!("kvm_inj_virq: {injected}"),
            "kvm_pv_tlb_flush: vcpu 0 need_flush_tlb false".to_owned(),
            "kvm_pv_tlb_flush: vcpu 0 need_flush_tlb true".to_owned(),
            "kvm_inj_virq: IRQ 0xec".to_owned(),
            "kvm_entry: vcpu 0, rip 0x1".to_owned(),
        ];
        let line = |(part, line): (usize, &String)| format!("{}{line}\n", head(part as u64));
        lines.iter().enumerate().map(line).collect()
    }

    /// What a recorder sees of the same rounds.
    fn captured(rounds: u64) -> Sequences {
        let mut all = Sequences::default();
        for at in 1..=rounds {
            all.saw(1, Seen::Exit, exit(32, 0));
            all.saw(1, Seen::MsrWrite, written(0x6e0, 5 << 32 | at));
            all.saw(1, Seen::Entry, 1_u32);
            all.saw(1, Seen::Exit, exit(1, 0x8000_00ec));
            all.saw(1, Seen::Invalidated, at << 12);
            all.saw(1, Seen::Invalidated, (at + 1) << 12);
            all.saw(1, Seen::Flushed, 0_u8);
            all.saw(1, Seen::Injected, 0xec_u8);
            all.saw(1, Seen::Entry, 1_u32);
        }
        all
    }

    fn shown(rounds: u64, text: &str) -> anyhow::Result<(bool, String)> {
        let folder = tempfile::tempdir()?;
        std::fs::create_dir(folder.path().join("run"))?;
        std::fs::write(folder.path().join("run/trace.dat"), text)?;
        let mut out = Vec::new();
        let agree = print(
            &mut out,
            &captured(rounds),
            &traced(folder.path())?,
            &Seen::ALL,
        )?;
        Ok((agree, String::from_utf8(out)?))
    }

    #[test]
    fn what_a_kernel_traced_agrees_with_what_was_recorded() {
        let text: String = (1..=80).map(|at| round(at, "IRQ 0xfd")).collect();
        let (agree, shown) = shown(60, &text).unwrap();
        assert!(agree, "{shown}");
        for line in [
            "VM exits, by reason and vector: 120 recorded, 120 traced, 120 agree",
            "MSRs written, with what: 60 recorded, 60 traced, 60 agree",
            // An injection that KVM took back does not count.
            "interrupts injected, by vector: 59 recorded, 59 traced, 59 agree",
            "pages invalidated by INVVPID, by address: 118 recorded, 118 traced, 118 agree",
            "vCPUs invalidated whole by INVVPID: 59 recorded, 59 traced, 59 agree",
        ] {
            assert!(shown.contains(line), "{line} in {shown}");
        }
    }

    #[test]
    fn a_page_that_the_kernel_did_not_invalidate_is_shown() {
        let text: String = (1..=80).map(|at| round(at, "IRQ 0xfd")).collect();
        let text = text.replace("start=40960", "start=45056");
        let (agree, shown) = shown(60, &text).unwrap();
        assert!(!agree);
        let line = "VPID 1: number 19 is 0xa000 as recorded, and 0xb000 as traced";
        assert!(shown.contains(line), "{shown}");
    }

    #[test]
    fn a_vcpu_that_the_kernel_did_not_invalidate_is_shown() {
        let text: String = (1..=80).map(|at| round(at, "IRQ 0xfd")).collect();
        let text = text.replacen("need_flush_tlb true", "need_flush_tlb false", 30);
        let (agree, shown) = shown(60, &text).unwrap();
        assert!(!agree);
        let line = "vCPUs invalidated whole by INVVPID: 59 recorded";
        assert!(shown.contains(line), "{shown}");
    }

    #[test]
    fn a_remedy_that_invalidates_everything_is_beside_a_whole_vcpu() {
        let text: String = (1..=80).map(|at| round(at, "IRQ 0xfd")).collect();
        let everything = format!("kvm_some_invalidate: start=0 end={}", u64::MAX);
        let text = text.replace("kvm_pv_tlb_flush: vcpu 0 need_flush_tlb true", &everything);
        let (agree, shown) = shown(60, &text).unwrap();
        let line = "vCPUs invalidated whole by INVVPID: 59 recorded, 59 traced, 59 agree";
        assert!(agree && shown.contains(line), "{shown}");
    }

    #[test]
    fn too_few_exits_in_common_are_not_an_agreement() {
        let text: String = (1..=80).map(|at| round(at, "IRQ 0xfd")).collect();
        let error = format!("{:#}", shown(20, &text).unwrap_err());
        assert!(
            error.contains("agrees in 60 VM exits and written MSRs"),
            "{error}"
        );
    }

    #[test]
    fn what_lost_events_does_not_agree_whatever_is_left() {
        let text: String = (1..=80).map(|at| round(at, "IRQ 0xfd")).collect();
        let (agree, shown) = shown(60, &format!("{text}CPU:1 [LOST 3 EVENTS]\n")).unwrap();
        assert!(!agree && shown.contains("lost 3 events"), "{shown}");
    }

    #[test]
    fn a_thread_that_was_not_recorded_does_not_agree() {
        let text: String = (1..=80).map(|at| round(at, "IRQ 0xfd")).collect();
        let other = text.replace("KVM-70", "KVM-71");
        let (agree, shown) = shown(60, &(text + &other)).unwrap();
        assert!(
            !agree && shown.contains("thread 71: traced, and not recorded"),
            "{shown}"
        );
    }

    #[test]
    fn what_a_variant_s_tracepoints_do_not_name_is_not_compared() {
        let apicv = include_str!("../../../../../scenarios/apicv.toml");
        let scenario = Scenario::parse(apicv, "apicv.toml").unwrap();
        let of = |name: &str| compared(scenario.variant(name).unwrap());
        let without = |left: &[Seen]| -> Vec<Seen> {
            let all = Seen::ALL.into_iter();
            all.filter(|seen| !left.contains(seen)).collect()
        };
        assert_eq!(of("kvm-pv"), without(&[Seen::Ipi]));
        let all = [Seen::Ipi, Seen::Hypercall, Seen::Invalidated, Seen::Flushed];
        assert_eq!(of("hv-flush"), without(&all));
    }
}
