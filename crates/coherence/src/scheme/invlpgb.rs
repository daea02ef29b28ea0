// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `invlpgb`: AMD's broadcast invalidation, which Linux uses from 6.15 on: the initiator broadcasts
//! INVLPGB for each range of pages, and TLBSYNC waits until all cores have answered. No core is
//! interrupted.
//!
//! Our reading of public documents: AMD64 Architecture Programmer's Manual, volume 3 (INVLPGB,
//! TLBSYNC) and volume 2 (guests); Linux 6.15, `arch/x86/mm/tlb.c`. The messages' way is the
//! machine's (`network`); the instructions' cost is a parameter. A hypervisor's update flushes the
//! guest's whole ASID, since it does not know guest-virtual addresses. A guest's own INVLPGB names
//! its ASID; the manual allows it, and KVM does not offer it: the flag says which. Left out: the
//! pool of global ASIDs, that Linux interrupts while a process runs on few cores, and two
//! TLBSYNCs at a time.

use std::collections::BTreeMap;

use super::ranges::ranges;
use super::{Runs, Scheme, Spec, software};
use crate::config::{Allowed, LONGEST_UPDATE, Mode, Parameter, Value};
use crate::machine::View;
use crate::os::{Agent, Remap};

/// Cost of one broadcast.
pub static ISSUE: Parameter = Parameter {
    key: "rivals.invlpgb_issue_cycles",
    default: Value::Number(100),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "Cycles of one INVLPGB beside its messages' way; assumed, as AMD publishes none.",
};
/// Cost of the wait.
pub static SYNC: Parameter = Parameter {
    key: "rivals.invlpgb_sync_cycles",
    default: Value::Number(8000),
    allowed: Allowed::Range(0, LONGEST_UPDATE),
    help: "Cycles of TLBSYNC beside its messages' way. Derived from the cover letter of Linux's \
           series: 4 % of the time of 36 cores at 527,000 loops/s, at 3 GHz (assumed) 8,200 cycles \
           for each flush. All cores flush at once there, so it is an upper bound.",
};
/// Pages of one broadcast.
pub static PAGES: Parameter = Parameter {
    key: "rivals.invlpgb_pages",
    default: Value::Number(8),
    allowed: Allowed::Range(1, 65_536),
    help: "Neighbouring pages that one INVLPGB covers (CPUID 8000_0008h, EDX 15:0, plus 1); 8 \
           assumed.",
};
/// Whether guests broadcast.
pub static IN_GUESTS: Parameter = Parameter {
    key: "rivals.invlpgb_in_guests",
    default: Value::Flag(true),
    allowed: Allowed::Flag,
    help: "Guests use INVLPGB, as the manual allows; false is KVM up to Linux 6.15, whose guests \
           send IPIs.",
};

/// Broadcast invalidation.
pub static INVLPGB: Spec = Spec {
    name: "invlpgb",
    help: "AMD's broadcast INVLPGB and TLBSYNC, our reading",
    runs: Runs::Anywhere,
    parameters: &[&ISSUE, &SYNC, &PAGES, &IN_GUESTS],
    validate: Spec::any_machine,
    make: |config| {
        let number = |parameter| u64::from(config.schemes.number(parameter));
        Box::new(Invlpgb {
            issue: number(&ISSUE),
            sync: number(&SYNC),
            pages: number(&PAGES),
            guests: config.mode == Mode::Native || config.schemes.flag(&IN_GUESTS),
            ipis: software::Costs::of_ipis(config),
            broadcasts: 0,
            syncs: 0,
        })
    },
};

#[derive(Debug)]
struct Invlpgb {
    issue: u64,
    sync: u64,
    pages: u64,
    guests: bool,
    ipis: software::Costs,
    broadcasts: u64,
    syncs: u64,
}

impl Scheme for Invlpgb {
    fn revoke(&mut self, m: &mut View<'_>, remap: &Remap, core: usize, _now: u64) -> u64 {
        if remap.agent == Agent::Guest && !self.guests {
            return self.ipis.shoot_down(m, remap, core);
        }
        let broadcasts = if remap.agent == Agent::Host || remap.changes.len() > self.ipis.ceiling {
            m.flush_vm(remap);
            1
        } else {
            // Without the bit for final translations alone it drops upper entries, too.
            m.invalidate_each(remap);
            ranges(&remap.changes, self.pages)
        };
        m.broadcast(broadcasts);
        self.broadcasts += broadcasts;
        self.syncs += 1;
        self.issue * broadcasts + self.sync
    }

    fn counts(&self) -> BTreeMap<&'static str, u64> {
        BTreeMap::from([("broadcasts", self.broadcasts), ("syncs", self.syncs)])
    }
}
