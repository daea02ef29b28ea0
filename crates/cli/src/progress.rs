// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress of long works: on a terminal a bar with its remaining time for each of them, elsewhere
//! a line now and then. Both also print the lines that say what happens.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use steady_race::Watcher;

/// Off a terminal, the least time between two lines of progress: a log stays short, and a person
/// who follows it sees that the work goes on.
const BETWEEN_LINES: Duration = Duration::from_secs(30);

/// Prints a line on standard error, and drops it where that is gone or full.
pub fn talk(line: &str) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Shows progress on standard error.
#[derive(Debug)]
pub struct Show {
    terminal: bool,
    verbose: bool,
    bars: MultiProgress,
    works: Mutex<BTreeMap<String, ProgressBar>>,
    lines: Mutex<Lines>,
    begun: Instant,
}

impl Show {
    /// For this process's standard error.
    pub fn new() -> Self {
        Self::verbose(false)
    }

    /// The same, with each step if `verbose`.
    pub fn verbose(verbose: bool) -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            verbose,
            bars: MultiProgress::new(),
            works: Mutex::new(BTreeMap::new()),
            lines: Mutex::new(Lines::default()),
            begun: Instant::now(),
        }
    }

    fn draw(&self, what: &str, done: u64, total: u64) {
        let mut works = self.works.lock().expect("no thread panics with the bars");
        let bar = works.entry(what.to_owned()).or_insert_with(|| {
            let bar = self
                .bars
                .add(ProgressBar::new(total).with_message(what.to_owned()));
            bar.set_style(style(BEGUN));
            bar
        });
        bar.set_length(total);
        if bar.position() == 0 && done > 0 {
            bar.set_style(style(UNDER_WAY));
        }
        bar.set_position(done);
    }
}

/// A bar before its first step, from which nothing can be estimated, and after it.
const BEGUN: &str = "{msg:24} {bar:30}  begun, {elapsed}";
const UNDER_WAY: &str =
    "{msg:24} {bar:30} {percent:>3} %  {elapsed} of about {duration}, {eta} left";

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

impl Watcher for Show {
    fn detail(&self, text: &str) {
        if self.verbose {
            self.say(text);
        }
    }

    fn progress(&self, what: &str, done: u64, total: u64) {
        if self.terminal {
            return self.draw(what, done, total);
        }
        let line = self
            .lines
            .lock()
            .expect("no thread panics with the lines")
            .progress(self.begun.elapsed(), what, done, total);
        if let Some(line) = line {
            self.say(&line);
        }
    }

    fn done(&self, what: &str) {
        let bar = self
            .works
            .lock()
            .expect("no thread panics with the bars")
            .remove(what);
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
        self.lines
            .lock()
            .expect("no thread panics with the lines")
            .works
            .remove(what);
    }

    fn say(&self, text: &str) {
        let line = format!("[{:6.1} s] {text}", self.begun.elapsed().as_secs_f32());
        if self.terminal {
            // Without a drawn bar, indicatif would swallow the line.
            self.bars.suspend(|| talk(&line));
        } else {
            talk(&line);
        }
    }
}

/// What is printed where bars cannot be drawn.
#[derive(Debug, Default)]
struct Lines {
    /// When each work was first heard of, and how far it is.
    works: BTreeMap<String, Work>,
    /// When a line was last due: a work that ends within the first interval prints none.
    last: Duration,
}

#[derive(Debug)]
struct Work {
    begun: Duration,
    done: u64,
    total: u64,
}

impl Lines {
    /// The line to print at the time `now`, if one is due: every work that is under way.
    fn progress(&mut self, now: Duration, what: &str, done: u64, total: u64) -> Option<String> {
        if self.works.is_empty() {
            self.last = now;
        }
        let work = self.works.entry(what.to_owned()).or_insert(Work {
            begun: now,
            done: 0,
            total,
        });
        (work.done, work.total) = (done.min(total), total);
        if now.saturating_sub(self.last) < BETWEEN_LINES {
            return None;
        }
        self.last = now;
        let words: Vec<String> = self
            .works
            .iter()
            .map(|(name, work)| work.words(name, now))
            .collect();
        Some(words.join("; "))
    }
}

impl Work {
    fn words(&self, name: &str, now: Duration) -> String {
        if self.done == 0 || self.total == 0 {
            return format!("{name}: begun");
        }
        let (done, total) = (u128::from(self.done), u128::from(self.total));
        let spent = now.saturating_sub(self.begun).as_millis();
        let left = spent * (total - done) / done;
        format!(
            "{name}: {} %, about {} s left",
            done * 100 / total,
            left.div_ceil(1000)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_work_of_less_than_the_interval_prints_nothing() {
        let mut lines = Lines::default();
        for at in 100..130 {
            assert_eq!(lines.progress(seconds(at), "kernel", at - 100, 30), None);
        }
    }

    #[test]
    fn a_long_work_prints_one_line_an_interval() {
        let mut lines = Lines::default();
        let printed: Vec<String> = (0..=300)
            .filter_map(|at| lines.progress(seconds(at), "kernel", at, 600))
            .collect();
        assert_eq!(printed.len(), 10);
        assert_eq!(printed[0], "kernel: 5 %, about 570 s left");
        assert_eq!(printed[9], "kernel: 50 %, about 300 s left");
    }

    #[test]
    fn works_beside_each_other_share_a_line() {
        let mut lines = Lines::default();
        assert_eq!(lines.progress(seconds(0), "ipi", 0, 4), None);
        assert_eq!(lines.progress(seconds(10), "kvm-pv", 0, 4), None);
        let line = lines.progress(seconds(40), "ipi", 2, 4);
        let wanted = "ipi: 50 %, about 40 s left; kvm-pv: begun";
        assert_eq!(line.as_deref(), Some(wanted));
    }

    #[test]
    fn a_count_beyond_its_total_is_the_total() {
        let mut lines = Lines::default();
        assert_eq!(lines.progress(seconds(0), "x", 0, 10), None);
        let line = lines.progress(seconds(30), "x", 12, 10);
        assert_eq!(line.as_deref(), Some("x: 100 %, about 0 s left"));
    }
}
