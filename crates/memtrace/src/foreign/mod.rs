// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Traces of other tools, made into ours: [ChampSim's](champsim), [DynamoRIO's](dynamorio) and
//! [text](text) of any tool, distinguished by content. Several inputs become threads of one trace:
//! those of ChampSim interleaved as if every thread retired one instruction a cycle, those of
//! DynamoRIO by the timestamps in them, texts one after the other; at a tie the earlier input goes
//! first.
//!
//! Left out: what no such format holds for certain, so a converted trace never claims that its
//! mappings are complete.

mod champsim;
mod dynamorio;
mod text;
mod unpack;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fs::File;
use std::io::{BufRead, BufReader, Seek, Write};
use std::path::{Path, PathBuf};

use crate::capture::{Converter, RawAccess, Syscall};
use crate::error::{Place, TraceError};
use crate::footer::{Digest, Totals};
use crate::header::{Header, Origin};
use crate::writer::{FileWriter, Writer, io_error};
use champsim::ChampSim;
use dynamorio::DynamoRio;
use text::Text;
use unpack::Unpacked;

/// Bytes that can be read in any order: a file, or a buffer in memory.
pub trait Bytes: BufRead + Seek + Send {}
impl<T: BufRead + Seek + Send> Bytes for T {}

/// An input and the name that stands for it in errors.
pub struct Named {
    /// File name.
    pub name: String,
    /// Content.
    pub bytes: Box<dyn Bytes>,
}

impl std::fmt::Debug for Named {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Named")
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Something that a thread of a foreign trace did.
#[derive(Debug, Clone, Copy)]
struct Event {
    /// The input's clock, in instructions or microseconds; never goes back.
    when: u64,
    /// The thread's number in the foreign trace.
    thread: u64,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Access(RawAccess),
    Call(Syscall),
}

/// A foreign trace being read.
enum Input {
    ChampSim(Box<ChampSim>),
    DynamoRio(Box<DynamoRio>),
    Text(Box<Text>),
}

impl Input {
    fn open(input: Named, at: usize) -> Result<Self, TraceError> {
        let mut bytes = Unpacked::open(input)?;
        let head = bytes.peek()?;
        if let Some(what) = refusal(&head) {
            let file = bytes.name().to_owned();
            return Err(TraceError::Unsupported { file, what });
        }
        Ok(if dynamorio::begins_with_header(&head) {
            Self::DynamoRio(Box::new(DynamoRio::open(bytes)?))
        } else if text::is_text(&head) {
            Self::Text(Box::new(Text::open(bytes)))
        } else {
            Self::ChampSim(Box::new(ChampSim::open(bytes, at as u64)))
        })
    }

    fn next(&mut self) -> Result<Option<Event>, TraceError> {
        match self {
            Self::ChampSim(from) => from.next(),
            Self::DynamoRio(from) => from.next(),
            Self::Text(from) => from.next(),
        }
    }

    fn origin(&self) -> Origin {
        match self {
            Self::ChampSim(_) => Origin::ChampSim,
            Self::DynamoRio(_) => Origin::DynamoRio,
            Self::Text(_) => Origin::Text,
        }
    }

    /// Process and page size, where the format has them.
    fn process(&self) -> (Option<u64>, Option<u32>) {
        match self {
            Self::ChampSim(_) | Self::Text(_) => (None, None),
            Self::DynamoRio(from) => from.process(),
        }
    }
}

/// What is known and not read, by its first bytes; the text says how to fix.
fn refusal(head: &[u8]) -> Option<String> {
    let text = if head.starts_with(&crate::layout::MAGIC) {
        "it is a trace of ours already; use it as it is"
    } else if head.len() >= 8 && matches!(head[7], 0xc0 | 0xc4) {
        // The first entry of a raw file: type 6 (extended), subtype 0 or 4 (header). As the
        // address of an instruction it would not be canonical.
        "it is a raw trace of DynamoRIO; let drmemtrace post-process its folder first \
         (drrun -t drmemtrace -indir FOLDER), then give FOLDER"
    } else {
        return None;
    };
    Some(text.to_owned())
}

/// Converts traces of other tools into one of ours. A folder stands for the DynamoRIO trace in it.
///
/// # Errors
/// [`TraceError::Io`] for what cannot be read or written, [`TraceError::Empty`] for an empty file,
/// [`TraceError::NoAccesses`] for inputs without accesses, [`TraceError::Unsupported`] for known
/// formats that are not read and inputs that do not go together, [`TraceError::Truncated`] and
/// [`TraceError::Damaged`] with the offset in the unpacked bytes, [`TraceError::Unwritable`] for
/// more than 65,536 threads.
pub fn convert(inputs: &[PathBuf], output: &Path) -> Result<(Totals, Digest), TraceError> {
    let mut named = Vec::new();
    for path in inputs {
        for file in files(path)? {
            named.push(open_file(&file)?);
        }
    }
    let (header, inputs) = open_all(named)?;
    let mut file = FileWriter::create(output, &header)?;
    merge(inputs, &header, file.writer())?;
    file.finish()
}

/// Converts as [`convert`] does, from and to bytes in memory or elsewhere.
///
/// # Errors
/// As [`convert`].
pub fn convert_to<W: Write>(inputs: Vec<Named>, to: W, name: &str) -> Result<W, TraceError> {
    let (header, inputs) = open_all(inputs)?;
    let mut writer = Writer::new(to, name, &header)?;
    merge(inputs, &header, &mut writer)?;
    Ok(writer.finish()?.0)
}

fn open_file(path: &Path) -> Result<Named, TraceError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(io_error(&name, "open"))?;
    Ok(Named {
        name,
        bytes: Box::new(BufReader::with_capacity(1 << 16, file)),
    })
}

