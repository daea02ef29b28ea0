// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `make dist` packs: the layout of a package, that the command finds its parts there, and
//! that the same tree gives the same bytes. The static build itself is `packaging/try`'s to run.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The commit and the time that these packages are said to be of: 2026-01-02 03:04:05 UTC.
const COMMIT: &str = "0123456789ab";
const TIME: &str = "1767323045";

fn project() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// What a command that ends well prints.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {output:?}");
    text(&output.stdout)
}

fn shell(script: &str, words: &[&Path]) -> Output {
    let mut command = Command::new("sh");
    command.args(["-euc", script, "sh"]).args(words);
    command
        .env("STEADY_COMMIT", COMMIT)
        .env("SOURCE_DATE_EPOCH", TIME)
        // A `make` inside of `make test` would print which folder it enters.
        .env_remove("MAKELEVEL")
        .env_remove("MAKEFLAGS")
        .current_dir(project());
    command.output().unwrap()
}

/// A folder with stand-ins of the images' programs, which nothing here runs.
fn programs(place: &Path) -> PathBuf {
    let folder = place.join("programs");
    fs::create_dir_all(folder.join("workloads")).unwrap();
    for name in ["steady-agent", "steady-vmm", "workloads/spin"] {
        fs::write(folder.join(name), name).unwrap();
    }
    folder
}

