// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Progress on a terminal: a bar with its remaining time for each work, and one line that says
//! what happens. Off a terminal only the lines are printed.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Instant;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use steady_race::Watcher;

/// Shows progress on standard error.
#[derive(Debug)]
pub struct Show {
    terminal: bool,
    bars: MultiProgress,
    works: Mutex<BTreeMap<String, ProgressBar>>,
    begun: Instant,
}

impl Show {
    /// For this process's standard error.
    pub fn new() -> Self {
        Self {
            terminal: std::io::stderr().is_terminal(),
            bars: MultiProgress::new(),
            works: Mutex::new(BTreeMap::new()),
            begun: Instant::now(),
        }
    }
}

impl Watcher for Show {
    fn progress(&self, what: &str, done: u64, total: u64) {
        if !self.terminal {
            return;
        }
        let mut works = self.works.lock().expect("no thread panics with the bars");
        let bar = works.entry(what.to_owned()).or_insert_with(|| {
            let style = ProgressStyle::with_template(
                "{msg:24} {bar:30} {percent:>3} %  {elapsed} of about {duration}, {eta} left",
            );
            let bar = self
                .bars
                .add(ProgressBar::new(total).with_message(what.to_owned()));
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        bar.set_length(total);
        bar.set_position(done);
    }

    fn done(&self, what: &str) {
        if let Some(bar) = self
            .works
            .lock()
            .expect("no thread panics with the bars")
            .remove(what)
        {
            bar.finish_and_clear();
        }
    }

    fn say(&self, text: &str) {
        let line = format!("[{:6.1} s] {text}", self.begun.elapsed().as_secs_f32());
        if self.terminal {
            // Without a drawn bar, indicatif would swallow the line.
            self.bars.suspend(|| eprintln!("{line}"));
        } else {
            eprintln!("{line}");
        }
    }
}
