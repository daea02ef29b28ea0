// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Threads that serve a VM (vhost, kworkers, threads of its VMM) and wait for a pCPU while a vCPU
//! sleeps until they wake it.
//!
//! A thread that wakes a sleeping vCPU serves it. What that thread waited meanwhile, ready to run
//! or in the host's kernel (D state), is time that the vCPU lost to it.
//!
//! One that was switched out ready waits as one that was woken does. It may just be busy with other
//! work, so that such waits stand apart. A pCPU that idles beside it is kept from it by a limit.
//!
//! Left out: what a server did while it ran.

use std::collections::BTreeMap;

use steady_events::{Event, Kind, Task, TaskState};

use crate::machine::VcpuId;
use crate::names::{Names, Who};
use crate::spread::add;
use crate::vmm::Vmms;
use crate::waits::WAKING_NS;

/// Threads that serve and are followed.
const MOST_SERVERS: usize = 4096;
/// A server that wakes a vCPU later than this part of its wait did other work first.
const AT_ONCE: u64 = 32;
/// Waits of a server that are kept until it wakes somebody.
const MOST_WAITS: usize = 16;

/// What one server made one vCPU lose.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Served {
    /// How often.
    pub times: u64,
    /// For how long in all.
    pub total_ns: u64,
    /// By the thread that ran instead of the server.
    pub by: BTreeMap<Who, u64>,
    /// In the host's kernel, where no signal could end it.
    pub stuck_ns: u64,
    /// The longest after which it woke the vCPU at once: that it ran was what was waited for.
    pub long_ns: u64,
    /// The longest: begin, length, pCPU.
    pub worst: Option<(u64, u64, u32)>,
}

#[derive(Debug, Clone, Copy)]
struct Wait {
    begin_ns: u64,
    end_ns: u64,
    cpu: u32,
    /// None where it waited in the host's kernel.
    rival: Option<Who>,
    /// Whether it began with a wake-up, or in the kernel.
    woken: bool,
}

#[derive(Debug, Default)]
struct Server {
    comm: String,
    /// And whether it was woken then.
    ready_since_ns: Option<(u64, bool)>,
    stuck_since_ns: Option<u64>,
    waits: Vec<Wait>,
}

/// All servers.
#[derive(Debug, Default)]
pub struct Servers {
    servers: BTreeMap<i32, Server>,
    /// Threads that wait, or run after that, and may wake a vCPU next.
    others: BTreeMap<i32, Server>,
    /// What threads were called when they kept a server waiting.
    pub names: Names,
    /// By server and vCPU, and whether its waits began with a wake-up.
    pub by: BTreeMap<(i32, VcpuId, bool), Served>,
    /// For how long VMMs ran.
    pub vmms: Vmms,
    /// How often a server woke a vCPU.
    pub wakes: u64,
}

/// A server, or another thread that is followed; if `follow` is so, from now on.
fn any<'a>(
    servers: &'a mut BTreeMap<i32, Server>,
    others: &'a mut BTreeMap<i32, Server>,
    tid: i32,
    follow: bool,
) -> Option<&'a mut Server> {
    if tid == 0 {
        return None;
    }
    if let Some(server) = servers.get_mut(&tid) {
        return Some(server);
    }
    if follow && others.len() < MOST_SERVERS {
        return Some(others.entry(tid).or_default());
    }
    others.get_mut(&tid)
}

impl Servers {
    /// A switch or a wake-up of threads that are not vCPUs.
    pub fn event(&mut self, event: &Event<'_>) {
        let (servers, others) = (&mut self.servers, &mut self.others);
        match event.kind {
            Kind::Wakeup { tid, .. } => {
                if let Some(server) = any(servers, others, tid, true) {
                    server.freed(event);
                    server.ready_since_ns.get_or_insert((event.time_ns, true));
                }
            }
            Kind::Switch { prev, state, next } => {
                self.vmms.switch(prev.tid, next.tid, event.time_ns);
                let stuck = state == TaskState::Uninterruptible;
                if let Some(server) = any(servers, others, prev.tid, stuck) {
                    let ready = state == TaskState::Runnable;
                    server.ready_since_ns = ready.then_some((event.time_ns, false));
                    server.stuck_since_ns = stuck.then_some(event.time_ns);
                }
                if matches!(state, TaskState::Blocked | TaskState::Dead) {
                    others.remove(&prev.tid);
                }
                if let Some(server) = any(servers, others, next.tid, false) {
                    server.freed(event);
                    server.turn(event, prev, &mut self.names);
                }
            }
            _ => {}
        }
    }

    /// Events were lost: what servers wait for is not known.
    pub fn lost(&mut self) {
        self.others.clear();
        self.vmms.lost();
        for server in self.servers.values_mut() {
            server.ready_since_ns = None;
            server.stuck_since_ns = None;
            server.waits.clear();
        }
    }

