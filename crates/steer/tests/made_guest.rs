// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `fold` in made guests: trees of procfs and control groups whose steal a test writes.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::fs;
use std::path::PathBuf;

use steady_hostview::Host;
use steady_steer::fold::{Act, Bounds, Folder, What, Written};
use steady_steer::{State, SteerError, Undone};

const MS: u64 = 1_000_000;

/// A guest of eight CPUs with two slices.
struct Made {
    root: tempfile::TempDir,
    ran: u64,
    stolen: u64,
    now_ms: u64,
}

impl Made {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let made = Self {
            root,
            ran: 0,
            stolen: 0,
            now_ms: 0,
        };
        made.put("sys/devices/system/cpu/online", "0-7\n");
        made.put("proc/sys/kernel/osrelease", "6.12.0\n");
        made.put("sys/fs/cgroup/cgroup.controllers", "cpuset cpu memory\n");
        made.put("sys/fs/cgroup/cgroup.subtree_control", "cpu memory\n");
        made.put("sys/fs/cgroup/system.slice/cpuset.cpus", "\n");
        made.put("sys/fs/cgroup/user.slice/cpuset.cpus", "\n");
        made.stat();
        made
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn stat(&self) {
        let text = format!("cpu  {} 0 0 0 0 0 0 {} 0 0\n", self.ran, self.stolen);
        self.put("proc/stat", &text);
    }

    fn host(&self) -> Host {
        Host::under(self.root.path())
    }

    fn state_path(&self) -> PathBuf {
        self.root.path().join("run/fold.jsonl")
    }

    fn take(&self) -> (State<Written>, Undone) {
        State::take(&self.state_path(), &self.host(), &mut ()).unwrap()
    }

    fn folder(&self) -> Folder {
        Folder::new(self.host(), Bounds::default(), Some(self.take().0)).unwrap()
    }

    /// What a slice may run on.
    fn cpus(&self, slice: &str) -> String {
        let path = format!("sys/fs/cgroup/{slice}/cpuset.cpus");
        let text = fs::read_to_string(self.root.path().join(path)).unwrap();
        text.trim().to_owned()
    }

    /// A thread of a program or of the kernel.
    fn thread(&self, tid: i32, slice: &str, allowed: &str, flags: u64, class: u32) {
        let fields = (4..=52).map(|field| match field {
            9 => flags.to_string(),
            41 => class.to_string(),
            _ => "0".to_owned(),
        });
        let fields: Vec<String> = fields.collect();
        let task = format!("proc/{tid}/task/{tid}");
        self.put(
            &format!("{task}/stat"),
            &format!("{tid} (x) S {}\n", fields.join(" ")),
        );
        self.put(
            &format!("{task}/status"),
            &format!("Cpus_allowed_list:\t{allowed}\n"),
        );
        self.put(
            &format!("{task}/cgroup"),
            &format!("0::/{slice}/x.service\n"),
        );
    }

    /// Seconds in which all eight CPUs are wanted and `stolen` per cent of that is stolen.
    fn steps(&mut self, folder: &mut Folder, seconds: u64, stolen: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        for _ in 0..seconds * 10 {
            self.now_ms += 100;
            self.stolen += 80 * stolen / 100;
            self.ran += 80 - 80 * stolen / 100;
            self.stat();
            acts.extend(folder.step(self.now_ms * MS).unwrap());
        }
        acts
    }
}

#[test]
fn programs_run_on_the_share_and_on_all_again_at_the_end() {
    let mut made = Made::new();
    let mut folder = made.folder();
    let acts = made.steps(&mut folder, 1, 50);
    assert!(matches!(&acts[..], [Act { what: What::Run { cpus, .. }, .. }] if cpus == "0-3"));
    assert_eq!(
        [made.cpus("system.slice"), made.cpus("user.slice")],
        ["0-3", "0-3"]
    );
    let undone = folder.finish().unwrap();
    assert_eq!((undone.back, undone.refused), (3, 0));
    assert_eq!(
        [made.cpus("system.slice"), made.cpus("user.slice")],
        ["", ""]
    );
}

#[test]
fn what_a_killed_one_has_left_is_undone_by_the_next() {
    let mut made = Made::new();
    let mut folder = made.folder();
    made.steps(&mut folder, 1, 50);
    drop(folder);
    assert_eq!(made.cpus("user.slice"), "0-3");
    assert_eq!(made.take().1.back, 3);
    assert_eq!(made.cpus("user.slice"), "");
}

