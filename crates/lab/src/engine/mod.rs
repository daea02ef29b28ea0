// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The emulated hosts: how each emulator is started, and how its run is watched to the end.

pub mod bochs;
pub mod machine;
pub mod qemu;
pub mod receive;
pub mod watch;

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use steady_lab_artifacts::Home;
use steady_lab_artifacts::need::Need;
use steady_measures::Clock;
use steady_race::{Info, Watcher};

use crate::error::LabError;

/// A processor of emulated hosts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Processor {
    /// The engine's own.
    #[default]
    Usual,
    /// One that delivers a guest's interrupts itself.
    Apicv,
    /// AMD's that gives the address of the next instruction at a VM exit (NRIPS), where the usual
    /// one is Intel's. For selftests: no Linux guest comes up in Bochs's.
    Amd,
}

impl Processor {
    /// Its name in commands and logs; none of the usual one.
    #[must_use]
    pub fn name(self) -> Option<&'static str> {
        match self {
            Self::Usual => None,
            Self::Apicv => Some("apicv"),
            Self::Amd => Some("amd"),
        }
    }
}

/// What is known of an engine of the lab before anything of it is there.
#[derive(Debug, Clone, Copy)]
pub struct EngineKind {
    name: &'static str,
    description: &'static str,
    clock: Clock,
    most_pcpus: u32,
    /// Its processors beside the usual one.
    processors: &'static [Processor],
    most_memory_mib: Option<u32>,
    silence: Duration,
    retries_lost: Option<&'static str>,
    find: Find,
    /// What its emulator needs of this machine.
    needs: fn(&Home) -> Vec<Need>,
}

/// Finds or builds an emulator.
type Find = fn(&Home, &dyn Watcher) -> Result<Box<dyn Emulator>, LabError>;

/// The engines of the lab.
pub const KINDS: [EngineKind; 2] = [qemu::KIND, bochs::KIND];

impl EngineKind {
    /// The engine of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        KINDS.into_iter().find(|kind| kind.name == name)
    }

    /// Its name in commands and results.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Most pCPUs that it can emulate.
    #[must_use]
    pub fn most_pcpus(self) -> u32 {
        self.most_pcpus
    }

    /// Whether it has such a processor.
    #[must_use]
    pub fn has(self, processor: Processor) -> bool {
        processor == Processor::Usual || self.processors.contains(&processor)
    }

    /// Most memory of an emulated host, in MiB, where the emulator itself has a limit.
    #[must_use]
    pub fn most_memory_mib(self) -> Option<u32> {
        self.most_memory_mib
    }

    /// How long its emulator may run or sleep without a sign of life of the host.
    #[must_use]
    pub fn silence(self) -> Duration {
        self.silence
    }

    /// Whether its clock is the wall, so that what runs beside it shows in its measures.
    #[must_use]
    pub fn wall_clock(self) -> bool {
        self.clock == Clock::Wall
    }

    /// What a race has to know of it.
    #[must_use]
    pub fn info(self) -> Info {
        Info {
            name: self.name,
            description: self.description,
            clock: self.clock,
            retries_lost: self.retries_lost,
        }
    }

    /// What its emulator needs of this machine.
    #[must_use]
    pub fn needs(self, home: &Home) -> Vec<Need> {
        (self.needs)(home)
    }

    /// Finds or builds its emulator.
    ///
    /// # Errors
    /// [`LabError::Artifact`], and what a build can fail with.
    pub fn find(self, home: &Home, watcher: &dyn Watcher) -> Result<Engine, LabError> {
        Ok(Engine {
            kind: self,
            emulator: (self.find)(home, watcher)?,
        })
    }
}

/// How often a lost run is tried again where the emulator is known to lose some, or the kernels are
/// of a release. A fault that comes now and then may then pass as a warning.
pub(crate) const MOST_TRIES: u32 = 3;

/// A program that emulates hosts.
pub trait Emulator: Debug + Send + Sync {
    /// Its version.
    fn version(&self) -> String;

    /// The variable of the environment that chooses it again, `NAME=value`; none if it is what
    /// is chosen anyhow.
    fn environment(&self) -> Option<String>;

    /// How often a run that was lost is tried again, where the engine's kind has that.
    fn more_tries(&self) -> u32 {
        1
    }

