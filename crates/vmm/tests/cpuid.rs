// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What each vCPU is shown about itself.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use kvm_bindings::kvm_cpuid_entry2;
use steady_vmm::cpuid::{Guest, for_vcpu, kvm_features};
use steady_vmm::pv::{NumberedChoice, apply};

fn leaf(function: u32, index: u32, regs: [u32; 4]) -> kvm_cpuid_entry2 {
    let [eax, ebx, ecx, edx] = regs;
    kvm_cpuid_entry2 {
        function,
        index,
        eax,
        ebx,
        ecx,
        edx,
        ..Default::default()
    }
}

/// A host with everything that must be changed or taken away.
fn host() -> Vec<kvm_cpuid_entry2> {
    vec![
        leaf(0, 0, [0x10, 0x6874_7541, 0x444d_4163, 0x6974_6e65]),
        leaf(
            1,
            0,
            [0x0083_0f10, 0x0702_0800, (1 << 3) | (1 << 5), 1 << 4],
        ),
        leaf(4, 3, [0x0c00_4163, 0x03c0_003f, 0xfff, 0]),
        leaf(4, 1, [0x0c00_4121, 0x03c0_003f, 0x3f, 0]),
        leaf(5, 0, [64, 64, 3, 0x11]),
        leaf(0xb, 0, [1, 2, 0x100, 7]),
        leaf(0x1f, 0, [1, 2, 0x100, 7]),
        leaf(0x4000_0001, 0, [0x0100_7efb, 0, 0, 0]),
        leaf(0x8000_0001, 0, [0, 0, 1 << 2, 0]),
        leaf(0x8000_0008, 0, [0x3030, 0, 0x7007, 0]),
        leaf(0x8000_001e, 0, [7, 0x0103, 0x0700, 0]),
        leaf(0x8000_0026, 0, [1, 2, 3, 4]),
    ]
}

fn guest(cpus: u8) -> Guest {
    Guest {
        cpus,
        pv_features: 0x0100_00fb,
        pv_hints: 1,
        hyperv: false,
        mwait: false,
        tsc_deadline: true,
    }
}

fn find(entries: &[kvm_cpuid_entry2], function: u32, index: u32) -> kvm_cpuid_entry2 {
    let found: Vec<_> = entries
        .iter()
        .filter(|e| e.function == function && e.index == index)
        .collect();
    assert_eq!(found.len(), 1, "leaf {function:#x}.{index}");
    *found[0]
}

#[test]
fn every_leaf_with_an_apic_id_has_this_vcpus() {
    for id in [0, 1, 5] {
        let entries = for_vcpu(&host(), guest(6), id);
        let id = u32::from(id);
        assert_eq!(find(&entries, 1, 0).ebx >> 24, id);
        for index in 0..3 {
            assert_eq!(find(&entries, 0xb, index).edx, id);
            assert_eq!(find(&entries, 0x1f, index).edx, id);
        }
        assert_eq!(find(&entries, 0x8000_001e, 0).eax, id);
    }
}

#[test]
fn mwait_vmx_and_svm_are_withheld_and_x2apic_and_tsc_deadline_shown() {
    let entries = for_vcpu(&host(), guest(2), 1);
    let features = find(&entries, 1, 0).ecx;
    for (bit, on) in [(3, false), (5, false), (21, true), (24, true), (31, true)] {
        assert_eq!(features & (1 << bit) != 0, on, "bit {bit}");
    }
    let monitor = find(&entries, 5, 0);
    assert_eq!(
        (monitor.eax, monitor.ebx, monitor.ecx, monitor.edx),
        (0, 0, 0, 0)
    );
    assert_eq!(find(&entries, 0x8000_0001, 0).ecx & (1 << 2), 0);
}

#[test]
fn mwait_is_shown_where_it_is_asked_for_though_kvm_does_not_name_it() {
    let mut host = host();
    host[1].ecx = 0;
    assert_eq!(host[1].function, 1);
    let guest = Guest {
        mwait: true,
        ..guest(2)
    };
    for id in 0..2 {
        let features = find(&for_vcpu(&host, guest, id), 1, 0).ecx;
        assert_ne!(features & (1 << 3), 0, "vCPU {id}");
    }
}

#[test]
fn the_tsc_deadline_timer_is_shown_only_where_kvm_has_it() {
    let guest = Guest {
        tsc_deadline: false,
        ..guest(1)
    };
    assert_eq!(find(&for_vcpu(&host(), guest, 0), 1, 0).ecx & (1 << 24), 0);
}

