// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line, and what it means once checked.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use thiserror::Error;

use crate::layout::{MEMORY_LIMIT, MEMORY_MIN_MIB, VIRTIO_IRQS};
use crate::mptable::{self, CPUS_MAX};
use crate::pv::{Choice, NumberedChoice};

const MIB: u64 = 1 << 20;
const MEMORY_MAX_MIB: u64 = MEMORY_LIMIT / MIB;
const DISKS_MAX: usize = VIRTIO_IRQS.len();

const AFTER_HELP: &str = "\
Exit codes:
   0  clean         the guest wrote 0x34 to I/O port 0x604
   1  error         steady-vmm itself failed, or the command line is wrong
  10  guest-panic   a reset, and the console has \"Kernel panic - not syncing\"
  11  triple-fault  KVM reported a shutdown
  12  guest-reset   a reset by the keyboard controller without a panic
  13  kvm-error     KVM reported an internal error or an unexpected exit
  14  killed        SIGTERM or SIGINT

SIGUSR1 writes a snapshot of the report with the outcome `running`. The guest needs `reboot=k` on its
command line for its resets to be seen, `panic=-1` for its panics to end it, and
`console=ttyS0` for panics to be distinguished from other resets.

Example:
  steady-vmm --name a --kernel bzImage --initrd guest.cpio --cpus 2 --memory-mib 256 \\
      --cmdline 'console=ttyS0 quiet reboot=k panic=-1' --pin 0,1 --pv tlb-flush=off,ipi=off \\
      --console a.log --channel a.sock --report a.json";

/// Runs one KVM guest: a Linux kernel, its initrd, serial ports and disks.
#[derive(Debug, Parser)]
#[command(name = "steady-vmm", version, after_help = AFTER_HELP, max_term_width = 100)]
pub struct Arguments {
    /// Name of the guest, for the report and messages.
    #[arg(long)]
    name: String,
    /// The kernel, a bzImage with a 64-bit entry point.
    #[arg(long, value_name = "FILE")]
    kernel: PathBuf,
    /// The initial RAM disk.
    #[arg(long, value_name = "FILE")]
    initrd: PathBuf,
    /// The kernel's command line; a word for each disk is added.
    #[arg(
        long,
        value_name = "WORDS",
        default_value = "",
        allow_hyphen_values = true
    )]
    cmdline: String,
    /// Number of vCPUs, 1 to 254.
    #[arg(long, value_name = "N", default_value_t = 1)]
    cpus: u32,
    /// Memory in MiB, 64 to 3072.
    #[arg(long, value_name = "M", default_value_t = 256)]
    memory_mib: u64,
    /// Host CPU that each vCPU thread is bound to: as many numbers as vCPUs.
    #[arg(long, value_name = "CPU,...", value_delimiter = ',')]
    pin: Option<Vec<usize>>,
    /// What the guest takes its hypervisor for.
    #[arg(long, value_enum, default_value_t)]
    hypervisor: Hypervisor,
    /// KVM's paravirtual features, by name; those not named are as KVM offers them, hints are off.
    #[arg(long, value_name = "NAME=on|off,...", value_delimiter = ',', long_help = pv_help())]
    pv: Vec<Choice>,
    /// The same by bit number in EAX of CPUID leaf 0x40000001, for features without a name here.
    #[arg(long, value_name = "N=on|off,...", value_delimiter = ',')]
    pv_bit: Vec<NumberedChoice>,
    /// Show the guest MONITOR and MWAIT, as if its vCPUs had host CPUs of their own. KVM carries
    /// MWAIT out as an instruction that does nothing, so give the guest `idle=nomwait`.
    #[arg(long)]
    mwait: bool,
    /// Let vCPUs halt without leaving the guest, which is for those that have host CPUs of their
    /// own.
    #[arg(long)]
    halt_in_guest: bool,
    /// A virtio disk: a file of whole 512-byte sectors, read and written; or a named pipe, an end
    /// of a channel to another guest in messages of 4096 bytes. May be repeated.
    #[arg(long, value_name = "FILE")]
    disk: Vec<PathBuf>,
    /// File for the guest's console, ttyS0.
    #[arg(long, value_name = "FILE")]
    console: PathBuf,
    /// Unix socket to listen at, joined to the guest's ttyS1.
    #[arg(long, value_name = "SOCKET")]
    channel: PathBuf,
    /// File for the report.
    #[arg(long, value_name = "FILE")]
    report: PathBuf,
}

/// What a guest takes its hypervisor for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Hypervisor {
    /// KVM, with the features of --pv and --pv-bit
    #[default]
    Kvm,
    /// Hyper-V, with its remote TLB flush, which KVM carries out, and no feature of KVM
    #[value(name = "hyper-v")]
    HyperV,
}

