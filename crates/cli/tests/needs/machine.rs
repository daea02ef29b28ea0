// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A machine that has what its needs are, but for what a test takes away, and both who are asked.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use steady_lab_artifacts::cache::sums;

/// What a project has that its commands read.
const PROJECT: [&str; 9] = [
    "Cargo.lock",
    "Cargo.toml",
    "crates",
    "lab",
    "linux",
    "plugins",
    "scenarios",
    "setup",
    "workloads",
];
/// Commands as `doctor` calls them, and their words.
pub const COMMANDS: [(&str, &[&str]); 18] = [
    (
        "run --engine bochs",
        &["run", "SOLO", "--engine", "bochs", "-o", "OUT"],
    ),
    (
        "run --engine qemu",
        &["run", "SOLO", "--engine", "qemu", "-o", "OUT"],
    ),
    (
        "host --engine bochs",
        &["host", "--engine", "bochs", "--print", "-o", "OUT"],
    ),
    (
        "selftest --engine bochs",
        &["selftest", "--engine", "bochs", "-o", "OUT"],
    ),
    ("build kernel", &["build", "kernel"]),
    ("build bochs", &["build", "bochs"]),
    ("build qemu", &["build", "qemu"]),
    ("build programs", &["build", "programs"]),
    ("build qemu-user", &["build", "qemu-user"]),
    ("build selftests", &["build", "selftests"]),
    (
        "coherence capture",
        &["coherence", "capture", "-o", "OUT", "--", "/bin/true"],
    ),
    ("record", &["record", "--seconds", "1", "-o", "OUT"]),
    (
        "run --kernel debian-13",
        &["run", "SOLO", "--kernel", "debian-13", "-o", "OUT"],
    ),
    (
        "run --kernel 7.3",
        &["run", "SOLO", "--kernel", "7.3", "-o", "OUT"],
    ),
    (
        "run --kernel 6.12-ranges",
        &["run", "SOLO", "--kernel", "6.12-ranges", "-o", "OUT"],
    ),
    (
        "run --kernel 6.12-proposal",
        &["run", "SOLO", "--kernel", "6.12-proposal", "-o", "OUT"],
    ),
    (
        "run --kernel 6.1",
        &["run", "SOLO", "--kernel", "6.1", "-o", "OUT"],
    ),
    ("cache list", &["cache", "list"]),
];

