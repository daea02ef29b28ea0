// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Writes a `trace.dat` of version 6 (trace-cmd.dat.v6(5)) from pages of ring buffers.
//!
//! Left out: the kernel's symbols and texts of `trace_printk`, which no diagnosis needs.

use std::io::{self, Read, Seek, SeekFrom, Write};

use crate::pages;

/// `options` by their numbers in trace-cmd.dat.v7(5).
const CPUSTAT: u16 = 2;
const TRACECLOCK: u16 = 4;
const UNAME: u16 = 5;

/// What stands before the pages.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub header_page: String,
    pub header_event: String,
    /// System, name, description.
    pub formats: Vec<(String, String, String)>,
    /// Lines of a thread and its name.
    pub names: String,
    /// The clocks, the chosen one in brackets.
    pub clock: String,
    pub uname: String,
    /// For each CPU its statistics.
    pub stats: Vec<String>,
}

/// The pages of one CPU.
#[derive(Debug)]
pub(crate) struct CpuPages {
    pub number: u32,
    /// Whole pages, one after the other.
    pub file: std::fs::File,
    pub len: u64,
    /// The ring had overwritten what was before the first.
    pub overwritten: bool,
}

/// The size of a page by `header_page`, if its count has 8 bytes.
pub(crate) fn page_size(header_page: &str) -> Option<usize> {
    let value = |field: &str, key: &str| {
        let line = header_page.lines().find(|line| line.contains(field))?;
        let part = line
            .split(';')
            .find_map(|part| part.trim().strip_prefix(key))?;
        part.trim_start_matches(':').parse::<usize>().ok()
    };
    let whole = value(" data;", "offset")? + value(" data;", "size")?;
    let usual = value(" commit;", "size")? == 8 && value(" data;", "offset")? == pages::HEAD;
    (usual && whole.is_multiple_of(512)).then_some(whole)
}

/// Counts that the format has in 32 bits.
fn small(count: usize) -> [u8; 4] {
    u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes()
}

fn sized(out: &mut Vec<u8>, text: &str) {
    out.extend((text.len() as u64).to_le_bytes());
    out.extend(text.as_bytes());
}

fn option(out: &mut Vec<u8>, id: u16, text: &str) {
    out.extend(id.to_le_bytes());
    out.extend(small(text.len() + 1));
    out.extend(text.as_bytes());
    out.push(0);
}

fn head(head: &Head, page: usize, cpus: u32) -> Vec<u8> {
    let mut out = b"\x17\x08\x44tracing6\0\0\x08".to_vec();
    out.extend(small(page));
    out.extend(b"header_page\0");
    sized(&mut out, &head.header_page);
    out.extend(b"header_event\0");
    sized(&mut out, &head.header_event);
    // No events of ftrace itself.
    out.extend(small(0));
    let mut systems: Vec<&str> = head
        .formats
        .iter()
        .map(|(system, ..)| system.as_str())
        .collect();
    systems.sort_unstable();
    systems.dedup();
    out.extend(small(systems.len()));
    for system in systems {
        let own: Vec<&str> = head
            .formats
            .iter()
            .filter(|(of, ..)| of == system)
            .map(|(.., text)| text.as_str())
            .collect();
        out.extend(system.as_bytes());
        out.push(0);
        out.extend(small(own.len()));
        for text in own {
            sized(&mut out, text);
        }
    }
    // Symbols, and texts of trace_printk.
    out.extend(small(0));
    out.extend(small(0));
    sized(&mut out, &head.names);
    out.extend(cpus.to_le_bytes());
    out.extend(b"options  \0");
    option(&mut out, TRACECLOCK, &head.clock);
    option(&mut out, UNAME, &head.uname);
    for stat in &head.stats {
        option(&mut out, CPUSTAT, stat);
    }
    out.extend(0_u16.to_le_bytes());
    out.extend(b"flyrecord\0");
    out
}

/// From when on all CPUs' rings have everything: the latest begin of one that was overwritten.
pub(crate) fn whole_from(cpus: &mut [CpuPages]) -> io::Result<u64> {
    let mut from = 0;
    for cpu in cpus.iter_mut().filter(|cpu| cpu.overwritten && cpu.len > 0) {
        from = from.max(time_of(cpu, 0)?);
    }
    Ok(from)
}

fn time_of(cpu: &mut CpuPages, at: u64) -> io::Result<u64> {
    let mut bytes = [0; 8];
    cpu.file.seek(SeekFrom::Start(at))?;
    cpu.file.read_exact(&mut bytes)?;
    Ok(pages::time(&bytes))
}

/// Byte of the first page that has a record from `from` on, or may have.
fn first_page(cpu: &mut CpuPages, page: u64, from: u64) -> io::Result<u64> {
    let mut at = 0;
    while at + page < cpu.len && time_of(cpu, at + page)? <= from {
        at += page;
    }
    Ok(at)
}

