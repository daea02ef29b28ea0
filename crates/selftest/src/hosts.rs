// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The boots of one engine's selftests: for each kernel and repetition one host of its own, so that
//! no repetition finds what an earlier one left behind.
//!
//! A boot takes a few seconds of the minute and more that the suite takes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use steady_agent::complaint::complaint;
use steady_agent::event::Event;
use steady_agent::frame::{Decoder, Frame};
use steady_agent::plan::PLAN_PATH;
use steady_lab::engine::watch::{self, Bounds};
use steady_lab::engine::{Boot, Engine, Processor, SERIAL, STREAM};
use steady_lab::{LabError, RunFault, translate};
use steady_lab_artifacts::ArtifactError;
use steady_lab_artifacts::image::tree;
use steady_lab_artifacts::kernel::{Build, Kernel};
use steady_lab_artifacts::process::interrupted;
use steady_lab_artifacts::selftests::Selftest;
use steady_race::{Watcher, replace};

use crate::report::KernelRun;
use crate::verdict::{self, TestResult};

/// pCPUs of the host: enough to migrate a vCPU and to run two beside each other.
const PCPUS: u32 = 2;
/// Memory of the host, in MiB: the image twice while it is unpacked, and the largest test.
const MEMORY_MIB: u32 = 768;

/// What one boot runs.
#[derive(Debug)]
pub struct Job<'a> {
    pub build: Build,
    pub kernel: &'a Kernel,
    pub repetition: u32,
    pub seed: u64,
}

/// What the boots of one engine share.
pub struct Hosts<'a> {
    pub engine: &'a Engine,
    pub processor: Processor,
    pub archive: &'a [u8],
    pub tests: &'a [Selftest],
    pub arguments: &'a [String],
    /// Words more for the hosts' command line.
    pub append: &'a [String],
    pub repetitions: u32,
    pub limit: Duration,
    /// Whether the limit is the user's, by the wall.
    pub wall: bool,
    pub out: &'a Path,
    pub watcher: &'a dyn Watcher,
    pub ended: AtomicU64,
    pub total: u64,
}

impl Hosts<'_> {
    /// What is done, for progress.
    pub fn what(&self) -> String {
        format!("selftests on {}", self.place())
    }

    /// Where it is done: the engine, and its processor if that is not the usual one.
    fn place(&self) -> String {
        let engine = self.engine.kind().name();
        let processor = self.processor.name();
        processor.map_or(engine.to_owned(), |name| format!("{engine}-{name}"))
    }

    /// As many beside each other as the engine bears. After Ctrl-C the runs that there are.
    ///
    /// # Errors
    /// The first error around a run; that of a run is in what it brought.
    pub fn run_all(&self, jobs: &[Job<'_>]) -> Result<Vec<KernelRun>, LabError> {
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let ended: Mutex<Vec<Result<KernelRun, LabError>>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..self.engine.beside().min(jobs.len()) {
                scope.spawn(|| {
                    while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                        if stop.load(Ordering::Relaxed) || interrupted() {
                            break;
                        }
                        let run = self.run_one(job);
                        stop.fetch_or(run.is_err(), Ordering::Relaxed);
                        ended.lock().expect("a run returns its errors").push(run);
                    }
                });
            }
        });
        let ended = ended.into_inner().expect("a run returns its errors");
        ended.into_iter().collect()
    }

    fn run_one(&self, job: &Job<'_>) -> Result<KernelRun, LabError> {
        let mut name = format!("{}-{}", self.place(), job.build.name());
        if self.repetitions > 1 {
            name = format!("{name}-r{}", job.repetition);
        }
        let work = self.out.join(format!(".{name}-{}", std::process::id()));
        fs::create_dir_all(&work).map_err(|error| LabError::io("make", &work, error))?;
        let lost = match self.emulate(job, &work) {
            Ok(()) | Err(watch::Failed::Lab(LabError::Interrupted)) => None,
            Err(watch::Failed::Run(fault)) => Some(fault.to_string()),
            Err(watch::Failed::Lab(error)) => {
                let _ = fs::remove_dir_all(&work);
                return Err(error);
            }
        };
        let tests = self.results(&work, lost.as_deref())?;
        let place = match lost {
            Some(_) => self.out.join(format!("{name}.failed")),
            None => self.out.join(&name),
        };
        let complaints = complaints(&work, &tests);
        replace(&work, &place).map_err(ArtifactError::from)?;
        Ok(KernelRun {
            kernel: job.build.name(),
            build: job.build,
            release: job.kernel.release.clone(),
            repetition: job.repetition,
            seed: job.seed,
            logs: place,
            lost,
            complaints,
            tests,
        })
    }

    fn emulate(&self, job: &Job<'_>, work: &Path) -> Result<(), watch::Failed> {
        let mut plan = crate::plan(self.tests, self.arguments, job.seed);
        let mut cmdline = translate::base_cmdline(self.engine);
        if job.kernel.checks_itself()? {
            cmdline = format!("{cmdline} {}", translate::HEAR_WARNINGS);
            translate::for_kernel_that_checks(&mut plan);
        }
        for word in self.append {
            cmdline = format!("{cmdline} {word}");
        }
        let json = serde_json::to_vec(&plan).expect("a plan is plain data");
        let plan = tree::single(PLAN_PATH.trim_start_matches('/'), &json);
        let boot = Boot {
            kernel: &job.kernel.image,
            archives: &[self.archive, &plan],
            cmdline: &cmdline,
            pcpus: PCPUS,
            smt: false,
            processor: self.processor,
            constant_tsc: job.kernel.is_preempt_rt()?,
            memory_mib: MEMORY_MIB,
            directory: work,
            terminal: None,
        };
        let start = self.engine.prepare(&boot)?;
        let step = |text: &str| {
            if text.ends_with(" ended") {
                let ended = self.ended.fetch_add(1, Ordering::Relaxed) + 1;
                self.watcher.progress(&self.what(), ended, self.total);
            }
        };
        let bounds = Bounds {
            limit: self.limit,
            of_cpu_time: !self.wall && !self.engine.kind().wall_clock(),
            silence: self.engine.kind().silence(),
            stop: &interrupted,
        };
        let ended = watch::run(&start, work, bounds, &step);
        for path in &start.scratch {
            let _ = fs::remove_file(path);
        }
        let ends = ended?.events.into_iter();
        let count = ends
            .filter(|(_, event)| matches!(event, Event::ProgramEnd(_)))
            .count();
        if count != self.tests.len() {
            let text = format!("{count} of {} tests were reported", self.tests.len());
            return Err(RunFault::Stream(text, String::new()).into());
        }
        Ok(())
    }

    /// What was reported, of a run that was lost too, and the logs of the tests.
    fn results(&self, work: &Path, lost: Option<&str>) -> Result<Vec<TestResult>, LabError> {
        let mut results = Vec::new();
        let mut running = None;
        for event in reported(work)? {
            match event {
                Event::ProgramBegin { program } => running = Some(program),
                Event::ProgramEnd(end) => {
                    running = None;
                    let log = work.join(format!("{}.log", end.program));
                    let text = format!("{}{}", end.output.stdout, end.output.stderr);
                    fs::write(&log, text).map_err(|error| LabError::io("write", &log, error))?;
                    let test = self.tests.iter().find(|test| test.name == end.program);
                    results.extend(test.map(|test| verdict::judge(test, &end)));
                }
                _ => {}
            }
        }
        if let (Some(how), Some(program)) = (lost, running) {
            let test = self.tests.iter().find(|test| test.name == program);
            results.extend(test.map(|test| verdict::lost(test, how)));
        }
        Ok(results)
    }
}

