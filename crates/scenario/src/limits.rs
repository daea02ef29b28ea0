// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The limits and defaults of every key, in one place.
//!
//! Limits are there to catch slips of the pen (a size in bytes, a time in milliseconds), and are
//! wide of anything an engine can run today; each engine refuses what is beyond it by itself.

use std::ops::RangeInclusive;

/// The version of the format.
pub const SCHEMA: u32 = 2;
/// A scenario file may not be larger than this, in bytes.
pub const MAX_FILE_BYTES: u64 = 1 << 20;
/// Memory that the emulated host keeps for itself, in MiB: the VMs get at most the rest.
pub const HOST_RESERVE_MIB: u32 = 128;

pub(crate) const NAME_CHARS: usize = 64;
pub(crate) const TITLE_CHARS: usize = 80;
pub(crate) const QUESTION_CHARS: usize = 1000;
/// x86 Linux takes 2048 bytes in all; the engine's own words need room as well.
pub(crate) const CMDLINE_BYTES: usize = 512;
pub(crate) const ARG_BYTES: usize = 4096;
/// VMs, settings, variants, workloads of a VM, and arguments of a program.
pub(crate) const LIST_ITEMS: usize = 64;
/// VMs that one reaches: each takes two of the eight disks that a VM of the lab has.
pub(crate) const REACHES: usize = 3;
/// A VM with its copies; all VMs together are [`LIST_ITEMS`] at most.
pub(crate) const COPIES: RangeInclusive<u32> = 1..=64;

pub(crate) const REPETITIONS: RangeInclusive<u32> = 1..=100;
pub(crate) const TIME_LIMIT_S: RangeInclusive<u32> = 1..=86_400;
pub(crate) const PCPUS: RangeInclusive<u32> = 1..=64;
/// KVM's default maximum on x86.
pub(crate) const VCPUS: RangeInclusive<u32> = 1..=1024;
pub(crate) const HOST_MEMORY_MIB: RangeInclusive<u32> = 144..=1_048_576;
pub(crate) const VM_MEMORY_MIB: RangeInclusive<u32> = 16..=1_048_576;
pub(crate) const DISK_MIB: RangeInclusive<u32> = 8..=65_536;
/// The range of `cpu.weight` in Linux's cgroup v2.
pub(crate) const CPU_WEIGHT: RangeInclusive<u32> = 1..=10_000;
/// The kernel takes no less than 1 ms for either part of `cpu.max`, and no period beyond 1 s.
pub(crate) const CPU_QUOTA_US: RangeInclusive<u32> = 1_000..=1_000_000_000;
pub(crate) const CPU_PERIOD_US: RangeInclusive<u32> = 1_000..=1_000_000;
/// From one cycle of the slowest emulated clock, 200 MHz, to a million times the usual window.
pub(crate) const PLE_WINDOW_NS: RangeInclusive<u32> = 5..=1_000_000_000;
/// What the kernel takes for the slices of all threads, and for one thread's own
/// (`kernel/sched/debug.c` and `kernel/sched/syscalls.c`, Linux 6.12).
pub(crate) const BASE_SLICE_NS: RangeInclusive<u32> = 100_000..=1_000_000_000;
pub(crate) const VCPU_SLICE_NS: RangeInclusive<u32> = 100_000..=100_000_000;
/// Words for the scheduler's features.
pub(crate) const SCHED_FEATURES: usize = 16;
pub(crate) const HALT_POLL_NS: RangeInclusive<u32> = 0..=1_000_000_000;

pub(crate) const DEFAULT_SEED: u64 = 1;
pub(crate) const DEFAULT_REPETITIONS: u32 = 1;
pub(crate) const DEFAULT_HOST_TIME_LIMIT_S: u32 = 120;
pub(crate) const DEFAULT_WORKLOAD_TIME_LIMIT_S: u32 = 60;
pub(crate) const DEFAULT_CPU_WEIGHT: u32 = 100;
