// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host in Bochs: Intel VMX with EPT, VPID and pause-loop exiting; for selftests AMD SVM, too.
//!
//! Its clock counts instructions, so a run repeats to the last digit. The preemption timer needs
//! our patch to Bochs and is off on the packaged one.

use std::fs;
use std::path::Path;
use std::time::Duration;

use steady_lab_artifacts::ArtifactError;
use steady_lab_artifacts::bochs::{self, Bochs};
use steady_lab_artifacts::image::iso;
use steady_lab_artifacts::need::emulators;
use steady_measures::Clock;

use crate::engine::{Boot, EMULATOR_LOG, Emulator, EngineKind, Processor, SERIAL, STREAM, Start};
use crate::error::LabError;

/// The engine `bochs`.
pub const KIND: EngineKind = EngineKind {
    name: "bochs",
    description: "real Linux/KVM on an emulated Intel host (Bochs, VMX with EPT, VPID and \
                  pause-loop exiting); its clock is instructions, so runs repeat exactly",
    clock: Clock::Instructions {
        per_second: INSTRUCTIONS_PER_SECOND,
    },
    // What its BIOS makes tables for.
    most_pcpus: 16,
    processors: &[Processor::Apicv, Processor::Amd],
    // A quarter of a second of sixteen pCPUs that all work takes about 15 s.
    silence: Duration::from_secs(120),
    // The range of Bochs 3.0's memory option, without its support for large RAM files.
    most_memory_mib: Some(2048),
    // It repeats a loss exactly, so another try would bring nothing.
    retries_lost: None,
    find: |home, watcher| Ok(Box::new(bochs::ensure(home, watcher)?)),
    needs: |home| emulators::bochs(home, false),
};

/// Instructions of one emulated second. It is near what the compiled Bochs executes, so the
/// emulated clock keeps about the pace of the wall.
pub const INSTRUCTIONS_PER_SECOND: u64 = 200_000_000;

/// Cycles of the TSC in `ns` nanoseconds of the emulated clock, to the nearest: the TSC counts
/// instructions, at the rate that the host is given.
#[must_use]
pub fn tsc_cycles(ns: u32) -> u64 {
    const NS_PER_S: u64 = 1_000_000_000;
    (u64::from(ns) * INSTRUCTIONS_PER_SECOND + NS_PER_S / 2) / NS_PER_S
}

/// Words for every host in Bochs. A host that panics restarts by a triple fault, at which Bochs
/// ends. The rate of the TSC is [`INSTRUCTIONS_PER_SECOND`]: where the host measures it itself, KVM
/// starts with a rough figure, and once the host has refined it by more than 250 ppm, KVM 6.12
/// gives vCPUs neither a TSC offset nor timers that fire (`set_tsc_khz` in arch/x86/kvm/x86.c).
const HOST_WORDS: &str = "tsc_early_khz=200000 reboot=t panic=-1";
const _: () = assert!(INSTRUCTIONS_PER_SECOND == 200_000 * 1000);

/// The packaged Bochs cannot have it: its guests hang with the preemption timer.
const HOST_WORDS_PACKAGED: &str =
    "tsc_early_khz=200000 reboot=t panic=-1 kvm_intel.preemption_timer=0";

const BIOS: (&str, &str) = ("/usr/share/bochs/BIOS-bochs-latest", "bochsbios");
const VGA_BIOS: (&str, &str) = ("/usr/share/vgabios/vgabios.bin", "vgabios");
/// What Bochs itself logs, besides what it prints.
const BOCHS_LOG: &str = "bochs.log";

impl Emulator for Bochs {
    fn version(&self) -> String {
        let how = if self.compiled {
            "compiled"
        } else {
            "packaged"
        };
        format!("{} ({how})", self.version)
    }

    fn environment(&self) -> Option<String> {
        self.choice().map(|choice| format!("STEADY_BOCHS={choice}"))
    }

    fn host_words(&self) -> String {
        let words = if self.compiled {
            HOST_WORDS
        } else {
            HOST_WORDS_PACKAGED
        };
        words.to_owned()
    }

