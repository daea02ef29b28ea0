// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What an engine's nanoseconds are made of.

use serde::{Deserialize, Serialize};

use crate::error::Invalid;

/// The clock behind every `ns` of a result. Times of different clocks are never compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Clock {
    /// The wall clock of the machine that ran the engine (QEMU without virtualization hardware).
    Wall,
    /// A fixed number of instructions makes a second (Bochs).
    Instructions {
        /// Instructions per second of the emulated clock.
        per_second: u64,
    },
    /// The clock of a simulation.
    Simulated,
}

impl std::fmt::Display for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Wall => f.write_str("wall"),
            Self::Instructions { per_second } => {
                write!(f, "instructions at {per_second} per second")
            }
            Self::Simulated => f.write_str("simulated"),
        }
    }
}

impl From<Clock> for String {
    fn from(clock: Clock) -> Self {
        clock.to_string()
    }
}

impl TryFrom<String> for Clock {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        let per_second = text
            .strip_prefix("instructions at ")
            .and_then(|rest| rest.strip_suffix(" per second"))
            .and_then(|number| number.parse().ok())
            .filter(|&number| number > 0);
        match (text.as_str(), per_second) {
            ("wall", _) => Ok(Self::Wall),
            ("simulated", _) => Ok(Self::Simulated),
            (_, Some(per_second)) => Ok(Self::Instructions { per_second }),
            _ => Err(Invalid::new(format!(
                "clock {text:?} is unknown; expected \"wall\", \"simulated\" or \"instructions \
                 at N per second\" with N from 1"
            ))),
        }
    }
}
