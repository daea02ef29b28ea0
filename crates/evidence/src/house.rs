// SPDX-License-Identifier: Apache-2.0 OR MIT
//! All evidence of a project: the claims, the papers, and the records beside them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde::de::DeserializeOwned;
use steady_guest_programs::find;
use steady_measures::Comparison;
use steady_nearest::nearest;
use steady_scenario::{Scenario, Variant};

use crate::captured::recorder;
use crate::check;
use crate::claim::{CLAIMS_SCHEMA, Claim, System};
use crate::error::{Error, Problem};
use crate::keys;
use crate::paper::{Manifest, PAPER_SCHEMA};
use crate::parts::{self, Parts};
use crate::record::Record;
use crate::simulated::Simulated;

/// What records are compared with: the keys of today's kernel, emulators and simulator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keys {
    /// Of the kernel series in the tree.
    pub kernel: String,
    /// Of the parts of that, by [`parts::of_tree`].
    pub parts: Parts,
    /// Of the parts of each port, by [`parts::of_ports`].
    pub port_parts: BTreeMap<String, Parts>,
    /// Of each port of it, by the version of Linux that it is to.
    pub ports: BTreeMap<String, String>,
    /// Of each emulator's patches in the tree, by the engine's name.
    pub emulators: BTreeMap<String, String>,
    /// Of the programs that run in emulated hosts and their guests, by [`keys::programs`].
    pub programs: BTreeMap<String, String>,
    /// What the simulator of TLB coherence gives and does, by the word that claims have for it as
    /// their scenario.
    pub simulated: BTreeMap<String, Simulated>,
}

impl Keys {
    /// The keys of the tree at `root`; what the simulator gives, with its keys, is of the caller,
    /// which can run it.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn of_tree(root: &Path, simulated: BTreeMap<String, Simulated>) -> Result<Self, Error> {
        Ok(Self {
            kernel: keys::kernel(root)?,
            parts: parts::of_tree(root)?,
            port_parts: parts::of_ports(root)?,
            ports: keys::ports(root)?,
            emulators: keys::emulators(root)?,
            programs: keys::programs(root)?,
            simulated,
        })
    }

    /// The key of the kernel that a claim is raced on; empty where `linux/ports` lacks it.
    #[must_use]
    pub fn kernel_of(&self, claim: &Claim) -> &str {
        match &claim.kernel {
            None => &self.kernel,
            Some(version) => self.ports.get(version).map_or("", String::as_str),
        }
    }

    /// The parts of the kernel that a claim is raced on; `None` where `linux/ports` lacks it.
    fn parts_of(&self, claim: &Claim) -> Option<&Parts> {
        match &claim.kernel {
            None => Some(&self.parts),
            Some(version) => self.port_parts.get(version),
        }
    }

    /// The key of what is simulated for a claim; empty where its scenario is not known. That of a
    /// captured claim has the word [`SIMULATED`](crate::Captured::SIMULATED) or
    /// [`CHANGED`](crate::Captured::CHANGED).
    #[must_use]
    pub fn simulator(&self, claim: &Claim) -> &str {
        let captured = claim.captured.as_ref();
        let word = captured.map_or(claim.scenario.as_str(), |of| of.word());
        let found = self.simulated.get(word);
        found.map_or("", |simulated| simulated.key.as_str())
    }

    /// The key of the emulator of an engine; empty where there is none.
    #[must_use]
    pub fn emulator(&self, engine: &str) -> &str {
        self.emulators.get(engine).map_or("", String::as_str)
    }

    /// The key of the emulator that races a claim. A capture is of a build with more patches.
    #[must_use]
    pub fn emulator_of(&self, claim: &Claim) -> String {
        let own = self.emulator(&claim.engine);
        match claim.captured {
            None => own.to_owned(),
            Some(_) => format!("{own}-{}", self.emulator(&recorder(&claim.engine))),
        }
    }
}

/// The evidence of one project.
#[derive(Debug)]
pub struct House {
    /// The project's root.
    pub root: PathBuf,
    /// Today's keys.
    pub keys: Keys,
    /// The systems, in the order of the scoreboard.
    pub systems: Vec<System>,
    /// The papers, by name.
    pub papers: Vec<Manifest>,
    /// The records that there are, in the order of the claims.
    pub records: Vec<Record>,
    /// The scenarios that claims name, by their paths in claims.
    scenarios: BTreeMap<String, Scenario>,
    /// The parts of the kernels that records are of, by the kernels' keys.
    pub(crate) kernels: BTreeMap<String, Parts>,
    /// What is wrong with those that cannot be read.
    pub(crate) unread: Vec<Problem>,
    /// Comparisons that were made, by claim and base.
    compared: RefCell<Comparisons>,
}

