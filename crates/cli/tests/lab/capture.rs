// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Whole emulated hosts are recorded: with every access true by the recorded tables, and the same
//! bytes each time.

use crate::support::{ONE_VM, Place, ends_well, steady};

#[test]
#[ignore = "builds another Bochs: minutes"]
fn a_captured_host_is_the_same_each_time_and_all_its_accesses_agree() {
    let place = Place::beside();
    let scenario = place.scenario(ONE_VM, "");
    let captured = |name: &str, accesses: &str| {
        let trace = place.path(name);
        let output = steady()
            .args(["coherence", "capture", "--max-accesses", accesses, "--host"])
            .arg(&scenario)
            .arg("-o")
            .arg(&trace)
            .output()
            .unwrap();
        (output, trace)
    };
    let said = ["one.sht", "other.sht"].map(|name| {
        let (output, trace) = captured(name, "400000");
        ends_well(&output);
        assert!(
            place
                .path(&format!("{name}.run/test/bochs/result.json"))
                .is_file()
        );
        let said = String::from_utf8(output.stdout).unwrap();
        let (first, rest) = said.split_once('\n').unwrap();
        let digest = first.rsplit(' ').next().unwrap().to_owned();
        (digest, rest.to_owned(), std::fs::read(trace).unwrap())
    });
    let (digest, counts, bytes) = &said[0];
    assert_eq!(digest, &said[1].0);
    assert!(bytes == &said[1].2, "the same bytes");
    assert_eq!(digest, &steady_measures::sha256_hex(bytes));
    assert!(counts.contains("accesses of VPID 1,"), "{counts}");
    assert!(counts.ends_with("0 do not agree\n"), "{counts}");
    // More than the run has: nothing is left that looks like a trace.
    let (output, trace) = captured("long.sht", "100000000000");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !trace.exists(), "{said}");
    assert!(said.contains("before all accesses were recorded"), "{said}");
}
