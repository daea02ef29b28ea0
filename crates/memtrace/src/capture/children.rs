// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Processes that the program made. They are not recorded, so they are named: the plugin's
//! `children.c` writes a line into a file when one begins and when one becomes another program.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Processes of one kind that the program, or one of them, started and that are not in the trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Children {
    /// The path that they executed last; `None` for copies of the program that ran on as such, and
    /// where the name could not be found.
    pub program: Option<String>,
    /// How many.
    pub count: u64,
}

/// Reads what was written beside the socket: nothing if no process was made.
pub(super) fn read(socket: &Path) -> Vec<Children> {
    let mut path = socket.as_os_str().to_owned();
    path.push(".children");
    // Without the file there were none; a line that is cut short by a kill is passed over.
    let bytes = std::fs::read(path).unwrap_or_default();
    parse(&String::from_utf8_lossy(&bytes))
}

fn parse(text: &str) -> Vec<Children> {
    let mut forked = BTreeSet::new();
    let mut became = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.splitn(3, ' ');
        let (kind, pid) = (words.next(), words.next().and_then(|pid| pid.parse().ok()));
        match (kind, pid, words.next()) {
            (Some("fork"), Some(pid), None) => {
                let _: bool = forked.insert(pid);
            }
            // Of several names in search of a program the last is the one that was found.
            (Some("exec"), Some(pid), Some(name)) => {
                let _: Option<&str> = became.insert(pid, name);
            }
            _ => {}
        }
    }
    let mut counts: BTreeMap<Option<&str>, u64> = BTreeMap::new();
    for pid in forked {
        let pid: u32 = pid;
        *counts.entry(became.get(&pid).copied()).or_default() += 1;
    }
    let children = |(program, count): (Option<&str>, u64)| Children {
        program: program.filter(|name| !name.is_empty()).map(str::to_owned),
        count,
    };
    counts.into_iter().map(children).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(program: Option<&str>, count: u64) -> Children {
        Children {
            program: program.map(str::to_owned),
            count,
        }
    }

    #[test]
    fn children_are_counted_by_the_program_that_they_became_last() {
        let text = "fork 7\nexec 8 /usr/local/bin/a b\nexec 8 /bin/a b\nfork 8\nfork 9\n\
                    exec 9 /bin/a b\nexec 3 /bin/self\nfork x\nfork 1 2\nexec 10\nfo";
        let expected = vec![named(None, 1), named(Some("/bin/a b"), 2)];
        assert_eq!(parse(text), expected);
        assert_eq!(parse(""), Vec::new());
    }
}
