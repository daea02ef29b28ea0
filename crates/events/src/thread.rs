// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How the threads of vCPUs are named.

/// How VMMs name the threads of their vCPUs before the number: QEMU (and so libvirt's guests,
/// Proxmox's, KubeVirt's, and the lab's VMM, with `/KVM` behind it, of which ftrace's latency
/// layout leaves less), Firecracker, crosvm, cloud-hypervisor, kvmtool.
const VCPU_NAMES: [&str; 5] = ["CPU ", "fc_vcpu ", "crosvm_vcpu", "vcpu", "kvm-vcpu-"];

/// The number in the name of a vCPU's thread; `None` if it is not named like one.
#[must_use]
pub fn vcpu_number(comm: &[u8]) -> Option<u32> {
    // Most threads are not vCPUs, as their first letter shows.
    if !matches!(comm.first(), Some(b'C' | b'f' | b'c' | b'v' | b'k')) {
        return None;
    }
    let text = std::str::from_utf8(comm).ok()?;
    assert!(!text.is_empty(), "a name with a first letter");
    let (name, rest) = VCPU_NAMES
        .iter()
        .find_map(|name| Some((*name, text.strip_prefix(name)?)))?;
    let number = if name == "CPU " {
        let (number, behind) = rest.split_once('/')?;
        if !"KVM".starts_with(behind) {
            return None;
        }
        number
    } else {
        rest
    };
    number.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vcpu_has_a_number_and_other_threads_none() {
        for (comm, number) in [
            ("CPU 3/KVM", Some(3)),
            ("fc_vcpu 2", Some(2)),
            ("vcpu11", Some(11)),
            ("crosvm_vcpu0", Some(0)),
            ("kvm-vcpu-7", Some(7)),
            ("CPU 3/TCG", None),
            ("worker", None),
            ("vcpu", None),
        ] {
            assert_eq!(vcpu_number(comm.as_bytes()), number, "{comm}");
        }
    }
}