    /// The event's thread wakes a vCPU that has slept since a time.
    pub fn wakes(&mut self, event: &Event<'_>, id: VcpuId, slept_since_ns: u64) {
        if event.tid <= 0 {
            return;
        }
        self.wakes += 1;
        if !self.servers.contains_key(&event.tid) {
            if self.servers.len() >= MOST_SERVERS {
                return;
            }
            let mut server = self.others.remove(&event.tid).unwrap_or_default();
            server.comm = String::from_utf8_lossy(event.comm).into_owned();
            self.servers.insert(event.tid, server);
        }
        let server = self.servers.get_mut(&event.tid);
        for wait in server.into_iter().flat_map(|server| server.waits.drain(..)) {
            let begin_ns = wait.begin_ns.max(slept_since_ns);
            let length_ns = wait.end_ns.saturating_sub(begin_ns);
            if length_ns == 0 {
                continue;
            }
            let served = self.by.entry((event.tid, id, wait.woken)).or_default();
            served.times += 1;
            add(&mut served.total_ns, length_ns);
            match wait.rival {
                Some(rival) => add(served.by.entry(rival).or_default(), length_ns),
                None => add(&mut served.stuck_ns, length_ns),
            }
            if event.time_ns.saturating_sub(wait.end_ns) <= length_ns / AT_ONCE {
                served.long_ns = served.long_ns.max(length_ns);
            }
            crate::preempt::longest(&mut served.worst, (begin_ns, length_ns, wait.cpu));
        }
    }

    /// Name of a server.
    #[must_use]
    pub fn name(&self, tid: i32) -> &str {
        self.servers.get(&tid).map_or("", |server| &server.comm)
    }

    /// vCPUs get new numbers.
    pub fn forget(&mut self) {
        self.by.clear();
    }
}

impl Server {
    /// It runs from now on, after another thread that may have kept it waiting.
    fn turn(&mut self, event: &Event<'_>, rival: Task<'_>, names: &mut Names) {
        let Some((begin_ns, woken)) = self.ready_since_ns.take() else {
            return;
        };
        // An idle pCPU only had to wake.
        if rival.tid == 0 && event.time_ns.saturating_sub(begin_ns) < WAKING_NS {
            return;
        }
        self.waited(event, begin_ns, Some(names.who(rival)), woken);
    }

    /// It is woken, or runs: what no signal could end is over.
    fn freed(&mut self, event: &Event<'_>) {
        if let Some(since_ns) = self.stuck_since_ns.take() {
            self.waited(event, since_ns, None, true);
        }
    }

    fn waited(&mut self, event: &Event<'_>, begin_ns: u64, rival: Option<Who>, woken: bool) {
        if self.waits.len() >= MOST_WAITS {
            self.waits.remove(0);
        }
        self.waits.push(Wait {
            begin_ns,
            end_ns: event.time_ns,
            cpu: event.cpu,
            rival,
            woken,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use steady_events::{Gap, TaskState};

    fn event(time_ns: u64, tid: i32, kind: Kind<'static>) -> Event<'static> {
        Event {
            time_ns,
            cpu: 1,
            tid,
            comm: b"vhost-7",
            process: 0,
            gap: Gap::None,
            kind,
        }
    }

    fn switch(time_ns: u64, from: i32, state: TaskState, to: i32) -> Event<'static> {
        let task = |tid| Task {
            tid,
            comm: b"x".as_slice(),
            prio: None,
        };
        let kind = Kind::Switch {
            prev: task(from),
            state,
            next: task(to),
        };
        event(time_ns, from, kind)
    }

    #[test]
    fn only_what_a_server_waited_while_its_vcpu_slept_counts() {
        let mut servers = Servers::default();
        servers.wakes(&event(5, 9, Kind::Other), 0, 0);
        servers.event(&event(100, 3, Kind::Wakeup { tid: 9, cpu: 1 }));
        servers.event(&switch(180, 3, TaskState::Runnable, 9));
        servers.wakes(&event(190, 9, Kind::Other), 0, 150);
        let served = &servers.by[&(9, 0, true)];
        assert_eq!((served.total_ns, served.worst), (30, Some((150, 30, 1))));
        let by = served.by.iter().map(|(who, ns)| (who.tid, *ns));
        assert_eq!(by.collect::<Vec<_>>(), [(3, 30)]);
        assert_eq!(servers.name(9), "vhost-7");
    }

    #[test]
    fn a_server_that_finds_its_pcpu_idle_waited_for_nobody() {
        let mut servers = Servers::default();
        servers.wakes(&event(5, 9, Kind::Other), 0, 0);
        servers.event(&event(100, 3, Kind::Wakeup { tid: 9, cpu: 1 }));
        servers.event(&switch(180, 0, TaskState::Runnable, 9));
        servers.wakes(&event(190, 9, Kind::Other), 0, 50);
        assert!(servers.by.is_empty());
    }
}
