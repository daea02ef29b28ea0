# shellcheck shell=sh
# SPDX-License-Identifier: GPL-2.0-only
# Read by apply, format-patch, verify and selftests/build: what a folder of kernel changes is.
#
# new/    files that we add, in the kernel's layout
# hooks/  patches to files that are there, a stack in the order of their names
# A hook begins with its SPDX line, `Subject: ...`, `New: FILE` for each file of new/ that goes into
# the same patch of a series, `Selftests: FOLDER` for a folder whose tests of KVM do, `Upstream: no`
# if it is of use here alone, and an empty line; then the body of the patch, `---`, and the diff.
# Callers set $program to their name. Names of files must be free of white space.

: "${program:?}"
export LC_ALL=C

die() { echo "$program: $*" >&2; exit 1; }

# Whether the folder is a Linux tree that the hooks are for.
check_tree() {
	[ -f "$1/Makefile" ] || die "$1 is not a Linux tree: it has no Makefile"
	version=$(sed -n 's/^VERSION = //p' "$1/Makefile").$(sed -n 's/^PATCHLEVEL = //p' "$1/Makefile")
	[ "$version" = 6.12 ] || die "$1 is Linux $version; the hooks are for 6.12"
}

# Whether a further folder of changes is one.
check_folders() {
	for folder in "$@"; do
		[ -d "$folder/new" ] || [ -d "$folder/hooks" ] ||
			die "$folder is no folder of kernel changes: it has neither new/ nor hooks/"
	done
}

# The new files of a folder, by their paths in the kernel.
new_files() {
	[ ! -d "$1/new" ] || (cd "$1/new" && find . -type f ! -name .gitkeep | sed 's|^\./||' | sort)
}

# Where KVM's selftests are in the kernel.
kvm_selftests=tools/testing/selftests/kvm/x86_64

# Each file that a folder brings: its path in the kernel, and where it is.
brought() {
	new_files "$1" | while read -r file; do echo "$file $1/new/$file"; done
	for hook in $(hooks_of "$1"); do
		for place in $(header Selftests "$hook"); do
			[ -f "$1/$place/tests" ] ||
				die "$(basename "$hook") names $1/$place, which lists no tests"
			for source in "$1/$place"/*.[ch]; do
				echo "$kvm_selftests/$(basename "$source") $source"
			done
		done
	done
}

# The hooks of a folder, in their order.
hooks_of() {
	[ ! -d "$1/hooks" ] || find "$1/hooks" -name '*.patch' | sort
}

# The value of a header's line, or each of its values:  header KEY HOOK
header() { sed -n -e '/^---$/q' -e '/^$/q' -e "s/^$1: *//p" "$2"; }

# The files that a hook touches, once each. Lines of hunks are counted, not looked at.
hook_files() {
	awk '
	before > 0 || after > 0 {
		mark = substr($0, 1, 1)
		if (mark != "+" && mark != "\\") before--
		if (mark != "-" && mark != "\\") after--
		next
	}
	/^--- ./ { from = $2 }
	/^\+\+\+ ./ {
		sub(/^[^\/]*\//, "", from)
		to = $2
		sub(/^[^\/]*\//, "", to)
		if (from != to || $2 == "/dev/null") { print "!" from "=>" to; exit }
		if (!seen[to]++) print to
	}
	/^@@ -/ {
		n = split($2, old, ",")
		before = n > 1 ? old[2] : 1
		n = split($3, new, ",")
		after = n > 1 ? new[2] : 1
	}' "$1"
}

# Whether a hook only changes files that are there.
check_hook() {
	for file in $(hook_files "$1"); do
		case $file in
		!*) die "$(basename "$1") makes, removes or renames a file (${file#!}); a hook only changes one that is there, and new files go into new/" ;;
		esac
	done
}

# Copies what a hook changes, and SCRATCH has not yet, from TREE:  fetch TREE SCRATCH HOOK
fetch() {
	check_hook "$3"
	for file in $(hook_files "$3"); do
		[ ! -e "$2/$file" ] || continue
		[ -f "$1/$file" ] || die "$(basename "$3") changes $file, which is not in $1"
		mkdir -p "$2/$(dirname "$file")"
		cp -p "$1/$file" "$2/$file"
	done
}

# Writes to OUT/changed the files that the folders' hooks change and that none of them brings, and to
# OUT/brought those that they bring:  list_files OUT FOLDER...
list_files() {
	lists=$1
	shift
	for folder in "$@"; do brought "$folder"; done >"$lists/sources"
	cut -d ' ' -f 1 "$lists/sources" | sort >"$lists/brought"
	for folder in "$@"; do
		for hook in $(hooks_of "$folder"); do
			check_hook "$hook"
			hook_files "$hook"
		done
	done | sort -u | comm -23 - "$lists/brought" >"$lists/changed"
}

# Applies a hook to the files in SCRATCH; lines may have moved, but their context must be the
# hook's own:  apply_hook SCRATCH HOOK TREE, where TREE is what the user calls it.
apply_hook() {
	[ -n "$(hook_files "$2")" ] || return 0
	said=$(patch --force --fuzz=0 --no-backup-if-mismatch -p1 -d "$1" <"$2" 2>&1) && return 0
	if patch --dry-run --force --fuzz=0 -R -p1 -d "$1" <"$2" >/dev/null 2>&1; then
		die "$(basename "$2") is in $3 already: is the tree patched? Use a fresh one"
	fi
	where=$(echo "$said" | awk '
		/^(patching|checking) file / { file = $3 }
		/^Hunk #.* FAILED at / { sub(/^#/, "", $2); sub(/\.$/, "", $5); print "  hunk " $2 " of " file ", line " $5 }')
	die "$(basename "$2") does not apply to $3 without fuzz:
${where:-$said}
The lines around these differ from the hook's: make the hook anew on top of those before it"
}
