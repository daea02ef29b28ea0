// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Plays what the model of ATTC prints (crates/coherence/model/check) on the simulator, with the
//! oracle on.
//!
//! A walk, an update and a displacement are one step each here, as in the simulator: an update is
//! carried out where the model's ends. What a sound model says of an access is compared only while no
//! update is under way, as then one translation alone may be used.

pub mod literal;

use std::collections::BTreeMap;
use std::process::Command;
use steady_coherence::config::Start;
use steady_coherence::layout::Key;
use steady_coherence::oracle::Wrong;
use steady_coherence::os::TablePage;
use steady_coherence::radix::LEVELS;
use steady_coherence::record::{MapKind, Prot};
use steady_coherence::scheme::atlb;
use steady_coherence::scheme::attc::invtbl;
use steady_coherence::sim::{Sim, Stepper};
use steady_coherence::{Fault, MachineConfig, Options, Spec};

/// The page of each VM that the model's pages stand for; displacing ones lie behind it.
const PAGE: u64 = 0x12345;
/// VMs, and pages of the model at most.
const VMS: u16 = 2;
/// Sets of the ATLB and its ways, and sets of the inverse table, as [`machine`] has them.
const ATLB_SETS: u64 = 1024 * 1024 / 64;
const ATLB_WAYS: u64 = 4;
const INVTBL_SETS: u64 = 1024 / 4;
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

/// The lines that show events, after `check --show` or `--walk`.
pub fn events(words: &[&str]) -> Vec<String> {
    let (code, said, talk) = check(words);
    assert_eq!(code, Some(0), "{said}{talk}");
    let told = |line: &&str| !line.starts_with("fault ");
    said.lines().filter(told).map(str::to_owned).collect()
}

/// A machine of three cores with an inverse table so small that its entries can be displaced.
fn machine() -> MachineConfig {
    let mut config = MachineConfig::default();
    config.core.count = 3;
    config.schemes.set(&atlb::KIB, 1024);
    config.schemes.set(&atlb::LARGE_KIB, 1024);
    config.schemes.set(&invtbl::KIB, 1);
    config.schemes.set(&invtbl::WAYS, 1);
    config.hybrid.enabled = true;
    config.hybrid.start = Start::Nvm;
    config.hybrid.dram_percent = 100;
    config.hybrid.guest_percent = 0;
    config
}

/// The simulator in the hands of the model.
pub struct Player {
    steps: Stepper,
    /// No fault is planted, so that the scheme's invariants hold.
    sound: bool,
    /// Frames of the simulator by those of the model.
    frames: BTreeMap<u64, u64>,
    under_way: usize,
    /// The table page that maps the model's page now, of the model's two.
    table: u64,
    next_other: u64,
    /// The model is sound, so that both must use the same translations.
    pub compares: bool,
    /// Accesses that were compared with the model's.
    pub compared: u64,
    /// Events that did something here.
    pub played: u64,
}

impl Player {
    /// A player of these events, on a machine with room for the pointers of table pages where these
    /// move.
    pub fn of(events: &[String], scheme: &'static Spec, fault: Option<Fault>) -> Self {
        let mut machine = machine();
        let tables = events.iter().any(|event| event.contains("table page"));
        if tables {
            machine.schemes.set(&invtbl::KIB, 1024);
        }
        let options = Options {
            check: true,
            vms: VMS,
            ..Options::default()
        };
        let mut sim = Sim::new(&machine, scheme, &options).expect("a possible machine");
        if let Some(fault) = fault {
            sim.plant(fault);
        }
        if tables {
            sim.let_tables_move();
        }
        Self {
            steps: Stepper::new(sim),
            sound: fault.is_none(),
            frames: BTreeMap::new(),
            under_way: 0,
            table: 0,
            next_other: PAGE + 1,
            compares: false,
            compared: 0,
            played: 0,
        }
    }

    /// Plays the events in order.
    pub fn play(&mut self, events: &[String]) {
        for event in events {
            self.event(event);
            if self.sound {
                assert_eq!(self.steps.sim().check(), Ok(()), "after: {event}");
            }
        }
    }

    /// What is wrong with each use that the oracle objects to.
    pub fn wrongs(&self) -> Vec<Wrong> {
        let oracle = self.steps.sim().oracle().expect("it is on");
        let wrongs: Vec<Wrong> = oracle
            .first
            .iter()
            .map(|violation| violation.wrong)
            .collect();
        assert_eq!(
            wrongs.len() as u64,
            oracle.violations,
            "it keeps the first few"
        );
        wrongs
    }

