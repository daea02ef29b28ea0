// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a user may say about a race beside the scenario.

use std::path::PathBuf;
use std::time::Duration;

use steady_scenario::Scenario;

use crate::until::Until;

/// Wall seconds per second of the scenario's limit, beyond a fixed part: emulation is slow.
const WALL_PER_LIMIT: u32 = 4;
const WALL_FIXED: Duration = Duration::from_secs(90);

/// How a scenario is raced.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Names of the variants; all if empty.
    pub variants: Vec<String>,
    /// Whether each run keeps a trace.
    pub trace: bool,
    /// Folder for the results.
    pub out: PathBuf,
    /// Bound on one run by the wall clock; `None`: by the scenario's limit.
    pub wall_limit: Option<Duration>,
    /// Which kernel the engine must boot where a variant asks for the patched one, in the
    /// engine's own words; `None`: the one that races measure.
    pub kernel: Option<String>,
    /// When the race has said enough, beyond the scenario's repetitions; `None`: after those.
    pub until: Option<Until>,
    /// Repeats the race, for the report.
    pub command: String,
    /// Name, version and commit of the program, for the report; empty: `steady` and its version.
    pub tool: String,
    /// Start of the race, UTC, for the report.
    pub started: String,
}

impl Options {
    /// The bound on one run of `scenario` by the wall clock.
    #[must_use]
    pub fn wall_limit(&self, scenario: &Scenario) -> Duration {
        let limit_s = Duration::from_secs(scenario.host.time_limit_s.into());
        self.wall_limit
            .unwrap_or(WALL_FIXED + limit_s * WALL_PER_LIMIT)
    }
}
