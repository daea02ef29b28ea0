// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The virtio block device: transport, requests, and the thread that serves them. Behind it is an
//! image, or a pipe to another VM.
//!
//! Virtio 1.2 over memory-mapped registers, version 2 of the layout (section 4.2). One queue, one
//! thread per disk; the guest's doorbell is an ioeventfd and completion an irqfd, so neither makes a
//! vCPU leave for the VMM.

pub mod disk;
pub mod mmio;
pub mod pipe;
pub mod request;
