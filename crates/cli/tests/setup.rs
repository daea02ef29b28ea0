// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `setup/install`: what does it install at each level, what does it say before, and when does it
//! ask? A made `apt-get` writes down what it is asked for; a mount namespace takes things away.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail by panicking")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use steady_lab_artifacts::need::rows;

/// Answers as Debian's does, and installs nothing.
const APT: &str = r#"#!/bin/sh
echo "$*" >>"$LOG"
case "$*" in
*--assume-no*)
	echo 'Need to get 1,234 kB of archives.'
	echo 'After this operation, 69.4 MB of additional disk space will be used.'
	exit 1
	;;
esac
"#;

struct Bench(tempfile::TempDir);

impl Bench {
    fn new() -> Self {
        let bench = Self(tempfile::tempdir().unwrap());
        fs::set_permissions(bench.0.path(), fs::Permissions::from_mode(0o755)).unwrap();
        bench.script("apt-get", APT);
        fs::write(bench.path("log"), "").unwrap();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn script(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// `setup/install` at a level where these files are gone; on a terminal, with this answer.
    fn install(&self, level: &str, gone: &[&str], answer: Option<&str>) -> Output {
        self.install_where("", level, gone, answer)
    }

    /// The same behind these commands of a shell.
    fn install_where(
        &self,
        before: &str,
        level: &str,
        gone: &[&str],
        answer: Option<&str>,
    ) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../setup/install");
        let hide: String = gone
            .iter()
            .map(|file| format!("mount --bind /dev/null {file} && "))
            .collect();
        let call = format!("{before}{hide}exec {} {level}", script.display());
        let mut command = Command::new("unshare");
        command.args(["--mount", "/bin/sh", "-c", &call]);
        if answer.is_some() {
            let call = format!("unshare --mount /bin/sh -c '{call}'");
            command = Command::new("script");
            command.args(["--quiet", "--return", "--command", &call, "/dev/null"]);
        }
        let path = std::env::var("PATH").unwrap();
        let mut child = command
            .env("PATH", format!("{}:{path}", self.0.path().display()))
            .env("LOG", self.path("log"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        input
            .write_all(answer.unwrap_or_default().as_bytes())
            .unwrap();
        drop(input);
        child.wait_with_output().unwrap()
    }

    /// The packages that apt was asked to install, in its last call for that.
    fn installed(&self) -> Option<String> {
        let log = fs::read_to_string(self.path("log")).unwrap();
        let call = log
            .lines()
            .rev()
            .find(|line| line.starts_with("install -y"))?;
        let words = call
            .split(' ')
            .filter(|word| !word.starts_with('-') && !word.contains("::"));
        Some(words.skip(1).collect::<Vec<_>>().join(" "))
    }
}

fn said(output: &Output) -> String {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// A file of a row, where it is on this machine.
fn file(package: &str) -> &'static str {
    let mut rows = rows();
    rows.find(|row| row.package == package && row.what.starts_with('/'))
        .unwrap()
        .what
}

#[test]
fn where_all_is_there_nothing_is_asked_for_and_nothing_is_said() {
    for level in ["diagnose", "lab", "tests"] {
        let bench = Bench::new();
        let output = bench.install(level, &[], None);
        assert!(
            output.status.success() && said(&output).is_empty(),
            "{level}: {output:?}"
        );
        assert_eq!(fs::read_to_string(bench.path("log")).unwrap(), "");
    }
}

#[test]
fn a_level_installs_what_it_needs_and_what_the_levels_below_need() {
    let gone = [file("vgabios"), file("linux-perf")];
    for (level, packages) in [
        ("diagnose", None),
        ("lab", Some("vgabios")),
        ("tests", Some("linux-perf vgabios")),
    ] {
        let bench = Bench::new();
        let output = bench.install(level, &gone, None);
        assert_eq!(
            bench.installed().as_deref(),
            packages,
            "{level}: {}",
            said(&output)
        );
        let Some(packages) = packages else { continue };
        // What must be installed is still not there: that is an error, and not silence.
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
        let before =
            format!("packages are missing: {packages}\nto fetch: 1,234 kB; on disk: 69.4 MB");
        assert!(said(&output).contains(&before), "{}", said(&output));
    }
}

#[test]
fn on_a_terminal_it_asks_and_no_is_an_answer() {
    let gone = [file("vgabios")];
    for (answer, installs) in [("n\n", false), ("y\n", true), ("\n", true)] {
        let bench = Bench::new();
        let output = bench.install("lab", &gone, Some(answer));
        assert!(
            said(&output).contains("install them? [Y/n]"),
            "{}",
            said(&output)
        );
        assert_eq!(
            bench.installed().is_some(),
            installs,
            "{answer:?}: {}",
            said(&output)
        );
        assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    }
}

#[test]
fn a_server_that_a_package_brings_is_started_neither_now_nor_at_boot() {
    let bench = Bench::new();
    // Debian's packages ask as this does; one before it has a server that stays as it is.
    let asks = "case \"$*\" in 'install -y'*)\n/usr/sbin/policy-rc.d new start\n\
                echo \"may start: $?\" >>\"$LOG\"\necho >/etc/init.d/new\n;; esac\n";
    bench.script("apt-get", &format!("{APT}{asks}"));
    bench.script("update-rc.d", "#!/bin/sh\necho \"$*\" >>\"$LOG\"\n");
    let sbin = bench.path("sbin").display().to_string();
    let before = format!(
        "cp -a /usr/sbin {sbin} && rm -f {sbin}/policy-rc.d && mount --bind {sbin} /usr/sbin && \
         mount -t tmpfs tmpfs /etc/init.d && echo >/etc/init.d/old && "
    );
    let output = bench.install_where(&before, "lab", &[file("vgabios")], None);
    let log = fs::read_to_string(bench.path("log")).unwrap();
    let said_last = log
        .lines()
        .skip_while(|line| !line.starts_with("may start"));
    let expected = ["may start: 101", "new disable"];
    assert!(said_last.eq(expected), "{log}{}", said(&output));
    assert!(!bench.path("sbin/policy-rc.d").exists(), "it is gone again");
}

#[test]
fn an_ordinary_user_gets_the_line_for_root_and_apt_is_not_called() {
    let bench = Bench::new();
    bench.script("id", "#!/bin/sh\necho 1000\n");
    let output = bench.install("lab", &[file("vgabios")], None);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    let line = "apt-get install -y --no-install-recommends vgabios'";
    assert!(
        said(&output).trim_end().ends_with(line),
        "{}",
        said(&output)
    );
    assert_eq!(fs::read_to_string(bench.path("log")).unwrap(), "");
}

#[test]
fn a_level_that_is_not_known_is_refused() {
    let output = Bench::new().install("everything", &[], None);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        said(&output).contains("expected a level: diagnose, lab or tests"),
        "{output:?}"
    );
}
