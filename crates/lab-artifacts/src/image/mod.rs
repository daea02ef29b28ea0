// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the emulated machines boot: initramfs archives, and a CD for Bochs.

pub mod brought;
pub mod cpio;
pub mod iso;
pub mod scx;
pub mod tree;
