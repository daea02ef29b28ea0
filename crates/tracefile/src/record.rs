// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One record of a trace, and its fields.

use std::cell::RefCell;

use crate::event::{EventDef, Field, FieldId, FieldKind};
use crate::loss::Gap;
use crate::text::body::{self, Shape, TextField, TextValue};

/// One event that happened.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Record<'a> {
    /// When, in nanoseconds of the trace's clock (see [`crate::About::clock_is_ns`]).
    pub time_ns: u64,
    /// On which CPU of the recorded machine; `u32::MAX` if the trace does not say.
    pub cpu: u32,
    /// In which thread; 0 is a CPU's idle task.
    pub pid: i32,
    /// That thread's name as the trace knows it, `<...>` if it does not.
    pub comm: &'a [u8],
    /// The kernel's `common_flags`: 0x01 interrupts off, 0x04 reschedule needed, 0x08 in a hard
    /// interrupt, 0x10 in a soft interrupt, 0x40 in an NMI.
    pub flags: u8,
    /// Index into [`crate::About::instances`].
    pub instance: u16,
    /// The thread's process; 0 if the trace does not show it.
    pub process: i32,
    /// Whether events were lost just before it.
    pub gap: Gap,
    /// Which event.
    pub event: &'a EventDef,
    pub(crate) payload: Payload<'a>,
}

/// Where the fields are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Payload<'a> {
    Binary { data: &'a [u8], big: bool },
    Text(TextBody<'a>),
}

/// An event's printed text, whose fields are found when the first is asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextBody<'a> {
    body: &'a [u8],
    shape: Shape,
    parsed: &'a RefCell<Parsed>,
}

/// Fields found in the text of the record given last; kept by the source for its memory.
#[derive(Debug, Default)]
pub(crate) struct Parsed {
    pub done: bool,
    fields: Vec<TextField>,
}

impl<'a> TextBody<'a> {
    pub fn new(body: &'a [u8], shape: Shape, parsed: &'a RefCell<Parsed>) -> Self {
        Self {
            body,
            shape,
            parsed,
        }
    }

    fn value(&self, name: FieldId) -> Option<TextValue> {
        let mut parsed = self.parsed.borrow_mut();
        if !parsed.done {
            body::parse(self.shape, self.body, &mut parsed.fields);
            parsed.done = true;
        }
        parsed
            .fields
            .iter()
            .find(|f| f.name == name.0)
            .map(|f| f.value)
    }

    fn number(&self, name: FieldId) -> Option<u64> {
        match self.value(name)? {
            TextValue::Number(n) => Some(n),
            TextValue::Span { start, end, hex } => {
                body::parse_number(self.body.get(start..end)?, hex)
            }
        }
    }

    fn text(&self, name: FieldId) -> Option<&'a [u8]> {
        match self.value(name)? {
            TextValue::Number(_) => None,
            TextValue::Span { start, end, .. } => self.body.get(start..end),
        }
    }
}

impl<'a> Record<'a> {
    /// A number, extended to 64 bits by its sign. In text also a printed number; `None` if the
    /// field is absent, is not a number, or lies outside the record.
    #[must_use]
    pub fn u64(&self, field: FieldId) -> Option<u64> {
        match self.payload {
            Payload::Binary { data, big } => {
                let field = self.field(field)?;
                let FieldKind::Int { signed } = field.kind else {
                    return None;
                };
                int(place(data, field)?, big, signed)
            }
            Payload::Text(text) => text.number(field),
        }
    }

    /// The same as a signed number; `None` also if it is an unsigned one above `i64::MAX`.
    #[must_use]
    pub fn i64(&self, field: FieldId) -> Option<i64> {
        match self.payload {
            Payload::Binary { .. } => {
                let value = self.u64(field)?;
                match self.field(field)?.kind {
                    FieldKind::Int { signed: true } => Some(value.cast_signed()),
                    _ => i64::try_from(value).ok(),
                }
            }
            // A printed minus was taken in already.
            Payload::Text(text) => text.number(field).map(u64::cast_signed),
        }
    }

