// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs kvm-unit-tests on emulated hosts: the stock kernel beside the patched one of the same
//! configuration, there with each remedy switched on before each test.
//!
//! The suite is the user's own checkout, built by its own configure and make into our folder; the
//! distribution's QEMU runs its programs inside the host. A difference between kernels is run again
//! before it is called a fault. Left out: what the suite itself leaves out by default, 32-bit
//! programs, and UEFI.

mod compare;
mod config;
mod script;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;
use steady_lab::LabError;
use steady_lab::engine::EngineKind;
use steady_lab::host::{Host, HostKernel, Options as HostOptions};
use steady_lab_artifacts::image::tree::Added;
use steady_lab_artifacts::kernel::{Build, Choice, Flavor, Series};
use steady_lab_artifacts::process::run_step;
use steady_lab_artifacts::{ArtifactError, Home};
use steady_race::Watcher;
use steady_remedies::Registry;

use crate::error::SelftestError;

pub use compare::Row;
pub use config::UnitTest;
pub use script::{Cell, Setting, UnitOutcome};

/// 2: complaints of the kernel.
const SCHEMA_VERSION: u32 = 2;
const BUILD_LIMIT: Duration = Duration::from_secs(20 * 60);
/// pCPUs of the host: as many vCPUs as most tests have.
const PCPUS: u32 = 2;
/// Memory of the host in MiB: QEMU with its libraries, unpacked, and a guest; within what every
/// engine has.
const MEMORY_MIB: u32 = 1536;
/// Longest time of a run, for each second of its tests' limits; emulation is slow, but few tests
/// come near their limits.
const BOOT: Duration = Duration::from_secs(300);
/// Hosts of one run that may be lost before it is given up.
const MOST_LOST: usize = 4;
/// The test that ends QEMU's own emulation of the host.
const ENDS_QEMU: &str = "emulator";
/// What QEMU boots the programs with.
const FIRMWARE: [(&str, &str); 5] = [
    ("/usr/share/seabios/bios-256k.bin", "seabios"),
    ("/usr/share/qemu/kvmvapic.bin", "qemu-system-data"),
    ("/usr/share/qemu/linuxboot_dma.bin", "qemu-system-data"),
    ("/usr/share/qemu/multiboot.bin", "qemu-system-data"),
    ("/usr/share/qemu/multiboot_dma.bin", "qemu-system-data"),
];
const QEMU: &str = "/usr/bin/qemu-system-x86_64";

/// What is run.
#[derive(Debug, Clone)]
pub struct Options {
    /// The engine.
    pub engine: EngineKind,
    /// The checkout.
    pub tree: PathBuf,
    /// Names of tests; all that run by default if empty.
    pub names: Vec<String>,
    /// Every mode of every remedy, and not only each one's default.
    pub all_modes: bool,
    /// Configuration of both kernels.
    pub flavor: Flavor,
    /// Folder for the logs, `unit-tests/` below it.
    pub out: PathBuf,
}

/// What one engine's runs brought.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Always `steady.unit-tests`.
    pub schema: &'static str,
    /// Version of the schema.
    pub version: u32,
    /// Name of the engine.
    pub engine: &'static str,
    /// The stock kernel by its name, then the patched one's settings.
    pub columns: Vec<String>,
    /// One for each test, in the suite's order.
    pub rows: Vec<Row>,
    /// What is run on no kernel: the test and why.
    pub left_out: LeftOut,
    /// What should not be, in one sentence each.
    pub faults: Vec<String>,
}

/// Builds what is missing and runs the suite.
///
/// # Errors
/// [`SelftestError::Asked`] for another tree or an unknown test, [`LabError::Run`] if hosts
/// were lost again and again, and what the builds can fail with.
pub fn run(home: &Home, options: &Options, watcher: &dyn Watcher) -> Result<Report, SelftestError> {
    let (tests, left_out) = listed(options)?;
    let suite = Suite {
        home,
        options,
        watcher,
        build: build(home, &options.tree, watcher)?,
    };
    let settings = settings(options.all_modes);
    let stock = Setting {
        name: Build {
            series: Series::Stock,
            flavor: options.flavor,
        }
        .name()
        .to_owned(),
        parameters: Vec::new(),
    };
    let on_stock = HostKernel::Stock(options.flavor);
    let all: Vec<&UnitTest> = tests.iter().collect();
    let mut cells = suite.cells(&on_stock, &all, std::slice::from_ref(&stock))?;
    let patched = HostKernel::Patched(Choice::Built(options.flavor));
    cells.extend(suite.cells(&patched, &all, &settings)?);
    let columns: Vec<String> = std::iter::once(&stock)
        .chain(&settings)
        .map(|setting| setting.name.clone())
        .collect();
    let mut rows = compare::rows(&tests, &columns, &cells);
    let again: Vec<&UnitTest> = tests
        .iter()
        .filter(|test| {
            rows.iter()
                .any(|row| row.test == test.name && row.differs())
        })
        .collect();
    if !again.is_empty() {
        watcher.say(&format!("{} tests differ and are run again", again.len()));
        let mut second = suite.cells(&on_stock, &again, std::slice::from_ref(&stock))?;
        second.extend(suite.cells(&patched, &again, &settings)?);
        compare::settle(&mut rows, &columns, &second);
    }
    Ok(Report {
        schema: "steady.unit-tests",
        version: SCHEMA_VERSION,
        engine: options.engine.name(),
        faults: compare::faults(&rows, &columns),
        columns,
        rows,
        left_out,
    })
}

