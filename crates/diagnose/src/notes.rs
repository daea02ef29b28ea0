// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `steady record` notes of the VMs beside a trace (`TRACE.vms`): a trace knows threads, and
//! this knows whose they are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The value of [`VmNotes::schema`].
pub const NOTES_SCHEMA: &str = "steady.vms";
/// The value of [`VmNotes::version`].
pub const NOTES_VERSION: u32 = 1;

/// The VMs of a host when it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmNotes {
    /// [`NOTES_SCHEMA`].
    pub schema: String,
    /// [`NOTES_VERSION`].
    pub version: u32,
    /// The VMs, by process.
    pub vms: Vec<VmNote>,
}

/// One VM.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VmNote {
    /// The name that its VMM was given for it: QEMU's `-name`, which is libvirt's domain.
    pub name: Option<String>,
    /// Its VMM's process.
    pub process: i32,
    /// Its VMM's program.
    pub vmm: String,
    /// The control group of the process, as `/proc/PID/cgroup` has it.
    pub cgroup: Option<String>,
    /// Threads of the process that are not vCPUs.
    pub threads: Vec<i32>,
    /// Its vCPUs by number.
    pub vcpus: Vec<VcpuNote>,
}

impl VmNote {
    /// Whether each of its vCPUs may run on one pCPU alone.
    #[must_use]
    pub(crate) fn is_pinned(&self) -> bool {
        let is_one = |cpus: &String| !cpus.contains(['-', ',']);
        let mut vcpus = self.vcpus.iter();
        !self.vcpus.is_empty() && vcpus.all(|vcpu| vcpu.cpus.as_ref().is_some_and(is_one))
    }
}

/// One vCPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VcpuNote {
    /// Its number, from the name of its thread.
    pub number: u32,
    /// Its thread.
    pub tid: i32,
    /// The pCPUs that it may run on, as `0-3,8`.
    pub cpus: Option<String>,
    /// Its control group.
    pub cgroup: Option<String>,
    /// The tightest limit of CPU time of that group and those above, as `cpu.max` has it (quota and
    /// period in microseconds); `max 100000` if none is set, `None` if that is not known.
    pub cpu_max: Option<String>,
    /// The weight of its group, as `cpu.weight` has it.
    pub cpu_weight: Option<String>,
}

/// Why notes cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NotesError {
    /// They are not JSON of this shape.
    #[error("not the notes of `steady record`: {0}")]
    Shape(#[from] serde_json::Error),
    /// They are of another schema or version.
    #[error("notes of `{schema}` version {version}; expected `{NOTES_SCHEMA}` version 1")]
    Version {
        /// The schema that they name.
        schema: String,
        /// The version.
        version: u32,
    },
}

impl VmNotes {
    /// Of these VMs.
    #[must_use]
    pub fn new(vms: Vec<VmNote>) -> Self {
        Self {
            schema: NOTES_SCHEMA.to_owned(),
            version: NOTES_VERSION,
            vms,
        }
    }

    /// Reads what [`Self`] is as JSON.
    ///
    /// # Errors
    /// [`NotesError`].
    pub fn parse(text: &[u8]) -> Result<Self, NotesError> {
        let notes: Self = serde_json::from_slice(text)?;
        if notes.schema != NOTES_SCHEMA || notes.version != NOTES_VERSION {
            let Self {
                schema, version, ..
            } = notes;
            return Err(NotesError::Version { schema, version });
        }
        Ok(notes)
    }

    /// By VM, the pCPUs that it may use; empty if the notes do not have those of all its vCPUs.
    pub(crate) fn pcpus(&self) -> Vec<Vec<u32>> {
        let of = |vm: &VmNote| {
            let lists = vm.vcpus.iter().map(|vcpu| pcpus_of(vcpu.cpus.as_ref()?));
            let lists: Option<Vec<Vec<u32>>> = lists.collect();
            lists.unwrap_or_default().concat()
        };
        self.vms.iter().map(of).collect()
    }

    /// By thread, which of the VMs it is of, and its number if it is a vCPU's.
    pub(crate) fn by_thread(&self) -> BTreeMap<i32, (usize, Option<u32>)> {
        let mut threads = BTreeMap::new();
        for (at, vm) in self.vms.iter().enumerate() {
            threads.extend(vm.threads.iter().map(|&tid| (tid, (at, None))));
            threads.extend(
                vm.vcpus
                    .iter()
                    .map(|vcpu| (vcpu.tid, (at, Some(vcpu.number)))),
            );
        }
        threads
    }
}

/// The numbers of a list such as `0-3,8`, as the kernel prints them.
fn pcpus_of(list: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last.checked_sub(first)? > 8192 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_pcpus_are_those_of_the_kernel() {
        assert_eq!(pcpus_of("0-2,8"), Some(vec![0, 1, 2, 8]));
        for wrong in ["", "a", "3-1", "0-4294967295", "0,"] {
            assert_eq!(pcpus_of(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn notes_of_another_version_are_refused() {
        let text = br#"{"schema":"steady.vms","version":2,"vms":[]}"#;
        let error = VmNotes::parse(text).unwrap_err().to_string();
        assert!(
            error.contains("version 2; expected `steady.vms` version 1"),
            "{error}"
        );
        assert!(VmNotes::parse(b"[]").is_err());
        let none = VmNotes::new(Vec::new());
        let text = serde_json::to_vec(&none).unwrap();
        assert_eq!(VmNotes::parse(&text).unwrap(), none);
    }
}
