// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One VM of the emulated host: its VMM process, the channel to its guest, how it ended.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use steady_agent::channel::{FromGuest, ToGuest};
use steady_agent::event::{Fault, FaultKind};
use steady_agent::plan::{VmPlan, Vmm};

use super::cgroup;
use super::counters::Threads;
use super::sched_ext::Loaded;
use super::{host_fault, vmm};
use crate::system::{self, Doing, Failure};

/// How often a wait looks whether its time is over.
const POLL: Duration = Duration::from_millis(250);
/// How long the guest may leave a word unread; words fit the socket's buffer unless many wait.
const SAY_LIMIT: Duration = Duration::from_secs(30);
/// How long a VMM may take to end once its guest has said goodbye.
const END_LIMIT_NS: u64 = 10_000_000_000;

/// How long a word that has begun may pause. Each byte is an exit of its VM, so that a long word
/// takes minutes on an emulated host.
const GAP_LIMIT_NS: u64 = 30_000_000_000;
/// Longest word in bytes: the longest output, a byte of which is at most six in JSON, and more.
const WORD_MAX: usize = 8 << 20;

/// A running VM.
#[derive(Debug)]
pub struct Vm {
    /// What was asked for.
    pub plan: VmPlan,
    child: Child,
    stream: UnixStream,
    buffer: Vec<u8>,
    gap_limit_ns: u64,
    files: Files,
    /// The BPF scheduler of the host.
    scheduler: Option<Arc<Loaded>>,
}

/// The files of one VM.
#[derive(Debug, Clone)]
pub struct Files {
    /// The guest's console.
    pub console: PathBuf,
    /// The socket of the guest's `ttyS1`.
    pub channel: PathBuf,
    /// What `steady-vmm` reports at its end.
    pub report: PathBuf,
    /// What the VMM says.
    pub said: PathBuf,
    /// The disk image.
    pub disk: PathBuf,
}

impl Files {
    pub(super) fn of(name: &str) -> Self {
        let path = |end: &str| PathBuf::from(format!("/run/{name}.{end}"));
        Self {
            console: path("console"),
            channel: path("channel"),
            report: path("report"),
            said: path("vmm"),
            disk: path("disk"),
        }
    }
}

impl Vm {
    /// Starts the VMM and connects to its guest's channel.
    pub fn start(
        vmm: Vmm,
        plan: &VmPlan,
        scheduler: Option<Arc<Loaded>>,
        deadline_ns: u64,
    ) -> Result<Self, Failure> {
        let files = Files::of(&plan.name);
        if let Some(size_mib) = plan.disk_mib {
            make_disk(&files, size_mib)?;
        }
        let (program, arguments) = vmm::command(vmm, plan, &files);
        let said =
            fs::File::create(&files.said).doing(|| format!("create {}", files.said.display()))?;
        let mut command = Command::new(program);
        command
            .args(&arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said);
        let mut child = command.spawn().doing(|| format!("start {program}"))?;
        cgroup::enter(plan, child.id())?;
        let stream = connect(&mut child, &files, deadline_ns)?;
        stream
            .set_read_timeout(Some(POLL))
            .and_then(|()| stream.set_write_timeout(Some(SAY_LIMIT)))
            .doing(|| "set a time limit on the channel".into())?;
        Ok(Self {
            plan: plan.clone(),
            child,
            stream,
            buffer: Vec::new(),
            gap_limit_ns: GAP_LIMIT_NS,
            files,
            scheduler,
        })
    }

    /// The VMM's threads; the guest must be up.
    pub fn threads(&self) -> Result<Threads, Failure> {
        let threads = Threads::find(self.child.id(), self.plan.vcpus)?;
        cgroup::split(&self.plan, &threads)?;
        Ok(threads)
    }

