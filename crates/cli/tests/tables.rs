// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `steady diagnose` take tables and logs in place of traces, alone and together, and is what
//! is not known answered with one line?

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// One table of each kind, with its name in JSON; `None` if nothing is wrong in it.
const TABLES: [(&str, Option<&str>, &str); 17] = [
    (
        "perf-kvm-stat",
        Some("slow-exits"),
        "   VM-EXIT  Samples  Samples%  Time%  Min Time  Max Time  Avg time\n\
         IO_INSTRUCTION 55654 78.67% 42.39% 3.54us 74.94us 13.63us ( +- 0.24% )\n\
         HLT 2933 4.15% 56.06% 1.71us 15227.79us 341.97us ( +- 8.91% )\n",
    ),
    (
        "kvm_stat",
        Some("exit-counts"),
        "kvm statistics - summary\n\n Event   Total %Total CurAvg/s\n kvm_exit  1133  20.5  80\n",
    ),
    (
        "perf-stat",
        Some("exit-counts"),
        "   1,880      kvm:kvm_entry     (99.9%)\n",
    ),
    (
        "perf-sched-latency",
        Some("steal"),
        "  Task  |  Runtime ms | Switches | Avg delay ms | Max delay ms | Max delay start |\n\
         CPU 3/KVM:7 | 1000.0 ms | 1000 | avg: 1.000 ms | max: 92.126 ms | max start: 5.25 s |\n",
    ),
    (
        "perf-sched-timehist",
        Some("steal"),
        "           time    cpu  task name                       wait time  sch delay   run time\n\
         --------------- ------  ------------------------------  ---------  ---------  ---------\n\
         \x20 991962.880070 [0002]  CPU 0/KVM[4711/4700]        0.000     60.000      5.000\n",
    ),
    (
        "virsh-domstats",
        Some("steal"),
        "Domain: 'db'\n  vcpu.0.time=3000000000\n  vcpu.0.delay=1000000000\n",
    ),
    (
        "histogram",
        Some("cpu-pressure"),
        "Tracing run queue latency... Hit Ctrl-C to end.\n     usecs               : count     \
         distribution\n         0 -> 1          : 9        |***|\n     65536 -> 131071 : 1 |*  |\n",
    ),
    (
        "runqslower",
        Some("steal"),
        "TIME     COMM             TID           LAT(us)\n\
         13:12:18 CPU 1/KVM        4712            45000\n",
    ),
    (
        "proc-sched",
        Some("steal"),
        "CPU 0/KVM (4711, #threads: 9)\n-----------\n\
         se.sum_exec_runtime                          :         70000.000000\n\
         wait_sum                                     :         30000.000000\n",
    ),
    (
        "proc-schedstat",
        Some("threads-wait"),
        "75000000000 25000000000 12345\n",
    ),
    (
        "cpu.stat",
        Some("throttled"),
        "usage_usec 9\nnr_periods 1000\nnr_throttled 600\nthrottled_usec 45000000\n",
    ),
    ("cpu.max", Some("not-measured"), "50000 100000\n"),
    (
        "pressure",
        Some("cpu-pressure"),
        "some avg10=62.50 avg60=40.00 avg300=12.00 total=45000000\n",
    ),
    (
        "mpstat",
        None,
        "02:10:01 AM     CPU     %user     %nice   %system   %iowait    %steal     %idle\n\
         02:20:01 AM     all      9.00      0.00      2.00      1.00      0.00     88.00\n",
    ),
    (
        "vmstat",
        Some("steal"),
        " r  b   swpd   free   buff  cache   si   so    bi    bo   in   cs us sy id wa st\n\
         \x20 1  0      0 812345  12345 456789    0    0     1     2   10   20  5  1 80  0 14\n",
    ),
    (
        "top",
        Some("steal"),
        "%Cpu(s): 50.0 us,  5.0 sy,  0.0 ni, 20.0 id,  0.0 wa,  0.0 hi,  1.0 si, 24.0 st\n",
    ),
    (
        "kernel-log",
        Some("kernel-complaint"),
        "[ 70.1] watchdog: BUG: soft lockup - CPU#2 stuck for 26s! [postgres:77]\n\
         [ 70.1] Hardware name: QEMU Standard PC (Q35 + ICH9, 2009)\n\
         [ 70.1] RIP: 0010:smp_call_function_many_cond+0x11e/0x4f0\n\
         [ 70.1]  flush_tlb_mm_range+0x13c/0x150\n",
    ),
];

