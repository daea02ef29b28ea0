// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is what is drawn for Perfetto a trace by its schema, with slices, tracks and arrows that fit?
//!
//! Reads the file by the rules of protocol buffers and the numbers of Perfetto's published schema
//! (`protos/perfetto/trace/trace_packet.proto`, `track_event.proto`, `track_descriptor.proto`), and
//! shares no code with the writer. `fixtures/perfetto-schema.py` asks Perfetto's own classes.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::collections::BTreeMap;
use std::path::Path;

use steady_decode::TraceEvents;
use steady_diagnose::{Analysis, Diagnoser, Effect};
use steady_diagnosis_view::Perfetto;
use steady_events::Event;

/// A field's value by its wire type.
#[derive(Debug, Clone, PartialEq)]
enum Value {
    Number(u64),
    Fixed(u64),
    Bytes(Vec<u8>),
}

impl Value {
    fn number(&self) -> u64 {
        match self {
            Self::Number(value) => *value,
            other => panic!("expected a varint, found {other:?}"),
        }
    }

    fn bytes(&self) -> &[u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            other => panic!("expected bytes, found {other:?}"),
        }
    }
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first().expect("a varint goes on");
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return value;
        }
    }
    panic!("a varint has more than ten bytes");
}

fn fields(mut bytes: &[u8]) -> Vec<(u64, Value)> {
    let mut fields = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let value = match key & 7 {
            0 => Value::Number(varint(&mut bytes)),
            1 => {
                let (head, rest) = bytes.split_at(8);
                bytes = rest;
                Value::Fixed(u64::from_le_bytes(head.try_into().unwrap()))
            }
            2 => {
                let len = usize::try_from(varint(&mut bytes)).unwrap();
                let (head, rest) = bytes.split_at(len);
                bytes = rest;
                Value::Bytes(head.to_vec())
            }
            other => panic!("wire type {other}"),
        };
        fields.push((key >> 3, value));
    }
    fields
}

fn one(fields: &[(u64, Value)], number: u64) -> Option<&Value> {
    let mut found = fields.iter().filter(|(field, _)| *field == number);
    let value = found.next().map(|(_, value)| value);
    assert!(found.next().is_none(), "field {number} is there twice");
    value
}

fn drawn() -> Vec<Vec<(u64, Value)>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/fixtures/stall.dat");
    let mut source = steady_tracefile::open(&path).expect("the shipped trace opens");
    let mut drawing = Perfetto::new(Vec::new()).unwrap();
    let mut watch =
        |event: &Event<'_>, effect: Effect, all: &Analysis| drawing.event(event, effect, all);
    let mut diagnoser = Diagnoser::new();
    diagnoser
        .trace(
            "stall.dat",
            &mut TraceEvents::new(source.as_mut()),
            &mut watch,
        )
        .unwrap();
    let bytes = drawing.finish().unwrap();
    let packets = fields(&bytes).into_iter().map(|(field, value)| {
        assert_eq!(field, 1, "Trace has packets alone");
        fields(value.bytes())
    });
    packets.collect()
}

/// What the events of a track have shown so far.
#[derive(Default)]
struct Track {
    open: bool,
    slices: u64,
    at_ns: u64,
}

#[test]
fn every_packet_fits_the_schema_and_every_slice_its_track() {
    let packets = drawn();
    assert_eq!(one(&packets[0], 13), Some(&Value::Number(1)));
    let mut tracks: BTreeMap<u64, Track> = BTreeMap::new();
    let mut flows: BTreeMap<u64, u32> = BTreeMap::new();
    for packet in &packets {
        assert_eq!(one(packet, 10), Some(&Value::Number(1)), "one sequence");
        if let Some(descriptor) = one(packet, 60) {
            let descriptor = fields(descriptor.bytes());
            let uuid = one(&descriptor, 1).unwrap().number();
            let name = one(&descriptor, 2).unwrap().bytes();
            assert!(!std::str::from_utf8(name).unwrap().is_empty());
            if let Some(parent) = one(&descriptor, 5) {
                assert!(
                    tracks.contains_key(&parent.number()),
                    "a parent comes first"
                );
            }
            assert!(tracks.insert(uuid, Track::default()).is_none());
        }
        if let Some(event) = one(packet, 11) {
            let time_ns = one(packet, 8).expect("an event has a time").number();
            slice(&fields(event.bytes()), time_ns, &mut tracks, &mut flows);
        }
    }
    // Two groups, two pCPUs, five vCPUs.
    assert_eq!(tracks.len(), 9);
    assert_eq!(
        tracks.values().filter(|track| track.slices > 100).count(),
        7
    );
    assert!(flows.values().all(|&ends| ends <= 2));
    assert!(flows.values().filter(|&&ends| ends == 2).count() > 200);
}

fn slice(
    event: &[(u64, Value)],
    time_ns: u64,
    tracks: &mut BTreeMap<u64, Track>,
    flows: &mut BTreeMap<u64, u32>,
) {
    let uuid = one(event, 11).expect("an event has a track").number();
    let track = tracks.get_mut(&uuid).expect("a track is described first");
    let kind = one(event, 9).expect("an event has a type").number();
    let name = one(event, 23).map(|name| std::str::from_utf8(name.bytes()).unwrap());
    match kind {
        1 => assert!(
            !std::mem::replace(&mut track.open, true),
            "a slice within another"
        ),
        2 => assert!(std::mem::take(&mut track.open), "an end without a begin"),
        3 => {}
        other => panic!("type {other}"),
    }
    assert_eq!(name.is_none(), kind == 2, "begins and instants have names");
    if kind != 3 {
        assert!(time_ns >= track.at_ns, "slices of a track go forward");
        (track.at_ns, track.slices) = (time_ns, track.slices + 1);
    }
    for (_, flow) in event.iter().filter(|(field, _)| *field == 47) {
        let Value::Fixed(flow) = flow else {
            panic!("a flow is a fixed64")
        };
        *flows.entry(*flow).or_default() += 1;
    }
}