    /// Says a word to the guest.
    pub fn say(&mut self, word: &ToGuest) -> Result<(), Box<Fault>> {
        let mut text = serde_json::to_vec(word)
            .map_err(|error| self.fault(FaultKind::Host, error.to_string()))?;
        text.push(b'\n');
        self.stream
            .write_all(&text)
            .map_err(|error| match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut => self.fault(
                    FaultKind::GuestSilent,
                    format!("it has read nothing for {SAY_LIMIT:?}"),
                ),
                _ => self.gone(&format!("write to its channel: {error}")),
            })
    }

    /// The guest's next word, or a fault when it does not begin by `deadline_ns`, pauses for too
    /// long, has no end, or the VM or the host's BPF scheduler ends.
    pub fn hear(
        &mut self,
        mut deadline_ns: u64,
        waiting_for: &str,
    ) -> Result<FromGuest, Box<Fault>> {
        let (mut searched, mut late) = (0, false);
        loop {
            // What came before is not searched again: a long word comes in many pieces.
            let came = &self.buffer[searched..];
            if let Some(end) = came.iter().position(|&byte| byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=searched + end).collect();
                return match serde_json::from_slice(&line) {
                    Ok(FromGuest::Fault { text }) => Err(self.fault(FaultKind::Workload, text)),
                    Ok(word) => Ok(word),
                    Err(error) => Err(self.fault(
                        FaultKind::GuestSilent,
                        format!("its channel brought something else than a word: {error}"),
                    )),
                };
            }
            searched = self.buffer.len();
            // A part of a word is no answer: what follows may never come.
            if late || searched > WORD_MAX {
                let text = format!(
                    "no whole answer in time ({searched} bytes of it came) while waiting for \
                     {waiting_for}"
                );
                return Err(self.fault(FaultKind::GuestSilent, text));
            }
            let mut piece = [0; 16 << 10];
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(self.gone("its channel was closed")),
                Ok(count) => {
                    self.buffer.extend_from_slice(&piece[..count]);
                    deadline_ns = deadline_ns.max(system::now_ns() + self.gap_limit_ns);
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                    ) =>
                {
                    let ended = self.scheduler.as_deref().and_then(Loaded::fault);
                    ended.map_or(Ok(()), |failure| Err(host_fault(failure)))?;
                }
                Err(error) => return Err(self.gone(&format!("its channel: {error}"))),
            }
            late = system::now_ns() > deadline_ns;
        }
    }

    /// A fault of this VM with the end of its console.
    pub fn fault(&self, kind: FaultKind, text: String) -> Box<Fault> {
        let console = String::from_utf8_lossy(&fs::read(&self.files.console).unwrap_or_default())
            .into_owned();
        Box::new(Fault {
            kind,
            vm: Some(self.plan.name.clone()),
            text,
            console_tail: system::tail(&console, 2000).to_owned(),
        })
    }

    /// The VM has gone: finds out how.
    fn gone(&mut self, seen: &str) -> Box<Fault> {
        let status = match self.wait_end(END_LIMIT_NS) {
            Ok(status) => status,
            Err(failure) => failure.to_string(),
        };
        let console = String::from_utf8_lossy(&fs::read(&self.files.console).unwrap_or_default())
            .into_owned();
        let report = fs::read_to_string(&self.files.report).unwrap_or_default();
        let (kind, text) = vmm::diagnose(&report, &console);
        let said = system::read_trimmed(&self.files.said);
        let said = system::tail(&said, 500);
        let text = text.unwrap_or_else(|| format!("{seen}; VMM: {status}; {said}"));
        self.fault(kind, text)
    }

    /// The fault of a VM whose VMM has ended in failure, or does so within half a second.
    pub fn lost(&mut self) -> Option<Box<Fault>> {
        for _ in 0..50 {
            match self.child.try_wait() {
                Ok(Some(status)) if status.success() => return None,
                Ok(Some(_)) => return Some(self.gone("it has ended")),
                _ => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        None
    }

    /// Waits for the VMM to end after the guest's goodbye; tells its exit status.
    pub fn wait_end(&mut self, limit_ns: u64) -> Result<String, Failure> {
        let deadline_ns = system::now_ns() + limit_ns;
        loop {
            if let Some(status) = self.child.try_wait().doing(|| "wait for the VMM".into())? {
                return Ok(status.to_string());
            }
            if system::now_ns() > deadline_ns {
                self.kill();
                return Err(Failure::new("the VMM did not end and was killed"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Lets the guest stop and the VMM end; the rest of the limit is killed.
    pub fn stop(&mut self, deadline_ns: u64) -> Result<Option<FromGuest>, Box<Fault>> {
        self.say(&ToGuest::Stop)?;
        let mut output = None;
        loop {
            match self.hear(deadline_ns, "its goodbye")? {
                FromGuest::Bye => break,
                word => output = Some(word),
            }
        }
        self.wait_end(END_LIMIT_NS)
            .map_err(|failure| self.fault(FaultKind::Vmm, failure.to_string()))?;
        Ok(output)
    }

    /// Ends the VMM now: first politely, so that it writes its report.
    pub fn kill(&mut self) {
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
        }
        for _ in 0..50 {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Its files, for those that are sent to the lab.
    pub fn files(&self) -> &Files {
        &self.files
    }
}

/// Connects to the channel, which the VMM opens when the VM is made.
fn connect(child: &mut Child, files: &Files, deadline_ns: u64) -> Result<UnixStream, Failure> {
    loop {
        let error = match UnixStream::connect(&files.channel) {
            Ok(stream) => return Ok(stream),
            Err(error) => error,
        };
        let ended = child.try_wait().doing(|| "wait for the VMM".into())?;
        if ended.is_some() || system::now_ns() > deadline_ns {
            let how = ended.map_or("still runs".to_owned(), |status| status.to_string());
            let said = system::read_trimmed(&files.said);
            let said = system::tail(&said, 500);
            return Err(Failure::new(format!(
                "it opened no channel ({error}; {how}); it said: {said}"
            )));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn make_disk(files: &Files, size_mib: u32) -> Result<(), Failure> {
    let what = || format!("make {}", files.disk.display());
    let disk = fs::File::create(&files.disk).doing(what)?;
    disk.set_len(u64::from(size_mib) << 20).doing(what)?;
    // Fixed identifiers: the same plan makes the same bytes.
    let options = "lazy_itable_init=1,hash_seed=00000000-0000-4000-8000-000000000002";
    let made = Command::new("/usr/sbin/mke2fs")
        .args([
            "-q",
            "-F",
            "-t",
            "ext4",
            "-U",
            "00000000-0000-4000-8000-000000000001",
            "-E",
            options,
        ])
        .arg(&files.disk)
        .output()
        .doing(|| "start mke2fs".into())?;
    if made.status.success() {
        return Ok(());
    }
    Err(Failure::new(format!(
        "mke2fs: {}; {}",
        made.status,
        String::from_utf8_lossy(&made.stderr)
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_agent::plan::Grouping;

    /// A VM whose VMM only sleeps, and the guest's end of its channel.
    fn vm() -> (Vm, UnixStream) {
        let (stream, guest) = UnixStream::pair().unwrap();
        stream.set_read_timeout(Some(POLL)).unwrap();
        let plan = VmPlan {
            name: "test".to_owned(),
            vcpus: 1,
            memory_mib: 64,
            pin: None,
            cpu_weight: 100,
            cgroup: Grouping::None,
            cpu_max_us: None,
            disk_mib: None,
            kernel: None,
            cmdline: String::new(),
            start_delay_us: 0,
            background: false,
            pv: std::collections::BTreeMap::new(),
            shown: steady_agent::plan::Shown::Kvm,
            mwait: false,
            halts: false,
            hidden_features: Vec::new(),
            beside: Vec::new(),
            links: Vec::new(),
            workloads: Vec::new(),
        };
        let vm = Vm {
            child: Command::new("sleep").arg("300").spawn().unwrap(),
            files: Files::of("no-such-vm"),
            plan,
            stream,
            buffer: Vec::new(),
            gap_limit_ns: GAP_LIMIT_NS,
            scheduler: None,
        };
        (vm, guest)
    }

    #[test]
    fn a_word_of_which_only_a_part_comes_is_waited_for_within_the_limit() {
        let (mut vm, mut guest) = vm();
        guest.write_all(b"\"prep").unwrap();
        vm.gap_limit_ns = 1_000_000;
        let heard = vm.hear(system::now_ns() + 1_000_000, "a word");
        vm.kill();
        assert_eq!(heard.unwrap_err().kind, FaultKind::GuestSilent);
    }

    #[test]
    fn a_word_that_goes_on_coming_is_waited_for_but_is_not_endless() {
        let said = |bytes: usize| {
            let mut word = b"{\"fault\":{\"text\":\"".to_vec();
            word.resize(bytes, b'x');
            word.extend(b"\"}}\n");
            word
        };
        let begun = std::time::Instant::now();
        // The limit has passed when the first part comes; the last is a word too, but too long.
        for (bytes, kind) in [
            (1 << 20, FaultKind::Workload),
            (WORD_MAX + (1 << 20), FaultKind::GuestSilent),
        ] {
            let (mut vm, mut guest) = vm();
            let word = said(bytes);
            guest.write_all(&word[..60_000]).unwrap();
            let writer = std::thread::spawn(move || {
                std::thread::sleep(POLL / 4);
                let mut pieces = word[60_000..].chunks(16);
                let _ = pieces.try_for_each(|piece| guest.write_all(piece));
            });
            let heard = vm.hear(system::now_ns(), "a word");
            vm.kill();
            assert_eq!(heard.unwrap_err().kind, kind, "{bytes} bytes");
            drop(vm);
            writer.join().unwrap();
        }
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "pieces are searched once"
        );
    }

    #[test]
    fn a_wait_ends_soon_after_the_hosts_scheduler_has() {
        let folder = std::env::temp_dir().join(format!("steady-hear-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let state = folder.join("state");
        fs::write(&state, "enabled").unwrap();
        let loaded = Loaded::shown_in(&folder);
        let (mut vm, _guest) = vm();
        vm.scheduler = Some(Arc::new(loaded));
        let writer = std::thread::spawn(move || {
            std::thread::sleep(POLL / 2);
            fs::write(&state, "disabled").unwrap();
        });
        let limit_ns = 100_000_000_000;
        let deadline_ns = system::now_ns() + limit_ns;
        let heard = vm.hear(deadline_ns, "a word");
        vm.kill();
        writer.join().unwrap();
        fs::remove_dir_all(&folder).unwrap();
        let fault = heard.unwrap_err();
        assert_eq!(fault.kind, FaultKind::Host);
        assert!(fault.text.contains("BPF scheduler"), "{}", fault.text);
        assert!(system::now_ns() < deadline_ns, "long before the limit");
    }

    #[test]
    fn a_word_that_came_in_time_is_heard_behind_the_limit_too() {
        let (mut vm, mut guest) = vm();
        guest.write_all(b"\"prepared\"\n\"e").unwrap();
        let heard = vm.hear(0, "a word");
        vm.kill();
        assert_eq!(heard.unwrap(), FromGuest::Prepared);
    }

    #[test]
    fn a_vm_is_lost_whose_vmm_failed_and_not_one_that_runs_or_has_ended_well() {
        let (mut running, _guest) = vm();
        assert!(running.lost().is_none());
        running.kill();
        for (program, lost) in [("false", true), ("true", false)] {
            let (mut ended, _guest) = vm();
            ended.kill();
            ended.child = Command::new(program).spawn().unwrap();
            assert_eq!(ended.lost().is_some(), lost, "{program}");
        }
    }
}
