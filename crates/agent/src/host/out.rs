// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The way out of the emulated host: frames over the emulators' debug port, and the power switch.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::Mutex;

use steady_agent::event::Event;
use steady_agent::frame::{FILE_CHUNK, Kind, encode};

use crate::raw;
use crate::system::{Doing, Failure};

/// Debug port of QEMU (`isa-debugcon`) and of Bochs (`port_e9_hack`).
const DEBUG_PORT: u16 = 0xe9;
/// QEMU's `isa-debug-exit`.
const QEMU_EXIT_PORT: u16 = 0x501;
/// Bochs ends when it reads this word here.
const BOCHS_EXIT_PORT: u16 = 0x8900;
const BOCHS_EXIT_WORD: &[u8] = b"Shutdown";

/// Writes events and files, one at a time whatever the thread.
#[derive(Debug)]
pub struct Out(Mutex<()>);

impl Out {
    /// Opens the ports.
    pub fn open() -> Result<Self, Failure> {
        raw::allow(DEBUG_PORT, 1).doing(|| format!("get access to port {DEBUG_PORT:#x}"))?;
        Ok(Self(Mutex::new(())))
    }

    /// Sends one event.
    pub fn event(&self, event: &Event) -> Result<(), Failure> {
        let frame = event_frame(event)?;
        let _guard = self.0.lock();
        raw::write_bytes(DEBUG_PORT, &frame);
        Ok(())
    }

    /// Sends a whole file; no event of another thread comes between its parts.
    pub fn file(&self, name: &str, path: &Path) -> Result<(), Failure> {
        let what = || format!("send {}", path.display());
        let mut file = File::open(path).doing(what)?;
        let bytes = file.metadata().doing(what)?.len();
        let announced = event_frame(&Event::File {
            name: name.to_owned(),
            bytes,
        })?;
        let _guard = self.0.lock();
        raw::write_bytes(DEBUG_PORT, &announced);
        let mut left = bytes;
        let mut chunk = vec![0; FILE_CHUNK];
        while left > 0 {
            let want = usize::try_from(left).unwrap_or(FILE_CHUNK).min(FILE_CHUNK);
            file.read_exact(&mut chunk[..want]).doing(what)?;
            raw::write_bytes(DEBUG_PORT, &encode(Kind::File, &chunk[..want]));
            left -= want as u64;
        }
        Ok(())
    }
}

fn event_frame(event: &Event) -> Result<Vec<u8>, Failure> {
    let payload = serde_json::to_vec(event).doing(|| "encode an event".into())?;
    Ok(encode(Kind::Event, &payload))
}

/// Switches the emulator off; returns if neither of its ports is there.
pub fn power_off() {
    if raw::allow(BOCHS_EXIT_PORT, 1).is_ok() {
        for &byte in BOCHS_EXIT_WORD {
            raw::write_byte(BOCHS_EXIT_PORT, byte);
        }
    }
    if raw::allow(QEMU_EXIT_PORT, 1).is_ok() {
        raw::write_byte(QEMU_EXIT_PORT, 0);
    }
}
