// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Pseudonyms for what names people and places: VMs, control groups, programs, files, the host. The
//! same name has the same pseudonym in all that one recorder writes.
//!
//! Kept are names that the kernel and VMMs give their threads, without which a culprit cannot be
//! named, and names of interrupts (of devices and their drivers). Of the kernel's log only lines of
//! stalls and stacks are kept.

use std::collections::BTreeMap;

use steady_diagnose::VmNotes;
use steady_events::vcpu_number;

use crate::pages;

/// Threads of the kernel and of VMMs, by the begin of their names.
const THREADS: [&str; 28] = [
    "swapper",
    "kworker/",
    "ksoftirqd/",
    "migration/",
    "rcu",
    "cpuhp/",
    "irq/",
    "irq_work/",
    "vhost",
    "kvm",
    "khugepaged",
    "kswapd",
    "kcompactd",
    "kthreadd",
    "ktimers/",
    "watchdog",
    "idle_inject/",
    "kidle_inj/",
    "jbd2/",
    "nvme",
    "qemu-",
    "IO iothread",
    "IO mon_iothread",
    "cloud-hyperv",
    "firecracker",
    "crosvm",
    "steady",
    "<",
];
/// Control groups that every host has; those with a number behind it too.
const GROUPS: [&str; 10] = [
    "machine.slice",
    "system.slice",
    "user.slice",
    "init.scope",
    "machine",
    "libvirt",
    "emulator",
    "vcpu",
    "iothread",
    "qemu",
];
/// Words of log lines that are kept.
const LOG: [&str; 15] = [
    "stuck for",
    "lockup",
    "rcu",
    "stall",
    "blocked for",
    "Comm:",
    "RIP:",
    "Call Trace",
    "+0x",
    "csd",
    "clocksource",
    "workqueue",
    "watchdog",
    "hrtimer",
    "NMI",
];

/// Gives pseudonyms; without names it changes nothing.
#[derive(Debug, Default)]
pub struct Redactor {
    on: bool,
    names: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, u32>,
}

impl Redactor {
    /// One that changes nothing unless `on`.
    #[must_use]
    pub fn new(on: bool) -> Self {
        let mut made = Self {
            on,
            ..Self::default()
        };
        let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        if !host.trim().is_empty() {
            made.names.insert(host.trim().to_owned(), "host".to_owned());
        }
        made
    }

