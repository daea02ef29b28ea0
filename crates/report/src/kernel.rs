// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The releases of the kernels that were raced, as a result's configuration names them.

use std::collections::BTreeMap;

/// The release of the kernel that variants boot which name none, and of each other kernel with its
/// name: `6.1.158 (debian-12)`. One of the same release is not said again.
#[must_use]
pub fn releases(config: &BTreeMap<String, String>) -> Vec<String> {
    let main = config.get("kernel.release");
    let others = config.iter().filter_map(|(key, release)| {
        let name = key.strip_prefix("kernel.")?.strip_suffix(".release")?;
        (Some(release) != main).then(|| format!("{release} ({name})"))
    });
    main.cloned().into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_is_named_with_its_release_and_no_release_is_said_twice() {
        for (pairs, said) in [
            (&[][..], ""),
            (
                &[("kernel.release", "6.12.63"), ("kernel.hz", "250")],
                "6.12.63",
            ),
            (
                &[("kernel.release", "6.12"), ("kernel.stock.release", "6.12")],
                "6.12",
            ),
            (&[("kernel.stock.release", "6.12")], "6.12 (stock)"),
            (
                &[
                    ("kernel.release", "6.12"),
                    ("kernel.7.3.release", "7.3.4"),
                    ("kernel.debian-12.release", "6.1.0"),
                    ("kernel.debian-12.key", "kernel-debian-12"),
                ],
                "6.12, 7.3.4 (7.3), 6.1.0 (debian-12)",
            ),
        ] {
            let pairs = pairs
                .iter()
                .map(|&(key, value)| (key.to_owned(), value.to_owned()));
            assert_eq!(releases(&pairs.collect()).join(", "), said);
        }
    }
}
