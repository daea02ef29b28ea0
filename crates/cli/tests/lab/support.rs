// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Starts the `steady` command in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use serde_json::Value;

static MACHINE: RwLock<()> = RwLock::new(());

/// How a test has the machine, until it is dropped.
enum Machine {
    Alone {
        _held: RwLockWriteGuard<'static, ()>,
    },
    Beside {
        _held: RwLockReadGuard<'static, ()>,
    },
}

/// A place for one test.
pub struct Place {
    pub folder: tempfile::TempDir,
    _machine: Machine,
}

/// A VM that runs one short workload, as the text of a scenario's part.
pub const ONE_VM: &str = r#"
[[vm]]
name = "guest"
vcpus = 2
memory_mib = 96
pin = [0, 1]
[[vm.workload]]
program = "shootdown"
args = ["--targets", "1", "--operations", "50"]
"#;

impl Place {
    /// Waits for the machine and makes a folder. For what runs in QEMU, whose clock is the wall, or
    /// looks at processes, limits or the cache: no other test has an emulator meanwhile.
    pub fn new() -> Self {
        let held = MACHINE.write().unwrap_or_else(PoisonError::into_inner);
        Self::with(Machine::Alone { _held: held })
    }

    /// A place beside others like it. For what runs in Bochs alone, which counts instructions.
    pub fn beside() -> Self {
        let held = MACHINE.read().unwrap_or_else(PoisonError::into_inner);
        Self::with(Machine::Beside { _held: held })
    }

    fn with(machine: Machine) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            _machine: machine,
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a scenario with one plain variant, after `change` has changed its text.
    pub fn scenario(&self, vm: &str, variant: &str) -> PathBuf {
        let text = format!(
            "schema = 2\nname = \"test\"\ntitle = \"t\"\nquestion = \"q\"\n\
             [host]\npcpus = 2\nmemory_mib = 384\ntime_limit_s = 30\n{vm}\n[[variant]]\nname = \"plain\"\n{variant}\n"
        );
        let path = self.path("test.toml");
        std::fs::write(&path, text).unwrap();
        path
    }

    /// `steady run` of a scenario, results in this place; in Bochs, which repeats a failure or a
    /// success exactly, unless the words name another engine.
    pub fn run(&self, scenario: &Path, words: &[&str]) -> Command {
        let words = if words.contains(&"--engine") {
            words.to_vec()
        } else {
            [words, &["--engine", "bochs"]].concat()
        };
        let mut command = steady();
        command
            .arg("run")
            .arg(scenario)
            .arg("-o")
            .arg(self.path("out"))
            .args(words);
        command
    }

    /// The result of one run of each of these variants of a scenario that ships, in Bochs.
    pub fn raced(&self, scenario: &str, variants: &[&str]) -> Value {
        self.raced_at(&project().join(scenario), variants, "1")
    }

    /// The result of that number of seeds of each of these variants.
    fn raced_at(&self, path: &Path, variants: &[&str], seeds: &str) -> Value {
        let mut words = vec!["--repetitions", seeds];
        for variant in variants {
            words.extend(["--variant", variant]);
        }
        ends_well(&self.run(path, &words).output().unwrap());
        let name = path.file_stem().unwrap().to_str().unwrap();
        self.result(name, "bochs")
    }

    /// The result of one run of `two-vms` with plain IPIs and with Shoot4U, which is raced once for
    /// all tests that ask: in Bochs it is the same each time.
    pub fn two_vms(&self) -> &'static Value {
        static RACED: OnceLock<Value> = OnceLock::new();
        RACED.get_or_init(|| self.raced("scenarios/two-vms.toml", &["ipi", "shoot4u"]))
    }

    /// The same with one text of the scenario replaced by another wherever it is.
    pub fn raced_with(
        &self,
        scenario: &str,
        replaced: [&str; 2],
        variants: &[&str],
        seeds: &str,
    ) -> Value {
        let replaced = [replaced.map(str::to_owned)];
        self.raced_with_all(scenario, &replaced, variants, seeds)
    }

    /// The same with several texts replaced.
    pub fn raced_with_all(
        &self,
        scenario: &str,
        replaced: &[[String; 2]],
        variants: &[&str],
        seeds: &str,
    ) -> Value {
        let shipped = project().join(scenario);
        let mut text = std::fs::read_to_string(&shipped).unwrap();
        for [from, to] in replaced {
            assert!(text.contains(from), "{scenario} has no {from}");
            text = text.replace(from, to);
        }
        let path = self.path(shipped.file_name().unwrap().to_str().unwrap());
        std::fs::write(&path, text).unwrap();
        self.raced_at(&path, variants, seeds)
    }

    /// The value at `out/<scenario>/<engine>/result.json`.
    pub fn result(&self, scenario: &str, engine: &str) -> Value {
        let path = self
            .path("out")
            .join(scenario)
            .join(engine)
            .join("result.json");
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        serde_json::from_str(&text).unwrap()
    }
}

