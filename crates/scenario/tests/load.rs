// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What can be wrong with a file before its text is read, and what is said of it.

mod common;

use std::fs;
use std::path::Path;

use steady_scenario::{LoadError, MAX_FILE_BYTES, Scenario};

use common::{BASE, edited};

/// The message for the file `name` of the given bytes, with the directory's path taken out.
fn message(name: &str, bytes: &[u8]) -> String {
    let directory = tempfile::tempdir().expect("a directory for the test");
    fs::write(directory.path().join(name), bytes).expect("the directory takes a file");
    message_of(directory.path(), name)
}

fn message_of(directory: &Path, name: &str) -> String {
    let error = Scenario::load(directory.join(name)).expect_err("the file should be refused");
    error
        .to_string()
        .replace(&format!("{}/", directory.display()), "")
}

#[test]
fn file_that_is_right_is_loaded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("base.toml");
    fs::write(&path, BASE).unwrap();
    let mut expected = Scenario::parse(BASE, "base.toml").unwrap();
    directory.path().clone_into(&mut expected.folder);
    assert_eq!(Scenario::load(path).unwrap(), expected);
}

#[test]
fn missing_file_names_the_nearest_scenario_beside_it() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("two-vms.toml"), BASE).unwrap();
    fs::write(directory.path().join("tow-vms.txt"), "").unwrap();
    let hint = "no such scenario file; did you mean two-vms.toml?";
    for name in ["tow-vms.toml", "two-vms", "two_vms.toml"] {
        assert_eq!(
            message_of(directory.path(), name),
            format!("{name}: {hint}")
        );
    }
    let message = message_of(directory.path(), "elsewhere.toml");
    assert_eq!(message, "elsewhere.toml: no such scenario file");
}

#[test]
fn missing_directory_is_a_missing_file() {
    let directory = tempfile::tempdir().unwrap();
    let message = message_of(directory.path(), "no/such.toml");
    assert_eq!(message, "no/such.toml: no such scenario file");
}

#[test]
fn directory_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::create_dir(directory.path().join("base.toml")).unwrap();
    let message = message_of(directory.path(), "base.toml");
    assert_eq!(
        message,
        "base.toml: is a directory; expected a scenario file"
    );
}

#[test]
fn device_is_refused_and_not_read() {
    let error = Scenario::load("/dev/zero").unwrap_err();
    let expected = "/dev/zero: is not a regular file; expected a scenario file";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn file_above_the_size_limit_is_refused() {
    let expected = "base.toml: larger than 1048576 bytes; expected a scenario file, which is a \
                    few hundred lines of TOML at most";
    assert_eq!(message("base.toml", &vec![b'#'; 10 << 20]), expected);
}

#[test]
fn file_of_just_the_size_limit_is_read() {
    let limit = usize::try_from(MAX_FILE_BYTES).unwrap();
    let mut text = format!("{BASE}\n#");
    text.push_str(&"x".repeat(limit - text.len()));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("base.toml");
    fs::write(&path, &text).unwrap();
    assert!(Scenario::load(&path).is_ok());
    fs::write(&path, text + "x").unwrap();
    assert!(matches!(
        Scenario::load(&path),
        Err(LoadError::TooLarge { .. })
    ));
}

#[test]
fn bytes_that_are_not_utf8_are_placed() {
    let text = "schema = 2\ntitle = \"größ".as_bytes();
    let expected = "base.toml:2:14: byte 26 is not UTF-8 text; save the file as UTF-8";
    assert_eq!(message("base.toml", &[text, b"\xff\""].concat()), expected);
}

#[test]
fn utf16_is_recognised() {
    let bytes: Vec<u8> = "\u{feff}schema = 2"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let expected = "base.toml:1:1: byte 0 is not UTF-8 text (the file looks like UTF-16); save \
                    the file as UTF-8";
    assert_eq!(message("base.toml", &bytes), expected);
}

#[test]
fn binary_file_is_one_syntax_error_a_line() {
    let message = message("base.toml", b"\x7fELF\x02\x01\x01\0\0\0");
    assert!(message.starts_with("error: TOML syntax: "), "{message}");
    assert!(message.ends_with("1 problem in base.toml"), "{message}");
    assert!(!message.contains(['\x7f', '\0']), "{message}");
}

#[test]
fn name_that_is_not_the_files_is_refused_beside_other_problems() {
    let text = edited(&[("pcpus = 2", "pcpus = 0")]);
    let expected = "\
error: `name` is \"base\", which is not the file's
 --> solo.toml:3:8
  |
3 | name = \"base\"
  |        ^^^^^^ expected \"solo\", the file's name without `.toml`

error: `pcpus` is 0, which is out of range
 --> solo.toml:8:9
  |
8 | pcpus = 0
  |         ^ expected an integer from 1 to 64

2 problems in solo.toml";
    assert_eq!(message("solo.toml", text.as_bytes()), expected);
}
