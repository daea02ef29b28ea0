// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel shows of a BPF scheduler in `/sys/kernel/sched_ext`, and what that proves.

use std::path::Path;

use super::FOLDER;
use crate::system;

/// What the kernel shows of its BPF scheduler; empty where a file is not there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) state: String,
    /// The name that the scheduler gives itself.
    pub(super) ops: String,
    /// Grows with each scheduler that is enabled.
    enable_seq: String,
    /// Tasks that asked for a BPF scheduler and were not taken.
    nr_rejected: String,
    /// Whether it schedules all tasks, not only those of `SCHED_EXT`.
    switch_all: String,
}

impl Seen {
    pub(super) fn of(folder: &Path) -> Self {
        let read = |name: &str| system::read_trimmed(folder.join(name));
        Self {
            state: read("state"),
            ops: read("root/ops"),
            enable_seq: read("enable_seq"),
            nr_rejected: read("nr_rejected"),
            switch_all: read("switch_all"),
        }
    }

    /// The first file that is not as in `other`: its name, what it has here and there.
    pub(super) fn first_change<'a>(
        &'a self,
        other: &'a Self,
    ) -> Option<(&'static str, &'a str, &'a str)> {
        let pairs = [
            ("state", &self.state, &other.state),
            ("root/ops", &self.ops, &other.ops),
            ("enable_seq", &self.enable_seq, &other.enable_seq),
            ("nr_rejected", &self.nr_rejected, &other.nr_rejected),
            ("switch_all", &self.switch_all, &other.switch_all),
        ];
        let changed = pairs.into_iter().find(|(_, here, there)| here != there);
        changed.map(|(name, here, there)| (name, here.as_str(), there.as_str()))
    }

    /// Whether one was enabled since `before`, which has ended: it may let bpftool itself wait.
    pub(super) fn was_enabled_and_is_not(&self, before: &Self) -> bool {
        self.state != "enabled" && self.enable_seq != before.enable_seq
    }

    /// What shows that the scheduler of `object` has not been enabled since `before`, in words.
    pub(super) fn lacks(&self, before: &Self, object: &[u8]) -> Option<String> {
        let is = |name: &str, expected: &str, found: &str| {
            Some(format!("{FOLDER}/{name} is `{found}`, expected {expected}"))
        };
        let named = || {
            let name = [self.ops.as_bytes(), b"\0"].concat();
            object.windows(name.len()).any(|part| part == name)
        };
        if self.state != "enabled" {
            return is("state", "`enabled`", &self.state);
        }
        if self.enable_seq == before.enable_seq {
            return is("enable_seq", "another than before", &self.enable_seq);
        }
        if self.ops.is_empty() || !named() {
            return is("root/ops", "the name that the object has", &self.ops);
        }
        if self.switch_all != "1" {
            return is("switch_all", "`1`, for all tasks", &self.switch_all);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: &[u8] = b"\x7fELF fifo\0\0";

    fn enabled() -> Seen {
        Seen {
            state: "enabled".to_owned(),
            ops: "fifo".to_owned(),
            enable_seq: "1".to_owned(),
            nr_rejected: "0".to_owned(),
            switch_all: "1".to_owned(),
        }
    }

    fn disabled() -> Seen {
        Seen {
            state: "disabled".to_owned(),
            ops: String::new(),
            enable_seq: "0".to_owned(),
            ..enabled()
        }
    }

    #[test]
    fn a_load_is_proved_by_each_thing_that_the_kernel_shows() {
        let lacks = |change: &dyn Fn(&mut Seen)| {
            let mut seen = enabled();
            change(&mut seen);
            seen.lacks(&disabled(), OBJECT)
        };
        assert_eq!(lacks(&|_| {}), None);
        let said = lacks(&|seen| *seen = disabled()).unwrap();
        assert!(said.contains("state is `disabled`, expected `enabled`"));
        for (name, said) in [
            ("enable_seq", lacks(&|seen| seen.enable_seq = "0".into())),
            ("root/ops", lacks(&|seen| seen.ops = "other".into())),
            ("root/ops", lacks(&|seen| seen.ops = "fif".into())),
            ("root/ops", lacks(&|seen| seen.ops.clear())),
            ("switch_all", lacks(&|seen| seen.switch_all = "0".into())),
        ] {
            assert!(said.is_some_and(|said| said.contains(name)), "{name}");
        }
    }

    #[test]
    fn one_that_has_ended_by_the_first_look_was_enabled() {
        let was = |seen: &Seen| seen.was_enabled_and_is_not(&disabled());
        let enable_seq = "1".to_owned();
        assert!(was(&Seen {
            enable_seq,
            ..disabled()
        }));
        assert!(!was(&disabled()), "it was not loaded");
        assert!(!was(&enabled()), "it schedules");
    }

    #[test]
    fn each_change_of_what_was_loaded_is_seen() {
        assert_eq!(enabled().first_change(&enabled()), None);
        type Change = fn(&mut Seen);
        let changes: [(&str, Change); 4] = [
            ("state", |seen| seen.state = "disabling".into()),
            ("root/ops", |seen| seen.ops = "other".into()),
            ("enable_seq", |seen| seen.enable_seq = "2".into()),
            ("nr_rejected", |seen| seen.nr_rejected = "1".into()),
        ];
        for (name, change) in changes {
            let mut now = enabled();
            change(&mut now);
            let found = now.first_change(&enabled()).map(|(name, ..)| name);
            assert_eq!(found, Some(name));
        }
    }
}
