// SPDX-License-Identifier: Apache-2.0 OR MIT
//! pbzip2 with `-v`: `pbzip2.time` (ns), `pbzip2.input` (bytes) and `pbzip2.bandwidth` (input bytes
//! per second).

use steady_measures::Unit;

use super::{Draft, S_TO_NS, ratio};
use crate::error::ParseError;
use crate::output::Output;

const NS_PER_S: u64 = 1_000_000_000;

pub(super) fn parse(draft: &mut Draft, output: &Output<'_>) -> Result<(), ParseError> {
    let (line, text) = draft.line(output, "Input Size: 524288 bytes", |line| {
        line.strip_prefix("Input Size:")?
            .trim()
            .strip_suffix(" bytes")
    })?;
    let input = draft.number(line, text, 0)?;
    let (line, text) = draft.line(output, "Wall Clock: 0.004686 seconds", |line| {
        line.strip_prefix("Wall Clock:")?
            .trim()
            .strip_suffix(" seconds")
    })?;
    let time_ns = draft.number(line, text, S_TO_NS)?;
    draft.neutral("pbzip2.input", Unit::Bytes, input)?;
    draft.lower("pbzip2.time", Unit::Ns, time_ns)?;
    match ratio(input, NS_PER_S, time_ns) {
        Some(bandwidth) => draft.higher("pbzip2.bandwidth", Unit::BytesPerSecond, bandwidth),
        None => Ok(()),
    }
}
