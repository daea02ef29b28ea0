// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The kernel's descriptions of events: `events/<system>/<event>/format` and `header_page`.

use crate::event::{EventDef, Field, FieldKind};

/// The most fields an event is given; the kernel's largest have about 60.
const FIELDS_MAX: usize = 1024;

/// Reads a `format` file. Gives the event and its `common_` fields, or what is wrong with it.
pub(crate) fn parse_event(system: &str, text: &[u8]) -> Result<(EventDef, Vec<Field>), String> {
    let text = String::from_utf8_lossy(text);
    let (mut name, mut id, mut print_fmt) = (None, None, String::new());
    let (mut common, mut fields) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let trimmed = line.trim();
        if let Some(value) = trimmed.strip_prefix("name:") {
            name = Some(value.trim().to_owned());
        } else if let Some(value) = trimmed.strip_prefix("ID:") {
            id = value.trim().parse::<u32>().ok();
        } else if let Some(value) = trimmed.strip_prefix("print fmt:") {
            value.trim().clone_into(&mut print_fmt);
        } else if trimmed.starts_with("field") && fields.len() + common.len() < FIELDS_MAX {
            let field = parse_field(trimmed)
                .ok_or_else(|| format!("a field of an event is described as `{trimmed}`"))?;
            if field.name.starts_with("common_") {
                common.push(field);
            } else {
                fields.push(field);
            }
        }
    }
    let name = name.ok_or("the description of an event has no `name:` line")?;
    let id =
        id.ok_or_else(|| format!("the description of {name} has no `ID:` line with a number"))?;
    let event = EventDef {
        system: system.to_owned(),
        name,
        id,
        index: 0,
        fields,
        print_fmt,
        is_text: false,
    };
    Ok((event, common))
}

/// One line `field:unsigned int vcpu_id;  offset:8;  size:4;  signed:0;`.
fn parse_field(line: &str) -> Option<Field> {
    let rest = line.strip_prefix("field")?;
    let (_, rest) = rest.split_once(':')?;
    let mut parts = rest.split(';').map(str::trim);
    let decl = parts.next()?;
    let (mut offset, mut size, mut signed) = (None, None, None);
    for part in parts {
        if let Some((key, value)) = part.split_once(':') {
            match key {
                "offset" => offset = value.parse::<u32>().ok(),
                "size" => size = value.parse::<u32>().ok(),
                "signed" => signed = Some(value.trim() == "1"),
                _ => {}
            }
        }
    }
    let (type_name, name, is_array) = split_decl(decl)?;
    // Kernels before 2.6.33 do not say `signed:`.
    let signed =
        signed.unwrap_or_else(|| !type_name.contains("unsigned") && !type_name.starts_with('u'));
    let chars = type_name
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .any(|w| w == "char");
    let size = size?;
    let kind = if type_name.starts_with("__data_loc") {
        FieldKind::DataLoc { chars }
    } else if type_name.starts_with("__rel_loc") {
        FieldKind::RelLoc { chars }
    } else if is_array && chars && !type_name.contains("unsigned") {
        FieldKind::Chars
    } else if !is_array && matches!(size, 1 | 2 | 4 | 8) {
        FieldKind::Int { signed }
    } else {
        FieldKind::Bytes
    };
    Some(Field {
        name,
        type_name,
        offset: offset?,
        size,
        kind,
    })
}

/// Splits a C declaration into its type, its name, and whether it is an array.
fn split_decl(decl: &str) -> Option<(String, String, bool)> {
    // `__data_loc char[] name` has the brackets in the type, `char comm[16]` behind the name.
    let (head, array) = match decl.strip_suffix(']') {
        Some(_) => decl.split_at(decl.rfind('[')?),
        None => (decl, ""),
    };
    let head = head.trim_end();
    let type_name = head.trim_end_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let name = &head[type_name.len()..];
    if name.is_empty() {
        return None;
    }
    let type_name = format!("{}{array}", type_name.trim_end());
    let is_array = !array.is_empty();
    Some((type_name, name.to_owned(), is_array))
}

/// Where a ring-buffer page keeps what (`events/header_page`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PageLayout {
    /// Bytes of the commit word: the kernel's long.
    pub commit_size: usize,
    /// Where the events begin.
    pub data: usize,
}

impl PageLayout {
    /// Reads `header_page`. The time stamp is at 0 and the commit word at 8 in every kernel since
    /// 2.6.32.
    pub fn parse(text: &[u8]) -> Result<Self, String> {
        let text = String::from_utf8_lossy(text);
        let mut layout = Self {
            commit_size: 0,
            data: 0,
        };
        for field in text.lines().filter_map(|line| parse_field(line.trim())) {
            match field.name.as_str() {
                "timestamp" if (field.offset, field.size) != (0, 8) => {
                    return Err("the pages' time stamp is not 8 bytes at 0".into());
                }
                "commit" if field.offset != 8 => {
                    return Err("the pages' commit word is not at 8".into());
                }
                "commit" => layout.commit_size = usize::try_from(field.size).unwrap_or(0),
                "data" => layout.data = usize::try_from(field.offset).unwrap_or(0),
                _ => {}
            }
        }
        let ok = matches!(layout.commit_size, 4 | 8)
            && layout.data >= 8 + layout.commit_size
            && layout.data <= 64;
        if ok {
            Ok(layout)
        } else {
            Err("the description of the buffer's pages makes no sense".into())
        }
    }
}

/// Where the `common_` fields are, which every event begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Common {
    pub type_at: usize,
    pub flags_at: usize,
    pub pid_at: usize,
    /// Bytes that all of them need.
    pub end: usize,
}

impl Common {
    /// What every kernel on record has.
    pub const USUAL: Self = Self {
        type_at: 0,
        flags_at: 2,
        pid_at: 4,
        end: 8,
    };

    /// From the fields of one event; `None` if they are not of the usual sizes.
    pub fn from_fields(fields: &[Field]) -> Option<Self> {
        let at = |name: &str, size: u32| {
            let field = fields.iter().find(|f| f.name == name && f.size == size)?;
            usize::try_from(field.offset).ok().filter(|&at| at < 64)
        };
        let (type_at, flags_at, pid_at) = (
            at("common_type", 2)?,
            at("common_flags", 1)?,
            at("common_pid", 4)?,
        );
        let end = (type_at + 2).max(flags_at + 1).max(pid_at + 4);
        Some(Self {
            type_at,
            flags_at,
            pid_at,
            end,
        })
    }
}
