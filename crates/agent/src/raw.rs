// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Port I/O (the debug port of the emulators, their ways to power off, the VMM's stop port) and
//! the one system call that no safe wrapper has.
//!
//! The only unsafe code of this package. It needs to be root and a kernel with `ioperm`.

use std::arch::asm;
use std::io;

/// Asks the kernel for access to `count` ports from `port` on.
///
/// # Errors
/// What `ioperm(2)` says.
pub fn allow(port: u16, count: u16) -> io::Result<()> {
    // SAFETY: ioperm only changes this task's I/O permissions; it touches no memory of ours.
    let result = unsafe { libc::ioperm(port.into(), count.into(), 1) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Writes one byte; [`allow`] must have been called for `port`.
pub fn write_byte(port: u16, byte: u8) {
    // SAFETY: OUT reads two registers; a port without permission raises SIGSEGV, not unsoundness.
    unsafe { asm!("out dx, al", in("dx") port, in("al") byte, options(nostack, preserves_flags, nomem)) };
}

/// Writes all bytes to one port with one string instruction.
pub fn write_bytes(port: u16, bytes: &[u8]) {
    // SAFETY: REP OUTSB reads RCX bytes at RSI, which is exactly the slice; DF is clear by ABI.
    unsafe {
        asm!("rep outsb", in("dx") port, inout("rsi") bytes.as_ptr() => _, inout("rcx") bytes.len() => _,
            options(nostack, preserves_flags, readonly));
    }
}

/// Sleeps until one of the blocked `signals` is pending or the time is over.
pub fn wait_signal(signals: &nix::sys::signal::SigSet, limit: &libc::timespec) {
    // SAFETY: both pointers are to live values of the right types; the info pointer may be null.
    unsafe { libc::sigtimedwait(signals.as_ref(), std::ptr::null_mut(), limit) };
}
