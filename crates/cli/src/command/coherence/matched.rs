// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A trace of a whole host beside what the host's own kernel traced of the same run.
//!
//! Bochs writes one, KVM's tracepoints are the other. Where both name a thing, they must name the
//! same ones in the same order for each vCPU, or the first difference is shown. Left out: what the
//! host has no tracepoint for, above all what a guest invalidates itself, which causes no exit.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use steady_decode::Decoder;
use steady_events::{Isa, Kind};
use steady_memtrace::host::{Beside, Seen, Sequences, exit};
use steady_tracefile::Record;

/// Tracepoints that are compared.
const NAMES: [&str; 6] = [
    "kvm_entry",
    "kvm_exit",
    "kvm_msr",
    "kvm_hypercall",
    "kvm_apic_ipi",
    "kvm_inj_virq",
];
/// `MSR_IA32_TSC_DEADLINE`, which the decoder calls by what it does.
const TSC_DEADLINE: u64 = 0x6e0;
/// VM exits by which vCPUs are known, at least: fewer agree by accident.
const FEWEST: u64 = 100;
/// What is recorded and no tracepoint names.
const UNTRACED: &str = "not traced: guests' INVLPG, INVPCID and MOV to CR3; the host's INVLPG, \
                        INVPCID, INVEPT, INVVPID of whole vCPUs, and IPIs";
/// Differences that are shown of each kind.
const SHOWN: usize = 4;

/// What a kernel traced.
pub struct Traced {
    of: Sequences,
    lost: u64,
}

/// Reads the trace that a run in this folder has left.
pub fn traced(run: &Path) -> anyhow::Result<Traced> {
    let file = found(run)?;
    let mut source = steady_tracefile::open(&file)?;
    let mut decoder = Decoder::only(&NAMES);
    let mut of = Sequences::default();
    // KVM takes an injection back if something comes up before the entry, and makes it again.
    let mut injected = BTreeMap::new();
    while let Some(record) = source.next()? {
        let event = decoder.event(&record);
        let vcpu = u64::from(event.tid.cast_unsigned());
        match event.kind {
            Kind::Entry { .. } => {
                if let Some(vector) = injected.remove(&vcpu) {
                    of.saw(vcpu, Seen::Injected, vector);
                }
                of.saw(vcpu, Seen::Entry, event.cpu.into());
            }
            Kind::Exit {
                reason, interrupt, ..
            } if reason.isa == Isa::Vmx => {
                of.saw(vcpu, Seen::Exit, exit(reason.code, interrupt.into()));
            }
            Kind::MsrRead { index } => of.saw(vcpu, Seen::MsrRead, index.into()),
            Kind::MsrWrite { index, value } => {
                of.saw(vcpu, Seen::MsrWrite, written(index.into(), value));
            }
            Kind::TimerProgrammed { value } => {
                of.saw(vcpu, Seen::MsrWrite, written(TSC_DEADLINE, value));
            }
            Kind::IpiSent { vector } => of.saw(vcpu, Seen::Ipi, vector.into()),
            Kind::Hypercall { nr } => of.saw(vcpu, Seen::Hypercall, nr),
            Kind::Injected { vector } => {
                injected.insert(vcpu, vector.into());
            }
            _ => {
                for page in pages(&record) {
                    of.saw(vcpu, Seen::Invalidated, page);
                }
            }
        }
    }
    let lost = source.loss().cpus.values();
    let lost = lost.map(|of| of.lost + of.overrun + of.dropped + of.gaps_unknown);
    Ok(Traced {
        of,
        lost: lost.sum(),
    })
}

/// The pages that a remedy's tracepoint `kvm_<remedy>_invalidate` says were invalidated for this
/// vCPU, each by itself; none of a range that is everything.
fn pages(record: &Record) -> impl Iterator<Item = u64> + use<> {
    let is_it = record.event.name.starts_with("kvm_") && record.event.name.ends_with("_invalidate");
    let number = |name| record.u64(record.event.field(name)?);
    let range = match is_it {
        true => number("start").zip(number("end")),
        false => None,
    };
    let (start, end) = range.filter(|(_, end)| *end != u64::MAX).unwrap_or((0, 0));
    (start..end).step_by(4096)
}

fn written(register: u64, value: u64) -> u64 {
    register << 32 | value & 0xffff_ffff
}

/// The one `trace.dat` below a folder.
fn found(folder: &Path) -> anyhow::Result<PathBuf> {
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder);
        let entries = entries.with_context(|| format!("read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == "trace.dat") {
                return Ok(path);
            }
        }
    }
    anyhow::bail!("no trace.dat in {}; expected the run's", folder.display())
}

/// Prints both, but for kinds that are not `compared`; whether they agree.
pub fn print(
    out: &mut impl Write,
    captured: &Sequences,
    traced: &Traced,
    compared: &[Seen],
) -> anyhow::Result<bool> {
    writeln!(
        out,
        "  beside the kernel's own trace, while both saw it, each vCPU's in order:"
    )?;
    let mut all = captured.beside(&traced.of);
    all.retain(|kind| compared.contains(&kind.seen));
    anyhow::ensure!(
        all[0].agreed >= FEWEST,
        "the host's trace and the recorded time have {} VM exits in common, expected {FEWEST} or \
         more: the host begins to trace when its guests are up, so give a later --after-ticks",
        all[0].agreed
    );
    for kind in &all {
        print_kind(out, kind)?;
    }
    writeln!(out, "    {UNTRACED}")?;
    if traced.lost > 0 {
        writeln!(
            out,
            "    the kernel lost {} of its events; behind them nothing can agree",
            traced.lost
        )?;
    }
    Ok(traced.lost == 0 && all.iter().all(|kind| kind.differences.is_empty()))
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
    };
    writeln!(
        out,
        "    {what}: {} recorded, {} traced, {} agree",
        kind.ours, kind.theirs, kind.agreed
    )?;
    let shown = |value: Option<u64>| value.map_or("missing".to_owned(), |it| format!("{it:#x}"));
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
            all.saw(1, Seen::MsrWrite, written(TSC_DEADLINE, at));
            all.saw(1, Seen::Entry, 1);
            all.saw(1, Seen::Exit, exit(1, 0x8000_00ec));
            all.saw(1, Seen::Invalidated, at << 12);
            all.saw(1, Seen::Invalidated, (at + 1) << 12);
            all.saw(1, Seen::Injected, 0xec);
            all.saw(1, Seen::Entry, 1);
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
    fn too_few_exits_in_common_are_not_an_agreement() {
        let text: String = (1..=80).map(|at| round(at, "IRQ 0xfd")).collect();
        let error = shown(20, &text).unwrap_err().to_string();
        assert!(error.contains("40 VM exits in common"), "{error}");
    }

    #[test]
    fn a_run_without_a_trace_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = traced(folder.path()).err().unwrap().to_string();
        assert!(error.contains("no trace.dat in"), "{error}");
    }
}
