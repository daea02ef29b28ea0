// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the deduplicating compressor give back what it was given, and its buffers back?

use std::path::{Path, PathBuf};

use super::*;

/// Folder, input made from a seed, and where the archive goes.
fn input(kind: &str, kib: &str) -> (tempfile::TempDir, PathBuf, PathBuf) {
    let folder = tempfile::tempdir().expect("a directory");
    let (from, to) = (folder.path().join("input"), folder.path().join("archive"));
    let args = ["--kind", kind, "--kib", kib, "--output", text_of(&from)];
    assert!(output("make-input", &args).status.success());
    (folder, from, to)
}

fn text_of(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn pack(from: &Path, to: &Path, more: &[&str]) -> WorkloadReport {
    let files = ["--input", text_of(from), "--output", text_of(to)];
    run("dedup", &[&files[..], more].concat())
}

fn unpacked(archive: &Path) -> Vec<u8> {
    let to = archive.with_extension("unpacked");
    pack(archive, &to, &["--unpack", "yes"]);
    fs::read(to).expect("what was unpacked")
}

#[test]
fn dedup_unpacks_to_the_bytes_that_it_packed() {
    let (_folder, from, to) = input("versions", "700");
    for more in [
        &["--threads", "1", "--block-kib", "4"][..],
        &["--threads", "5", "--block-kib", "16"],
        &["--threads", "3", "--buffers", "keep"],
        &["--threads", "4", "--buffers", "discard", "--pack", "no"],
        // The whole input is one block.
        &["--threads", "2", "--block-kib", "2048"],
    ] {
        pack(&from, &to, more);
        assert!(
            unpacked(&to) == fs::read(&from).expect("the input"),
            "{more:?}"
        );
    }
}

#[test]
fn dedup_keeps_what_cannot_be_packed_and_takes_an_empty_file() {
    let folder = tempfile::tempdir().expect("a directory");
    let (from, to) = (folder.path().join("input"), folder.path().join("archive"));
    // Bytes without a pattern: the program itself, cut off.
    let program = fs::read(common::own_program("dedup")).expect("the program");
    let noise: Vec<u8> = (0..100_000_u64)
        .map(|at| {
            let mixed = (at + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ (mixed >> 29))
                .wrapping_mul(0xbf58_476d_1ce4_e5b9)
                .to_be_bytes()[0]
        })
        .collect();
    for bytes in [&[][..], b"x", &program[..70_000], &noise] {
        fs::write(&from, bytes).expect("the input");
        pack(&from, &to, &["--threads", "2"]);
        assert!(unpacked(&to) == bytes, "{} bytes", bytes.len());
    }
}

#[test]
fn dedup_finds_what_repeats_and_text_alone_does_not() {
    let share = |kind: &str| {
        let (_folder, from, to) = input(kind, "800");
        let report = pack(&from, &to, &[]);
        let values = values(&report);
        assert_eq!(values["dedup.input"], 800 * 1024);
        assert!(values["dedup.output"] < values["dedup.input"], "{kind}");
        values["dedup.unique"] * 100 / values["dedup.chunks"]
    };
    // About half of the pieces are copies, and chunks at their edges are not found again.
    assert!((40..80).contains(&share("versions")));
    assert_eq!(share("text"), 100);
}

#[test]
fn dedup_gives_two_buffers_back_for_each_block_or_none() {
    let (_folder, from, to) = input("versions", "300");
    let counts = |buffers: &str| {
        let report = pack(&from, &to, &["--buffers", buffers]);
        let blocks = values(&report)["dedup.operations"];
        let blocks = u64::try_from(blocks).expect("a count");
        (blocks, report.distributions[0].count())
    };
    let (blocks, releases) = counts("map");
    assert!(blocks >= 10, "{blocks} blocks of at most 24 KiB");
    assert_eq!(releases, 2 * blocks);
    assert_eq!(counts("discard"), (blocks, 2 * blocks));
    assert_eq!(counts("keep"), (blocks, 0));
}

#[test]
fn dedup_refuses_a_broken_archive_and_names_the_byte() {
    let (folder, from, to) = input("versions", "100");
    pack(&from, &to, &["--threads", "1"]);
    let whole = fs::read(&to).expect("the archive");
    let broken = folder.path().join("broken");
    let says = |bytes: &[u8], words: &str| {
        fs::write(&broken, bytes).expect("an archive");
        let args = ["--unpack", "yes", "--input", text_of(&broken), "--output"];
        let unpacked = folder.path().join("unpacked");
        let output = output("dedup", &[&args[..], &[text_of(&unpacked)]].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}");
        assert!(text.contains(words), "{text}");
    };
    says(b"no archive", "broken at byte 0");
    says(&whole[..whole.len() - 1], "expected the bytes of a chunk");
    // Behind the magic and the count of chunks is the kind of the first chunk.
    let mut kind = whole.clone();
    kind[12] = 9;
    says(&kind, "expected a kind of chunk");
    let mut packed = whole.clone();
    packed[24] = 255;
    says(&packed, "broken at byte 24");
}