fn pv_help() -> String {
    let names = |table: &[(&str, u8)]| {
        let names: Vec<_> = table.iter().map(|(name, _)| *name).collect();
        names.join(", ")
    };
    format!(
        "KVM's paravirtual features, by name; those not named are as KVM offers them, hints are \
         off.\n\nFeatures: {}. Hints: {}.",
        names(&crate::pv::FEATURES),
        names(&crate::pv::HINTS)
    )
}

/// What is wrong with the command line, beyond its grammar.
#[derive(Debug, Error)]
pub enum Error {
    /// No vCPUs.
    #[error("--cpus 0: a guest has at least one vCPU; give 1 to {CPUS_MAX}")]
    NoCpus,
    /// Too many vCPUs.
    #[error("--cpus: {0}")]
    Cpus(mptable::Error),
    /// A list of another length than there are vCPUs.
    #[error("--pin names {given} host CPUs for {cpus} vCPUs; name one for each")]
    Pin {
        /// How many were given.
        given: usize,
        /// How many vCPUs there are.
        cpus: u32,
    },
    /// Too little or too much memory.
    #[error(
        "--memory-mib {0}: give {MEMORY_MIN_MIB} to {MEMORY_MAX_MIB}; the kernel needs the one to \
         unpack itself, and above the other lie the devices"
    )]
    Memory(u64),
    /// Too many disks.
    #[error("{0} disks, but there are interrupt lines for {DISKS_MAX} only")]
    Disks(usize),
}

/// A checked command line.
#[derive(Debug)]
pub struct Config {
    /// Name of the guest.
    pub name: String,
    /// The kernel.
    pub kernel: PathBuf,
    /// The initial RAM disk.
    pub initrd: PathBuf,
    /// The kernel's command line.
    pub cmdline: String,
    /// Number of vCPUs, 1 to [`CPUS_MAX`].
    pub cpus: u32,
    /// Memory in bytes, at most [`MEMORY_LIMIT`].
    pub memory_bytes: u64,
    /// Host CPUs of the vCPU threads.
    pin: Option<Vec<usize>>,
    /// What the guest takes its hypervisor for.
    pub hypervisor: Hypervisor,
    /// Choices of paravirtual features, by name first.
    pub pv: Vec<Choice>,
    /// Whether the guest is shown MONITOR and MWAIT.
    pub mwait: bool,
    /// Whether HLT does not leave the guest.
    pub halt_in_guest: bool,
    /// Disk images, at most as many as there are interrupt lines.
    pub disks: Vec<PathBuf>,
    /// Console file.
    pub console: PathBuf,
    /// Channel socket.
    pub channel: PathBuf,
    /// Report file.
    pub report: PathBuf,
}

impl Config {
    /// The host CPU that this vCPU's thread is bound to, if any.
    #[must_use]
    pub fn host_cpu(&self, vcpu: u32) -> Option<usize> {
        self.pin.as_ref()?.get(usize::try_from(vcpu).ok()?).copied()
    }
}

impl TryFrom<Arguments> for Config {
    type Error = Error;

    fn try_from(given: Arguments) -> Result<Self, Error> {
        let cpus = given.cpus;
        match cpus {
            0 => return Err(Error::NoCpus),
            1..=CPUS_MAX => {}
            more => return Err(Error::Cpus(mptable::Error::TooManyCpus(more))),
        }
        if !(MEMORY_MIN_MIB..=MEMORY_MAX_MIB).contains(&given.memory_mib) {
            return Err(Error::Memory(given.memory_mib));
        }
        let pinned = given.pin.as_ref().map(Vec::len);
        if let Some(given) = pinned.filter(|count| u32::try_from(*count) != Ok(cpus)) {
            return Err(Error::Pin { given, cpus });
        }
        if given.disk.len() > DISKS_MAX {
            return Err(Error::Disks(given.disk.len()));
        }
        let numbered = given.pv_bit.iter().map(|choice| choice.0);
        Ok(Config {
            pv: given.pv.iter().copied().chain(numbered).collect(),
            name: given.name,
            hypervisor: given.hypervisor,
            mwait: given.mwait,
            halt_in_guest: given.halt_in_guest,
            kernel: given.kernel,
            initrd: given.initrd,
            cmdline: given.cmdline,
            cpus,
            memory_bytes: given.memory_mib * MIB,
            pin: given.pin,
            disks: given.disk,
            console: given.console,
            channel: given.channel,
            report: given.report,
        })
    }
}
