// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The channel: a Unix socket joined to the guest's second serial port (ttyS1), both ways.
//!
//! The VMM listens; one peer at a time is served, the next when it has hung up. What the guest sends
//! waits for a peer, up to the capacity of the queue, then the guest waits. What a peer sends waits
//! in the socket until the guest takes it; a peer that has sent and hung up is read to its end first.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, poll};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::sink::Sink;
use crate::sys;
use crate::uart::Uart;

/// Gathering time before a delivery: bounds wake-ups to a thousand a second.
const GATHER: Duration = Duration::from_millis(1);
/// How long one write to a peer that does not read may block before the deadline is looked at.
const WRITE_SLICE: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
struct Peer {
    stream: Option<Arc<UnixStream>>,
    deadline: Option<Instant>,
}

#[derive(Debug)]
struct Shared {
    uart: Arc<Uart>,
    sink: Sink,
    stop: EventFd,
    peer: Mutex<Peer>,
    changed: Condvar,
}

/// The running channel.
#[derive(Debug)]
pub struct Channel {
    shared: Arc<Shared>,
    input: JoinHandle<()>,
    output: JoinHandle<()>,
    path: PathBuf,
}

impl Channel {
    /// Listens at `path`, where an old socket is replaced, and joins it to the port.
    ///
    /// # Errors
    /// When there is something else at `path`, or the socket or a thread cannot be made.
    pub fn start(path: &Path, uart: Arc<Uart>, sink: Sink) -> Result<Self> {
        let listener = listen(path)?;
        let shared = Arc::new(Shared {
            uart,
            sink,
            stop: EventFd::new(EFD_NONBLOCK).context("cannot make an eventfd")?,
            peer: Mutex::default(),
            changed: Condvar::new(),
        });
        let spawn = |name: &str, body: Box<dyn FnOnce() + Send>| {
            let spawned = thread::Builder::new().name(name.into()).spawn(body);
            spawned.context("cannot start a channel thread")
        };
        let (for_input, for_output) = (shared.clone(), shared.clone());
        let input = spawn("channel in", Box::new(move || for_input.serve(&listener)))?;
        let output = spawn("channel out", Box::new(move || for_output.deliver()))?;
        Ok(Channel {
            shared,
            input,
            output,
            path: path.to_owned(),
        })
    }

    /// Accepts no more from the guest, so that no vCPU waits for room.
    pub fn close(&self) {
        self.shared.sink.close();
    }

    /// Delivers what the guest has sent, for at most `limit`, then closes the channel and removes the
    /// socket. Returns how many bytes were not fetched.
    #[must_use]
    pub fn finish(self, limit: Duration) -> u64 {
        self.shared.lock().deadline = Some(Instant::now() + limit);
        self.shared.sink.close();
        self.shared.changed.notify_all();
        let output = self.output.join();
        let _ = self.shared.stop.write(1);
        let input = self.input.join();
        assert!(output.is_ok() && input.is_ok(), "a channel thread panicked");
        // Best effort: somebody else may have removed it.
        let _ = fs::remove_file(&self.path);
        self.shared.sink.pending() as u64
    }
}

