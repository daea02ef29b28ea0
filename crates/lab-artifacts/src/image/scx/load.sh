#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Loads a BPF scheduler into the emulated host, before its VMs start: load.sh OBJECT. What happened
# is in /run/scx, which watch.sh reports.
if ! /usr/sbin/bpftool struct_ops register "$1" >/run/scx 2>&1; then
	echo "bpftool cannot load it" >>/run/scx
fi
