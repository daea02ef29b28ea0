// SPDX-License-Identifier: Apache-2.0 OR MIT
//! An emulated host to look around in: a shell, or a program of the user's own.
//!
//! The host boots the same kernel on the same engine as in a race, with a small init of its own
//! ([`INIT`]) and busybox in place of our agent. In it are the VMM and the kernel for guests. A
//! program's words come over the serial console, between two lines of the init; its exit code is
//! in the second. Left out: a network, and disks.

mod console;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;
use std::time::{Duration, Instant};

use steady_lab_artifacts::image::tree::{self, Added};
use steady_lab_artifacts::kernel::{self, Build, Choice, Flavor, Kernel, Series};
use steady_lab_artifacts::need::artifacts::{self, Extras};
use steady_lab_artifacts::need::{self, Need};
use steady_lab_artifacts::process::{Supervised, interrupted};
use steady_lab_artifacts::{ArtifactError, Home, programs};
use steady_race::{ThisMachine, Watcher, check_room};

use crate::engine::{
    Boot, EMULATOR_LOG, EMULATOR_OUT, Engine, EngineKind, Processor, SERIAL, STREAM, Start,
};
use crate::error::{LabError, RunFault};
use crate::translate;
use console::Console;

/// The host's init.
const INIT: &[u8] = include_bytes!("init.sh");
/// How often the serial console is read.
const POLL: Duration = Duration::from_millis(50);

/// What `steady host` boots.
#[derive(Debug, Clone)]
pub struct Options {
    /// The engine.
    pub engine: EngineKind,
    /// The kernel.
    pub kernel: HostKernel,
    /// Physical CPUs, 1 to the engine's most.
    pub pcpus: u32,
    /// Whether two of them are the threads of one core; their number is even then.
    pub smt: bool,
    /// Memory, in MiB.
    pub memory_mib: u32,
    /// More words for the kernel's command line.
    pub append: Vec<String>,
    /// Files for the host's image.
    pub add: Vec<Added>,
    /// What runs in place of a shell: a script or a program.
    pub run: Option<Vec<u8>>,
    /// Folder for what is booted and for the logs, `host/<engine>` below it.
    pub out: PathBuf,
    /// Longest time for [`Options::run`].
    pub limit: Duration,
}

/// Which kernel the host boots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostKernel {
    /// Without our series.
    Stock(Flavor),
    /// As `steady run --kernel` takes it.
    Patched(Choice),
}

impl FromStr for HostKernel {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_stock = |&flavor: &Flavor| {
            let series = Series::Stock;
            Build { series, flavor }.name() == text
        };
        let stock = Flavor::ALL.into_iter().find(is_stock);
        stock.map_or_else(|| text.parse().map(Self::Patched), |it| Ok(Self::Stock(it)))
    }
}

impl HostKernel {
    fn ensure(&self, home: &Home, watcher: &dyn Watcher) -> Result<Kernel, ArtifactError> {
        let build = |series, flavor| Build { series, flavor };
        match self {
            Self::Stock(flavor) => kernel::ensure(home, build(Series::Stock, *flavor), watcher),
            Self::Patched(Choice::Built(flavor)) => {
                kernel::ensure(home, build(Series::Patched, *flavor), watcher)
            }
            Self::Patched(Choice::Given(folder)) => kernel::given(folder),
            Self::Patched(Choice::Packaged(package)) => {
                kernel::package::ensure(home, package, watcher)
            }
            Self::Patched(Choice::Ported(port)) => kernel::port::ensure(home, port, watcher),
        }
    }
}

/// What a host to look around in needs of this machine.
#[must_use]
pub fn needs(home: &Home, engine: EngineKind, kernel: &HostKernel) -> Vec<Need> {
    let mut needs = engine.needs(home);
    needs.extend(match kernel {
        HostKernel::Stock(flavor) => {
            let (series, flavor) = (Series::Stock, *flavor);
            artifacts::kernel(home, Build { series, flavor })
        }
        HostKernel::Patched(choice) => artifacts::chosen_kernel(home, choice),
    });
    needs.extend(artifacts::own_programs(home));
    needs.extend(artifacts::extras(&Extras {
        shell: true,
        ..Extras::default()
    }));
    needs
}

