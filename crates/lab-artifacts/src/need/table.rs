// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The rows of `setup/needs`: programs and files, and the packages that have them.

use std::path::{Path, PathBuf};

use super::{Fix, Need, State};
use crate::process::find_program;
use crate::said;

/// The need of a path on which programs can be.
pub(super) const PATH: &str = "PATH";
/// Limits of a process that starts others: what `/proc/PID/limits` calls them, their names here,
/// the least that is expected, and what raises them. The images of a race are some 100 MiB, QEMU
/// takes 1 GiB of addresses for its code alone, and a race fewer than 16 files.
const LIMITS: [(&str, &str, u64, &str); 3] = [
    ("Max open files", "open files", 64, "ulimit -n 1024"),
    (
        "Max file size",
        "lengths of files",
        1 << 30,
        "ulimit -f unlimited",
    ),
    (
        "Max address space",
        "addresses",
        4 << 30,
        "ulimit -v unlimited",
    ),
];
const TABLE: &str = include_str!("../../../../setup/needs");
/// Columns before the reason.
const COLUMNS: usize = 4;

/// A program or a file, and what needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    /// The least level of `setup/install` that installs it; `-`: none does.
    pub level: &'static str,
    /// What needs it, by commas.
    pub uses: &'static str,
    /// A program, a program with the least version behind an `@`, or a file.
    pub what: &'static str,
    /// The Debian package that has it.
    pub package: &'static str,
    /// What for.
    pub why: &'static str,
}

/// All rows, in the order of the table.
pub fn rows() -> impl Iterator<Item = Row> {
    let lines = TABLE.lines().filter(|line| !line.starts_with('#'));
    lines.map(|line| {
        let mut words = line.splitn(COLUMNS + 1, ' ');
        let mut next = || words.next().unwrap_or_default();
        Row {
            level: next(),
            uses: next(),
            what: next(),
            package: next(),
            why: next(),
        }
    })
}

/// The needs of these uses, each once, in the order of the table; but for those of other releases.
#[must_use]
pub fn of(uses: &[&str]) -> Vec<Need> {
    let used = |row: &Row| row.uses.split(',').any(|used| uses.contains(&used));
    let here = release();
    let is_here = |row: &Row| row.release().is_none_or(|of| here.as_deref() == Some(of));
    let found = rows().filter(|row| used(row) && is_here(row));
    // What is started needs files of this process.
    let starved = uses.contains(&"step").then(starved).flatten();
    starved
        .into_iter()
        .chain(found.map(|row| row.need()))
        .collect()
}

/// The row of a use for this release alone.
pub(super) fn of_this_release(wanted: &str) -> Option<Row> {
    let here = release()?;
    rows().find(|row| row.uses == wanted && row.release() == Some(&here))
}

/// The number of this release of Debian.
fn release() -> Option<String> {
    let text = std::fs::read_to_string("/etc/os-release").ok()?;
    let mut lines = text.lines();
    let release = lines.find_map(|line| line.strip_prefix("VERSION_ID="))?;
    Some(release.trim_matches('"').to_owned())
}

impl Row {
    /// The release of Debian that it is for alone: its level is `LEVEL@N` on Debian N.
    fn release(&self) -> Option<&'static str> {
        self.level.split('@').nth(1)
    }

    /// What this machine has of it.
    #[must_use]
    pub fn need(&self) -> Need {
        let (name, least) = self.what.split_once('@').unwrap_or((self.what, ""));
        let lacks = |found: String| {
            let fix = Fix::Install(self.package.to_owned());
            Need::unmet(name, self.why, State::Missing, found, fix)
        };
        let is_file = name.starts_with('/');
        let Some(path) = find(name) else {
            let on_path = (!is_file).then(no_path).flatten();
            return on_path.unwrap_or_else(|| lacks("is not installed".to_owned()));
        };
        if is_file {
            return Need::met(name, self.why, path.display().to_string());
        }
        let said = said::version(&path);
        let need = working((name, self.why), &path, &said, self.package);
        let version = said.map_or_else(|_| String::new(), |text| number(&text));
        if need.lets_go_on() && !least.is_empty() && older(&version, least) {
            return lacks(format!(
                "is of version {version} at {}; expected {least} or newer",
                path.display()
            ));
        }
        need
    }
}

/// A program that is there, of a Debian package: it may still not work.
pub(super) fn working(
    (name, why): (&str, &str),
    path: &Path,
    said: &Result<String, String>,
    package: &str,
) -> Need {
    let place = path.display();
    let Err(said) = said else {
        return Need::met(name, why, place.to_string());
    };
    if let Some(need) = starved() {
        return need;
    }
    let again = format!("apt-get install --reinstall {package}");
    let fix = match ["/usr/bin", "/usr/sbin", "/bin", "/sbin"].contains(&folder_of(path)) {
        true => Fix::AsRoot(again),
        false => Fix::Do(format!(
            "remove or repair {place}, or put what works before it on PATH"
        )),
    };
    let found = format!("does not work: {place}: {said}");
    Need::unmet(name, why, State::Missing, found, fix)
}

