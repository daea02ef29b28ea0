// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Which claims share a race, and what does a race add to its record?

use steady_evidence::Record;

use crate::common::{CLAIMS_FILE, Project};

#[test]
fn claims_of_one_race_have_bases_of_their_own() {
    let project = Project::bare();
    project.change(
        "scenarios/pair.toml",
        "{ name = \"shoot4u\"",
        "{ name = \"third\" }, { name = \"shoot4u\"",
    );
    let text = project.read(CLAIMS_FILE);
    let claim = &text[text.find("[[claim]]").unwrap()..];
    let second = claim.replace("id = \"tail\"", "id = \"second\"\nrace = \"tail\"");
    let second = second.replace("base = \"stock\"", "base = \"shoot4u\"");
    let second = second.replace("variants = [\"shoot4u\"]", "variants = [\"third\"]");
    let second = second.replace("subject = \"Shootdowns\"", "subject = \"Others\"");
    project.write(CLAIMS_FILE, &(text.clone() + &second));
    let house = project.house();
    let [race] = house.races().try_into().unwrap();
    let all: Vec<&str> = race.all_variants().collect();
    assert_eq!(all, ["stock", "shoot4u", "third"]);
    project.save_record(8);
    project.render();
    assert_eq!(project.problems(), Vec::<String>::new());
    let page = project.read("docs/validation/shoot4u.md");
    let commands = "\n# Shootdowns; Others\nsteady evidence run tail\n";
    assert!(page.contains(commands), "{page}");
    assert_eq!(page.matches("steady evidence run").count(), 1, "{page}");
    let house = project.house();
    let entries = |id: &str| steady_evidence::entries(&house, house.claim(id).unwrap());
    let ratio = |id: &str| {
        let [entry] = entries(id).try_into().unwrap();
        // Logarithms are rounded to a millionth.
        let ratio = entry.cell.ratio.unwrap().ratio_ppm;
        (entry.base, entry.variant, (ratio + 5) / 10 * 10)
    };
    assert_eq!(ratio("tail"), ("stock".into(), "shoot4u".into(), 50_000));
    assert_eq!(
        ratio("second"),
        ("shoot4u".into(), "third".into(), 2_000_000)
    );
    // An item of the first claim beside the second one's base, which lacks this variant.
    let tail = house.claim("tail").unwrap();
    let turned = steady_evidence::entry(&house, tail, &tail.rows[0], "stock", Some("shoot4u"));
    let ratio = turned.unwrap().cell.ratio.unwrap().ratio_ppm;
    assert_eq!((ratio + 50) / 100 * 100, 20_000_000);
}

#[test]
fn a_variant_that_a_record_lacks_is_added_to_it() {
    let project = Project::bare();
    project.save_record(8);
    let house = project.house();
    let mut race = house.races().remove(0);
    let record = house.records[0].clone();
    race.variants.push("third".to_owned());
    assert_eq!(record.seeds(&race), [0_u64; 0]);
    assert_eq!(record.lacking(&race, 3), ["third"]);
    assert_eq!(record.lacking(&race, 9), ["stock", "shoot4u", "third"]);
    let mut part = race.clone();
    (part.base, part.variants) = ("third".to_owned(), Vec::new());
    let mut result = project.result(8);
    let conditions = ("conditions.third".to_owned(), "as ever".to_owned());
    result.config.extend([conditions]);
    let piece = Record::reduced(result, &part, &house.keys).unwrap();
    // Its images say that the programs are the same, though it has no key of them.
    let mut earlier = record.clone();
    earlier.result.config.remove(Record::PROGRAMS);
    earlier.result.seal();
    let mut others = earlier.clone();
    let image = ("image_sha256".to_owned(), "00".to_owned());
    others.result.config.extend([image]);
    let (_, changed) = others.joined(piece.clone()).unwrap();
    assert_eq!(changed.as_deref(), Some("image_sha256"));
    let (whole, changed) = earlier.joined(piece).unwrap();
    assert_eq!(changed, None);
    let claim = house.claims().next().unwrap();
    assert!(whole.key(Record::PROGRAMS).contains("machines="));
    assert_eq!(house.programs(claim), None);
    assert_eq!(whole.seeds(&race), (1..=8).collect::<Vec<u64>>());
    assert_eq!(whole.result.partial, None);
}
