// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The engines that `steady` offers. To add one, add its room and its entry here.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, Error};
use steady_lab::{Lab, engine};
use steady_race::{Engines, Entry};

/// Every engine, the default first.
pub const ENGINES: Engines = Engines(&[
    Entry {
        name: "qemu",
        help: "QEMU TCG, AMD SVM: seconds a variant; its clock is the wall",
        make: || Lab::open(engine::qemu::KIND),
    },
    Entry {
        name: "bochs",
        help: "Bochs, Intel VMX with pause-loop exiting: repeats to the last digit",
        make: || Lab::open(engine::bochs::KIND),
    },
]);

/// Reads the name of an engine, as `--engine` takes it.
#[derive(Debug, Clone, Copy)]
pub struct EngineName;

impl TypedValueParser for EngineName {
    type Value = &'static Entry;

    fn parse_ref(
        &self,
        command: &Command,
        _argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<Self::Value, Error> {
        ENGINES.find(&value.to_string_lossy()).map_err(|error| {
            let text = format!("--engine: {error}\n");
            Error::raw(ErrorKind::ValueValidation, text).with_cmd(command)
        })
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let values = ENGINES.0.iter();
        Some(Box::new(values.map(|entry| {
            PossibleValue::new(entry.name).help(entry.help)
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_engine_has_the_name_of_its_entry() {
        for entry in ENGINES.0 {
            let engine = (entry.make)().expect("made");
            assert_eq!(engine.info().name, entry.name);
        }
    }
}
