// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The events of a trace for Perfetto's viewer: a track for each pCPU and each vCPU, arrows from an
//! IPI to the entry that takes it, and from a yielder to the vCPU that it boosted.
//!
//! Written as Perfetto's own format (`protos/perfetto/trace/trace_packet.proto`,
//! `track_event/track_event.proto`), of which few messages and fields are needed; so they are
//! encoded here. A slice is written as its begin and its end; the file can be cut anywhere.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use steady_diagnose::{Analysis, Effect, NO_CPU, VcpuId};
use steady_events::{Event, Kind, vector};

/// Fields of `TracePacket`.
const TIMESTAMP: u32 = 8;
const SEQUENCE_ID: u32 = 10;
const TRACK_EVENT: u32 = 11;
const SEQUENCE_FLAGS: u32 = 13;
const TRACK_DESCRIPTOR: u32 = 60;
/// `SEQ_INCREMENTAL_STATE_CLEARED`.
const CLEARED: u64 = 1;
/// Values of `TrackEvent.Type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
/// Track numbers: pCPUs from here on, vCPUs from there, and the two groups that hold them.
const PCPUS: u64 = 1_000;
const VCPUS: u64 = 1_000_000;
const GROUPS: u64 = 1;

/// Writes the trace while it is read.
#[derive(Debug)]
pub struct Perfetto<W> {
    out: W,
    named: BTreeSet<u64>,
    /// Tracks with an open slice.
    open: BTreeSet<u64>,
    /// Arrows that end at a vCPU's next entry.
    arrows: BTreeMap<VcpuId, Vec<u64>>,
    next_flow: u64,
}

