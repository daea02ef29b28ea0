// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The table. Values are those of the remedy's kernel code, its `Documentation/virt/kvm` page
//! first.

use crate::{Means, Mode, Remedy, Stall, VmmDuty};

/// Every remedy of this project, the shipped first.
pub(crate) static ALL: [Remedy; 6] = [
    Remedy {
        name: "shoot4u",
        title: "Shoot4U: the guest asks the host to invalidate, and waits for no vCPU that is not \
                running",
        means: Means::Kernel,
        parameter: "kvm.shoot4u",
        off: "off",
        modes: &[
            Mode {
                name: "deferred",
                about: "a target that does not run invalidates before it next enters",
            },
            Mode {
                name: "eager",
                about: "the pCPU that has a target's entries is interrupted, as in the paper: to \
                        compare with, in the lab's kernel alone",
            },
        ],
        default_mode: "deferred",
        feature_bit: Some(28),
        trace_system: Some("kvm_shoot4u"),
        guest_off: Some("noshoot4u"),
        vmm: VmmDuty::ShowFeatureBit,
        shipped: true,
        is_still_when_off: false,
        folder: "shoot4u",
        answers: &[Stall::CallWait],
    },
    Remedy {
        name: "paratick",
        title: "Paratick: the host injects scheduler ticks at VM entry, and the guest programs \
                none",
        means: Means::Kernel,
        parameter: "kvm.paratick",
        off: "off",
        modes: &[
            Mode {
                name: "filled",
                about: "a host timer gives the ticks for which the host's own would come too late",
            },
            Mode {
                name: "host-ticks",
                about: "only when the vCPU is entered anyway, as in the paper",
            },
        ],
        default_mode: "filled",
        feature_bit: Some(27),
        trace_system: Some("kvm_paratick"),
        guest_off: Some("noparatick"),
        vmm: VmmDuty::ShowFeatureBit,
        shipped: true,
        // Guests declare what they want only where it is offered. Else static branches and a
        // period of 0 leave its code out.
        is_still_when_off: true,
        folder: "paratick",
        answers: &[Stall::Tick],
    },
    Remedy {
        name: "strict-boost",
        title: "Strict Boost: after a pause-loop exit the vCPU that is waited for is boosted",
        means: Means::Kernel,
        parameter: "kvm.strict_boost",
        off: "off",
        modes: &[Mode {
            name: "on",
            about: "vCPUs with an interrupt pending, else those preempted in kernel mode",
        }],
        default_mode: "on",
        feature_bit: None,
        trace_system: Some("kvm_strict_boost"),
        guest_off: None,
        vmm: VmmDuty::Nothing,
        shipped: true,
        is_still_when_off: false,
        folder: "strict-boost",
        answers: &[Stall::BoostTarget],
    },
    Remedy {
        name: "debooster",
        title: "Debooster: the host scheduler obeys a directed yield",
        means: Means::Kernel,
        parameter: "sched.debooster",
        off: "off",
        modes: &[
            Mode {
                name: "on",
                about: "the target runs before its turn, and later waits longer; one that waits \
                        where another vCPU of its VM runs is moved elsewhere first",
            },
            Mode {
                name: "penalty",
                about: "the yielder falls behind the target, as in the paper: to compare with",
            },
        ],
        default_mode: "on",
        feature_bit: None,
        trace_system: Some("kvm_debooster"),
        guest_off: None,
        vmm: VmmDuty::Nothing,
        shipped: true,
        is_still_when_off: false,
        folder: "debooster",
        answers: &[Stall::BoostOutcome],
    },
    Remedy {
        name: "place",
        title: "steady place: a host's program keeps the busy vCPUs of a VM on different pCPUs",
        means: Means::Host(&[
            &["place", "--apply"],
            &["place", "--apply", "--least", "2"],
            &["place", "--apply", "--pin"],
        ]),
        parameter: "",
        off: "",
        modes: &[
            Mode {
                name: "parted",
                about: "no pCPU is for two busy vCPUs of a VM",
            },
            Mode {
                name: "paired",
                about: "each busy vCPU has two pCPUs at least, so that two may meet: to compare \
                        with",
            },
            Mode {
                name: "pinned",
                about: "each vCPU has one pCPU for good, as one pins by hand: to compare with",
            },
        ],
        default_mode: "parted",
        feature_bit: None,
        trace_system: None,
        guest_off: None,
        vmm: VmmDuty::Nothing,
        shipped: true,
        is_still_when_off: false,
        folder: "",
        answers: &[],
    },
    Remedy {
        name: "fold",
        title: "steady fold: a guest's program keeps its programs on as many vCPUs as have time",
        means: Means::Guest(&[&["fold", "--apply"]]),
        parameter: "",
        off: "",
        modes: &[Mode {
            name: "on",
            about: "fewer vCPUs while much is stolen, all of them again where that does not help",
        }],
        default_mode: "on",
        feature_bit: None,
        trace_system: None,
        guest_off: None,
        vmm: VmmDuty::Nothing,
        shipped: true,
        is_still_when_off: false,
        folder: "",
        answers: &[],
    },
];
