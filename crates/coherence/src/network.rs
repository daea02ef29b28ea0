// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What messages to other cores cost an update's initiator: the way to the farthest and back, and
//! the answers that arrive one after the other. Alike for every scheme, interrupts included.
//!
//! Cores stand on a square mesh, row by row. Left out: messages that meet others, look-ups that a
//! core's own accesses delay, and the messages that no update waits for.

use crate::config::MachineConfig;

/// Messages of one update, and what they cost.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// Cores in a row.
    side: usize,
    hop_cycles: u64,
    port_cycles: u64,
    /// Messages of this update to each core; not kept where messages are free.
    sent: Vec<u64>,
}

impl Network {
    pub fn new(config: &MachineConfig) -> Self {
        let cores = config.core.count as usize;
        let (mut side, hop_cycles) = (1, u64::from(config.network.hop_cycles));
        while side * side < cores {
            side += 1;
        }
        Self {
            side,
            hop_cycles,
            port_cycles: config.network.port_cycles.into(),
            sent: vec![0; if hop_cycles > 0 { cores } else { 0 }],
        }
    }

    /// An update begins.
    pub fn begin(&mut self) {
        self.sent.fill(0);
    }

    /// `messages` go to a core.
    pub fn send(&mut self, core: usize, messages: u64) {
        if let Some(sent) = self.sent.get_mut(core) {
            *sent += messages;
        }
    }

    /// `messages` go to every core.
    pub fn broadcast(&mut self, messages: u64) {
        self.sent.iter_mut().for_each(|sent| *sent += messages);
    }

    fn hops(&self, one: usize, other: usize) -> u64 {
        let (row, column) = (one / self.side, one % self.side);
        let apart = (other / self.side).abs_diff(row) + (other % self.side).abs_diff(column);
        apart as u64
    }

    /// Cycles until the last answer is at `from`; what it sent to itself is not waited for.
    pub fn wait(&self, from: usize) -> u64 {
        let asked = || {
            self.sent
                .iter()
                .enumerate()
                .filter(|&(core, &sent)| core != from && sent > 0)
        };
        let answers: u64 = asked().map(|(_, sent)| sent).sum();
        let farthest = asked().map(|(core, _)| self.hops(from, core)).max();
        farthest.map_or(0, |hops| {
            2 * hops * self.hop_cycles + (answers - 1) * self.port_cycles
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Network;
    use crate::config::MachineConfig;

    #[test]
    fn an_initiator_waits_for_the_farthest_and_for_all_answers() {
        let mut config = MachineConfig::default();
        (
            config.core.count,
            config.network.hop_cycles,
            config.network.port_cycles,
        ) = (12, 10, 3);
        // Three rows of four; core 1 is second in the first.
        let mut network = Network::new(&config);
        assert_eq!(network.wait(1), 0, "nothing was sent");
        network.send(1, 5);
        assert_eq!(network.wait(1), 0, "only to itself");
        network.send(2, 1);
        assert_eq!(network.wait(1), 2 * 10);
        // The last of the third row is two rows down and two columns on.
        network.send(11, 2);
        assert_eq!(network.wait(1), 2 * 4 * 10 + 2 * 3);
        network.begin();
        network.broadcast(2);
        // From a corner to the opposite one, and 22 answers.
        assert_eq!(network.wait(0), 2 * 5 * 10 + 21 * 3);
        config.network.hop_cycles = 0;
        let mut free = Network::new(&config);
        free.broadcast(9);
        assert_eq!(free.wait(0), 0);
    }
}
