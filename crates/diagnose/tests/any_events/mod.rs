// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Events of every kind, with values that meet and values that do not.

use proptest::prelude::*;
use steady_events::{
    Event, ExitReason, Gap, IrqOf, Isa, Kind, RemedyEvent, RemedyStep, Task, TaskState,
};

/// Events in any order, at any times, of few CPUs and threads.
pub fn events() -> impl Strategy<Value = Vec<Event<'static>>> {
    let one = (any::<u64>(), 0..3_u32, 8..14_i32, kind());
    let event = (one, gap()).prop_map(|((time_ns, cpu, tid, kind), gap)| Event {
        time_ns,
        cpu,
        tid,
        comm: b"x",
        process: 0,
        gap,
        kind,
    });
    prop::collection::vec(event, 0..300)
}

fn gap() -> impl Strategy<Value = Gap> {
    prop_oneof![
        8 => Just(Gap::None),
        1 => Just(Gap::Cpu),
        1 => Just(Gap::Any),
    ]
}

fn remedy() -> impl Strategy<Value = Kind<'static>> {
    (0..3_u64, 0..4_u32).prop_map(|(call, step)| {
        Kind::Remedy(RemedyEvent {
            remedy: "nap",
            call: Some(call),
            step: match step {
                0 => RemedyStep::Begun { targets: None },
                1 => RemedyStep::Done {
                    left: Some(u32::MAX),
                },
                _ => RemedyStep::Other {
                    event: "kvm_nap_wake",
                },
            },
        })
    })
}

/// What happens inside exits, and interrupts of the host.
fn of_exits() -> impl Strategy<Value = Kind<'static>> {
    prop_oneof![
        (any::<bool>(), 0..12_u64).prop_map(|(begins, number)| Kind::HostIrq {
            begins,
            of: IrqOf::softirq(number),
        }),
        any::<u16>().prop_map(|port| Kind::Port { port }),
        any::<u64>().prop_map(|address| Kind::Mmio { address }),
        any::<(u64, u64)>().prop_map(|(address, error)| Kind::PageFault { address, error }),
        any::<u32>().prop_map(|reason| Kind::UserExit { reason }),
    ]
}

fn kind() -> impl Strategy<Value = Kind<'static>> {
    let tid = || prop_oneof![0..4_i32, 10..16_i32, any::<i32>()];
    let task = move || {
        tid().prop_map(|tid| Task {
            tid,
            prio: None,
            comm: b"CPU 1/KVM",
        })
    };
    let state = prop_oneof![
        Just(TaskState::Runnable),
        Just(TaskState::Blocked),
        Just(TaskState::Uninterruptible),
        Just(TaskState::Dead)
    ];
    let number = || {
        prop_oneof![
            Just(None),
            (0..4_u32).prop_map(Some),
            any::<u32>().prop_map(Some)
        ]
    };
    let address = || prop_oneof![0..6_u64, any::<u64>()];
    let code = prop_oneof![Just(40_u64), Just(12), Just(1), Just(52), any::<u64>()];
    let vector = || prop_oneof![Just(0xfc_u8), Just(0xec), any::<u8>()];
    prop_oneof![
        number().prop_map(|vcpu| Kind::Entry { vcpu }),
        (number(), code, address(), any::<bool>()).prop_map(|(vcpu, code, rip, svm)| Kind::Exit {
            vcpu,
            reason: ExitReason::new(if svm { Isa::Svm } else { Isa::Vmx }, code),
            rip,
            interrupt: 0,
            address: rip,
        }),
        (task(), state, task()).prop_map(|(prev, state, next)| Kind::Switch { prev, state, next }),
        (tid(), any::<u32>()).prop_map(|(tid, cpu)| Kind::Wakeup { tid, cpu }),
        (tid(), 0..3_u32).prop_map(|(tid, to)| Kind::Migrate { tid, to }),
        (0..4_u32, vector()).prop_map(|(apic, vector)| Kind::IpiAccepted { apic, vector }),
        (address(), number()).prop_map(|(target, number)| Kind::BoostTry { target, number }),
        any::<i64>().prop_map(|value| Kind::BoostReturn { value }),
        (address(), address()).prop_map(|(vcpu, vm)| Kind::SpinBegin {
            vcpu: Some(vcpu),
            vm: Some(vm)
        }),
        Just(Kind::SpinEnd),
        (address(), address(), number()).prop_map(|(vcpu, vm, number)| Kind::VcpuLoad {
            vcpu,
            vm: Some(vm),
            number
        }),
        (address(), 0..9_u32).prop_map(|(work, target)| Kind::CallQueued {
            target,
            work,
            flush: None
        }),
        address().prop_map(|work| Kind::CallDone { work }),
        (0..5_u64).prop_map(|reason| Kind::TlbFlush { reason, pages: 1 }),
        Just(Kind::ShootdownBegin),
        Just(Kind::ShootdownEnd),
        (any::<u32>(), any::<u64>()).prop_map(|(index, value)| Kind::MsrWrite { index, value }),
        any::<u64>().prop_map(|value| Kind::TimerProgrammed { value }),
        Just(Kind::TickInjected),
        Just(Kind::TickTaken),
        remedy(),
        Just(Kind::Counted { name: "nap" }),
        Just(Kind::HostTimer),
        of_exits(),
    ]
}
