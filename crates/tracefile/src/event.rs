// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events as a trace describes them: names, numbers and where their fields are.

/// How a field's bytes are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FieldKind {
    /// A number of 1, 2, 4 or 8 bytes.
    Int {
        /// True if it can be negative.
        signed: bool,
    },
    /// Characters in place, ended by a NUL or by the field's end.
    Chars,
    /// Bytes in place: an array of numbers, a structure.
    Bytes,
    /// `__data_loc`: the place of the value, counted from the record's start.
    DataLoc {
        /// The value is characters.
        chars: bool,
    },
    /// `__rel_loc`: the place of the value, counted from the end of this field.
    RelLoc {
        /// The value is characters.
        chars: bool,
    },
    /// Printed text.
    Text,
}

/// One field of an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// Its name, such as `exit_reason`.
    pub name: String,
    /// Its type as the kernel's C code states it, with the length of an array.
    pub type_name: String,
    /// Bytes from the record's start.
    pub offset: u32,
    /// Bytes; 0 for an array that takes the rest of the record.
    pub size: u32,
    /// How to read it.
    pub kind: FieldKind,
}

/// A field looked up once, for reading it from many records of the same event.
///
/// It is good for records of the [`EventDef`] that gave it, of the same [`crate::Source`]; for
/// others it gives another field or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FieldId(pub(crate) u64);

/// One event as the trace describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventDef {
    /// The event's group, such as `kvm`; empty where text does not say.
    pub system: String,
    /// Its name, such as `kvm_exit`.
    pub name: String,
    /// Its number in the trace; 0 in text.
    pub id: u32,
    /// Its place in [`crate::About::events`].
    pub index: usize,
    /// Its fields, without the `common_` ones; empty in text, where they show only when printed.
    pub fields: Vec<Field>,
    /// The kernel's `print fmt`; empty in text.
    pub print_fmt: String,
    /// True if fields are read from printed text.
    pub is_text: bool,
}

impl EventDef {
    /// The field of this name. In text every name gives an id, as only the record shows what it
    /// has.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<FieldId> {
        if self.is_text {
            return Some(FieldId(hash(name.as_bytes())));
        }
        let at = self.fields.iter().position(|f| f.name == name)?;
        u64::try_from(at).ok().map(FieldId)
    }
}

/// FNV-1a: distinguishes the names of a text trace's fields. Two names that meet would give one
/// another's value; with 64 bits that takes intent.
pub(crate) fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3)
    })
}
