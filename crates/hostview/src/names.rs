// SPDX-License-Identifier: Apache-2.0 OR MIT
//! How VMMs are known, and what they call their VMs.

/// The management that started a VM, or its VMM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Vmm {
    /// QEMU under libvirt: a group `machine-qemu…` of systemd-machined, or `/libvirt/` in its path.
    Libvirt,
    /// QEMU under Proxmox: its group is in `qemu.slice`.
    Proxmox,
    /// QEMU in a pod of KubeVirt: its group is in `kubepods`.
    KubeVirt,
    /// QEMU by itself.
    Qemu,
    /// Firecracker, with or without its jailer.
    Firecracker,
    /// cloud-hypervisor.
    CloudHypervisor,
    /// crosvm.
    Crosvm,
    /// This project's, in the lab.
    Steady,
    /// Another.
    Other,
}

impl Vmm {
    /// By the VMM's program and its group.
    #[must_use]
    pub fn of(program: &str, group: &str) -> Self {
        let in_group = |words: &[&str]| words.iter().any(|word| group.contains(word));
        match program {
            "firecracker" => Self::Firecracker,
            "cloud-hypervisor" => Self::CloudHypervisor,
            "crosvm" => Self::Crosvm,
            "steady-vmm" => Self::Steady,
            "kvm" | "qemu-kvm" | "qemu" => Self::of_qemu(in_group),
            _ if program.starts_with("qemu-system-") => Self::of_qemu(in_group),
            _ => Self::Other,
        }
    }

    fn of_qemu(in_group: impl Fn(&[&str]) -> bool) -> Self {
        if in_group(&["kubepods"]) {
            Self::KubeVirt
        } else if in_group(&["qemu.slice"]) {
            Self::Proxmox
        } else if in_group(&["machine-qemu", "/libvirt", "machine.slice"]) {
            Self::Libvirt
        } else {
            Self::Qemu
        }
    }

    /// As a reader knows it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Libvirt => "libvirt",
            Self::Proxmox => "Proxmox",
            Self::KubeVirt => "KubeVirt",
            Self::Qemu => "QEMU",
            Self::Firecracker => "Firecracker",
            Self::CloudHypervisor => "cloud-hypervisor",
            Self::Crosvm => "crosvm",
            Self::Steady => "steady-vmm",
            Self::Other => "unknown VMM",
        }
    }
}

/// What the VMM calls its VM: `-name guest=web,debug-threads=on` or `-name web` of QEMU, `--name`
/// of crosvm, `--id` of Firecracker.
pub(crate) fn vm_name(words: &[String]) -> Option<String> {
    let at = words
        .iter()
        .position(|word| matches!(word.as_str(), "-name" | "--name" | "--id"))?;
    let value = words.get(at + 1)?;
    // QEMU writes a comma in a name twice.
    let value = value.replace(",,", "\u{0}");
    let mut parts = value.split(',');
    let guest = parts.clone().find_map(|part| part.strip_prefix("guest="));
    let name = guest.or_else(|| parts.next().filter(|part| !part.contains('=')))?;
    let name = name.replace('\u{0}', ",");
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_each_vmm_is_given_them() {
        let of = |words: &[&str]| vm_name(&words.iter().map(|&w| w.to_owned()).collect::<Vec<_>>());
        for (words, name) in [
            (&["qemu", "-name", "web"][..], Some("web")),
            (
                &["qemu", "-name", "guest=web,debug-threads=on"],
                Some("web"),
            ),
            (&["qemu", "-name", "a,,b"], Some("a,b")),
            (&["qemu", "-name", "debug-threads=on"], None),
            (&["firecracker", "--id", "fc-1"], Some("fc-1")),
            (&["qemu", "-name"], None),
            (&["bash"], None),
        ] {
            assert_eq!(of(words).as_deref(), name, "{words:?}");
        }
    }

    #[test]
    fn each_vmm_is_known_by_its_program_and_group() {
        for (program, group, vmm) in [
            (
                "qemu-system-x86_64",
                "/machine.slice/machine-qemu\\x2d1\\x2dweb.scope/libvirt/emulator",
                "libvirt",
            ),
            ("kvm", "/qemu.slice/100.scope", "Proxmox"),
            (
                "qemu-kvm",
                "/kubepods.slice/kubepods-burstable.slice/cri-o-1.scope",
                "KubeVirt",
            ),
            ("qemu-system-aarch64", "/user.slice/session-1.scope", "QEMU"),
            ("firecracker", "/firecracker/fc-1", "Firecracker"),
            ("cloud-hypervisor", "/", "cloud-hypervisor"),
            ("bash", "/machine.slice/x", "unknown VMM"),
        ] {
            assert_eq!(Vmm::of(program, group).name(), vmm);
        }
    }
}