    /// Characters: a name, a string; in text any printed value, such as the name of an exit reason.
    #[must_use]
    pub fn str(&self, field: FieldId) -> Option<&'a [u8]> {
        match self.payload {
            Payload::Binary { .. } => {
                let chars = match self.field(field)?.kind {
                    FieldKind::Chars => true,
                    FieldKind::DataLoc { chars } | FieldKind::RelLoc { chars } => chars,
                    _ => false,
                };
                let bytes = self.bytes(field).filter(|_| chars)?;
                let end = memchr::memchr(0, bytes).unwrap_or(bytes.len());
                bytes.get(..end)
            }
            Payload::Text(text) => text.text(field),
        }
    }

    /// A field's bytes as they are, in the trace's byte order: for arrays and masks.
    #[must_use]
    pub fn bytes(&self, field: FieldId) -> Option<&'a [u8]> {
        match self.payload {
            Payload::Binary { data, big } => {
                let field = self.field(field)?;
                let relative = match field.kind {
                    FieldKind::DataLoc { .. } => false,
                    FieldKind::RelLoc { .. } => true,
                    _ => return place(data, field),
                };
                let loc = int(place(data, field)?, big, false)?;
                let start = usize::try_from(loc & 0xffff).ok()?;
                let len = usize::try_from((loc >> 16) & 0xffff).ok()?;
                let base = if relative {
                    usize::try_from(field.offset).ok()?.checked_add(4)?
                } else {
                    0
                };
                let start = base.checked_add(start)?;
                data.get(start..start.checked_add(len)?)
            }
            Payload::Text(text) => text.text(field),
        }
    }

    /// [`Self::u64`] by name: a look-up for each call.
    #[must_use]
    pub fn u64_named(&self, name: &str) -> Option<u64> {
        self.event.field(name).and_then(|f| self.u64(f))
    }

    /// [`Self::i64`] by name: a look-up for each call.
    #[must_use]
    pub fn i64_named(&self, name: &str) -> Option<i64> {
        self.event.field(name).and_then(|f| self.i64(f))
    }

    /// [`Self::str`] by name: a look-up for each call.
    #[must_use]
    pub fn str_named(&self, name: &str) -> Option<&'a [u8]> {
        self.event.field(name).and_then(|f| self.str(f))
    }

    /// The binary record with its `common_` fields, if the trace is binary.
    #[must_use]
    pub fn raw(&self) -> Option<&'a [u8]> {
        match self.payload {
            Payload::Binary { data, .. } => Some(data),
            Payload::Text(_) => None,
        }
    }

    /// The event's printed text, if the trace is text.
    #[must_use]
    pub fn text(&self) -> Option<&'a [u8]> {
        match self.payload {
            Payload::Binary { .. } => None,
            Payload::Text(text) => Some(text.body),
        }
    }

    fn field(&self, id: FieldId) -> Option<&'a Field> {
        self.event.fields.get(usize::try_from(id.0).ok()?)
    }
}

/// The bytes of a field; an array of size 0 takes the rest.
fn place<'a>(data: &'a [u8], field: &Field) -> Option<&'a [u8]> {
    let start = usize::try_from(field.offset).ok()?;
    let size = usize::try_from(field.size).ok()?;
    if size == 0 {
        return data.get(start..);
    }
    data.get(start..start.checked_add(size)?)
}

/// A number of 1, 2, 4 or 8 bytes, extended to 64 bits.
fn int(bytes: &[u8], big: bool, signed: bool) -> Option<u64> {
    macro_rules! read {
        ($unsigned:ty) => {{
            let b = bytes.try_into().ok()?;
            let v = if big {
                <$unsigned>::from_be_bytes(b)
            } else {
                <$unsigned>::from_le_bytes(b)
            };
            if signed {
                i64::from(v.cast_signed()).cast_unsigned()
            } else {
                u64::from(v)
            }
        }};
    }
    Some(match bytes.len() {
        1 => read!(u8),
        2 => read!(u16),
        4 => read!(u32),
        8 => {
            let b = bytes.try_into().ok()?;
            if big {
                u64::from_be_bytes(b)
            } else {
                u64::from_le_bytes(b)
            }
        }
        _ => return None,
    })
}