fn listen(path: &Path) -> Result<UnixListener> {
    let shown = path.display();
    match fs::symlink_metadata(path) {
        Ok(found) if found.file_type().is_socket() => fs::remove_file(path)
            .with_context(|| format!("cannot remove the old socket {shown}"))?,
        Ok(_) => bail!("{shown} exists and is not a socket; give another path for --channel"),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path)
        .with_context(|| format!("cannot listen at the channel {shown}"))?;
    listener
        .set_nonblocking(true)
        .context("cannot set the channel's socket up")?;
    Ok(listener)
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Peer> {
        self.peer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The output thread: from the guest to whoever is the peer.
    fn deliver(&self) {
        let mut buffer = [0; 4096];
        loop {
            let count = self.sink.peek(&mut buffer, GATHER);
            if count == 0 {
                return;
            }
            let Some(peer) = self.wait_for_peer() else {
                return;
            };
            match (&*peer).write(&buffer[..count]) {
                Ok(written) => self.sink.consume(written),
                Err(error) if is_transient(&error) => {}
                Err(_) => self.forget(&peer),
            }
        }
    }

    /// The peer, as soon as there is one; nothing when the deadline has passed.
    fn wait_for_peer(&self) -> Option<Arc<UnixStream>> {
        let mut peer = self.lock();
        loop {
            let left = peer
                .deadline
                .map(|at| at.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return None;
            }
            if let Some(stream) = &peer.stream {
                return Some(stream.clone());
            }
            let limit = left.unwrap_or(Duration::from_secs(3600));
            let waited = self.changed.wait_timeout(peer, limit);
            peer = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// No more deliveries to this stream.
    fn forget(&self, stream: &UnixStream) {
        let mut peer = self.lock();
        if peer
            .stream
            .as_deref()
            .is_some_and(|current| std::ptr::eq(current, stream))
        {
            peer.stream = None;
        }
    }

    /// The input thread: accepts peers, one after the other, and feeds the guest.
    fn serve(&self, listener: &UnixListener) {
        while let Some(stream) = self.accept(listener) {
            let stream = Arc::new(stream);
            self.lock().stream = Some(stream.clone());
            self.changed.notify_all();
            let ended = self.feed_from(&stream);
            self.forget(&stream);
            if ended == Ended::Stopped {
                return;
            }
        }
    }

    fn accept(&self, listener: &UnixListener) -> Option<UnixStream> {
        loop {
            let mut fds = [
                PollFd::from_borrowed_fd(sys::borrow(&self.stop), PollFlags::IN),
                PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            ];
            wait(&mut fds);
            if !fds[0].revents().is_empty() {
                return None;
            }
            let prepare = |(stream, _): (UnixStream, _)| {
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(WRITE_SLICE))?;
                Ok(stream)
            };
            // A peer that is gone again already is not waited on.
            if let Ok(stream) = listener.accept().and_then(prepare) {
                return Some(stream);
            }
        }
    }

    /// Feeds the guest from a peer until that has hung up and all it sent is read.
    fn feed_from(&self, stream: &UnixStream) -> Ended {
        let mut pending = Vec::new();
        let (mut at_end, mut hung_up) = (false, false);
        loop {
            let room = self.uart.room_or_ask();
            if room > 0 && !pending.is_empty() {
                let taken = self.uart.feed(&pending);
                pending.drain(..taken);
                continue;
            }
            if at_end && hung_up && pending.is_empty() {
                return Ended::HungUp;
            }
            let may_read = room > 0 && !at_end;
            let ready = if may_read && hung_up {
                PollFlags::IN
            } else {
                match self.poll_peer(stream, may_read, hung_up) {
                    Some(flags) => flags,
                    None => return Ended::Stopped,
                }
            };
            hung_up |= ready.intersects(PollFlags::HUP | PollFlags::ERR);
            if hung_up {
                self.forget(stream);
            }
            if may_read && ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                at_end = !read_some(stream, room, &mut pending);
            }
        }
    }

    /// Waits until the peer can be read or hangs up, or the guest has room. Nothing: stop.
    fn poll_peer(&self, stream: &UnixStream, may_read: bool, hung_up: bool) -> Option<PollFlags> {
        let events = if may_read {
            PollFlags::IN
        } else {
            PollFlags::empty()
        };
        let mut fds = vec![
            PollFd::from_borrowed_fd(sys::borrow(&self.stop), PollFlags::IN),
            PollFd::from_borrowed_fd(sys::borrow(self.uart.room_event()), PollFlags::IN),
        ];
        if !hung_up {
            // A peer that has hung up would be reported again at once, for ever.
            fds.push(PollFd::from_borrowed_fd(stream.as_fd(), events));
        }
        wait(&mut fds);
        if !fds[0].revents().is_empty() {
            return None;
        }
        let ready = fds.get(2).map_or(PollFlags::empty(), PollFd::revents);
        if !fds[1].revents().is_empty() {
            let _ = self.uart.room_event().read();
        }
        Some(ready)
    }
}

/// Why feeding from a peer ended.
#[derive(Debug, PartialEq, Eq)]
enum Ended {
    HungUp,
    Stopped,
}

/// Reads at most `room` bytes behind `pending`; returns false at the end of the stream.
fn read_some(mut stream: &UnixStream, room: usize, pending: &mut Vec<u8>) -> bool {
    let mut buffer = [0; 64];
    let room = room.min(buffer.len());
    match stream.read(&mut buffer[..room]) {
        Ok(0) => false,
        Ok(count) => {
            pending.extend_from_slice(&buffer[..count]);
            true
        }
        Err(error) => is_transient(&error),
    }
}

fn wait(fds: &mut [PollFd<'_>]) {
    // An interrupted call leaves all flags clear, and every caller loops.
    let _ = poll(fds, None);
}

fn is_transient(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | WouldBlock | TimedOut)
}
