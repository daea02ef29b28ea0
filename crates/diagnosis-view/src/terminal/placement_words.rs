// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Words for what another placement of vCPUs would have given.

use steady_diagnose::{NotPredicted, PlacementTable, Predicted, Reach, TraceDiagnosis};

use super::{counted, percent, time};

/// The heading above these lines.
pub const PLACEMENT: &str = "What placement would give (low confidence)";

/// A VM that would come less far, in thousandths of how far it came, is not in the short text.
const WORTH: u64 = 1050;

/// Of the VMs that would gain: two sentences, or of all VMs everything that is known.
#[must_use]
pub fn placement_lines(trace: &TraceDiagnosis, all: bool) -> Vec<String> {
    // Of a clock that does not count nanoseconds no length of time is known.
    let vms = trace.vms.iter().filter(|_| trace.clock_is_ns);
    let tables = vms.filter_map(|vm| Some((vm, vm.placement.as_ref()?)));
    tables
        .filter(|(_, table)| all || is_worth(table))
        .flat_map(|(vm, table)| lines(&vm.name, table))
        .collect()
}

fn is_worth(table: &PlacementTable) -> bool {
    table
        .reach
        .is_some_and(|reach| reach.likely_permille >= WORTH)
}

fn lines(name: &str, table: &PlacementTable) -> Vec<String> {
    let Some(parted) = table.parted else {
        let why = table.why_not.map_or("nothing is known", why_not);
        return vec![format!("{name}: not predicted: {why}")];
    };
    let first = match table.stacked_ns {
        0 => format!("{name}: its vCPUs never shared a pCPU while another had none of them"),
        _ => format!(
            "{name}: two of its vCPUs shared a pCPU {} of the time while another that they may use \
             had none of them{}. Parted (steady place), {}; by fair shares it would have run {} \
             beside the {} that it ran",
            percent(table.stacked_permille),
            spare(table),
            table.reach.map_or_else(
                || "it has too many vCPUs".to_owned(),
                |reach| format!("it would have come {}", far(reach))
            ),
            difference(parted),
            time(table.ran_ns)
        ),
    };
    vec![first, others(name, table)]
}

fn spare(table: &PlacementTable) -> String {
    let Some(spare) = &table.spare else {
        return String::new();
    };
    let what = match (spare.idle_ns, spare.stranger_ns) {
        (idle_ns, 0) => format!("idled for {}", time(idle_ns)),
        (0, stranger_ns) => format!("ran others for {}", time(stranger_ns)),
        (idle_ns, stranger_ns) => format!(
            "ran others for {} and idled for {}",
            time(stranger_ns),
            time(idle_ns)
        ),
    };
    format!(" (pCPU {} {what})", spare.pcpu)
}

/// Pins, fewer vCPUs, and answers to IPIs for vCPUs that do not run.
fn others(name: &str, table: &PlacementTable) -> String {
    let mut said = vec![match table.pinned {
        Some(pinned) => format!("A pCPU for each vCPU by pins: {}", difference(pinned)),
        None => "Pins: it has more vCPUs than pCPUs that it may use".to_owned(),
    }];
    said.extend(table.fold.as_ref().map(|fold| {
        let reach = fold.reach.map_or_else(
            || "what that gives is not known".to_owned(),
            |reach| format!("with all VMs folded it would have come {}", far(reach)),
        );
        let locks = fold.locks_at_most_ns.map_or_else(String::new, |ns| {
            format!(", with at most the {} spent on locks saved", time(ns))
        });
        format!(
            "Fewer vCPUs (steady fold): {} ran on average while more wanted to, {} of the time; \
             {reach}{locks}",
            counted(usize::try_from(fold.vcpus).unwrap_or(usize::MAX), "vCPU"),
            percent(fold.short_permille)
        )
    }));
    said.push(match table.calls_at_most_ns {
        Some(ns) => format!(
            "Hyper-V's flush, or one by hypercall: at most {} less waiting for IPIs",
            time(ns)
        ),
        None => {
            "Hyper-V's flush, or one by hypercall: not predicted, no IPI was recorded".to_owned()
        }
    });
    format!("{name}: {}", said.join(". "))
}

/// `×1.55 as far in the same time (×1.26 to ×2.98)`.
fn far(reach: Reach) -> String {
    let times = |permille: u64| {
        let hundredths = (permille + 5) / 10;
        format!("×{}.{:02}", hundredths / 100, hundredths % 100)
    };
    format!(
        "{} as far in the same time ({} to {})",
        times(reach.likely_permille),
        times(reach.low_permille),
        times(reach.high_permille)
    )
}

