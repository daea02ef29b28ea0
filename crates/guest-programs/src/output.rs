// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a measured command leaves.

/// What ends a line.
const ENDS: [char; 2] = ['\n', '\r'];

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
    /// It was ended at its time limit.
    TimeLimit,
}

impl std::fmt::Display for Exit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "signal {signal}"),
            Self::TimeLimit => f.write_str("its time limit"),
        }
    }
}

/// What a measured command leaves.
#[derive(Debug, Clone, Copy)]
pub struct Output<'a> {
    /// Standard output.
    pub stdout: &'a str,
    /// Standard error, or its end.
    pub stderr: &'a str,
    /// From start to end of the command, by the guest's clock, in nanoseconds.
    pub wall_ns: u64,
    /// How it ended.
    pub exit: Exit,
}

impl<'a> Output<'a> {
    /// The lines of both streams, standard output first. A carriage return ends a line too: that is
    /// how progress is overwritten on a terminal. An end without either is left out, because a
    /// number in it may have lost digits.
    pub(crate) fn lines(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let whole = |text: &'a str| {
            let end = text.rfind(ENDS).unwrap_or(0);
            text[..end].split(ENDS)
        };
        whole(self.stdout)
            .chain(whole(self.stderr))
            .map(str::trim)
            .filter(|line| !line.is_empty())
    }

    /// The last words of the command, for an error: standard error if there was any.
    pub(crate) fn last_line(&self) -> &'a str {
        let last = |text: &'a str| {
            text.split(ENDS)
                .map(str::trim)
                .rfind(|line| !line.is_empty())
        };
        last(self.stderr)
            .or_else(|| last(self.stdout))
            .unwrap_or("(it printed nothing)")
    }
}
