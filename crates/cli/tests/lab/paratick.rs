// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Paratick in the real kernel: is a guest's timer left alone, and has the guest its ticks all the
//! same, also when its host thinks again?

use crate::support::{ONE_VM, Place, ends_well, metric, metrics};

#[test]
fn a_program_that_blocks_leaves_its_timer_alone_and_has_its_ticks() {
    let place = Place::beside();
    let scenario = "scenarios/papers/paratick-multithreaded.toml";
    let result = place.raced(scenario, &["tickless", "paratick"]);
    for measure in ["timer.writes", "timer.interrupts"] {
        let [stock, remedied] =
            ["tickless", "paratick"].map(|variant| metric(&result, variant, "hackbench", measure));
        assert!(
            remedied * 2 <= stock,
            "{measure}: {remedied} against {stock}"
        );
    }
    let [handled, expected] = ["handled", "expected"]
        .map(|name| metric(&result, "paratick", "ticks", &format!("ticks.{name}")));
    assert!(
        handled.abs_diff(expected) * 10 <= expected.unsigned_abs(),
        "{handled} ticks of {expected}"
    );
}

#[test]
fn a_guest_programs_its_own_ticks_if_its_host_stops_giving_them_or_it_was_booted_so() {
    let place = Place::beside();
    let scenario = "scenarios/paratick-modes.toml";
    // The first shows that the others would have them.
    let expected = [
        ("paratick", 2),
        ("withdrawn", 0),
        ("unwilling", 0),
        ("periodic", 0),
        ("coarse", 0),
    ];
    // Whose ticks a guest has is settled within its first moments.
    let shorter = ["\"4000\"", "\"1200\""];
    let variants = expected.map(|(variant, _)| variant);
    let result = place.raced_with(scenario, shorter, &variants, "1");
    for (variant, virtual_cpus) in expected {
        let of = |name: &str| metric(&result, variant, "ticks", name);
        assert_eq!(of("ticks.virtual_cpus"), virtual_cpus, "{variant}");
        assert!(of("ticks.jiffies_off") <= 2, "{variant}");
    }
}

