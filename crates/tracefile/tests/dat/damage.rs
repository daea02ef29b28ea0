// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Damaged and cut trace.dat files: what could be read is, and the rest is reported with its place.

use steady_tracefile::Error;

use crate::common::dat_file::Dat;
use crate::common::{digest, drain, fixture_bytes, open_bytes};
use crate::page;
#[test]
fn a_damaged_page_costs_itself_alone_and_its_place_is_told() {
    let mut bytes = Dat::of(vec![
        [page(100, &[1]), page(200, &[2]), page(300, &[3])].concat(),
    ])
    .six();
    let second = bytes.len() - 2 * 4096;
    bytes[second + 8..second + 12].copy_from_slice(&0x00ff_ffff_u32.to_le_bytes());
    let mut source = open_bytes(bytes).unwrap();
    let (count, loss) = drain(source.as_mut());
    assert_eq!((count, loss.damage_count), (2, 1));
    assert_eq!(
        loss.damage[0].place.to_string(),
        format!("byte {}", second + 8)
    );
}

#[test]
fn a_trace_cut_anywhere_gives_an_error_or_a_beginning_of_its_records() {
    let whole = Dat::of(vec![
        [page(100, &[1, 2]), page(200, &[3])].concat(),
        page(150, &[4]),
    ]);
    for (bytes, step) in [
        (whole.six(), 7),
        (whole.seven("zstd"), 1),
        (whole.seven("none"), 7),
    ] {
        let all = digest(open_bytes(bytes.clone()).unwrap().as_mut());
        for len in (1..bytes.len()).step_by(step) {
            match open_bytes(bytes[..len].to_vec()) {
                Err(Error::Malformed { place, .. }) => {
                    assert!(!place.to_string().is_empty(), "cut to {len}");
                }
                Err(e) => assert!(
                    len < 10 && matches!(e, Error::Foreign { .. }),
                    "cut to {len}: {e}"
                ),
                Ok(mut source) => {
                    let some = digest(source.as_mut());
                    assert!(some.iter().all(|line| all.contains(line)), "cut to {len}");
                    assert!(
                        source.loss().truncated.is_some() || some == all,
                        "cut to {len}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_cut_fixture_still_gives_its_beginning() {
    let mut bytes = fixture_bytes("bochs-intel-v6.dat");
    let cut = 40_000;
    bytes.truncate(bytes.len() - cut);
    let (count, loss) = drain(open_bytes(bytes).unwrap().as_mut());
    assert!((1000..2500).contains(&count), "{count}");
    assert_eq!(loss.truncated.unwrap().missing_bytes, Some(40_000));
}

#[test]
fn a_packed_version_7_without_its_end_still_gives_its_beginning() {
    let mut bytes = fixture_bytes("bochs-intel-v7-zstd.dat");
    let all = digest(open_bytes(bytes.clone()).unwrap().as_mut());
    bytes.truncate(bytes.len() - 8000);
    let mut source = open_bytes(bytes).unwrap();
    let some = digest(source.as_mut());
    assert!((1000..2500).contains(&some.len()), "{}", some.len());
    assert!(some.iter().all(|line| all.contains(line)));
    assert!(source.loss().truncated.is_some());
}

#[test]
fn options_that_point_to_themselves_are_an_error() {
    let mut bytes = Dat::of(vec![page(0, &[1])]).seven("none");
    let first = 18 + b"none\x001\0".len();
    let at = u64::from_le_bytes(bytes[first..first + 8].try_into().unwrap());
    let end = bytes.len();
    bytes[end - 8..].copy_from_slice(&at.to_le_bytes());
    let error = open_bytes(bytes).err().unwrap().to_string();
    assert_eq!(
        error,
        format!(
            "trace: byte {at}: the options point back to themselves; copy the whole file again, or \
             record again"
        )
    );
}

#[test]
fn lengths_beyond_the_file_are_errors_and_not_allocations() {
    let mut bytes = Dat::of(vec![page(0, &[1])]).six();
    let at = bytes
        .windows(12)
        .position(|w| w == b"header_page\0")
        .unwrap()
        + 12;
    bytes[at..at + 8].copy_from_slice(&u64::MAX.to_le_bytes());
    let error = open_bytes(bytes).err().unwrap().to_string();
    assert!(
        error.starts_with(&format!(
            "trace: byte {}: the description of pages should have",
            at + 8
        )),
        "{error}"
    );
}

#[test]
fn other_versions_say_what_to_do() {
    let mut bytes = Dat::of(vec![page(0, &[1])]).six();
    bytes[10] = b'8';
    let error = open_bytes(bytes).err().unwrap();
    assert!(
        matches!(error, Error::Unsupported { .. })
            && error.to_string().contains("trace-cmd convert")
    );
}
