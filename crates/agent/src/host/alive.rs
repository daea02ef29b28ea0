// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The host's sign of life: an event four times a second of its own clock, so that the lab can tell
//! a host that works for long from one that stands still.

use std::sync::Arc;
use std::time::Duration;

use steady_agent::event::Event;

use super::out::Out;
use crate::system;

const PERIOD: Duration = Duration::from_millis(250);

/// Gives signs of life for as long as init lives. It wakes a pCPU for some ten microseconds each
/// time, in every variant alike.
pub fn begin(out: Arc<Out>) {
    std::thread::spawn(move || {
        loop {
            std::thread::sleep(PERIOD);
            let sign = Event::Alive {
                at_ns: system::now_ns(),
            };
            if out.event(&sign).is_err() {
                return;
            }
        }
    });
}
