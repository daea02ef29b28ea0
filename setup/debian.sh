# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Read by setup/try-in, linux/deb-try and packaging/try: another Debian, made from nothing, to run
# commands in.
#
# Callers set $program to their name, $suite to the release, $folder to where logs go, and $root to
# where Debian goes; and $suites, where other releases than Debian 12 and 13 will do. Needs root,
# debootstrap and the network.

: "${program:?}"

# die CODE WORD...
die() { code=$1; shift; echo "$program: $*" >&2; exit "$code"; }

check_suite() {
	case " ${suites:=bookworm trixie} " in
	*" $suite "*) ;;
	*) die 2 "expected one of $suites, found $suite" ;;
	esac
}

# Whether this can be done here, with these further programs.
check_here() {
	[ "$(id -u)" = 0 ] ||
		die 3 "needs root, to make and enter another Debian: call it with sudo"
	for tool in debootstrap chroot mount timeout "$@"; do
		command -v "$tool" >/dev/null ||
			die 3 "$tool is not installed; fix: apt-get install $tool"
	done
}

# The mirror with this label that this machine's own apt uses.
mirror() {
	# shellcheck disable=SC2016
	apt-get indextargets --format '$(LABEL)|$(COMPONENT)|$(REPO_URI)' 'Identifier: Packages' |
		sed -n "s/^$1|main|//p" | head -n1
}

# make_debian PACKAGE,PACKAGE,... (or '', for those alone that every Debian has)
make_debian() {
	main=$(mirror Debian) security=$(mirror Debian-Security)
	if [ -z "$main" ] || [ -z "$security" ]; then
		die 3 "apt knows no mirror of Debian and its security updates: run apt-get update"
	fi
	rm -rf "$root.new"
	debootstrap --variant=minbase ${1:+--include="$1"} "$suite" "$root.new" "$main" \
		>"$folder/debootstrap.log" 2>&1 ||
		die 1 "debootstrap failed: see $folder/debootstrap.log"
	{
		echo "deb $main $suite main"
		echo "deb $main $suite-updates main"
		echo "deb $security $suite-security main"
	} >"$root.new/etc/apt/sources.list"
	# How this machine reaches the network: names, and trusted certificates.
	cp /etc/hosts /etc/resolv.conf "$root.new/etc/"
	if [ -x "$root.new/usr/sbin/update-ca-certificates" ]; then
		for trusted in /usr/local/share/ca-certificates/*.crt; do
			[ -e "$trusted" ] || continue
			cp "$trusted" "$root.new/usr/local/share/ca-certificates/"
		done
		chroot "$root.new" update-ca-certificates >>"$folder/debootstrap.log" 2>&1
	fi
	mv "$root.new" "$root"
}

enter() {
	mount -t proc proc "$root/proc"
	mount --bind /sys "$root/sys"
	mount --bind /dev "$root/dev"
	mount --bind /dev/pts "$root/dev/pts"
	mount -t tmpfs shm "$root/dev/shm"
}

leave() {
	for place in dev/shm dev/pts dev sys proc; do
		! mountpoint -q "$root/$place" || umount "$root/$place" || umount -l "$root/$place"
	done
}

inside() {
	chroot "$root" env -i HOME=/root USER=root TERM=dumb LANG=C.UTF-8 \
		PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
		${http_proxy:+"http_proxy=$http_proxy"} ${https_proxy:+"https_proxy=$https_proxy"} \
		"$@"
}
