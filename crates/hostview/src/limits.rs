// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a thread may use: its pCPUs, and the weight and limits of its control group.

use std::path::Path;

use crate::{Cpus, Host, files};

/// What one thread may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The pCPUs that it may run on; empty: not known.
    pub allowed: Cpus,
    /// Its control group.
    pub group: Option<String>,
    /// The tightest limit of CPU time of that group and those above, as `cpu.max` has it (quota
    /// and period in microseconds); `max 100000` if it is known that none is set, `None` if it is
    /// not.
    pub cpu_max: Option<String>,
    /// The weight of its group, as `cpu.weight` has it.
    pub cpu_weight: Option<String>,
}

impl Limits {
    /// Reads them.
    #[must_use]
    pub fn of(host: &Host, process: i32, tid: i32) -> Self {
        let (task, groups) = (
            host.proc.join(format!("{process}/task/{tid}")),
            &host.groups,
        );
        let group = group(&task);
        let own = group
            .as_deref()
            .map(|path| groups.join(path.trim_start_matches('/')));
        let read = |folder: &Path, file: &str| {
            let text = files::text(&folder.join(file)).ok()?;
            Some(text.trim().to_owned())
        };
        let limit = own.as_deref().and_then(|own| {
            let within = own
                .ancestors()
                .take_while(|folder| folder.starts_with(groups));
            // Each group has its own: the tightest is reached first.
            let limits = within.filter_map(|folder| read(folder, "cpu.max"));
            let limits = limits.filter_map(|limit| Some((share(&limit)?, limit)));
            limits.min().map(|(_, limit)| limit)
        });
        // That none is set is known where all groups are of the unified hierarchy.
        let unified = groups.join("cgroup.controllers").exists() && own.is_some();
        let none = || unified.then(|| "max 100000".to_owned());
        Self {
            allowed: allowed(&task),
            cpu_max: limit.or_else(none),
            cpu_weight: own.as_deref().and_then(|own| read(own, "cpu.weight")),
            group,
        }
    }
}

/// Of a limit `QUOTA PERIOD`, the quota in thousandths of a CPU; `max` is not one.
fn share(limit: &str) -> Option<u64> {
    let (quota, period) = limit.split_once(' ')?;
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    quota.checked_mul(1000)?.checked_div(period)
}

/// The pCPUs that a thread may run on; empty where that is not known.
pub(crate) fn allowed(task: &Path) -> Cpus {
    let status = files::text(&task.join("status")).unwrap_or_default();
    let mut lines = status.lines();
    let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    list.and_then(|list| list.parse().ok()).unwrap_or_default()
}

/// What the cpuset of a thread's group leaves to it, of version 2 or 1 of the control groups;
/// `None` where that is not known.
pub(crate) fn cpuset(task: &Path, groups: &Path) -> Option<Cpus> {
    let text = files::text(&task.join("cgroup")).ok()?;
    let first = text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let own = controllers.split(',').any(|name| name == "cpuset");
        own.then(|| groups.join("cpuset").join(path.trim_start_matches('/')))
    });
    let second = text.lines().find_map(|line| line.strip_prefix("0::"));
    let second = second.map(|path| groups.join(path.trim_start_matches('/')));
    let own = first.or(second)?;
    let within = own
        .ancestors()
        .take_while(|folder| folder.starts_with(groups));
    let names = ["cpuset.cpus.effective", "cpuset.effective_cpus"];
    let files = within.flat_map(|folder| names.map(|name| folder.join(name)));
    let mut lists = files.filter_map(|file| files::text(&file).ok()?.parse().ok());
    lists.find(|cpus: &Cpus| !cpus.is_empty())
}

/// The control group of the unified hierarchy; of the older one that of the CPU controller.
pub(crate) fn group(home: &Path) -> Option<String> {
    let text = files::text(&home.join("cgroup")).ok()?;
    let unified = text.lines().find_map(|line| line.strip_prefix("0::"));
    let by_cpu = || {
        text.lines().find_map(|line| {
            let mut parts = line.splitn(3, ':').skip(1);
            let controllers = parts.next()?;
            let path = parts.next()?;
            controllers
                .split(',')
                .any(|name| name == "cpu")
                .then_some(path)
        })
    };
    unified.or_else(by_cpu).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::made::write;

    #[test]
    fn that_no_limit_is_set_is_known_where_all_groups_are_of_one_hierarchy() {
        let made = tempfile::tempdir().unwrap();
        write(made.path(), "proc/7/task/7/cgroup", "0::/a.scope\n");
        let groups = "sys/fs/cgroup";
        write(
            made.path(),
            &format!("{groups}/a.scope/cpu.max"),
            "max 100000\n",
        );
        let limit = || Limits::of(&Host::under(made.path()), 7, 7).cpu_max;
        assert_eq!(limit(), None);
        write(
            made.path(),
            &format!("{groups}/cgroup.controllers"),
            "cpu memory\n",
        );
        assert_eq!(limit().as_deref(), Some("max 100000"));
    }
}
