// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Port I/O (the debug port of the emulators, their ways to power off, the VMM's stop port) and
//! system calls that no safe wrapper has.
//!
//! The only unsafe code of this package. It needs to be root and a kernel with `ioperm`.

use std::arch::asm;
use std::io;

/// The size of what `sched_setattr(2)` takes: that of its first version, which every kernel has.
const ATTRIBUTES: u32 = 48;
const _: () = assert!(size_of::<libc::sched_attr>() >= 48);

/// Asks the kernel for access to `count` ports from `port` on.
///
/// # Errors
/// What `ioperm(2)` says.
pub fn allow(port: u16, count: u16) -> io::Result<()> {
    // SAFETY: ioperm only changes this task's I/O permissions; it touches no memory of ours.
    let result = unsafe { libc::ioperm(port.into(), count.into(), 1) };
    if result == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Writes one byte; [`allow`] must have been called for `port`.
pub fn write_byte(port: u16, byte: u8) {
    // SAFETY: OUT reads two registers; a port without permission raises SIGSEGV, not unsoundness.
    unsafe {
        asm!("out dx, al", in("dx") port, in("al") byte, options(nostack, preserves_flags, nomem))
    };
}

/// The time-stamp counter of this CPU.
pub fn time_stamp() -> u64 {
    // SAFETY: RDTSC reads a register; every x86-64 CPU has it.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Writes all bytes to one port with one string instruction.
pub fn write_bytes(port: u16, bytes: &[u8]) {
    // SAFETY: REP OUTSB reads RCX bytes at RSI, which is exactly the slice; DF is clear by ABI.
    unsafe {
        asm!("rep outsb", in("dx") port, inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _,
            options(nostack, preserves_flags, readonly));
    }
}

/// Gives a thread a policy of the fair class, and the slice that it asks for, in nanoseconds.
///
/// # Errors
/// What `sched_setattr(2)` says.
pub fn set_scheduling(thread: u32, policy: u32, slice_ns: Option<u64>) -> io::Result<()> {
    // SAFETY: every field is a number, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = ATTRIBUTES;
    attributes.sched_policy = policy;
    attributes.sched_runtime = slice_ns.unwrap_or(0);
    // SAFETY: the kernel reads as many bytes of the live value as its size says.
    let result =
        unsafe { libc::syscall(libc::SYS_sched_setattr, thread, &raw const attributes, 0) };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// A thread's policy and slice, the latter in nanoseconds.
///
/// # Errors
/// What `sched_getattr(2)` says.
pub fn scheduling(thread: u32) -> io::Result<(u32, u64)> {
    // SAFETY: every field is a number, for which zero is a value.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    let to = &raw mut attributes;
    // SAFETY: the kernel writes at most as many bytes to the live value as its size is.
    let result = unsafe { libc::syscall(libc::SYS_sched_getattr, thread, to, ATTRIBUTES, 0) };
    match result {
        0 => Ok((attributes.sched_policy, attributes.sched_runtime)),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Sleeps until one of the blocked `signals` is pending or the time is over.
pub fn wait_signal(signals: &nix::sys::signal::SigSet, limit: &libc::timespec) {
    // SAFETY: both pointers are to live values of the right types; the info pointer may be null.
    unsafe { libc::sigtimedwait(signals.as_ref(), std::ptr::null_mut(), limit) };
}
