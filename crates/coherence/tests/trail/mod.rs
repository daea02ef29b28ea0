// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plays what the model of ATTC tells (crates/coherence/model/check) on the simulator's machine, with
//! the oracle on.
//!
//! A walk, an update and a displacement are one step each here, as in the simulator: an update is
//! carried out where the model's ends. What a sound model says of an access is compared only while no
//! update is under way, as then one translation alone may be used.

pub mod literal;

use std::collections::BTreeMap;
use std::process::Command;
use steady_coherence::MachineConfig;
use steady_coherence::config::Start;
use steady_coherence::layout::Key;
use steady_coherence::machine::{Fault, Machine};
use steady_coherence::oracle::Oracle;
use steady_coherence::os::Remap;
use steady_coherence::record::{MapKind, Prot};
use steady_coherence::scheme::Scheme;

/// The page of each VM that the model's pages stand for; displacing ones lie behind it.
const PAGE: u64 = 0x12345;
/// The core that other pages are used on. The model's follow it, so that its last is the last.
const OTHERS: usize = 0;

/// Runs the model's script: its exit code, and what it said.
pub fn check(words: &[&str]) -> (Option<i32>, String, String) {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/model/check");
    let output = Command::new(script)
        .args(words)
        .output()
        .expect("the script of the model can be run");
    let text = |bytes| String::from_utf8(bytes).expect("the script writes text");
    (
        output.status.code(),
        text(output.stdout),
        text(output.stderr),
    )
}

/// The lines that tell of events, after `check --show` or `--walk`.
pub fn events(words: &[&str]) -> Vec<String> {
    let (code, said, talk) = check(words);
    assert_eq!(code, Some(0), "{said}{talk}");
    let told = |line: &&str| !line.starts_with("fault ");
    said.lines().filter(told).map(str::to_owned).collect()
}

/// A machine of three cores with an inverse table so small that its entries can be displaced.
pub fn machine() -> MachineConfig {
    let mut config = MachineConfig::default();
    config.core.count = 3;
    config.attc.atlb_kib = 1024;
    config.attc.large_atlb_kib = 1024;
    config.attc.invtbl_kib = 1;
    config.attc.invtbl_ways = 1;
    config.hybrid.enabled = true;
    config.hybrid.start = Start::Nvm;
    config.hybrid.dram_percent = 100;
    config.hybrid.guest_percent = 0;
    config.validate().expect("a possible machine");
    config
}

/// The simulator's machine in the hands of the model.
pub struct Player {
    m: Machine,
    scheme: Box<dyn Scheme>,
    /// Frames of the simulator by those of the model.
    frames: BTreeMap<u64, u64>,
    under_way: usize,
    next_other: u64,
    now: u64,
    /// The model is sound, so that both must use the same translations.
    pub compares: bool,
    /// Accesses that were compared with the model's.
    pub compared: u64,
    /// Events that did something here.
    pub played: u64,
}

impl Player {
    pub fn new(config: &MachineConfig, scheme: Box<dyn Scheme>, fault: Option<Fault>) -> Self {
        let mut m = Machine::new(config, 2, 1);
        m.oracle = Some(Oracle::default());
        m.fault = fault;
        Self {
            m,
            scheme,
            frames: BTreeMap::new(),
            under_way: 0,
            next_other: PAGE + 1,
            now: 0,
            compares: false,
            compared: 0,
            played: 0,
        }
    }

    /// Plays the events in order.
    pub fn play(&mut self, events: &[String]) {
        for event in events {
            self.now += 1_000;
            self.event(event);
            if self.m.fault.is_none() {
                assert_eq!(self.scheme.check(&self.m), Ok(()), "after: {event}");
            }
        }
    }

    /// Violations that the oracle found.
    pub fn violations(&self) -> u64 {
        self.m.oracle.as_ref().expect("it is on").violations
    }