fn steady(place: &Path, words: &[&str], input: Option<&str>) -> Output {
    let stdin = match input {
        Some(name) => Stdio::from(std::fs::File::open(place.join(name)).unwrap()),
        None => Stdio::null(),
    };
    Command::new(env!("CARGO_BIN_EXE_steady"))
        .current_dir(place)
        .env("NO_COLOR", "1")
        .arg("diagnose")
        .args(words)
        .stdin(stdin)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    let words = String::from_utf8(bytes.to_vec()).unwrap();
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn files() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, _, table) in TABLES {
        std::fs::write(place.path().join(name), table).unwrap();
    }
    place
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn each_kind_is_diagnosed_from_a_file_and_from_a_pipe() {
    let place = files();
    for (name, finding, _) in TABLES {
        let from_file = json(&steady(place.path(), &[name, "--json"], None));
        assert_eq!(from_file["traces"][0]["table"]["tool"], name);
        let id = finding.map_or(Value::Null, Value::from);
        assert_eq!(from_file["findings"][0]["id"], id, "{name}");
        let mut from_pipe = json(&steady(place.path(), &["-", "--json"], Some(name)));
        from_pipe["traces"][0]["name"] = name.into();
        assert_eq!(from_pipe, from_file, "{name}");
    }
}

#[test]
fn the_text_says_what_it_is_what_it_shows_and_what_would_decide() {
    let place = files();
    for (name, finding, _) in TABLES {
        let output = steady(place.path(), &[name], None);
        let said = text(&output.stdout);
        assert!(output.status.success(), "{name}");
        assert!(said.contains("it cannot show "), "{said}");
        assert!(
            said.contains("`sudo steady record` would decide it"),
            "{said}"
        );
        let expected = if finding.is_some() {
            "Seen: "
        } else {
            "Nothing wrong"
        };
        assert!(said.contains(expected), "{said}");
        assert!(!said.contains("high confidence"), "{said}");
    }
}

#[test]
fn files_of_one_incident_are_put_together_in_text_json_and_page() {
    let place = files();
    let together = [
        "virsh-domstats",
        "cpu.stat",
        "kernel-log",
        "--html",
        "page.html",
    ];
    let said = text(&steady(place.path(), &together, None).stdout);
    assert!(
        said.contains("confirmed: another file of the incident shows a limit reached (cpu.stat)")
    );
    assert!(said.contains("another file shows vCPUs that wait for pCPUs (virsh-domstats)"));
    let page = std::fs::read_to_string(place.path().join("page.html")).unwrap();
    for words in [
        "the cgroup is throttled",
        "flush_tlb_mm_range",
        "would decide it",
    ] {
        assert!(page.contains(words), "{words}");
    }
    let words = [&together[..3], &["--json"]].concat();
    let diagnosis = json(&steady(place.path(), &words, None));
    let findings = diagnosis["findings"].as_array().unwrap();
    let steal = findings
        .iter()
        .find(|finding| finding["id"] == "steal")
        .unwrap();
    assert_eq!(
        (&steal["cause"], &steal["confidence"]),
        (&"quota".into(), &"medium".into())
    );
    assert_eq!(diagnosis["traces"].as_array().unwrap().len(), 3);
    assert_eq!(diagnosis["comparison"], Value::Null);
}

