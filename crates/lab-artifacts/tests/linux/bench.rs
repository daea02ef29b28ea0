// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A made-up Linux tree beside a made-up folder of changes with the project's real scripts.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use tempfile::TempDir;

/// The project's own folder of kernel changes.
pub fn real_linux() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux")
}

/// All files below a folder with their contents, by their relative paths; `.git` is left out.
pub fn files_of(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.file_name().unwrap() == ".git" {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                found.insert(name.to_owned(), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Text of twenty numbered lines, of which some are replaced or followed by others.
pub fn numbered(changes: &[(usize, &str)]) -> String {
    (1..=20)
        .map(|line| {
            let change = changes.iter().find(|(at, _)| *at == line);
            change.map_or_else(|| format!("line {line}\n"), |(_, text)| format!("{text}\n"))
        })
        .collect()
}

pub struct Bench {
    place: TempDir,
}

impl Bench {
    /// `tree/` has `a.c` of twenty lines and is Linux 6.12; `linux/` has the scripts alone.
    pub fn new() -> Self {
        let bench = Self {
            place: tempfile::tempdir().unwrap(),
        };
        bench.write("tree/Makefile", "VERSION = 6\nPATCHLEVEL = 12\n");
        bench.write("tree/a.c", &numbered(&[]));
        for script in [
            "apply",
            "configure",
            "deb",
            "format-patch",
            "lib.sh",
            "port",
            "selftests/build",
        ] {
            let to = bench.path("linux").join(script);
            fs::create_dir_all(to.parent().unwrap()).unwrap();
            fs::copy(real_linux().join(script), to).unwrap();
        }
        bench.write("linux/cover", "SPDX\nMade up\n\nNothing to see.\n");
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    /// Writes a hook that makes `after` of `before` in `file`.
    pub fn hook(&self, hook: &str, header: &[&str], file: &str, before: &str, after: &str) {
        self.write("before", before);
        self.write("after", after);
        let output = Command::new("diff")
            .args(["-U2", "--label", &format!("a/{file}")])
            .args(["--label", &format!("b/{file}")])
            .args([self.path("before"), self.path("after")])
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(1), "the texts differ");
        let diff = String::from_utf8(output.stdout).unwrap();
        let name = Path::new(hook).file_stem().unwrap().to_str().unwrap();
        let new: String = header.iter().map(|file| format!("New: {file}\n")).collect();
        let text =
            format!("SPDX\nSubject: x86: Do {name}\n{new}\nWhy {name} is good.\n---\n{diff}");
        self.write(hook, &text);
    }

    /// Runs one of the scripts in `linux/`, from the folder of everything.
    pub fn run(&self, script: &str, words: &[&str]) -> Output {
        Command::new(self.path("linux").join(script))
            .args(words)
            .env("STEADY_CACHE", self.path("cache"))
            .current_dir(self.place.path())
            .output()
            .unwrap()
    }

    /// Runs a script that has to succeed.
    pub fn runs(&self, script: &str, words: &[&str]) {
        let output = self.run(script, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{script} {words:?}: {said}");
    }

    /// Runs a script that has to fail, and returns what it said.
    pub fn refuses(&self, script: &str, words: &[&str]) -> String {
        let output = self.run(script, words);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{script} {words:?}: {said}");
        said
    }
}
