// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A thread that may run elsewhere than before, as the state file has it. A thread is named by its
//! number and its start, so that a number that is used again is not touched.

use std::io::ErrorKind;

use serde::{Deserialize, Serialize};
use steady_hostview::{Cpus, Host, Meter};

use super::hands::Hands;
use super::threads::is_of_set;
use crate::state::{Change, End};

/// One thread.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    process: i32,
    tid: i32,
    /// In ticks since boot.
    started: u64,
    /// The pCPUs of before.
    before: String,
    /// Those that were set.
    set: String,
    /// Those that were set before them, which it still has if it was killed in between, or if the
    /// kernel refused the later ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    or: Option<String>,
}

impl Moved {
    pub(super) fn new(process: i32, meter: &Meter, before: &Cpus, set: &Cpus) -> Self {
        Self {
            process,
            tid: meter.tid(),
            started: meter.started(),
            before: before.to_string(),
            set: set.to_string(),
            or: None,
        }
    }
}

impl Change for Moved {
    type Hands = dyn Hands;

    fn is_same(&self, other: &Self) -> bool {
        (self.tid, self.started) == (other.tid, other.started)
    }

    fn follow(&mut self, later: Self) {
        self.or = Some(std::mem::replace(&mut self.set, later.set));
    }

    fn back(&self, host: &Host, hands: &mut (dyn Hands + 'static)) -> End {
        let meter = match Meter::open(host, self.process, self.tid) {
            Ok(meter) => meter,
            Err(error) if error.kind() == ErrorKind::NotFound => return End::Gone,
            Err(_) => return End::Refused,
        };
        if meter.started() != self.started {
            return End::Gone;
        }
        let (Some(now), Ok(before)) = (meter.allowed(), self.before.parse::<Cpus>()) else {
            return End::Gone;
        };
        if now == before {
            return End::Back;
        }
        let mut sets = std::iter::once(&self.set).chain(&self.or);
        let ours = sets.any(|set| {
            let set = set.parse::<Cpus>();
            set.is_ok_and(|set| is_of_set(&now, &set, &meter, host))
        });
        if !ours {
            return End::Theirs;
        }
        match hands.set(self.tid, &before) {
            Ok(()) => End::Back,
            Err(_) if meter.read().is_none() => End::Gone,
            Err(_) => End::Refused,
        }
    }
}
