# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
# What linux/lib.sh says otherwise for this kernel, which is 6.12's own and a rival on top.

[ "$program" != linux/format-patch ] ||
	die "the port to 6.12-ranges has a rival, which is not to be sent: use linux/format-patch"
