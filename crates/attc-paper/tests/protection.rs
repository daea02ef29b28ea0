// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The run of section 5: does it attempt what Table 4 refuses, and would it notice if it worked?

use steady_attc_paper::{Protection, Settings, protection};
use steady_coherence::Fault;

fn run(fault: Option<Fault>) -> Protection {
    protection(&Settings::full(), fault).expect("a valid run")
}

#[test]
fn each_attempt_of_table_4_is_made_and_gets_the_table_s_answer() {
    let found = run(None);
    for (name, tried) in Protection::names().iter().zip(&found.tried) {
        assert!(tried.times > 50, "{name}: {tried:?}");
        let answers = (tried.refused, tried.filtered, tried.allowed);
        let expected = match *name {
            "guest, ATLB w" => (0, tried.times, 0),
            "host, INV r" | "host, INV w" => (0, 0, tried.times),
            _ => (tried.times, 0, 0),
        };
        assert_eq!(answers, expected, "{name}");
        if tried.refused > 0 {
            assert_eq!((tried.own_dropped, tried.others_dropped), (0, 0), "{name}");
        }
        // A guest names the other VM's sets and gets none of its entries.
        if tried.filtered > 0 {
            assert_eq!(tried.others_dropped, 0, "{name}");
        }
    }
    assert_eq!((found.violations, found.broken), (0, None));
    assert!(found.checked > 1_000_000);
}

#[test]
fn pages_of_more_names_than_ways_displace_pointers_and_cleaned_pages_get_dirty_again() {
    let found = run(None);
    assert_eq!(found.pointers_followed_at_most, 4);
    assert!(found.pointer_evictions > 0);
    assert!(found.cleaned > 100);
    assert!(found.set_dirty > found.cleaned);
    assert_eq!(found.violations, 0);
}

#[test]
fn a_gate_that_lets_refused_writes_through_is_noticed() {
    assert!(run(Some(Fault::Ungated)).violations > 0);
}
