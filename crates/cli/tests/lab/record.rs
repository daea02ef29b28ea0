// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the flight recorder catch a stall minutes after its start, is the culprit named, and is
//! nothing left on however it ends?
//!
//! In Bochs, which skips what a host idles.

use crate::support::{self, Place};

/// Two VMs whose vCPUs wake twice a second, and helpers.
const BEGIN: &str = r#"
T=/sys/kernel/tracing
mkdir -p /tmp/g/dev /tmp/g/proc && cp /usr/bin/busybox /tmp/g/busybox
cat > /tmp/g/init <<'E'
#!/busybox sh
/busybox taskset 2 /busybox sh -c 'while :; do /busybox usleep 500000; done' &
while :; do /busybox usleep 500000; done
E
chmod +x /tmp/g/init
(cd /tmp/g && find . | cpio -o -H newc > /tmp/guest.cpio) 2>/dev/null
vm() {
	steady-vmm --name $1 --kernel /lab/bzImage --initrd /tmp/guest.cpio --cpus $2 \
		--memory-mib 64 --pin $3 --console /tmp/$1.log --channel /tmp/$1.sock \
		--report /tmp/$1.json --cmdline 'console=ttyS0 quiet reboot=k panic=-1' &
}
vm web 2 0,1
web=$!
vm other 1 0
sleep 3
left() {
	echo "$1: $(ls $T/instances | wc -l) instances, $(wc -l < $T/kprobe_events) probes"
}
"#;

/// A program of real-time priority takes a pCPU from a vCPU for five seconds.
const STALL: &str = r#"
cat > /tmp/nightly-backup <<'E'
#!/bin/sh
until [ -e /tmp/go ]; do sleep 1; done
while :; do :; done
E
chmod +x /tmp/nightly-backup
# Nothing but its own end gives the pCPU to others.
echo -1 > /proc/sys/kernel/sched_rt_runtime_us
for cpu in /sys/kernel/debug/sched/fair_server/cpu*; do echo 0 > $cpu/runtime; done
taskset 2 chrt -f 50 /tmp/nightly-backup &
hog=$!
record() {
	steady record --until 'vCPU waits 200 ms' --keep 2 --buffer-kib $1 \
		-o /tmp/$1 2> /tmp/said$1 &
}
record 512
recorder=$!
# Has less than five seconds.
record 128
small=$!
sleep SECONDS
: > /tmp/go
sleep 5
kill -9 $hog
sleep 3
kill -INT $recorder $small
wait $recorder
echo "recorder: $?"
wait $small
echo "small: $?"
cat /tmp/said*
left ended
for kib in 512 128; do
	echo "of $kib KiB:"
	steady diagnose /tmp/$kib/incident-*.zip
	echo "diagnosed: $?"
done
cat /proc/uptime
"#;

/// A host of two pCPUs that runs the script; what it said.
fn in_host(place: &Place, script: &str) -> String {
    let chrt = ["--add", "/usr/bin/chrt:/usr/bin/"];
    support::in_host(place, &chrt, &format!("{BEGIN}{script}"))
}

fn says(said: &str, expected: &[&str]) {
    for expected in expected {
        assert!(said.contains(expected), "no `{expected}` in: {said}");
    }
}

#[test]
fn a_stall_after_two_minutes_is_caught_with_its_culprit_named() {
    stall_is_caught_after("120");
}

#[test]
#[ignore = "the same after longer: minutes"]
fn a_stall_after_ten_minutes_is_caught_with_its_culprit_named() {
    stall_is_caught_after("600");
}