/// Comparisons by claim and base; `None` where there is nothing to compare.
type Comparisons = BTreeMap<(String, String), Option<Rc<Compared>>>;

/// What the variants of a claim's race are beside each other. All that the race's claims set
/// beside one base is judged together, so that a comparison has one verdict in whichever claim it
/// stands.
#[derive(Debug)]
pub(crate) struct Compared {
    /// The variants, in the order of the cells.
    pub variants: Vec<String>,
    /// The rows.
    pub comparison: Comparison,
}

impl House {
    /// Of a record that does not name the programs it was raced with.
    pub(crate) const NOT_KEYED: &'static str = "programs not keyed";
    /// Of a record that was raced with other programs than today's.
    pub(crate) const CHANGED: &'static str = "programs changed since";

    /// Reads `evidence/` below `root`.
    ///
    /// # Errors
    /// [`Error`] with the first file that cannot be read; contradictions are [`crate::check`]'s.
    pub fn load(root: &Path, keys: Keys) -> Result<Self, Error> {
        let evidence = root.join("evidence");
        let mut systems: Vec<System> = read_all(&evidence.join("claims"))?;
        let place = |system: &System| system.score.as_ref().map_or(u32::MAX, |score| score.place);
        systems.sort_by_key(place);
        let papers: Vec<Manifest> = read_all(&evidence.join("papers"))?;
        let mut house = Self {
            root: root.to_owned(),
            keys,
            systems,
            papers,
            records: Vec::new(),
            scenarios: BTreeMap::new(),
            kernels: parts::of_records(root)?,
            unread: Vec::new(),
            compared: RefCell::default(),
        };
        for race in house.races() {
            if !race.is_simulated() {
                match Scenario::load(house.root.join(&race.scenario)) {
                    Ok(scenario) => drop(house.scenarios.insert(race.scenario.clone(), scenario)),
                    Err(error) => house.unread.push(Problem::new(
                        format!("race `{}`", race.id),
                        format!("its scenario cannot be read: {error}"),
                    )),
                }
            }
            match Record::load(&house.root, &race) {
                Ok(record) => house.records.extend(record),
                Err(error) => {
                    // A measure that no race gives is why a record lacks it.
                    let claims = house.claims().filter(|claim| claim.race() == race.id);
                    let problems: Vec<Problem> = claims
                        .flat_map(|claim| check::of_measures(&house, claim))
                        .collect();
                    return Err(if problems.is_empty() {
                        error
                    } else {
                        Error::Unsound { problems }
                    });
                }
            }
        }
        Ok(house)
    }

    /// The scenario of a claim; `None` for simulated ones and unreadable files.
    #[must_use]
    pub fn scenario(&self, claim: &Claim) -> Option<&Scenario> {
        self.scenarios.get(&claim.scenario)
    }

    /// Every claim, in the order of the pages.
    pub fn claims(&self) -> impl Iterator<Item = &Claim> {
        self.systems.iter().flat_map(|system| &system.claims)
    }

    /// Every race: the claims that share one, as one claim with all their variants and rows.
    #[must_use]
    pub fn races(&self) -> Vec<Claim> {
        let mut races: Vec<Claim> = Vec::new();
        for claim in self.claims() {
            match races.iter_mut().find(|race| race.id == claim.race()) {
                Some(race) => race.merge(claim),
                None => {
                    let mut race = claim.clone();
                    claim.race().clone_into(&mut race.id);
                    race.race = None;
                    races.push(race);
                }
            }
        }
        races
    }

    /// The claim of that word.
    ///
    /// # Errors
    /// [`Error::Unknown`] with the claims that there are.
    pub fn claim(&self, id: &str) -> Result<&Claim, Error> {
        let found = self.claims().find(|claim| claim.id == id);
        let known = self.claims().map(|claim| claim.id.as_str());
        found.ok_or_else(|| unknown(&self.root, "claim", id, known))
    }

    /// The paper of that word.
    ///
    /// # Errors
    /// [`Error::Unknown`] with the papers that there are.
    pub fn paper(&self, name: &str) -> Result<&Manifest, Error> {
        let found = self.papers.iter().find(|paper| paper.paper == name);
        let known = self.papers.iter().map(|paper| paper.paper.as_str());
        found.ok_or_else(|| unknown(&self.root, "paper", name, known))
    }