impl<W: Write> Perfetto<W> {
    /// Begins the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(out: W) -> io::Result<Self> {
        let mut this = Self {
            out,
            named: BTreeSet::new(),
            open: BTreeSet::new(),
            arrows: BTreeMap::new(),
            next_flow: 1,
        };
        let mut first = Message::default();
        first.number(SEQUENCE_ID, 1);
        first.number(SEQUENCE_FLAGS, CLEARED);
        this.packet(&first)?;
        this.track(GROUPS, 0, "pCPUs")?;
        this.track(GROUPS + 1, 0, "vCPUs")?;
        Ok(this)
    }

    /// An event, after the analysis has taken it.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn event(&mut self, event: &Event<'_>, effect: Effect, all: &Analysis) -> io::Result<()> {
        let placed = event.cpu != NO_CPU;
        if let (Kind::Switch { next, .. }, true) = (event.kind, placed) {
            let name = match all.machine.of_tid(next.tid) {
                Some(id) => vcpu_name(id, all),
                None => String::from_utf8_lossy(next.comm).into_owned(),
            };
            let track = PCPUS + u64::from(event.cpu);
            self.name_once(track, GROUPS, || format!("pCPU {}", event.cpu))?;
            self.end(track, event.time_ns)?;
            if next.tid != 0 {
                self.begin(track, event.time_ns, &name, &[])?;
            }
        }
        if let Some(id) = effect.vcpu {
            self.vcpu(id, event, all)?;
        }
        if let Some(boost) = effect.boost {
            let from = vcpu_track(boost.yielder);
            self.name_vcpu(boost.yielder, all)?;
            if boost.next {
                let flow = self.flow();
                self.instant(from, boost.began_ns, "boost", &[flow])?;
                self.arrows.entry(boost.target).or_default().push(flow);
            } else {
                let target = all.machine.vcpus[boost.target].number;
                let name = format!("boost of vCPU {target}, which did not run next");
                self.instant(from, boost.began_ns, &name, &[])?;
            }
        }
        Ok(())
    }

    fn vcpu(&mut self, id: VcpuId, event: &Event<'_>, all: &Analysis) -> io::Result<()> {
        let track = vcpu_track(id);
        match event.kind {
            Kind::Entry { .. } => {
                self.name_vcpu(id, all)?;
                self.end(track, event.time_ns)?;
                let flows = self.arrows.remove(&id).unwrap_or_default();
                self.begin(track, event.time_ns, "guest", &flows)
            }
            Kind::Exit { reason, rip, .. } => {
                self.name_vcpu(id, all)?;
                self.end(track, event.time_ns)?;
                let name = format!("{reason} at {rip:#x}");
                self.begin(track, event.time_ns, &name, &[])
            }
            Kind::IpiAccepted { apic, vector } if vector::is_call_function(vector) => {
                let to = all.machine.numbered(all.machine.vcpus[id].vm, apic);
                let Some(to) = to.filter(|&to| to != id) else {
                    return Ok(());
                };
                let flow = self.flow();
                let arrows = self.arrows.entry(to).or_default();
                // An APIC holds one of each vector, so there are no more.
                if arrows.len() < 256 {
                    arrows.push(flow);
                }
                self.instant(track, event.time_ns, "IPI", &[flow])
            }
            _ => Ok(()),
        }
    }

    fn flow(&mut self) -> u64 {
        self.next_flow += 1;
        self.next_flow
    }

    fn name_vcpu(&mut self, id: VcpuId, all: &Analysis) -> io::Result<()> {
        self.name_once(vcpu_track(id), GROUPS + 1, || vcpu_name(id, all))
    }

    fn name_once(&mut self, track: u64, parent: u64, name: impl Fn() -> String) -> io::Result<()> {
        if self.named.insert(track) {
            self.track(track, parent, &name())?;
        }
        Ok(())
    }

    /// `TrackDescriptor`: uuid 1, name 2, parent_uuid 5.
    fn track(&mut self, uuid: u64, parent: u64, name: &str) -> io::Result<()> {
        let mut track = Message::default();
        track.number(1, uuid);
        track.bytes(2, name.as_bytes());
        if parent != 0 {
            track.number(5, parent);
        }
        let mut packet = Message::default();
        packet.number(SEQUENCE_ID, 1);
        packet.bytes(TRACK_DESCRIPTOR, &track.0);
        self.packet(&packet)
    }

    fn begin(&mut self, track: u64, time_ns: u64, name: &str, flows: &[u64]) -> io::Result<()> {
        self.open.insert(track);
        self.slice(track, time_ns, BEGIN, name, flows)
    }

    fn end(&mut self, track: u64, time_ns: u64) -> io::Result<()> {
        if self.open.remove(&track) {
            self.slice(track, time_ns, END, "", &[])?;
        }
        Ok(())
    }

    fn instant(&mut self, track: u64, time_ns: u64, name: &str, flows: &[u64]) -> io::Result<()> {
        self.slice(track, time_ns, INSTANT, name, flows)
    }

    /// `TrackEvent`: type 9, track_uuid 11, name 23, flow_ids 47 (fixed64).
    fn slice(
        &mut self,
        track: u64,
        time_ns: u64,
        kind: u64,
        name: &str,
        flows: &[u64],
    ) -> io::Result<()> {
        let mut event = Message::default();
        event.number(9, kind);
        event.number(11, track);
        if !name.is_empty() {
            event.bytes(23, name.as_bytes());
        }
        for &flow in flows {
            event.fixed(47, flow);
        }
        let mut packet = Message::default();
        packet.number(TIMESTAMP, time_ns);
        packet.number(SEQUENCE_ID, 1);
        packet.bytes(TRACK_EVENT, &event.0);
        self.packet(&packet)
    }

    /// Field 1 of `Trace`.
    fn packet(&mut self, packet: &Message) -> io::Result<()> {
        let mut framed = Message::default();
        framed.bytes(1, &packet.0);
        self.out.write_all(&framed.0)
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }
}

fn vcpu_track(id: VcpuId) -> u64 {
    VCPUS + u64::try_from(id).unwrap_or(0)
}

fn vcpu_name(id: VcpuId, all: &Analysis) -> String {
    let vcpu = &all.machine.vcpus[id];
    format!("VM {} vCPU {} ({})", vcpu.vm + 1, vcpu.number, vcpu.tid)
}

/// A message of protocol buffers under way.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(u8::try_from(value & 0x7f).unwrap_or(0) | 0x80);
            value >>= 7;
        }
        self.0.push(u8::try_from(value).unwrap_or(0));
    }

    /// Wire type 0.
    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// Wire type 1.
    fn fixed(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Wire type 2.
    fn bytes(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(u64::try_from(value.len()).unwrap_or(0));
        self.0.extend_from_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_encoded_as_the_documentation_of_protocol_buffers_does() {
        // Its example: field 1 with the value 150 is 08 96 01; field 2 with "testing" is 12 07 ….
        let mut message = Message::default();
        message.number(1, 150);
        message.bytes(2, b"testing");
        assert_eq!(message.0, b"\x08\x96\x01\x12\x07testing");
    }
}