/// The command of this name.
pub fn command(name: &str) -> (&'static str, &'static [&'static str]) {
    let found = COMMANDS.iter().find(|(its, _)| *its == name);
    *found.unwrap_or_else(|| panic!("no command {name}"))
}

/// A machine without anything built: a project without `target`, an empty cache, a made path.
pub struct Machine {
    folder: tempfile::TempDir,
    /// Where the programs of the made path are.
    pub programs: BTreeMap<String, PathBuf>,
    /// More variables for each command.
    pub variables: Vec<(&'static str, &'static str)>,
}

/// Has apt keep in this folder what it makes of its lists. An image of a container has it make that
/// for each call, which would be most of these tests' time.
fn keep_what_apt_reads(folder: &Path) {
    let parts = folder.join("apt.conf.d");
    fs::create_dir(&parts).unwrap();
    let real = Path::new("/etc/apt/apt.conf.d").read_dir();
    for entry in real.into_iter().flatten().flatten() {
        symlink(entry.path(), parts.join(entry.file_name())).unwrap();
    }
    let kept = |name: &str| folder.join(name).display().to_string();
    let caches = format!(
        "Dir::Cache::pkgcache \"{}\";\nDir::Cache::srcpkgcache \"{}\";\n",
        kept("pkgcache.bin"),
        kept("srcpkgcache.bin")
    );
    fs::write(parts.join("zz-kept"), caches).unwrap();
    let config = format!("Dir::Etc::Parts \"{}\";\n", parts.display());
    fs::write(folder.join("apt.conf"), config).unwrap();
}

/// Programs that take most of these tests' time to say their version, which each call asks for.
const SLOW: [&str; 3] = ["dpkg-architecture", "dpkg-source", "meson"];

/// A program in this folder that says what this one says of its version, and else is this one.
fn answering(folder: &Path, name: &str, program: &Path) -> PathBuf {
    let said = Command::new(program).arg("--version").output().unwrap();
    assert!(said.status.success(), "{}: {said:?}", program.display());
    let said = String::from_utf8(said.stdout).unwrap();
    let quoted = said.trim_end().replace('\'', "'\\''");
    let path = folder.join(name);
    let text = format!(
        "#!/bin/sh\n[ \"$*\" != --version ] || exec printf '%s\\n' '{quoted}'\nexec {} \"$@\"\n",
        program.display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

/// What is taken away.
pub enum Gone<'a> {
    Nothing,
    Program(&'a str),
    File(&'a str),
    Mirror,
    Network,
    Room,
    /// This release of Debian: another number is in its place.
    Release(&'a str),
    /// All of tracefs but what this shell command puts in its place.
    Tracing(&'a str),
}

impl Machine {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        for made in [
            &project,
            &folder.path().join("path"),
            &folder.path().join("cache"),
            &project.join("target"),
        ] {
            fs::create_dir(made).unwrap();
        }
        let real = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for name in PROJECT {
            symlink(
                fs::canonicalize(real.join(name)).unwrap(),
                project.join(name),
            )
            .unwrap();
        }
        // A small kernel tree: what is in it is asked for by no test here.
        let tree = folder.path().join("tree");
        fs::create_dir_all(tree.join("arch/x86/kvm")).unwrap();
        fs::write(tree.join("Makefile"), "VERSION = 6\nPATCHLEVEL = 12\n").unwrap();
        let mut programs = BTreeMap::new();
        let path = std::env::var_os("PATH").unwrap();
        let system = ["/usr/sbin", "/sbin"].map(PathBuf::from);
        for place in std::env::split_paths(&path).chain(system) {
            for entry in place.read_dir().into_iter().flatten().flatten() {
                let name = entry.file_name().to_string_lossy().into_owned();
                programs.entry(name).or_insert_with(|| entry.path());
            }
        }
        keep_what_apt_reads(folder.path());
        let answers = folder.path().join("answers");
        fs::create_dir(&answers).unwrap();
        for name in SLOW {
            if let Some(program) = programs.get_mut(name) {
                *program = answering(&answers, name, program);
            }
        }
        let machine = Self {
            folder,
            programs,
            variables: Vec::new(),
        };
        for (name, program) in &machine.programs {
            let _ = symlink(program, machine.on_path(name));
        }
        machine
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn on_path(&self, name: &str) -> PathBuf {
        self.path("path").join(name)
    }

    /// `steady` with these words where something is gone.
    pub fn ask(&self, gone: &Gone<'_>, words: &[&str]) -> Output {
        self.call(gone, Path::new(env!("CARGO_BIN_EXE_steady")), words)
    }

    /// A program with these words where something is gone.
    pub fn call(&self, gone: &Gone<'_>, program: &Path, words: &[&str]) -> Output {
        let hide = |what: &str| format!("{what} && shift && exec \"$@\"");
        let (script, argument) = match gone {
            Gone::File(file) => (hide("mount --bind /dev/null \"$1\""), (*file).to_owned()),
            Gone::Room => {
                let mount = |place: &str| format!("mount -t tmpfs -o size=1m tmpfs \"$1/{place}\"");
                let both = format!("{} && {}", mount("cache"), mount("project/target"));
                (hide(&both), self.folder.path().display().to_string())
            }
            Gone::Release(number) => {
                let file = self.path("os-release");
                fs::write(&file, format!("ID=debian\nVERSION_ID=\"{number}\"\n")).unwrap();
                let put = "mount --bind \"$1\" /etc/os-release";
                (hide(put), file.display().to_string())
            }
            Gone::Tracing(put) => {
                let tracing = "/sys/kernel/tracing".to_owned();
                let mount = "mount -t tmpfs tmpfs \"$1\"";
                (hide(&format!("{mount} && cd \"$1\" && {put}")), tracing)
            }
            _ => (hide("true"), String::new()),
        };
        let solo = self
            .path("project/scenarios/solo.toml")
            .display()
            .to_string();
        let scenario = self.path("scenario.toml").display().to_string();
        let out = self.path("out").display().to_string();
        let words = words.iter().map(|&word| match word {
            "SOLO" => solo.clone(),
            "SCENARIO" => scenario.clone(),
            "OUT" => out.clone(),
            other => other.to_owned(),
        });
        match gone {
            Gone::Program(name) => fs::remove_file(self.on_path(name)).unwrap(),
            Gone::Mirror => {
                fs::remove_file(self.on_path("apt-get")).unwrap();
                symlink("/bin/true", self.on_path("apt-get")).unwrap();
            }
            _ => {}
        }
        let output = Command::new("/usr/bin/unshare")
            .arg(match gone {
                Gone::Network => "--net",
                _ => "--mount",
            })
            .args(["/bin/sh", "-c", &script, "sh", &argument])
            .arg(program)
            .args(words)
            .env("PATH", self.path("path"))
            .env("STEADY_HOME", self.path("project"))
            .env("STEADY_CACHE", self.path("cache"))
            .env("LINUX_SOURCE", self.path("tree"))
            .env("APT_CONFIG", self.path("apt.conf"))
            .env_remove("STEADY_QEMU")
            .env_remove("STEADY_BOCHS")
            .envs(self.variables.iter().copied())
            .current_dir(self.folder.path())
            .output()
            .unwrap();
        match gone {
            Gone::Program(name) => symlink(&self.programs[*name], self.on_path(name)).unwrap(),
            Gone::Mirror => {
                fs::remove_file(self.on_path("apt-get")).unwrap();
                symlink(&self.programs["apt-get"], self.on_path("apt-get")).unwrap();
            }
            _ => {}
        }
        output
    }

    /// What `doctor` says of a command.
    pub fn doctor(&self, gone: &Gone<'_>, command: &str) -> (Option<i32>, Value) {
        let output = self.ask(gone, &["doctor", "--json", command]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = serde_json::from_str(&text);
        let said = said.unwrap_or_else(|error| panic!("{command}: {error}: {output:?}"));
        (output.status.code(), said)
    }

    /// That both refuse the command for the need `name`, with the same command to fix it; the
    /// error of the command.
    pub fn both_refuse(
        &self,
        gone: &Gone<'_>,
        (command, words): (&str, &[&str]),
        name: &str,
    ) -> String {
        let (code, said) = self.doctor(gone, command);
        assert_eq!(code, Some(3), "{command} without {name}: {said}");
        assert_eq!(
            said["commands"][0]["works"], false,
            "{command} without {name}"
        );
        let lacks: Vec<&str> = said["lacks"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(Value::as_str)
            .collect();
        assert!(
            lacks.contains(&name),
            "{command} without {name}: doctor lacks {lacks:?}"
        );
        let output = self.ask(gone, words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(
            output.status.code(),
            Some(3),
            "{command} without {name}: {error}"
        );
        assert!(
            error.contains(&format!("{name} ")),
            "{command} without {name}: {error}"
        );
        let fix = said["fix"].as_str().unwrap();
        assert!(
            error.trim_end().ends_with(&format!("fix: {fix}")),
            "{fix}: {error}"
        );
        assert!(!self.path("out").exists(), "{command} left a folder");
        error
    }

    /// Makes the project the tree of a package, whose programs nothing here runs.
    pub fn package(&mut self) {
        self.variables.push(("LINUX_SOURCE", ""));
        let programs = self.path("project/programs");
        fs::create_dir_all(programs.join("workloads")).unwrap();
        for name in ["steady-vmm", "memtrace.so", "workloads/spin"] {
            fs::write(programs.join(name), "program").unwrap();
        }
        sums::write(&programs).unwrap();
    }
}
