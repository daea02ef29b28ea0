// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One moment of one VM: what its vCPUs get of the pCPUs by fair shares, and what they would get if
//! no two of them were on one pCPU.
//!
//! All threads weigh the same. A pCPU that `own` vCPUs of the VM and `others` want gives the VM
//! `own / (own + others)`. A vCPU that is parted from its siblings goes to the pCPU without any of
//! them that the fewest others want.
//!
//! Left out: weights and limits of groups, shared caches and cores, the cost of moving.

use std::cmp::Reverse;

/// A whole pCPU: 1 to 16 divide it.
pub const WHOLE: u64 = 720_720;

/// What wants one pCPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seat {
    /// vCPUs of the VM.
    pub own: u64,
    /// Of these, whether one runs.
    pub runs: bool,
    /// Other threads, as far as they are seen to run or, if they are vCPUs, to wait.
    pub others: u64,
}

/// Shares, in parts of [`WHOLE`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Range {
    pub low: i64,
    pub likely: i64,
    pub high: i64,
}

/// What a VM gets, and would get.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moment {
    /// vCPUs that run or wait.
    pub wanted: u64,
    /// Of these, how many run.
    pub running: u64,
    /// pCPUs that it may use, and others that want them.
    pub seats: u64,
    pub others: u64,
    /// Whether two are on one pCPU while another has none of them.
    pub stacked: bool,
    /// What it gets by fair shares.
    pub fair: u64,
    /// What it would get more with its vCPUs parted. Low: the others spread over all pCPUs then;
    /// likely: the others stay where they are; high: each parted vCPU has its pCPU for itself.
    pub parted: Range,
    /// The same with one vCPU a pCPU, wherever others are: the mean of all ways to pin them.
    /// Negative where pins hold a vCPU behind others while another pCPU is free.
    pub pinned: Range,
}

/// What `own` of `own + others` threads get of a pCPU.
fn share(own: u64, others: u64) -> u64 {
    (WHOLE * own).checked_div(own + others).unwrap_or(0)
}

fn signed(share: u64) -> i64 {
    i64::try_from(share).unwrap_or(i64::MAX)
}

impl Moment {
    /// Of the pCPUs that the VM may use.
    #[must_use]
    pub fn of(seats: &[Seat]) -> Self {
        let sum = |of: fn(&Seat) -> u64| seats.iter().map(of).sum::<u64>();
        let wanted = sum(|seat| seat.own);
        let mut moment = Self {
            wanted,
            running: sum(|seat| u64::from(seat.runs)),
            seats: u64::try_from(seats.len()).unwrap_or(u64::MAX),
            others: sum(|seat| seat.others),
            fair: sum(|seat| share(seat.own, seat.others)),
            ..Self::default()
        };
        let pcpus = moment.seats;
        if wanted == 0 || wanted > pcpus {
            return moment;
        }
        let all = wanted + moment.others;
        // As if the others were spread so that each pCPU has as many threads.
        let spread = signed(WHOLE * wanted * pcpus / all.max(pcpus)) - signed(moment.fair);
        let (moves, gain) = part(seats);
        moment.stacked = moves > 0;
        moment.parted = Range {
            low: spread.clamp(0, gain),
            likely: gain,
            high: signed(moves * WHOLE).max(gain),
        };
        let anywhere = wanted * sum(|seat| share(1, seat.others)) / pcpus;
        let likely = signed(anywhere) - signed(moment.fair);
        moment.pinned = Range {
            low: likely.min(spread),
            likely,
            high: likely.max(spread),
        };
        moment
    }
}