#[test]
fn cores_are_counted_in_one_package_without_threads() {
    // (vCPUs, bits of an APIC id that number them)
    for (cpus, bits) in [(1, 0), (2, 1), (3, 2), (4, 2), (8, 3), (65, 7), (254, 8)] {
        let entries = for_vcpu(&host(), guest(cpus), 0);
        let (threads, cores) = (find(&entries, 0xb, 0), find(&entries, 0xb, 1));
        assert_eq!((threads.eax, threads.ebx, threads.ecx), (0, 1, 0x100));
        assert_eq!(
            (cores.eax, cores.ebx, cores.ecx),
            (bits, cpus.into(), 0x201)
        );
        let end = find(&entries, 0xb, 2);
        assert_eq!((end.eax, end.ebx, end.ecx), (0, 0, 2));
        let sizes = find(&entries, 0x8000_0008, 0).ecx;
        assert_eq!(
            (sizes & 0xff, (sizes >> 12) & 0xf),
            (u32::from(cpus) - 1, bits)
        );
        assert_eq!(find(&entries, 1, 0).edx & (1 << 28) != 0, cpus > 1, "HTT");
        assert_eq!(
            find(&entries, 0x8000_001e, 0).ebx >> 8,
            0,
            "one thread per core"
        );
    }
}

#[test]
fn the_last_level_cache_is_shared_by_all_and_the_first_by_none() {
    let entries = for_vcpu(&host(), guest(8), 0);
    let sharers = |index| ((find(&entries, 4, index).eax >> 14) & 0xfff) + 1;
    assert_eq!((sharers(1), sharers(3)), (1, 8));
    assert_eq!(
        find(&entries, 4, 3).eax & 0x3fff,
        0x0163,
        "cache type and level are kept"
    );
}

#[test]
fn only_the_chosen_pv_features_are_shown() {
    let shown = find(&for_vcpu(&host(), guest(2), 0), 0x4000_0001, 0);
    assert_eq!((shown.eax, shown.edx), (0x0100_00fb, 1));
    assert_eq!(kvm_features(&host()), Some((0x0100_7efb, 0)));
}

#[test]
fn a_guest_under_hyper_v_sees_its_flush_and_nothing_of_kvm() {
    let guest = Guest {
        hyperv: true,
        ..guest(3)
    };
    let entries = for_vcpu(&host(), guest, 1);
    let signature = find(&entries, 0x4000_0000, 0);
    let words = [signature.ebx, signature.ecx, signature.edx];
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert_eq!(bytes, b"Microsoft Hv");
    assert_eq!(signature.eax, 0x4000_0005, "the last leaf");
    // KVM's features are where Hyper-V has the name of its interface.
    assert_eq!(find(&entries, 0x4000_0001, 0).eax.to_le_bytes(), *b"Hv#1");
    // Linux takes no hypervisor for Hyper-V without hypercalls (5) and numbers of vCPUs (6).
    assert_eq!(find(&entries, 0x4000_0003, 0).eax & 0x60, 0x60);
    // Remote flush is recommended (2), IPIs by hypercall (10) are not.
    assert_eq!(find(&entries, 0x4000_0004, 0).eax & 0x404, 4);
    // Other leaves are as they are under KVM.
    assert_eq!(find(&entries, 1, 0).ebx >> 24, 1);
}

#[test]
fn a_feature_hidden_by_number_is_in_no_vcpus_leaf() {
    let offered = (1 << 28) | 0x0100_7efb;
    let hide: NumberedChoice = "28=off".parse().unwrap();
    let (pv_features, pv_hints) = apply(offered, 0, &[hide.0]).unwrap();
    let guest = Guest {
        pv_features,
        pv_hints,
        ..guest(3)
    };
    let mut host = host();
    host[7].eax = offered;
    assert_eq!(host[7].function, 0x4000_0001);
    for id in 0..3 {
        let shown = find(&for_vcpu(&host, guest, id), 0x4000_0001, 0).eax;
        assert_eq!(shown, 0x0100_7efb, "vCPU {id}");
    }
    // What is not offered may be hidden all the same.
    assert_eq!(apply(0xff, 0, &[hide.0]), Ok((0xff, 0)));
}

#[test]
fn leaves_that_do_not_depend_on_the_vcpu_are_the_hosts() {
    let mut host = host();
    host.push(leaf(7, 0, [1, 2, 3, 4]));
    let entries = for_vcpu(&host, guest(4), 2);
    assert_eq!(find(&entries, 7, 0), leaf(7, 0, [1, 2, 3, 4]));
    assert!(!entries.iter().any(|e| e.function == 0x8000_0026));
}
