// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Channels between VMs, in plans and where they are refused.

use super::{refused, small};
use crate::engine::bochs;
use crate::translate::*;

/// The small scenario in which b serves and a reaches these.
pub fn joined(reaches: &[&str]) -> Scenario {
    let mut scenario = small("", "");
    scenario.vms[1].serves = Some("/run/b".to_owned());
    scenario.vms[0].reaches = reaches.iter().map(|&name| name.to_owned()).collect();
    scenario
}

#[test]
fn both_vms_of_a_channel_have_its_ends_unless_one_is_left_out() {
    let mut scenario = joined(&["b"]);
    let made = plan(&scenario, &scenario.variants[0], 1, false).expect("a plan");
    let ends = made.vms.iter().flat_map(|vm| &vm.links);
    let ends: Vec<_> = ends
        .map(|link| (link.names(), link.socket.as_str()))
        .collect();
    let names = |[inward, outward]: [&str; 2]| [inward, outward].map(|end| format!("link-0.{end}"));
    let expected = [
        (names(["down", "up"]), "/run/b.socket"),
        (names(["up", "down"]), "/run/b"),
    ];
    assert_eq!(ends, expected);
    scenario.vms[0].serves = Some("/run/a".to_owned());
    scenario.vms[1].reaches = vec!["a".to_owned()];
    let made = plan(&scenario, &scenario.variants[0], 1, false).expect("a plan");
    let links = made.vms.iter().flat_map(|vm| &vm.links);
    let pipes: BTreeSet<_> = links.flat_map(steady_agent::plan::Link::names).collect();
    assert_eq!(pipes.len(), 4, "two channels share none: {pipes:?}");
    scenario.variants[0].without = vec!["b".to_owned()];
    let made = plan(&scenario, &scenario.variants[0], 1, false).expect("a plan");
    assert!(made.vms.iter().all(|vm| vm.links.is_empty()));
}

#[test]
fn a_channel_takes_our_vmm_and_room_for_its_disks() {
    let mut qemu = joined(&["b"]);
    qemu.host.vmm = scenario::Vmm::Qemu;
    assert!(refused(&qemu).contains("the channel of VM a; only steady-vmm joins VMs"));
    qemu.vms[0].reaches.clear();
    check(&qemu, bochs::KIND, &[&qemu.variants[0]]).expect("it joins none");
    // b has an end for each of those that reach it.
    let clients = |count: u32, disk_mib| {
        let mut many = joined(&["b"]);
        let client = many.vms[0].clone();
        many.vms[1].disk_mib = disk_mib;
        many.vms.extend((1..count).map(|at| Vm {
            name: format!("a-{at}"),
            ..client.clone()
        }));
        many
    };
    for (count, disk_mib) in [(4, None), (3, Some(16))] {
        let few = clients(count, disk_mib);
        check(&few, bochs::KIND, &[&few.variants[0]]).expect("there is room");
    }
    for (count, disk_mib) in [(5, None), (4, Some(16))] {
        let said = refused(&clients(count, disk_mib));
        let expected = format!("{count} channels of VM b; a VM has room for four");
        assert!(said.contains(&expected), "{said}");
    }
}