#[test]
fn one_that_was_killed_between_the_note_and_the_write_is_undone() {
    let mut made = Made::new();
    let mut folder = made.folder();
    made.steps(&mut folder, 1, 50);
    drop(folder);
    let mut text = fs::read_to_string(made.state_path()).unwrap();
    let last = text.lines().last().unwrap().replace("\"0-3\"", "\"0-1\"");
    text.push_str(&last);
    text.push('\n');
    fs::write(made.state_path(), text).unwrap();
    let undone = made.take().1;
    assert_eq!((undone.back, undone.theirs), (3, 0));
    assert_eq!(
        [made.cpus("system.slice"), made.cpus("user.slice")],
        ["", ""]
    );
}

#[test]
fn where_folding_does_not_help_all_cpus_are_used_again() {
    let mut made = Made::new();
    let mut folder = made.folder();
    let acts = made.steps(&mut folder, 3, 50);
    let unfolds = acts
        .iter()
        .any(|act| matches!(act.what, What::Unfold { .. }));
    assert!(unfolds, "{acts:?}");
    assert_eq!(made.cpus("system.slice"), "");
}

#[test]
fn a_slice_with_cpus_of_its_own_and_one_changed_since_keep_them() {
    let mut made = Made::new();
    made.put("sys/fs/cgroup/kubepods.slice/cpuset.cpus", "4-7\n");
    let mut folder = made.folder();
    made.steps(&mut folder, 1, 50);
    assert_eq!(made.cpus("kubepods.slice"), "4-7");
    made.put("sys/fs/cgroup/user.slice/cpuset.cpus", "2-3\n");
    assert_eq!(folder.finish().unwrap().theirs, 1);
    assert_eq!(
        [made.cpus("kubepods.slice"), made.cpus("user.slice")],
        ["4-7", "2-3"]
    );
}

#[test]
fn a_thread_that_is_bound_keeps_a_cpu_and_real_time_threads_have_room() {
    let mut made = Made::new();
    made.thread(70, "system.slice", "6", 0, 0);
    // A thread of the kernel is bound too, and not a program's.
    made.thread(71, "", "7", 0x0020_0000, 1);
    let mut folder = made.folder();
    made.steps(&mut folder, 1, 50);
    assert_eq!(made.cpus("system.slice"), "0-3,6");
    drop(folder);
    for tid in 80..85 {
        made.thread(tid, "system.slice", "0-7", 0, 1);
    }
    let mut folder = made.folder();
    made.steps(&mut folder, 1, 50);
    assert_eq!(made.cpus("system.slice"), "0-6");
}

#[test]
fn an_older_kernel_that_forgets_what_threads_asked_for_keeps_their_slice_whole() {
    let mut made = Made::new();
    made.put("proc/sys/kernel/osrelease", "6.1.0-13-amd64\n");
    made.thread(70, "system.slice", "6", 0, 0);
    let mut folder = made.folder();
    made.steps(&mut folder, 1, 50);
    assert_eq!(
        [made.cpus("system.slice"), made.cpus("user.slice")],
        ["", "0-3,6"]
    );
}

#[test]
fn a_new_slice_is_folded_too_and_cpus_that_go_begin_again() {
    let mut made = Made::new();
    let mut folder = made.folder();
    let shares = |made: &mut Made, folder: &mut Folder| made.steps(folder, 2, 0);
    made.steps(&mut folder, 1, 50);
    made.put("sys/fs/cgroup/machine.slice/cpuset.cpus", "\n");
    shares(&mut made, &mut folder);
    assert_ne!(made.cpus("machine.slice"), "");
    made.put("sys/devices/system/cpu/online", "0-3\n");
    made.steps(&mut folder, 1, 0);
    assert_eq!(
        (made.cpus("machine.slice").as_str(), folder.cpus()),
        ("", 4)
    );
}

#[test]
fn a_dry_run_changes_nothing() {
    let mut made = Made::new();
    let mut folder = Folder::new(made.host(), Bounds::default(), None).unwrap();
    let acts = made.steps(&mut folder, 5, 50);
    assert!(
        matches!(
            &acts[..],
            [Act {
                what: What::Run { dry: true, .. },
                ..
            }]
        ),
        "{acts:?}"
    );
    assert_eq!(made.cpus("user.slice"), "");
    let control = made
        .root
        .path()
        .join("sys/fs/cgroup/cgroup.subtree_control");
    assert_eq!(fs::read_to_string(control).unwrap(), "cpu memory\n");
}

#[test]
fn a_machine_without_steal_or_cpusets_gets_one_error() {
    let made = Made::new();
    made.put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
    let error = Folder::new(made.host(), Bounds::default(), None).unwrap_err();
    assert!(matches!(error, SteerError::NoCpuset(_)), "{error}");
    made.put("proc/stat", "cpu  1 2 3 4\n");
    let error = Folder::new(made.host(), Bounds::default(), None).unwrap_err();
    assert!(error.to_string().contains("shows no steal"), "{error}");
}
