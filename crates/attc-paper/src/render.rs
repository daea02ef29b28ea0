// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The reproduction as text: the numbers beside their closed forms, then every figure.

use std::fmt::Write as _;

use crate::measured::{percent, with_interval};
use crate::reproduction::{Figure, Reproduction};
use crate::shares::updates;

/// What the tables are of whose runs differ from the paper's.
const ASIDE: &str = "
The inputs of the tables `Published` are others' numbers, written down before the runs. The values
in the tables `Sensitivity` were chosen knowing the results: they predict nothing.
";

/// What the numbers are.
const HEAD: &str = "\
+- is half the 95 % interval of the mean over seeds. `closed form` is what event counts and
Table 2 give by arithmetic; what simulation adds is the difference.

";

impl Reproduction {
    /// The tables as text.
    #[must_use]
    pub fn render(&self) -> String {
        let s = &self.settings;
        let mut text = format!(
            "What the simulator gives. Seeds {} to {}, runs of {} accesses and more ({} before \
             counting), rate {}.\n{HEAD}",
            s.seed,
            s.seed + u64::from(s.seeds.max(1)) - 1,
            s.accesses,
            s.warmup,
            s.rate
        );
        if let Some((workload, fewest)) = self.fewest_shootdowns() {
            let _ = writeln!(
                text,
                "Fewest shootdowns of a workload in all seeds, under kvmtlb: {fewest}, of \
                 {workload}.\n"
            );
        }
        let _ = writeln!(
            text,
            "{:<28}{:>16}{:>14}",
            "number", "measured", "closed form"
        );
        for number in &self.numbers {
            let measured = with_interval(number.measured);
            let closed = number.closed_bp.map_or_else(String::new, percent);
            let line = format!("{:<28}{measured:>16}{closed:>14}", number.measure);
            let _ = writeln!(text, "{}", line.trim_end());
        }
        if self.figures.iter().any(|one| one.name == "Published") {
            text.push_str(ASIDE);
        }
        for figure in &self.figures {
            render_figure(&mut text, figure);
        }
        text
    }
}

impl Reproduction {
    /// The workload with the fewest shootdowns under kvmtlb in all seeds, and how many.
    fn fewest_shootdowns(&self) -> Option<(&'static str, u64)> {
        let seeds = self.settings.seeds.max(1) as usize;
        let seeds = &self.results[..seeds.min(self.results.len())];
        let counted = |at: usize| {
            let each = seeds.iter().map(|all| updates(&all[at], "kvmtlb"));
            (seeds[0][at].workload, each.sum::<u64>())
        };
        let workloads = 0..seeds.first()?.len();
        workloads.map(counted).min_by_key(|&(_, counted)| counted)
    }
}

fn render_figure(text: &mut String, figure: &Figure) {
    let _ = writeln!(text, "\n{}: {}", figure.name, figure.what);
    let _ = write!(text, "{:<17}", "workload");
    for column in &figure.columns {
        let _ = write!(text, "{column:>23}");
    }
    text.push('\n');
    for (workload, values) in &figure.lines {
        let _ = write!(text, "{workload:<17}");
        for (column, value) in figure.columns.iter().zip(values) {
            let shown = if column.starts_with("per") {
                value.bp.to_string()
            } else {
                with_interval(*value)
            };
            let _ = write!(text, "{shown:>23}");
        }
        text.push('\n');
    }
}