/// A host that can be started.
#[derive(Debug)]
pub struct Host {
    start: Start,
    directory: PathBuf,
    limit: Duration,
}

impl Host {
    /// Builds what is missing and writes what is booted. `terminal` is the user's, where a shell
    /// has it; without one the console goes to a file.
    ///
    /// # Errors
    /// [`LabError::Beyond`] for more than the engine has, [`LabError::Artifact`] for what is not
    /// installed, and what the builds can fail with.
    pub fn prepare(
        home: &Home,
        options: &Options,
        terminal: Option<&Path>,
        watcher: &dyn Watcher,
    ) -> Result<Self, LabError> {
        check(options)?;
        need::require(needs(home, options.engine, &options.kernel))?;
        let directory = std::path::absolute(&options.out)
            .map_err(|error| LabError::io("find", &options.out, error))?
            .join("host")
            .join(options.engine.name());
        fs::create_dir_all(&directory).map_err(|error| LabError::io("make", &directory, error))?;
        check_room(&ThisMachine, &directory).map_err(ArtifactError::from)?;
        // The words of an earlier host would be taken for this one's.
        for old in [SERIAL, STREAM, EMULATOR_LOG, EMULATOR_OUT] {
            let _ = fs::remove_file(directory.join(old));
        }
        let mut engine = options.engine.find(home, watcher)?;
        let ours = programs::ensure(home, watcher)?;
        engine.calibrate(&ours.agent)?;
        let kernel = options.kernel.ensure(home, watcher)?;
        let mut archive = tree::host_to_look_around(&ours, &kernel, INIT, &options.add)?;
        if let Some(run) = &options.run {
            archive.extend(tree::program("lab/run", run));
        }
        let start = engine.prepare(&Boot {
            kernel: &kernel.image,
            archives: &[&archive],
            cmdline: &cmdline(&engine, &options.append),
            pcpus: options.pcpus,
            smt: options.smt,
            processor: Processor::Usual,
            constant_tsc: kernel.is_preempt_rt()?,
            memory_mib: options.memory_mib,
            directory: &directory,
            terminal,
        })?;
        Ok(Self {
            start,
            directory,
            limit: options.limit,
        })
    }

    /// The emulator's command line, for a shell.
    #[must_use]
    pub fn command_line(&self) -> String {
        let words = std::iter::once(self.start.program.display().to_string())
            .chain(self.start.arguments.iter().cloned());
        let quoted: Vec<String> = words.map(|word| quoted(&word)).collect();
        let directory = quoted_path(&self.directory);
        format!("cd {directory} && {}", quoted.join(" "))
    }

    /// Gives the terminal to the emulator and waits for its end, however long the user stays.
    ///
    /// # Errors
    /// [`LabError::Artifact`] if the emulator cannot be started, [`LabError::Run`] if it fails.
    pub fn shell(&self) -> Result<(), LabError> {
        let status = Command::new(&self.start.program)
            .args(&self.start.arguments)
            .current_dir(&self.directory)
            .status()
            .map_err(|error| LabError::io("start", &self.start.program, error))?;
        self.remove_scratch();
        if (status.code()).is_some_and(|code| self.start.ends_with.contains(&code)) {
            return Ok(());
        }
        Err(self.failed(RunFault::EmulatorEnded {
            status: status.to_string(),
            by_itself: false,
            step: "a shell".to_owned(),
            disk: String::new(),
        }))
    }

