# shellcheck shell=sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Read by packaging/build, stage and pack: what is packaged, of which commit, and of which time.
#
# Callers set $program to their name and $project to the tree's root. From the environment come
# STEADY_COMMIT and SOURCE_DATE_EPOCH, where neither git nor packaging/commit knows them.

: "${program:?}" "${project:?}"

# die CODE WORD...
die() { code=$1; shift; echo "$program: $*" >&2; exit "$code"; }

# needs PROGRAM:PACKAGE...: each is there, or the first that is not is named.
needs() {
	for pair in "$@"; do
		command -v "${pair%:*}" >/dev/null ||
			die 3 "${pair%:*} is not installed; fix: apt-get install ${pair#*:}"
	done
}

# The words of packaging/commit that git wrote into an archive: the commit and its time.
archived() {
	sed -n '/^[0-9a-f]\{40\} [0-9]*$/p' "$project/packaging/commit"
}

# Sets $version, of all packages, and exports STEADY_COMMIT and SOURCE_DATE_EPOCH.
find_version() {
	if [ -e "$project/.git" ]; then
		now=$(git -C "$project" log -1 --format='%H %ct')
		# What is not committed has no name, so the commit's does not stand for it.
		[ -z "$(git -C "$project" status --porcelain)" ] || changed=-changed
		tagged=$(git -C "$project" tag --points-at HEAD 'v*')
	else
		now=$(archived)
	fi
	number=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"$/\1/p' \
		"$project/Cargo.toml")
	commit=$(echo "${now%% *}" | cut -c1-12)
	: "${STEADY_COMMIT:=${commit:+$commit${changed-}}}" "${SOURCE_DATE_EPOCH:=${now##* }}"
	if [ -z "$STEADY_COMMIT" ] || [ -z "$SOURCE_DATE_EPOCH" ]; then
		die 2 "this is neither a clone nor an archive of git: set STEADY_COMMIT to" \
			"the commit, and SOURCE_DATE_EPOCH to its time in seconds"
	fi
	export STEADY_COMMIT SOURCE_DATE_EPOCH
	if [ "${tagged-}" = "v$number" ] && [ -z "${changed-}" ]; then
		version=$number
	else
		# Later commits have higher versions, all higher than the release before.
		when=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d.%H%M%S)
		version="$number+git$when.$(echo "$STEADY_COMMIT" | tr -d '-')"
	fi
}

# sums FOLDER: writes the checksums that the command compares before it uses what is in there.
sums() {
	sums=$(cd "$1" && find . -type f -printf '%P\n' | sort | xargs -d '\n' sha256sum)
	echo "$sums" >"$1/SHA256SUMS"
	chmod 644 "$1/SHA256SUMS"
}

# Fails for a program that needs a loader or a shared library of the machine it runs on.
is_static() {
	what=$(LC_ALL=C readelf --program-headers --dynamic --wide "$1") ||
		die 1 "$1 is not a program"
	needed=$(echo "$what" | grep -E 'interpreter:|\(NEEDED\)' | head -n 1)
	[ -z "$needed" ] || die 1 "$1 is not static: $needed"
}
