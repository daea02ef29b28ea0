// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does an image that holds the closure of a program hold what the program needs to start?

mod common;

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use steady_guest_programs::image::{ClosureError, ImageFile, closure};
use steady_guest_programs::{PROGRAMS, Program};

fn host_paths(files: &[ImageFile]) -> Vec<PathBuf> {
    let canonical = |file: &ImageFile| file.host.canonicalize().expect("the file exists");
    let mut paths: Vec<PathBuf> = files.iter().map(canonical).collect();
    paths.sort();
    paths.dedup();
    paths
}

/// The files that the dynamic loader itself says it maps.
fn mapped_by_the_loader(program: &Path) -> Vec<PathBuf> {
    let output = Command::new("/lib64/ld-linux-x86-64.so.2")
        .arg("--list")
        .arg(program)
        .output()
        .expect("the loader runs");
    let text = String::from_utf8(output.stdout).expect("the loader prints UTF-8");
    text.split_whitespace()
        .filter(|word| word.starts_with('/'))
        .map(|path| Path::new(path).canonicalize().expect("the file exists"))
        .collect()
}

#[test]
fn the_closure_is_what_the_dynamic_loader_maps_and_the_unwinder() {
    let mut programs: Vec<&str> = vec!["/bin/ls"];
    programs.extend(PROGRAMS.iter().flat_map(|program| program.binaries));
    for program in programs {
        common::require(program);
        let files = closure(&[program]).expect(program);
        let mut expected = mapped_by_the_loader(Path::new(program));
        expected.push(
            Path::new(program)
                .canonicalize()
                .expect("the program exists"),
        );
        expected.sort();
        expected.dedup();
        let mut found = host_paths(&files);
        found.retain(|path| expected.contains(path) || !path.ends_with("libgcc_s.so.1"));
        assert_eq!(found, expected, "{program}");
    }
}

#[test]
fn programs_that_end_threads_bring_the_unwinder() {
    common::require("/usr/bin/stress-ng");
    let files = closure(&["/usr/bin/stress-ng"]).expect("stress-ng resolves");
    let unwinder = files
        .iter()
        .find(|file| file.image.ends_with("libgcc_s.so.1"));
    assert!(unwinder.is_some(), "{files:#?}");
}

/// chroot, for which anyone but root needs a user name space; and root may not have one in a
/// container.
fn change_root() -> Command {
    const CHROOT: &str = "/usr/sbin/chroot";
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if is_root {
        return Command::new(CHROOT);
    }
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", CHROOT]);
    command
}

/// The check that counts: the loader of a root directory that holds nothing else starts it.
#[test]
fn programs_start_in_a_root_directory_that_holds_only_their_closure() {
    for (program, words) in [
        ("/usr/bin/vips", &["--version"][..]),
        ("/usr/bin/hackbench", &["--help"]),
        ("/usr/bin/sysbench", &["--version"]),
        ("/usr/bin/pbzip2", &["--version"]),
    ] {
        common::require(program);
        let root = tempfile::tempdir().expect("a directory");
        for file in closure(&[program]).expect(program) {
            let target = root
                .path()
                .join(file.image.strip_prefix("/").expect("absolute"));
            std::fs::create_dir_all(target.parent().expect("a parent")).expect("directories");
            std::fs::copy(&file.host, &target).expect("a copy");
        }
        let output = change_root()
            .arg(root.path())
            .arg(program)
            .args(words)
            .output()
            .expect("chroot and unshare run: apt-get install coreutils util-linux");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {stderr}");
    }
}

#[test]
fn files_come_in_the_order_of_their_image_paths_and_once() {
    let files = closure(&["/bin/ls", "/bin/cat", "/bin/ls"]).expect("coreutils resolve");
    let images: Vec<&PathBuf> = files.iter().map(|file| &file.image).collect();
    assert!(
        images.windows(2).all(|pair| pair[0] < pair[1]),
        "{images:?}"
    );
    assert!(images.contains(&&PathBuf::from("/usr/lib/x86_64-linux-gnu/libc.so.6")));
    assert!(images.contains(&&PathBuf::from("/lib64/ld-linux-x86-64.so.2")));
}

#[test]
fn a_static_program_needs_only_itself() {
    let spin = common::own_program("spin");
    let files = closure(&[&spin]).expect("a static program resolves");
    assert_eq!(
        files,
        [ImageFile {
            image: spin.clone(),
            host: spin
        }]
    );
}

