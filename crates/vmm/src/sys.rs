// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The only unsafe code: what the KVM crates cannot do safely or at all.
#![expect(
    unsafe_code,
    reason = "system calls and a signal handler; each block says why it holds"
)]

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};
use std::ptr;

use kvm_bindings::{kvm_run, kvm_userspace_memory_region};
use kvm_ioctls::{VcpuFd, VmFd};
use vm_memory::{Address, GuestMemoryBackend, GuestMemoryMmap, GuestMemoryRegion};
use vmm_sys_util::errno;
use vmm_sys_util::eventfd::EventFd;
use vmm_sys_util::ioctl::ioctl;
use vmm_sys_util::signal::{SIGRTMIN, register_signal_handler};

mod request {
    vmm_sys_util::ioctl_io_nr!(KVM_GET_STATS_FD, kvm_bindings::KVMIO, 0xce);
}

thread_local! {
    /// Address of `immediate_exit` in the `kvm_run` page of the vCPU that this thread runs.
    static IMMEDIATE_EXIT: Cell<*mut u8> = const { Cell::new(ptr::null_mut()) };
}

/// Gives all of `memory` to the VM, one slot per region.
///
/// # Errors
/// What `KVM_SET_USER_MEMORY_REGION` returns.
pub fn register_memory(vm: &VmFd, memory: &GuestMemoryMmap) -> Result<(), errno::Error> {
    for (slot, region) in (0..).zip(memory.iter()) {
        let slot = kvm_userspace_memory_region {
            slot,
            guest_phys_addr: region.start_addr().raw_value(),
            memory_size: region.len(),
            userspace_addr: region.as_ptr() as u64,
            flags: 0,
        };
        // SAFETY: the region is a mapping of exactly this size, regions of one GuestMemoryMmap do
        // not overlap, and the machine keeps the memory until the VM's descriptor is closed.
        unsafe { vm.set_user_memory_region(slot)? };
    }
    Ok(())
}

/// Opens the binary statistics of a VM or a vCPU (`KVM_GET_STATS_FD`).
///
/// # Errors
/// What the system call returns; a host kernel older than 5.14 has no such call.
pub fn stats_file(owner: &impl AsRawFd) -> io::Result<File> {
    // SAFETY: the call takes no argument, and its result is checked.
    let fd = unsafe { ioctl(owner, request::KVM_GET_STATS_FD()) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor for us alone.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// An eventfd as something that can be polled.
#[must_use]
pub fn borrow(event: &EventFd) -> BorrowedFd<'_> {
    // SAFETY: the descriptor is open as long as `event`, which the result borrows.
    unsafe { BorrowedFd::borrow_raw(event.as_raw_fd()) }
}

/// The sub-error and data of a `KVM_EXIT_INTERNAL_ERROR`.
#[must_use]
pub fn internal_error(run: &kvm_run) -> (u32, Vec<u64>) {
    // SAFETY: the union holds plain integers, for which every bit pattern is valid; the kernel has
    // filled this member in for this exit reason.
    let internal = unsafe { run.__bindgen_anon_1.internal };
    let count = usize::try_from(internal.ndata)
        .unwrap_or(0)
        .min(internal.data.len());
    (internal.suberror, internal.data[..count].to_vec())
}

/// The signal that gets a vCPU thread out of the guest.
#[must_use]
pub fn kick_signal() -> i32 {
    SIGRTMIN()
}

/// Installs the handler of [`kick_signal`].
///
/// # Errors
/// What `sigaction` returns.
pub fn install_kick_handler() -> Result<(), errno::Error> {
    register_signal_handler(kick_signal(), on_kick)
}

/// Names `vcpu` as the one that this thread runs, so that a kick makes even a `KVM_RUN` return that
/// begins only after the signal was handled.
pub fn bind_kick(vcpu: &mut VcpuFd) {
    let flag = &raw mut vcpu.get_kvm_run().immediate_exit;
    IMMEDIATE_EXIT.set(flag);
}

/// Undoes [`bind_kick`]; to be called before the vCPU is dropped.
pub fn unbind_kick() {
    IMMEDIATE_EXIT.set(ptr::null_mut());
}

extern "C" fn on_kick(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let flag = IMMEDIATE_EXIT.get();
    if !flag.is_null() {
        // SAFETY: the pointer is this thread's own vCPU's, set and cleared by this thread while the
        // page is mapped; a byte store to it is safe at any moment, signal handlers included.
        unsafe { flag.write_volatile(1) };
    }
}
