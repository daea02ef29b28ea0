// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host in QEMU: TCG, AMD SVM with nested paging, machine `q35`.
//!
//! `microvm` would start sooner, but has no timer that the kernel's clocks can be calibrated by.
//! TCG has no VMX and no pause filter, so this engine shows no pause-loop exits. Its clock is the
//! wall clock of this machine: two runs differ, and a busy machine shows in the tail.

use std::fs;
use std::path::Path;

use crate::engine::{Boot, EMULATOR_LOG, SERIAL, STREAM, Start};
use crate::error::LabError;

/// TCG's time-stamp counter is steady but not said to be; without the word the host's clock is
/// coarse.
/// The restart of a panicked host is a triple fault, which `-no-reboot` turns into an end.
pub const HOST_WORDS: &str = "tsc=reliable reboot=t panic=-1";

/// Writes the initramfs and says how to start QEMU.
///
/// # Errors
/// [`LabError::Io`].
pub fn prepare(program: &Path, boot: &Boot<'_>) -> Result<Start, LabError> {
    let initrd = boot.directory.join("initrd");
    fs::write(&initrd, boot.archives.concat()).map_err(|error| LabError::io("write", &initrd, error))?;
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
        &boot.pcpus.to_string(),
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
    Ok(Start { program: program.to_owned(), arguments, scratch: vec![initrd] })
}
