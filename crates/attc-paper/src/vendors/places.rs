// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The machines, what runs on each, and under which schemes.
//!
//! All are the preset `zen5` with some keys changed. With more cores each brings 4 MiB of one L3.

use steady_coherence::compare::{Job, Outcome};
use steady_coherence::scheme::{ATTC, IDEAL, INVLPGB, IPI, KVMTLB, RAR};
use steady_coherence::workload::Workload;
use steady_coherence::{Error, MachineConfig, Registry, Spec};

use crate::runs::{Settings, job, run_jobs};

/// The programs that change their own tables, and the one that all machines run.
const BOTH: &[&str] = &["dedup", "wordcount"];
const ONE: &[&str] = &["dedup"];

/// A key of the machine, and its value.
pub(super) type Key = (&'static str, &'static str);

/// Channels to memory of a machine of many cores: parts of that size have 12, and the model takes
/// powers of two. Presets of such parts have the lesser.
const FEW: Key = ("dram.channels", "8");
const MORE: Key = ("dram.channels", "16");

/// A machine, what runs on it, and under which schemes.
pub(super) struct Place {
    /// The part of a label behind `@`.
    pub name: &'static str,
    keys: Vec<Key>,
    /// Virtual machines.
    pub vms: u16,
    /// Programs that run on it, one in a run.
    pub workloads: &'static [&'static str],
    schemes: Vec<&'static Spec>,
}

/// How many accesses each thread makes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Length {
    /// Warm-up included.
    pub accesses: u64,
    /// Before counting.
    pub warmup: u64,
}

/// A table that runs begin without, where others begin with the program's pages in it.
const EMPTY: Key = ("attc.warm", "false");
const COMPARED: [&Spec; 2] = [&INVLPGB, &ATTC];

/// Both tiers and native on few cores, and the larger machines: ATTC's table begins empty.
pub(super) fn empty() -> Vec<Place> {
    let mut all = all();
    all.retain(|place| place.vms > 1 || ["8", "native"].contains(&place.name));
    begin_empty(all)
}

/// Those on few cores alone.
pub(super) fn warm_empty() -> Vec<Place> {
    let mut few = empty();
    few.retain(|place| place.vms == 1);
    few
}

/// The one program, ATTC beside INVLPGB, and nothing in ATTC's table.
fn begin_empty(mut places: Vec<Place>) -> Vec<Place> {
    for place in &mut places {
        place.keys.push(EMPTY);
        place.workloads = ONE;
        place.schemes = COMPARED.to_vec();
    }
    places
}

/// Those of few cores, with the one program.
pub(super) fn warm() -> Vec<Place> {
    let mut few = all();
    few.retain(|place| place.vms == 1);
    for place in &mut few {
        place.workloads = ONE;
    }
    few
}

/// All of them, the fastest to simulate first.
pub(super) fn all() -> Vec<Place> {
    let software: [&Spec; 4] = [&KVMTLB, &INVLPGB, &ATTC, &IDEAL];
    let small = |name, keys: &[Key], schemes: &[&'static Spec]| Place {
        name,
        keys: keys.to_vec(),
        vms: 1,
        workloads: BOTH,
        schemes: schemes.to_vec(),
    };
    let large = |name, vms, keys: &[Key]| Place {
        vms,
        workloads: ONE,
        ..small(name, keys, &software)
    };
    let of_64 = [("core.count", "64"), ("l3.kib", "262144")];
    let of_128 = [("core.count", "128"), ("l3.kib", "524288")];
    // Sets are a power of two: 12 ways instead of 16.
    let of_192 = [
        ("core.count", "192"),
        ("l3.kib", "786432"),
        ("l3.ways", "12"),
    ];
    let with = |keys: &[Key], channels| [keys, &[channels]].concat();
    // A host that broadcasts for guests that cannot. KVM does neither: it is `kvmtlb`.
    let host_alone = [("rivals.invlpgb_in_guests", "false")];
    // A guess at a flush that is alone; the default is an upper bound.
    let quick = [("rivals.invlpgb_sync_cycles", "900")];
    // No page moves: updates are the programs' alone.
    let dram = [("hybrid.enabled", "false")];
    let native = [("mode", "native")];
    vec![
        small("8", &[], &[&KVMTLB, &INVLPGB, &RAR, &ATTC, &IDEAL]),
        small("8-ipis", &host_alone, &[&INVLPGB]),
        small("8-quick", &quick, &[&INVLPGB]),
        small("8-dram", &dram, &software),
        small("native", &native, &[&IPI, &INVLPGB, &RAR, &ATTC, &IDEAL]),
        large("64", 4, &with(&of_64, FEW)),
        large("64-more", 4, &with(&of_64, MORE)),
        large("128", 8, &with(&of_128, FEW)),
        large("128-more", 8, &with(&of_128, MORE)),
        large("192", 12, &with(&of_192, FEW)),
        large("192-more", 12, &with(&of_192, MORE)),
    ]
}

impl Place {
    /// A job for each scheme.
    pub fn jobs(&self) -> Vec<Job> {
        let machine = machine(&self.keys);
        let jobs = self.schemes.iter();
        jobs.map(|scheme| job(scheme, self.name, &machine))
            .collect()
    }

    /// One workload under a seed and a rate of pages swept.
    ///
    /// # Errors
    /// As the simulations.
    pub fn run(
        &self,
        workload: Workload,
        (seed, rate): (u64, u32),
        length: Length,
    ) -> Result<Vec<Outcome>, Error> {
        let threads = u64::from(workload.threads) * u64::from(self.vms);
        assert!(length.warmup < length.accesses, "something is counted");
        let settings = Settings {
            seed,
            rate,
            accesses: length.accesses * threads,
            warmup: length.warmup * threads,
            ..Settings::full()
        };
        run_jobs(&settings, workload, self.vms, &self.jobs())
    }
}

/// The preset with these keys.
pub(super) fn machine(keys: &[Key]) -> MachineConfig {
    let keys: Vec<_> = keys
        .iter()
        .map(|&(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    let found = Registry::shipped().load_with("preset = \"zen5\"", "attc-vendors", &keys);
    found.expect("a shipped preset with keys that it has")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_differs_from_the_preset_in_the_keys_that_it_names_alone() {
        let preset = machine(&[]);
        for place in &all() {
            let found = machine(&place.keys);
            assert_eq!(found.network.hop_cycles, 3, "{}: messages cost", place.name);
            assert_eq!(found == preset, place.keys.is_empty(), "{}", place.name);
            let mut same = found.clone();
            (same.core.count, same.l3) = (preset.core.count, preset.l3.clone());
            (same.mode, same.hybrid.enabled) = (preset.mode, preset.hybrid.enabled);
            same.dram.channels = preset.dram.channels;
            same.schemes = preset.schemes.clone();
            assert_eq!(same, preset, "{}", place.name);
            if place.vms > 1 {
                let (cores, l3) = (found.core.count, found.l3.kib);
                assert_eq!(l3, cores * 4096, "{}", place.name);
                assert_eq!(cores, u32::from(place.vms) * 16, "{}", place.name);
            }
        }
    }
}
