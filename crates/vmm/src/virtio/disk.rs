// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A disk's file, its shared device state, and the thread that serves its queue.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, poll};
use virtio_bindings::virtio_mmio::VIRTIO_MMIO_INT_VRING;
use virtio_queue::{Queue, QueueT};
use vm_memory::GuestMemoryMmap;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::sys;
use crate::virtio::pipe::{MESSAGE, Pipe};
use crate::virtio::request::{self, Backend, Disk, ID_SIZE, SECTOR};

/// Size of the request queue.
pub const QUEUE_SIZE: u16 = 128;

/// What the registers (on vCPU threads) and the serving thread share.
#[derive(Debug)]
pub struct Shared {
    /// Guest memory, where the rings and buffers are.
    pub memory: GuestMemoryMmap,
    /// The request queue; served only while it is ready.
    pub queue: Mutex<Queue>,
    /// Pending interrupt reasons.
    pub interrupt_status: AtomicU32,
    /// Signalled by KVM when the guest rings the doorbell.
    pub doorbell: EventFd,
    /// Makes KVM interrupt the guest.
    pub interrupt: EventFd,
}

impl Shared {
    /// Device state with an empty queue.
    ///
    /// # Errors
    /// When no eventfd can be made.
    pub fn new(memory: GuestMemoryMmap) -> Result<Self> {
        Ok(Shared {
            memory,
            queue: Mutex::new(Queue::new(QUEUE_SIZE).context("cannot make a virtio queue")?),
            interrupt_status: AtomicU32::new(0),
            doorbell: EventFd::new(EFD_NONBLOCK).context("cannot make an eventfd")?,
            interrupt: EventFd::new(EFD_NONBLOCK).context("cannot make an eventfd")?,
        })
    }

    /// The queue.
    pub fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves all requests in the queue. Returns how many there were.
    pub fn serve<B: Backend>(&self, disk: &mut Disk<B>) -> usize {
        let mut queue = self.lock();
        let mut total = 0;
        let mut idle = false;
        while queue.ready() {
            let served = self.serve_waiting(&mut queue, disk);
            total += served;
            // A guest that breaks its ring only loses its disk: an index that has run ahead says for
            // ever that there is more, and yields nothing.
            if idle && served == 0 {
                break;
            }
            idle = served == 0;
            if !queue.enable_notification(&self.memory).unwrap_or(false) {
                break;
            }
        }
        total
    }

    fn serve_waiting<B: Backend>(&self, queue: &mut Queue, disk: &mut Disk<B>) -> usize {
        let mut served = 0;
        while let Some(chain) = queue.pop_descriptor_chain(&self.memory) {
            let head = chain.head_index();
            let written = request::serve(disk, &self.memory, chain);
            if queue.add_used(&self.memory, head, written).is_err() {
                break;
            }
            served += 1;
            if queue.needs_notification(&self.memory).unwrap_or(true) {
                self.interrupt_status
                    .fetch_or(VIRTIO_MMIO_INT_VRING, Ordering::AcqRel);
                // A full eventfd is an interrupt pending already.
                let _ = self.interrupt.write(1);
            }
        }
        served
    }
}

/// What is behind a disk: an image, or a pipe.
pub type Medium = Box<dyn Backend + Send>;

/// Opens a disk image for reading and writing, or a named pipe, whose waits `stop` ends.
///
/// # Errors
/// When it cannot be opened, or an image is not a whole number of sectors, at least one.
pub fn open(path: &Path, stop: &Arc<EventFd>) -> Result<Disk<Medium>> {
    let shown = path.display();
    let examined =
        fs::metadata(path).with_context(|| format!("cannot examine the disk {shown}"))?;
    let (backend, size): (Medium, u64) = if examined.file_type().is_fifo() {
        (Box::new(Pipe::open(path, stop.clone())?), MESSAGE)
    } else {
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let opened = opened
            .with_context(|| format!("cannot open the disk {shown} for reading and writing"))?;
        (Box::new(opened), examined.len())
    };
    ensure!(
        size > 0 && size.is_multiple_of(SECTOR),
        "the disk {shown} has {size} bytes; a disk is one or more sectors of {SECTOR} bytes \
         (`truncate -s 64M {shown}` makes a sparse one)"
    );
    let mut id = [0; ID_SIZE];
    let name = path
        .file_name()
        .map(std::ffi::OsStr::as_encoded_bytes)
        .unwrap_or_default();
    for (to, from) in id.iter_mut().zip(name) {
        *to = *from;
    }
    Ok(Disk {
        backend,
        sectors: size / SECTOR,
        id,
    })
}

/// The running thread of a disk.
#[derive(Debug)]
pub struct Server {
    stop: Arc<EventFd>,
    thread: JoinHandle<()>,
}

impl Server {
    /// Starts serving `disk`, the `index`-th, until `stop`.
    ///
    /// # Errors
    /// When no thread can be made.
    pub fn start(
        index: usize,
        mut disk: Disk<Medium>,
        shared: Arc<Shared>,
        stop: Arc<EventFd>,
    ) -> Result<Self> {
        let stopped = stop.clone();
        let body = move || loop {
            let mut fds = [
                PollFd::from_borrowed_fd(sys::borrow(&stopped), PollFlags::IN),
                PollFd::from_borrowed_fd(sys::borrow(&shared.doorbell), PollFlags::IN),
            ];
            // An interrupted call leaves all flags clear.
            let _ = poll(&mut fds, None);
            if !fds[0].revents().is_empty() {
                return;
            }
            if shared.doorbell.read().is_ok() {
                shared.serve(&mut disk);
            }
        };
        let spawned = thread::Builder::new()
            .name(format!("disk {index}"))
            .spawn(body);
        Ok(Server {
            stop,
            thread: spawned.context("cannot start a disk thread")?,
        })
    }

    /// Ends the thread after the request it is at.
    pub fn finish(self) {
        let _ = self.stop.write(1);
        let _ = self.thread.join();
    }
}
