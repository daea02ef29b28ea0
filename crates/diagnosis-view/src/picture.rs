// SPDX-License-Identifier: Apache-2.0 OR MIT
//! When what was where: for each pCPU and each vCPU, how much of each piece of time it spent in
//! which state, and of a pCPU which VM had most of it. Pieces double in length as the trace goes
//! on, so that its size stays bounded.

use std::collections::BTreeMap;

use steady_diagnose::{Analysis, Effect, NO_CPU, State, VcpuId, VmId};
use steady_events::{Event, Kind};

/// Pieces of time, at most.
const PIECES: usize = 2048;
/// Rows of each kind, at most.
const ROWS: usize = 256;
/// The length of a piece at first, in nanoseconds.
const FIRST_NS: u64 = 256;
/// Levels that a share is given in: 0 to this.
const LEVELS: u64 = 7;
/// Digits of a pair of levels.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// What a vCPU does, or what a pCPU does with its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Doing {
    /// In its guest; of a pCPU: it runs a guest.
    Guest,
    /// Outside it, on a pCPU; of a pCPU: it runs a vCPU's thread outside its guest.
    Host,
    /// Ready, off its pCPU; of a pCPU: it runs another thread.
    Ready,
    /// It waits; of a pCPU: it is idle.
    Blocked,
}

/// Which row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Pcpu(u32),
    Vcpu(VcpuId),
}

#[derive(Debug, Clone, Default)]
struct Row {
    /// The thread of a vCPU.
    tid: Option<i32>,
    /// What it does, of a pCPU for which VM, and since when.
    now: Option<(Doing, Option<VmId>, u64)>,
    pieces: Vec<Piece>,
}

/// A piece of time.
#[derive(Debug, Clone, Copy, Default)]
struct Piece {
    /// Nanoseconds by [`Doing`].
    spent: [u64; 4],
    /// The VM that ran most of it, and by how many nanoseconds it leads over all others.
    vm: Option<(VmId, u64)>,
}

impl Piece {
    /// A VM ran for `ns`.
    fn ran(&mut self, vm: VmId, ns: u64) {
        self.vm = match self.vm {
            Some((most, lead)) if most == vm => Some((most, lead.saturating_add(ns))),
            Some((most, lead)) if lead >= ns => Some((most, lead - ns)),
            Some((_, lead)) => Some((vm, ns - lead)),
            None => Some((vm, ns)),
        };
    }

    /// Both as one.
    fn with(mut self, second: Self) -> Self {
        for (ns, more) in self.spent.iter_mut().zip(second.spent) {
            *ns += more;
        }
        if let Some((vm, ns)) = second.vm {
            self.ran(vm, ns);
        }
        self
    }
}

/// Collects it.
#[derive(Debug)]
pub struct Picture {
    rows: BTreeMap<Key, Row>,
    begin_ns: Option<u64>,
    last_ns: u64,
    piece_ns: u64,
    left_out: u64,
    /// A thread of each VM that was seen running.
    vms: BTreeMap<VmId, i32>,
}

impl Default for Picture {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            begin_ns: None,
            last_ns: 0,
            piece_ns: FIRST_NS,
            left_out: 0,
            vms: BTreeMap::new(),
        }
    }
}

/// A finished picture.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct PictureTable {
    /// When it begins, by the trace's clock.
    pub begin_ns: u64,
    /// How long it is.
    pub length_ns: u64,
    /// How long each piece is.
    pub piece_ns: u64,
    /// The rows, pCPUs first.
    pub rows: Vec<PictureRow>,
    /// Rows that had no room.
    pub left_out: u64,
}

/// One row of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct PictureRow {
    /// Thread of a vCPU.
    pub tid: Option<i32>,
    /// Number of a pCPU.
    pub pcpu: Option<u32>,
    /// Two letters for each piece: in guest and in host, ready and blocked; in eighths from
    /// `A`(none, none) by `DIGITS`.
    pub pieces: String,
    /// Of a pCPU, which VM had most of each piece: a thread of its vCPUs, by ranges of pieces that
    /// have the same.
    pub whose: Vec<(usize, i32)>,
    /// For how many thousandths of the time a vCPU was ready; of a pCPU, it ran other threads.
    pub ready_permille: u64,
}