/// A limit on this process that is too small for it to start others.
fn starved() -> Option<Need> {
    let (why, fix) = ("programs are started", |how: &str| {
        Fix::Do(format!("raise the limit, as by {how}"))
    });
    let unmet = |name, found: String, how| Need::unmet(name, why, State::Missing, found, fix(how));
    let text = match std::fs::read_to_string("/proc/self/limits") {
        Ok(text) => text,
        // Without /proc nothing is known.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
        Err(error) => {
            let (_, name, _, how) = LIMITS[0];
            return Some(unmet(name, format!("cannot be had: {error}"), how));
        }
    };
    LIMITS.into_iter().find_map(|(line, name, least, how)| {
        let line = text.lines().find_map(|one| one.strip_prefix(line))?;
        let limit: u64 = line.split_whitespace().next()?.parse().ok()?;
        let found = format!("are limited to {limit}; expected {least} or more");
        (limit < least).then(|| unmet(name, found, how))
    })
}

/// What is wrong with a path on which no program can be.
fn no_path() -> Option<Need> {
    let found = match std::env::var_os("PATH") {
        None => "is not set".to_owned(),
        Some(path) if path.is_empty() => "is empty".to_owned(),
        Some(path) if std::env::split_paths(&path).any(|folder| folder.is_dir()) => return None,
        Some(path) => format!("is {}, where no folder is", path.display()),
    };
    let fix = Fix::Do("set PATH, as to /usr/local/bin:/usr/bin:/bin".to_owned());
    Some(Need::unmet(
        PATH,
        "programs are found by it",
        State::Missing,
        found,
        fix,
    ))
}

fn folder_of(path: &Path) -> &str {
    path.parent().and_then(Path::to_str).unwrap_or_default()
}

/// A program on the path, or a file, of whose path one part may have a star for any letters.
fn find(what: &str) -> Option<PathBuf> {
    if !what.starts_with('/') {
        return find_program(what);
    }
    let Some((before, after)) = what.split_once('*') else {
        return Some(PathBuf::from(what)).filter(|path| path.is_file());
    };
    let folder = Path::new(before).parent()?;
    let prefix = Path::new(before).file_name()?.to_str()?;
    let (suffix, rest) = after.split_once('/').unwrap_or((after, ""));
    let mut found: Vec<PathBuf> = folder
        .read_dir()
        .ok()?
        .flatten()
        .filter(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.ends_with(suffix))
        })
        .map(|entry| entry.path().join(rest))
        .filter(|path| path.is_file())
        .collect();
    found.sort();
    found.pop()
}

/// The first number of what a program says of its version, as in `cargo 1.96.0`.
fn number(text: &str) -> String {
    text.split_whitespace()
        .find(|word| word.starts_with(|first: char| first.is_ascii_digit()))
        .unwrap_or("unknown")
        .to_owned()
}

/// Whether a version is older than another, by their numbers; what cannot be read is.
fn older(version: &str, least: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        let parts = text.split('.').map_while(|part| part.parse().ok());
        parts.collect()
    };
    numbers(version) < numbers(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_has_all_columns_and_a_level_that_is_known() {
        assert!(rows().count() > 50);
        for row in rows() {
            let level = row.level.split('@').next().unwrap_or_default();
            assert!(
                ["diagnose", "lab", "tests", "-"].contains(&level),
                "{row:?}"
            );
            assert!(!row.why.is_empty() && !row.package.contains('/'), "{row:?}");
            assert!(!row.why.ends_with('.'), "{row:?}");
        }
    }

    #[test]
    fn each_program_of_a_workload_has_a_row_with_its_package() {
        let mut asked = 0;
        for program in steady_guest_programs::PROGRAMS {
            for path in program.binaries {
                let row = rows().find(|row| row.what == *path && row.uses == "workload");
                let row = row.unwrap_or_else(|| panic!("no row for {path} of {}", program.name));
                let packages = program.package.unwrap_or_default();
                assert!(packages.split(' ').any(|one| one == row.package), "{row:?}");
                asked += 1;
            }
        }
        assert!(asked > 8);
    }

    #[test]
    fn versions_are_compared_by_their_numbers() {
        for (version, least, is_older) in [
            ("1.96.0", "1.95", false),
            ("1.95.0", "1.95", false),
            ("1.100.2", "1.95", false),
            ("1.85.1", "1.95", true),
            ("unknown", "1.95", true),
        ] {
            assert_eq!(older(version, least), is_older, "{version}");
        }
    }

    #[test]
    fn a_star_stands_for_letters_of_one_folder() {
        assert!(find("/et*/os-release").is_some_and(|path| path.ends_with("etc/os-release")));
        assert_eq!(find("/et*/no-such-file"), None);
        assert_eq!(find("/no-such-folder"), None);
    }
}
