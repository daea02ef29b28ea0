// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A bundle: what one CPU's buffer held at one time, in the order of time.

use std::collections::HashMap;

use super::table::{self, Message, SWITCH, WAKING, begin, set_number, set_text, system_of};
use super::wire::{Fields, Value, packed};
use crate::event::EventDef;

/// Events that are known by name, at most; a kernel has about 2500.
const MESSAGES_MAX: usize = 1 << 13;
/// Fields of one of them.
const SLOTS_MAX: usize = 128;

/// A record that waits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Item {
    pub time: u64,
    pub pid: i32,
    pub flags: u8,
    pub message: usize,
    /// Its bytes in [`Bundle::data`].
    pub start: usize,
    pub end: usize,
}

/// The records of a bundle.
#[derive(Debug, Default)]
pub(super) struct Bundle {
    pub items: Vec<Item>,
    pub data: Vec<u8>,
    /// Messages in it that make no sense.
    pub damaged: u64,
    /// Events that are of no use here.
    pub others: u64,
}

/// What runs on a CPU, as its last switch said.
#[derive(Debug, Clone, Default)]
pub(super) struct Running {
    pub pid: Option<i32>,
    pub comm: Vec<u8>,
}

/// The events of a trace, those that describe themselves among them.
#[derive(Debug)]
pub(super) struct Messages {
    pub all: Vec<Message>,
    by_number: HashMap<u32, usize>,
    by_name: HashMap<String, usize>,
}

impl Messages {
    pub fn new() -> Self {
        let all = table::known();
        let by_number = all
            .iter()
            .enumerate()
            .map(|(at, m)| (m.number, at))
            .collect();
        Self {
            all,
            by_number,
            by_name: HashMap::new(),
        }
    }

    fn add(&mut self, message: Message) -> Option<usize> {
        if self.all.len() >= MESSAGES_MAX {
            return None;
        }
        self.all.push(message);
        Some(self.all.len() - 1)
    }

    /// `GenericEventDescriptor`: number 1, `DescriptorProto` 2, system 3.
    pub fn describe(&mut self, descriptor: &[u8]) {
        let (mut number, mut system, mut inner) = (0, String::new(), &[][..]);
        for (field, value) in Fields::of(descriptor) {
            match (field, value) {
                (1, Value::Number(n)) => number = u32::try_from(n).unwrap_or(0),
                (2, Value::Bytes(bytes)) => inner = bytes,
                (3, Value::Bytes(name)) => system = String::from_utf8_lossy(name).into_owned(),
                _ => {}
            }
        }
        // `DescriptorProto`: name 1, fields 2 of name 1, number 3, type 5.
        let (mut name, mut slots) = (String::new(), Vec::new());
        for (field, value) in Fields::of(inner) {
            match (field, value.bytes()) {
                (1, Some(bytes)) => name = String::from_utf8_lossy(bytes).into_owned(),
                (2, Some(bytes)) if slots.len() < SLOTS_MAX => slots.push(slot(bytes)),
                _ => {}
            }
        }
        if number == 0 || name.is_empty() || self.by_number.contains_key(&number) {
            return;
        }
        let message = Message {
            number,
            system,
            name,
            slots,
        };
        if let Some(at) = self.add(message) {
            self.by_number.insert(number, at);
        }
    }

    /// The event that is known by its name, with the fields that it has at first.
    fn named(&mut self, name: &str, fields: impl Iterator<Item = table::Slot>) -> Option<usize> {
        if let Some(&at) = self.by_name.get(name) {
            return Some(at);
        }
        let at = self.add(Message {
            number: 0,
            system: system_of(name).to_owned(),
            name: name.to_owned(),
            slots: fields.take(SLOTS_MAX).collect(),
        })?;
        self.by_name.insert(name.to_owned(), at);
        Some(at)
    }

    /// Describes the events that `known` does not have yet.
    pub fn describe_to(&self, known: &mut Vec<EventDef>) {
        for index in known.len()..self.all.len() {
            known.push(self.all[index].describe(index));
        }
    }
}

fn slot(descriptor: &[u8]) -> table::Slot {
    let mut slot = table::Slot {
        number: 0,
        name: String::new(),
        text: false,
        signed: false,
    };
    for (field, value) in Fields::of(descriptor) {
        match (field, value) {
            (1, Value::Bytes(name)) => slot.name = String::from_utf8_lossy(name).into_owned(),
            (3, Value::Number(n)) => slot.number = u32::try_from(n).unwrap_or(0),
            (5, Value::Number(kind)) => {
                // `TYPE_STRING`; `TYPE_INT64`, `TYPE_INT32`.
                slot.text = kind == 9;
                slot.signed = matches!(kind, 3 | 5);
            }
            _ => {}
        }
    }
    slot
}