impl Picture {
    /// An event, after the analysis has taken it.
    pub fn event(&mut self, event: &Event<'_>, effect: Effect, all: &Analysis) {
        let now_ns = event.time_ns.max(self.last_ns);
        self.last_ns = now_ns;
        self.begin_ns.get_or_insert(now_ns);
        match event.kind {
            Kind::Entry { .. } => self.both((effect.vcpu, all), event, Doing::Guest),
            Kind::Exit { .. } => self.both((effect.vcpu, all), event, Doing::Host),
            Kind::Switch { prev, next, .. } => {
                if let Some(id) = all.machine.of_tid(prev.tid) {
                    self.is(Key::Vcpu(id), of_state(all.machine.vcpus[id].state), None);
                }
                let vcpu = all.machine.of_tid(next.tid);
                let runs = match vcpu {
                    Some(_) => Doing::Host,
                    None if next.tid == 0 => Doing::Blocked,
                    None => Doing::Ready,
                };
                let vm = vcpu.map(|id| self.vm_of(id, all));
                self.is(Key::Pcpu(event.cpu), runs, vm);
                if let Some(id) = vcpu {
                    self.is(Key::Vcpu(id), Doing::Host, None);
                }
            }
            Kind::Wakeup { tid, .. } => {
                let woken = all.machine.of_tid(tid);
                let ready =
                    woken.filter(|&id| matches!(all.machine.vcpus[id].state, State::Ready { .. }));
                if let Some(id) = ready {
                    self.is(Key::Vcpu(id), Doing::Ready, None);
                }
            }
            _ => {}
        }
    }

    /// The VM of a vCPU, of which a thread is kept.
    fn vm_of(&mut self, id: VcpuId, all: &Analysis) -> VmId {
        let vcpu = &all.machine.vcpus[id];
        self.vms.entry(vcpu.vm).or_insert(vcpu.tid);
        vcpu.vm
    }

    fn both(&mut self, (vcpu, all): (Option<VcpuId>, &Analysis), event: &Event<'_>, doing: Doing) {
        let Some(id) = vcpu else { return };
        let vm = self.vm_of(id, all);
        self.is(Key::Vcpu(id), doing, None);
        if let Some(row) = self.rows.get_mut(&Key::Vcpu(id)) {
            row.tid = Some(event.tid);
        }
        self.is(Key::Pcpu(event.cpu), doing, Some(vm));
    }

    fn is(&mut self, key: Key, doing: Doing, vm: Option<VmId>) {
        if key == Key::Pcpu(NO_CPU) {
            return;
        }
        let kind = |other: &&Key| matches!(other, Key::Pcpu(_)) == matches!(key, Key::Pcpu(_));
        if !self.rows.contains_key(&key) && self.rows.keys().filter(kind).count() >= ROWS {
            self.left_out += 1;
            return;
        }
        let now_ns = self.last_ns;
        self.make_room();
        let row = self.rows.entry(key).or_default();
        let since = row.now.replace((doing, vm, now_ns));
        if let Some((before, of, since_ns)) = since {
            let begin_ns = self.begin_ns.unwrap_or(since_ns);
            row.spend(
                (before, of),
                since_ns - begin_ns,
                now_ns - begin_ns,
                self.piece_ns,
            );
        }
    }

    /// Doubles the pieces until the last event lies in one of them.
    fn make_room(&mut self) {
        let span_ns = self.last_ns - self.begin_ns.unwrap_or(self.last_ns);
        let pieces = u64::try_from(PIECES).unwrap_or(u64::MAX);
        while span_ns / self.piece_ns >= pieces {
            self.piece_ns *= 2;
            for row in self.rows.values_mut() {
                let halves = row.pieces.chunks(2);
                let whole =
                    halves.map(|pair| pair[0].with(pair.get(1).copied().unwrap_or_default()));
                row.pieces = whole.collect();
            }
        }
        assert!(
            span_ns / self.piece_ns < pieces,
            "every event has its piece"
        );
    }

    /// The picture. What goes on at the end goes on to the last event.
    #[must_use]
    pub fn finish(mut self) -> PictureTable {
        self.make_room();
        let begin_ns = self.begin_ns.unwrap_or(0);
        let (last_ns, piece_ns) = (self.last_ns, self.piece_ns);
        let rows = std::mem::take(&mut self.rows).into_iter();
        let rows = rows.map(|(key, mut row)| {
            if let Some((doing, of, since_ns)) = row.now {
                row.spend(
                    (doing, of),
                    since_ns - begin_ns,
                    last_ns - begin_ns,
                    piece_ns,
                );
            }
            let pieces = row.pieces.iter();
            let pieces = pieces.flat_map(|piece| letters(&piece.spent, piece_ns));
            let ready = row.pieces.iter().map(|piece| piece.spent[2]);
            let ready_ns: u64 = ready.fold(0, u64::saturating_add);
            PictureRow {
                whose: row.whose(&self.vms),
                ready_permille: ready_ns.saturating_mul(1000) / (last_ns - begin_ns).max(1),
                tid: row.tid,
                pcpu: match key {
                    Key::Pcpu(cpu) => Some(cpu),
                    Key::Vcpu(_) => None,
                },
                pieces: pieces.collect(),
            }
        });
        PictureTable {
            begin_ns,
            length_ns: last_ns - begin_ns,
            piece_ns,
            rows: rows.collect(),
            left_out: self.left_out,
        }
    }
}

