// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can go wrong between a scenario's words and a report.

use crate::output::Exit;

/// Longest piece of a program's output that an error quotes, in characters.
const QUOTE_CHARACTERS: usize = 160;

/// No program of this name is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no guest program {name:?}; {}known are {}",
    nearest.map(|near| format!("did you mean {near:?}? ")).unwrap_or_default(), known.join(", "))]
pub struct UnknownProgram {
    /// The name asked for.
    pub name: String,
    /// The known name that was probably meant.
    pub nearest: Option<&'static str>,
    /// All known names.
    pub known: Vec<&'static str>,
}

/// An argument that is for this project rather than for the program makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{program}: argument {argument:?}; expected {expected}")]
pub struct ArgumentError {
    /// The program.
    pub program: &'static str,
    /// The argument as the scenario has it.
    pub argument: String,
    /// What was expected.
    pub expected: &'static str,
}

/// Why the output of a program is not a report.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// The program itself failed.
    #[error("{program} ended with {exit}; its last words: {last:?}")]
    Failed {
        /// The program.
        program: String,
        /// How it ended.
        exit: Exit,
        /// The last line that it printed.
        last: String,
    },
    /// A line that must be there is not.
    #[error("{program} printed no line like {expected:?}; its last words: {last:?}")]
    Missing {
        /// The program.
        program: String,
        /// An example of the line.
        expected: &'static str,
        /// The last line that it printed.
        last: String,
    },
    /// A line was found, but says something else than expected.
    #[error("{program} printed {line:?}; expected {expected}")]
    Unexpected {
        /// The program.
        program: String,
        /// The line, or its beginning.
        line: String,
        /// What was expected.
        expected: String,
    },
}

impl ParseError {
    /// An [`Self::Unexpected`] that quotes the beginning of `line`.
    pub(crate) fn unexpected(program: &str, line: &str, expected: impl Into<String>) -> Self {
        Self::Unexpected {
            program: program.to_owned(),
            line: quote(line),
            expected: expected.into(),
        }
    }
}

/// The beginning of a line, short enough for an error.
pub(crate) fn quote(line: &str) -> String {
    match line.char_indices().nth(QUOTE_CHARACTERS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