/// A trace of a host: its one vCPU runs for 50 ms and then waits while this thread runs, for 50 ms
/// or, for a thread other than the idle one, for 40: a limit's period is 100 ms. Without one it
/// runs on.
fn trace_with(who: Option<(&str, i32)>) -> String {
    let vcpu = "       CPU 0/KVM-1001  [000] d..2.";
    let period = if who.is_some_and(|(_, tid)| tid > 0) {
        90
    } else {
        100
    };
    let mut lines = String::from("# tracer: nop\n");
    for turn in 0..12 {
        let at = |ms: u32| {
            format!(
                "{}.{:03}000",
                100 + (turn * period + ms) / 1000,
                (turn * period + ms) % 1000
            )
        };
        lines += &format!(
            "{vcpu} {}: kvm_entry: vcpu 0, rip 0xffffffff81000000\n",
            at(0)
        );
        lines += &format!(
            "{vcpu} {}: kvm_exit: vcpu 0 reason EXTERNAL_INTERRUPT rip 0xffffffff81000000 \
             info1 0x0 info2 0x0 intr_info 0x0 error_code 0x00000000\n",
            at(if who.is_some() { 49 } else { 99 })
        );
        let Some((comm, tid)) = who else { continue };
        lines += &format!(
            "{vcpu} {}: sched_switch: prev_comm=CPU 0/KVM prev_pid=1001 prev_prio=120 \
             prev_state=R ==> next_comm={comm} next_pid={tid} next_prio=120\n",
            at(50)
        );
        lines += &format!(
            "{comm:>16}-{tid}  [000] d..2. {}: sched_switch: prev_comm={comm} prev_pid={tid} \
             prev_prio=120 prev_state=S ==> next_comm=CPU 0/KVM next_pid=1001 next_prio=120\n",
            at(period - 1)
        );
    }
    lines
}

/// The files, which finding in which of them, its cause, how sure, what was checked, and what to
/// do first.
const HELD: &str = "\
idle.txt cpu.stat 0 cpu-max medium another-file-has-limit raise-cpu-max
idle.txt no-limit 0 idle-beside medium another-file-has-no-limit look-at-idle
cc1.txt cpu.stat 0 host-task medium another-file-has-limit move-host-task
cc1.txt top 0 host-task high another-file-agrees move-host-task
cc1.txt top 1 host-task medium another-file-agrees record-while
cc1.txt kernel-log 1 waits-for-shootdown medium another-file-has-waits record-while
quiet.txt top 1 not-shown low another-file-agrees record-while
quiet.txt kernel-log 1 waits-for-shootdown low another-file-has-waits record-while
";

#[test]
fn a_trace_and_the_tables_of_its_incident_are_held_against_each_other() {
    let place = files();
    let path = |name: &str| place.path().join(name);
    let idle = trace_with(Some(("swapper/0", 0)));
    std::fs::write(path("idle.txt"), idle).unwrap();
    let switch = "          sh-7     [001] d..2. 101.199500: sched_switch: prev_comm=sh prev_pid=7 \
                  prev_prio=120 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120\n";
    let cc1 = trace_with(Some(("cc1", 900))) + switch;
    std::fs::write(path("cc1.txt"), cc1).unwrap();
    std::fs::write(path("quiet.txt"), trace_with(None) + switch).unwrap();
    std::fs::write(path("no-limit"), "max 100000\n").unwrap();
    for case in HELD.lines().map(|line| line.split(' ')) {
        let [trace, table, of, cause, sure, check, step] = case.collect::<Vec<_>>()[..] else {
            panic!("seven words a case");
        };
        let of: u64 = of.parse().unwrap();
        for files in [[trace, table], [table, trace]] {
            let diagnosis = json(&steady(place.path(), &[files[0], files[1], "--json"], None));
            let findings = diagnosis["findings"].as_array().unwrap();
            let found = findings.iter().find(|found| found["trace"] == of);
            let found = found.unwrap_or_else(|| panic!("{files:?}: {findings:#?}"));
            let said = (&found["cause"], &found["confidence"]);
            assert_eq!(said, (&cause.into(), &sure.into()), "{files:?}");
            let checks = found["checks"].as_array().unwrap();
            assert!(
                checks.iter().any(|is| is["id"] == check),
                "{files:?}: {checks:#?}"
            );
            assert_eq!(found["next"][0]["id"], step, "{files:?}");
            let raises = found["next"].as_array().unwrap().iter();
            let raises = raises.filter(|step| step["id"] == "raise-cpu-max").count();
            assert_eq!(raises, usize::from(table == "cpu.stat"), "{files:?}");
        }
    }
}

