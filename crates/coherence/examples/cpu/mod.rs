// SPDX-License-Identifier: Apache-2.0 OR MIT
//! CPU time of this program and of those it has waited for, so that other work on the machine does
//! not count as ours.

use anyhow::{Context, Result};
use std::fs::read_to_string;
use std::time::Duration;

/// A clock tick of `/proc`: Linux's `USER_HZ` is 100 on x86-64.
const TICK: Duration = Duration::from_millis(10);

/// CPU time of this thread so far.
pub fn own() -> Result<Duration> {
    let text = read_to_string("/proc/thread-self/schedstat")?;
    let spent = text.split(' ').next().context("schedstat has no time")?;
    Ok(Duration::from_nanos(spent.parse()?))
}

/// CPU time of every child waited for so far, in whole ticks.
pub fn children() -> Result<Duration> {
    let text = read_to_string("/proc/self/stat")?;
    // The name may hold spaces; after its parenthesis come state, and then fields 4 and on.
    let (_, fields) = text.rsplit_once(") ").context("stat has no name")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let ticks =
        |at: usize| -> Result<u32> { Ok(fields.get(at - 3).context("stat is short")?.parse()?) };
    Ok(TICK * (ticks(16)? + ticks(17)?))
}

/// What `clock` says that `work` took.
pub fn spent(
    clock: fn() -> Result<Duration>,
    work: impl FnOnce() -> Result<()>,
) -> Result<Duration> {
    let begun = clock()?;
    work()?;
    Ok(clock()?.saturating_sub(begun))
}