impl Bundle {
    /// Takes a bundle apart: events 2, compact scheduling 4.
    pub fn read(&mut self, bundle: &[u8], messages: &mut Messages, running: &mut Running) {
        self.items.clear();
        self.data.clear();
        let mut fields = Fields::of(bundle);
        let mut compact: &[u8] = &[];
        for (field, value) in fields.by_ref() {
            match (field, value.bytes()) {
                (2, Some(event)) => self.event(event, messages),
                (4, Some(bytes)) => compact = bytes,
                _ => {}
            }
        }
        self.damaged += u64::from(fields.damaged);
        self.compact(compact);
        // Both parts are in order; where they meet, equal times stay as they are.
        self.items.sort_by_key(|item| item.time);
        self.fill_in(running);
    }

    /// `FtraceEvent`: time 1, thread 2, flags 5, the rest is the event.
    fn event(&mut self, event: &[u8], messages: &mut Messages) {
        let (mut time, mut pid, mut flags, mut found) = (0, 0, 0, None);
        let mut fields = Fields::of(event);
        for (field, value) in fields.by_ref() {
            match (field, value) {
                (1, Value::Number(ns)) => time = ns,
                (2, Value::Number(tid)) => pid = int(tid),
                (5, Value::Number(bits)) => flags = u8::try_from(bits & 0xff).unwrap_or(0),
                (327, Value::Bytes(body)) => found = self.generic(body, messages).or(found),
                (number, Value::Bytes(body)) => {
                    let known = messages.by_number.get(&number).copied();
                    found = known
                        .map(|at| (at, self.known(body, &messages.all[at])))
                        .or(found);
                }
                _ => {}
            }
        }
        self.damaged += u64::from(fields.damaged);
        let Some((message, start)) = found else {
            self.others += 1;
            return;
        };
        let end = self.data.len();
        self.items.push(Item {
            time,
            pid,
            flags,
            message,
            start,
            end,
        });
    }

    /// The record of a message with numbered fields.
    fn known(&mut self, body: &[u8], message: &Message) -> usize {
        let start = begin(&mut self.data, message.slots.len());
        for (field, value) in Fields::of(body) {
            let slot = message.slots.iter().position(|slot| slot.number == field);
            match (slot, value) {
                (Some(slot), Value::Number(number)) => {
                    set_number(&mut self.data, start, slot, number);
                }
                (Some(slot), Value::Bytes(text)) if message.slots[slot].text => {
                    set_text(&mut self.data, start, slot, text);
                }
                _ => {}
            }
        }
        start
    }

    /// `GenericFtraceEvent`: name 1; fields 2 of name 1, and text 3 or number 4, 5.
    fn generic(&mut self, body: &[u8], messages: &mut Messages) -> Option<(usize, usize)> {
        let name = Fields::of(body).find(|(field, _)| *field == 1)?.1.bytes()?;
        let parts = || Fields::of(body).filter(|(field, _)| *field == 2);
        let parts = || parts().filter_map(|(_, value)| Some(named_value(value.bytes()?)));
        let slots = parts().map(|(name, value)| table::Slot {
            number: 0,
            name: String::from_utf8_lossy(name).into_owned(),
            text: matches!(value, Some(Value::Bytes(_))),
            signed: true,
        });
        let at = messages.named(&String::from_utf8_lossy(name), slots)?;
        let slots = &messages.all[at].slots;
        let start = begin(&mut self.data, slots.len());
        for (name, value) in parts() {
            let slot = slots.iter().position(|slot| slot.name.as_bytes() == name);
            match (slot, value) {
                (Some(slot), Some(Value::Number(number))) if !slots[slot].text => {
                    set_number(&mut self.data, start, slot, number);
                }
                (Some(slot), Some(Value::Bytes(text))) if slots[slot].text => {
                    set_text(&mut self.data, start, slot, text);
                }
                _ => {}
            }
        }
        Some((at, start))
    }

