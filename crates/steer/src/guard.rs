// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Undoes everything when the process that acted ends in any way: a child that waits for the end of
//! a pipe, which the kernel closes with the parent.

use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use steady_hostview::Host;

use crate::error::SteerError;
use crate::state::{Change, State, Undone};

/// How long the guard tries to take the state file of a process that ends, and is waited for.
const LIMIT: Duration = Duration::from_secs(10);

/// The child.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    /// Starts this program again as a guard: `words` are its command line.
    pub fn start(words: &[String], state: &Path) -> io::Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(words)
            .arg("--guard")
            .arg("--state")
            .arg(state)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = child.stdin.take();
        assert!(pipe.is_some(), "a piped child has a pipe");
        Ok(Self { child, pipe })
    }
}

impl Drop for Guard {
    /// The state file must be free by now.
    fn drop(&mut self) {
        drop(self.pipe.take());
        let begun = Instant::now();
        while begun.elapsed() < LIMIT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The guard: waits until its parent has ended, and undoes what is in the state file.
///
/// # Errors
/// [`SteerError`].
pub(crate) fn guard<C: Change>(state: &Path, hands: &mut C::Hands) -> Result<Undone, SteerError> {
    // The signals that end a service's processes all at once are the parent's to obey.
    let deaf = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register(signal, Arc::clone(&deaf)).map_err(SteerError::Signals)?;
    }
    let interrupted = |error: &io::Error| error.kind() == io::ErrorKind::Interrupted;
    while io::stdin()
        .read(&mut [0])
        .is_err_and(|error| interrupted(&error))
    {}
    let begun = Instant::now();
    loop {
        match State::<C>::take(state, &Host::default(), hands) {
            Ok((_, undone)) => return Ok(undone),
            Err(SteerError::Held(_)) if begun.elapsed() < LIMIT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(error),
        }
    }
}
