// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What hears how far a long work has come. Races and builds only speak; how it is shown is the
//! caller's.

/// Hears of the progress of long works. Called from several threads.
pub trait Watcher: Sync {
    /// `done` of `total` steps of the work `what` are done; both count the same thing.
    fn progress(&self, what: &str, done: u64, total: u64);
    /// The work `what` has ended.
    fn done(&self, what: &str);
    /// Something that a person may want to know.
    fn say(&self, text: &str);
    /// Something that only a person who follows each step wants to know.
    fn detail(&self, _text: &str) {}
}

/// Shows nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Watcher for Silent {
    fn progress(&self, _what: &str, _done: u64, _total: u64) {}
    fn done(&self, _what: &str) {}
    fn say(&self, _text: &str) {}
}
