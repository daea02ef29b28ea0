// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Files of procfs and of control groups, each read by as few calls as it takes.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// More than any that is read here has on a host of 64 CPUs.
const USUAL: usize = 8192;

/// The text of a file that the kernel writes at once, so that a read that does not fill the buffer
/// was the last one; bytes that are not UTF-8 are replaced.
pub(crate) fn text(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut bytes = vec![0; USUAL];
    let mut length = 0;
    loop {
        let count = file.read(&mut bytes[length..])?;
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