    /// Runs the program, hands its words to `say` as they come, and returns its exit code.
    ///
    /// # Errors
    /// [`LabError::Run`] if the host did not come to the program's end within the limit,
    /// [`LabError::Artifact`], [`LabError::Interrupted`], and what `say` fails with.
    pub fn program(
        &self,
        say: &mut dyn FnMut(&[u8]) -> std::io::Result<()>,
    ) -> Result<u8, LabError> {
        let out = self.directory.join(self.start.stdout);
        let err = self.directory.join(self.start.stderr);
        let (program, arguments) = (&self.start.program, &self.start.arguments);
        let mut emulator = Supervised::start(program, arguments, &self.directory, &out, &err)?;
        let serial = self.directory.join(SERIAL);
        let mut console = Console::default();
        let begun = Instant::now();
        let ended = loop {
            let ended = emulator.ended()?;
            let heard = console.read(&serial)?;
            say(&heard).map_err(|error| LabError::io("write", Path::new("the output"), error))?;
            if console.code().is_some() || ended.is_some() {
                break ended;
            }
            if interrupted() {
                return Err(LabError::Interrupted);
            }
            if begun.elapsed() > self.limit {
                emulator.kill();
                return Err(self.failed(RunFault::TimeLimit {
                    limit: self.limit,
                    step: console.step().to_owned(),
                }));
            }
            std::thread::sleep(POLL);
        };
        emulator.kill();
        self.remove_scratch();
        if let Some(code) = console.code() {
            return Ok(code);
        }
        let fault = match (console.panic(), ended) {
            (Some(line), _) => RunFault::HostPanic { line },
            (None, ended) => RunFault::EmulatorEnded {
                status: ended.map_or_else(String::new, |status| status.to_string()),
                by_itself: ended.is_some_and(|status| status.success()),
                step: console.step().to_owned(),
                disk: String::new(),
            },
        };
        Err(self.failed(fault))
    }

    fn failed(&self, fault: RunFault) -> LabError {
        LabError::Run {
            variant: "host".to_owned(),
            fault: Box::new(fault),
            logs: self.directory.clone(),
        }
    }

    fn remove_scratch(&self) {
        for path in &self.start.scratch {
            let _ = fs::remove_file(path);
        }
    }
}

/// The kernel's command line: that of every host, our init, and the user's words. The console is
/// faster than that of a race, which says almost nothing: Bochs keeps to its rate.
fn cmdline(engine: &Engine, append: &[String]) -> String {
    let base = translate::base_cmdline(engine).replacen("ttyS0", "ttyS0,115200", 1);
    let mut words = vec![base, "rdinit=/lab/init".into()];
    words.extend(append.iter().cloned());
    words.join(" ")
}

fn check(options: &Options) -> Result<(), LabError> {
    let beyond = |what: String, limit: String| LabError::Beyond {
        scenario: "of steady host".to_owned(),
        what,
        limit,
    };
    let (name, most) = (options.engine.name(), options.engine.most_pcpus());
    if options.pcpus > most {
        return Err(beyond(
            format!("{} pCPUs", options.pcpus),
            format!("the engine {name} has at most {most}: lower --pcpus"),
        ));
    }
    if options.smt && options.pcpus % 2 == 1 {
        return Err(beyond(
            format!("{} pCPUs with --smt", options.pcpus),
            "each core has two: give --pcpus an even number".to_owned(),
        ));
    }
    match options.engine.most_memory_mib() {
        Some(most) if options.memory_mib > most => Err(beyond(
            format!("{} MiB of memory", options.memory_mib),
            format!("the engine {name} has at most {most}: lower --memory-mib"),
        )),
        _ => Ok(()),
    }
}

/// A word as a shell reads it.
fn quoted(word: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./,=:+@%".contains(&byte);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

fn quoted_path(path: &Path) -> String {
    quoted(&path.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_with_blanks_or_quotes_is_one_word_for_a_shell() {
        assert_eq!(quoted("-nodefaults"), "-nodefaults");
        assert_eq!(quoted("quiet panic=-1"), "'quiet panic=-1'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_stock_kernel_and_those_of_a_race_are_kernels_of_a_host() {
        assert_eq!("stock".parse(), Ok(HostKernel::Stock(Flavor::Lab)));
        assert_eq!("stock-rt".parse(), Ok(HostKernel::Stock(Flavor::Rt)));
        assert_eq!(
            "debug".parse(),
            Ok(HostKernel::Patched(Choice::Built(Flavor::Debug)))
        );
        assert!("nosuch".parse::<HostKernel>().is_err());
    }
}