/// The trace files that a path stands for, in the order of their names.
fn files(path: &Path) -> Result<Vec<PathBuf>, TraceError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let inner = path.join("trace");
    let folder = if inner.is_dir() {
        inner
    } else {
        path.to_owned()
    };
    let name = folder.display().to_string();
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(io_error(&name, "list"))? {
        let entry = entry.map_err(io_error(&name, "list"))?;
        let file = entry.file_name();
        let file = file.to_string_lossy();
        if file.ends_with(".trace") || file.contains(".trace.") {
            found.push(entry.path());
        }
    }
    found.sort();
    if found.is_empty() {
        return Err(TraceError::Unsupported {
            file: path.display().to_string(),
            what: "the folder holds no files named *.trace, *.trace.gz or *.trace.zip. If \
                   DynamoRIO left raw files in it, let drmemtrace post-process them first \
                   (drrun -t drmemtrace -indir FOLDER)"
                .to_owned(),
        });
    }
    Ok(found)
}

/// Opens the inputs and makes the header of what they become.
fn open_all(named: Vec<Named>) -> Result<(Header, Vec<Input>), TraceError> {
    let mut inputs = Vec::new();
    let mut names = Vec::new();
    let mut header = Header::new("");
    let mut of_first = None;
    for (at, input) in named.into_iter().enumerate() {
        let file = input.name.clone();
        let input = Input::open(input, at)?;
        let (process, page_size) = input.process();
        let this = (input.origin(), process, page_size);
        let first = *of_first.get_or_insert(this);
        if first != this {
            return Err(TraceError::Unsupported {
                file,
                what: format!(
                    "it does not go with the first input: that is {}, this is {}. Convert the \
                     files of one program alone",
                    describe(&first),
                    describe(&this)
                ),
            });
        }
        let short = Path::new(&file).file_name().unwrap_or_default();
        names.push(short.to_string_lossy().into_owned());
        inputs.push(input);
    }
    if let Some((origin, _, page_size)) = of_first {
        header.origin = origin;
        header.page_size = page_size.unwrap_or(header.page_size);
        header.recorder = format!("converted from {}", tool(origin));
    }
    header.program = names.join(" + ");
    Ok((header, inputs))
}

fn tool(origin: Origin) -> &'static str {
    match origin {
        Origin::DynamoRio => "DynamoRIO",
        Origin::Text => "text",
        _ => "ChampSim",
    }
}

fn describe((origin, process, page_size): &(Origin, Option<u64>, Option<u32>)) -> String {
    let mut text = format!("of {}", tool(*origin));
    if let Some(process) = process {
        text += &format!(", process {process}");
    }
    if let Some(page_size) = page_size {
        text += &format!(", pages of {page_size} bytes");
    }
    text
}

/// Writes the events of all inputs in the order of their clocks.
fn merge<W: Write>(
    mut inputs: Vec<Input>,
    header: &Header,
    writer: &mut Writer<W>,
) -> Result<(), TraceError> {
    // Mapping calls of all threads change one address space.
    let mut space = Converter::new(header.page_size);
    let mut threads = Threads::default();
    let mut accesses = false;
    let mut waiting = BinaryHeap::new();
    let mut heads: Vec<Option<Event>> = vec![None; inputs.len()];
    for (at, input) in inputs.iter_mut().enumerate() {
        heads[at] = input.next()?;
        waiting.extend(heads[at].map(|event| Reverse((event.when, at))));
    }
    while let Some(Reverse((_, at))) = waiting.pop() {
        let Some(event) = heads[at].take() else {
            continue;
        };
        let thread = threads.number(event.thread, &header.program)?;
        accesses |= matches!(event.what, What::Access(_));
        let mut emit = |record| writer.push(&record);
        match event.what {
            What::Access(access) => space.access(thread, access, &mut emit)?,
            What::Call(call) => space.syscall(thread, &call, &mut emit)?,
        }
        heads[at] = inputs[at].next()?;
        waiting.extend(heads[at].map(|event| Reverse((event.when, at))));
    }
    if !accesses {
        let file = header.program.clone();
        return Err(TraceError::NoAccesses { file });
    }
    Ok(())
}

/// Longest piece of a long access, bytes.
const PIECE: u8 = 64;

/// An access of any length as pieces that a record holds.
fn pieces(
    vaddr: u64,
    size: u64,
    write: bool,
    instructions: u32,
) -> impl Iterator<Item = RawAccess> {
    assert!(size > 0, "an access touches a byte");
    let piece = u64::from(PIECE);
    (0..size.div_ceil(piece)).map(move |at| RawAccess {
        vaddr: vaddr.wrapping_add(at * piece),
        instructions: if at == 0 { instructions } else { 0 },
        size: u8::try_from(size - at * piece).map_or(PIECE, |left| left.min(PIECE)),
        write,
    })
}

/// Numbers threads in the order of their first events.
#[derive(Default)]
struct Threads(BTreeMap<u64, u16>);

impl Threads {
    fn number(&mut self, foreign: u64, file: &str) -> Result<u16, TraceError> {
        if let Some(&known) = self.0.get(&foreign) {
            return Ok(known);
        }
        let number = u16::try_from(self.0.len()).map_err(|_| TraceError::Unwritable {
            file: file.to_owned(),
            what: "more than 65536 threads do not fit".to_owned(),
        })?;
        self.0.insert(foreign, number);
        Ok(number)
    }
}

/// A place in the unpacked bytes of a file.
fn place(file: &str, offset: u64) -> Box<Place> {
    Box::new(Place {
        file: file.to_owned(),
        chunk: None,
        record: None,
        offset,
    })
}
