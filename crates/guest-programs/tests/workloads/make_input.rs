// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The program that makes inputs: the same bytes, whole or not at all.

use super::*;

#[test]
fn make_input_writes_the_same_bytes_for_the_same_seed() {
    let directory = tempfile::tempdir().expect("a directory");
    let make = |file: &str, args: &[&str]| {
        let path = directory.path().join(file);
        let mut all = args.to_vec();
        all.extend(["--output", path.to_str().expect("UTF-8")]);
        let output = output("make-input", &all);
        assert!(output.status.success() && output.stdout.is_empty());
        fs::read(path).expect("the input")
    };
    let text = make("a", &["--kib", "20"]);
    assert_eq!(text.len(), 20 * 1024);
    assert_eq!(text, make("b", &["--kib", "20"]));
    assert_ne!(text, make("c", &["--kib", "20", "--seed", "2"]));
    assert!(
        text.iter()
            .all(|byte| byte.is_ascii_lowercase() || *byte == b' ')
    );
    let image = make("d", &["--kind", "image", "--width", "30", "--height", "20"]);
    assert!(image.starts_with(b"P6\n30 20\n255\n"));
    assert_eq!(image.len(), b"P6\n30 20\n255\n".len() + 30 * 20 * 3);
    let versions = make("e", &["--kind", "versions", "--kib", "400"]);
    assert_eq!(versions.len(), 400 * 1024);
    let left: Vec<_> = fs::read_dir(&directory).expect("the directory").collect();
    assert_eq!(left.len(), 5, "nothing else stays behind: {left:?}");
}

/// Exit code 1 with these words, and nothing but what was there before is in the folder.
fn fails_and_leaves_nothing(output: &Output, words: &str, directory: &tempfile::TempDir) {
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(words), "{text}");
    let left: Vec<_> = fs::read_dir(directory)
        .expect("the directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    assert_eq!(left, ["taken"], "{text}");
}

#[test]
fn make_input_that_cannot_write_says_where_and_leaves_nothing() {
    let directory = tempfile::tempdir().expect("a directory");
    let taken = directory.path().join("taken");
    fs::create_dir(&taken).expect("a directory");
    let path = taken.to_str().expect("UTF-8");
    let no_file = output("make-input", &["--output", path]);
    fails_and_leaves_nothing(&no_file, path, &directory);
    let path = directory.path().join("large");
    // As on a full disk, writing fails behind the first 4 KiB.
    let no_room = Command::new("sh")
        .args([
            "-c",
            r#"trap "" XFSZ; ulimit -f 8; exec "$0" --output "$1""#,
        ])
        .arg(common::own_program("make-input"))
        .arg(&path)
        .output()
        .expect("sh runs");
    let path = path.to_str().expect("UTF-8");
    fails_and_leaves_nothing(&no_room, path, &directory);
    let no_folder = output("make-input", &["--output", "/proc/steady"]);
    fails_and_leaves_nothing(&no_folder, "/proc/steady", &directory);
}
