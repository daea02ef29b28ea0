// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of procfs and of control groups, each read by as few calls as it takes.

use std::fs::File;
use std::io::{self, ErrorKind, Read};
use std::path::Path;

/// What is asked for first: as many bytes as most files have.
const USUAL: usize = 8192;

/// The text of a file that the kernel writes at once, so that a read that does not fill the buffer
/// was the last one; bytes that are not UTF-8 are replaced.
pub(crate) fn text(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; USUAL];
    let mut length = 0;
    loop {
        let count = match file.read(&mut bytes[length..]) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other?,
        };
        length += count;
        if length < bytes.len() {
            break;
        }
        bytes.resize(2 * length, 0);
    }
    bytes.truncate(length);
    Ok(String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()))
}

#[cfg(test)]
pub(crate) mod made {
    use std::fs;
    use std::path::Path;

    /// A file of a made tree, with its folders.
    pub fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_file_of_any_length_is_read_whole() {
        let made = tempfile::tempdir().unwrap();
        for length in [0, 1, super::USUAL - 1, super::USUAL, 5 * super::USUAL] {
            let text = "x".repeat(length);
            write(made.path(), "file", &text);
            assert_eq!(super::text(&made.path().join("file")).unwrap(), text);
        }
    }
}
