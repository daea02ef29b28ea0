// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A small KVM virtual machine monitor for guests inside an emulated host.
//!
//! It boots one Linux kernel with an initrd, without firmware, PCI or ACPI: processors and interrupt
//! lines are found by an MP table, disks by words on the command line. What it is for is measuring
//! KVM, so it keeps out of the way: interrupt controllers and timer are KVM's own, device threads
//! sleep unless there is work, and the guest's choice of paravirtual features is set bit by bit. It
//! ends with a report of KVM's own statistics and the vCPU threads' scheduler times, and its exit code
//! says how the guest ended ([`outcome`]).
//!
//! | the guest sees | what it is |
//! |---|---|
//! | `ttyS0` | console, written to a file and searched for a panic ([`console`]) |
//! | `ttyS1` | the channel, a Unix socket on the host side ([`channel`]) |
//! | `vda`, ... | virtio disks over memory-mapped registers ([`virtio`]) |
//! | port 0x604 | write 0x34 here to end a run that went well |
//! | port 0x64 | write 0xfe here to reset, which also ends the run (`reboot=k`) |
//!
//! The report is one JSON object ([`report::Report`]); SIGUSR1 writes one of the running guest.
//!
//! Left out: network, graphics, snapshots, migration, hot-plug, more than 254 vCPUs or 3 GiB, and
//! any confinement of the VMM: guests of the lab are trusted with the lab.

#![deny(unsafe_code)]

pub mod boot;
pub mod channel;
pub mod cli;
pub mod console;
pub mod control;
pub mod cpuid;
pub mod devices;
pub mod hyperv;
pub mod kvm;
pub mod last_state;
pub mod layout;
pub mod machine;
pub mod mptable;
pub mod outcome;
pub mod panic_scan;
pub mod pv;
pub mod report;
pub mod sink;
pub mod start_state;
pub mod stats;
pub mod sys;
pub mod uart;
pub mod vcpu;
pub mod virtio;