/// The events in the stream that a run left, up to where it ends or is damaged.
fn reported(work: &Path) -> Result<Vec<Event>, LabError> {
    let path: PathBuf = work.join(STREAM);
    let bytes = fs::read(&path).map_err(|error| LabError::io("read", &path, error))?;
    let mut decoder = Decoder::default();
    decoder.push(&bytes);
    let mut events = Vec::new();
    while let Ok(Some(frame)) = decoder.next_frame() {
        if let Frame::Event(event) = frame {
            events.push(*event);
        }
    }
    Ok(events)
}

/// What the console has of complaints that no test has.
fn complaints(work: &Path, tests: &[TestResult]) -> Vec<String> {
    let serial = fs::read(work.join(SERIAL)).unwrap_or_default();
    let of_tests = |text: &str| {
        let mut known = tests.iter().flat_map(|test| &test.complaints);
        known.any(|complaint| complaint == text)
    };
    String::from_utf8_lossy(&serial)
        .lines()
        .filter_map(complaint)
        .filter(|text| !of_tests(text))
        .map(str::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_agent::event::ProgramEnd;
    use steady_agent::frame::{Kind, encode};

    fn framed(event: &Event) -> Vec<u8> {
        encode(Kind::Event, &serde_json::to_vec(event).unwrap())
    }

    fn begin(program: &str) -> Event {
        Event::ProgramBegin {
            program: program.to_owned(),
        }
    }

    #[test]
    fn a_stream_that_was_cut_gives_what_had_been_reported() {
        let work = tempfile::tempdir().unwrap();
        let end = Event::ProgramEnd(Box::new(ProgramEnd {
            program: "one".to_owned(),
            output: steady_agent::channel::Output::default(),
            warnings: Vec::new(),
            tainted: false,
        }));
        let mut bytes = b"Bochs says a word".to_vec();
        bytes.extend(
            [begin("one"), end.clone(), begin("two")]
                .iter()
                .flat_map(framed),
        );
        bytes.extend(&framed(&begin("three"))[..20]);
        fs::write(work.path().join(STREAM), bytes).unwrap();
        let events = reported(work.path()).unwrap();
        assert_eq!(events, [begin("one"), end, begin("two")]);
    }

    #[test]
    fn a_complaint_of_the_console_that_a_test_has_is_not_told_twice() {
        let work = tempfile::tempdir().unwrap();
        let serial = "[ 0.5] WARNING: suspicious RCU usage\r\n[ 9.1] a word\r\n\
                      [ 9.5] BUG: sleeping function called from invalid context at x.c:1\r\n";
        fs::write(work.path().join(SERIAL), serial).unwrap();
        let selftest = Selftest {
            name: "one".to_owned(),
            limit_s: 1,
            own: false,
        };
        let mut test = verdict::lost(&selftest, "");
        assert_eq!(complaints(work.path(), &[test.clone()]).len(), 2);
        test.complaints =
            vec!["BUG: sleeping function called from invalid context at x.c:1".to_owned()];
        let left = complaints(work.path(), &[test]);
        assert_eq!(left, ["WARNING: suspicious RCU usage"]);
    }
}
