// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What takes a recording away, however its process ends.
//!
//! Three layers, because nothing runs in a process that is killed outright (SIGKILL):
//! - **A guard**: a shell in a process group of its own that waits for the end of a pipe, which the
//!   kernel closes with the recorder. It then switches the events off and removes the instance and
//!   the probes. A recorder that ends well uses the same way.
//! - **The kernel**, if the guard was killed too (a control group that was killed as a whole):
//!   `free_buffer` with `disable_on_free` stops the tracing and frees the ring's memory at the
//!   recorder's end (Documentation/trace/ftrace.rst).
//! - **The next recording** removes what is then left: an instance's name has the process and its
//!   start, so that a dead one's is known.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

/// Begins the name of every instance.
const PREFIX: &str = "steady-";
/// How long the guard may take, which itself tries for ten seconds.
const LIMIT: Duration = Duration::from_secs(15);
/// Words: tracefs, the instance's name, the probes (`group/event`).
const SCRIPT: &str = r#"trap '' INT TERM HUP
read -r end
cd "$1" || exit 1
i="instances/$2"
echo 0 >"$i/tracing_on"
: >"$i/set_event"
n=0
while [ -d "$i" ] && [ $n -lt 100 ]; do
	rmdir "$i" && break
	n=$((n + 1))
	sleep 0.1
done
shift 2
for probe; do echo "-:$probe" >>kprobe_events; done"#;

/// The process that takes the recording away.
#[derive(Debug)]
pub(crate) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    pub fn start(tracefs: &Path, instance: &str, probes: &[String]) -> io::Result<Self> {
        let mut child = Command::new("/bin/sh")
            .args(["-c", SCRIPT, "steady-guard"])
            .arg(tracefs)
            .arg(instance)
            .args(probes)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let pipe = child.stdin.take();
        assert!(pipe.is_some(), "a piped child has a pipe");
        Ok(Self { child, pipe })
    }

    /// Lets it take the recording away, whose files must be closed, and waits for that.
    pub fn end(&mut self) {
        drop(self.pipe.take());
        let begun = Instant::now();
        while begun.elapsed() < LIMIT && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The name of this process's instance; `number` distinguishes several.
pub(crate) fn name(number: u64) -> String {
    let process = std::process::id();
    let start = started(Path::new("/proc"), process).unwrap_or(0);
    format!("{PREFIX}{process}-{start}-{number}")
}

/// When a process began, in clock ticks after boot (field 22 of its `stat`, proc(5)).
fn started(proc: &Path, process: u32) -> Option<u64> {
    let stat = fs::read_to_string(proc.join(process.to_string()).join("stat")).ok()?;
    // Its name may hold blanks and brackets; the last bracket ends it.
    let behind = stat.rsplit_once(')')?.1;
    behind.split_whitespace().nth(19)?.parse().ok()
}

/// Removes instances of recorders that are gone, and the probes `group` if no recorder is left.
/// How many instances there were.
pub(crate) fn sweep(tracefs: &Path, proc: &Path, group: &str) -> usize {
    let entries = fs::read_dir(tracefs.join("instances"));
    let (mut dead, mut alive) = (0, 0);
    for entry in entries.into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let Some(rest) = name.strip_prefix(PREFIX) else {
            continue;
        };
        let mut numbers = rest.split('-').map(str::parse::<u64>);
        let (Some(Ok(process)), Some(Ok(start))) = (numbers.next(), numbers.next()) else {
            continue;
        };
        let process = u32::try_from(process).unwrap_or(0);
        if started(proc, process) == Some(start) {
            alive += 1;
            continue;
        }
        let folder = entry.path();
        let _ = fs::write(folder.join("tracing_on"), "0");
        let _ = fs::write(folder.join("set_event"), "");
        dead += usize::from(fs::remove_dir(&folder).is_ok());
    }
    if dead > 0 && alive == 0 {
        let probes = tracefs.join("kprobe_events");
        let set = fs::read_to_string(&probes).unwrap_or_default();
        let of_group = |line: &str| {
            let event = line.split_whitespace().next()?.split_once(':')?.1;
            event
                .starts_with(&format!("{group}/"))
                .then(|| event.to_owned())
        };
        for event in set.lines().filter_map(of_group) {
            let _ = append(&probes, &format!("-:{event}"));
        }
    }
    dead
}

/// Writes one line behind what a file of tracefs has.
pub(crate) fn append(path: &Path, line: &str) -> io::Result<()> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().append(true).open(path)?;
    file.write_all(format!("{line}\n").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_dead_ones_instances_are_swept() {
        let place = tempfile::tempdir().unwrap();
        let (trace, proc) = (place.path().join("t"), place.path().join("p"));
        fs::create_dir_all(proc.join("7")).unwrap();
        let fields: Vec<String> = (3..=24).map(|at| (at * 100).to_string()).collect();
        fs::write(
            proc.join("7/stat"),
            format!("7 (a ) b) {}", fields.join(" ")),
        )
        .unwrap();
        assert_eq!(started(&proc, 7), Some(2200));
        let names = [
            "steady-7-2200-0",
            "steady-7-2100-0",
            "steady-8-1-0",
            "other",
            "steady-x",
        ];
        for name in names {
            fs::create_dir_all(trace.join("instances").join(name)).unwrap();
        }
        sweep(&trace, &proc, "steady");
        // A plain folder keeps what was written to it, and is not empty then.
        let touched = |name: &&str| {
            trace
                .join("instances")
                .join(name)
                .join("tracing_on")
                .exists()
        };
        let touched: Vec<&str> = names.into_iter().filter(touched).collect();
        assert_eq!(touched, ["steady-7-2100-0", "steady-8-1-0"]);
    }
}
