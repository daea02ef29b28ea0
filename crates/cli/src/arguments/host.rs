// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `steady host`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, value_parser};
use steady_lab::host::HostKernel;
use steady_lab_artifacts::image::tree::Added;
use steady_race::Entry;

use crate::engines::{ENGINES, EngineName};

/// `steady host`.
#[derive(Debug, Args)]
#[command(after_help = "\
The host boots the kernel of a race, with KVM, on the same engine, with busybox. The lab's VMM is
/usr/bin/steady-vmm and its guests' kernel /lab/bzImage. A shell has the terminal until it ends; in
QEMU Ctrl-A X ends the host at once. With --init, or with a script on standard input, the program's
words go to standard output and its exit code is this command's.

Examples:
  steady host                                        # a shell, in QEMU
  steady host --engine bochs --pcpus 4 --kernel debug
  steady host --append kvm.halt_poll_ns=0 --add trace-cmd:/usr/bin/
  echo 'grep -c vmx /proc/cpuinfo' | steady host --engine bochs
  steady host --init test.sh --add fixture.bin:/data/ --limit 5m
  steady host --print                                # the emulator's command line")]
pub struct Host {
    /// Engine to boot on.
    #[arg(long, value_parser = EngineName, default_value = ENGINES.0[0].name)]
    pub engine: &'static Entry,
    /// The kernel: `lab`, `debug`, `rt` or another configuration of `linux/config`; the stock ones
    /// `stock`, `stock-debug` and so on; or a kernel's `.deb`, or the folder of its packages, of
    /// their files or of its objects, with a `/` in it.
    #[arg(long, value_name = "KERNEL", default_value = "lab")]
    pub kernel: HostKernel,
    /// Physical CPUs.
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = value_parser!(u32).range(1..))]
    pub pcpus: u32,
    /// Have two of them be the threads of one core.
    #[arg(long)]
    pub smt: bool,
    /// Memory in MiB.
    #[arg(long, value_name = "MIB", default_value_t = 512)]
    #[arg(value_parser = value_parser!(u32).range(128..))]
    pub memory_mib: u32,
    /// A word more for the kernel's command line; may be given more than once.
    #[arg(long, value_name = "WORD")]
    pub append: Vec<String>,
    /// Put this file into the host, as /root/NAME or as the path behind the colon, a program with
    /// its libraries; may be given more than once.
    #[arg(long, value_name = "FILE[:PATH]", value_parser = Added::parse)]
    pub add: Vec<Added>,
    /// Run this script or program in place of a shell.
    #[arg(long, value_name = "FILE")]
    pub init: Option<PathBuf>,
    /// Longest time for the program, by the wall.
    #[arg(long, value_name = "TIME", default_value = "10m")]
    #[arg(value_parser = humantime::parse_duration)]
    pub limit: Duration,
    /// Write what is booted, print the emulator's command line, and start nothing.
    #[arg(long)]
    pub print: bool,
    /// Folder for what is booted and for the logs, in `host/` below it.
    #[arg(short, long, value_name = "FOLDER", default_value = "out")]
    pub out: PathBuf,
}
