// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A made-up host that really keeps tagged TLB entries: the oracle for the checker.
//!
//! pCPUs take random steps; vCPUs are scheduled, migrated, enter guest mode, cache and use
//! translations, and make Shoot4U calls that the host serves as the kernel does, or with a planted
//! fault. Each entry has the version of the page table entry that it was filled from, so a use of a
//! revoked translation is seen for what it is. The same steps give the events of a trace. Leaves
//! out memory order and emulation: a step is atomic.

use std::collections::{BTreeMap, BTreeSet};

use steady_shoot4u_check::{Action, Event, FlushKind, Range, Stamped, VcpuId};

pub const PAGES: u64 = 8;
const PAGE: u64 = 0x1000;
/// Ranges of more pages become whole.
const CEILING: u64 = 4;
const MAX_ASID: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    None,
    SkipPcpu,
    SkipMigrated,
    WrongVpid,
    DropRequest,
    ShortRange,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isa {
    Vmx,
    Svm,
}

/// How targets are served: as in the paper, by an interrupt, or as the kernel does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Eager,
    Deferred,
}

#[derive(Debug, Clone, Copy)]
pub struct Setting {
    pub isa: Isa,
    pub mode: Mode,
    pub fault: Fault,
    pub pcpus: usize,
    /// vCPUs in each of two VMs.
    pub vcpus: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum State {
    Host,
    Guest,
    Calling(Call),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Call {
    number: u64,
    range: Range,
    /// The version of each page that the call leaves valid.
    valid: Vec<u64>,
    todo: Vec<usize>,
    served: Vec<usize>,
    eager: Vec<usize>,
    left: u32,
    /// pCPUs to interrupt, then those that have yet to answer; `sent` says which.
    pcpus: BTreeSet<usize>,
    sent: bool,
}

#[derive(Debug)]
struct Vcpu {
    id: VcpuId,
    on: Option<usize>,
    cpu: Option<usize>,
    /// Where it entered last.
    ran: Option<usize>,
    state: State,
    tag: u32,
    generation: u32,
    flush: bool,
    /// Of SVM: the next VMRUN flushes.
    flush_next: bool,
    queue: Vec<Range>,
    request: bool,
}

/// The random numbers of SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((z ^ (z >> 31)) % u64::try_from(n).unwrap()).unwrap()
    }
}

pub struct Host {
    setting: Setting,
    random: Random,
    vcpus: Vec<Vcpu>,
    running: Vec<Option<usize>>,
    /// (pCPU, tag) to page to version.
    tlb: BTreeMap<(usize, u32), BTreeMap<u64, u64>>,
    next_asid: Vec<(u32, u32)>,
    /// By VM.
    tables: [Vec<u64>; 2],
    calls: [u64; 2],
    /// (vCPU, page) to the oldest version that it may still use.
    oldest: BTreeMap<(usize, u64), u64>,
    pub events: Vec<Stamped>,
    /// Uses of translations that a completed call had revoked.
    pub stale_uses: u64,
    now: u64,
}

impl Host {
    pub fn new(setting: Setting, seed: u64) -> Self {
        let vcpu = |n: usize| Vcpu {
            id: VcpuId {
                vm: 100 + u32::try_from(n % 2).unwrap(),
                vcpu: u32::try_from(n / 2).unwrap(),
            },
            on: None,
            cpu: None,
            ran: None,
            state: State::Host,
            tag: u32::try_from(n + 1).unwrap(),
            generation: 0,
            flush: false,
            flush_next: false,
            queue: Vec::new(),
            request: false,
        };
        Self {
            setting,
            random: Random(seed),
            vcpus: (0..setting.vcpus * 2).map(vcpu).collect(),
            running: vec![None; setting.pcpus],
            tlb: BTreeMap::new(),
            next_asid: vec![(1, 1); setting.pcpus],
            tables: [
                vec![0; usize::try_from(PAGES).unwrap()],
                vec![0; usize::try_from(PAGES).unwrap()],
            ],
            calls: [0; 2],
            oldest: BTreeMap::new(),
            events: Vec::new(),
            stale_uses: 0,
            now: 1000,
        }
    }

