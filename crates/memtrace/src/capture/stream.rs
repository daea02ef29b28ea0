// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The raw stream that the plugin sends. Its other end is `plugins/qemu-memtrace/stream.h`.

use std::io::{self, ErrorKind, Read};

use crate::header::{long, word};

const MAGIC: u32 = 0x4d45_5354;
const STREAM_VERSION: u32 = 1;
const HEAD_LEN: usize = 16;
/// Longest body the plugin sends is 4 KiB; more means the stream is not what it seems.
const MAX_BODY_LEN: u32 = 1 << 16;
const RAW_ACCESS_LEN: usize = 16;

/// One access as the plugin saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RawAccess {
    pub(crate) vaddr: u64,
    pub(crate) instructions: u32,
    pub(crate) size: u8,
    pub(crate) write: bool,
}

/// A mapping call that has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syscall {
    pub(crate) num: i64,
    pub(crate) ret: i64,
    pub(crate) args: [u64; 6],
}

/// One message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    Hello {
        page_size: u32,
    },
    Region {
        start: u64,
        len: u64,
        prot: u64,
    },
    Accesses {
        thread: u16,
        raw: RawAccesses<'a>,
    },
    Syscall {
        thread: u16,
        call: Syscall,
    },
    Marker {
        thread: u16,
        id: u32,
    },
    End,
    /// The program is about to become another one.
    Exec,
}

/// The accesses of one message, decoded as they are taken.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct RawAccesses<'a>(&'a [u8]);

impl RawAccesses<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = RawAccess> + '_ {
        self.0.chunks_exact(RAW_ACCESS_LEN).map(|raw| RawAccess {
            vaddr: long(raw, 0),
            instructions: word(raw, 8),
            // The largest access of any translator today is 64 bytes; 128 is the format's limit.
            size: 1 << raw[12].min(7),
            write: raw[13] != 0,
        })
    }
}

/// Why no message came.
#[derive(Debug)]
pub(super) enum Broken {
    /// The plugin's end is closed.
    Closed,
    /// The caller no longer waits.
    Stopped,
    /// The system refused.
    Io(io::Error),
    /// The bytes make no sense: where, what was expected, what came.
    Nonsense(u64, String, String),
}

/// Reads messages from a socket whose reads time out.
pub(super) struct RawStream<R> {
    from: R,
    body: Vec<u8>,
    offset: u64,
}

impl<R: Read> RawStream<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from,
            body: Vec::new(),
            offset: 0,
        }
    }

    /// The next message. `wait` is asked whenever nothing comes, and says whether to go on.
    pub(super) fn next(&mut self, wait: &mut dyn FnMut() -> bool) -> Result<Message<'_>, Broken> {
        let mut head = [0; HEAD_LEN];
        fill(&mut self.from, &mut head, wait)?;
        let (kind, thread, len) = (word(&head, 0), word(&head, 4), word(&head, 8));
        let at = self.offset;
        let nonsense =
            |expected: &str, found: String| Err(Broken::Nonsense(at, expected.to_owned(), found));
        if word(&head, 12) != MAGIC || len > MAX_BODY_LEN {
            return nonsense("the head of a message", head.escape_ascii().to_string());
        }
        self.body.resize(len as usize, 0);
        fill(&mut self.from, &mut self.body, wait)?;
        self.offset += u64::from(len) + HEAD_LEN as u64;
        let body = self.body.as_slice();
        let Ok(thread) = u16::try_from(thread) else {
            return nonsense("a thread below 65536", thread.to_string());
        };
        Ok(match (kind, body.len()) {
            (1, 16) if word(body, 0) == STREAM_VERSION => Message::Hello {
                page_size: word(body, 4),
            },
            (1, 16) => {
                let expected = "stream version 1; build the plugin again";
                return nonsense(expected, word(body, 0).to_string());
            }
            (2, 24) => Message::Region {
                start: long(body, 0),
                len: long(body, 8),
                prot: long(body, 16),
            },
            (3, len) if len % RAW_ACCESS_LEN == 0 => Message::Accesses {
                thread,
                raw: RawAccesses(body),
            },
            (4, 64) => Message::Syscall {
                thread,
                call: Syscall {
                    num: signed(long(body, 0)),
                    ret: signed(long(body, 8)),
                    args: std::array::from_fn(|arg| long(body, 16 + 8 * arg)),
                },
            },
            (5, 8) => Message::Marker {
                thread,
                id: word(body, 0),
            },
            (6, 0) => Message::End,
            (7, 0) => Message::Exec,
            _ => return nonsense("a known message", format!("kind {kind}, {len} bytes")),
        })
    }
}

/// The same bits as a signed number.
fn signed(value: u64) -> i64 {
    i64::from_le_bytes(value.to_le_bytes())
}

fn fill(from: &mut impl Read, to: &mut [u8], wait: &mut dyn FnMut() -> bool) -> Result<(), Broken> {
    let mut done = 0;
    while done < to.len() {
        match from.read(&mut to[done..]) {
            Ok(0) => return Err(Broken::Closed),
            Ok(count) => done += count,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {
                    if !wait() {
                        return Err(Broken::Stopped);
                    }
                }
                _ => return Err(Broken::Io(error)),
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message's head, right but for the kind and the length, and a body.
    fn message() -> impl Strategy<Value = Vec<u8>> {
        let body = prop::collection::vec(any::<u8>(), 0..80);
        let len = prop_oneof![8 => Just(None), 1 => any::<u32>().prop_map(Some)];
        (0u32..9, 0u32..70_000, len, body).prop_map(|(kind, thread, len, body)| {
            let len = len.unwrap_or_else(|| u32::try_from(body.len()).unwrap_or(0));
            let head = [kind, thread, len, MAGIC];
            let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
            bytes.extend(body);
            bytes
        })
    }

    /// Reads to the end, which may be a refusal; every access takes 1 to 128 bytes.
    fn read_all(bytes: &[u8]) {
        let mut stream = RawStream::new(bytes);
        while let Ok(message) = stream.next(&mut || false) {
            if let Message::Accesses { raw, .. } = message {
                assert!(raw.iter().all(|one| (1..=128).contains(&one.size)));
            }
        }
    }

    fn run(cases: u32) {
        let config = ProptestConfig {
            cases,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        let streams = prop::collection::vec(
            prop_oneof![6 => message(), 1 => prop::collection::vec(any::<u8>(), 0..40)],
            0..6,
        );
        proptest::test_runner::TestRunner::new(config)
            .run(&streams, |parts| {
                read_all(&parts.concat());
                Ok(())
            })
            .expect("no stream breaks the reader");
    }

    #[test]
    fn no_stream_breaks_the_reader() {
        run(2_000);
    }

    #[test]
    #[ignore = "takes minutes; run with --release"]
    fn no_stream_of_a_million_breaks_the_reader() {
        run(1_000_000);
    }
}