/// A limit that a trace shows stays, whatever a file says of another VM's group; one that shows in
/// how long vCPUs ran is not refuted by any file.
#[test]
fn a_limit_that_is_not_set_elsewhere_is_set_here() {
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    let inputs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/cases/inputs");
    let case = "07-limit-beside-neighbour.txt";
    let notes = std::fs::read_to_string(inputs.join(format!("{case}.vms"))).unwrap();
    let trace = std::fs::read(inputs.join(format!("{case}.zst"))).unwrap();
    std::fs::write(place.path().join("ran.zst"), trace).unwrap();
    let head = "# tracer: nop\n#\n# entries-in-buffer/entries-written: 99/99   #P:8\n#\n";
    write(
        "idle.txt",
        &(head.to_owned() + &trace_with(Some(("swapper/0", 0)))),
    );
    write("ran.zst.vms", &notes);
    write("idle.txt.vms", &notes);
    write("none", "max 100000\n");
    write("of-db", "/sys/fs/cgroup/m/db/cpu.max:max 100000\n");
    write("of-web", "/sys/fs/cgroup/m/web/cpu.max:max 100000\n");
    for (trace, table, cause) in [
        ("ran.zst", "none", "cpu-max"),
        ("ran.zst", "of-db", "cpu-max"),
        ("idle.txt", "of-db", "cpu-max"),
        ("idle.txt", "of-web", "idle-beside"),
    ] {
        let diagnosis = json(&steady(place.path(), &[trace, table, "--json"], None));
        let findings = diagnosis["findings"].as_array().unwrap();
        let web = findings.iter().find(|found| found["vm"] == "web").unwrap();
        assert_eq!(web["cause"], cause, "{trace} {table}: {web:#}");
    }
}

#[test]
fn what_is_not_known_is_one_line_that_names_what_to_do() {
    let place = files();
    std::fs::write(place.path().join("notes.txt"), "it was slow\nall day\n").unwrap();
    let prof = "2022-04-22 17:34:13.858975 \nkvm-exit latency\n\
                exit_reason  calls     total(us)  min(us)   avg(us)     max(us)  %gsys\n\
                ----------- ------ ------------- -------- --------- ----------- ------\n\
                HLT          20747  53004499.016    0.734  2554.803  199989.423 100.00\n";
    std::fs::write(place.path().join("perf-prof.txt"), prof).unwrap();
    for (words, input) in [
        (&["notes.txt"][..], None),
        (&["perf-prof.txt"], None),
        (&["-"], Some("notes.txt")),
    ] {
        let output = steady(place.path(), words, input);
        let talk = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{talk}");
        assert!(talk.contains("not a trace, a table or a log"), "{talk}");
        assert!(talk.contains("`sudo steady record` on the host"), "{talk}");
        assert_eq!(output.stdout, b"");
    }
    // Beside a table that is known, its answer stands all the same.
    let output = steady(place.path(), &["notes.txt", "top"], None);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stdout).contains("24.0 %"));
}

#[test]
fn tables_are_not_compared() {
    let place = files();
    let output = steady(
        place.path(),
        &["--before", "top", "--after", "vmstat"],
        None,
    );
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("only traces can be compared"));
}

