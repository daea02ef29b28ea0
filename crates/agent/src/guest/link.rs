// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A guest's end of a channel to another VM: local sockets here and there, and messages between.
//!
//! In the VM that reaches the other, a socket takes connections; in the VM that serves, each of
//! them is made to the program's own socket. All connections of a channel share its two pipes, in
//! and out, which the guest sees as disks of one message ([`steady_agent::plan::Link`]). A message
//! is the connection's number, what it is, the length, and as many bytes.
//!
//! Left out: flow control of single connections. One that is not read holds the others up.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use steady_agent::plan::{Link, LinkEnd};

use crate::system::{self, Doing, Failure};

/// Bytes of a message, as the VMM has it, and of its head.
const MESSAGE: usize = 4096;
const HEAD: usize = 8;

/// How long a connection waits for others to end where a process may have no more.
const FULL_POLL: Duration = Duration::from_millis(10);

/// What a message is.
const OPEN: u8 = 1;
const DATA: u8 = 2;
const END: u8 = 3;

/// A message, where a disk takes it from without a copy.
#[repr(align(4096))]
struct Message([u8; MESSAGE]);

impl Message {
    fn new() -> Box<Self> {
        Box::new(Self([0; MESSAGE]))
    }

    fn label(&mut self, number: u32, what: u8, bytes: usize) {
        assert!(bytes <= MESSAGE - HEAD, "{bytes} bytes fit a message");
        let length = u16::try_from(bytes).unwrap_or_default();
        self.0[..4].copy_from_slice(&number.to_le_bytes());
        self.0[4..6].copy_from_slice(&[what, 0]);
        self.0[6..HEAD].copy_from_slice(&length.to_le_bytes());
    }

    /// The connection's number, what it is, and its bytes; `None` of what no guest writes.
    fn parts(&self) -> Option<(u32, u8, &[u8])> {
        let number = u32::from_le_bytes([self.0[0], self.0[1], self.0[2], self.0[3]]);
        let length = u16::from_le_bytes([self.0[6], self.0[7]]);
        let bytes = self.0.get(HEAD..HEAD + usize::from(length))?;
        Some((number, self.0[4], bytes))
    }
}

/// What the threads of one end share.
struct Shared {
    outward: Mutex<File>,
    streams: Mutex<Vec<(u32, UnixStream)>>,
    next: AtomicU32,
    /// The program's socket, in the VM that serves.
    serves: Option<String>,
}

/// Starts this end; it runs until the guest goes down.
pub fn start(link: &Link) -> Result<(), Failure> {
    // Threads inherit it: the end of a workload is for the one that waits for it.
    let mut signals = SigSet::empty();
    signals.add(Signal::SIGCHLD);
    signals.thread_block().doing(|| "block SIGCHLD".into())?;
    let [inward, outward] = link.names();
    let (inward, outward) = (device(&inward)?, device(&outward)?);
    let shared = Arc::new(Shared {
        outward: Mutex::new(outward),
        streams: Mutex::default(),
        next: AtomicU32::new(0),
        serves: (link.end == LinkEnd::Serves).then(|| link.socket.clone()),
    });
    if link.end == LinkEnd::Reaches {
        let socket = &link.socket;
        let listener = UnixListener::bind(socket).doing(|| format!("listen at {socket}"))?;
        let shared = Arc::clone(&shared);
        spawn(Box::new(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else {
                    // There are too many; some end.
                    thread::sleep(FULL_POLL);
                    continue;
                };
                let number = shared.next.fetch_add(1, Ordering::Relaxed);
                shared.say(number, OPEN);
                shared.join(number, stream);
            }
        }));
    }
    spawn(Box::new(move || shared.hear(&inward)));
    Ok(())
}

/// One kind of thread, so that the code that starts one is in the image once.
fn spawn(body: Box<dyn FnOnce() + Send>) {
    thread::spawn(body);
}

/// The disk of this name.
fn device(name: &str) -> Result<File, Failure> {
    let disks = fs::read_dir("/sys/block").doing(|| "list the disks".into())?;
    let found = disks.flatten().find(|disk| {
        disk.file_name().to_string_lossy().starts_with("vd")
            && system::read_trimmed(disk.path().join("serial")) == name
    });
    let found = found.ok_or_else(|| Failure::new(format!("the guest has no disk {name}")))?;
    let path = std::path::Path::new("/dev").join(found.file_name());
    let mut options = OpenOptions::new();
    // Each read and each write is a request of its own.
    options.read(true).write(true).custom_flags(libc::O_DIRECT);
    options
        .open(&path)
        .doing(|| format!("open {}", path.display()))
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Sends a message without bytes.
    fn say(&self, number: u32, what: u8) {
        let mut message = Message::new();
        message.label(number, what, 0);
        self.send(&message);
    }

    fn send(&self, message: &Message) {
        if let Err(error) = held(&self.outward).write_all_at(&message.0, 0) {
            eprintln!("steady-agent: a channel to another VM: {error}");
        }
    }

    /// Takes what comes from the other VM, until the channel ends.
    fn hear(self: &Arc<Self>, inward: &File) {
        let mut message = Message::new();
        while let Ok(()) = inward.read_exact_at(&mut message.0, 0) {
            let Some((number, what, bytes)) = message.parts() else {
                continue;
            };
            match what {
                OPEN => self.open(number),
                DATA => {
                    let streams = held(&self.streams);
                    let stream = streams.iter().find(|(other, _)| *other == number);
                    let stream = stream.map(|(_, stream)| stream.try_clone());
                    drop(streams);
                    if let Some(Ok(mut stream)) = stream {
                        // A program that has gone reads no more; its end is on the way.
                        let _ = stream.write_all(bytes);
                    }
                }
                END => {
                    held(&self.streams).retain(|(other, stream)| {
                        let ends = *other == number;
                        if ends {
                            let _ = stream.shutdown(Shutdown::Write);
                        }
                        !ends
                    });
                }
                _ => {}
            }
        }
        eprintln!("steady-agent: a channel to another VM has ended");
    }

    /// Makes a connection to the program here.
    fn open(self: &Arc<Self>, number: u32) {
        let socket = self.serves.as_deref().unwrap_or_default();
        match UnixStream::connect(socket) {
            Ok(stream) => self.join(number, stream),
            Err(error) => {
                eprintln!("steady-agent: another VM asks for {socket}: {error}");
                self.say(number, END);
            }
        }
    }

    /// Sends what comes from a connection, until its end.
    fn join(self: &Arc<Self>, number: u32, mut stream: UnixStream) {
        let Ok(other) = stream.try_clone() else {
            return self.say(number, END);
        };
        held(&self.streams).push((number, other));
        let shared = Arc::clone(self);
        spawn(Box::new(move || {
            let mut message = Message::new();
            loop {
                let count = match stream.read(&mut message.0[HEAD..]) {
                    Ok(count) if count > 0 => count,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    _ => return shared.say(number, END),
                };
                message.label(number, DATA, count);
                shared.send(&message);
            }
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written_and_one_that_is_too_long_is_not() {
        let mut message = Message::new();
        message.0[HEAD..HEAD + 3].copy_from_slice(b"abc");
        message.label(0x0102_0304, DATA, 3);
        assert_eq!(message.parts(), Some((0x0102_0304, DATA, &b"abc"[..])));
        message.0[6..HEAD].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(message.parts(), None);
        assert_eq!(std::ptr::from_ref(&*message).addr() % MESSAGE, 0);
    }
}