    /// Words that every host of it needs on its kernel's command line.
    fn host_words(&self) -> String;

    /// Finds out what only our init program can say of this machine.
    ///
    /// # Errors
    /// [`LabError::Artifact`] if the program cannot be run or says something else.
    fn calibrate(&mut self, agent: &Path) -> Result<(), LabError>;

    /// Writes what it boots and says how to start it.
    ///
    /// # Errors
    /// [`LabError::Artifact`], and what making the boot medium can fail with.
    fn prepare(&self, boot: &Boot<'_>) -> Result<Start, LabError>;
}

/// An engine with the program that runs it.
#[derive(Debug)]
pub struct Engine {
    kind: EngineKind,
    emulator: Box<dyn Emulator>,
}

impl Engine {
    /// Which engine it is.
    #[must_use]
    pub fn kind(&self) -> EngineKind {
        self.kind
    }

    /// Version of its emulator.
    #[must_use]
    pub fn version(&self) -> String {
        self.emulator.version()
    }

    /// As [`Emulator::environment`].
    #[must_use]
    pub fn environment(&self) -> Option<String> {
        self.emulator.environment()
    }

    /// Words that every host of this engine needs on its kernel's command line.
    #[must_use]
    pub fn host_words(&self) -> String {
        self.emulator.host_words()
    }

    /// As [`Emulator::more_tries`].
    #[must_use]
    pub fn more_tries(&self) -> u32 {
        self.emulator.more_tries()
    }

    /// As [`Emulator::calibrate`].
    ///
    /// # Errors
    /// As there.
    pub fn calibrate(&mut self, agent: &Path) -> Result<(), LabError> {
        self.emulator.calibrate(agent)
    }

    /// As [`Emulator::prepare`].
    ///
    /// # Errors
    /// As there.
    pub fn prepare(&self, boot: &Boot<'_>) -> Result<Start, LabError> {
        self.emulator.prepare(boot)
    }

    /// How many emulators run beside each other: TCG already uses a thread for each pCPU and its
    /// clock is the wall, so those run one after another; Bochs is one thread with its own clock.
    pub fn beside(&self) -> usize {
        if self.kind.wall_clock() {
            1
        } else {
            std::thread::available_parallelism().map_or(1, usize::from)
        }
    }
}

/// What one emulated host boots.
#[derive(Debug, Clone, Copy)]
pub struct Boot<'a> {
    /// Kernel image.
    pub kernel: &'a Path,
    /// Initramfs archives, unpacked one after another.
    pub archives: &'a [&'a [u8]],
    /// The kernel's command line.
    pub cmdline: &'a str,
    /// Physical CPUs.
    pub pcpus: u32,
    /// Whether two of them are the threads of one core.
    pub smt: bool,
    /// Which ones, of those that the engine has.
    pub processor: Processor,
    /// Whether the processor has to say that its time-stamp counter is constant: KVM of a kernel
    /// with `PREEMPT_RT` wants that (arch/x86/kvm/x86.c, `kvm_x86_vendor_init()`).
    pub constant_tsc: bool,
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Folder for what is booted and for the logs.
    pub directory: &'a Path,
    /// The terminal that gets the serial console; without one it goes to [`SERIAL`].
    pub terminal: Option<&'a Path>,
}

/// How an emulator is started, and where its words go.
#[derive(Debug)]
pub struct Start {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// File in the run's folder for its standard output: [`STREAM`] where it prints the debug
    /// port's bytes among its own words.
    pub stdout: &'static str,
    /// File in the run's folder for its standard error.
    pub stderr: &'static str,
    /// With which exit codes it ends where the host switches itself off or restarts.
    pub ends_with: &'static [i32],
    /// Files that are of no use once the run has ended well.
    pub scratch: Vec<PathBuf>,
}

/// The serial console of the emulated host.
pub const SERIAL: &str = "serial.log";
/// What the emulator prints, where its standard output is not the stream.
pub const EMULATOR_OUT: &str = "emulator.out";
/// What the emulator itself says.
pub const EMULATOR_LOG: &str = "emulator.log";
/// The frames that the host sends.
pub const STREAM: &str = "stream.bin";
