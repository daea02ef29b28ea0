// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The capture itself: starts the program, takes its stream in, writes the trace.

use std::io::{ErrorKind, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::children;
use super::convert::Converter;
use super::error::io_error;
use super::setup::{Guard, Setup};
use super::stream::{Broken, Message, RawStream};
use super::{CaptureError, Ending, MARKER_STARTED, Options, Start, Summary};
use crate::error::TraceError;
use crate::header::{Header, Origin};
use crate::record::Record;
use crate::writer::{FileWriter, Writer};

/// How often a silent stream is asked whether to wait on.
const TICK: Duration = Duration::from_millis(50);
/// How long the emulator may take to load the plugin.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);
/// How long the emulator may take to exit after its stream has ended.
const EXIT_LIMIT: Duration = Duration::from_secs(5);

/// Runs one capture. `cancel` may be set at any time, by a signal handler for one: the capture
/// then ends as at a limit, with what there is, or, before the program begins, with an error.
/// However it ends, no process of it stays behind.
///
/// # Errors
/// [`CaptureError`]; no file is then left under the output's name that was not there before.
pub fn run(options: &Options, cancel: &AtomicBool) -> Result<Summary, CaptureError> {
    let began = Instant::now();
    let deadline = began + options.time_limit;
    let setup = Setup::find(options)?;
    let header = header(options, &setup);
    // The output's folder must be writable before the program does any work.
    let mut file = FileWriter::create(&options.output, &header)?;

    let folder = tempfile::tempdir().map_err(io_error("make a folder for the socket"))?;
    let socket = folder.path().join("stream");
    let listener = UnixListener::bind(&socket).map_err(io_error("make the socket"))?;
    let mut guard = setup.spawn(options, &socket)?;
    let stream = accept(&listener, &mut guard, cancel)?;

    let mut session = Session {
        writer: file.writer(),
        converter: match options.emulator_addresses {
            true => Converter::new(header.page_size),
            false => Converter::placing(header.page_size),
        },
        recorded: options.start == Start::AtOnce,
        left: options.max_accesses.unwrap_or(u64::MAX),
    };
    let stop = || cancel.load(Ordering::Relaxed) || Instant::now() >= deadline;
    let stopped = session.take_in(RawStream::new(stream), stop)?;
    let unmapped_accesses = session.converter.unmapped_accesses;
    let ending = match stopped {
        Stopped::Limit => Ending::AccessLimit,
        Stopped::Asked if cancel.load(Ordering::Relaxed) => Ending::Interrupted,
        Stopped::Asked => Ending::TimeLimit,
        Stopped::Ended => match wait_for_exit(&mut guard)? {
            Some(status) => ending(status),
            None => return Err(CaptureError::NoExit),
        },
        Stopped::Replaced => Ending::Replaced,
        Stopped::Cut => match wait_for_exit(&mut guard)?.and_then(|status| status.signal()) {
            Some(signal) => Ending::Killed(signal),
            // It ran on, or even to its end, and the plugin could not say so.
            None => return Err(CaptureError::StreamLost),
        },
    };
    drop(guard);
    let children = children::read(&socket);

    let writer = file.writer();
    writer.set_maps_complete(unmapped_accesses == 0);
    writer.set_stopped_early(!matches!(ending, Ending::Exited(_)));
    let (totals, digest) = file.finish()?;
    Ok(Summary {
        totals,
        digest,
        ending,
        unmapped_accesses,
        children,
        elapsed: began.elapsed(),
    })
}

fn header(options: &Options, setup: &Setup) -> Header {
    let text = |word: &std::ffi::OsString| word.to_string_lossy().into_owned();
    let start = match options.start {
        Start::AtOnce => "from the first instruction".to_owned(),
        Start::AfterInstructions(count) => format!("after {count} instructions"),
        Start::AtMarker => "from the start marker".to_owned(),
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Header {
        page_size: 4096,
        origin: Origin::Qemu,
        program: setup
            .program
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        command: options.command.iter().map(text).collect(),
        recorder: format!(
            "{}, qemu-memtrace, {start}, window {}, addresses of {}",
            setup.qemu_version,
            options.window_instructions,
            match options.emulator_addresses {
                true => "the emulator",
                false => "Linux",
            }
        ),
        captured_unix_s: now.as_secs(),
    }
}

fn accept(
    listener: &UnixListener,
    guard: &mut Guard,
    cancel: &AtomicBool,
) -> Result<UnixStream, CaptureError> {
    listener
        .set_nonblocking(true)
        .map_err(io_error("prepare the socket"))?;
    let deadline = Instant::now() + CONNECT_LIMIT;
    while Instant::now() < deadline {
        if cancel.load(Ordering::Relaxed) {
            return Err(CaptureError::Interrupted);
        }
        match listener.accept() {
            Ok((stream, _)) => {
                stream
                    .set_nonblocking(false)
                    .and_then(|()| stream.set_read_timeout(Some(TICK)))
                    .map_err(io_error("prepare the socket"))?;
                return Ok(stream);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(io_error("wait for the plugin")(error)),
        }
        if let Some(status) = guard.try_wait()? {
            let status = status.to_string();
            return Err(CaptureError::NoPlugin { status });
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let seconds = CONNECT_LIMIT.as_secs();
    Err(CaptureError::PluginSilent { seconds })
}

/// The emulator's status, or `None` if it is still running after a while.
fn wait_for_exit(guard: &mut Guard) -> Result<Option<ExitStatus>, CaptureError> {
    let deadline = Instant::now() + EXIT_LIMIT;
    loop {
        let status = guard.try_wait()?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn ending(status: ExitStatus) -> Ending {
    match status.code() {
        Some(code) => Ending::Exited(code),
        None => Ending::Killed(status.signal().unwrap_or(0)),
    }
}

/// Why no more is taken from the stream.
enum Stopped {
    /// The program ended and everything arrived.
    Ended,
    /// The program became another one; nothing follows.
    Replaced,
    /// The stream closed without saying so.
    Cut,
    /// Enough accesses.
    Limit,
    /// The caller's wish, or the deadline.
    Asked,
}

/// The writing end.
struct Session<'a, W: Write> {
    writer: &'a mut Writer<W>,
    converter: Converter,
    /// False until accesses are due.
    recorded: bool,
    /// Accesses still wanted.
    left: u64,
}

impl<W: Write> Session<'_, W> {
    fn take_in(
        &mut self,
        mut stream: RawStream<UnixStream>,
        stop: impl Fn() -> bool,
    ) -> Result<Stopped, CaptureError> {
        let (mut greeted, mut leaving) = (false, false);
        while !stop() {
            let message = match stream.next(&mut || !stop()) {
                Ok(message) => message,
                Err(Broken::Closed) if leaving => return Ok(Stopped::Replaced),
                Err(Broken::Closed) => return Ok(Stopped::Cut),
                Err(Broken::Stopped) => return Ok(Stopped::Asked),
                Err(Broken::Io(source)) if source.kind() == ErrorKind::ConnectionReset => {
                    return Ok(Stopped::Cut);
                }
                Err(Broken::Io(source)) => return Err(io_error("read the stream")(source)),
                Err(Broken::Nonsense(offset, expected, found)) => {
                    return Err(CaptureError::Stream {
                        offset,
                        expected,
                        found,
                    });
                }
            };
            leaving = message == Message::Exec;
            match message {
                Message::Hello { .. } => greeted = true,
                _ if !greeted => {
                    return Err(CaptureError::Stream {
                        offset: 0,
                        expected: "the plugin's greeting".to_owned(),
                        found: format!("{message:?}"),
                    });
                }
                Message::End => return Ok(Stopped::Ended),
                message => self.convert(message)?,
            }
            if self.left == 0 {
                return Ok(Stopped::Limit);
            }
        }
        Ok(Stopped::Asked)
    }

    fn convert(&mut self, message: Message<'_>) -> Result<(), TraceError> {
        let writer = &mut *self.writer;
        let mut emit = |record: Record| writer.push(&record);
        match message {
            Message::Region { start, len, prot } => self.converter.region(start, len, prot),
            Message::Syscall { thread, call } => {
                self.converter.syscall(thread, &call, &mut emit)?
            }
            Message::Marker { thread, id } => {
                self.recorded |= id == MARKER_STARTED;
                emit(Record::Marker { thread, id })?;
            }
            Message::Accesses { thread, raw } if self.recorded => {
                let wanted = usize::try_from(self.left).unwrap_or(usize::MAX);
                for access in raw.iter().take(wanted) {
                    self.converter.access(thread, access, &mut emit)?;
                    self.left -= 1;
                }
            }
            Message::Accesses { .. } | Message::Hello { .. } | Message::End | Message::Exec => {}
        }
        Ok(())
    }
}
