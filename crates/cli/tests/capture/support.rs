// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A folder with the plugin and one compiled program, and what its capture gave.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use steady_lab_artifacts::Home;
use steady_lab_artifacts::qemu_user;
use steady_memtrace::capture::Options;
use steady_memtrace::{Reader, Record};
use steady_race::Silent;

/// The program, which gets as its first argument where to write addresses.
pub struct Bench {
    folder: tempfile::TempDir,
    qemu: PathBuf,
}

/// Whether a command ends well; what it prints is dropped.
pub fn works(command: &mut Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

impl Bench {
    /// Compiles a program from its C source.
    pub fn new(source: &str) -> Self {
        Self::linked(source, &["-pthread"])
    }

    /// The same, with these words to the compiler.
    pub fn linked(source: &str, words: &[&str]) -> Self {
        let home = Home::find().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let plugin = home.project.join("plugins/qemu-memtrace");
        let build = format!("BUILD={}", folder.path().display());
        assert!(works(Command::new("make").arg("-C").arg(plugin).arg(build)));
        let bench = Self {
            folder,
            qemu: qemu_user::ensure(&home, &Silent).unwrap().program,
        };
        std::fs::write(bench.path("p.c"), source).unwrap();
        let mut cc = Command::new("cc");
        cc.arg("-O1").args(words).arg("-o");
        assert!(works(cc.arg(bench.path("p")).arg(bench.path("p.c"))));
        bench
    }

    /// A file of the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Options to capture the program with more arguments, into `out.smt`.
    pub fn options(&self, more: &[&str]) -> Options {
        let mut command = vec![OsString::from(self.path("p")), self.path("said").into()];
        command.extend(more.iter().map(OsString::from));
        let plugin = self.path("libqemu-memtrace.so");
        let mut options = Options::new(command, self.path("out.smt"), plugin);
        options.qemu.clone_from(&self.qemu);
        // What the programs say are the addresses that they see.
        options.emulator_addresses = true;
        // What the emulator says of a program that is killed is not a failure of the test.
        options.show_output = false;
        options
    }

    /// The numbers that the program wrote.
    pub fn said(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(self.path("said")).unwrap();
        text.split(' ').map(|word| word.parse().unwrap()).collect()
    }

    /// All records of the trace.
    pub fn records(&self) -> Vec<Record> {
        records(&self.path("out.smt"))
    }
}

fn records(trace: &Path) -> Vec<Record> {
    let mut reader = Reader::open(trace).unwrap();
    let (mut all, mut block) = (Vec::new(), Vec::new());
    while reader.next_block(&mut block).unwrap() {
        all.extend_from_slice(&block);
    }
    all
}
