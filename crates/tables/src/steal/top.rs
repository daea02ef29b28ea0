// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The head of `top`, on the screen or by `-b`: `%Cpu(s): 1.0 us, … 0.3 st`, a line for each CPU
//! behind `1`, two of them in a line in newer versions, and `Cpu(s): 1.0%us, …` in older ones, with
//! labels that may be translated. A list of processes with a VMM's says that it is a host's.

use super::{Both, Sample};
use crate::kind::Kind;
use crate::number::percent;
use crate::table::{Line, Reader, Table};

/// Reads the screens.
#[derive(Debug, Default)]
pub(crate) struct Top {
    rows: u64,
    host: bool,
    samples: Both,
    /// A line that mail broke before its last cell.
    broken: String,
}

/// The share with this label in a line such as `5.0 us, 3.0%sy,0.0st`.
fn share(text: &str, label: &str) -> Option<u64> {
    text.split([',', '|']).find_map(|cell| {
        let number = cell.trim().strip_suffix(label)?;
        percent(number.trim().trim_end_matches('%').trim_end())
    })
}

/// The shares in their order, whatever a translation calls them; in all languages the last is `st`.
const CELLS: [&str; 8] = ["us", "sy", "ni", "id", "wa", "hi", "si", "st"];

/// The share with this label, or in its place in a line whose labels are translated.
fn cell(text: &str, label: &str) -> Option<u64> {
    let translated = || {
        let at = CELLS.iter().position(|known| *known == label)?;
        let whole = text.matches(',').count() + 1 == CELLS.len();
        let cell = text.split(',').nth(at).filter(|_| whole)?;
        percent(cell.split_whitespace().next()?)
    };
    share(text, label).or_else(translated)
}

/// Decimal commas would part the cells: `5,0 us,  3,0 sy`.
fn with_points(text: &str) -> String {
    let letters: Vec<char> = text.chars().collect();
    let digit = |at: usize| letters.get(at).is_some_and(char::is_ascii_digit);
    let point = |at: usize| letters[at] == ',' && at > 0 && digit(at - 1) && digit(at + 1);
    (0..letters.len())
        .map(|at| if point(at) { '.' } else { letters[at] })
        .collect()
}

impl Top {
    /// Takes the line or lines of the CPUs.
    fn cpus(&mut self, rest: &str) {
        // Two CPUs of one line begin alike.
        let (number, _) = rest.split_once(':').unwrap_or(("", ""));
        for part in with_points(rest).split("%Cpu") {
            let Some((name, shares)) = part.split_once(':') else {
                continue;
            };
            let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b.unwrap_or(0));
            let sample = Sample {
                steal: cell(shares, "st"),
                idle: cell(shares, "id"),
                iowait: cell(shares, "wa"),
                interrupts: sum(cell(shares, "si"), cell(shares, "hi")),
                guest: None,
                ready: None,
            };
            if sample.idle.is_none() {
                continue;
            }
            self.rows += 1;
            let single = (!number.starts_with("(s)")).then(|| name.trim());
            self.samples.add(single, sample);
        }
    }
}

impl Reader for Top {
    fn line(&mut self, line: &Line<'_>) {
        // A German one has `%CPU(s):`.
        let text = &line.text.trim().replacen("CPU", "Cpu", 1);
        let broken = std::mem::take(&mut self.broken);
        if !broken.is_empty() && !text.trim_start_matches('%').starts_with("Cpu") {
            return self.cpus(&format!("{broken} {text}"));
        }
        let vmm = [
            "qemu-system",
            "qemu-kvm",
            "/KVM",
            "cloud-hyperviso",
            "firecracker",
        ];
        let runs_guests = vmm.iter().any(|name| text.contains(name));
        self.host |= self.rows > 0 && runs_guests;
        let Some(rest) = text
            .strip_prefix('%')
            .or(Some(text))
            .and_then(|t| t.strip_prefix("Cpu"))
        else {
            return;
        };
        // A whole line ends with the label of its last cell.
        let ends_whole = rest.ends_with(|end: char| end.is_ascii_alphabetic());
        match ends_whole || !rest.contains(':') {
            true => self.cpus(rest),
            false => self.broken = rest.to_owned(),
        }
    }

    fn finish(self: Box<Self>) -> Option<Table> {
        let samples = self.samples.chosen();
        samples.table(Kind::Top, self.rows, self.host)
    }
}
