#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Init of `steady host`: mounts what programs expect, runs the user's program or a shell, says how
# it ended, and switches the host off.
busybox mount -t devtmpfs dev /dev
busybox mount -t proc proc /proc
busybox mount -t sysfs sys /sys
busybox mount -t tmpfs tmp /tmp
busybox mount -t tmpfs run /run
busybox mkdir -p /root /dev/pts
# What a kernel may lack, and who looks around can do without.
busybox mount -t devpts pts /dev/pts 2>/dev/null
busybox mount -t debugfs debug /sys/kernel/debug 2>/dev/null
busybox mount -t tracefs trace /sys/kernel/tracing 2>/dev/null
busybox mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
busybox --install -s /usr/bin 2>/dev/null
# Those of the other vendor's processors do not load.
for module in /lab/modules/*; do
	[ ! -e "$module" ] || busybox insmod "$module" 2>/dev/null
done
export PATH=/usr/sbin:/usr/bin HOME=/root TERM="${TERM:-vt100}" PS1='host:\w# '
hostname host
cd /root || exit
if [ -e /lab/run ]; then
	echo 'steady-host: begins'
	/lab/run
	echo "steady-host: ended with $?"
	# The console still has words to send; the line above ends the host as soon as it is out.
	sleep 10
else
	setsid cttyhack sh
fi
sync
reboot -f
