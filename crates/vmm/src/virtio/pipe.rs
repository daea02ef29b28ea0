// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One end of a channel between two VMs: a disk of one message, behind which is a named pipe. The
//! driver that every guest has is that of disks.
//!
//! A read of the whole disk takes the next message from the pipe and waits for it; a write puts one
//! into the pipe. A message has as many bytes as a pipe takes at once, so that none is ever cut.
//! Left out: which messages there are and what they mean, which is the guests' business.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, poll};
use vmm_sys_util::eventfd::EventFd;

use crate::sys;
use crate::virtio::request::Backend;

/// Bytes of a message: what a pipe takes or gives in one piece (`PIPE_BUF` of Linux).
pub const MESSAGE: u64 = 4096;

/// The pipe of a disk.
#[derive(Debug)]
pub struct Pipe {
    fifo: File,
    /// Ends every wait.
    stop: Arc<EventFd>,
}

impl Pipe {
    /// Opens the named pipe for both directions, so that neither end waits for the other to come.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path, stop: Arc<EventFd>) -> Result<Self> {
        let fifo = OpenOptions::new().read(true).write(true).open(path);
        let fifo = fifo.with_context(|| format!("cannot open the pipe {}", path.display()))?;
        Ok(Self { fifo, stop })
    }

    fn wait(&self, what: PollFlags) -> io::Result<()> {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(sys::borrow(&self.stop), PollFlags::IN),
                PollFd::new(&self.fifo, what),
            ];
            // An interrupted call leaves all flags clear.
            let _ = poll(&mut fds, None);
            if !fds[0].revents().is_empty() {
                return Err(io::Error::new(ErrorKind::BrokenPipe, "the machine stops"));
            }
            if !fds[1].revents().is_empty() {
                return Ok(());
            }
        }
    }
}

impl Read for Pipe {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait(PollFlags::IN)?;
        self.fifo.read(buffer)
    }
}

impl Write for Pipe {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.wait(PollFlags::OUT)?;
        self.fifo.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Pipe {
    /// Nothing is behind a message.
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        Ok(0)
    }
}

impl Backend for Pipe {
    /// What is in the pipe is as durable as it gets.
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}