/// Tests that are run on no kernel, and why.
type LeftOut = Vec<(String, String)>;

/// The tests to run, and those that are not.
fn listed(options: &Options) -> Result<(Vec<UnitTest>, LeftOut), SelftestError> {
    let path = options.tree.join("x86/unittests.cfg");
    let text = fs::read_to_string(&path).map_err(|error| {
        let tree = options.tree.display();
        SelftestError::Asked(format!(
            "{tree} is not a checkout of kvm-unit-tests: cannot read x86/unittests.cfg: {error}"
        ))
    })?;
    let all = config::parse(&text)
        .map_err(|error| SelftestError::Asked(format!("{}: {error}", path.display())))?;
    if let Some(unknown) =
        (options.names.iter()).find(|name| all.iter().all(|test| test.name != **name))
    {
        let known: Vec<&str> = all.iter().map(|test| test.name.as_str()).collect();
        let known = known.join(", ");
        let text = format!("there is no unit test `{unknown}`; known: {known}");
        return Err(SelftestError::Asked(text));
    }
    let named = |test: &UnitTest| options.names.is_empty() || options.names.contains(&test.name);
    let (mut tests, mut left_out) = (Vec::new(), Vec::new());
    for test in all.into_iter().filter(named) {
        let ends = test.name == ENDS_QEMU && options.engine.name() == "qemu";
        let why = match &test.left_out {
            _ if ends => Some("it ends the emulator: run it on bochs".to_owned()),
            why => why.clone(),
        };
        match why {
            Some(why) => left_out.push((test.name, why)),
            None => tests.push(test),
        }
    }
    if tests.is_empty() {
        let text = "none of these unit tests runs here".to_owned();
        return Err(SelftestError::Asked(text));
    }
    Ok((tests, left_out))
}

/// Everything off, then each shipped remedy alone: in its default mode, or in each.
fn settings(all_modes: bool) -> Vec<Setting> {
    let registry = Registry::default();
    let off: Vec<(String, String)> = registry
        .shipped()
        .map(|remedy| (remedy.parameter.to_owned(), remedy.off.to_owned()))
        .collect();
    let mut settings = vec![Setting {
        name: "off".to_owned(),
        parameters: off.clone(),
    }];
    for remedy in registry.shipped() {
        for mode in remedy.modes {
            if !all_modes && mode.name != remedy.default_mode {
                continue;
            }
            let mut parameters = off.clone();
            for (parameter, value) in &mut parameters {
                if parameter == remedy.parameter {
                    mode.name.clone_into(value);
                }
            }
            settings.push(Setting {
                name: format!("{}={}", remedy.name, mode.name),
                parameters,
            });
        }
    }
    settings
}

/// Configures and makes the suite outside its tree; the folder of what was made.
fn build(home: &Home, tree: &Path, watcher: &dyn Watcher) -> Result<PathBuf, SelftestError> {
    let folder = home.cache.join("kvm-unit-tests");
    fs::create_dir_all(&folder).map_err(|error| LabError::io("make", &folder, error))?;
    let tree = std::path::absolute(tree).map_err(|error| LabError::io("find", tree, error))?;
    watcher.say("building kvm-unit-tests");
    let log = folder.join("build.log");
    let configure = tree.join("configure");
    let what = "kvm-unit-tests' configure";
    run_step(
        what,
        &[configure.as_os_str()],
        &folder,
        &log,
        BUILD_LIMIT,
        || {},
    )?;
    let jobs = format!(
        "-j{}",
        std::thread::available_parallelism().map_or(1, usize::from)
    );
    let make = ["make", &jobs].map(OsStr::new);
    run_step(
        "kvm-unit-tests' make",
        &make,
        &folder,
        &log,
        BUILD_LIMIT,
        || {},
    )?;
    Ok(folder)
}