    fn calibrate(&mut self, _agent: &Path) -> Result<(), LabError> {
        // Its time-stamp counter has the rate that it is given.
        Ok(())
    }

    fn prepare(&self, boot: &Boot<'_>) -> Result<Start, LabError> {
        prepare(self, boot)
    }
}

/// The model with virtual-interrupt delivery and posted interrupts.
const WITH_APICV: &str = "corei7_skylake_x";
/// The model with SVM, its NRIPS and FLUSHBYASID, and without PCIDs.
const OF_AMD: &str = "ryzen";

/// The older of Intel's executes less for the same work: no state of AVX-512.
fn model(processor: Processor, compiled: bool) -> &'static str {
    match processor {
        Processor::Usual if compiled => "corei7_haswell_4770",
        Processor::Usual | Processor::Apicv => WITH_APICV,
        Processor::Amd => OF_AMD,
    }
}

/// Makes the boot CD and the configuration, and says how to start Bochs.
fn prepare(bochs: &Bochs, boot: &Boot<'_>) -> Result<Start, LabError> {
    for (path, package) in [BIOS, VGA_BIOS] {
        if !Path::new(path).is_file() {
            return Err(ArtifactError::Missing {
                program: path.into(),
                why: "Bochs boots with it",
                package,
            }
            .into());
        }
    }
    let cd = iso::make(boot.directory, boot.kernel, boot.archives, boot.cmdline)?;
    let model = model(boot.processor, bochs.compiled);
    // The packaged build has a debugger that must be asked to go on, and a display; the compiled
    // one has neither.
    let display = match bochs.compiled {
        true => "nogui",
        false => "rfb, options=\"timeout=0\"",
    };
    let serial = match boot.terminal {
        Some(terminal) => format!("mode=term, dev={}", terminal.display()),
        None => format!("mode=file, dev={SERIAL}"),
    };
    let text = format!(
        "config_interface: textconfig\n\
         display_library: {display}\n\
         memory: guest={memory}, host={memory}\n\
         romimage: file={bios}\n\
         vgaromimage: file={vga}\n\
         boot: cdrom\n\
         ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14\n\
         ata1: enabled=0\n\
         ata0-master: type=cdrom, path=host.iso, status=inserted\n\
         cpu: model={model}, count={count}, ips={ips}, reset_on_triple_fault=0, ignore_bad_msrs=1\n\
         clock: sync=none, time0=946684800\n\
         vga: extension=vbe, update_freq=1, realtime=0\n\
         speaker: enabled=0\n\
         com1: enabled=1, {serial}\n\
         port_e9_hack: enabled=1\n\
         log: {BOCHS_LOG}\n\
         panic: action=fatal\n\
         error: action=ignore\n\
         info: action=ignore\n\
         pci: enabled=1, chipset=i440fx\n",
        memory = boot.memory_mib,
        bios = BIOS.0,
        vga = VGA_BIOS.0,
        count = count(boot),
        ips = INSTRUCTIONS_PER_SECOND,
    );
    // By default the display is refreshed by the wall clock, which would cut the processors' turns
    // at other instructions in each run.
    write(boot.directory, "machine.bochsrc", &text)?;
    write(boot.directory, "start.rc", "c\n")?;
    let mut arguments: Vec<String> = ["-q", "-f", "machine.bochsrc"].map(str::to_owned).into();
    if !bochs.compiled {
        arguments.extend(["-rc".to_owned(), "start.rc".to_owned()]);
    }
    Ok(Start {
        program: bochs.program.clone(),
        arguments,
        stdout: STREAM,
        stderr: EMULATOR_LOG,
        // A restart is a triple fault, which it takes for a failure of its own.
        ends_with: &[0, 1],
        scratch: vec![cd],
    })
}

/// Processors as Bochs counts them: sockets, or one with cores of two threads.
fn count(boot: &Boot<'_>) -> String {
    match boot.smt {
        true => format!("1:{}:2", boot.pcpus / 2),
        false => boot.pcpus.to_string(),
    }
}

fn write(directory: &Path, name: &str, text: &str) -> Result<(), LabError> {
    let path = directory.join(name);
    fs::write(&path, text).map_err(|error| LabError::io("write", &path, error))
}
