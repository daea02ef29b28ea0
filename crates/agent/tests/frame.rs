// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does a stream of frames survive what emulators do to it?

use proptest::prelude::*;
use steady_agent::event::Event;
use steady_agent::frame::{Decoder, Frame, FrameError, Kind, encode};

fn done(at_ns: u64) -> Vec<u8> {
    encode(Kind::Event, &serde_json::to_vec(&Event::Done { at_ns }).unwrap())
}

fn all_frames(decoder: &mut Decoder) -> Vec<Frame> {
    std::iter::from_fn(|| decoder.next_frame().expect("no frame is damaged")).collect()
}

#[test]
fn words_of_the_emulator_between_frames_are_passed_over_and_kept() {
    let mut decoder = Decoder::default();
    decoder.push(b"Bochs is starting\n");
    decoder.push(&done(1));
    decoder.push(b"=====");
    decoder.push(&encode(Kind::File, b"bytes"));
    assert_eq!(all_frames(&mut decoder), vec![
        Frame::Event(Box::new(Event::Done { at_ns: 1 })),
        Frame::File(b"bytes".to_vec()),
    ]);
    assert_eq!(decoder.passed_over(), b"Bochs is starting\n=====");
}

#[test]
fn a_flipped_bit_is_an_error_that_says_where() {
    let mut bytes = done(7);
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let mut decoder = Decoder::default();
    decoder.push(b"abc");
    decoder.push(&bytes);
    assert!(matches!(decoder.next_frame(), Err(FrameError::Checksum { offset: 3, .. })));
}

#[test]
fn a_length_beyond_the_limit_is_an_error_and_not_an_allocation() {
    let mut bytes = done(7);
    bytes[5..9].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut decoder = Decoder::default();
    decoder.push(&bytes);
    assert!(matches!(decoder.next_frame(), Err(FrameError::Header { offset: 0, .. })));
}

#[test]
fn a_truncated_frame_is_told_by_its_incomplete_bytes() {
    let bytes = done(7);
    let mut decoder = Decoder::default();
    decoder.push(&bytes[..bytes.len() - 1]);
    assert_eq!(decoder.next_frame(), Ok(None));
    assert_eq!(decoder.incomplete(), bytes.len() - 1);
}

#[test]
fn json_that_is_no_event_is_an_error() {
    let mut decoder = Decoder::default();
    decoder.push(&encode(Kind::Event, b"{\"Nothing\":1}"));
    assert!(matches!(decoder.next_frame(), Err(FrameError::Event { offset: 0, .. })));
}

proptest! {
    #[test]
    fn frames_arrive_whole_and_in_order_however_the_stream_is_cut(
        payloads in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 1..20),
        cut in 1_usize..97,
    ) {
        let stream: Vec<u8> = payloads.iter().flat_map(|payload| encode(Kind::File, payload)).collect();
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for piece in stream.chunks(cut) {
            decoder.push(piece);
            found.extend(all_frames(&mut decoder));
        }
        let expected: Vec<Frame> = payloads.into_iter().map(Frame::File).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn any_bytes_are_read_to_their_end_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        // Each step consumes bytes or asks for more, so this ends.
        for _ in 0..=bytes.len() {
            if decoder.next_frame() == Ok(None) {
                break;
            }
        }
        prop_assert_eq!(decoder.next_frame(), Ok(None));
    }
}
