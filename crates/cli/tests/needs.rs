// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `steady doctor` say of each command what the command itself says, whatever is taken away?
//!
//! Each need of each command is taken away by itself: a program from a made path, a file in a mount
//! namespace of the command alone, a mirror from apt, room from the cache. The host stays as it is.
//! Nothing is built and no emulator is started, as each command must refuse. What the commands do
//! when all is there is asked in `lab`.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use steady_lab_artifacts::programs::Programs;

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
const COMMANDS: [(&str, &[&str]); 12] = [
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
];

/// A machine without anything built: a project without `target`, an empty cache, a made path.
struct Machine {
    folder: tempfile::TempDir,
    /// Where the programs of the made path are.
    programs: BTreeMap<String, PathBuf>,
    /// More variables for each command.
    variables: Vec<(&'static str, &'static str)>,
}

/// What is taken away.
enum Gone<'a> {
    Nothing,
    Program(&'a str),
    File(&'a str),
    Mirror,
    Network,
    Room,
    /// All of tracefs but what this shell command puts in its place.
    Tracing(&'a str),
}

impl Machine {
    fn new() -> Self {
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

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn on_path(&self, name: &str) -> PathBuf {
        self.path("path").join(name)
    }

    /// `steady` with these words where something is gone.
    fn ask(&self, gone: &Gone<'_>, words: &[&str]) -> Output {
        let steady = env!("CARGO_BIN_EXE_steady").to_owned();
        let hide = |what: &str| format!("{what} && shift && exec \"$@\"");
        let (script, argument) = match gone {
            Gone::File(file) => (hide("mount --bind /dev/null \"$1\""), (*file).to_owned()),
            Gone::Room => {
                let mount = |place: &str| format!("mount -t tmpfs -o size=1m tmpfs \"$1/{place}\"");
                let both = format!("{} && {}", mount("cache"), mount("project/target"));
                (hide(&both), self.folder.path().display().to_string())
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
        let out = self.path("out").display().to_string();
        let words = words.iter().map(|&word| match word {
            "SOLO" => solo.clone(),
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
            .args(["/bin/sh", "-c", &script, "sh", &argument, &steady])
            .args(words)
            .env("PATH", self.path("path"))
            .env("STEADY_HOME", self.path("project"))
            .env("STEADY_CACHE", self.path("cache"))
            .env("LINUX_SOURCE", self.path("tree"))
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
    fn doctor(&self, gone: &Gone<'_>, command: &str) -> (Option<i32>, Value) {
        let output = self.ask(gone, &["doctor", "--json", command]);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let said = serde_json::from_str(&text);
        let said = said.unwrap_or_else(|error| panic!("{command}: {error}: {output:?}"));
        (output.status.code(), said)
    }

    /// That both refuse the command for the need `name`, with the same command to fix it; the
    /// error of the command.
    fn both_refuse(
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
        error
    }

    /// Makes the project the tree of a package, whose programs nothing here runs.
    fn package(&mut self) {
        self.variables.push(("LINUX_SOURCE", ""));
        for file in Programs::of_package(&self.path("project/programs")).files() {
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
    }
}

/// Every need of a command, as the machine has it, is taken away by itself.
fn each_need_of(at: usize) {
    let (command, words) = COMMANDS[at];
    let machine = Machine::new();
    let (code, whole) = machine.doctor(&Gone::Nothing, command);
    assert_eq!(
        code,
        Some(0),
        "{command}: this machine lacks something itself: {whole}"
    );
    let needs = whole["commands"][0]["needs"].as_array().unwrap();
    let mut taken = 0;
    for need in needs {
        let (name, found) = (
            need["name"].as_str().unwrap(),
            need["found"].as_str().unwrap(),
        );
        let gone = match name {
            "a Debian mirror" => Gone::Mirror,
            "QEMU" if found.starts_with("packaged") => Gone::Program("qemu-system-x86_64"),
            file if file.starts_with('/') => Gone::File(found),
            program if found.starts_with('/') && machine.programs.contains_key(program) => {
                Gone::Program(program)
            }
            _ => continue,
        };
        machine.both_refuse(&gone, (command, words), name);
        taken += 1;
    }
    assert!(taken >= 3, "{command}: only {taken} needs were taken away");
    if needs
        .iter()
        .any(|need| need["found"].as_str().unwrap().contains("is not built yet"))
    {
        machine.both_refuse(&Gone::Room, (command, words), "room");
    }
}

/// A test for each command, so that they run beside each other.
macro_rules! each_need {
    ($($name:ident = $at:literal),*) => {
        $(#[test]
        fn $name() {
            each_need_of($at);
        })*
    };
}

each_need!(
    doctor_and_run_on_bochs_agree_without_each_need = 0,
    doctor_and_run_on_qemu_agree_without_each_need = 1,
    doctor_and_host_agree_without_each_need = 2,
    doctor_and_selftest_agree_without_each_need = 3,
    doctor_and_build_kernel_agree_without_each_need = 4,
    doctor_and_build_bochs_agree_without_each_need = 5,
    doctor_and_build_qemu_agree_without_each_need = 6,
    doctor_and_build_programs_agree_without_each_need = 7,
    doctor_and_build_qemu_user_agree_without_each_need = 8,
    doctor_and_build_selftests_agree_without_each_need = 9,
    doctor_and_capture_agree_without_each_need = 10
);

#[test]
fn an_emulator_that_a_variable_asks_for_is_a_need_like_others() {
    for (variable, value, command, program, name) in [
        ("STEADY_QEMU", "packaged", 1, "qemu-system-x86_64", "QEMU"),
        ("STEADY_QEMU", "patched", 1, "meson", "meson"),
        ("STEADY_BOCHS", "tagged", 0, "g++", "g++"),
    ] {
        let mut machine = Machine::new();
        machine.variables.push((variable, value));
        machine.both_refuse(&Gone::Program(program), COMMANDS[command], name);
    }
    // Debian's Bochs is on few machines: it is gone from the path where it is there.
    let mut machine = Machine::new();
    machine.variables.push(("STEADY_BOCHS", "packaged"));
    let gone = match machine.programs.contains_key("bochs") {
        true => Gone::Program("bochs"),
        false => Gone::Nothing,
    };
    machine.both_refuse(&gone, COMMANDS[0], "Bochs");
}

#[test]
fn doctor_and_record_agree_without_each_part_of_tracing() {
    let machine = Machine::new();
    let (command, words) = COMMANDS[11];
    for (put, expected) in [
        ("true", "is not tracefs: mount it"),
        ("mkdir instances", "recording needs root"),
        (
            "mkdir instances events && touch set_event",
            "none of the tracepoints",
        ),
    ] {
        let (code, said) = machine.doctor(&Gone::Tracing(put), command);
        let found = said["commands"][0]["needs"][0]["found"].as_str().unwrap();
        assert_eq!(code, Some(3), "{said}");
        assert!(found.contains(expected), "{found}");
        let output = machine.ask(&Gone::Tracing(put), words);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{error}");
        assert!(error.contains(expected), "{error}");
    }
}

/// The least of a kernel's image: a header that names three units of 16 bytes behind it.
fn image() -> Vec<u8> {
    let mut bytes = vec![0; 1024 + 48];
    (bytes[0x1f1], bytes[0x1f4]) = (1, 3);
    bytes[0x202..0x206].copy_from_slice(b"HdrS");
    bytes
}

/// A kernel that nothing here boots.
fn kernel(place: &Path) {
    fs::create_dir_all(place).unwrap();
    for (file, bytes) in [
        ("bzImage", image()),
        ("System.map", b"0 T _text\n".to_vec()),
        ("config", b"CONFIG_HZ=250\n".to_vec()),
        ("release", b"6.12.1\n".to_vec()),
    ] {
        fs::write(place.join(file), bytes).unwrap();
    }
}

#[test]
fn each_part_of_a_package_is_a_need_with_a_package_as_its_fix() {
    let mut machine = Machine::new();
    machine.package();
    let place = machine.path("project/kernels/kernel-0123456789abcdef");
    let lab = "./steady-lab_*.deb";
    // Without `steady-lab`, and without what would build its kernel.
    let bare = Gone::File("/usr/src/linux-source-6.12.tar.xz");
    let error = machine.both_refuse(&bare, COMMANDS[4], "kernel");
    assert!(
        error.contains(&format!("apt-get install {lab}")) && !error.contains("linux-source"),
        "{error}"
    );
    kernel(&place);
    for command in [1, 4, 7] {
        let (code, said) = machine.doctor(&bare, COMMANDS[command].0);
        assert_eq!(code, Some(0), "{said}");
    }
    for (lost, commands, name, fix) in [
        ("programs/steady-vmm", [1, 7], "programs", "./steady_*.deb"),
        (
            "programs/workloads/spin",
            [1, 7],
            "programs",
            "./steady_*.deb",
        ),
        (
            "kernels/kernel-0123456789abcdef/config",
            [1, 4],
            "kernel",
            lab,
        ),
    ] {
        let file = machine.path("project").join(lost);
        let bytes = fs::read(&file).unwrap();
        fs::remove_file(&file).unwrap();
        for command in commands {
            let error = machine.both_refuse(&Gone::Nothing, COMMANDS[command], name);
            let fix = format!("apt-get install --reinstall {fix}");
            assert!(error.contains(&fix) && error.contains(lost), "{error}");
        }
        fs::write(&file, bytes).unwrap();
    }
}

#[test]
fn without_the_kernels_source_all_else_that_lacks_is_named_too() {
    let mut machine = Machine::new();
    machine.variables.push(("LINUX_SOURCE", "/no-such-tree"));
    for command in [0, 3, 4, 9] {
        let error = machine.both_refuse(&Gone::Program("patch"), COMMANDS[command], "patch");
        assert!(
            error.contains("the kernel's source is not there"),
            "{error}"
        );
    }
}

#[test]
fn a_download_without_a_network_fails_by_the_words_of_apt() {
    let machine = Machine::new();
    let output = machine.ask(&Gone::Network, &["build", "bochs"]);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(
        error.contains("fetching the source of bochs failed") && error.contains("Failed to fetch"),
        "{error}"
    );
}

#[test]
fn a_kernel_that_is_not_as_it_was_built_is_refused_with_the_command_that_removes_it() {
    let machine = Machine::new();
    // A build that fails leaves the name of what it would have built.
    let output = machine.ask(&Gone::Nothing, &["build", "kernel"]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    let entries = fs::read_dir(machine.path("cache")).unwrap().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let name = names.filter_map(|name| Some(name.strip_suffix(".failed")?.to_owned()));
    let name = name.last().unwrap();
    let entry = machine.path("cache").join(&name);
    kernel(&entry);
    let output = machine.ask(&Gone::Nothing, &["build", "kernel"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert!(said.contains("had no checksums"), "{said}");
    let verify = || {
        machine
            .ask(&Gone::Nothing, &["cache", "verify", &name])
            .status
            .code()
    };
    assert_eq!(verify(), Some(0));

    let mut other = image();
    other[700] = 1;
    for (damaged, expected) in [
        (other, "checksum differs"),
        (image()[..1050].into(), "1050 bytes"),
    ] {
        fs::write(entry.join("bzImage"), damaged).unwrap();
        for command in [0, 4] {
            let error = machine.both_refuse(&Gone::Nothing, COMMANDS[command], "kernel");
            assert!(error.contains(expected), "{error}");
            assert!(
                error.contains(&format!("steady cache prune {name}")),
                "{error}"
            );
        }
        assert_eq!(verify(), Some(5));
    }
    let output = machine.ask(&Gone::Nothing, &["cache", "prune", &name]);
    assert!(output.status.success() && !entry.exists(), "{output:?}");
    assert_eq!(machine.doctor(&Gone::Nothing, "build kernel").0, Some(0));
}

#[test]
fn the_cache_is_pruned_of_what_this_tree_does_not_use_and_of_nothing_else() {
    let machine = Machine::new();
    let old = ["kernel-0123456789abcdef", "qemu-0123456789abcdef.failed"];
    let others = ["tools", "deb-0123456789abcdef", "mine"];
    for name in old.iter().chain(&others) {
        fs::create_dir(machine.path("cache").join(name)).unwrap();
    }
    let prune = |words: &[&str]| {
        let output = machine.ask(&Gone::Nothing, &[&["cache", "prune"], words].concat());
        assert!(output.status.success(), "{output:?}");
        let there = |name: &&&str| machine.path("cache").join(name).exists();
        let all = old.iter().chain(&others);
        all.filter(there).copied().collect::<Vec<_>>()
    };
    assert_eq!(prune(&["--dry-run"]).len(), 5);
    assert_eq!(prune(&[]), others);
    let output = machine.ask(&Gone::Nothing, &["cache", "prune", "no-such"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("no entry `no-such`"), "{said}");
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn doctor_and_builds_agree_where_the_cache_cannot_be_written() {
    let machine = Machine::new();
    let cache = machine.path("cache");
    fs::remove_dir(&cache).unwrap();
    fs::write(&cache, "a file").unwrap();
    for (command, words) in [
        ("build kernel", &["build", "kernel"][..]),
        ("build bochs", &["build", "bochs"]),
    ] {
        machine.both_refuse(&Gone::Nothing, (command, words), "room");
    }
}

#[test]
fn doctor_refuses_a_command_that_it_does_not_know() {
    let machine = Machine::new();
    let output = machine.ask(&Gone::Nothing, &["doctor", "dig"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("no command `dig`") && said.contains("build kernel"),
        "{said}"
    );
}
