// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an emulated host is made of: the kernel, the emulators, our static programs and selftests,
//! and the images that a host and its guests boot.
//!
//! What takes long to make is kept in the cache ([`cache`]). [`image`] packs the archives;
//! [`process`] runs children that cannot be lost; [`need`] says what this machine lacks. Left
//! out: how an emulator is started, and what happens on an emulated host (`steady_lab`).

#![forbid(unsafe_code)]

pub mod bochs;
pub mod cache;
mod debian;
mod error;
mod home;
pub mod image;
pub mod kernel;
pub mod need;
pub mod process;
pub mod programs;
pub mod qemu_system;
pub mod qemu_user;
mod said;
pub mod selftests;

pub use error::ArtifactError;
pub use home::{Home, PROGRAMS};
