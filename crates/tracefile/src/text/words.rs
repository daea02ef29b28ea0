// SPDX-License-Identifier: Apache-2.0 OR MIT
//! KVM's events, which print words: `vcpu 0 old 4096 new 8192 (growed)`.
//!
//! Sources: `arch/x86/kvm/trace.h`, `include/trace/events/kvm.h`, and libtraceevent's KVM plugin,
//! which prints `kvm_exit` and `kvm_entry` its own way.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::body::{TextField, constant, push};

/// A printed word and the field that its number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Alias {
    word: &'static str,
    field: &'static str,
    hex: bool,
    /// What the word itself says: a field and its value.
    says: Option<(&'static str, u64)>,
}

const fn alias(word: &'static str, field: &'static str) -> Alias {
    Alias {
        word,
        field,
        hex: false,
        says: None,
    }
}

const fn hex(word: &'static str, field: &'static str) -> Alias {
    Alias {
        word,
        field,
        hex: true,
        says: None,
    }
}

const fn says(
    word: &'static str,
    field: &'static str,
    base16: bool,
    flag: (&'static str, u64),
) -> Alias {
    Alias {
        word,
        field,
        hex: base16,
        says: Some(flag),
    }
}

const VCPU: Alias = alias("vcpu", "vcpu_id");

/// The words of events that do not print the names of their fields.
static WORDS: &[(&str, &[Alias])] = &[
    (
        "kvm_page_fault",
        &[
            VCPU,
            alias("rip", "guest_rip"),
            hex("address", "fault_address"),
            hex("error_code", "error_code"),
        ],
    ),
    (
        "kvm_hv_timer_state",
        &[alias("hv_timer", "hv_timer_in_use")],
    ),
    ("kvm_set_irq", &[alias("source", "irq_source_id")]),
    (
        "kvm_pio",
        &[
            says("pio_read", "", false, ("rw", 0)),
            says("pio_write", "", false, ("rw", 1)),
            alias("at", "port"),
        ],
    ),
    ("kvm_apic_ipi", &[hex("dst", "dest_id")]),
    (
        "kvm_halt_poll_ns",
        &[
            VCPU,
            alias("halt_poll_ns", "new"),
            says("grow", "old", false, ("grow", 1)),
            says("shrink", "old", false, ("grow", 0)),
        ],
    ),
    (
        "kvm_vcpu_wakeup",
        &[
            alias("time", "ns"),
            says("wait", "", false, ("waited", 1)),
            says("poll", "", false, ("waited", 0)),
            says("valid", "", false, ("valid", 1)),
            says("invalid", "", false, ("valid", 0)),
        ],
    ),
    (
        "kvm_inj_virq",
        &[
            says("IRQ", "vector", false, ("soft", 0)),
            says("Soft/INTn", "vector", false, ("soft", 1)),
            alias("irq", "vector"),
        ],
    ),
    (
        "kvm_msr",
        &[
            says("msr_read", "ecx", true, ("write", 0)),
            says("msr_write", "ecx", true, ("write", 1)),
            hex("=", "data"),
        ],
    ),
    (
        "kvm_cr",
        &[
            says("cr_read", "cr", true, ("rw", 0)),
            says("cr_write", "cr", true, ("rw", 1)),
            hex("=", "val"),
        ],
    ),
    (
        "kvm_wfx_arm64",
        &[
            says("wfe", "", false, ("is_wfe", 1)),
            says("wfi", "", false, ("is_wfe", 0)),
        ],
    ),
    // `reason KVM_EXIT_IO (2)`: the number stands behind the name; `restart (4)` is a signal.
    (
        "kvm_userspace_exit",
        &[
            says("restart", "", false, ("errno", 4_u64.wrapping_neg())),
            alias("KVM_EXIT_UNKNOWN", "reason"),
            alias("KVM_EXIT_EXCEPTION", "reason"),
            alias("KVM_EXIT_IO", "reason"),
            alias("KVM_EXIT_HYPERCALL", "reason"),
            alias("KVM_EXIT_DEBUG", "reason"),
            alias("KVM_EXIT_HLT", "reason"),
            alias("KVM_EXIT_MMIO", "reason"),
            alias("KVM_EXIT_IRQ_WINDOW_OPEN", "reason"),
            alias("KVM_EXIT_SHUTDOWN", "reason"),
            alias("KVM_EXIT_FAIL_ENTRY", "reason"),
            alias("KVM_EXIT_INTR", "reason"),
            alias("KVM_EXIT_SET_TPR", "reason"),
            alias("KVM_EXIT_TPR_ACCESS", "reason"),
            alias("KVM_EXIT_S390_SIEIC", "reason"),
            alias("KVM_EXIT_S390_RESET", "reason"),
            alias("KVM_EXIT_DCR", "reason"),
            alias("KVM_EXIT_NMI", "reason"),
            alias("KVM_EXIT_INTERNAL_ERROR", "reason"),
            alias("KVM_EXIT_OSI", "reason"),
            alias("KVM_EXIT_PAPR_HCALL", "reason"),
            alias("KVM_EXIT_S390_UCONTROL", "reason"),
            alias("KVM_EXIT_WATCHDOG", "reason"),
            alias("KVM_EXIT_EPR", "reason"),
            alias("KVM_EXIT_SYSTEM_EVENT", "reason"),
            alias("KVM_EXIT_IOAPIC_EOI", "reason"),
            alias("KVM_EXIT_HYPERV", "reason"),
            alias("KVM_EXIT_X86_RDMSR", "reason"),
            alias("KVM_EXIT_X86_WRMSR", "reason"),
            alias("KVM_EXIT_DIRTY_RING_FULL", "reason"),
            alias("KVM_EXIT_X86_BUS_LOCK", "reason"),
            alias("KVM_EXIT_XEN", "reason"),
            alias("KVM_EXIT_NOTIFY", "reason"),
            alias("KVM_EXIT_MEMORY_FAULT", "reason"),
        ],
    ),
    (
        "kvm_pv_tlb_flush",
        &[
            VCPU,
            says("true", "", false, ("need_flush_tlb", 1)),
            says("false", "", false, ("need_flush_tlb", 0)),
        ],
    ),
];

/// The words of one event; those not listed are fields of the same name.
pub(super) fn aliases(event: &str) -> &'static [Alias] {
    WORDS
        .iter()
        .find(|(name, _)| *name == event)
        .map_or(&[VCPU], |(_, aliases)| aliases)
}

