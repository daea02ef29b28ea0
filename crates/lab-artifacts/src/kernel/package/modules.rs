// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The modules of KVM that a host loads, each behind those that it depends on.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use steady_unpack::Packing;

use super::contents::file_name;
use crate::error::ArtifactError;

/// What a host of KVM needs; with them those that they depend on.
const WANTED: [&str; 2] = ["kvm_intel", "kvm_amd"];

/// A module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::kernel) struct Module {
    /// Its name, with `_`.
    pub(in crate::kernel) name: String,
    /// Where it was found.
    pub(in crate::kernel) path: PathBuf,
    /// Its bytes, unpacked.
    pub(in crate::kernel) bytes: Vec<u8>,
}

/// The wanted modules among the files, each behind those that it depends on.
pub(in crate::kernel) fn of_host(files: &[PathBuf]) -> Result<Vec<Module>, ArtifactError> {
    let there = by_name(files);
    let mut loaded = Vec::new();
    for wanted in WANTED {
        load(wanted, &there, &mut loaded)?;
    }
    Ok(loaded)
}

/// What of KVM a kernel of this configuration lacks among the modules that were found; `files` are
/// all that there are.
pub(in crate::kernel) fn lacking(
    config: &str,
    modules: &[Module],
    files: &[PathBuf],
) -> Option<String> {
    let is = |wanted: &str| config.lines().any(|line| line == wanted);
    let wants =
        |symbol: &str| is(&format!("CONFIG_{symbol}=m")) || is(&format!("CONFIG_{symbol}=y"));
    if !wants("KVM") {
        return Some("KVM: CONFIG_KVM is not set in its configuration".to_owned());
    }
    if is("CONFIG_KVM=m") && !by_name(files).contains_key("kvm") {
        return Some("kvm.ko".to_owned());
    }
    let built_in = is("CONFIG_KVM_INTEL=y") || is("CONFIG_KVM_AMD=y");
    let vendor = WANTED
        .iter()
        .any(|name| modules.iter().any(|module| module.name == *name));
    if !built_in && !vendor {
        return Some("kvm-intel.ko or kvm-amd.ko".to_owned());
    }
    lost(modules).map(|name| format!("{name}.ko"))
}

fn by_name(files: &[PathBuf]) -> BTreeMap<String, &PathBuf> {
    let named = files.iter().filter_map(|path| {
        let (name, _) = file_name(path).split_once(".ko")?;
        Some((name.replace('-', "_"), path))
    });
    named.collect()
}

fn load(
    name: &str,
    there: &BTreeMap<String, &PathBuf>,
    loaded: &mut Vec<Module>,
) -> Result<(), ArtifactError> {
    let Some(path) = there.get(name) else {
        return Ok(());
    };
    if loaded.iter().any(|known| known.name == name) {
        return Ok(());
    }
    let bytes = unpacked(path)?;
    for needs in depends(&bytes) {
        load(&needs, there, loaded)?;
    }
    loaded.push(Module {
        name: name.to_owned(),
        path: (*path).clone(),
        bytes,
    });
    Ok(())
}

/// The first module that one depends on and that is not among them.
fn lost(modules: &[Module]) -> Option<String> {
    let is_lost = |name: &String| modules.iter().all(|there| there.name != *name);
    let mut needed = modules.iter().flat_map(|module| depends(&module.bytes));
    needed.find(is_lost)
}

fn unpacked(path: &Path) -> Result<Vec<u8>, ArtifactError> {
    let wrong = |error| ArtifactError::io("read", path, error);
    let packed = fs::read(path).map_err(wrong)?;
    let Some(packing) = Packing::of(&packed) else {
        return Ok(packed);
    };
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(wrong)?;
    let mut reader = packing.decoder(file).map_err(wrong)?;
    reader.read_to_end(&mut bytes).map_err(wrong)?;
    Ok(bytes)
}

/// What a module says that it depends on, in its `.modinfo`: `depends=kvm,ccp` and a zero.
fn depends(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let at = module.windows(KEY.len()).position(|bytes| bytes == KEY);
    let Some(rest) = at.map(|at| &module[at + KEY.len()..]) else {
        return Vec::new();
    };
    let end = rest.iter().position(|&byte| byte == 0).unwrap_or(0);
    let names = String::from_utf8_lossy(&rest[..end]);
    let names = names.split(',').filter(|name| !name.is_empty());
    names.map(|name| name.replace('-', "_")).collect()
}
