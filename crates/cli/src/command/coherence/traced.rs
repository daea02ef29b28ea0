// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a host's kernel traced of its vCPUs, read from KVM's tracepoints. Left out: what of it is
//! compared ([`super::matched`]), and what has no tracepoint.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use steady_decode::Decoder;
use steady_events::{Isa, Kind, timer};
use steady_lab_artifacts::process::interrupted;
use steady_memtrace::host::{Seen, Sequences, exit, written};
use steady_tracefile::Record;

/// Tracepoints that are read; those of remedies come besides.
const NAMES: [&str; 7] = [
    "kvm_entry",
    "kvm_exit",
    "kvm_msr",
    "kvm_hypercall",
    "kvm_apic_ipi",
    "kvm_inj_virq",
    "kvm_pv_tlb_flush",
];
/// What a kernel traced.
pub struct Traced {
    /// By thread, what happened to vCPUs.
    pub of: Sequences,
    /// Events that the trace lost, and those that could not be read.
    pub lost: u64,
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
        anyhow::ensure!(!interrupted(), "interrupted");
        let event = decoder.event(&record);
        let vcpu = u64::from(event.tid.cast_unsigned());
        match event.kind {
            Kind::Entry { .. } => {
                if let Some(vector) = injected.remove(&vcpu) {
                    of.saw(vcpu, Seen::Injected, vector);
                }
                of.saw(vcpu, Seen::Entry, event.cpu);
            }
            Kind::Exit {
                reason, interrupt, ..
            } if reason.isa == Isa::Vmx => {
                of.saw(vcpu, Seen::Exit, exit(reason.code, interrupt.into()));
            }
            Kind::MsrRead { index } => of.saw(vcpu, Seen::MsrRead, index),
            Kind::MsrWrite { index, value } => {
                of.saw(vcpu, Seen::MsrWrite, written(index.into(), value));
            }
            // The decoder calls a register of a timer by what it does.
            Kind::TimerProgrammed { value } => {
                let register = timer::TSC_DEADLINE.into();
                of.saw(vcpu, Seen::MsrWrite, written(register, value));
            }
            Kind::IpiSent { vector } => of.saw(vcpu, Seen::Ipi, vector),
            Kind::Hypercall { nr } => of.saw(vcpu, Seen::Hypercall, nr),
            Kind::PvTlbFlush { needed } => {
                // Without need it says that a vCPU was marked as preempted, and nothing is flushed.
                if needed {
                    of.saw(vcpu, Seen::Flushed, 0_u8);
                }
            }
            Kind::Injected { vector } => {
                injected.insert(vcpu, vector);
            }
            _ => match range(&record) {
                Some((_, u64::MAX)) => of.saw(vcpu, Seen::Flushed, 0_u8),
                Some((start, end)) => {
                    for page in (start..end).step_by(4096) {
                        of.saw(vcpu, Seen::Invalidated, page);
                    }
                }
                None => {}
            },
        }
    }
    let lost = source.loss().cpus.values();
    let lost = lost.map(|of| of.lost + of.overrun + of.dropped + of.gaps_unknown);
    Ok(Traced {
        of,
        lost: lost.sum::<u64>() + decoder.unreadable(),
    })
}

/// What a remedy's tracepoint `kvm_<remedy>_invalidate` says was invalidated for this vCPU: pages
/// each by itself, or everything where the end is the last number.
fn range(record: &Record) -> Option<(u64, u64)> {
    let is_it = record.event.name.starts_with("kvm_") && record.event.name.ends_with("_invalidate");
    let number = |name| record.u64(record.event.field(name)?);
    let found = || number("start").zip(number("end"));
    is_it.then(found).flatten()
}

/// The one `trace.dat` below a folder.
fn found(run: &Path) -> anyhow::Result<PathBuf> {
    let (mut folders, mut traces) = (vec![run.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        let entries = std::fs::read_dir(&folder);
        let entries = entries.with_context(|| format!("read {}", folder.display()))?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.file_name().is_some_and(|name| name == "trace.dat") {
                traces.push(path);
            }
        }
    }
    match <[PathBuf; 1]>::try_from(traces) {
        Ok([trace]) => Ok(trace),
        Err(traces) => anyhow::bail!(
            "{} has {} trace.dat; expected that of one run",
            run.display(),
            traces.len()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_with_no_trace_or_with_two_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = || traced(folder.path()).err().unwrap().to_string();
        assert!(error().contains("has 0 trace.dat; expected that of one run"));
        for run in ["one", "two"] {
            std::fs::create_dir(folder.path().join(run)).unwrap();
            std::fs::write(folder.path().join(run).join("trace.dat"), "").unwrap();
        }
        assert!(error().contains("has 2 trace.dat"), "{}", error());
    }

    #[test]
    fn a_trace_that_says_that_it_lost_events_is_not_whole() {
        let folder = tempfile::tempdir().unwrap();
        let entry = " CPU 0/KVM-70 [001] d..1. 1.0: kvm_entry: vcpu 0, rip 0x1\n";
        let lost = format!("{entry}CPU:1 [LOST 12 EVENTS]\n{entry}");
        std::fs::write(folder.path().join("trace.dat"), lost).unwrap();
        assert_eq!(traced(folder.path()).unwrap().lost, 12);
    }
}