/// The command, with the project's tree as its home, and with our QEMU, which loses no guest.
pub fn steady() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steady"));
    let qemu = std::env::var_os("STEADY_QEMU").unwrap_or_else(|| "patched".into());
    command
        .env("STEADY_QEMU", qemu)
        .env("STEADY_HOME", project())
        .env("NO_COLOR", "1")
        .env_remove("LINUX_SOURCE");
    command
}

/// The project's tree.
pub fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap()
        .to_path_buf()
}

/// Standard error of a command that must end with `code`.
pub fn fails_with(code: i32, output: &Output) -> String {
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(code), "{said}");
    said
}

/// Asserts that a command ended well. If not, the ends of its hosts' consoles are shown, which the
/// test's folder takes away.
pub fn ends_well(output: &Output) {
    let said = String::from_utf8_lossy(&output.stderr);
    let success = output.status.success();
    assert!(success, "{}: {said}{}", output.status, consoles(&said));
}

/// The ends of the consoles in the folder of logs that an error names, and of a first try's.
fn consoles(said: &str) -> String {
    const LINES: usize = 80;
    let mut text = String::new();
    let folders = said.lines().filter_map(|line| line.strip_prefix("logs: "));
    for folder in folders.flat_map(|folder| [format!("{folder}.lost"), folder.to_owned()]) {
        let path = Path::new(&folder).join("serial.log");
        let Ok(bytes) = std::fs::read(&path) else {
            continue;
        };
        let console = String::from_utf8_lossy(&bytes);
        let lines: Vec<&str> = console.lines().collect();
        let end = &lines[lines.len().saturating_sub(LINES)..];
        text += &format!("\n{}:\n{}\n", path.display(), end.join("\n"));
    }
    text
}

/// What an emulated host with these options of `steady host` says to the script, which has the
/// command as `steady`.
pub fn in_host(place: &Place, options: &[&str], script: &str) -> String {
    let small = place.path("steady");
    let mut strip = Command::new("strip");
    strip
        .arg("-o")
        .arg(&small)
        .arg(env!("CARGO_BIN_EXE_steady"));
    ends_well(&strip.output().unwrap());
    let path = place.path("script");
    std::fs::write(&path, format!("#!/bin/sh\n{script}")).unwrap();
    let add = format!("{}:/usr/bin/steady", small.display());
    let mut command = steady();
    command.args(["host", "--engine", "bochs", "--memory-mib", "768"]);
    command.args(["--limit", "20m", "--add", &add]);
    command.args(options).arg("--init").arg(path);
    command.arg("-o").arg(place.path("out"));
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{errors}");
    said
}

/// Value of a metric of the first repetition of a variant.
pub fn metric(result: &Value, variant: &str, workload: &str, name: &str) -> i64 {
    metrics(result, variant, workload, name)[0]
}

/// Values of a metric of a variant, one a repetition.
pub fn metrics(result: &Value, variant: &str, workload: &str, name: &str) -> Vec<i64> {
    let variants = result["variants"].as_array().unwrap();
    let variant = variants
        .iter()
        .find(|found| found["name"] == variant)
        .expect("the variant was raced");
    let repetitions = variant["repetitions"].as_array().unwrap().iter();
    repetitions
        .map(|repetition| {
            let mut metrics = repetition["metrics"].as_array().unwrap().iter();
            let found =
                metrics.find(|metric| metric["name"] == name && metric["workload"] == workload);
            found.unwrap_or_else(|| panic!("no {name} of {workload}"))["value"]
                .as_i64()
                .unwrap()
        })
        .collect()
}
