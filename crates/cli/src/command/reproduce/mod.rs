// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `steady reproduce`: every item of a paper beside what is recorded, and beside what is measured
//! now where that is asked for.

mod attc;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use anyhow::bail;
use serde_json::{Value, json};
use steady_evidence::moved;
use steady_evidence::verdict::{self, Set, Verdict};
use steady_evidence::words::wrapped;
use steady_evidence::{Bound, Claim, Claimed, House, Manifest, Piece, Why, conditions_line, score};
use steady_measures::{RunResult, Unit};
use steady_report::humane;

use crate::arguments::evidence::{Paper, Reproduce};
use crate::command::evidence::house;
use crate::command::evidence::run::raced;
use crate::progress::Show;

/// Version of the JSON document; see `docs/formats/reproduction.md`.
const VERSION: u32 = 4;
const INFALLIBLE: &str = "writing to a String cannot fail";

/// Prints a paper's items, or runs what is beyond them; exit code 5 if the oracle found a fault.
pub fn reproduce(arguments: &Reproduce) -> anyhow::Result<ExitCode> {
    if arguments.paper != Paper::Attc {
        let of_attc = arguments.short
            || arguments.beyond
            || arguments.calibrate
            || arguments.check
            || arguments.seeds.is_some();
        if of_attc {
            bail!("--short, --beyond, --calibrate, --seeds and --check are of `reproduce attc`");
        }
    }
    if arguments.beyond || arguments.calibrate {
        return attc::aside(arguments);
    }
    let house = house()?;
    let paper = house.paper(arguments.paper.name())?;
    let mut ran = None;
    let now = match (arguments.run, arguments.paper) {
        (false, _) => BTreeMap::new(),
        (true, Paper::Attc) => {
            let found = ran.insert(attc::run(arguments)?);
            BTreeMap::from([("attc-paper".to_owned(), found.result.clone())])
        }
        (true, _) => measure(&house, paper, arguments.programs.as_deref())?,
    };
    if let Some(path) = &arguments.output {
        match now.values().next() {
            Some(result) if now.len() == 1 => result.save_atomic(path)?,
            _ => bail!(
                "-o takes the result of one race, and {} were made",
                now.len()
            ),
        }
    }
    let only = wanted(arguments.verdict.as_deref())?;
    let mut sets = verdict::beside(&house, paper);
    sets.retain(|set| only.is_none_or(|only| set.verdict == only));
    let page = Page {
        house: &house,
        paper,
        now,
    };
    let mut out = std::io::stdout().lock();
    if arguments.json {
        let mut document = page.json(&sets);
        document["simulation"] = ran.as_ref().map(|ran| ran.body.clone()).into();
        writeln!(out, "{document:#}")?;
    } else {
        out.write_all(page.text(&sets).as_bytes())?;
        if let Some(ran) = &ran {
            writeln!(out, "\n{}", ran.text)?;
        }
    }
    let violations = ran.map_or(0, |ran| ran.violations);
    if violations > 0 {
        talk!("steady: the oracle found {violations} accesses through revoked translations");
        return Ok(ExitCode::from(5));
    }
    Ok(ExitCode::SUCCESS)
}

/// The verdict that is asked for.
fn wanted(word: Option<&str>) -> anyhow::Result<Option<Verdict>> {
    let Some(word) = word else { return Ok(None) };
    let spelt = |verdict: &Verdict| verdict.as_str().replace(' ', "-");
    match Verdict::ALL.iter().find(|verdict| spelt(verdict) == word) {
        Some(found) => Ok(Some(*found)),
        None => {
            let known: Vec<String> = Verdict::ALL.iter().map(spelt).collect();
            bail!("no verdict `{word}`; expected one of {}", known.join(", "))
        }
    }
}

