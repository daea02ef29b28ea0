#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Ends, and says why, once no BPF scheduler schedules the host; else it runs until it is stopped.
while [ "$(busybox cat /sys/kernel/sched_ext/state 2>/dev/null)" = enabled ]; do
	busybox sleep 0.2
done
busybox tail -n 3 /run/scx >&2
busybox dmesg | busybox grep "sched_ext: " | busybox tail -n 3 >&2
