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
    let left: Vec<_> = fs::read_dir(&directory).expect("the directory").collect();
    assert_eq!(left.len(), 4, "nothing else stays behind: {left:?}");
}

#[test]
fn make_input_that_cannot_write_says_where_and_leaves_nothing() {
    let output = output("make-input", &["--output", "/proc/steady"]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("/proc/steady"), "{text}");
}