/// Parts vCPUs as long as two are on one pCPU and another has none: how many move, and what the VM
/// gains by that.
fn part(seats: &[Seat]) -> (u64, i64) {
    if !seats.iter().any(|seat| seat.own > 1) {
        return (0, 0);
    }
    let (mut seats, mut moves, mut gain) = (seats.to_vec(), 0, 0);
    loop {
        let free = seats.iter_mut().filter(|seat| seat.own == 0);
        let Some(to) = free.min_by_key(|seat| seat.others) else {
            break;
        };
        to.own = 1;
        let comes = share(1, to.others);
        let stacked = seats.iter_mut().filter(|seat| seat.own > 1);
        let from = stacked.max_by_key(|seat| (seat.own, Reverse(seat.others)));
        let Some(from) = from else { break };
        let leaves = share(from.own, from.others) - share(from.own - 1, from.others);
        from.own -= 1;
        moves += 1;
        gain += signed(comes.saturating_sub(leaves));
    }
    (moves, gain)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Of each pCPU how many of the VM and how many others want it.
    fn moment(seats: &[(u64, u64)]) -> Moment {
        let seat = |&(own, others): &(u64, u64)| Seat {
            own,
            runs: own > 0,
            others,
        };
        Moment::of(&seats.iter().map(seat).collect::<Vec<_>>())
    }

    /// Sixtieths of a pCPU.
    fn sixtieths(range: Range) -> [i64; 3] {
        [range.low, range.likely, range.high].map(|share| share * 60 / signed(WHOLE))
    }

    #[test]
    fn gains_are_those_counted_by_hand() {
        // The seats, and what parting and pins give, in sixtieths of a pCPU.
        type Case = (&'static [(u64, u64)], [i64; 3], [i64; 3]);
        let cases: [Case; 9] = [
            (&[(2, 0), (0, 0)], [60, 60, 60], [60, 60, 60]),
            // The stranger shares with one of two, or three threads share two pCPUs.
            (&[(2, 0), (0, 1)], [20, 30, 60], [20, 30, 30]),
            // Two of three threads are the VM's, then one of two on each pCPU.
            (&[(2, 1), (0, 1)], [20, 20, 60], [20, 20, 20]),
            // Both strangers could come to share with the VM.
            (&[(2, 0), (0, 2)], [0, 20, 60], [0, 20, 20]),
            // Three on one pCPU, and two are free: one idle, one with a stranger.
            (&[(3, 0), (0, 0), (0, 1)], [75, 90, 120], [75, 90, 90]),
            // Never stacked, or as many as pCPUs.
            (&[(1, 1), (1, 0)], [0, 0, 0], [-10, 0, 0]),
            (&[(2, 0), (1, 0)], [0, 0, 0], [0, 0, 0]),
            (&[(3, 0), (0, 0)], [0, 0, 0], [0, 0, 0]),
            // One alone: pinned it waits behind the stranger half of the time.
            (&[(1, 0), (0, 1)], [0, 0, 0], [-15, -15, 0]),
        ];
        for (seats, parted, pinned) in cases {
            let moment = moment(seats);
            assert_eq!(sixtieths(moment.parted), parted, "parted: {seats:?}");
            assert_eq!(sixtieths(moment.pinned), pinned, "pinned: {seats:?}");
        }
    }

    proptest! {
        #[test]
        fn no_order_of_pcpus_matters_and_nothing_comes_from_nothing(
            mut seats in vec((0_u64..4, 0_u64..4), 1..12),
            turn in 0_usize..12,
        ) {
            let known = moment(&seats);
            let pcpus = u64::try_from(seats.len()).unwrap();
            let at = turn % seats.len();
            seats.rotate_left(at);
            prop_assert_eq!(moment(&seats), known);
            seats.reverse();
            prop_assert_eq!(moment(&seats), known);
            let Range { low, likely, high } = known.parted;
            prop_assert!(0 <= low && low <= likely && likely <= high);
            // No more than a pCPU for each that wants one.
            let most = signed(known.wanted * WHOLE) - signed(known.fair);
            prop_assert!(likely <= most.max(0), "{likely} of {most}");
            let alone = seats.iter().all(|&(own, _)| own < 2);
            let crowd = known.wanted > pcpus || seats.iter().all(|&(own, _)| own > 0);
            prop_assert_eq!(known.stacked, !alone && !crowd);
            prop_assert!(known.stacked || high == 0);
        }
    }
}
