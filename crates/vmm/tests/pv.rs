// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Choosing paravirtual features by name and by number.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use proptest::prelude::*;
use steady_vmm::pv::{Bit, Choice, Error, FEATURES, NumberedChoice, apply};

fn choice(text: &str) -> Result<Choice, Error> {
    text.parse()
}

#[test]
fn names_mean_the_bits_of_the_kernel_header() {
    // From arch/x86/include/uapi/asm/kvm_para.h of Linux 6.12.
    for (text, bit) in [
        ("clocksource=off", 0),
        ("clocksource2=off", 3),
        ("async-pf=off", 4),
        ("steal-time=off", 5),
        ("pv-eoi=off", 6),
        ("unhalt=off", 7),
        ("tlb-flush=off", 9),
        ("ipi=off", 11),
        ("poll-control=off", 12),
        ("sched-yield=off", 13),
        ("migration-control=off", 17),
        ("clocksource-stable=off", 24),
    ] {
        assert_eq!(
            choice(text),
            Ok(Choice {
                bit: Bit::Feature(bit),
                on: false
            })
        );
        assert_eq!(
            apply(u32::MAX, 0, &[choice(text).unwrap()]),
            Ok((!(1 << bit), 0))
        );
    }
}

#[test]
fn the_realtime_hint_is_off_unless_asked_for() {
    assert_eq!(apply(0xff, 0, &[]), Ok((0xff, 0)));
    assert_eq!(
        apply(0xff, 0, &[choice("realtime=on").unwrap()]),
        Ok((0xff, 1))
    );
}

#[test]
fn unknown_feature_names_the_nearest_right_one() {
    let error = choice("tlb-flsh=off").unwrap_err();
    assert!(
        matches!(
            error,
            Error::Unknown {
                nearest: Some("tlb-flush"),
                ..
            }
        ),
        "{error}"
    );
}

#[test]
fn a_feature_like_no_other_gets_no_suggestion() {
    let said = choice("warp-drive=on").unwrap_err().to_string();
    assert!(
        said.starts_with("KVM has no paravirtual feature `warp-drive`. All: clocksource, "),
        "{said}"
    );
}

#[test]
fn a_choice_without_on_or_off_is_refused() {
    for text in ["tlb-flush", "tlb-flush=", "tlb-flush=no", "=on", ""] {
        assert_eq!(choice(text), Err(Error::Form(text.to_owned())));
    }
}

#[test]
fn a_bit_beyond_31_is_refused() {
    for number in ["32", "-1", "x", "1000000000000"] {
        let error = format!("{number}=on")
            .parse::<NumberedChoice>()
            .unwrap_err();
        assert_eq!(error, Error::Bit(number.to_owned()));
    }
}

#[test]
fn a_feature_that_kvm_lacks_cannot_be_insisted_on_but_can_be_off() {
    let numbered = |text: &str| text.parse::<NumberedChoice>().unwrap().0;
    let offered = (1 << 9) | (1 << 11);
    let error = apply(offered, 0, &[numbered("18=on")]).unwrap_err();
    assert_eq!(error, Error::NotOffered(Bit::Feature(18), offered));
    assert!(
        error.to_string().contains("it offers tlb-flush, ipi"),
        "{error}"
    );
    assert_eq!(apply(offered, 0, &[numbered("18=off")]), Ok((offered, 0)));
}

#[test]
fn the_last_choice_for_a_feature_counts() {
    let choices = ["ipi=off", "ipi=on"].map(|text| choice(text).unwrap());
    assert_eq!(apply(1 << 11, 0, &choices), Ok((1 << 11, 0)));
}

proptest! {
    #[test]
    fn no_choice_shows_what_kvm_lacks_or_touches_other_bits(
        offered: u32,
        chosen in prop::collection::vec((0..FEATURES.len(), any::<bool>()), 0..8),
    ) {
        let choices: Vec<Choice> = chosen
            .iter()
            .map(|&(index, on)| Choice { bit: Bit::Feature(FEATURES[index].1), on })
            .collect();
        if let Ok((shown, hints)) = apply(offered, 0, &choices) {
            let named: u32 = chosen.iter().map(|&(index, _)| 1 << FEATURES[index].1)
                .fold(0, |all, bit: u32| all | bit);
            prop_assert_eq!(shown & !offered, 0);
            prop_assert_eq!(shown & !named, offered & !named);
            prop_assert_eq!(hints, 0);
        }
    }
}
