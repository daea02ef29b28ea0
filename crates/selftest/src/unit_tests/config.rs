// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads `x86/unittests.cfg` of kvm-unit-tests: which program a test is and how QEMU starts it.
//!
//! Its form is that of `docs/unittests.rst` there: `[name]`, then `key = value`; values that go on
//! the command line are words of a shell. Left out: values over several lines (`"""`), which x86
//! does not use and which are refused.

use thiserror::Error;

/// Seconds of a test that says nothing of time (`scripts/runtime.bash` there).
const LIMIT_S: u32 = 90;

/// One test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnitTest {
    /// Its name.
    pub name: String,
    /// Its program, below the build's `x86/`.
    pub file: String,
    /// vCPUs.
    pub smp: u32,
    /// Words for the test, as a shell reads them; none if empty.
    pub args: String,
    /// Words for QEMU, as a shell reads them.
    pub params: String,
    /// Longest time, in seconds.
    pub limit_s: u32,
    /// `PATH=VALUE`: files of the host that must say so, else the test is skipped.
    pub checks: Vec<String>,
    /// Why it does not run here at all; `None` if it does.
    pub left_out: Option<String>,
}

/// What is wrong with the file.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("line {line}: {what}")]
pub struct ConfigError {
    line: usize,
    what: String,
}

/// The tests of the file, in its order.
///
/// # Errors
/// [`ConfigError`] with the line that is neither a name nor a key of a test.
pub fn parse(text: &str) -> Result<Vec<UnitTest>, ConfigError> {
    let mut tests: Vec<UnitTest> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let error = |what: String| ConfigError { line: at + 1, what };
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(name) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            if name.is_empty() || !name.bytes().all(plain) {
                return Err(error(format!("`{name}` is not a name of a test")));
            }
            tests.push(empty(name));
            continue;
        }
        let test = tests
            .last_mut()
            .ok_or_else(|| error("expected `[name]` before the first key".to_owned()))?;
        let (key, value) = line
            .split_once('=')
            .ok_or_else(|| error(format!("expected `key = value`, found `{line}`")))?;
        set(test, key.trim(), value.trim()).map_err(error)?;
    }
    Ok(tests)
}

fn empty(name: &str) -> UnitTest {
    UnitTest {
        name: name.to_owned(),
        file: String::new(),
        smp: 1,
        args: String::new(),
        params: String::new(),
        limit_s: LIMIT_S,
        checks: Vec::new(),
        left_out: None,
    }
}

fn set(test: &mut UnitTest, key: &str, value: &str) -> Result<(), String> {
    if value.starts_with("\"\"\"") {
        return Err(format!("{key} over several lines is not read"));
    }
    let number = || {
        value
            .parse()
            .map_err(|_| format!("{key}: `{value}` is not a number"))
    };
    match key {
        "file" if value.contains(['/', '\'', ' ']) || value.is_empty() => {
            return Err(format!("file: `{value}` is not a name of a program"));
        }
        "file" => value.clone_into(&mut test.file),
        "smp" => test.smp = number()?,
        "timeout" => test.limit_s = number()?,
        "test_args" => value.clone_into(&mut test.args),
        // Before 2025 the key was `extra_params`.
        "qemu_params" | "extra_params" => value.clone_into(&mut test.params),
        "check" => test.checks = value.split_whitespace().map(str::to_owned).collect(),
        "arch" if value != "x86_64" => test.left_out = Some(format!("{value} only")),
        "accel" if value != "kvm" => test.left_out = Some(format!("{value} only")),
        "groups" if value.split_whitespace().any(|group| group == "nodefault") => {
            test.left_out = Some("run by hand only, says its group".to_owned());
        }
        "disabled_if" => test.left_out = Some(format!("disabled if {value}")),
        "arch" | "accel" | "groups" | "machine" => {}
        _ => return Err(format!("unknown key `{key}`")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_has_what_its_lines_say_and_defaults() {
        let text = "# c\n[a]\nfile = x.flat\n\n[b_2]\nfile=y.flat\nsmp = 2\ntimeout = 5\n\
                    test_args = 'p q'\nqemu_params = -cpu max,+vmx\ncheck = /p=Y /q=N\n";
        let tests = parse(text).unwrap();
        assert_eq!(
            tests[0],
            UnitTest {
                file: "x.flat".into(),
                ..empty("a")
            }
        );
        assert_eq!((tests[1].smp, tests[1].limit_s), (2, 5));
        assert_eq!(tests[1].args, "'p q'");
        assert_eq!(tests[1].params, "-cpu max,+vmx");
        assert_eq!(tests[1].checks, ["/p=Y", "/q=N"]);
    }

    #[test]
    fn what_does_not_run_here_is_left_out_with_the_reason() {
        let text = "[a]\nfile = a.flat\narch = i386\n[b]\nfile = b.flat\ngroups = vmx nodefault\n\
                    [c]\nfile = c.flat\narch = x86_64\naccel = kvm\n";
        let reasons: Vec<_> = parse(text)
            .unwrap()
            .into_iter()
            .map(|test| test.left_out)
            .collect();
        assert_eq!(reasons[0].as_deref(), Some("i386 only"));
        assert!(reasons[1].is_some());
        assert_eq!(reasons[2], None);
    }

    #[test]
    fn a_line_that_is_not_understood_is_named() {
        for (text, line) in [
            ("file = a.flat\n", 1),
            ("[a]\nnonsense\n", 2),
            ("[a]\nsmp = many\n", 2),
            ("[a]\n\ncolour = red\n", 3),
            ("[a]\nfile = ../x\n", 2),
            ("[a b]\n", 1),
        ] {
            assert_eq!(parse(text).unwrap_err().line, line, "{text}");
        }
    }
}
