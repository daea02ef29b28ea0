// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Text traces: do the one-liners of the documented page convert what other tools print, is a text
//! that was not converted answered with its one-liner, and is a wrong line named?

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use steady_memtrace::{MapKind, Prot, Record};

use common::foreign::{access, converted, records};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_owned()
}

/// The documented one-liner that reads `sample`.
fn documented(sample: &str) -> String {
    let page = folder().join("../../docs/formats/memtrace.md");
    let page = std::fs::read_to_string(page).unwrap();
    let mut blocks = page.split("```sh\n").skip(1);
    let block = blocks.find(|block| block.split("```").next().unwrap().contains(sample));
    block.unwrap().split("```").next().unwrap().to_owned()
}

/// What the one-liner makes of the sample that is shipped.
fn run(sample: &str) -> Vec<Record> {
    let place = tempfile::tempdir().unwrap();
    std::fs::copy(
        folder().join("tests/samples").join(sample),
        place.path().join(sample),
    )
    .unwrap();
    let shell = ["-euc", &documented(sample)];
    let status = Command::new("sh")
        .args(shell)
        .current_dir(&place)
        .status()
        .unwrap();
    assert!(status.success(), "{sample}");
    records(&[&std::fs::read(place.path().join("trace.txt")).unwrap()]).unwrap()
}

fn message(text: &str) -> String {
    converted(&[text.as_bytes()]).unwrap_err().to_string()
}

#[test]
fn the_one_liner_of_lackey_counts_instructions_and_makes_two_accesses_of_a_modify() {
    // Counted by hand: 2 instructions before the first store, 1 between those of a push.
    let found = run("lackey.txt");
    assert_eq!(
        found[0],
        access(0, 0x1f_ff00_0658, 8, true, 2),
        "{found:x?}"
    );
    let modify = found
        .iter()
        .position(|one| *one == access(0, 0x403_3e06, 1, false, 2));
    let next = found[modify.unwrap() + 1];
    assert_eq!(next, access(0, 0x403_3e06, 1, true, 0));
    // `grep -c` of the sample: lines of loads and stores, and those of modifies twice.
    assert_eq!(found.len(), 14);
}

#[test]
fn the_one_liner_of_pin_counts_an_instruction_once() {
    let (stack, data) = (0x7ffd_5b1c_2f00, 0x7f3a_10e2_ae68);
    let expected = [
        access(0, stack + 8, 8, false, 1),
        access(0, stack, 8, true, 1),
        access(0, data, 8, false, 1),
        access(0, data, 8, true, 0),
        access(0, 0x7f3a_10e2_b9c0, 8, true, 1),
    ];
    assert_eq!(run("pin.txt"), expected);
}

#[test]
fn the_one_liner_of_gem5_keeps_cpus_apart_and_counts_no_micro_operation_twice() {
    let stack = 0x7fff_ffff_ee30;
    let expected = [
        access(0, stack, 8, false, 1),
        access(1, 0x18980, 8, false, 1),
        access(1, 0x7fff_ffff_0008, 8, true, 1),
        // mov and push.
        access(0, stack, 8, true, 2),
    ];
    assert_eq!(run("gem5.txt"), expected);
}

#[test]
fn the_output_of_another_tool_is_answered_with_the_documented_one_liner() {
    let bare = |text: &str| text.split_whitespace().collect::<String>();
    for (sample, tool) in [
        ("lackey.txt", "lackey"),
        ("pin.txt", "Pin's"),
        ("gem5.txt", "gem5's"),
    ] {
        let whole = std::fs::read_to_string(folder().join("tests/samples").join(sample)).unwrap();
        // From any line on: `grep` and `tail` leave the head out.
        for from in [0, 2] {
            let lines: Vec<&str> = whole.lines().skip(from).collect();
            let message = message(&lines.join("\n"));
            assert!(
                message.contains(tool) && !message.contains('\n'),
                "{message}"
            );
            let block = documented(sample);
            let (awk, _) = block.split_once(sample).unwrap();
            assert!(
                bare(&message).contains(&bare(awk)),
                "{message}\nbut documented: {awk}"
            );
        }
    }
}

#[test]
fn mappings_sizes_comments_and_threads_are_read() {
    let text = "# made by hand\n7 map 10000 8192 rw-\n7 w 0x10000 130 5 # long\n\n\
                9 r 10fff 1\n7 protect 10000 1 r--\n9 discard 10000 4096\n7 unmap 10000 8192\n";
    let map = |thread, len, rights, kind| Record::Map {
        thread,
        start: 0x10000,
        len,
        prot: Prot::from_bits(rights),
        kind,
    };
    let expected = [
        map(0, 8192, 3, MapKind::Mmap),
        access(0, 0x10000, 64, true, 5),
        access(0, 0x10040, 64, true, 0),
        access(0, 0x10080, 2, true, 0),
        access(1, 0x10fff, 1, false, 1),
        map(0, 4096, 1, MapKind::Mprotect),
        map(1, 4096, 1, MapKind::Madvise),
        map(0, 8192, 0, MapKind::Munmap),
    ];
    assert_eq!(records(&[text.as_bytes()]).unwrap(), expected);
    // Several texts are read one after the other.
    let two = records(&[b"0 r 10 8\n0 r 20 8", b"1 w 30 8\r\n"]).unwrap();
    let addresses = two.iter().map(|one| match one {
        Record::Access { vaddr, .. } => *vaddr,
        _ => 0,
    });
    assert_eq!(addresses.collect::<Vec<_>>(), [0x10, 0x20, 0x30]);
}

#[test]
fn a_wrong_line_is_named_with_its_number_and_what_a_line_must_be() {
    for line in [
        "0 r zz 8",
        "0 x 10 8",
        "0 r 10 0",
        "0 r 10 4097",
        "0 r 10 8 -1",
        "0 r 10 8 1 1",
        "-1 r 10 8",
        "0 map 10 8",
        "0 map 10 8 q",
        "0 unmap 10 8 r",
        "0 r ffffffffffffffff 8",
        "0 r",
        "address,size",
    ] {
        let message = message(&format!("0 r 10 8\n{line}\n"));
        for part in [
            "file0: byte 9: ",
            "THREAD r|w ADDRESS SIZE",
            "line 2: ",
            line,
        ] {
            assert!(message.contains(part), "{line}: {message}");
        }
    }
    assert!(message(&"1".repeat(5000)).contains("at most 4096 bytes"));
}

#[test]
fn an_input_without_an_access_is_refused() {
    for input in [&[0u8; 4096][..], b"# nothing\n", b"0 map 1000 4096 rw-\n"] {
        let message = converted(&[input]).unwrap_err().to_string();
        assert!(message.contains("holds no memory access"), "{message}");
    }
}