/// Idle and half idle. Two jiffies late and three times as long where a CPU sleeps past its tick.
/// A 99th percentile of one run is its second longest or so, and differs by a jiffy between seeds
/// with any ticks: here the median of three is held. Those of grace periods differ by two.
#[test]
fn what_waits_for_jiffies_takes_as_long_as_with_the_guest_s_own_ticks() {
    const JIFFY_NS: i64 = 4_000_000;
    let place = Place::beside();
    let variants = ["tickless", "paratick"];
    let scenario = "scenarios/paratick-wheel.toml";
    // The last workload has the fewest samples, and keeps its length.
    let shorter = ["0", "100000"].map(|busy_us| {
        ["4000", "2000"]
            .map(|length| format!(r#""{length}", "--threads", "1", "--busy-us", "{busy_us}""#))
    });
    let result = place.raced_with_all(scenario, &shorter, &variants, "3");
    let of = |workload: &str, name: &str| {
        variants.map(|variant| {
            let mut values = metrics(&result, variant, workload, &format!("ticks.{name}"));
            assert_eq!(values.len(), 3, "{variant}");
            values.sort_unstable();
            values[1]
        })
    };
    let within_2_percent = |workload: &str, name: &str| {
        let [stock, remedied] = of(workload, name);
        assert!(
            remedied * 100 <= stock * 102,
            "{workload}, {name}: {remedied} ns against {stock} ns"
        );
    };
    for workload in ["ticks", "ticks-3", "ticks-5"] {
        within_2_percent(workload, "receive.p50");
        within_2_percent(workload, "receive.p99");
        let early = metrics(&result, "paratick", workload, "ticks.receive.early");
        assert_eq!(early, [0; 3], "{workload}: recv() returned too soon");
    }
    for workload in ["ticks-2", "ticks-4"] {
        within_2_percent(workload, "grace.p50");
        let [stock, remedied] = of(workload, "grace.p99");
        assert!(
            remedied <= stock + JIFFY_NS,
            "{workload}: {remedied} ns against {stock} ns"
        );
    }
}

#[test]
fn a_cpu_that_comes_back_on_line_has_its_ticks_from_the_host_again() {
    let place = Place::beside();
    let scenario = "scenarios/paratick-hotplug.toml";
    let result = place.raced(scenario, &["tickless", "paratick"]);
    let of = |name: &str| metric(&result, "paratick", "hotplug", &format!("hotplug.{name}"));
    assert_eq!(of("virtual_rounds"), of("rounds"));
    for cpu in ["plugged", "stayed"] {
        let [handled, expected, from_host] =
            ["handled", "expected", "from_host"].map(|name| of(&format!("{cpu}.{name}")));
        assert!(
            handled.abs_diff(expected) * 100 <= expected.unsigned_abs(),
            "{cpu}: {handled} ticks of {expected}"
        );
        assert!(
            from_host * 100 >= handled * 95,
            "{cpu}: {from_host} of {handled} ticks came from the host"
        );
    }
    let [stock, remedied] =
        ["tickless", "paratick"].map(|variant| metric(&result, variant, "hotplug", "timer.writes"));
    assert!(
        remedied * 4 <= stock,
        "timer writes: {remedied} against {stock}"
    );
}

/// Of six seeds the sum was 0.98 to 1.05 of stock KVM's, and 1.04 here; where CPUs that go idle
/// under Paratick leave alone what ran a moment ago, it was 0.86 to 0.98, and 0.89 here.
#[test]
fn idle_time_that_others_leave_comes_to_who_is_bound_to_no_cpu() {
    let place = Place::beside();
    let result = place.raced("scenarios/paratick-roaming.toml", &["tickless", "paratick"]);
    let loads = ["ticks", "ticks-2", "ticks-3", "ticks-4", "ticks-5"];
    let [stock, remedied] = ["tickless", "paratick"].map(|variant| {
        let steps = |load| metric(&result, variant, load, "ticks.roaming.operations");
        loads.into_iter().map(steps).sum::<i64>()
    });
    assert!(
        remedied * 100 >= stock * 95,
        "{remedied} steps against {stock}"
    );
}

/// A VM of two vCPUs that compute, or one that does while the other waits for grace periods, beside
/// two of another VM. Each has its pCPU half of the time.
fn shared() -> String {
    let args = |args: &str| {
        let words = args.split(' ').map(|word| format!("\"{word}\""));
        words.collect::<Vec<_>>().join(", ")
    };
    let computes = "--milliseconds 1500 --busy-us 100000 --sleep-us 0";
    let guest = ONE_VM
        .replace("shootdown", "ticks")
        .replace(&args("--targets 1 --operations 50"), &args(computes));
    let (beside, _) = ONE_VM.split_once("[[vm.workload]]").unwrap();
    let waits = args(&format!("{computes} --threads 1 --grace 1"));
    format!(
        "{guest}[[vm.workload]]\nprogram = \"ticks\"\nargs = [{waits}]\n{}background = true\n\
         [[vm.workload]]\nprogram = \"spin\"\n",
        beside.replace("guest", "beside")
    )
}

/// Its vCPUs have one tick a turn. With one period's CPU time a tick the guest counted two fifths
/// of what it counts with its own ticks. Grace periods took a third more: one tick noticed them,
/// and another was the quiescent state.
#[test]
fn a_guest_that_shares_its_pcpus_counts_its_cpu_time_and_has_its_grace_periods_in_time() {
    let place = Place::beside();
    let variant = "[[variant]]\nname = \"paratick\"\n[variant.paratick]";
    let scenario = place.scenario(&shared(), variant);
    ends_well(&place.run(&scenario, &[]).output().unwrap());
    let result = place.result("test", "bochs");
    let both = |workload, measure| {
        ["plain", "paratick"].map(|variant| metric(&result, variant, workload, measure))
    };
    let [stock, remedied] = both("ticks", "guest.cpu.user");
    assert!(
        (stock - remedied).abs() * 10 <= stock,
        "{remedied} hundredths of a second of {stock}"
    );
    let [stock, remedied] = both("ticks-2", "ticks.grace.p50");
    assert!(
        remedied * 100 <= stock * 102,
        "a grace period takes {remedied} ns, with own ticks {stock}"
    );
}
