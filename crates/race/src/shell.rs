// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Command lines as a shell takes them, so that what is printed or recorded can be run again.

/// Words with blanks between them, each quoted where a POSIX shell would change it.
#[must_use]
pub fn for_shell(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    let line = words.join(" ");
    assert_eq!(words.is_empty(), line.is_empty(), "an empty word is quotes");
    line
}

/// A word, in quotes where a POSIX shell would change it.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:,=+%@".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_shell_gives_the_words_back() {
        let words = [
            "-o", "a b", "it's", "", "$HOME *", "a\nb", "\\", "--x=1,2", "µ",
        ];
        let words = words.map(str::to_owned);
        let script = format!("printf '%s\\0' {}", for_shell(&words));
        let said = Command::new("sh").args(["-c", &script]).output();
        let said = String::from_utf8(said.expect("sh runs").stdout).expect("UTF-8");
        assert_eq!(said, words.map(|word| word + "\0").concat());
    }
}
