// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The fields of an event as `perf trace` prints them: `(prev_comm: "bash", prev_pid: 7 (bash))`.
//!
//! perf leaves out fields whose value is 0 (`tools/perf/builtin-trace.c`, `show_zeros`); those that
//! mean something are put back.

use super::body::{TextField, constant, push};
use crate::event::hash;

/// Fields of events that are 0 where they are not printed.
static DEFAULTS: &[(&str, &[&str])] = &[
    ("sched_switch", &["prev_pid", "prev_state", "next_pid"]),
    ("sched_wakeup", &["target_cpu"]),
    ("sched_wakeup_new", &["target_cpu"]),
    ("sched_waking", &["target_cpu"]),
    ("sched_migrate_task", &["orig_cpu", "dest_cpu"]),
    ("kvm_entry", &["vcpu_id"]),
    ("kvm_exit", &["guest_rip", "vcpu_id"]),
    ("kvm_apic_accept_irq", &["apicid"]),
    ("kvm_msr", &["write", "data"]),
    ("kvm_apic", &["rw", "val"]),
    ("kvm_vcpu_wakeup", &["waited"]),
    ("kvm_pv_tlb_flush", &["need_flush_tlb"]),
    ("kvm_wfx_arm64", &["is_wfe"]),
    ("kvm_hypercall", &["nr"]),
];

/// The fields of the event of this name that are 0 where they are not printed.
pub(crate) fn defaults(event: &str) -> &'static [&'static str] {
    let row = DEFAULTS.iter().find(|(name, _)| *name == event);
    row.map_or(&[], |(_, fields)| fields)
}

/// Finds the fields of what stands behind the event's bracket.
pub(crate) fn parse(body: &[u8], defaults: &[&str], out: &mut Vec<TextField>) {
    let mut at = 0;
    while let Some(key) = next_key(body, at) {
        let (start, colon) = key;
        let value = colon + 2;
        let (first, last, next) = match body.get(value) {
            Some(b'"') => {
                let end = quote_end(body, value + 1);
                (value + 1, end, end + 1)
            }
            _ => {
                let rest = body.get(value..).unwrap_or_default();
                // A name in brackets may follow a thread's number.
                let len = rest.iter().position(|b| matches!(b, b',' | b')' | b' '));
                let end = value + len.unwrap_or(rest.len());
                (value, end, end)
            }
        };
        push(out, &body[start..colon], first, last, false);
        at = next;
    }
    let exit = hash(b"isa");
    let is_x86_exit = out.iter().any(|field| field.name == exit);
    let reason = is_x86_exit.then_some("exit_reason");
    for name in defaults.iter().copied().chain(reason) {
        if out.iter().all(|field| field.name != hash(name.as_bytes())) {
            constant(out, name.as_bytes(), 0);
        }
    }
}

/// The next `key: `: where it begins and where its colon is.
fn next_key(body: &[u8], from: usize) -> Option<(usize, usize)> {
    let mut at = from;
    loop {
        let colon = at + memchr::memchr(b':', body.get(at..)?)?;
        let ident = |b: &&u8| b.is_ascii_alphanumeric() || **b == b'_';
        let len = body[from..colon].iter().rev().take_while(ident).count();
        if len > 0 && body.get(colon + 1) == Some(&b' ') {
            return Some((colon - len, colon));
        }
        at = colon + 1;
    }
}

/// Where a quoted value ends. The quotes of the value itself are not escaped, so it ends at a quote
/// that the next field or the end follows.
fn quote_end(body: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(found) = body.get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
        let quote = at + found;
        if matches!(body.get(quote + 1), Some(b',' | b')') | None) {
            return quote;
        }
        at = quote + 1;
    }
    body.len()
}
