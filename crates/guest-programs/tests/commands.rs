// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Are the commands what a scenario's arguments ask for?

use std::collections::BTreeSet;

use steady_guest_programs::{OWN_DIRECTORY, PROGRAMS, SCRATCH, Setting, find};

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn setting(args: &[String], cpus: u32) -> Setting<'_> {
    Setting {
        args,
        cpus,
        seed: 7,
        scratch: SCRATCH,
    }
}

fn command(name: &str, args: &str, cpus: u32) -> String {
    let args = words(args);
    let program = find(name).expect("a known program");
    let command = program.command(&setting(&args, cpus));
    command.expect("sound arguments").join(" ")
}

fn preparation(name: &str, args: &str) -> Result<Vec<String>, String> {
    let args = words(args);
    let program = find(name).expect("a known program");
    let steps = program.prepare(&setting(&args, 2));
    let steps = steps.map_err(|error| error.to_string())?;
    // The measured command must agree on what is sound.
    assert!(program.command(&setting(&args, 2)).is_ok());
    Ok(steps.iter().map(|argv| argv.join(" ")).collect())
}

#[test]
fn arguments_take_the_place_of_the_defaults_but_not_of_what_fixes_the_output() {
    for (name, args, expected) in [
        ("hackbench", "", "/usr/bin/hackbench -g 1 -l 50"),
        ("hackbench", "-g 2 -T", "/usr/bin/hackbench -g 2 -T"),
        ("spin", "", "/usr/bin/spin"),
        (
            "shootdown",
            "--targets 3",
            "/usr/bin/shootdown --seed=7 --targets 3",
        ),
        (
            "stress-ng",
            "--mmap 1 --mmap-ops 3",
            "/usr/bin/stress-ng --seed=7 --metrics-brief --temp-path /data --mmap 1 --mmap-ops 3",
        ),
    ] {
        assert_eq!(command(name, args, 2), expected);
    }
    let fio = command("fio", "--name=a --rw=read", 2);
    assert!(
        fio.contains("--output-format=json") && fio.ends_with("--name=a --rw=read"),
        "{fio}"
    );
}

#[test]
fn defaults_use_the_cpus_of_the_guest() {
    assert!(command("stress-ng", "", 3).ends_with("--tlb-shootdown 3 --tlb-shootdown-ops 200"));
    assert!(command("sysbench", "", 5).contains("--threads=5"));
    assert!(command("pbzip2", "", 7).contains("-p7"));
    let vips = find("vips").expect("vips is known");
    assert_eq!(vips.environment(&setting(&[], 6))["VIPS_CONCURRENCY"], "6");
}

#[test]
fn jemalloc_is_loaded_from_the_image_and_keeps_nothing() {
    let program = find("jemalloc").expect("jemalloc is known");
    let environment = program.environment(&setting(&words("--malloc-ops 5"), 3));
    assert!(
        program
            .binaries
            .contains(&environment["LD_PRELOAD"].as_str())
    );
    assert!(environment["MALLOC_CONF"].contains("dirty_decay_ms:0"));
    assert!(command("jemalloc", "--malloc-ops 5", 3).ends_with("/data --malloc-ops 5"));
    assert!(command("jemalloc", "", 3).contains("--malloc-pthreads 3"));
}

#[test]
fn a_database_is_started_and_filled_before_what_is_measured() {
    let setup = preparation("mariadb", "oltp_read_only --threads=4").expect("no size is wrong");
    let [start, fill] = setup.as_slice() else {
        panic!("{setup:?}");
    };
    assert!(start.starts_with("/usr/bin/busybox sh -c "), "{start}");
    let words = " mariadb /data/mariadb ready for connections /usr/sbin/mariadbd --no-defaults ";
    assert!(start.contains(words), "{start}");
    let with = "--db-driver=mysql --mysql-user=root --mysql-socket=/data/mariadb/socket";
    let sysbench = "/usr/bin/sysbench --rand-seed=7 oltp_read_only --threads=4";
    assert_eq!(*fill, format!("{sysbench} {with} prepare"));
    let measured = command("mariadb", "oltp_read_only --threads=4", 2);
    assert_eq!(measured, format!("{sysbench} {with} run"));
    assert!(command("mariadb", "", 6).contains("--threads=6"));
}

#[test]
fn a_server_is_started_unless_its_client_is_given_the_socket_of_another() {
    for (name, args, measured) in [
        (
            "redis",
            "",
            "redis-benchmark --csv -s /data/redis/socket -t set,get -n 1000 -c 8 --threads 3",
        ),
        (
            "redis",
            "-s /run/a -t get",
            "redis-benchmark --csv -s /run/a -t get",
        ),
        (
            "memcached",
            "",
            "memcslap -s /data/memcached/socket -t get -c 3 -e 500",
        ),
        (
            "memcached",
            "--servers=/run/a -c 2",
            "memcslap --servers=/run/a -c 2",
        ),
        (
            "nginx",
            "",
            "h2load --h1 --base-uri=unix:/data/nginx/socket -n 1000 -c 6 -t 3 http://localhost/",
        ),
        (
            "nginx",
            "--base-uri=unix:/run/a -n 5",
            "h2load --h1 --base-uri=unix:/run/a -n 5 http://localhost/",
        ),
    ] {
        assert_eq!(command(name, args, 3), format!("/usr/bin/{measured}"));
        let started = preparation(name, args).expect("no size is wrong").len();
        assert_eq!(
            started,
            usize::from(!args.contains("/run/a")),
            "{name} {args}"
        );
    }
}

