// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Keeps a guest's programs on some of its CPUs: `cpuset.cpus` of the groups below the root of the
//! control groups (Documentation/admin-guide/cgroup-v2.rst), as `systemctl set-property
//! AllowedCPUs=` does for a slice.
//!
//! Why not CPUs taken off-line: that moves interrupts and kernel threads, takes tens of
//! milliseconds for each CPU, and changes the number of CPUs that programs count. Why not
//! sched_setaffinity(2) of every thread: it races with new ones and overrides what programs asked
//! for themselves. A cpuset holds for new threads at once, and one write undoes it.
//!
//! Left out: tasks in the root group, which are the kernel's, and groups that somebody gave CPUs
//! of their own.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use steady_hostview::{Cpus, Host};

use crate::error::SteerError;
use crate::state::{Change, End, State};

const CONTROLLERS: &str = "cgroup.subtree_control";
const CPUS: &str = "cpuset.cpus";

/// A file that has other words than before.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Written {
    /// The group, or the root.
    group: PathBuf,
    file: String,
    before: String,
    /// What stands there since.
    set: String,
    /// What stood there in between, and still does if the later words were not written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    or: Option<String>,
}

impl Change for Written {
    type Hands = ();

    fn is_same(&self, other: &Self) -> bool {
        (&self.group, &self.file) == (&other.group, &other.file)
    }

    fn follow(&mut self, later: Self) {
        self.or = Some(std::mem::replace(&mut self.set, later.set));
    }

    fn back(&self, _: &Host, (): &mut ()) -> End {
        if self.file == CONTROLLERS {
            // Others may use it by now, and then the kernel keeps it.
            let removed = fs::write(self.group.join(CONTROLLERS), &self.before);
            return removed.map_or(End::Theirs, |()| End::Back);
        }
        let path = self.group.join(&self.file);
        let Ok(now) = fs::read_to_string(&path) else {
            return End::Gone;
        };
        if now.trim() == self.before {
            return End::Back;
        }
        let now = Some(now.trim());
        if now != Some(&self.set) && now != self.or.as_deref() {
            return End::Theirs;
        }
        // The kernel takes an empty line for none of its own.
        match fs::write(&path, format!("{}\n", self.before)) {
            Ok(()) => End::Back,
            Err(_) if !path.exists() => End::Gone,
            Err(_) => End::Refused,
        }
    }
}

/// The groups of a guest.
#[derive(Debug)]
pub(super) struct Groups {
    root: PathBuf,
}

impl Groups {
    /// Those of the host that is this guest; the cpuset controller is enabled for them if it is
    /// not.
    ///
    /// # Errors
    /// [`SteerError::NoCpuset`], [`SteerError::State`].
    pub fn prepare(host: &Host, state: Option<&mut State<Written>>) -> Result<Self, SteerError> {
        let root = host.groups.clone();
        let has = |file: &str| {
            let text = fs::read_to_string(root.join(file)).unwrap_or_default();
            text.split_whitespace().any(|word| word == "cpuset")
        };
        if !has("cgroup.controllers") {
            return Err(SteerError::NoCpuset(root));
        }
        if let (Some(state), false) = (state, has(CONTROLLERS)) {
            state.note(Written {
                group: root.clone(),
                file: CONTROLLERS.to_owned(),
                before: "-cpuset".to_owned(),
                set: "+cpuset".to_owned(),
                or: None,
            })?;
            if fs::write(root.join(CONTROLLERS), "+cpuset").is_err() {
                return Err(SteerError::NoCpuset(root));
            }
        }
        Ok(Self { root })
    }

    /// The groups below the root, by name.
    fn all(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.root).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        let mut groups: Vec<PathBuf> = folders.map(|entry| entry.path()).collect();
        groups.sort();
        groups
    }

    /// Keeps the programs of all groups but `spared` on `cpus`; `None`: on those of before. How
    /// many groups were written.
    ///
    /// # Errors
    /// [`SteerError::State`].
    pub fn keep_on(
        &self,
        cpus: Option<&Cpus>,
        spared: &dyn Fn(&Path) -> bool,
        set: &mut Vec<PathBuf>,
        state: &mut State<Written>,
    ) -> Result<usize, SteerError> {
        let text = cpus.map_or_else(String::new, ToString::to_string);
        let mut count = 0;
        for group in self.all() {
            let path = group.join(CPUS);
            let Ok(now) = fs::read_to_string(&path) else {
                continue;
            };
            let now = now.trim();
            let ours = set.contains(&group);
            // A group that somebody gave CPUs of its own keeps them.
            if (!ours && (!now.is_empty() || cpus.is_none())) || spared(&group) || now == text {
                continue;
            }
            state.note(Written {
                group: group.clone(),
                file: CPUS.to_owned(),
                before: String::new(),
                set: text.clone(),
                or: None,
            })?;
            match fs::write(&path, format!("{text}\n")) {
                Ok(()) => count += 1,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                    return Err(SteerError::NoCpuset(self.root.clone()));
                }
                Err(_) => continue,
            }
            if !ours {
                set.push(group);
            }
        }
        if cpus.is_none() {
            set.clear();
        }
        Ok(count)
    }
}
