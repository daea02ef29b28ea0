// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The command line of `steady diagnose`.

use std::path::PathBuf;

use clap::Args;

/// `steady diagnose`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  steady diagnose steady-incident.zip
  steady diagnose trace.dat --symbols System.map
  steady diagnose perf.data --html page.html --perfetto trace.pftrace
  steady diagnose --before mon.dat tue.dat wed.dat thu.dat --after fri.dat sat.dat sun.dat new.dat
  steady diagnose guest-dmesg.txt virsh-domstats.txt cpu.stat
  steady diagnose host.dat guest.dat --json | jq '.findings[0]'
  perf record -e 'kvm:*' -e 'sched:*' -a -o - sleep 10 | steady diagnose -")]
pub struct Diagnose {
    /// Files of `steady record`; traces of trace-cmd, perf, ftrace or Perfetto, packed or not; or
    /// tables and logs of one incident (docs/formats/traces.md has the list). `-` is standard
    /// input.
    /// Two traces of hosts are also compared: the first is before, the second after.
    #[arg(required_unless_present = "before", value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Traces from before a change, to be compared with those of --after.
    #[arg(long, value_name = "TRACE", num_args = 1.., requires = "after")]
    #[arg(conflicts_with = "traces")]
    pub before: Vec<PathBuf>,
    /// Traces from after it; four and more of each distinguish a difference from chance.
    #[arg(long, value_name = "TRACE", num_args = 1.., requires = "before")]
    pub after: Vec<PathBuf>,
    /// The guests' kernel: a System.map, a copy of /proc/kallsyms, or a vmlinux.
    #[arg(long, value_name = "FILE")]
    pub symbols: Option<PathBuf>,
    /// Only these VMs of the output (vm1, vm2, …).
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub vm: Vec<String>,
    /// Only VMs with these vCPUs.
    #[arg(long, value_name = "NUMBER", value_delimiter = ',')]
    pub vcpu: Vec<u32>,
    /// Only this part of each trace, in seconds after its begin: `2.5-4`, `-4`, `2.5-`.
    #[arg(long, value_name = "FROM-TO", value_parser = time_slice, allow_hyphen_values = true)]
    pub time: Option<(Option<u64>, Option<u64>)>,
    /// Only while this workload ran, of traces of `steady run --trace`: `hackbench`, or with its VM
    /// `first.hackbench`, where more than one VM ran it.
    #[arg(long, value_name = "NAME", conflicts_with = "time")]
    pub workload: Option<String>,
    /// Ticks in a second of the guests' kernels (their CONFIG_HZ).
    #[arg(long, value_name = "HZ", default_value_t = 250)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub guest_hz: u64,
    /// Print all findings with their numbers, and the tables.
    #[arg(long, short)]
    pub verbose: bool,
    /// Print JSON (docs/formats/diagnosis.md) instead of text.
    #[arg(long)]
    pub json: bool,
    /// Also write a page that needs nothing beside it.
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Also write the events of the first trace for ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Also write the tables as CSV files.
    #[arg(long, value_name = "FOLDER")]
    pub csv: Option<PathBuf>,
}

/// From and to, in nanoseconds; either may be left out.
fn time_slice(text: &str) -> Result<(Option<u64>, Option<u64>), String> {
    let expected =
        || format!("`{text}` is not a span of time; expected FROM-TO in seconds, as `2.5-4`");
    let (from, to) = text.split_once('-').ok_or_else(expected)?;
    let side = |side: &str| match side {
        "" => Some(None),
        side => nanoseconds(side).map(Some),
    };
    let (from, to) = side(from).zip(side(to)).ok_or_else(expected)?;
    if from.zip(to).is_some_and(|(from, to)| from > to) {
        return Err(format!("`{text}` ends before it begins"));
    }
    Ok((from, to))
}

fn nanoseconds(text: &str) -> Option<u64> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    if part.len() > 9 || !part.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part: u64 = format!("{part:0<9}").parse().ok()?;
    whole
        .parse::<u64>()
        .ok()?
        .checked_mul(1_000_000_000)?
        .checked_add(part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_may_lack_either_side() {
        assert_eq!(
            time_slice("2.5-4"),
            Ok((Some(2_500_000_000), Some(4_000_000_000)))
        );
        assert_eq!(time_slice("-4"), Ok((None, Some(4_000_000_000))));
        assert_eq!(time_slice("0.000000001-"), Ok((Some(1), None)));
    }

    #[test]
    fn a_slice_that_ends_before_it_begins_is_refused() {
        assert!(time_slice("4-2").is_err());
        assert!(time_slice("four").is_err());
        assert!(time_slice("1.2.3-").is_err());
    }
}