#[test]
fn what_was_recorded_beside_a_trace_is_used_if_something_is_wrong_in_it() {
    let place = files();
    let stall = Path::new(env!("CARGO_MANIFEST_DIR")).join("../diagnose/tests/fixtures/stall.dat");
    std::fs::copy(stall, place.path().join("t.dat")).unwrap();
    let alone = text(&steady(place.path(), &["t.dat"], None).stdout);
    let beside = place.path().join("t.dat.tables");
    std::fs::write(
        &beside,
        "/g/cpu.stat:nr_periods 9\n/g/cpu.stat:nr_throttled 0\n",
    )
    .unwrap();
    assert_eq!(text(&steady(place.path(), &["t.dat"], None).stdout), alone);
    std::fs::write(
        &beside,
        "/g/cpu.stat:nr_periods 9\n/g/cpu.stat:nr_throttled 9\n",
    )
    .unwrap();
    let diagnosis = json(&steady(place.path(), &["t.dat", "--json"], None));
    let ids: Vec<&Value> = diagnosis["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| &finding["id"])
        .collect();
    assert!(
        ids.contains(&&"throttled".into()) && ids.contains(&&"host-overcommitted".into()),
        "{ids:?}"
    );
}

/// What is named by more than its cause: a piece of a table, and whose fault the first line says.
const FAULTS: [(&str, &str); 10] = [
    (
        "[9.1] blk_update_request: I/O error, dev vda, sector 9 op 0x1:(WRITE)\n",
        "storage answered with an error; fault: failing storage, or the path to it; medium",
    ),
    (
        "[9.1] PM: suspend exit\n",
        "fault: a suspension of the machine; medium",
    ),
    (
        "[9.1] workqueue: work hogged CPU for >10000us 4 times, consider\n",
        "for long, 10.0 ms; fault: a driver's work in the kernel that wrote it; low",
    ),
    (
        "[9.1] task:a blocked on a mutex likely owned by task b:90\n",
        "fault: the task that has the lock; medium",
    ),
    (
        "[9.1] INFO: task a:412 blocked for more than 245 seconds.\n\
         [9.1]  rpc_wait_bit_killable+0x24/0x90 [sunrpc]\n",
        "hung task, 245 s; fault: the NFS server, or the network to it; medium",
    ),
    (
        "[9.1] NMI watchdog: Watchdog detected hard LOCKUP on cpu 14\n\
         [9.1] CPU: 14 PID: 3 Comm: CPU 2/KVM Not tainted 4.18.0-513.el8.x86_64 #1\n\
         [9.1] RIP: 0010:native_queued_spin_lock_slowpath+0x14a/0x1d0\n",
        "hard lockup, CPU 14; fault: the lock's holder; medium",
    ),
    (
        include_str!("../../tables/tests/inputs/logs-irq.txt"),
        "fault: a device, or its driver; medium",
    ),
    (
        "Domain: 'db'\n  state.state=3\n  state.reason=5\n  vcpu.0.time=9\n  vcpu.0.delay=0\n",
        "db: its VMM has paused it; fault: an I/O error of its disk, such as a full file system;",
    ),
    (
        "Domain: 'db'\n  vcpu.0.time=9\n  vcpu.0.delay=0\n  balloon.current=4\n  \
         balloon.maximum=9\n  balloon.swap_in=8\n",
        "db: tasks wait for memory that its balloon took; fault: its balloon; low",
    ),
    // Entries alone, as a terminal's copy or a mixed trace may leave them.
    (
        "# tracer: nop\n  CPU 0/KVM-1001  [000] d..2. 100.000000: kvm_entry: vcpu 0, rip 0x8\n",
        "Not known whether anything stalled: no wait, and no time of an exit, could be judged",
    ),
];

#[test]
fn the_first_line_names_the_party_of_what_a_line_says() {
    let place = tempfile::tempdir().unwrap();
    for (content, expected) in FAULTS {
        std::fs::write(place.path().join("t"), content).unwrap();
        let output = steady(place.path(), &["t"], None);
        let said = text(&output.stdout);
        let first = &said[..said.len().min(200)];
        assert!(first.contains(expected), "{said}{output:?}");
    }
}