/// `340 ms more (150 ms to 700 ms)`.
fn difference(predicted: Predicted) -> String {
    let Predicted {
        low_ns,
        likely_ns,
        high_ns,
    } = predicted;
    let signed = |ns: i64| {
        let sign = if ns < 0 { "−" } else { "" };
        format!("{sign}{}", time(ns.unsigned_abs()))
    };
    let word = if likely_ns < 0 { "less" } else { "more" };
    let range = format!("{} to {}", signed(low_ns), signed(high_ns));
    format!("{} {word} ({range})", time(likely_ns.unsigned_abs()))
}

fn why_not(why: NotPredicted) -> &'static str {
    match why {
        NotPredicted::EventsLost => "events were lost, so where its vCPUs were is not known",
        NotPredicted::SwitchesMissing => {
            "switches are missing: record all pCPUs, not some threads (steady record)"
        }
        NotPredicted::NoPcpus => "records do not name their pCPU",
        NotPredicted::TooLarge => "the trace has more than 1024 pCPUs or 256 VMs",
        NotPredicted::PutTogetherLate => "which threads are the VM is a guess (steady record)",
        NotPredicted::PinnedAlready => "its vCPUs are pinned to different pCPUs",
    }
}

#[cfg(test)]
mod tests {
    use steady_diagnose::{FoldTable, SpareRow};

    use super::*;

    const MS: u64 = 1_000_000;
    const REACH: Option<Reach> = Some(Reach {
        low_permille: 1044,
        likely_permille: 1245,
        high_permille: 2000,
    });

    /// 400 ms of a second on one pCPU, beside one that ran another VM.
    fn table() -> PlacementTable {
        let of = |low: i64, likely: i64, high: i64| {
            let [low_ns, likely_ns, high_ns] = [low, likely, high].map(|ms| ms * 1_000_000);
            Some(Predicted {
                low_ns,
                likely_ns,
                high_ns,
            })
        };
        PlacementTable {
            why_not: None,
            known_ns: 1000 * MS,
            wanted_permille: 2000,
            ran_ns: 1600 * MS,
            fair_ns: 1600 * MS,
            stacked_ns: 400 * MS,
            stacked_permille: 400,
            spare: Some(SpareRow {
                pcpu: 5,
                idle_ns: 0,
                stranger_ns: 400 * MS,
            }),
            parted: of(133, 200, 400),
            reach: REACH,
            pinned: of(-50, -20, 10),
            fold: Some(FoldTable {
                short_ns: 400 * MS,
                short_permille: 400,
                vcpus: 1,
                reach: REACH,
                locks_at_most_ns: None,
            }),
            calls_at_most_ns: Some(30 * MS),
        }
    }

    #[test]
    fn a_gain_is_said_with_its_interval_and_a_loss_as_one() {
        let said = lines("web", &table());
        assert_eq!(
            said[0],
            "web: two of its vCPUs shared a pCPU 40.0 % of the time while another that they may \
             use had none of them (pCPU 5 ran others for 400 ms). Parted (steady place), it would \
             have come ×1.25 as far in the same time (×1.04 to ×2.00); by fair shares it would \
             have run 200 ms more (133 ms to 400 ms) beside the 1.60 s that it ran"
        );
        for part in [
            "by pins: 20.0 ms less (−50.0 ms to 10.0 ms)",
            "1 vCPU ran on average while more wanted to, 40.0 % of the time",
            "with all VMs folded it would have come ×1.25 as far in the same time (×1.04 to \
             ×2.00).",
            "at most 30.0 ms less waiting for IPIs",
        ] {
            assert!(said[1].contains(part), "{part}: {said:?}");
        }
    }

    #[test]
    fn what_is_not_worth_it_or_not_known_is_not_in_the_short_text() {
        let reach = |likely_permille| PlacementTable {
            reach: REACH.map(|reach| Reach {
                likely_permille,
                ..reach
            }),
            ..table()
        };
        assert!(is_worth(&table()) && is_worth(&reach(1050)));
        assert!(!is_worth(&reach(1049)) && !is_worth(&reach(900)));
        let crowd = PlacementTable {
            reach: None,
            ..table()
        };
        assert!(!is_worth(&crowd));
        assert!(lines("web", &crowd)[0].contains("it has too many vCPUs;"));
        let lost = PlacementTable {
            why_not: Some(NotPredicted::EventsLost),
            parted: None,
            reach: None,
            ..table()
        };
        assert!(!is_worth(&lost));
        let said = lines("web", &lost);
        assert_eq!(said.len(), 1);
        assert!(said[0].starts_with("web: not predicted: events were lost"));
    }
}
