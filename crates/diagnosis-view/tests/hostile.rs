// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Any events in any order, at any times: drawings are made without a panic and stay bounded.

use proptest::prelude::*;
use steady_diagnose::Analysis;
use steady_diagnosis_view::{Perfetto, Picture};

#[path = "../../diagnose/tests/any_events/mod.rs"]
mod any_events;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn no_order_of_events_panics_or_makes_a_picture_grow(
        events in any_events::events(),
        with_returns in any::<bool>(),
    ) {
        let mut analysis = Analysis::default();
        analysis.boosts.with_returns = with_returns;
        let mut drawing = Perfetto::new(Vec::new()).unwrap();
        let mut picture = Picture::default();
        for event in &events {
            let effect = analysis.event(event);
            drawing.event(event, effect, &analysis).unwrap();
            picture.event(event, effect, &analysis);
        }
        let picture = picture.finish();
        prop_assert!(picture.rows.iter().all(|row| row.pieces.len() <= 2 * 2048));
    }
}