/// What stands between words: a table, because every byte of KVM's lines is asked.
const BLANK: [bool; 256] = {
    let mut table = [false; 256];
    let mut at = 0;
    let blanks = b" ,:()|[]\t";
    while at < blanks.len() {
        table[blanks[at] as usize] = true;
        at += 1;
    }
    table
};

/// Pairs of a word and the number behind it, from `from` on.
pub(super) fn parse(body: &[u8], from: usize, aliases: &[Alias], out: &mut Vec<TextField>) {
    let mut name: Option<(&[u8], bool)> = None;
    let mut at = from;
    while at < body.len() {
        let rest = &body[at..];
        if BLANK[usize::from(rest[0])] {
            at += 1;
            continue;
        }
        let blank = |b: &u8| BLANK[usize::from(*b)];
        let len = rest.iter().position(blank).unwrap_or(rest.len());
        let token = &rest[..len];
        let known = aliases.iter().find(|a| a.word.as_bytes() == token);
        match (name, known) {
            (Some((field, base16)), None) if is_number(token, base16) => {
                push(out, field, at, at + len, base16);
                name = None;
            }
            (_, Some(word)) => {
                if let Some((field, value)) = word.says {
                    constant(out, field.as_bytes(), value);
                }
                name = (!word.field.is_empty()).then_some((word.field.as_bytes(), word.hex));
            }
            (_, None) => name = token[0].is_ascii_alphabetic().then_some((token, false)),
        }
        at += len;
    }
}

fn is_number(token: &[u8], base16: bool) -> bool {
    let digits = token.strip_prefix(b"-").unwrap_or(token);
    match digits.strip_prefix(b"0x") {
        Some(hex) => !hex.is_empty() && hex.iter().all(u8::is_ascii_hexdigit),
        None if base16 => digits.iter().all(u8::is_ascii_hexdigit),
        None => digits.iter().all(u8::is_ascii_digit) && !digits.is_empty(),
    }
}

/// On arm64 `TRAP: HSR_EC: 0x0001 (WFx), PC: 0x…`, without the type before 4.4; on RISC-V
/// `SEPC:0x…, SCAUSE:0x…, …`.
fn elsewhere(body: &[u8], out: &mut Vec<TextField>) {
    const WORDS: &[Alias] = &[
        VCPU,
        hex("HSR_EC", "esr_ec"),
        hex("PC", "vcpu_pc"),
        hex("SEPC", "sepc"),
        hex("SCAUSE", "scause"),
    ];
    if let Some(end) = memchr::memmem::find(body, b": HSR_EC") {
        push(out, b"ret", 0, end, false);
    }
    parse(body, 0, WORDS, out);
}

/// Words of exits, which are most lines: a search for each is made once.
static EXIT_WORDS: LazyLock<[Finder<'static>; 3]> =
    LazyLock::new(|| ["reason ", " rip ", " info "].map(Finder::new));

/// `vcpu 0 reason HLT rip 0x0 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0`; of kernels before
/// 5.11 and of libtraceevent `reason HLT rip 0x0 info 0 0`, its numbers hexadecimal.
pub(super) fn kvm_exit(body: &[u8], out: &mut Vec<TextField>) {
    const WORDS: &[Alias] = &[VCPU, alias("rip", "guest_rip"), hex("info", "info1")];
    let [reason, rip, info] = &*EXIT_WORDS;
    let Some(reason) = reason.find(body) else {
        return elsewhere(body, out);
    };
    parse(&body[..reason], 0, WORDS, out);
    let value = reason + 7;
    let end = rip.find(&body[value..]).map_or(body.len(), |n| value + n);
    push(
        out,
        b"exit_reason",
        value,
        value + body[value..end].trim_ascii_end().len(),
        false,
    );
    parse(body, end, WORDS, out);
    if let Some(info) = info.find(&body[end..]) {
        // The second number has no word of its own.
        let first = end + info + 6;
        let first_len = body[first..].iter().position(|b| *b == b' ');
        if let Some(second) = first_len.map(|n| first + n + 1) {
            let len = body[second..]
                .iter()
                .take_while(|b| b.is_ascii_hexdigit())
                .count();
            push(out, b"info2", second, second + len, true);
        }
    }
}
