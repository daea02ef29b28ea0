// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Delivers the guest's console (ttyS0) to a file, and looks for a panic on the way.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};

use crate::panic_scan::PanicScan;
use crate::sink::Sink;

/// Bounds the wake-ups of the delivering thread to a hundred a second.
const GATHER: Duration = Duration::from_millis(10);

/// The running delivery.
#[derive(Debug)]
pub struct Console {
    sink: Sink,
    thread: JoinHandle<Option<String>>,
}

impl Console {
    /// Creates (or empties) the file at `path` and starts delivering `sink` to it. When the file
    /// cannot be written any more, `on_error` hears of it once and further output is dropped.
    ///
    /// # Errors
    /// When the file cannot be created or no thread be started.
    pub fn start(
        path: &Path,
        sink: Sink,
        on_error: impl FnOnce(String) + Send + 'static,
    ) -> Result<Self> {
        let file = File::create(path)
            .with_context(|| format!("cannot create the console file {}", path.display()))?;
        let shown = path.display().to_string();
        let report = move |error| on_error(format!("cannot write the console {shown}: {error}"));
        let source = sink.clone();
        let thread = thread::Builder::new()
            .name("console".into())
            .spawn(move || deliver(file, &source, report))
            .context("cannot start the console thread")?;
        Ok(Console { sink, thread })
    }

    /// Accepts no more output, so that no vCPU waits for room.
    pub fn close(&self) {
        self.sink.close();
    }

    /// Delivers what is left, ends, and returns the panic line if there was one.
    #[must_use]
    pub fn finish(self) -> Option<String> {
        self.sink.close();
        self.thread.join().unwrap_or(None)
    }
}

fn deliver(mut file: impl Write, sink: &Sink, on_error: impl FnOnce(io::Error)) -> Option<String> {
    let mut scan = PanicScan::default();
    let mut on_error = Some(on_error);
    let mut buffer = [0; 4096];
    loop {
        let count = sink.peek(&mut buffer, GATHER);
        if count == 0 {
            return scan.finish();
        }
        scan.feed(&buffer[..count]);
        if let Some(report) = on_error.take() {
            match file.write_all(&buffer[..count]) {
                Ok(()) => on_error = Some(report),
                Err(error) => report(error),
            }
        }
        sink.consume(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sink_with(text: &[u8]) -> Sink {
        let sink = Sink::default();
        assert!(text.iter().all(|&byte| sink.push(byte)));
        sink.close();
        sink
    }

    #[test]
    fn all_output_arrives_even_what_was_queued_at_the_end() {
        let text: Vec<u8> = (0..50_000u32).map(|n| n.to_le_bytes()[0]).collect();
        let mut file = Vec::new();
        deliver(&mut file, &sink_with(&text), |error| panic!("{error}"));
        assert_eq!(file, text);
    }

    #[test]
    fn a_full_disk_is_told_once_and_the_panic_still_found() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::StorageFull.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut text = vec![b'\n'; 10_000];
        text.extend_from_slice(b"Kernel panic - not syncing: x");
        let mut told = 0;
        let found = deliver(Full, &sink_with(&text), |_| told += 1);
        assert_eq!(
            (told, found.as_deref()),
            (1, Some("Kernel panic - not syncing: x"))
        );
    }
}
