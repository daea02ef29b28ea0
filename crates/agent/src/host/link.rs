// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Channels between VMs: the named pipes that join the VMMs of the two, one for each direction, and
//! the guests' ends.

use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use steady_agent::channel::{FromGuest, ToGuest};
use steady_agent::event::Fault;
use steady_agent::plan::{HostPlan, Link};

use super::race::expect;
use super::vm::Vm;
use crate::system::{Doing, Failure};

/// The pipes of an end, inward and outward.
pub fn pipes(link: &Link) -> [PathBuf; 2] {
    link.names()
        .map(|name| PathBuf::from(format!("/run/{name}")))
}

/// Makes the pipes of all channels.
pub fn prepare(plan: &HostPlan) -> Result<(), Failure> {
    let links = plan.vms.iter().flat_map(|vm| &vm.links);
    for pipe in links.flat_map(pipes) {
        // Each has two ends.
        match mkfifo(&pipe, Mode::S_IRUSR | Mode::S_IWUSR) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error).doing(|| format!("make {}", pipe.display())),
        }
    }
    Ok(())
}

/// Starts the ends of a guest.
pub fn start(vm: &mut Vm, deadline_ns: u64) -> Result<(), Box<Fault>> {
    for link in vm.plan.links.clone() {
        vm.say(&ToGuest::Link { link })?;
        expect(vm, deadline_ns, "a channel to another VM", |word| {
            matches!(word, FromGuest::Started).then_some(())
        })?;
    }
    Ok(())
}