    pub fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            let p = self.random.below(self.setting.pcpus);
            self.step(p);
        }
    }

    fn say(&mut self, p: usize, event: Event) {
        self.now += 1 + u64::try_from(self.random.below(5)).unwrap();
        self.events.push(Stamped {
            time_ns: self.now,
            cpu: u32::try_from(p).unwrap(),
            event,
        });
    }

    fn has(&self, fault: Fault) -> bool {
        self.setting.fault == fault
    }

    fn step(&mut self, p: usize) {
        if self.answer(p) {
            return;
        }
        let Some(v) = self.running[p] else {
            let v = self.random.below(self.vcpus.len());
            if self.vcpus[v].on.is_none() {
                self.load(p, v);
            }
            return;
        };
        match self.vcpus[v].state {
            State::Host if self.random.below(4) == 0 => {
                self.vcpus[v].on = None;
                self.running[p] = None;
            }
            State::Host => self.enter(p, v),
            State::Guest => match self.random.below(12) {
                0 | 1 => self.exit(p, v),
                2 => self.begin(p, v),
                _ => self.touch(p, v),
            },
            State::Calling(_) => self.go_on(p, v),
        }
    }

    fn load(&mut self, p: usize, v: usize) {
        let moved = self.vcpus[v].cpu != Some(p);
        let first = self.vcpus[v].cpu.is_none();
        self.vcpus[v].on = Some(p);
        self.vcpus[v].cpu = Some(p);
        self.running[p] = Some(v);
        if moved && self.setting.isa == Isa::Vmx && (first || !self.has(Fault::SkipMigrated)) {
            self.vcpus[v].flush = true;
        }
    }

    /// KVM reports a flush of its own.
    fn flushed(&mut self, p: usize, v: usize, kind: FlushKind) {
        let (vcpu, tag) = (self.vcpus[v].id, Some(self.vcpus[v].tag));
        let pcpu = Some(u32::try_from(p).unwrap());
        self.say(
            p,
            Event::Flush {
                vcpu,
                pcpu,
                kind,
                tag,
            },
        );
    }

    fn enter(&mut self, p: usize, v: usize) {
        let vcpu = self.vcpus[v].id;
        if std::mem::take(&mut self.vcpus[v].flush) {
            self.tlb.remove(&(p, self.vcpus[v].tag));
            self.flushed(p, v, FlushKind::All);
        }
        if std::mem::take(&mut self.vcpus[v].request) {
            for range in std::mem::take(&mut self.vcpus[v].queue) {
                if self.setting.isa == Isa::Svm {
                    self.vcpus[v].flush_next = true;
                } else {
                    self.invalidate(p, v, range);
                }
            }
        }
        // A signal: requests are served, and the guest is not entered.
        if self.random.below(8) == 0 {
            return;
        }
        self.say(p, Event::Entry { vcpu });
        self.vcpus[v].state = State::Guest;
        if self.setting.isa == Isa::Svm {
            self.run_svm(p, v);
        }
        self.vcpus[v].ran = Some(p);
    }

    /// As `svm_vcpu_run`: behind the event of the entry.
    fn run_svm(&mut self, p: usize, v: usize) {
        if self.vcpus[v].ran != Some(p) {
            self.vcpus[v].generation = 0;
        }
        let (generation, next) = self.next_asid[p];
        if self.vcpus[v].generation != generation {
            if next > MAX_ASID {
                self.next_asid[p] = (generation + 1, 1);
                self.tlb.retain(|(at, _), _| *at != p);
            }
            let (generation, next) = self.next_asid[p];
            self.next_asid[p].1 += 1;
            self.vcpus[v].generation = generation;
            self.vcpus[v].tag = next;
            self.tlb.remove(&(p, next));
            self.flushed(p, v, FlushKind::NewAsid);
        }
        if std::mem::take(&mut self.vcpus[v].flush_next) {
            self.tlb.remove(&(p, self.vcpus[v].tag));
            self.flushed(p, v, FlushKind::Vmrun);
        }
    }

    fn exit(&mut self, p: usize, v: usize) {
        self.say(
            p,
            Event::Exit {
                vcpu: self.vcpus[v].id,
            },
        );
        self.vcpus[v].state = State::Host;
    }

    /// Uses a translation, filling it first if there is none.
    fn touch(&mut self, p: usize, v: usize) {
        let page = u64::try_from(self.random.below(8)).unwrap();
        let table = &self.tables[v % 2];
        let now = table[usize::try_from(page).unwrap()];
        let context = self.tlb.entry((p, self.vcpus[v].tag)).or_default();
        let version = *context.entry(page).or_insert(now);
        let oldest = self.oldest.get(&(v, page)).copied().unwrap_or(0);
        self.stale_uses += u64::from(version < oldest);
    }

    fn begin(&mut self, p: usize, v: usize) {
        let first = u64::try_from(self.random.below(8)).unwrap();
        let count = 1 + u64::try_from(self.random.below(6)).unwrap();
        let end = (first + count).min(PAGES);
        for page in first..end {
            self.tables[v % 2][usize::try_from(page).unwrap()] += 1;
        }
        self.exit(p, v);
        let freed = self.random.below(8) == 0;
        let range = if freed || end - first > CEILING {
            Range::WHOLE
        } else {
            Range {
                start: first * PAGE,
                end: end * PAGE,
            }
        };
        let others = (0..self.vcpus.len()).filter(|t| t % 2 == v % 2);
        let todo: Vec<usize> = others.filter(|_| self.random.below(4) > 0).collect();
        self.calls[v % 2] += 1;
        let number = self.calls[v % 2];
        self.say(
            p,
            Event::Call {
                initiator: self.vcpus[v].id,
                call: number,
                freed,
                range,
                targets: u32::try_from(todo.len()).unwrap(),
            },
        );
        self.vcpus[v].state = State::Calling(Call {
            number,
            range,
            valid: self.tables[v % 2].clone(),
            todo,
            served: Vec::new(),
            eager: Vec::new(),
            left: 0,
            pcpus: BTreeSet::new(),
            sent: false,
        });
    }

    /// One step of a call: the next target, the interrupts, or the end.
    fn go_on(&mut self, p: usize, v: usize) {
        let State::Calling(mut call) = self.vcpus[v].state.clone() else {
            unreachable!("only callers go on")
        };
        if let Some(t) = call.todo.pop() {
            self.aim(p, v, t, &mut call);
        } else if !call.sent {
            call.sent = true;
            if self.has(Fault::SkipPcpu) {
                call.pcpus.pop_first();
            }
        } else if call.pcpus.is_empty() {
            for t in &call.served {
                for (page, version) in (0..).zip(&call.valid) {
                    let whole = call.range.is_whole();
                    if whole || (call.range.start..call.range.end).contains(&(page * PAGE)) {
                        let oldest = self.oldest.entry((*t, page)).or_default();
                        *oldest = (*oldest).max(*version);
                    }
                }
            }
            let (initiator, left) = (self.vcpus[v].id, call.left);
            self.say(
                p,
                Event::Done {
                    initiator,
                    call: call.number,
                    left,
                    ipis: 0,
                },
            );
            self.vcpus[v].state = State::Host;
            return;
        }
        self.vcpus[v].state = State::Calling(call);
    }

    fn aim(&mut self, p: usize, v: usize, t: usize, call: &mut Call) {
        let in_guest = self.vcpus[t].state == State::Guest;
        let action = if t == v {
            self.queue(t, call.range);
            Action::Own
        } else if !in_guest && self.random.below(8) == 0 {
            call.left += 1;
            Action::Left
        } else if let Some(pcpu) = self.vcpus[t].cpu {
            if self.setting.mode == Mode::Eager && self.setting.isa == Isa::Vmx {
                call.eager.push(t);
                call.pcpus.insert(pcpu);
                Action::Ipi
            } else {
                self.queue(t, call.range);
                if in_guest {
                    call.pcpus.insert(pcpu);
                    Action::Kicked
                } else {
                    Action::Queued
                }
            }
        } else {
            Action::NeverRan
        };
        if action != Action::Left {
            call.served.push(t);
        }
        let pcpu = self.vcpus[t].cpu.map(|cpu| u32::try_from(cpu).unwrap());
        let (target, call) = (self.vcpus[t].id, call.number);
        self.say(
            p,
            Event::Target {
                target,
                call,
                pcpu,
                action,
            },
        );
    }

    fn queue(&mut self, t: usize, range: Range) {
        self.vcpus[t].queue.push(range);
        if !self.has(Fault::DropRequest) || self.random.below(4) > 0 {
            self.vcpus[t].request = true;
        }
    }

    /// Takes the interrupts that calls have sent to a pCPU; false if there are none.
    fn answer(&mut self, p: usize) -> bool {
        let waiting = |vcpu: &Vcpu| matches!(&vcpu.state, State::Calling(c) if c.sent && c.pcpus.contains(&p));
        let Some(i) = self.vcpus.iter().position(waiting) else {
            return false;
        };
        if let Some(v) = self.running[p].filter(|v| self.vcpus[*v].state == State::Guest) {
            self.exit(p, v);
        }
        let State::Calling(call) = self.vcpus[i].state.clone() else {
            unreachable!("it waits")
        };
        for t in call.eager {
            if self.vcpus[t].cpu == Some(p) {
                self.invalidate(p, t, call.range);
            }
        }
        if let State::Calling(call) = &mut self.vcpus[i].state {
            call.pcpus.remove(&p);
        }
        true
    }

    fn invalidate(&mut self, p: usize, t: usize, mut range: Range) {
        if self.has(Fault::ShortRange) && !range.is_whole() {
            range.end -= PAGE;
        }
        let wrong = self.has(Fault::WrongVpid);
        let tag = self.vcpus[t].tag ^ u32::from(wrong);
        if let Some(context) = self.tlb.get_mut(&(p, tag)) {
            context.retain(|page, _| {
                !range.is_whole() && !(range.start..range.end).contains(&(page * PAGE))
            });
        }
        let (vcpu, pcpu) = (self.vcpus[t].id, Some(u32::try_from(p).unwrap()));
        self.say(
            p,
            Event::Invalidate {
                vcpu,
                tag,
                pcpu,
                range,
            },
        );
    }
}