#[test]
fn the_size_of_an_input_goes_to_its_maker_and_not_to_the_program() {
    for (name, args, kind) in [
        ("pbzip2", "input-kib=64 -p4", "text"),
        ("dedup", "input-kib=64", "versions"),
    ] {
        let maker = format!(
            "/usr/bin/make-input --kind {kind} --kib 64 --seed 1 --output /data/{name}.input"
        );
        assert_eq!(preparation(name, args), Ok(vec![maker]));
    }
    for (name, args, expected) in [
        (
            "pbzip2",
            "input-kib=64 -p4",
            "-v -k -f -p4 /data/pbzip2.input",
        ),
        // With nothing but a size, the defaults of the program stay.
        (
            "pbzip2",
            "input-kib=64",
            "-v -k -f -b1 -p2 /data/pbzip2.input",
        ),
        (
            "vips",
            "input-pixels=64 gaussblur 5",
            "gaussblur /data/vips.input.ppm /data/vips.output.v 5",
        ),
        (
            "dedup",
            "input-kib=64 --block-kib 8",
            "--input /data/dedup.input --output /data/dedup.output --block-kib 8",
        ),
    ] {
        assert_eq!(
            command(name, args, 2),
            format!("/usr/bin/{name} {expected}")
        );
    }
}

#[test]
fn a_size_out_of_range_is_named_with_the_range() {
    for (name, args) in [
        ("pbzip2", "input-kib=0"),
        ("pbzip2", "input-kib=1048577"),
        ("pbzip2", "input-kib=-1"),
        ("vips", "input-pixels="),
        ("vips", "input-pixels=70000"),
    ] {
        let error = preparation(name, args).expect_err(args);
        assert!(
            error.contains(args) && error.contains("with N from 1 to"),
            "{error}"
        );
    }
}

#[test]
fn a_program_without_input_needs_no_preparation() {
    assert_eq!(preparation("hackbench", "input-kib=3"), Ok(vec![]));
}

#[test]
fn this_table_and_that_of_the_scenarios_agree() {
    let ours = PROGRAMS
        .iter()
        .map(|program| (program.name, program.package, program.needs_disk));
    let theirs = steady_scenario::PROGRAMS.iter().map(|program| {
        let package = match program.origin {
            steady_scenario::Origin::Own => None,
            steady_scenario::Origin::Debian(package) => Some(package),
        };
        (program.name, package, program.needs_disk)
    });
    assert!(ours.eq(theirs));
}

#[test]
fn an_unknown_program_names_the_nearest_known_one() {
    let error = find("hackbensh").expect_err("a typing error");
    assert_eq!(error.nearest, Some("hackbench"));
    assert!(
        error.to_string().contains("did you mean \"hackbench\"?"),
        "{error}"
    );
}

#[test]
fn a_program_like_no_other_gets_no_suggestion() {
    let error = find("quake").expect_err("no such program");
    assert_eq!(error.nearest, None);
    let said = error.to_string();
    assert!(!said.contains("did you mean"), "{said}");
    assert!(said.contains("known are shootdown, "), "{said}");
}

#[test]
fn commands_run_only_programs_that_the_image_holds() {
    for program in PROGRAMS {
        let own = program
            .own_binaries
            .iter()
            .map(|name| format!("{OWN_DIRECTORY}/{name}"));
        let held: BTreeSet<String> = own
            .chain(program.binaries.iter().map(|&path| path.to_owned()))
            .collect();
        let setting = setting(&[], 2);
        let mut argvs = program.prepare(&setting).expect("no arguments");
        argvs.push(program.command(&setting).expect("no arguments"));
        for argv in argvs {
            assert!(held.contains(&argv[0]), "{}: {argv:?}", program.name);
        }
        assert_eq!(
            program.package.is_none(),
            program.binaries.is_empty(),
            "{}",
            program.name
        );
    }
}

#[test]
fn sysbench_gets_a_seed_that_it_takes_and_never_the_clocks() {
    let program = find("sysbench").unwrap();
    for seed in [0, 1, 7, 0x7fff_ffff, 0x8000_0000, u32::MAX] {
        let setting = Setting {
            seed,
            ..setting(&[], 2)
        };
        let words = program.command(&setting).unwrap();
        let given = words
            .iter()
            .find_map(|word| word.strip_prefix("--rand-seed="));
        let given: u32 = given.unwrap().parse().unwrap();
        assert!((1..=0x7fff_ffff).contains(&given), "{seed}: {given}");
    }
}

#[test]
fn a_program_that_takes_a_seed_gets_the_runs_unless_its_arguments_give_one() {
    for (name, option) in [
        ("shootdown", "--seed=7"),
        ("pagecache", "--seed=7"),
        ("indexer", "--seed=7"),
        ("staleness", "--seed=7"),
        ("frames", "--seed=7"),
        ("stress-ng", "--seed=7"),
        ("jemalloc", "--seed=7"),
        ("sysbench", "--rand-seed=7"),
        ("fio", "--randseed=7"),
    ] {
        assert!(command(name, "", 2).contains(option), "{name}");
    }
    for name in words("pingpong spin dedup hackbench pbzip2 dbench vips") {
        let name = name.as_str();
        assert!(!command(name, "", 2).contains("seed"), "{name}");
    }
    assert!(!command("shootdown", "--seed 3", 2).contains("seed=7"));
    assert!(!command("fio", "--randseed=3 --name=x", 2).contains("seed=7"));
}
