#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 OR MIT
"""Adds up what a recorded trace shows of its vCPUs, from the text of `trace-cmd report -t -R`.

usage: trace-cmd report -t -R -i X.dat | totals.py X X.dat.vms

Prints for each VM of the notes the nanoseconds that its vCPUs were ready and did not run, that they
were in D state, and for each exit code the nanoseconds from kvm_exit to kvm_entry without those.
What goes on at the end counts up to the last event; of a thread's state before the trace shows it
nothing is counted. Shares no code with the reader or the analyses
that it checks.
"""
import json
import re
import sys
from collections import defaultdict

LINE = re.compile(r"-(\d+)\s+\[\d+\]\s+(\d+)\.(\d{9}):\s+(\w+):\s+(.*)")


def main(name, notes):
    owner = {v["tid"]: vm["name"] for vm in json.load(open(notes))["vms"] for v in vm["vcpus"]}
    state = dict.fromkeys(owner)  # None until it is known, then run, ready, stuck or asleep
    since = {}
    ready, stuck, exits = defaultdict(int), defaultdict(int), defaultdict(int)
    left = {}  # by thread: exit code, when, and its ready and stuck time until then
    first = now = None

    def turn(tid, to):
        was, at = state[tid], since.get(tid)
        if was == "ready":
            ready[tid] += now - at
        elif was == "stuck":
            stuck[tid] += now - at
        state[tid], since[tid] = to, now

    for line in sys.stdin:
        found = LINE.search(line)
        if not found:
            continue
        tid, event, rest = int(found[1]), found[4], found[5]
        now = int(found[2]) * 10**9 + int(found[3])
        first = now if first is None else first
        fields = dict(re.findall(r"(\w+)=(\S+)", rest))
        if event == "sched_switch":
            prev, then = int(fields["prev_pid"]), int(fields["next_pid"])
            if prev in owner:
                # 0 is runnable, 0x100 preempted; 2 is D. The rest sleeps.
                bits = int(fields["prev_state"], 0)
                turn(prev, "ready" if bits in (0, 0x100) else "stuck" if bits & 2 else "asleep")
            if then in owner:
                turn(then, "run")
        elif event in ("sched_wakeup", "sched_waking") and int(fields["pid"]) in owner:
            woken = int(fields["pid"])
            if event == "sched_wakeup" and state[woken] in ("asleep", "stuck"):
                turn(woken, "ready")
        elif event == "kvm_exit" and tid in owner:
            code = int(fields["exit_reason"], 0) & 0xFFFF
            left[tid] = (code, now, ready[tid], stuck[tid])
        elif event == "kvm_entry" and tid in left:
            code, at, was_ready, was_stuck = left.pop(tid)
            without = ready[tid] - was_ready + stuck[tid] - was_stuck
            exits[owner[tid], code] += now - at - without
    for tid in owner:
        turn(tid, None)
    for vm in sorted(set(owner.values())):
        for kind, times in (("ready", ready), ("stuck", stuck)):
            print(name, vm, kind, sum(ns for tid, ns in times.items() if owner[tid] == vm))
        for (of, code), ns in sorted(exits.items()):
            if of == vm:
                print(name, vm, f"exit-{code}", ns)
    print(name, "-", "span", now - first)


if __name__ == "__main__":
    main(*sys.argv[1:])