/// One run of each claim that the paper's items name.
fn measure(
    house: &House,
    paper: &Manifest,
    programs: Option<&Path>,
) -> anyhow::Result<BTreeMap<String, RunResult>> {
    let show = Show::new();
    let mut found = BTreeMap::new();
    let named = paper.items.iter().filter_map(|item| item.here.as_ref());
    for here in named {
        if found.contains_key(&here.claim) {
            continue;
        }
        let claim = house.claim(&here.claim)?;
        if let (Some(whose), None) = (&claim.brought, programs) {
            let id = &claim.id;
            talk!("{id} is left out: it races {whose}; see --programs");
            continue;
        }
        let piece = Piece {
            claim: claim.id.clone(),
            seed: claim.first_seed,
            why: Why::Again,
        };
        let out = Path::new("out/reproduce");
        let result = raced(house, claim, &piece, out, programs, &show)?;
        found.insert(claim.id.clone(), result);
    }
    Ok(found)
}

/// What is printed of a paper.
struct Page<'a> {
    house: &'a House,
    paper: &'a Manifest,
    /// Results measured now, by claim.
    now: BTreeMap<String, RunResult>,
}

impl Page<'_> {
    fn text(&self, sets: &[Set<'_>]) -> String {
        let paper = self.paper;
        let mut text = String::new();
        writeln!(text, "{} ({})", paper.title, paper.venue).expect(INFALLIBLE);
        put(
            &mut text,
            "",
            &format!("the paper's set-up: {}", paper.conditions),
        );
        let mut claims: Vec<&Claim> = Vec::new();
        for set in sets {
            self.item(&mut text, set);
            let claim = set
                .item
                .here
                .as_ref()
                .and_then(|here| self.house.claim(&here.claim).ok());
            if let Some(claim) = claim
                && !claims.iter().any(|known| known.id == claim.id)
            {
                claims.push(claim);
            }
        }
        if !claims.is_empty() {
            text.push_str("\nConditions of the races:\n");
        }
        for claim in claims {
            let line = conditions_line(self.house, claim);
            put(&mut text, "  ", &format!("{}: {line}", claim.id));
        }
        let counts = Verdict::ALL.map(|one| format!("{} {}", one.count(sets), one.as_str()));
        writeln!(text, "\n{} items: {}", sets.len(), counts.join(", ")).expect(INFALLIBLE);
        text
    }

    fn item(&self, text: &mut String, set: &Set<'_>) {
        let item = set.item;
        let mut head = format!("{}: {}; paper: {}", item.place, item.what, item.value);
        if let Some(claimed) = item.claimed() {
            head.push_str(&format!(" ({claimed})"));
        }
        text.push('\n');
        put(text, "", &head);
        let mut line = String::new();
        if let Some(entry) = &set.entry {
            line.push_str(&format!("recorded: {} `{}`", entry.value(), entry.variant));
            if entry.cell.ratio.is_some() {
                let runs = entry.runs();
                line.push_str(&format!(
                    ", {} of `{}`, {runs} runs",
                    entry.ratio(),
                    entry.base
                ));
            }
            line.push_str("; ");
        }
        if let Some(tally) = set.tally {
            let beyond = item.here.as_ref().and_then(|here| here.beyond.as_ref());
            let beyond = beyond.map(ToString::to_string).unwrap_or_default();
            line.push_str(&format!("beyond ×{beyond}: {tally}; "));
        }
        if let Some((than, order)) = set.than() {
            let claim = than.claim.as_ref().map(|claim| format!("{claim} "));
            let (claim, row, ratio) = (claim.unwrap_or_default(), &than.row, humane::ratio(order));
            line.push_str(&format!("over that of {claim}{row}: {ratio}; "));
        }
        if let Some(now) = self.now_of(set) {
            line.push_str(&format!("now: {now}; "));
        }
        line.push_str(set.verdict.as_str());
        if let Some(old) = set.entry.as_ref().and_then(|entry| entry.old.as_ref()) {
            line.push_str(&format!(" ({old})"));
        }
        if let Some(because) = set.because {
            line.push_str(&format!(", because: {because}"));
        }
        if let Some(moved) = moved::words(self.house, set) {
            line.push_str(&format!(" {moved}."));
        }
        put(text, "  ", &line);
    }

    /// What was measured now of an item.
    fn now_of(&self, set: &Set<'_>) -> Option<String> {
        let here = set.item.here.as_ref()?;
        let mut claim = self.house.claim(&here.claim).ok()?.clone();
        if let Some(base) = &here.base {
            claim.base.clone_from(base);
        }
        let row = claim.row(&here.row)?.clone();
        score::now(self.now.get(&here.claim)?, &claim, &row, &here.variant)
    }

    fn json(&self, sets: &[Set<'_>]) -> Value {
        let item = |set: &Set<'_>| {
            let entry = set.entry.as_ref();
            let ratio = entry.and_then(|entry| entry.cell.ratio);
            let counted = set.tally.and(set.item.number.as_ref());
            let number = match counted.and_then(steady_evidence::Number::whole) {
                Some(count) => Some(match set.item.bound {
                    Some(Bound::AtLeast) => (count, i64::MAX),
                    Some(Bound::AtMost) => (i64::MIN, count),
                    None => (count, count),
                }),
                None => entry.and_then(|entry| set.item.numbers(entry.unit == Unit::Ppm)),
            };
            let ended = |end: i64| (end != i64::MIN && end != i64::MAX).then_some(end);
            let open = |ppm: u64| (ppm != 0 && ppm != u64::MAX).then_some(ppm);
            let (paper, between) = match set.item.claimed() {
                Some(Claimed::Point(ppm)) => (Some(ppm), None),
                Some(Claimed::Between(least, most)) => (None, Some([open(least), open(most)])),
                None => (None, None),
            };
            json!({
                "id": set.item.id,
                "place": set.item.place,
                "what": set.item.what,
                "value": set.item.value,
                "paper_ratio_ppm": paper,
                "paper_range_ppm": between,
                "paper_number": number.map(|(least, most)| [ended(least), ended(most)]),
                "expect": set.item.expect.map(steady_evidence::Expect::as_str),
                "claim": set.item.here.as_ref().map(|here| &here.claim),
                "row": set.item.here.as_ref().map(|here| &here.row),
                "variant": entry.map(|entry| &entry.variant),
                "base": entry.map(|entry| &entry.base),
                "unit": entry.map(|entry| entry.unit.as_str()),
                "median": entry.map(|entry| entry.cell.median),
                "runs": entry.map(steady_evidence::Entry::runs),
                "ratio_ppm": ratio.map(|ratio| ratio.ratio_ppm),
                "interval_ppm": ratio.map(|ratio| [ratio.low_ppm, ratio.high_ppm]),
                "rows_beyond": set.tally.map(|one| [one.surely, one.at_most, one.of]),
                "order": set.than().map(|(than, order)| json!({
                    "claim": than.claim.as_ref().or(set.item.here.as_ref().map(|here| &here.claim)),
                    "row": than.row,
                    "ratio_ppm": order.ratio_ppm,
                    "interval_ppm": [order.low_ppm, order.high_ppm],
                })),
                "range": entry.map(|entry| [entry.cell.min, entry.cell.max]),
                "now": self.now_of(set),
                "verdict": set.verdict,
                "because": set.because,
                "moved_by": moved::words(self.house, set),
                "old": entry.and_then(|entry| entry.old.as_ref()),
            })
        };
        let mut conditions = BTreeMap::new();
        for here in sets.iter().filter_map(|set| set.item.here.as_ref()) {
            if let Ok(claim) = self.house.claim(&here.claim) {
                let line = conditions_line(self.house, claim);
                conditions.insert(claim.id.clone(), line);
            }
        }
        json!({
            "schema": "steady.reproduction",
            "version": VERSION,
            "tool": concat!("steady ", env!("CARGO_PKG_VERSION")),
            "paper": self.paper.paper,
            "title": self.paper.title,
            "venue": self.paper.venue,
            "paper_conditions": self.paper.conditions,
            "conditions": conditions,
            "items": sets.iter().map(item).collect::<Vec<_>>(),
        })
    }
}

/// Appends a paragraph in lines of at most 100 columns.
fn put(text: &mut String, lead: &str, words: &str) {
    text.push_str(&wrapped(lead, words));
    text.push('\n');
}
