// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Protocol buffers as they lie in a file: fields of a number and a value
//! (<https://protobuf.dev/programming-guides/encoding/>).

/// The value of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    /// A number, of any of the three ways to write one down.
    Number(u64),
    /// A text, a message, or several numbers.
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    pub fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Number(_) => None,
            Self::Bytes(bytes) => Some(bytes),
        }
    }
}

/// The fields of a message, one after the other; ends at the first that makes no sense.
#[derive(Debug, Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    /// Whether it ended before the message did.
    pub damaged: bool,
}

impl<'a> Fields<'a> {
    pub fn of(message: &'a [u8]) -> Self {
        Self {
            rest: message,
            damaged: false,
        }
    }

    /// Bytes that are not read yet.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    fn field(&mut self) -> Option<(u32, Value<'a>)> {
        let tag = varint(&mut self.rest)?;
        let field = u32::try_from(tag >> 3).ok().filter(|field| *field > 0)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut self.rest)?),
            1 => Value::Number(u64::from_le_bytes(take(&mut self.rest)?)),
            2 => {
                let len = usize::try_from(varint(&mut self.rest)?).ok()?;
                let (bytes, rest) = self.rest.split_at_checked(len)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Number(u64::from(u32::from_le_bytes(take(&mut self.rest)?))),
            _ => return None,
        };
        Some((field, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = (u32, Value<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() || self.damaged {
            return None;
        }
        let field = self.field();
        self.damaged = field.is_none();
        field
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (head, tail) = rest.split_first_chunk::<N>()?;
    *rest = tail;
    Some(*head)
}

/// A number of seven bits a byte, the lowest first; at most ten bytes.
pub(super) fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for (at, &byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Some(value);
        }
    }
    None
}

/// Numbers that lie behind one another; those behind damage are left out.
pub(super) fn packed(mut bytes: &[u8]) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || varint(&mut bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_documentation_of_protocol_buffers_are_read() {
        let mut fields = Fields::of(b"\x08\x96\x01\x12\x07testing");
        assert_eq!(fields.next(), Some((1, Value::Number(150))));
        assert_eq!(fields.next(), Some((2, Value::Bytes(b"testing"))));
        assert_eq!((fields.next(), fields.damaged), (None, false));
        assert_eq!(
            packed(b"\x03\x8e\x02\x9e\xa7\x05").collect::<Vec<_>>(),
            [3, 270, 86942]
        );
    }

    #[test]
    fn a_length_beyond_the_message_ends_it() {
        let mut fields = Fields::of(b"\x12\x08testing");
        assert_eq!((fields.next(), fields.damaged), (None, true));
        let mut endless = Fields::of(&[0xff; 20]);
        assert_eq!((endless.next(), endless.damaged), (None, true));
    }
}