    /// Whether names are replaced.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.on
    }

    fn pseudonym(&mut self, kind: &'static str, name: &str) -> String {
        if let Some(known) = self.names.get(name) {
            return known.clone();
        }
        let count = self.counts.entry(kind).or_default();
        *count += 1;
        let pseudonym = format!("{kind}-{count}");
        self.names.insert(name.to_owned(), pseudonym.clone());
        pseudonym
    }

    /// The name of a VM. A thread may have its first 15 bytes.
    fn vm(&mut self, name: &str) -> String {
        let pseudonym = self.pseudonym("guest", name);
        let short = name.get(..15).unwrap_or(name).to_owned();
        self.names.entry(short).or_insert_with(|| pseudonym.clone());
        pseudonym
    }

    /// The name of a thread in a field of a fixed size.
    pub(crate) fn field(&mut self, field: &mut [u8]) {
        let end = field
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(field.len());
        let name = String::from_utf8_lossy(&field[..end]).into_owned();
        let name = self.thread(&name);
        // What lay behind the name's end goes too.
        field.fill(0);
        // A part of a pseudonym would be another's.
        let len = if name.len() < field.len() {
            name.len()
        } else {
            0
        };
        field[..len].copy_from_slice(&name.as_bytes()[..len]);
    }

    fn thread(&mut self, name: &str) -> String {
        let known = THREADS.iter().any(|begin| name.starts_with(begin));
        if !self.on || name.is_empty() || known || vcpu_number(name.as_bytes()).is_some() {
            return name.to_owned();
        }
        self.pseudonym("task", name)
    }

    /// Lines of a thread's number and name.
    pub(crate) fn names(&mut self, lines: &str) -> String {
        let one = |line: &str| {
            let (tid, name) = line.split_once(' ').unwrap_or((line, ""));
            format!("{tid} {}\n", self.thread(name))
        };
        lines.lines().map(one).collect()
    }

    fn group(&mut self, path: &str) -> String {
        let one = |part: &str| {
            let plain = part.trim_end_matches(|c: char| c.is_ascii_digit());
            if part.is_empty() || GROUPS.contains(&plain) {
                return part.to_owned();
            }
            self.pseudonym("group", part)
        };
        path.split('/').map(one).collect::<Vec<_>>().join("/")
    }

    /// Notes of VMs.
    #[must_use]
    pub fn notes(&mut self, notes: &VmNotes) -> VmNotes {
        let mut notes = notes.clone();
        if !self.on {
            return notes;
        }
        for vm in &mut notes.vms {
            vm.name = vm.name.as_deref().map(|name| self.vm(name));
            vm.vmm = self.thread(&vm.vmm);
            vm.cgroup = vm.cgroup.as_deref().map(|path| self.group(path));
            for vcpu in &mut vm.vcpus {
                vcpu.cgroup = vcpu.cgroup.as_deref().map(|path| self.group(path));
            }
        }
        notes
    }

    /// Lines of tables and of the kernel's log.
    #[must_use]
    pub fn text(&mut self, text: &str) -> String {
        if !self.on {
            return text.to_owned();
        }
        let mut out = String::new();
        for line in text.lines() {
            if let Some(changed) = self.line(line) {
                out.push_str(&changed);
                out.push('\n');
            }
        }
        out
    }

    fn line(&mut self, line: &str) -> Option<String> {
        if line.starts_with('/') {
            let (path, rest) = line.split_once(':')?;
            let path = match path.strip_prefix("/sys/fs/cgroup") {
                Some(below) => {
                    let (group, file) = below.rsplit_once('/')?;
                    format!("/sys/fs/cgroup{}/{file}", self.group(group))
                }
                None if path.starts_with("/proc/pressure/") => path.to_owned(),
                None => self.pseudonym("path", path),
            };
            return Some(format!("{path}:{rest}"));
        }
        let hardware = ["Command line:", "Hardware name:", "DMI:"]
            .iter()
            .any(|it| line.contains(it));
        if hardware || !LOG.iter().any(|word| line.contains(word)) {
            return None;
        }
        Some(self.log_line(line))
    }

    /// Threads as `[NAME:PID]`, `task NAME:PID` and `Comm: NAME`; then all names that are known.
    fn log_line(&mut self, line: &str) -> String {
        let between = |from: &str, to: &[&str]| {
            let start = line.rfind(from)? + from.len();
            let rest = &line[start..];
            let end = to
                .iter()
                .filter_map(|to| rest.find(to))
                .min()
                .unwrap_or(rest.len());
            Some(rest[..end].trim())
        };
        let comm = between("Comm: ", &[" Tainted", " Not tainted"]);
        let brackets = between("[", &["]"]);
        let task = between("task ", &[" blocked"]);
        let numbered = [brackets, task]
            .into_iter()
            .flatten()
            .filter_map(|it| it.rsplit_once(':'));
        let found: Vec<&str> = comm
            .into_iter()
            .chain(numbered.map(|(name, _)| name))
            .collect();
        for name in found {
            self.thread(name);
        }
        self.known(line)
    }

    /// Replaces the names that are known so far.
    pub(crate) fn known(&self, line: &str) -> String {
        let mut line = line.to_owned();
        for (name, pseudonym) in self.names.iter().filter(|_| self.on) {
            line = replaced(&line, name, pseudonym);
        }
        line
    }
}

/// Replaces a name where no letter or digit touches it.
fn replaced(line: &str, name: &str, by: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(name) {
        let (before, behind) = (&rest[..at], &rest[at + name.len()..]);
        out.push_str(before);
        let touches = |c: Option<char>| c.is_some_and(char::is_alphanumeric);
        let alone = !touches(before.chars().next_back()) && !touches(behind.chars().next());
        out.push_str(if alone { by } else { name });
        rest = behind;
    }
    out + rest
}

/// Where the names of threads lie in records, by the number of their event: byte and length, or the
/// byte of a word that has both (`__data_loc`, since Linux 6.13 in `sched_migrate_task`).
#[derive(Debug, Default)]
pub(crate) struct Fields(BTreeMap<u16, Vec<(usize, Option<usize>)>>);

