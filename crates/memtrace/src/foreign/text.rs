// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Reads the text form of a trace, which a one-liner makes of what another tool prints. The form
//! is in `docs/formats/memtrace.md`: a line for each access or change of a mapping, of all threads
//! in the order of the file. What Valgrind's lackey, Pin's `pinatrace` and gem5's `Exec` print is
//! recognised, and answered with the one-liner that converts it.
//!
//! Left out: markers.

use std::collections::VecDeque;

use super::unpack::Unpacked;
use super::{Event, What, pieces, place};
use crate::capture::Syscall;
use crate::error::TraceError;

/// What a line must be.
const LINE: &str = "`THREAD r|w ADDRESS SIZE [INSTRUCTIONS]`, `THREAD map|protect START LENGTH \
                    RIGHTS` or `THREAD unmap|discard START LENGTH` (docs/formats/memtrace.md)";
/// Largest access, bytes. AVX-512 state, which lackey counts as one access, takes less.
const MAX_SIZE: u64 = 4096;
/// Bytes of a line that an error repeats.
const SHOWN: usize = 60;

/// Advice that drops pages (`MADV_DONTNEED`).
const DONTNEED: u64 = 4;

/// A tool that prints accesses in a form of its own.
struct Tool {
    name: &'static str,
    prints: fn(&str) -> bool,
    /// The program of awk that converts it.
    awk: &'static str,
}

const TOOLS: [Tool; 3] = [
    Tool {
        name: "Valgrind's lackey (--trace-mem=yes)",
        prints: of_lackey,
        awk: "awk -F'[ ,]+' '/^I /{n++} /^ [LM] /{print 0,\"r\",$3,$4,n+0;n=0} \
              /^ [SM] /{print 0,\"w\",$3,$4,n+0;n=0}'",
    },
    Tool {
        name: "Pin's pinatrace",
        prints: of_pin,
        awk: "awk '$2~/^[RW]$/{print 0,tolower($2),$3,8,($1!=p);p=$1}'",
    },
    Tool {
        name: "gem5's debug flag Exec",
        prints: of_gem5,
        awk: "awk -F' +: +' '/ T[0-9]+ : /{split($1,a,\" \");t=a[2];gsub(/[^0-9]/,\"\",t);t+=0;\
              p=$2;sub(/[.] ?[0-9]+$/,\"\",p);n[t]+=(p!=l[t]);l[t]=p} \
              match($0,/ A=0x[0-9a-f]+/){print t,(/ MemWrite /?\"w\":\"r\"),\
              substr($0,RSTART+3,RLENGTH-3),8,n[t]+0;n[t]=0}'",
    },
];

/// Whether bytes begin as a text does.
pub(super) fn is_text(head: &[u8]) -> bool {
    let printed = |byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\r' | b'\n');
    !head.is_empty() && head.iter().all(printed)
}

fn of_lackey(line: &str) -> bool {
    let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
    line.starts_with("==")
        || (matches!(words.next(), Some("I" | "L" | "S" | "M"))
            && words.next().is_some_and(|word| hexadecimal(word).is_some())
            && words.next().is_some_and(|word| word.parse::<u64>().is_ok()))
}

fn of_pin(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    matches!(words[..], [at, "R" | "W", address, ..] if at.starts_with("0x") && at.ends_with(':')
        && hexadecimal(address).is_some())
}

fn of_gem5(line: &str) -> bool {
    line.trim_start()
        .split_once(": ")
        .is_some_and(|(tick, rest)| tick.parse::<u64>().is_ok() && rest.contains(" T"))
}

/// A hexadecimal number, with or without `0x`.
fn hexadecimal(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|_| !digits.starts_with('+'))
}

/// A text being read.
pub(super) struct Text {
    from: Unpacked,
    line: Vec<u8>,
    lines: u64,
    /// Made and not yet handed out.
    ready: VecDeque<Event>,
}

impl Text {
    pub(super) fn open(from: Unpacked) -> Self {
        Self {
            from,
            line: Vec::new(),
            lines: 0,
            ready: VecDeque::new(),
        }
    }

    /// The next access or change of a mapping.
    pub(super) fn next(&mut self) -> Result<Option<Event>, TraceError> {
        while self.ready.is_empty() {
            let start = self.from.offset();
            if !self.from.read_line(&mut self.line)? {
                break;
            }
            self.lines += 1;
            let line = String::from_utf8_lossy(&self.line);
            let words = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = words.split_whitespace().collect();
            if words.is_empty() {
                continue;
            }
            match event(&words) {
                Some(made) => self.ready.extend(made),
                None => return Err(self.refused(&line, start)),
            }
        }
        Ok(self.ready.pop_front())
    }

    /// Why a line cannot be read: it is another tool's, or it is wrong.
    fn refused(&self, line: &str, start: u64) -> TraceError {
        assert!(self.lines > 0, "a line was read");
        let file = self.from.name().to_owned();
        if let Some(tool) = TOOLS.iter().find(|tool| (tool.prints)(line)) {
            return TraceError::Unsupported {
                what: format!(
                    "it is what {} prints; convert its text first: {} {file} >trace.txt; \
                     then give trace.txt",
                    tool.name, tool.awk
                ),
                file,
            };
        }
        let shown: String = line.trim_end().chars().take(SHOWN).collect();
        TraceError::Damaged {
            place: place(&file, start),
            what: "line of a text trace",
            expected: LINE.to_owned(),
            found: format!("line {}: {shown:?}", self.lines),
        }
    }
}

/// The events of a line's words; `None` where they are wrong.
fn event(words: &[&str]) -> Option<Vec<Event>> {
    let thread = words.first()?.parse().ok()?;
    let verb = *words.get(1)?;
    let start = hexadecimal(words.get(2)?)?;
    let len: u64 = words.get(3)?.parse().ok().filter(|len| *len > 0)?;
    start.checked_add(len)?;
    let last = words.get(4).copied();
    if words.len() > 5 {
        return None;
    }
    // One clock for all: the order of the file is kept.
    let at = |what| Event {
        when: 0,
        thread,
        what,
    };
    let call = |num, args: [u64; 3]| {
        let ret = i64::from_le_bytes(start.to_le_bytes());
        let args = [args[0], args[1], args[2], 0, 0, 0];
        Some(vec![at(What::Call(Syscall { num, ret, args }))])
    };
    match (verb, last) {
        ("r" | "w", instructions) if len <= MAX_SIZE => {
            let instructions = instructions.map_or(Some(1), |word| word.parse().ok())?;
            let all = pieces(start, len, verb == "w", instructions);
            Some(all.map(|access| at(What::Access(access))).collect())
        }
        // mmap, mprotect, munmap and madvise of x86-64.
        ("map", Some(rights)) => call(9, [start, len, bits(rights)?]),
        ("protect", Some(rights)) => call(10, [start, len, bits(rights)?]),
        ("unmap", None) => call(11, [start, len, 0]),
        ("discard", None) => call(28, [start, len, DONTNEED]),
        _ => None,
    }
}

/// Rights as `rwx`, a `-` for each that is missing, or some of the letters.
fn bits(rights: &str) -> Option<u64> {
    rights.chars().try_fold(0, |bits, right| {
        Some(
            bits | ["r", "w", "x", "-"]
                .iter()
                .position(|one| one.starts_with(right))
                .map(|at| (1 << at) & 7)?,
        )
    })
}
