# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
# What linux/lib.sh says otherwise for Linux 6.1.

[ "$program" != linux/format-patch ] ||
	die "the port to 6.1 has a rival alone, which is not to be sent: use another one"

check_tree() {
	[ -f "$1/Makefile" ] || die "$1 is not a Linux tree: it has no Makefile"
	version=$(sed -n 's/^VERSION = //p' "$1/Makefile")
	version=$version.$(sed -n 's/^PATCHLEVEL = //p' "$1/Makefile")
	[ "$version" = 6.1 ] || die "$1 is Linux $version; these hooks are for 6.1"
}