fn of_state(state: State) -> Doing {
    match state {
        State::Ready { .. } => Doing::Ready,
        State::Blocked => Doing::Blocked,
        State::Running | State::Unknown => Doing::Host,
    }
}

/// The shares of a piece as two letters.
fn letters(piece: &[u64; 4], piece_ns: u64) -> [char; 2] {
    let level = |ns: u64| {
        let level = (ns.saturating_mul(LEVELS) + piece_ns / 2) / piece_ns;
        usize::try_from(level.min(LEVELS)).unwrap_or(0)
    };
    let letter = |a: u64, b: u64| char::from(DIGITS[level(a) * 8 + level(b)]);
    [letter(piece[0], piece[1]), letter(piece[2], piece[3])]
}

impl Row {
    /// Where another VM begins to have most of the time, and a thread of it.
    fn whose(&self, vms: &BTreeMap<VmId, i32>) -> Vec<(usize, i32)> {
        let mut ranges: Vec<(usize, i32)> = Vec::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            let Some(&tid) = piece.vm.and_then(|(vm, _)| vms.get(&vm)) else {
                continue;
            };
            if ranges.last().is_none_or(|(_, last)| *last != tid) {
                ranges.push((at, tid));
            }
        }
        let begins = ranges.iter().map(|(at, _)| at);
        assert!(begins.is_sorted_by(|a, b| a < b), "each range has pieces");
        ranges
    }

    /// Adds the time between two times after the begin.
    fn spend(
        &mut self,
        (doing, vm): (Doing, Option<VmId>),
        from_ns: u64,
        to_ns: u64,
        piece_ns: u64,
    ) {
        let place = match doing {
            Doing::Guest => 0,
            Doing::Host => 1,
            Doing::Ready => 2,
            Doing::Blocked => 3,
        };
        let mut at_ns = from_ns;
        while at_ns < to_ns {
            let piece = usize::try_from(at_ns / piece_ns).unwrap_or(usize::MAX);
            assert!(piece < PIECES, "room was made for every event");
            if self.pieces.len() <= piece {
                self.pieces.resize(piece + 1, Piece::default());
            }
            let end_ns = (at_ns / piece_ns + 1).saturating_mul(piece_ns).min(to_ns);
            self.pieces[piece].spent[place] += end_ns - at_ns;
            if let Some(vm) = vm {
                self.pieces[piece].ran(vm, end_ns - at_ns);
            }
            at_ns = end_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_kept_when_pieces_double() {
        let mut picture = Picture::default();
        let pieces = u64::try_from(PIECES).unwrap();
        for (now_ns, doing) in [
            (1_000, Doing::Guest),
            (1_000 + FIRST_NS * pieces / 2, Doing::Ready),
            (1_000 + FIRST_NS * pieces * 8, Doing::Guest),
        ] {
            picture.begin_ns.get_or_insert(now_ns);
            picture.last_ns = now_ns;
            picture.is(Key::Pcpu(0), doing, (doing == Doing::Guest).then_some(3));
        }
        let row = &picture.rows[&Key::Pcpu(0)];
        let sum = |at: usize| row.pieces.iter().map(|piece| piece.spent[at]).sum::<u64>();
        assert_eq!(sum(0), FIRST_NS * pieces / 2);
        assert_eq!(sum(2), FIRST_NS * pieces * 8 - FIRST_NS * pieces / 2);
        assert!(row.pieces.len() <= PIECES && picture.piece_ns == FIRST_NS * 16);
        // The first half of the first piece's time was the VM's.
        assert_eq!(row.whose(&BTreeMap::from([(3, 77)])), [(0, 77)]);
    }

    #[test]
    fn a_piece_is_the_vms_that_ran_most_of_it() {
        let mut piece = Piece::default();
        for (vm, ns) in [(1, 40), (2, 30), (1, 5), (2, 20), (2, 10)] {
            piece.ran(vm, ns);
        }
        assert_eq!(piece.vm, Some((2, 15)));
        assert_eq!(piece.with(piece).vm, Some((2, 30)));
    }

    #[test]
    fn two_letters_tell_four_shares() {
        // All of it in the guest is level 7 of 8 by 8; half ready and half blocked is 4 and 4.
        assert_eq!(letters(&[100, 0, 0, 0], 100), ['4', 'A']);
        assert_eq!(letters(&[0, 0, 50, 50], 100), ['A', 'k']);
    }
}