    fn event(&mut self, event: &str) {
        let number = |word: &str| numbers_after(event, word).expect("the model's form");
        if event.starts_with("core ") {
            let core = OTHERS + 1 + usize::try_from(number("core ")).expect("a core");
            let fetches = ["uses page", "takes page", "fills its TLBs with page"];
            if fetches.iter().any(|&what| event.contains(what)) {
                self.access(core, number("page "), number("frame "));
            } else if event.ends_with("by what it has cached") {
                self.walk(core, number("page "));
            } else if event.contains("which is in frame") {
                self.access(core, number("page "), number("in frame "));
            }
        } else if event.starts_with("ATLB: displaces") {
            self.displace_entry(number("page "));
        } else if event.starts_with("inverse table: has displaced") {
            self.displace_pointer(number("frame "));
        } else if event.starts_with("guest: moves") || event.starts_with("host: moves") {
            self.under_way += 1;
        } else if event == "guest: update of its table ends" {
            self.table_update(TablePage::Guest);
            self.table = 1;
        } else if event == "host: update of its table ends" {
            self.table_update(TablePage::Host);
        } else if event.starts_with("host: update behind") {
            if number("page ") == self.table {
                self.table_update(TablePage::Behind);
            }
        } else if event.starts_with("guest: update") {
            self.guest_update(number("page "));
        } else if event.starts_with("host: update") {
            self.host_update(number("frame "));
        } else {
            panic!("the model prints something unknown: {event}");
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

    /// The model walks when it likes: first TLBs and ATLB must lose the page here.
    fn walk(&mut self, core: usize, page: u64) {
        self.steps.displace(core, Self::key(page));
        self.displace_entry(page);
        self.touch(core, Self::key(page));
        self.played += 1;
    }

    /// The lowest table page of the walk for the model's page moves.
    fn table_update(&mut self, which: TablePage) {
        self.under_way -= 1;
        let moved = self
            .steps
            .move_table(OTHERS, which, Self::key(0), LEVELS - 1);
        assert!(moved, "the page has been used");
        self.played += 1;
    }

    fn touch(&mut self, core: usize, key: Key) -> u64 {
        self.steps.access(core, key, false).spn
    }

    /// Uses a page of VM 0 that no access has used before; returns its frame.
    fn touch_other(&mut self) -> u64 {
        let key = Key::small(0, self.next_other);
        self.next_other += 1;
        self.touch(OTHERS, key)
    }

    /// As many new pages as the set has ways, all in the page's set.
    fn displace_entry(&mut self, page: u64) {
        let key = Self::key(page);
        for _ in 0..ATLB_WAYS {
            self.next_other += 1;
            let far = self.next_other * ATLB_SETS;
            self.touch(OTHERS, Key::small(key.vm(), key.page() + far));
        }
        self.played += 1;
    }

    /// New pages until one needs the place of the frame's pointer.
    fn displace_pointer(&mut self, frame: u64) {
        let Some(&spn) = self.frames.get(&frame) else {
            return;
        };
        let needed = |other: u64| other != spn && other % INVTBL_SETS == spn % INVTBL_SETS;
        let found = (0..4 * INVTBL_SETS).any(|_| needed(self.touch_other()));
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
        if self.steps.mapping(key).is_some() {
            self.steps.remap(OTHERS, key, rights, MapKind::Mmap);
            assert_eq!(self.steps.mapping(key), None);
            self.played += 1;
            // The frame it had is taken, so that the page's next is another.
            self.touch_other();
        }
    }

    fn host_update(&mut self, frame: u64) {
        self.under_way -= 1;
        let Some(&spn) = self.frames.get(&frame) else {
            return;
        };
        // The guest may have given the frame back, so that another page has it.
        if self.has_model_page(spn) {
            self.steps.migrate(OTHERS, spn);
            assert!(!self.has_model_page(spn), "the model moves a frame once");
            self.played += 1;
        }
    }

    /// Whether a page of the model is in the frame.
    fn has_model_page(&self, spn: u64) -> bool {
        (0..VMS.into())
            .filter_map(|page| self.steps.mapping(Self::key(page)))
            .any(|mapping| mapping.spn == spn)
    }
}

/// The first number that follows `word`.
fn numbers_after(event: &str, word: &str) -> Option<u64> {
    let rest = &event[event.find(word)? + word.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit());
    rest[..end.unwrap_or(rest.len())].parse().ok()
}