/// Lays out a package in `place/NAME`, with the files that this umask gives.
fn staged(place: &Path, name: &str, umask: &str) -> PathBuf {
    let root = place.join(name);
    let script = format!("umask {umask}; packaging/stage \"$1\" \"$2\" \"$3\"");
    let steady = Path::new(env!("CARGO_BIN_EXE_steady"));
    let output = shell(&script, &[&root, steady, &programs(place)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    root
}

/// The command with this tree as its home, in a folder without one.
fn steady(home: Option<&Path>, program: &Path, words: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(words).env("NO_COLOR", "1").current_dir("/");
    match home {
        Some(home) => command.env("STEADY_HOME", home),
        None => command.env_remove("STEADY_HOME"),
    };
    let output = command.output().unwrap();
    assert!(output.status.success(), "{words:?}: {output:?}");
    text(&output.stdout) + &text(&output.stderr)
}

#[test]
fn an_installed_command_finds_its_parts_and_builds_nothing() {
    let place = tempfile::tempdir().unwrap();
    let root = staged(place.path(), "root", "022");
    let program = root.join("usr/bin/steady");
    let share = root.join("usr/share/steady");
    let built = steady(None, &program, &["build", "programs"]);
    let expected = format!("programs: {}/programs/steady-agent", share.display());
    assert!(built.contains(&expected), "{built}");
    assert!(!share.join("target").exists(), "nothing is built");
    // A paper's items, and what has changed since a record, are the same as in the checkout.
    for paper in ["shoot4u", "ple"] {
        let words = ["reproduce", paper];
        let there = steady(Some(&share), &program, &words);
        assert_eq!(there, steady(Some(&project()), &program, &words), "{paper}");
    }
    let scenarios = fs::read_dir(share.join("scenarios")).unwrap().flatten();
    let scenarios: Vec<PathBuf> = scenarios.map(|entry| entry.path()).collect();
    let files = scenarios.iter().filter(|path| path.is_file());
    let words: Vec<&str> = ["run", "--check"]
        .into_iter()
        .chain(files.map(|path| path.to_str().unwrap()))
        .collect();
    let checked = steady(None, &program, &words);
    assert_eq!(
        checked.matches(": ok").count(),
        words.len() - 2,
        "{checked}"
    );
    let trace = root.join("usr/share/doc/steady/examples/stall.dat");
    let found = steady(None, &program, &["diagnose", trace.to_str().unwrap()]);
    assert!(found.contains("are ready and do not run"), "{found}");
}

#[test]
fn each_command_has_its_page_and_each_unit_and_completion_is_there() {
    let place = tempfile::tempdir().unwrap();
    let usr = staged(place.path(), "root", "022").join("usr");
    let help = said(Command::new(usr.join("bin/steady")).arg("--help"));
    let commands = help.split("Commands:\n").nth(1).unwrap();
    let commands = commands.lines().take_while(|line| !line.is_empty());
    let pages: Vec<String> = commands
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .map(|line| line.split_whitespace().next().unwrap().to_owned())
        .filter(|name| name != "help")
        .map(|name| format!("share/man/man1/steady-{name}.1.gz"))
        .collect();
    assert!(pages.len() > 10, "{help}");
    let others = [
        "share/man/man1/steady.1.gz",
        "share/bash-completion/completions/steady",
        "share/zsh/vendor-completions/_steady",
        "share/fish/vendor_completions.d/steady.fish",
        "lib/systemd/system/steady-place.service",
        "lib/systemd/system/steady-fold.service",
        "share/doc/steady/README.md",
        "share/doc/steady/docs/GUIDE.md",
        "share/doc/steady/copyright",
        "share/doc/steady/sbom.cdx.json",
    ];
    for name in pages.iter().map(String::as_str).chain(others) {
        let size = fs::metadata(usr.join(name)).map_or(0, |file| file.len());
        assert!(size > 0, "{name}");
    }
    bill_names_what_is_linked(&usr.join("share/doc/steady"));
}

/// The bill of materials and the licences name the same crates of others.
fn bill_names_what_is_linked(folder: &Path) {
    let bill = fs::read_to_string(folder.join("sbom.cdx.json")).unwrap();
    let bill: serde_json::Value = serde_json::from_str(&bill).unwrap();
    assert_eq!(bill["bomFormat"], "CycloneDX");
    assert_eq!(bill["metadata"]["timestamp"], "2026-01-02T03:04:05Z");
    let parts = bill["components"].as_array().unwrap();
    let named = |name: &str| parts.iter().find(|part| part["name"] == name).unwrap();
    assert_eq!(named("zstd-sys")["hashes"][0]["alg"], "SHA-256");
    assert_eq!(named("glibc")["scope"], "required");
    // Macros and build scripts are in no program, and tests' crates in no list.
    assert_eq!(named("clap_derive")["scope"], "excluded");
    assert!(parts.iter().all(|part| part["name"] != "proptest"));
    let licences = fs::read_to_string(folder.join("copyright")).unwrap();
    for part in parts.iter().filter(|part| part["scope"] == "required") {
        let (name, version) = (&part["name"], &part["version"]);
        let line = format!(
            "  {} {}: ",
            name.as_str().unwrap(),
            version.as_str().unwrap()
        );
        let is_ours = name.as_str().unwrap().starts_with("steady");
        assert!(is_ours || licences.contains(&line), "{line}");
    }
}

#[test]
fn the_same_tree_packs_to_the_same_bytes_wherever_and_whoever_packs_it() {
    let place = tempfile::tempdir().unwrap();
    let packed = |name: &str, umask: &str| {
        let root = staged(place.path(), name, umask);
        // The debug build is large, and its bytes are not what is asked here.
        fs::write(root.join("usr/bin/steady"), "a program").unwrap();
        let program = fs::Permissions::from_mode(0o755);
        fs::set_permissions(root.join("usr/bin/steady"), program).unwrap();
        let kernels = place.path().join("kernels");
        let kernel = kernels.join("kernel-0123456789abcdef");
        fs::create_dir_all(&kernel).unwrap();
        fs::write(kernel.join("bzImage"), "image").unwrap();
        fs::write(kernel.join("release"), "6.12.117\n").unwrap();
        let out = place.path().join(format!("{name}.out"));
        let script = format!("umask {umask}; packaging/pack \"$1\" \"$2\" \"$3\"");
        let output = shell(&script, &[&root, &out, &kernels]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        out
    };
    let (one, other) = (packed("one", "022"), packed("other", "077"));
    let sums = |out: &Path| fs::read_to_string(out.join("SHA256SUMS")).unwrap();
    assert_eq!(sums(&one), sums(&other));
    assert!(sums(&one).lines().count() >= 4, "{}", sums(&one));
    said(
        Command::new("sha256sum")
            .args(["-c", "SHA256SUMS"])
            .current_dir(&one),
    );
    archives_are_sound(&one);
    let bill = shell("cat \"$1\"/*.cdx.json", &[&one]);
    assert!(text(&bill.stdout).contains("linux@6.12.117"), "the kernel");
}

#[test]
fn a_clone_whose_path_has_a_blank_is_refused_before_anything_is_built() {
    let place = tempfile::tempdir().unwrap();
    let clone = place.path().join("a clone");
    let script = "mkdir \"$1\"; cp -r packaging Makefile \"$1\"; cd \"$1\"; \
                  packaging/build && exit 0; echo \"status $?\"; make help && exit 0; ls";
    let ended = shell(script, &[&clone]);
    let (out, said) = (text(&ended.stdout), text(&ended.stderr));
    assert_eq!(out, "status 2\nMakefile\npackaging\n", "{said}");
    assert_eq!(said.matches("blank").count(), 2, "{said}");
}

#[test]
fn a_packing_that_is_killed_leaves_the_packages_that_were_there() {
    let place = tempfile::tempdir().unwrap();
    let root = staged(place.path(), "root", "022");
    fs::write(root.join("usr/bin/steady"), "a program").unwrap();
    let [out, path] = ["out", "path"].map(|name| place.path().join(name));
    let put = |file: PathBuf, bytes: &str| {
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, bytes).unwrap();
        fs::set_permissions(file, fs::Permissions::from_mode(0o755)).unwrap();
    };
    put(out.join("steady_0_amd64.deb"), "before");
    // The tarball is begun when a package is whole.
    put(path.join("tar"), "#!/bin/sh\nkill -9 $PPID\n");
    let names = || {
        let names = fs::read_dir(&out).unwrap().flatten();
        let names = names.map(|entry| entry.file_name().into_string().unwrap());
        names
            .filter(|name| !name.starts_with('.'))
            .collect::<Vec<_>>()
    };
    let killed = "PATH=$3:$PATH; packaging/pack \"$1\" \"$2\"";
    assert!(!shell(killed, &[&root, &out, &path]).status.success());
    assert_eq!(names(), ["steady_0_amd64.deb"]);
    let output = shell("packaging/pack \"$1\" \"$2\"", &[&root, &out]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(!names().contains(&"steady_0_amd64.deb".to_owned()));
    assert!(names().len() >= 4 && !out.join(".new").exists());
}

/// Fields, owners and files of the archives.
fn archives_are_sound(out: &Path) {
    let names = fs::read_dir(out).unwrap().flatten();
    let names: Vec<PathBuf> = names.map(|entry| entry.path()).collect();
    let find = |begin: &str, end: &str| {
        let is_it = |path: &&PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.starts_with(begin) && name.ends_with(end)
        };
        names.iter().find(is_it).unwrap()
    };
    let (deb, lab) = (find("steady_", ".deb"), find("steady-lab_", ".deb"));
    let field = |deb: &Path, name: &str| {
        let value = said(Command::new("dpkg-deb").arg("-f").arg(deb).arg(name));
        value.trim().to_owned()
    };
    let version = field(deb, "Version");
    assert!(version.starts_with(env!("CARGO_PKG_VERSION")), "{version}");
    assert_eq!(field(deb, "Architecture"), "amd64");
    assert_eq!(field(deb, "Depends"), "", "a static program needs nothing");
    let depends = field(lab, "Depends");
    assert!(
        depends.contains(&format!("steady (= {version})")),
        "{depends}"
    );
    let unpacked = out.join("unpacked");
    said(Command::new("dpkg-deb").arg("-x").arg(lab).arg(&unpacked));
    let kernel = unpacked.join("usr/share/steady/kernels/kernel-0123456789abcdef");
    let compared = said(
        Command::new("sha256sum")
            .args(["-c", "SHA256SUMS"])
            .current_dir(kernel),
    );
    assert_eq!(compared, "bzImage: OK\nrelease: OK\n");
    let listed = said(Command::new("dpkg-deb").arg("-c").arg(deb));
    assert!(
        listed.lines().all(|line| line.contains(" root/root ")),
        "{listed}"
    );
    let of = |listed: &str, prefix: &str| -> BTreeSet<String> {
        let paths = listed
            .lines()
            .filter_map(|line| line.split_whitespace().last());
        let files = paths.filter(|path| !path.ends_with('/'));
        files
            .filter_map(|path| Some(path.strip_prefix(prefix)?.to_owned()))
            .collect()
    };
    let tarball = find("steady-", "-x86_64.tar.xz");
    let unpacked = said(Command::new("tar").arg("-tf").arg(tarball));
    let top = format!("steady-{version}-x86_64/");
    assert_eq!(
        of(&listed, "./usr/"),
        of(&unpacked, &top),
        "the same files in both"
    );
}

#[test]
fn a_program_that_needs_a_loader_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let source = place.path().join("nothing.c");
    fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let check = "program=test project=$PWD; . packaging/lib.sh; is_static \"$1\"";
    for (kind, passes) in [("-static", true), ("-static-pie", true), ("-pie", false)] {
        let program = place.path().join(kind);
        let mut compiler = Command::new("cc");
        said(compiler.args([kind, "-o"]).arg(&program).arg(&source));
        let output = shell(check, &[&program]);
        assert_eq!(output.status.success(), passes, "{kind}: {output:?}");
        let complaint = text(&output.stderr);
        assert_eq!(
            complaint.contains("is not static: "),
            !passes,
            "{complaint}"
        );
    }
}

#[test]
fn the_images_programs_are_compiled_as_in_a_checkout() {
    let read = |path: &str| fs::read_to_string(project().join(path)).unwrap();
    let lab = read("crates/lab-artifacts/src/programs.rs");
    let flags = lab
        .split("\"-C target-feature=+crt-static ")
        .nth(1)
        .unwrap();
    let flags = format!("compile static '{}'", flags.split('"').next().unwrap());
    assert!(read("packaging/build").contains(&flags), "{flags}");
}

#[test]
fn the_version_names_the_commit_of_the_clone() {
    let version = said(Command::new(env!("CARGO_BIN_EXE_steady")).arg("--version"));
    let head = Command::new("git")
        .args(["rev-parse", "--short=12", "HEAD"])
        .current_dir(project())
        .output();
    let commit = match head {
        Ok(head) if head.status.success() => text(&head.stdout).trim().to_owned(),
        // An archive, or a machine without git.
        _ => return,
    };
    let number = env!("CARGO_PKG_VERSION");
    assert_eq!(version, format!("steady {number} ({commit})\n"));
}
