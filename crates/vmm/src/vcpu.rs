// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One vCPU: its thread, its run loop, and getting it out of the guest.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use kvm_ioctls::{VcpuExit, VcpuFd};
use rustix::thread::{CpuSet, sched_setaffinity};
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::signal::Killable;

use crate::control::Control;
use crate::devices::Devices;
use crate::last_state::LastState;
use crate::outcome::StopCause;
use crate::sys;

/// How long a vCPU thread may take to report that it is ready.
const START_LIMIT: Duration = Duration::from_secs(10);

/// A vCPU thread.
#[derive(Debug)]
pub struct Thread {
    /// Its thread id.
    pub tid: u32,
    handle: JoinHandle<()>,
    go: Sender<()>,
}

/// What a vCPU thread works with.
#[derive(Debug)]
pub struct Worker {
    /// Number of the vCPU.
    pub index: u32,
    /// The vCPU, set up.
    pub vcpu: VcpuFd,
    /// The host CPU that it is bound to, if any.
    pub host_cpu: Option<usize>,
    /// The machine's devices.
    pub devices: Arc<Devices>,
    /// The agreement to stop.
    pub control: Arc<Control>,
    /// The guest's memory.
    pub memory: GuestMemoryMmap,
}

impl Worker {
    /// Starts the thread, named as QEMU names it, and binds it to its host CPU. It enters the guest
    /// only after [`Thread::go`].
    ///
    /// # Errors
    /// When the thread cannot be started or bound.
    pub fn start(self) -> Result<Thread> {
        let (index, host_cpu) = (self.index, self.host_cpu);
        let (ready_sender, ready) = channel();
        let (go, go_receiver) = channel();
        let handle = thread::Builder::new()
            .name(format!("CPU {index}/KVM"))
            .spawn(move || self.body(&ready_sender, &go_receiver))
            .with_context(|| format!("cannot start the thread of vCPU {index}"))?;
        let tid = match ready.recv_timeout(START_LIMIT) {
            Ok(bound) => bound.with_context(|| {
                let cpu = host_cpu.unwrap_or_default();
                format!("cannot bind vCPU {index} to host CPU {cpu}; is that CPU online?")
            })?,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                anyhow::bail!("the thread of vCPU {index} did not come up in {START_LIMIT:?}")
            }
        };
        Ok(Thread { tid, handle, go })
    }

    fn body(mut self, ready: &Sender<rustix::io::Result<u32>>, go: &Receiver<()>) {
        let tid = rustix::thread::gettid()
            .as_raw_nonzero()
            .get()
            .unsigned_abs();
        let bound = self.host_cpu.map_or(Ok(()), bind_to);
        if ready.send(bound.map(|()| tid)).is_err() || bound.is_err() || go.recv().is_err() {
            return;
        }
        sys::bind_kick(&mut self.vcpu);
        self.run();
        if let Some(state) = LastState::of(&self.vcpu, &self.memory) {
            eprintln!("steady-vmm: vCPU {} {state}", self.index);
        }
        sys::unbind_kick();
        self.control.leave_and_wait();
    }

    fn run(&mut self) {
        while !self.control.stopping() {
            let cause = match self.vcpu.run() {
                Ok(VcpuExit::IoOut(port, data)) => self.devices.port_write(port, data),
                Ok(VcpuExit::IoIn(port, data)) => {
                    self.devices.port_read(port, data);
                    None
                }
                Ok(VcpuExit::MmioRead(address, data)) => {
                    self.devices.memory_read(address, data);
                    None
                }
                Ok(VcpuExit::MmioWrite(address, data)) => {
                    self.devices.memory_write(address, data);
                    None
                }
                Ok(VcpuExit::Intr) => None,
                Ok(VcpuExit::Shutdown) => Some(StopCause::TripleFault(self.index)),
                Ok(VcpuExit::InternalError) => Some(StopCause::Kvm(self.internal_error())),
                Ok(exit) => {
                    let detail = format!("vCPU {}: unexpected exit {exit:x?}", self.index);
                    Some(StopCause::Kvm(detail))
                }
                Err(error) if matches!(error.errno(), libc::EINTR | libc::EAGAIN) => {
                    // A kick that comes after this sets it again.
                    self.vcpu.set_kvm_immediate_exit(0);
                    None
                }
                Err(error) => Some(StopCause::Kvm(format!(
                    "vCPU {}: KVM_RUN failed: {error}",
                    self.index
                ))),
            };
            if let Some(cause) = cause {
                self.control.stop(cause);
            }
        }
    }

    /// What KVM says about an internal error, and where the vCPU was.
    fn internal_error(&mut self) -> String {
        let rip = self.vcpu.get_regs().map_or(0, |regs| regs.rip);
        let (suberror, data) = sys::internal_error(self.vcpu.get_kvm_run());
        format!(
            "vCPU {}: KVM internal error {suberror} at RIP {rip:#x}, data {data:x?}",
            self.index
        )
    }
}

fn bind_to(cpu: usize) -> rustix::io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(rustix::io::Errno::INVAL);
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

impl Thread {
    /// Lets it enter the guest.
    pub fn go(&self) {
        // It fails only when the thread has ended already.
        let _ = self.go.send(());
    }

    /// Makes it leave the guest once; to be repeated until it has.
    pub fn kick(&self) {
        // It fails only when the thread has ended already.
        let _ = self.handle.kill(sys::kick_signal());
    }

    /// Waits for its end.
    pub fn join(self) {
        let _ = self.handle.join();
    }
}
