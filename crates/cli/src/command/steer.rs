// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady place` and `steady fold`: the remedies that need no kernel.

use std::process::ExitCode;

use steady_steer::{fold, place};

/// Places the vCPUs of this host.
pub fn place(arguments: &place::Arguments) -> anyhow::Result<ExitCode> {
    place::run(arguments, &["place".to_owned()])?;
    Ok(ExitCode::SUCCESS)
}

/// Folds this guest.
pub fn fold(arguments: &fold::Arguments) -> anyhow::Result<ExitCode> {
    fold::run(arguments, &["fold".to_owned()])?;
    Ok(ExitCode::SUCCESS)
}
