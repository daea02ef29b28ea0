// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of a text: broken at the terminal's width, in plain letters where it shows no others.

use std::fmt::Write;

use super::{Options, words};

/// Width that long sentences are broken at where no terminal has one.
const WIDTH: usize = 100;
/// The narrowest and the widest text that is written.
const WIDTHS: (usize, usize) = (50, 220);

/// A text that grows by broken lines.
#[derive(Debug)]
pub struct Page {
    pub text: String,
    width: usize,
}

impl Page {
    pub fn new(options: Options) -> Self {
        let width = options.width.unwrap_or(WIDTH);
        Self {
            text: String::new(),
            width: width.clamp(WIDTHS.0, WIDTHS.1),
        }
    }

    pub fn blank(&mut self) {
        self.text.push('\n');
    }

    pub fn put(&mut self, line: &str) {
        let _ = writeln!(self.text, "{}", line.replace(words::GLUE, " "));
    }

    /// Words broken at the width, later lines set in as far as the first.
    pub fn line(&mut self, lead: &str, text: &str) {
        assert!(self.width >= WIDTHS.0, "there is room behind each lead");
        let indent = " ".repeat(lead.chars().count().min(self.width / 4));
        let mut line = lead.to_owned();
        let mut fresh = true;
        for word in text.split(' ') {
            let fits = line.chars().count() + 1 + word.chars().count() <= self.width;
            if !fresh && !fits {
                self.put(&line);
                line.clone_from(&indent);
                fresh = true;
            }
            if !fresh {
                line.push(' ');
            }
            line.push_str(word);
            fresh = false;
        }
        self.put(&line);
    }
}

/// The same in ASCII.
pub fn plain(text: &str) -> String {
    let pairs = [
        ("→", "->"),
        ("µ", "u"),
        ("–", "-"),
        ("…", "..."),
        ("·", "/"),
        ("×", "x"),
    ];
    pairs
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_as_wide_as_the_terminal_between_50_and_220_columns() {
        let words = "a word and another ".repeat(40);
        for (asked, used) in [(20, 50), (50, 50), (72, 72), (220, 220), (400, 220)] {
            let options = Options {
                width: Some(asked),
                ..Options::default()
            };
            let mut page = Page::new(options);
            page.line("   who: ", words.trim_end());
            let widest = page.text.lines().map(|line| line.chars().count()).max();
            let widest = widest.unwrap_or(0);
            assert!(widest <= used && widest + 8 > used, "{asked}: {widest}");
            let back: Vec<&str> = page.text.split_whitespace().skip(1).collect();
            assert_eq!(back.join(" "), words.trim_end());
        }
    }

    #[test]
    fn a_plain_text_has_ascii_alone() {
        let said = plain("   → 5.9 µs – of vm1 · 2 × …");
        assert!(said.is_ascii(), "{said}");
        assert!(said.starts_with("   -> 5.9 us"), "{said}");
    }
}
