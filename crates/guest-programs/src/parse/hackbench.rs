// SPDX-License-Identifier: Apache-2.0 OR MIT
//! hackbench of rt-tests: `hackbench.time`, from when all tasks are ready to when all messages are
//! received (ns; printed to the millisecond).

use steady_measures::Unit;

use super::{Draft, S_TO_NS};
use crate::error::ParseError;
use crate::output::Output;

pub(super) fn parse(draft: &mut Draft, output: &Output<'_>) -> Result<(), ParseError> {
    let (line, seconds) = draft.line(output, "Time: 0.123", |line| line.strip_prefix("Time:"))?;
    let time_ns = draft.number(line, seconds.trim(), S_TO_NS)?;
    draft.lower("hackbench.time", Unit::Ns, time_ns)
}
