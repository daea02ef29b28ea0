// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Made-up events, one after another.

#![allow(dead_code, reason = "each test program uses a part")]

use steady_shoot4u_check::{
    Action, Checker, DoubtKind, Event, FlushKind, Range, Report, Stamped, VcpuId, Verdict,
};

pub const A: VcpuId = VcpuId { vm: 7, vcpu: 0 };
pub const B: VcpuId = VcpuId { vm: 7, vcpu: 1 };
pub const PAGES: Range = Range {
    start: 0x1000,
    end: 0x3000,
};

/// Events on two pCPUs, one every 10 ns: A runs on pCPU 0, B on pCPU 1.
pub struct Trace {
    pub checker: Checker,
    pub now: u64,
}

impl Trace {
    /// Both vCPUs were loaded for the first time.
    pub fn begin() -> Self {
        let mut trace = Self::without_past();
        trace.flush(0, A, FlushKind::All, Some(1));
        trace.flush(1, B, FlushKind::All, Some(2));
        trace
    }

    pub fn without_past() -> Self {
        Self {
            checker: Checker::new(2),
            now: 0,
        }
    }

    pub fn at(&mut self, cpu: u32, event: Event) -> &mut Self {
        self.now += 10;
        self.checker.feed(Stamped {
            time_ns: self.now,
            cpu,
            event,
        });
        self
    }

    pub fn enter(&mut self, cpu: u32, vcpu: VcpuId) -> &mut Self {
        self.at(cpu, Event::Entry { vcpu })
    }

    pub fn exit(&mut self, cpu: u32, vcpu: VcpuId) -> &mut Self {
        self.at(cpu, Event::Exit { vcpu })
    }

    pub fn flush(
        &mut self,
        cpu: u32,
        vcpu: VcpuId,
        kind: FlushKind,
        tag: Option<u32>,
    ) -> &mut Self {
        let pcpu = Some(cpu);
        self.at(
            cpu,
            Event::Flush {
                vcpu,
                pcpu,
                kind,
                tag,
            },
        )
    }

    pub fn call(&mut self, call: u64, range: Range, freed: bool) -> &mut Self {
        let (initiator, targets) = (A, 1);
        self.at(
            0,
            Event::Call {
                initiator,
                call,
                freed,
                range,
                targets,
            },
        )
    }

    pub fn target(&mut self, call: u64, action: Action) -> &mut Self {
        let (target, pcpu) = (B, Some(1));
        self.at(
            0,
            Event::Target {
                target,
                call,
                pcpu,
                action,
            },
        )
    }

    pub fn done(&mut self, call: u64, left: u32) -> &mut Self {
        let (initiator, ipis) = (A, 0);
        self.at(
            0,
            Event::Done {
                initiator,
                call,
                left,
                ipis,
            },
        )
    }

    pub fn invalidate(&mut self, cpu: u32, tag: u32, start: u64, end: u64) -> &mut Self {
        let (vcpu, pcpu) = (B, Some(cpu));
        let range = Range { start, end };
        self.at(
            cpu,
            Event::Invalidate {
                vcpu,
                tag,
                pcpu,
                range,
            },
        )
    }

    /// A whole call that queues its request for B.
    pub fn revoke(&mut self, call: u64, freed: bool) -> &mut Self {
        self.call(call, PAGES, freed)
            .target(call, Action::Queued)
            .done(call, 0)
    }

    pub fn report(&mut self) -> Report {
        std::mem::replace(&mut self.checker, Checker::new(2)).finish()
    }

    pub fn verdict(&mut self) -> Verdict {
        self.report().verdict
    }

    pub fn doubts(&mut self) -> Vec<DoubtKind> {
        let report = self.report();
        assert_eq!(report.verdict, Verdict::CannotSay, "{report}");
        report.doubts.iter().map(|doubt| doubt.kind).collect()
    }
}

/// B has run on pCPU 1 and may have cached anything there.
pub fn ran() -> Trace {
    let mut trace = Trace::begin();
    trace.enter(1, B).exit(1, B);
    trace
}