/// The suite on one engine.
struct Suite<'a> {
    home: &'a Home,
    options: &'a Options,
    watcher: &'a dyn Watcher,
    build: PathBuf,
}

impl Suite<'_> {
    /// Runs every test under every setting. Where the host is lost, a new one goes on behind it.
    fn cells(
        &self,
        kernel: &HostKernel,
        tests: &[&UnitTest],
        settings: &[Setting],
    ) -> Result<Vec<Cell>, SelftestError> {
        let mut cells: Vec<Cell> = Vec::new();
        let mut left = tests;
        for lost in 0.. {
            let (mut found, ended) = self.once(kernel, left, settings)?;
            let last = found.last().map(|cell| cell.test.clone());
            cells.append(&mut found);
            let Err(error) = ended else { break };
            let at = left
                .iter()
                .position(|test| Some(&test.name) == last.as_ref());
            let Some(at) = at.filter(|_| lost < MOST_LOST) else {
                return Err(error.into());
            };
            self.watcher
                .say(&format!("{}: the host was lost: {error}", left[at].name));
            left = &left[at + 1..];
            if left.is_empty() {
                break;
            }
        }
        Ok(cells)
    }

    /// One boot: what came of it, and whether it came to its end.
    fn once(
        &self,
        kernel: &HostKernel,
        tests: &[&UnitTest],
        settings: &[Setting],
    ) -> Result<(Vec<Cell>, Result<u8, LabError>), SelftestError> {
        let limits_s: u32 = tests.iter().map(|test| test.limit_s).sum();
        let of_tests =
            Duration::from_secs(limits_s.into()) * u32::try_from(settings.len()).unwrap_or(1);
        let name = match kernel {
            HostKernel::Stock(_) => "stock",
            HostKernel::Patched(_) => "patched",
        };
        let host = Host::prepare(
            self.home,
            &HostOptions {
                engine: self.options.engine,
                kernel: kernel.clone(),
                pcpus: PCPUS,
                smt: false,
                memory_mib: MEMORY_MIB,
                append: Vec::new(),
                add: self.files(tests)?,
                run: Some(script::script(tests, settings)),
                out: self.options.out.join("unit-tests").join(name),
                limit: BOOT + of_tests,
            },
            None,
            self.watcher,
        )?;
        let total = (tests.len() * settings.len()) as u64;
        let what = format!(
            "unit tests on {}, {name} kernel",
            self.options.engine.name()
        );
        let mut said = Vec::new();
        let ended = host.program(&mut |words| {
            said.extend_from_slice(words);
            let ended = said.split(|&byte| byte == b'\n').filter(|line| {
                line.windows(4).any(|four| four == b"end ") && line.starts_with(b"steady-unit:")
            });
            self.watcher.progress(&what, ended.count() as u64, total);
            Ok(())
        });
        self.watcher.done(&what);
        if matches!(ended, Err(LabError::Interrupted)) {
            return Err(LabError::Interrupted.into());
        }
        let cells = script::cells(&said).map_err(SelftestError::Asked)?;
        Ok((cells, ended))
    }

    /// QEMU, its firmware, and the tests' programs.
    fn files(&self, tests: &[&UnitTest]) -> Result<Vec<Added>, SelftestError> {
        let needed = FIRMWARE.iter().chain(&[(QEMU, "qemu-system-x86")]);
        let mut files = Vec::new();
        for &(path, package) in needed {
            if !Path::new(path).is_file() {
                return Err(ArtifactError::Missing {
                    program: path.to_owned(),
                    why: "kvm-unit-tests run in the distribution's QEMU",
                    package,
                }
                .into());
            }
            files.push(Added {
                from: path.into(),
                to: path.trim_start_matches('/').to_owned(),
            });
        }
        for test in tests {
            let from = self.build.join("x86").join(&test.file);
            if !from.is_file() {
                let text = format!(
                    "the unit test {}: make built no {}",
                    test.name,
                    from.display()
                );
                return Err(SelftestError::Asked(text));
            }
            let to = format!("x86/{}", test.file);
            files.push(Added { from, to });
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_begin_with_all_off_and_switch_one_remedy_each() {
        let settings = settings(false);
        assert_eq!(settings[0].name, "off");
        let on = |setting: &Setting| {
            let pairs = setting.parameters.iter().zip(&settings[0].parameters);
            pairs.filter(|(one, off)| one != off).count()
        };
        assert!(settings[1..].iter().all(|setting| on(setting) == 1));
        assert_eq!(settings.len(), 1 + Registry::default().shipped().count());
        assert!(super::settings(true).len() > settings.len());
    }
}
