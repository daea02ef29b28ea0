# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
# What linux/lib.sh says otherwise for Linux 7.3.

kvm_selftests=tools/testing/selftests/kvm/x86

check_tree() {
	[ -f "$1/Makefile" ] || die "$1 is not a Linux tree: it has no Makefile"
	version=$(sed -n 's/^VERSION = //p' "$1/Makefile")
	version=$version.$(sed -n 's/^PATCHLEVEL = //p' "$1/Makefile")
	[ "$version" = 7.3 ] || die "$1 is Linux $version; these hooks are for 7.3"
}
