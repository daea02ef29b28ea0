// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads a running KVM host from procfs, sysfs and the control groups: which VMs there are, what
//! time their vCPUs got and waited for, where they are, and what the pCPUs do meanwhile.
//!
//! It needs no kernel module, no eBPF and no tracing, and Linux 5.10 or later. It never writes:
//! what acts on a host is another room (`steer`).
//!
//! Left out: events (`record` has them), and all that only a guest knows.

#![forbid(unsafe_code)]

mod cpus;
mod files;
mod limits;
mod meter;
mod names;
mod pcpus;
mod topology;
mod vms;

pub use cpus::{Cpus, CpusError};
pub use limits::Limits;
pub use meter::{Meter, Place, Reading};
pub use names::Vmm;
pub use pcpus::Pcpus;
pub use topology::Topology;
pub use vms::{Vcpu, Vm, vms};

use std::path::{Path, PathBuf};

/// Where the file systems of a host are mounted; a test gives a made tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Host {
    /// procfs.
    pub proc: PathBuf,
    /// sysfs.
    pub sys: PathBuf,
    /// The control groups, version 2 or the `cpu` hierarchy's parent of version 1.
    pub groups: PathBuf,
}

impl Default for Host {
    fn default() -> Self {
        Self::under(Path::new("/"))
    }
}

impl Host {
    /// A host whose file systems are in `root` where they are in `/` of this one.
    #[must_use]
    pub fn under(root: &Path) -> Self {
        Self {
            proc: root.join("proc"),
            sys: root.join("sys"),
            groups: root.join("sys/fs/cgroup"),
        }
    }
}
