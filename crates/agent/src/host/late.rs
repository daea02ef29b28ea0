// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Module parameters that are written when the VMs are up: `steady.late=kvm.shoot4u_fault=skip-pcpu`
//! on the host's command line. A fault from the start could keep a guest from booting.

use std::fs;

use crate::system::{self, Doing, Failure};

/// Writes the parameters of all such words, in their order.
pub fn write_parameters() -> Result<(), Failure> {
    for (path, value) in parameters(&system::read_trimmed("/proc/cmdline"))? {
        fs::write(&path, value).doing(|| format!("write `{value}` to {path}"))?;
    }
    Ok(())
}

/// The file and the value of each.
fn parameters(cmdline: &str) -> Result<Vec<(String, &str)>, Failure> {
    let words = cmdline.split_whitespace();
    words
        .filter_map(|word| word.strip_prefix("steady.late="))
        .map(|word| {
            let parts = word.split_once('=').and_then(|(name, value)| {
                let (module, parameter) = name.split_once('.')?;
                Some((module, parameter, value))
            });
            let (module, parameter, value) = parts.ok_or_else(|| {
                Failure::new(format!(
                    "`steady.late={word}`: expected `steady.late=MODULE.PARAMETER=VALUE`"
                ))
            })?;
            Ok((
                format!("/sys/module/{module}/parameters/{parameter}"),
                value,
            ))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_names_a_file_and_what_is_written_there() {
        let found = parameters("quiet steady.late=kvm.shoot4u_fault=skip-pcpu kvm.x=1").unwrap();
        let path = "/sys/module/kvm/parameters/shoot4u_fault".to_owned();
        assert_eq!(found, [(path, "skip-pcpu")]);
    }

    #[test]
    fn a_word_without_a_module_or_a_value_is_refused() {
        for wrong in ["steady.late=kvm.x", "steady.late=x=1", "steady.late="] {
            assert!(parameters(wrong).is_err(), "{wrong}");
        }
    }
}