    /// What was recorded of a claim's race, if anything.
    #[must_use]
    pub fn record(&self, claim: &Claim) -> Option<&Record> {
        self.records.iter().find(|record| record.id == claim.race())
    }

    /// A claim's variants against one of them; `None` where it is not recorded.
    pub(crate) fn compared(&self, claim: &Claim, base: &str) -> Option<Rc<Compared>> {
        let key = (claim.id.clone(), base.to_owned());
        if let Some(known) = self.compared.borrow().get(&key) {
            return known.clone();
        }
        let made = self.compare(claim, base).map(Rc::new);
        self.compared.borrow_mut().insert(key, made.clone());
        made
    }

    fn compare(&self, claim: &Claim, base: &str) -> Option<Compared> {
        let mut result = self.record(claim)?.result.clone();
        let same = |other: &&Claim| other.race() == claim.race() && other.base == base;
        let mut beside: Vec<&str> = self
            .claims()
            .filter(same)
            .flat_map(Claim::all_variants)
            .collect();
        if !beside.is_empty() {
            // An item may ask for a variant of its claim beside another claim's base.
            beside.extend(claim.all_variants());
        }
        claim.add_derived(&mut result);
        // A base that no claim has is a paper's.
        let variants = &mut result.variants;
        variants.retain(|one| beside.is_empty() || beside.contains(&one.name.as_str()));
        Some(Compared {
            comparison: Comparison::new(&result, Some(base)).ok()?,
            variants: result.variants.into_iter().map(|one| one.name).collect(),
        })
    }

    /// What must be said of the programs in host and guests that a record was raced with: a change
    /// of them alone does not make it old. `None` for those of today, as far as the race has them.
    #[must_use]
    pub fn programs(&self, claim: &Claim) -> Option<&'static str> {
        let record = self.record(claim).filter(|_| !claim.is_simulated())?;
        let line = record.key(Record::PROGRAMS);
        if line.is_empty() {
            return Some(Self::NOT_KEYED);
        }
        let raced_with = |name: &str| {
            let mut words = line.split(' ').filter_map(|word| word.split_once('='));
            words.find(|(known, _)| *known == name).map(|(_, key)| key)
        };
        let same =
            |name: &str| raced_with(name) == self.keys.programs.get(name).map(String::as_str);
        let scenario = self.scenario(claim);
        let all_same = scenario.is_some_and(|scenario| programs_of(scenario).into_iter().all(same));
        (!all_same).then_some(Self::CHANGED)
    }

    /// The remedies in which the kernel changed since a claim was recorded, where nothing else of
    /// it did, and these variants have them off; empty for today's kernel and for one that makes
    /// them old.
    #[must_use]
    pub fn kernel_changed(&self, claim: &Claim, variants: &[&str]) -> Vec<&'static str> {
        let found = self.record(claim).map(|record| record.key(Record::KERNEL));
        let found = found.filter(|found| *found != self.keys.kernel_of(claim));
        let then = found.and_then(|found| self.kernels.get(found));
        let (Some(then), Some(now)) = (then, self.keys.parts_of(claim)) else {
            return Vec::new();
        };
        let recorded = claim.captured.as_ref().and_then(|of| of.of.as_deref());
        let raced = recorded.as_ref().map_or(variants, std::slice::from_ref);
        let off = |name: &&str| self.have_off(claim, raced, name);
        let differ = parts::differ_in(then, now).filter(|names| names.iter().all(off));
        differ.unwrap_or_default()
    }

    /// Whether none of these variants of a claim's scenario has the remedy on.
    fn have_off(&self, claim: &Claim, variants: &[&str], remedy: &str) -> bool {
        let has = |variant: &Variant| variant.remedies.iter().any(|on| on.remedy.name == remedy);
        self.scenario(claim).is_some_and(|scenario| {
            let found = |name: &str| scenario.variants.iter().find(|one| one.name == name);
            let off = |name: &&str| found(name).is_some_and(|variant| !has(variant));
            variants.iter().all(off)
        })
    }

    /// Whether what was recorded of a claim is of another kernel, emulator or simulator than
    /// today's; the key that it is of.
    #[must_use]
    pub fn old(&self, claim: &Claim) -> Option<String> {
        let variants: Vec<&str> = claim.all_variants().collect();
        self.old_of(claim, &variants)
    }

    /// The same of some of the claim's variants: the kernel may have changed in what they have off.
    #[must_use]
    pub fn old_of(&self, claim: &Claim, variants: &[&str]) -> Option<String> {
        let record = self.record(claim)?;
        let simulated = claim.is_simulated() || claim.captured.is_some();
        let keys = [
            (
                Record::SIMULATOR,
                "simulator",
                simulated,
                self.keys.simulator(claim).to_owned(),
            ),
            (
                Record::KERNEL,
                "kernel",
                !claim.is_simulated(),
                self.keys.kernel_of(claim).to_owned(),
            ),
            (
                Record::EMULATOR,
                "emulator",
                !claim.is_simulated(),
                self.keys.emulator_of(claim),
            ),
        ];
        let mut keys = keys.into_iter().filter(|(_, _, depends, _)| *depends);
        keys.find_map(|(key, kind, _, today)| {
            let found = record.key(key);
            let off = || !self.kernel_changed(claim, variants).is_empty();
            let same = found == today || key == Record::KERNEL && off();
            (!same).then(|| format!("{kind} {}", short(found)))
        })
    }
}