impl Fields {
    /// By descriptions of events: characters whose name has `comm`.
    pub fn of<'t>(formats: impl Iterator<Item = &'t str>) -> Self {
        let of_line = |line: &str| {
            let mut parts = line.trim_start().split(';').map(str::trim);
            let declared = parts.next()?.strip_prefix("field:")?;
            let mut value = |key: &str| parts.next()?.strip_prefix(key)?.parse::<usize>().ok();
            let (offset, size) = (value("offset:")?, value("size:")?);
            let fixed = declared.strip_prefix("char ");
            let name = fixed.or_else(|| declared.strip_prefix("__data_loc char[] "))?;
            name.contains("comm")
                .then_some((offset, fixed.map(|_| size)))
        };
        let one = |format: &str| {
            let mut lines = format.lines();
            let id = lines.find_map(|line| line.strip_prefix("ID:")?.trim().parse().ok())?;
            Some((id, lines.filter_map(of_line).collect()))
        };
        Self(formats.filter_map(one).collect())
    }

    /// Replaces all names in a page.
    pub fn redact(&self, page: &mut [u8], by: &mut Redactor) {
        pages::blank(page);
        for place in pages::places(page) {
            let data = &mut page[place.data.0..place.data.1];
            let Some(id) = data.first_chunk::<2>() else {
                continue;
            };
            for &(at, len) in self.0.get(&u16::from_le_bytes(*id)).into_iter().flatten() {
                let word = data.get(at..).and_then(<[u8]>::first_chunk::<4>);
                let word = word.map_or(0, |bytes| u32::from_le_bytes(*bytes));
                let (at, len) = match len {
                    Some(len) => (at, len),
                    None => ((word & 0xffff) as usize, (word >> 16) as usize),
                };
                if let Some(field) = data.get_mut(at..at.saturating_add(len)) {
                    by.field(field);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redactor() -> Redactor {
        let mut made = Redactor::new(true);
        made.names.insert("node7".to_owned(), "host".to_owned());
        made
    }

    #[test]
    fn a_name_has_one_pseudonym_in_notes_threads_tables_and_log() {
        let mut by = redactor();
        let vcpu = serde_json::json!({ "number": 0, "tid": 7,
            "cgroup": "/machine.slice/machine-qemu\\x2d1\\x2dpay.scope/libvirt/vcpu0" });
        let vm = serde_json::json!({ "name": "pay", "process": 6, "vmm": "qemu-system-x86_64",
            "cgroup": null, "threads": [], "vcpus": [vcpu] });
        let notes = serde_json::json!({ "schema": "steady.vms", "version": 1, "vms": [vm] });
        let notes = by.notes(&VmNotes::parse(notes.to_string().as_bytes()).unwrap());
        assert_eq!(notes.vms[0].name.as_deref(), Some("guest-1"));
        assert_eq!(
            notes.vms[0].vcpus[0].cgroup.as_deref(),
            Some("/machine.slice/group-1/libvirt/vcpu0")
        );
        let text = by.text(
            "/sys/fs/cgroup/machine.slice/machine-qemu\\x2d1\\x2dpay.scope/cpu.stat:user_usec 5\n\
             [ 9.1] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [backup-db:123]\n\
             [ 9.2] CPU: 3 PID: 123 Comm: backup-db Tainted: G  6.12 #1 node7\n\
             [ 9.2] Hardware name: ACME pay RIP:\n\
             [ 9.3] audit: user alice logged in from node7\n\
             [ 9.4] watchdog: CPU#1 stuck for 23s! [CPU 0/KVM:7]\n",
        );
        assert_eq!(
            text,
            "/sys/fs/cgroup/machine.slice/group-1/cpu.stat:user_usec 5\n\
             [ 9.1] watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [task-1:123]\n\
             [ 9.2] CPU: 3 PID: 123 Comm: task-1 Tainted: G  6.12 #1 host\n\
             [ 9.4] watchdog: CPU#1 stuck for 23s! [CPU 0/KVM:7]\n"
        );
        assert_eq!(
            by.known("vCPU 1 of pay (thread 7)"),
            "vCPU 1 of guest-1 (thread 7)"
        );
        let mut field = *b"backup-db\0secret";
        by.field(&mut field);
        assert_eq!(&field, b"task-1\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(
            by.names("7 pay\n8 kworker/1:2\n9 backup-db\n"),
            "7 guest-1\n8 kworker/1:2\n9 task-1\n"
        );
    }

    #[test]
    fn names_in_a_page_are_found_by_the_descriptions_of_its_events() {
        let format = "name: x\nID: 7\n\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
            \tfield:char other[4];\toffset:24;\tsize:4;\tsigned:0;\n\
            \tfield:__data_loc char[] comm;\toffset:28;\tsize:4;\tsigned:0;\n";
        let fields = Fields::of([format].into_iter());
        let mut page = vec![0; 16];
        page[8] = 44;
        page.extend(10_u32.to_le_bytes());
        page.extend([7, 0, 0, 0, 0, 0, 0, 0]);
        page.extend(b"payroll-job\0rest");
        page.extend(b"keep");
        page.extend((32_u32 | 8 << 16).to_le_bytes());
        page.extend(b"payroll\0");
        fields.redact(&mut page, &mut redactor());
        assert_eq!(&page[28..44], b"task-1\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(&page[44..48], b"keep");
        assert_eq!(&page[52..], b"task-2\0\0");
    }

    #[test]
    fn without_redaction_nothing_changes() {
        let mut by = Redactor::new(false);
        assert_eq!(by.text("any line\n"), "any line\n");
        by.vm("pay");
        assert_eq!(by.known("vCPU 1 of pay"), "vCPU 1 of pay");
        assert_eq!(by.names("7 pay\n"), "7 pay\n");
    }
}