    /// `CompactSched`: switches in 1 to 4 and 6, wakings in 7 to 12, names in 5.
    fn compact(&mut self, compact: &[u8]) {
        let mut names: Vec<&[u8]> = Vec::new();
        let mut columns: [&[u8]; 13] = [&[]; 13];
        let mut fields = Fields::of(compact);
        for (field, value) in fields.by_ref() {
            match (field, value.bytes()) {
                (5, Some(name)) => names.push(name),
                (1..=12, Some(bytes)) => columns[usize::try_from(field).unwrap_or(0)] = bytes,
                _ => {}
            }
        }
        self.damaged += u64::from(fields.damaged);
        let name = |index: u64| usize::try_from(index).ok().and_then(|at| names.get(at));
        let mut time = 0_u64;
        let states = packed(columns[2]).zip(packed(columns[3]));
        let rest = packed(columns[4]).zip(packed(columns[6]));
        for ((delta, (state, next)), (prio, comm)) in packed(columns[1]).zip(states).zip(rest) {
            time = time.wrapping_add(delta);
            let start = begin(&mut self.data, 7);
            set_number(&mut self.data, start, 1, NOBODY);
            for (slot, value) in [(3, state), (5, next), (6, prio)] {
                set_number(&mut self.data, start, slot, value);
            }
            set_text(
                &mut self.data,
                start,
                4,
                name(comm).copied().unwrap_or_default(),
            );
            self.push_compact(time, SWITCH, start);
        }
        let mut time = 0_u64;
        let targets = packed(columns[8]).zip(packed(columns[9]));
        let rest = packed(columns[10]).zip(packed(columns[11]));
        for ((delta, (pid, cpu)), (prio, comm)) in packed(columns[7]).zip(targets).zip(rest) {
            time = time.wrapping_add(delta);
            let start = begin(&mut self.data, 4);
            for (slot, value) in [(1, pid), (2, prio), (3, cpu)] {
                set_number(&mut self.data, start, slot, value);
            }
            set_text(
                &mut self.data,
                start,
                0,
                name(comm).copied().unwrap_or_default(),
            );
            self.push_compact(time, WAKING, start);
        }
    }

    fn push_compact(&mut self, time: u64, message: usize, start: usize) {
        let end = self.data.len();
        self.items.push(Item {
            time,
            pid: COMPACT,
            flags: 0,
            message,
            start,
            end,
        });
    }

    /// Compact events name neither who left nor whose thread they are in: the switch before does.
    fn fill_in(&mut self, running: &mut Running) {
        for at in 0..self.items.len() {
            let mut item = self.items[at];
            if item.pid == COMPACT {
                item.pid = running.pid.unwrap_or(-1);
                if item.message == SWITCH {
                    item = self.with_prev(item, running);
                }
            }
            if item.message == SWITCH {
                let data = &self.data[item.start..item.end];
                running.pid = slot_number(data, 5).map(int);
                running.comm.clear();
                running
                    .comm
                    .extend_from_slice(slot_text(data, 4).unwrap_or_default());
            }
            self.items[at] = item;
        }
    }

    /// A copy of a compact switch that says who left.
    fn with_prev(&mut self, item: Item, running: &Running) -> Item {
        let Some(pid) = running.pid else { return item };
        let start = self.data.len();
        self.data.extend_from_within(item.start..item.end);
        set_number(&mut self.data, start, 1, i64::from(pid).cast_unsigned());
        set_text(&mut self.data, start, 0, &running.comm);
        let end = self.data.len();
        Item { start, end, ..item }
    }
}

/// The thread of a compact event until it is known.
const COMPACT: i32 = i32::MIN;
/// The number -1: who left is not known.
const NOBODY: u64 = u64::MAX;

fn int(value: u64) -> i32 {
    // Negative numbers are written as those of 64 bits.
    i32::try_from(value.cast_signed()).unwrap_or(-1)
}

fn slot_number(data: &[u8], slot: usize) -> Option<u64> {
    let bytes = data.get(slot * 8..)?.first_chunk::<8>()?;
    Some(u64::from_le_bytes(*bytes))
}

fn slot_text(data: &[u8], slot: usize) -> Option<&[u8]> {
    let place = slot_number(data, slot)?;
    let from = usize::try_from(place & 0xffff).ok()?;
    let len = usize::try_from(place >> 16 & 0xffff).ok()?;
    data.get(from..from + len)
}

fn named_value(field: &[u8]) -> (&[u8], Option<Value<'_>>) {
    let (mut name, mut found) = (&[][..], None);
    for (number, value) in Fields::of(field) {
        match (number, value) {
            (1, Value::Bytes(bytes)) => name = bytes,
            (3, Value::Bytes(_)) | (4 | 5, Value::Number(_)) => found = Some(value),
            _ => {}
        }
    }
    (name, found)
}
