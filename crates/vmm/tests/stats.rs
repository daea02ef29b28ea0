// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Decoding KVM's binary statistics from made-up files.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use proptest::prelude::*;
use steady_vmm::stats::{Error, Value, parse};

const NAME_SIZE: usize = 48;
const CUMULATIVE: u32 = 0;
const LOG_HISTOGRAM: u32 = 4;

/// Lays a statistics file out as `Documentation/virt/kvm/api.rst` (4.133) says: header, id string,
/// descriptors, data.
fn file(stats: &[(&str, u32, &[u64])]) -> Vec<u8> {
    let descriptors = 24 + NAME_SIZE;
    let data = descriptors + stats.len() * (16 + NAME_SIZE);
    let header = [0, NAME_SIZE, stats.len(), 24, descriptors, data];
    let mut bytes: Vec<u8> = header
        .iter()
        .flat_map(|&word| u32::try_from(word).unwrap().to_le_bytes())
        .collect();
    bytes.extend(padded("kvm-1/vcpu-0"));
    let mut offset = 0u32;
    for (name, flags, values) in stats {
        let size = u16::try_from(values.len()).unwrap();
        bytes.extend(flags.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend(size.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(padded(name));
        offset += u32::from(size) * 8;
    }
    for (_, _, values) in stats {
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    bytes
}

fn padded(name: &str) -> Vec<u8> {
    let mut bytes = name.as_bytes().to_vec();
    bytes.resize(NAME_SIZE, 0);
    bytes
}

fn example() -> Vec<u8> {
    file(&[
        ("exits", CUMULATIVE, &[81_985_529_216_486_895]),
        ("halt_wait_hist", LOG_HISTOGRAM, &[1, 2, 3]),
        ("guest_mode", CUMULATIVE | 1, &[0]),
    ])
}

#[test]
fn counters_are_numbers_and_histograms_lists_under_the_kernels_names() {
    let stats = parse(&example()).unwrap();
    assert_eq!(stats.len(), 3);
    assert_eq!(stats["exits"], Value::Number(81_985_529_216_486_895));
    assert_eq!(stats["halt_wait_hist"], Value::Numbers(vec![1, 2, 3]));
}

#[test]
fn a_histogram_of_one_bucket_is_still_a_list() {
    let stats = parse(&file(&[("h", LOG_HISTOGRAM, &[7])])).unwrap();
    assert_eq!(stats["h"], Value::Numbers(vec![7]));
}

#[test]
fn values_are_plain_numbers_and_lists_in_json() {
    let json = serde_json::to_string(&parse(&example()).unwrap()).unwrap();
    let expected = r#"{"exits":81985529216486895,"guest_mode":0,"halt_wait_hist":[1,2,3]}"#;
    assert_eq!(json, expected);
}

#[test]
fn every_truncation_is_told_with_the_place_where_the_file_ends() {
    let whole = example();
    for size in 0..whole.len() {
        match parse(&whole[..size]) {
            Err(Error::Truncated {
                end, size: told, ..
            }) => {
                assert_eq!(told, size);
                assert!(end > size && end <= whole.len());
            }
            other => panic!("{size} bytes: {other:?}"),
        }
    }
}

#[test]
fn a_name_without_an_end_is_refused() {
    let mut bytes = example();
    let name = 24 + NAME_SIZE + 16;
    bytes[name..name + NAME_SIZE].fill(b'x');
    assert!(matches!(parse(&bytes), Err(Error::Name(0))));
}

#[test]
fn a_header_that_announces_more_than_there_is_is_refused() {
    for word in 1..6 {
        let mut bytes = example();
        bytes[4 * word..4 * word + 4].fill(0xff);
        // The id string's place (word 3) is not used.
        assert_eq!(parse(&bytes).is_err(), word != 3, "header word {word}");
    }
}

proptest! {
    #[test]
    fn no_content_makes_the_parser_panic(
        noise in prop::collection::vec(any::<u8>(), 0..400),
        small in prop::collection::vec(0u32..300, 6),
    ) {
        let mut bytes = noise;
        for (at, word) in small.iter().enumerate() {
            if let Some(place) = bytes.get_mut(4 * at..4 * at + 4) {
                place.copy_from_slice(&word.to_le_bytes());
            }
        }
        let _ = parse(&bytes);
    }
}
