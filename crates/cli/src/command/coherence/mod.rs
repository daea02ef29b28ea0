// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady coherence`: simulations of TLB coherence, and the traces that they run on.

mod gains;
mod host;
mod matched;
mod rates;
mod simulate;
mod source;
mod sweep;
mod trace;
mod traced;
mod walked;

use std::io::Write;
use std::process::ExitCode;

use crate::arguments::coherence::{Coherence, Machine};

pub use simulate::or_usual;

/// Does what was asked.
pub fn coherence(arguments: &Coherence) -> anyhow::Result<ExitCode> {
    match arguments {
        Coherence::Run(run) => simulate::run(run),
        Coherence::Compare(compare) => simulate::compare(compare),
        Coherence::Sweep(sweep) => sweep::sweep(sweep),
        Coherence::Capture(capture) => match &capture.host {
            Some(scenario) => host::capture(capture, scenario),
            None => trace::capture(capture),
        },
        Coherence::Rates(asked) => rates::rates(asked),
        Coherence::Convert(convert) => trace::convert(convert),
        Coherence::Machine(shown) => machine(shown),
        Coherence::Check(check) => trace::check(check),
    }
}

/// Prints a machine with every key.
fn machine(arguments: &Machine) -> anyhow::Result<ExitCode> {
    let machine = source::machine(&arguments.machine)?;
    let mut out = std::io::stdout().lock();
    if arguments.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&machine)?)?;
    } else {
        out.write_all(machine.to_toml().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}