fn stall_is_caught_after(seconds: &str) {
    let place = Place::beside();
    let script = STALL.replace("SECONDS", seconds);
    let said = in_host(&place, &script);
    let expected = [
        "recorder: 0\n",
        "small: 0\n",
        "vCPU 1 of web (thread ",
        "steady: 1 incidents",
        "ended: 0 instances, 0 probes\n",
        "diagnosed: 0\n",
    ];
    says(&said, &expected);
    let (_, after) = said.split_once("of 512 KiB:").unwrap();
    let (whole, after) = after.split_once("of 128 KiB:").unwrap();
    let (cut, uptime) = after.split_once("diagnosed: 0\n").unwrap();
    is_named(whole, " s at ");
    // The wait began before what the small ring has.
    is_named(cut, " s or more at ");
    let up: f64 = uptime.split_whitespace().next().unwrap().parse().unwrap();
    assert!(up >= seconds.parse().unwrap(), "{up} s: {said}");
}

/// That a diagnosis has the stall first, with its culprit; `behind` its length is this.
fn is_named(said: &str, behind: &str) {
    let lines: Vec<&str> = said.split_whitespace().collect();
    let diagnosis = lines.join(" ");
    let (what, fault) = diagnosis
        .split_once("; fault: ")
        .unwrap_or_else(|| panic!("{said}"));
    assert!(what.contains("web"), "{said}");
    // The vCPU could have gone to the other pCPU, which was idle; who had its own is named.
    assert!(
        fault.contains(" who: nightly-backup (real-time priority 50) "),
        "{said}"
    );
    let (_, worst) = fault.split_once("worst: ").unwrap();
    let (length, place) = worst
        .split_once(behind)
        .unwrap_or_else(|| panic!("no `{behind}`: {said}"));
    let length: f64 = length.parse().unwrap();
    // The program has the pCPU for five seconds, in which the vCPU wakes once.
    assert!((3.0..=6.0).contains(&length), "{said}");
    assert!(place.contains(", vCPU 1 (thread "), "{said}");
}

#[test]
fn a_recorder_that_is_killed_leaves_nothing_on() {
    let place = Place::beside();
    let said = in_host(
        &place,
        r#"
start() {
	steady record --until 'vCPU waits 200 ms' --buffer-kib 1024 -o /tmp/in 2> /tmp/said &
	recorder=$!
	sleep 3
	I=$T/instances/$(ls $T/instances)
	echo "$1 is on: $(cat $I/tracing_on), $(wc -l < $I/set_event) events," \
		"$(cat $I/buffer_size_kb) KiB"
	for p in /proc/[0-9]*; do
		grep -q steady-guard $p/cmdline && guard=${p#/proc/}
	done
}
start first
kill -9 $recorder
sleep 2
left killed
start second
# As the end of a control group takes both.
kill -9 $guard $recorder
sleep 1
I=$T/instances/$(ls $T/instances)
echo "both killed: on $(cat $I/tracing_on), $(cat $I/buffer_size_kb) KiB"
steady record --seconds 1 --max-mib 32 --vm web -o /tmp/one.zip 2>&1 | tail -1
left next
start third
kill -9 $web
sleep 7
kill -TERM $recorder
wait $recorder
echo "ended: $?"
left stopped
steady record --max-mib 32 --vm web -o /tmp/two.zip 2>&1 | tail -1
steady record -o /tmp/two.zip; echo "no room: $?"
umount $T
steady record --max-mib 32 -o /tmp/two.zip; echo "no tracefs: $?"
"#,
    );
    let expected = [
        "first is on: 1, ",
        "killed: 0 instances, 0 probes\n",
        "both killed: on 0, ",
        "now: steady diagnose /tmp/one.zip\n",
        "next: 0 instances, 0 probes\n",
        "ended: 0\n",
        "stopped: 0 instances, 0 probes\n",
        "no VM `web` runs here; expected a name or a process of: other (",
        "no room: 2\n",
        "no tracefs: 3\n",
    ];
    says(&said, &expected);
    let kib = |line: &str| -> u64 {
        let line = said.lines().find(|of| of.starts_with(line)).unwrap();
        let words: Vec<&str> = line.split_whitespace().collect();
        words[words.len() - 2].parse().unwrap()
    };
    assert!(kib("first is on") >= 1024, "{said}");
    assert!(kib("both killed") < 64, "its memory is free: {said}");
}
