// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host in QEMU: TCG, AMD SVM with nested paging, machine `q35`.
//!
//! `microvm` would start sooner, but has no timer that the kernel's clocks can be calibrated by.
//! TCG has no VMX and no pause filter, so this engine shows no pause-loop exits. Its clock is the
//! wall clock of this machine: two runs differ, and a busy machine shows in the tail.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::engine::{Boot, EMULATOR_LOG, SERIAL, STREAM, Start};
use crate::error::LabError;

/// TCG's time-stamp counter is steady but not said to be; without the word the host's clock is
/// coarse. Its frequency is given beside these words, since calibrating it under emulation on a busy
/// machine can be wrong by a factor of ten.
/// The restart of a panicked host is a triple fault, which `-no-reboot` turns into an end.
pub const HOST_WORDS: &str = "tsc=reliable reboot=t panic=-1";

/// Asks our init program for the frequency of the time-stamp counter, in kHz.
///
/// # Errors
/// [`LabError::Io`] if it cannot be run or says something else.
pub fn tsc_khz(agent: &Path) -> Result<u64, LabError> {
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

/// Writes the initramfs and says how to start QEMU.
///
/// # Errors
/// [`LabError::Io`].
pub fn prepare(program: &Path, boot: &Boot<'_>) -> Result<Start, LabError> {
    let initrd = boot.directory.join("initrd");
    fs::write(&initrd, boot.archives.concat())
        .map_err(|error| LabError::io("write", &initrd, error))?;
    let arguments = [
        "-nodefaults",
        "-no-user-config",
        "-no-reboot",
        "-display",
        "none",
        "-M",
        "q35,accel=tcg,smm=off,vmport=off",
        // XSAVES is what TCG lacks of this model; asked away so that it does not warn.
        "-cpu",
        "EPYC-Rome,+svm,+npt,-nrip-save,-xsaves",
        "-smp",
        // The BIOS's table of processors has one for each socket.
        &format!("{0},sockets={0},cores=1,threads=1", boot.pcpus),
        "-m",
        &format!("{}M", boot.memory_mib),
        "-kernel",
        &boot.kernel.display().to_string(),
        "-initrd",
        "initrd",
        "-append",
        boot.cmdline,
        "-serial",
        &format!("file:{SERIAL}"),
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
        scratch: vec![initrd],
    })
}