/// Writes all records from `from` on; `change` gets each page.
pub(crate) fn write(
    out: &mut impl Write,
    what: &Head,
    page: usize,
    cpus: &mut [CpuPages],
    from: u64,
    change: &mut dyn FnMut(&mut [u8]),
) -> io::Result<()> {
    let size = page as u64;
    assert!(cpus.iter().all(|cpu| cpu.len % size == 0), "whole pages");
    let count = cpus.iter().map(|cpu| cpu.number + 1).max().unwrap_or(0);
    let mut before = head(what, page, count);
    let places = before.len() as u64 + 16 * u64::from(count);
    let mut at = places.next_multiple_of(size);
    let mut begins = Vec::new();
    for number in 0..count {
        let mut len = 0;
        if let Some(cpu) = cpus.iter_mut().find(|cpu| cpu.number == number) {
            let begin = first_page(cpu, size, from)?;
            begins.push((number, begin));
            len = cpu.len - begin;
        }
        before.extend(at.to_le_bytes());
        before.extend(len.to_le_bytes());
        at += len;
    }
    before.resize(
        usize::try_from(places.next_multiple_of(size)).unwrap_or(before.len()),
        0,
    );
    out.write_all(&before)?;
    let mut bytes = vec![0; page];
    for (number, begin) in begins {
        let Some(cpu) = cpus.iter_mut().find(|cpu| cpu.number == number) else {
            continue;
        };
        cpu.file.seek(SeekFrom::Start(begin))?;
        for at in (begin..cpu.len).step_by(page) {
            cpu.file.read_exact(&mut bytes)?;
            if at == begin && from > 0 && !pages::cut(&mut bytes, from) {
                bytes[8..].fill(0);
            }
            change(&mut bytes);
            out.write_all(&bytes)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As Linux 6.12 prints it on x86-64.
    const HEADER_PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
        \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
        \tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;\n\
        \tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;\n";

    #[test]
    fn the_size_of_a_page_is_read_and_a_count_of_four_bytes_refused() {
        assert_eq!(page_size(HEADER_PAGE), Some(4096));
        assert_eq!(
            page_size(
                &HEADER_PAGE.replace("commit;\toffset:8;\tsize:8", "commit;\toffset:8;\tsize:4")
            ),
            None
        );
        assert_eq!(page_size(""), None);
    }

    #[test]
    fn records_from_before_a_time_are_not_written_and_the_rest_is_read_back() {
        let fields = [
            ("unsigned short common_type", 0, 2),
            ("unsigned char common_flags", 2, 1),
            ("unsigned char common_preempt_count", 3, 1),
            ("int common_pid", 4, 4),
        ];
        let fields = fields.map(|(field, offset, size)| {
            format!("\tfield:{field};\toffset:{offset};\tsize:{size};\tsigned:0;\n")
        });
        let fields = fields.concat();
        let format = format!("name: marker\nID: 7\nformat:\n{fields}\nprint fmt: \"\"\n");
        let page = |times: &[u64]| {
            let mut page = times[0].to_le_bytes().to_vec();
            page.extend((12 * times.len() as u64).to_le_bytes());
            let mut before = times[0];
            for &time in times {
                let delta = u32::try_from(time - before).unwrap();
                before = time;
                page.extend((2 | delta << 5).to_le_bytes());
                page.extend([7, 0, 0, 0, 9, 0, 0, 0]);
            }
            page.resize(4096, 0);
            page
        };
        let cpu = |number, pages: &[Vec<u8>], overwritten| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(&pages.concat()).unwrap();
            let len = 4096 * pages.len() as u64;
            CpuPages {
                number,
                file,
                len,
                overwritten,
            }
        };
        // CPU 0 is quiet and has a record from long ago; CPU 2's ring begins at 1000.
        let mut cpus = [
            cpu(0, &[page(&[5, 900, 1100]), page(&[1200])], false),
            cpu(2, &[page(&[1000, 1001])], true),
        ];
        let from = whole_from(&mut cpus).unwrap();
        assert_eq!(from, 1000);
        let what = Head {
            header_page: HEADER_PAGE.to_owned(),
            formats: vec![("x".to_owned(), "marker".to_owned(), format)],
            clock: "local [mono]".to_owned(),
            uname: "Linux host 6.12 x86_64".to_owned(),
            ..Head::default()
        };
        let mut out = Vec::new();
        write(&mut out, &what, 4096, &mut cpus, from, &mut |_| {}).unwrap();
        let mut source =
            steady_tracefile::open_stream(Box::new(io::Cursor::new(out)), "t").unwrap();
        let mut seen = Vec::new();
        while let Some(record) = source.next().unwrap() {
            seen.push((record.time_ns, record.cpu, record.pid));
        }
        assert_eq!(
            seen,
            [(1000, 2, 9), (1001, 2, 9), (1100, 0, 9), (1200, 0, 9)]
        );
        assert_eq!(source.about().clock.as_deref(), Some("mono"));
        assert_eq!(source.about().release.as_deref(), Some("6.12"));
    }
}