    fn event(&mut self, event: &str) {
        let number = |word: &str| numbers_after(event, word).expect("the model's form");
        if event.starts_with("core ") {
            let core = OTHERS + 1 + usize::try_from(number("core ")).expect("a core");
            let fetches = ["uses page", "takes page", "fills its TLBs with page"];
            if fetches.iter().any(|&what| event.contains(what)) {
                self.access(core, number("page "), number("frame "));
            } else if event.contains("which is in frame") {
                self.access(core, number("page "), number("in frame "));
            }
        } else if event.starts_with("ATLB: displaces") {
            self.displace_entry(number("page "));
        } else if event.starts_with("inverse table: has displaced") {
            self.displace_pointer(number("frame "));
        } else if event.starts_with("guest: moves") || event.starts_with("host: moves") {
            self.under_way += 1;
        } else if event.starts_with("guest: update") {
            self.guest_update(number("page "));
        } else if event.starts_with("host: update") {
            self.host_update(number("frame "));
        } else {
            panic!("the model tells of something unknown: {event}");
        }
    }

    /// A page of the model: the same number in a VM of its own.
    fn key(page: u64) -> Key {
        Key::small(u16::try_from(page).expect("a VM"), PAGE)
    }

    fn access(&mut self, core: usize, page: u64, frame: u64) {
        let key = Self::key(page);
        let spn = self.touch(core, key);
        self.played += 1;
        let known = match self.under_way {
            0 => *self.frames.entry(frame).or_insert(spn),
            _ => return,
        };
        if self.compares {
            self.compared += 1;
            assert_eq!(known, spn, "frame {frame} of the model");
            let same = self.frames.values().filter(|&&other| other == spn).count();
            assert_eq!(same, 1, "one frame here is one of the model");
        }
    }

    fn touch(&mut self, core: usize, key: Key) -> u64 {
        let (entry, _) = self
            .m
            .translate(self.scheme.as_mut(), core, key, false, self.now);
        let oracle = self.m.oracle.as_mut().expect("it is on");
        oracle.check(core, key, &entry, false, self.now);
        entry.spn
    }

    /// Uses a page of VM 0 that nobody has used before; returns its frame.
    fn touch_other(&mut self) -> u64 {
        let key = Key::small(0, self.next_other);
        self.next_other += 1;
        self.touch(OTHERS, key)
    }

    /// As many new pages as the set has ways, all in the page's set.
    fn displace_entry(&mut self, page: u64) {
        let sets = self.m.config.atlb_sets();
        let key = Self::key(page);
        for _ in 0..self.m.config.attc.atlb_ways {
            self.next_other += 1;
            let far = self.next_other * sets;
            self.touch(OTHERS, Key::small(key.vm(), key.page() + far));
        }
        self.played += 1;
    }

    /// New pages until one needs the place of the frame's pointer.
    fn displace_pointer(&mut self, frame: u64) {
        let Some(&spn) = self.frames.get(&frame) else {
            return;
        };
        let sets = self.m.config.invtbl_sets();
        let needed = |other: u64| other != spn && other % sets == spn % sets;
        let found = (0..4 * sets).any(|_| needed(self.touch_other()));
        assert!(found, "frames are given out one after the other");
        self.played += 1;
    }

    fn guest_update(&mut self, page: u64) {
        self.under_way -= 1;
        let rights = Prot {
            read: true,
            write: true,
            exec: false,
        };
        let key = Self::key(page);
        let os = &mut self.m.os;
        if let Some(remap) = os.map_call(key.vm(), key.page() << 12, 4096, rights, MapKind::Mmap) {
            self.carry_out(&remap);
            // The frame it had is taken, so that the page's next is another.
            self.touch_other();
        }
    }

    fn host_update(&mut self, frame: u64) {
        self.under_way -= 1;
        let Some(&spn) = self.frames.get(&frame) else {
            return;
        };
        let os = &mut self.m.os;
        let Some(plan) = os.plan_migration(spn) else {
            return;
        };
        let remap = os.describe_migration(&plan).expect("the page is there");
        // The guest has given the frame back, and another page has it.
        if !remap.changes.iter().any(|change| change.key.page() == PAGE) {
            return;
        }
        os.apply_migration(&plan);
        self.carry_out(&remap);
    }

    fn carry_out(&mut self, remap: &Remap) {
        let oracle = self.m.oracle.as_mut().expect("it is on");
        for change in &remap.changes {
            oracle.updated(change.key, self.m.os.current(change.key), 0);
        }
        self.scheme.revoke(&mut self.m, remap, OTHERS, self.now);
        self.played += 1;
    }
}

/// The first number that follows `word`.
fn numbers_after(event: &str, word: &str) -> Option<u64> {
    let rest = &event[event.find(word)? + word.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}
