// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Times in which no pCPU recorded anything, though a vCPU ran: the host itself may have stood
//! still (firmware, a suspended host, a hypervisor below it).
//!
//! Silence means something only where it is rare: a host whose vCPUs never leave their guests is
//! silent most of the time. So it is compared with the other gaps between records.

/// Shorter silence is not kept, in nanoseconds.
const SHORTEST_NS: u64 = 100_000_000;
/// Silences that are kept.
const MOST: usize = 8;
/// A silence stands out where no more gaps than this are at least an eighth of it.
const MOST_ALIKE: u64 = 3;

/// Of fewer gaps nothing stands out.
const FEWEST: u64 = 100;

/// Gaps between records of all pCPUs.
#[derive(Debug)]
pub struct Silence {
    last_ns: Option<u64>,
    /// Gaps by the number of bits of their length.
    gaps: [u64; 65],
    longest: Vec<(u64, u64)>,
}

impl Default for Silence {
    fn default() -> Self {
        Self {
            last_ns: None,
            gaps: [0; 65],
            longest: Vec::new(),
        }
    }
}

impl Silence {
    /// A record; `runs` says whether a vCPU was known to run since the record before.
    #[inline]
    pub fn event(&mut self, now_ns: u64, runs: impl FnOnce() -> bool) {
        let last_ns = self.last_ns.unwrap_or(now_ns);
        let gap_ns = now_ns.saturating_sub(last_ns);
        self.last_ns = Some(now_ns.max(last_ns));
        let bits = usize::try_from(u64::BITS - gap_ns.leading_zeros()).unwrap_or(64);
        self.gaps[bits] += 1;
        if gap_ns >= SHORTEST_NS && runs() {
            let at = self.longest.partition_point(|known| known.1 >= gap_ns);
            if at < MOST {
                self.longest.insert(at, (last_ns, gap_ns));
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
        let rare = |&&(_, gap_ns): &&(u64, u64)| {
            let bits = usize::try_from(u64::BITS - gap_ns.leading_zeros()).unwrap_or(64);
            let alike: u64 = self.gaps[bits.saturating_sub(3)..].iter().sum();
            alike <= MOST_ALIKE && all >= FEWEST
        };
        self.longest.iter().filter(rare).copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_stands_out_among_short_gaps_and_not_among_long_ones() {
        let mut busy = Silence::default();
        (0..1000).for_each(|at| busy.event(at * 1_000_000, || true));
        busy.event(999_000_000 + 700_000_000, || true);
        assert_eq!(busy.rare(), [(999_000_000, 700_000_000)]);
        let mut quiet = Silence::default();
        (0..60).for_each(|at| quiet.event(at * 1_000_000_000, || true));
        assert!(quiet.rare().is_empty());
    }

    #[test]
    fn silence_while_no_vcpu_runs_is_idle_time() {
        let mut idle = Silence::default();
        (0..1000).for_each(|at| idle.event(at * 1_000_000, || true));
        idle.event(999_000_000 + 700_000_000, || false);
        assert!(idle.rare().is_empty());
    }
}
