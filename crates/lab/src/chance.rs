// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a repetition's seed moves: the part of a run that is chance on a real machine.
//!
//! An emulator whose clock counts instructions gives the same run again and again, and so one throw
//! of the dice for ever. On a real machine nothing decides when a VM is started to the millisecond,
//! nor how its ticks lie to those of the host and of its neighbours. A seed draws just these:
//!
//! - how long the host waits before it starts each VM, so that the phases of their ticks move;
//! - how long it waits before it lets each workload begin, so that it meets other slices;
//! - the seed of each program that takes one;
//! - how long it waits before each selftest, which makes VMs of its own.
//!
//! Each draw has a stream of its own, by the names of the VM and of what is drawn: all variants of
//! one repetition get the same draws, and a VM more or less moves none of the others.
//! Left out: everything else. In particular no instruction, size or limit changes.

use steady_random::{Stream, mix, named};

/// Longest wait before a VM starts, in µs: five ticks of the lab's kernels, at 250 Hz.
const START_MOST_US: u32 = 20_000;
/// Longest wait before a workload begins, in µs: two ticks.
const BEGIN_MOST_US: u32 = 8_000;

/// Longest wait before a selftest, in µs: five ticks.
const TEST_MOST_US: u32 = 20_000;

/// The draws of one repetition.
#[derive(Debug, Clone, Copy)]
pub struct Chance {
    seed: u64,
}

impl Chance {
    /// The draws under `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Wait before the VM is started, 0 to 20,000 µs.
    #[must_use]
    pub fn start_delay_us(self, vm: &str) -> u32 {
        self.stream("start", vm, 0).below(START_MOST_US + 1)
    }

    /// Wait before workload `index` of the VM begins, 0 to 8,000 µs.
    #[must_use]
    pub fn begin_delay_us(self, vm: &str, index: usize) -> u32 {
        self.stream("begin", vm, index).below(BEGIN_MOST_US + 1)
    }

    /// Seed of the program of workload `index`, never 0, which some programs take for none.
    #[must_use]
    pub fn program_seed(self, vm: &str, index: usize) -> u32 {
        self.stream("program", vm, index).next_u32().max(1)
    }

    /// Wait before the selftest begins, 0 to 20,000 µs.
    #[must_use]
    pub fn test_delay_us(self, test: &str) -> u32 {
        self.stream("test", test, 0).below(TEST_MOST_US + 1)
    }

    fn stream(self, what: &str, vm: &str, index: usize) -> Stream {
        let name = named(&format!("{what}\0{vm}"));
        Stream::new(self.seed, mix(name, index as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_draws_the_same_again_and_another_seed_something_else() {
        let draw = |seed| {
            let chance = Chance::new(seed);
            let begin = chance.begin_delay_us("victim", 0);
            (
                chance.start_delay_us("victim"),
                begin,
                chance.program_seed("victim", 0),
            )
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn vms_and_workloads_are_moved_apart_from_each_other() {
        let chance = Chance::new(1);
        assert_ne!(
            chance.start_delay_us("victim"),
            chance.start_delay_us("hog")
        );
        assert_ne!(
            chance.begin_delay_us("victim", 0),
            chance.begin_delay_us("victim", 1)
        );
    }

    #[test]
    fn waits_fill_their_range_and_stay_in_it() {
        let starts: Vec<u32> = (0..2_000)
            .map(|seed| Chance::new(seed).start_delay_us("a"))
            .collect();
        assert!(starts.iter().all(|&wait_us| wait_us <= START_MOST_US));
        let quarter = |at: u32| starts.iter().filter(|&&wait| wait / 5_001 == at).count();
        for at in 0..4 {
            assert!(
                (400..=600).contains(&quarter(at)),
                "{} in quarter {at}",
                quarter(at)
            );
        }
    }
}