/// The first digits of a key.
pub(crate) fn short(key: &str) -> &str {
    key.get(..8).unwrap_or(key)
}

fn unknown<'a>(
    root: &Path,
    what: &'static str,
    wanted: &str,
    known: impl Iterator<Item = &'a str>,
) -> Error {
    let known: Vec<&str> = known.collect();
    if known.is_empty() {
        let (wanted, folder) = (wanted.to_owned(), root.join("evidence"));
        return Error::None {
            what,
            wanted,
            folder,
        };
    }
    let near = nearest(wanted, known.iter().copied());
    let hint = near.map_or(String::new(), |near| format!("`; did you mean `{near}"));
    Error::Unknown {
        what,
        wanted: format!("{wanted}{hint}"),
        known: known.into_iter().map(str::to_owned).collect(),
    }
}

/// A document that says its schema and its own name.
pub(crate) trait Document: DeserializeOwned {
    /// The newest schema that is read.
    const SCHEMA: u32;
    /// The schema that the file says.
    fn schema(&self) -> u32;
    /// The name that the file says, which is its stem.
    fn name(&self) -> &str;
}

impl Document for System {
    const SCHEMA: u32 = CLAIMS_SCHEMA;
    fn schema(&self) -> u32 {
        self.schema
    }
    fn name(&self) -> &str {
        &self.system
    }
}

impl Document for Manifest {
    const SCHEMA: u32 = PAPER_SCHEMA;
    fn schema(&self) -> u32 {
        self.schema
    }
    fn name(&self) -> &str {
        &self.paper
    }
}

/// Every `*.toml` of a folder, by name; none where there is no such folder.
fn read_all<T: Document>(folder: &Path) -> Result<Vec<T>, Error> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(Error::file("read", folder, error)),
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|end| end == "toml"))
        .collect();
    paths.sort();
    paths.iter().map(|path| read(path)).collect()
}

fn read<T: Document>(path: &Path) -> Result<T, Error> {
    let text = fs::read_to_string(path).map_err(|error| Error::file("read", path, error))?;
    let wrong = |text: String| Error::Syntax {
        path: path.to_owned(),
        text,
    };
    let found: T = toml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    if found.schema() != T::SCHEMA {
        return Err(wrong(format!(
            "schema is {}, expected {}",
            found.schema(),
            T::SCHEMA
        )));
    }
    let stem = path.file_stem().map(|stem| stem.to_string_lossy());
    if stem.as_deref() != Some(found.name()) {
        return Err(wrong(format!(
            "it says that it is `{}`; expected the file's own name",
            found.name()
        )));
    }
    Ok(found)
}

/// The programs of this project in the images of a scenario, as [`keys::programs`] names them.
fn programs_of(scenario: &Scenario) -> BTreeSet<&str> {
    let mut names = BTreeSet::from([keys::OF_MACHINES]);
    let mut remedies = scenario
        .variants
        .iter()
        .flat_map(|variant| &variant.remedies);
    if remedies.any(|on| !on.remedy.is_of_kernel()) {
        names.insert(keys::OF_STEER);
    }
    let of_vms = scenario.vms.iter().flat_map(|vm| &vm.workloads);
    let all = of_vms.chain(&scenario.host.workloads);
    let known = all.filter_map(|workload| workload.program.known());
    let known = known.filter_map(|program| find(program.name).ok());
    names.extend(known.flat_map(|program| program.own_binaries));
    names
}
