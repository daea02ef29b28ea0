// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is there and not as it was built: parts of packages, entries of the cache, and a cache that
//! cannot be written.

use std::fs;
use std::path::Path;

use steady_lab_artifacts::cache::sums;

use crate::machine::{COMMANDS, Gone, Machine, command};

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
    sums::write(place).unwrap();
}

#[test]
fn each_part_of_a_package_is_a_need_with_a_package_as_its_fix() {
    let mut machine = Machine::new();
    machine.package();
    let place = machine.path("project/kernels/kernel-0123456789abcdef");
    let lab = "./steady-lab_*.deb";
    // Without `steady-lab`, and without what would build its kernel.
    let bare = Gone::File("/usr/src/linux-source-6.12.tar.xz");
    let error = machine.both_refuse(&bare, command("build kernel"), "kernel");
    assert!(
        error.contains(&format!("apt-get install {lab}")) && !error.contains("linux-source"),
        "{error}"
    );
    kernel(&place);
    for command in [1, 4, 7, 10] {
        let (code, said) = machine.doctor(&bare, COMMANDS[command].0);
        assert_eq!(code, Some(0), "{said}");
    }
    let own = "./steady_*.deb";
    for (part, commands, name, package) in [
        ("programs/steady-vmm", [1, 7], "programs", own),
        ("programs/workloads/spin", [1, 7], "programs", own),
        ("programs/memtrace.so", [7, 10], "programs", own),
        (
            "kernels/kernel-0123456789abcdef/config",
            [1, 4],
            "kernel",
            lab,
        ),
        (
            "kernels/kernel-0123456789abcdef/bzImage",
            [1, 4],
            "kernel",
            lab,
        ),
    ] {
        let file = machine.path("project").join(part);
        let bytes = fs::read(&file).unwrap();
        for (left, said) in [
            (None, "is missing"),
            (Some(&bytes[1..]), "checksum differs"),
        ] {
            fs::remove_file(&file).unwrap();
            left.into_iter()
                .for_each(|left| fs::write(&file, left).unwrap());
            for command in commands {
                let error = machine.both_refuse(&Gone::Nothing, COMMANDS[command], name);
                let fix = format!("apt-get install --reinstall {package}");
                let words = [&fix, part, said];
                assert!(words.iter().all(|&words| error.contains(words)), "{error}");
            }
            fs::write(&file, &bytes).unwrap();
        }
    }
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
    assert!(output.status.success(), "{output:?}");
    let verify = || {
        machine
            .ask(&Gone::Nothing, &["cache", "verify", &name])
            .status
            .code()
    };
    assert_eq!(verify(), Some(0));

    let mut other = image();
    other[700] = 1;
    for (file, damaged, expected) in [
        ("bzImage", &other[..], "checksum differs"),
        ("bzImage", &image()[..1050], "checksum differs"),
        ("SHA256SUMS", b"", "has no checksum"),
    ] {
        let bytes = fs::read(entry.join(file)).unwrap();
        fs::write(entry.join(file), damaged).unwrap();
        for command in [0, 4] {
            let error = machine.both_refuse(&Gone::Nothing, COMMANDS[command], "kernel");
            assert!(error.contains(expected), "{error}");
            assert!(
                error.contains(&format!("steady cache prune {name}")),
                "{error}"
            );
        }
        assert_eq!(verify(), Some(5));
        fs::write(entry.join(file), bytes).unwrap();
    }
    fs::remove_file(entry.join("SHA256SUMS")).unwrap();
    let error = machine.both_refuse(&Gone::Nothing, command("build kernel"), "kernel");
    assert!(error.contains("SHA256SUMS is missing"), "{error}");
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
    for command in [4, 5] {
        machine.both_refuse(&Gone::Nothing, COMMANDS[command], "room");
    }
    let error = machine.both_refuse(&Gone::Nothing, command("cache list"), "the cache");
    assert!(error.contains("Not a directory"), "{error}");
    for words in [&["prune"][..], &["prune", "--all"], &["verify"]] {
        let output = machine.ask(&Gone::Nothing, &[&["cache"], words].concat());
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(3), "{said}");
        assert!(said.contains(cache.to_str().unwrap()), "{said}");
    }
}

#[test]
fn what_cannot_be_asked_is_not_taken_for_unwanted() {
    let machine = Machine::new();
    let names = ["kernel-0123456789abcdef", "qemu-0123456789abcdef"];
    for name in names {
        fs::create_dir(machine.path("cache").join(name)).unwrap();
    }
    let prune = &["cache", "prune", "--dry-run"][..];
    let goes = |name: &str, output: &str| {
        let mut lines = output.lines();
        lines.any(|line| line.starts_with(name) && line.ends_with("would go"))
    };
    let shell = Path::new("/bin/sh");
    let steady = env!("CARGO_BIN_EXE_steady");
    for files in 4..24 {
        let script = format!("ulimit -n {files} && exec {steady} cache prune --dry-run");
        let output = machine.call(&Gone::Nothing, shell, &["-c", &script]);
        let [said, error] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let whole = names.iter().all(|name| goes(name, &said));
        assert!(whole || !error.is_empty(), "{files}: {said}");
        let unknown = error.contains("cannot be known");
        assert!(
            output.status.success() == (whole || unknown),
            "{files}: {error}"
        );
    }
    // Without a compiler no name is known, with it all are.
    for (gone, expected) in [(Gone::Program("gcc"), false), (Gone::Nothing, true)] {
        let output = machine.ask(&gone, prune);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{output:?}");
        for name in names {
            assert_eq!(goes(name, &said), expected, "{name}: {said}");
        }
    }
}

#[test]
fn a_limit_that_lets_nothing_start_is_refused_by_its_name() {
    let machine = Machine::new();
    let steady = env!("CARGO_BIN_EXE_steady");
    for (limit, raise) in [
        ("-n 8", "ulimit -n 1024"),
        ("-f 1024", "ulimit -f unlimited"),
        ("-v 1000000", "ulimit -v unlimited"),
    ] {
        for words in ["run $STEADY_HOME/scenarios/solo.toml", "doctor run"] {
            let script = format!("ulimit {limit} && exec {steady} {words}");
            let output = machine.call(&Gone::Nothing, Path::new("/bin/sh"), &["-c", &script]);
            let said = [output.stdout, output.stderr].concat();
            let said = String::from_utf8_lossy(&said).into_owned();
            let fix = format!("fix: raise the limit, as by {raise}");
            assert_eq!(output.status.code(), Some(3), "{limit}: {said}");
            assert!(said.trim_end().ends_with(&fix), "{limit}: {said}");
        }
    }
}
