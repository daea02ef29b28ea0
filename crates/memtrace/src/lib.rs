// SPDX-License-Identifier: Apache-2.0 OR MIT
#![forbid(unsafe_code)]
//! Memory-access traces: what the coherence simulator runs on.
//!
//! A trace is a list of [`Record`]s: accesses with the instructions between them, changes of the
//! address space, markers. [`FileWriter`] and [`Writer`] make one, [`Reader`] reads it block by
//! block, [`check`] verifies it, [`capture`] records one from a real program under QEMU's
//! user-mode emulation, [`foreign`] converts traces of ChampSim and DynamoRIO. The format, to the
//! byte, is in `docs/formats/memtrace.md`.
//!
//! Left out: instruction addresses and the values read or written, which TLB coherence does not
//! need; physical addresses, which are the simulator's to assign.

pub mod capture;
mod check;
mod decode;
mod encode;
mod error;
mod footer;
pub mod foreign;
mod header;
pub mod host;
mod layout;
mod reader;
mod record;
mod space;
mod varint;
mod writer;

pub use check::{Report, check, check_stream};
pub use decode::{Run, Sink};
pub use error::{Place, TraceError};
pub use footer::{Digest, Totals};
pub use header::{Header, Origin};
pub use layout::{BLOCK_RECORDS, MAX_CHUNK_RECORDS, VERSION};
pub use reader::Reader;
pub use record::{MAX_INSTRUCTIONS, MapKind, Prot, Record};
pub use space::AddressSpace;
pub use writer::{FileWriter, Writer};
