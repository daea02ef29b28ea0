// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host in QEMU: TCG, AMD SVM with nested paging, machine `q35`.
//!
//! `microvm` would start sooner, but has no timer that the kernel's clocks can be calibrated by.
//! TCG has no VMX and no pause filter, so this engine shows no pause-loop exits. Its clock is the
//! wall clock of this machine: two runs differ, and a busy machine shows in the tail.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use steady_lab_artifacts::Home;
use steady_lab_artifacts::need::emulators;
use steady_lab_artifacts::qemu_system::{self, QemuSystem};
use steady_measures::Clock;
use steady_race::Watcher;

use crate::engine::{
    Boot, EMULATOR_LOG, EMULATOR_OUT, Emulator, EngineKind, MOST_TRIES, SERIAL, STREAM, Start,
};
use crate::error::LabError;

/// The engine `qemu`.
pub const KIND: EngineKind = EngineKind {
    name: "qemu",
    description: "real Linux/KVM on an emulated AMD host (QEMU TCG, SVM, no pause filter); its \
                  clock is the wall, so runs differ",
    clock: Clock::Wall,
    most_pcpus: 64,
    // TCG has no AVIC, and stores no address of the next instruction.
    processors: &[],
    silence: Duration::from_secs(40),
    most_memory_mib: None,
    // The packaged one loses a guest or the host now and then.
    retries_lost: Some(
        "seen with Debian's own QEMU's nested SVM, and a fault of the kernel if it comes each time",
    ),
    find: |home, watcher| Ok(Box::new(Qemu::find(home, watcher)?)),
    needs: |home| emulators::qemu(home, false),
};

/// QEMU, by its program.
#[derive(Debug)]
struct Qemu {
    program: QemuSystem,
    /// Frequency of this machine's time-stamp counter, which is the guest's under TCG; 0 before it
    /// is measured.
    tsc_khz: u64,
}

impl Qemu {
    fn find(home: &Home, watcher: &dyn Watcher) -> Result<Self, LabError> {
        Ok(Self {
            program: qemu_system::choose(home, watcher)?,
            tsc_khz: 0,
        })
    }
}

impl Emulator for Qemu {
    fn version(&self) -> String {
        format!("{} ({})", self.program.version, self.program.made())
    }

    fn environment(&self) -> Option<String> {
        Some(format!("STEADY_QEMU={}", self.program.made()))
    }

    /// The packaged one was seen to lose a guest twice in a row.
    fn more_tries(&self) -> u32 {
        if self.program.made() == "packaged" {
            MOST_TRIES
        } else {
            1
        }
    }

    fn host_words(&self) -> String {
        assert!(self.tsc_khz > 0, "calibrated before a host is booted");
        format!("{HOST_WORDS} tsc_early_khz={}", self.tsc_khz)
    }

    fn calibrate(&mut self, agent: &Path) -> Result<(), LabError> {
        self.tsc_khz = tsc_khz(agent)?;
        Ok(())
    }

    fn prepare(&self, boot: &Boot<'_>) -> Result<Start, LabError> {
        prepare(&self.program.program, boot)
    }
}

/// TCG's time-stamp counter is steady but not said to be; without the word the host's clock is
/// coarse. Its frequency is given beside these words, since calibrating it under emulation on a
/// busy machine can be wrong by a factor of ten.
/// The restart of a panicked host is a triple fault, which `-no-reboot` turns into an end.
const HOST_WORDS: &str = "tsc=reliable reboot=t panic=-1";

/// Asks our init program for the frequency of the time-stamp counter, in kHz.
fn tsc_khz(agent: &Path) -> Result<u64, LabError> {
    let failed = |error| LabError::io("run", agent, error);
    let output = Command::new(agent)
        .arg("--tsc-khz")
        .output()
        .map_err(failed)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = |_| {
        std::io::Error::other(format!(
            "it printed `{}` instead of a frequency",
            text.trim()
        ))
    };
    text.trim()
        .parse()
        .map_err(|error: std::num::ParseIntError| failed(wrong(error)))
}

/// Has the processor say that its time-stamp counter is constant, as this machine's is. QEMU 7.2
/// takes that for a feature that TCG lacks, so it is forced; and all of the model that TCG lacks
/// indeed, which would be forced too, is asked away.
const CONSTANT_TSC: &str = ",+invtsc,x-force-features=on,-rdseed,-sha-ni,-rdpid,-xsavec,\
    -3dnowprefetch,-misalignsse,-osvw,-perfctr-core,-topoext,-fxsr-opt,-amd-stibp,-clzero,-ibpb,\
    -wbnoinvd,-xsaveerptr";

/// The processors. The BIOS's table of them has one for each socket; ACPI's, which the kernel takes
/// before that one, has all.
fn processors(boot: &Boot<'_>) -> String {
    match boot.smt {
        true => format!(
            "{},sockets=1,cores={},threads=2",
            boot.pcpus,
            boot.pcpus / 2
        ),
        false => format!("{0},sockets={0},cores=1,threads=1", boot.pcpus),
    }
}

/// Writes the initramfs and says how to start QEMU.
fn prepare(program: &Path, boot: &Boot<'_>) -> Result<Start, LabError> {
    let initrd = boot.directory.join("initrd");
    fs::write(&initrd, boot.archives.concat())
        .map_err(|error| LabError::io("write", &initrd, error))?;
    // On a terminal QEMU's monitor is behind Ctrl-A, and Ctrl-C is the host's.
    let serial = match boot.terminal {
        Some(_) => "mon:stdio".to_owned(),
        None => format!("file:{SERIAL}"),
    };
    // NRIPS and XSAVES are what TCG lacks of this model; asked away so that it does not warn.
    let mut cpu = "EPYC-Rome,+svm,+npt,-nrip-save,-xsaves".to_owned();
    if boot.constant_tsc {
        cpu.push_str(CONSTANT_TSC);
    }
    let arguments = [
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-M",
        "q35,accel=tcg,smm=off,vmport=off",
        "-cpu",
        &cpu,
        "-smp",
        &processors(boot),
        "-m",
        &format!("{}M", boot.memory_mib),
        "-kernel",
        &boot.kernel.display().to_string(),
        "-initrd",
        "initrd",
        "-append",
        boot.cmdline,
        "-serial",
        &serial,
        "-chardev",
        &format!("file,id=stream,path={STREAM}"),
        "-device",
        "isa-debugcon,iobase=0xe9,chardev=stream",
        "-device",
        "isa-debug-exit,iobase=0x501,iosize=1",
        "-D",
        EMULATOR_LOG,
    ];
    let arguments = arguments.map(str::to_owned).into();
    Ok(Start {
        program: program.to_owned(),
        arguments,
        stdout: EMULATOR_OUT,
        stderr: EMULATOR_OUT,
        ends_with: &[0],
        scratch: vec![initrd],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_packaged_one_has_more_than_one_further_try() {
        let tries = |compiled| {
            let program = QemuSystem {
                program: "qemu".into(),
                version: "1".to_owned(),
                compiled,
            };
            let qemu = Qemu {
                program,
                tsc_khz: 0,
            };
            qemu.more_tries()
        };
        assert_eq!([true, false].map(tries), [1, MOST_TRIES]);
    }
}
