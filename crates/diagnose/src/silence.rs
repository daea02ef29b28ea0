// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times in which no pCPU recorded anything, though a vCPU ran: the host itself may have stood
//! still (firmware, a suspended host, a hypervisor below it).
//!
//! Silence means something only where it is rare: a host whose vCPUs never leave their guests is
//! silent most of the time. So it is compared with the other gaps between records. Where several
//! vCPUs ran that leave their guests often, none of which has a record, it need not be rare.

use crate::spread::{add, total};

/// Shorter silence is not kept, in nanoseconds.
const SHORTEST_NS: u64 = 50_000_000;
/// Silences that are kept.
const MOST: usize = 64;
/// A silence stands out where no more gaps than this are at least an eighth of it.
const MOST_ALIKE: u64 = 3;
/// Shorter ones stand out only where several vCPUs ran, in nanoseconds.
const SHORTEST_OF_ONE_NS: u64 = 100_000_000;
/// vCPUs that do not all stay in their guests at a time by chance.
const SEVERAL: usize = 2;
/// A long gap is unusual where there is not another in this number of gaps.
const USUAL: u64 = 100;

/// Of fewer gaps nothing stands out.
const FEWEST: u64 = 100;

/// Gaps between records of all pCPUs.
#[derive(Debug)]
pub struct Silence {
    last_ns: Option<u64>,
    /// Gaps by the number of bits of their length.
    gaps: [u64; 65],
    /// Begin and length, and how many vCPUs ran.
    longest: Vec<(u64, u64, usize)>,
    /// Their time.
    gaps_ns: [u64; 65],
}

impl Default for Silence {
    fn default() -> Self {
        Self {
            last_ns: None,
            gaps: [0; 65],
            longest: Vec::new(),
            gaps_ns: [0; 65],
        }
    }
}

impl Silence {
    /// A record; `runs` says how many vCPUs were known to run since the record before.
    #[inline]
    pub fn event(&mut self, now_ns: u64, runs: impl FnOnce() -> usize) {
        let last_ns = self.last_ns.unwrap_or(now_ns);
        let gap_ns = now_ns.saturating_sub(last_ns);
        self.last_ns = Some(now_ns.max(last_ns));
        let bits = usize::try_from(u64::BITS - gap_ns.leading_zeros()).unwrap_or(64);
        self.gaps[bits] += 1;
        add(&mut self.gaps_ns[bits], gap_ns);
        if gap_ns < SHORTEST_NS {
            return;
        }
        let runs = runs();
        if runs > 0 {
            let at = self.longest.partition_point(|known| known.1 >= gap_ns);
            if at < MOST {
                self.longest.insert(at, (last_ns, gap_ns, runs));
                self.longest.truncate(MOST);
                let order = self.longest.iter().map(|known| known.1);
                assert!(order.is_sorted_by(|a, b| a >= b), "the longest is first");
            }
        }
    }

    /// A record before which others were lost: whether there was silence is not known.
    pub fn lost(&mut self, now_ns: u64) {
        self.last_ns = Some(now_ns.max(self.last_ns.unwrap_or(0)));
    }

    /// Silences that stand out: begin and length, longest first.
    #[must_use]
    pub fn rare(&self) -> Vec<(u64, u64)> {
        let all: u64 = self.gaps.iter().sum();
        let span_ns = total(self.gaps_ns.iter().copied());
        let rare = |&&(_, gap_ns, runs): &&(u64, u64, usize)| {
            let bits = usize::try_from(u64::BITS - gap_ns.leading_zeros()).unwrap_or(64);
            let from = bits.saturating_sub(3);
            let alike: u64 = self.gaps[from..].iter().sum();
            let alike_ns = total(self.gaps_ns[from..].iter().copied());
            assert!(alike_ns <= span_ns, "a part of the time");
            let is_usual = alike_ns > span_ns / 2;
            let alone = gap_ns >= SHORTEST_OF_ONE_NS && alike <= MOST_ALIKE;
            let of_several = runs >= SEVERAL && !is_usual && alike.saturating_mul(USUAL) < all;
            all >= FEWEST && (alone || of_several)
        };
        let rare = self.longest.iter().filter(rare);
        rare.map(|&(begin_ns, gap_ns, _)| (begin_ns, gap_ns))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_stands_out_among_short_gaps_and_not_among_long_ones() {
        let mut busy = Silence::default();
        (0..1000).for_each(|at| busy.event(at * 1_000_000, || 1));
        busy.event(999_000_000 + 700_000_000, || 1);
        assert_eq!(busy.rare(), [(999_000_000, 700_000_000)]);
        for (runs, found) in [(1, 0), (2, 10)] {
            let mut often = Silence::default();
            for second in 0..10_u64 {
                let at = |ms: u64| (second * 1000 + ms) * 1_000_000;
                (0..700).for_each(|ms| often.event(at(ms), || runs));
                (999..1000).for_each(|ms| often.event(at(ms), || runs));
            }
            assert_eq!(often.rare().len(), found, "{runs} vCPUs ran");
        }
        let mut quiet = Silence::default();
        (0..60).for_each(|at| quiet.event(at * 1_000_000_000, || 1));
        assert!(quiet.rare().is_empty());
    }

    #[test]
    fn silence_while_no_vcpu_runs_is_idle_time() {
        let mut idle = Silence::default();
        (0..1000).for_each(|at| idle.event(at * 1_000_000, || 1));
        idle.event(999_000_000 + 700_000_000, || 0);
        assert!(idle.rare().is_empty());
    }
}