#[test]
fn a_script_is_refused_with_its_interpreter() {
    let directory = tempfile::tempdir().expect("a directory");
    let script = directory.path().join("script");
    std::fs::write(&script, "#!/bin/sh -e\ntrue\n").expect("a script");
    let error = closure(&[&script]).expect_err("a script is not a program");
    assert!(
        matches!(&error, ClosureError::Script { interpreter, .. } if interpreter == "/bin/sh -e")
    );
    assert!(
        error.to_string().contains("expected an ELF program"),
        "{error}"
    );
}

#[test]
fn neither_ends_of_files_nor_other_formats_panic() {
    let directory = tempfile::tempdir().expect("a directory");
    let whole = std::fs::read("/bin/ls").expect("ls is readable");
    let path = directory.path().join("part");
    for length in (0..whole.len()).step_by(whole.len() / 97) {
        std::fs::write(&path, &whole[..length]).expect("a part of a program");
        // Whatever it says, it says it as a value.
        let _ = closure(&[&path]);
    }
    std::fs::write(&path, b"PK\x03\x04 no program").expect("a file");
    let error = closure(&[&path]).expect_err("a zip file is not a program");
    assert!(matches!(error, ClosureError::NotElf { .. }), "{error}");
}

#[test]
fn an_absent_program_is_named_with_what_to_do() {
    let error = closure(&["/usr/bin/no-such-program"]).expect_err("it does not exist");
    let text = error.to_string();
    assert!(
        text.contains("/usr/bin/no-such-program") && text.contains("package"),
        "{text}"
    );
}

#[test]
fn a_missing_library_is_named_with_who_needs_it_and_its_package() {
    let directory = tempfile::tempdir().expect("a directory");
    let (program, _) = program_with_library(directory.path(), &[]);
    let error = closure(&[&program]).expect_err("the library is not on any path");
    let ClosureError::MissingLibrary {
        needed_by,
        library,
        searched,
        package,
    } = &error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (needed_by, library.as_str(), package.as_str()),
        (&program, "libsteadytest.so.3", "libsteadytest3")
    );
    assert!(
        searched.contains(&PathBuf::from("/usr/lib/x86_64-linux-gnu")),
        "{searched:?}"
    );
    assert!(
        error.to_string().contains("apt-get install libsteadytest3"),
        "{error}"
    );
}

#[test]
fn a_library_beside_the_program_is_found_by_origin_and_keeps_its_place() {
    let directory = tempfile::tempdir().expect("a directory");
    let flags = ["-Wl,-rpath,$ORIGIN", "-Wl,--enable-new-dtags"];
    let (program, library) = program_with_library(directory.path(), &flags);
    let files = closure(&[&program]).expect("found by DT_RUNPATH");
    assert!(
        files.contains(&ImageFile {
            image: library.clone(),
            host: library
        }),
        "{files:?}"
    );
}

/// Links a program against a library of ours that no configured directory holds.
fn program_with_library(directory: &Path, flags: &[&str]) -> (PathBuf, PathBuf) {
    let library = directory.join("libsteadytest.so.3");
    let program = directory.join("program");
    let compile = |words: &[&str], source: &str| {
        let file = directory.join("source.c");
        std::fs::write(&file, source).expect("a source file");
        let status = Command::new("gcc")
            .arg(&file)
            .args(words)
            .status()
            .expect("gcc runs");
        assert!(status.success(), "gcc {words:?}");
    };
    let path = |path: &Path| path.to_str().expect("a UTF-8 path").to_owned();
    compile(
        &[
            "-shared",
            "-fPIC",
            "-Wl,-soname,libsteadytest.so.3",
            "-o",
            &path(&library),
        ],
        "int steady_test(void) { return 0; }",
    );
    let library_path = path(&library);
    let program_path = path(&program);
    let mut words = vec!["-o", &program_path, &library_path];
    words.extend(flags);
    compile(
        &words,
        "int steady_test(void); int main(void) { return steady_test(); }",
    );
    (program, library)
}

#[test]
fn every_file_that_the_table_names_exists_where_its_package_is_installed() {
    let named = |program: &Program| {
        program
            .binaries
            .iter()
            .chain(program.data)
            .copied()
            .collect::<Vec<_>>()
    };
    for path in PROGRAMS.iter().flat_map(named) {
        common::require(path);
    }
}
