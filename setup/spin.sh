# SPDX-License-Identifier: Apache-2.0 OR MIT
# Read by the scripts that verify a model with Spin: makes a verifier, runs it within bounds of time
# and memory, and reports the outcome in a line. Before it is read: $models is the folder of the
# models and $model the file in it that is verified, $faults a table of names and of parameters
# under which each shows, $seconds and $megabytes the bounds of one configuration. It runs in a
# folder of its own, with the models in it.
compress=-DCOLLAPSE	# time for memory; a small search may do without
optimize=-O0	# a small search is sooner done than the compiler
failed=0

# The names of the faults.
fault_names() {
	echo "$faults" | awk 'NF { print $1 }'
}

# The parameters of a fault.
fault_parameters() {
	echo "$faults" | awk -v name="$1" '$1 == name { $1 = ""; print }'
}

# Ends the script unless there is a fault of the name $1; $2 is how the script is called.
known_fault() {
	fault_names | grep -qxF -e "$1" && return
	echo "check: no fault '$1'; $2 --list names them" >&2
	exit 2
}

# Goes to the folder where all is made.
begin() {
	for program in spin gcc timeout; do
		command -v $program >/dev/null || {
			echo "check: $program is missing: apt-get install spin gcc coreutils" >&2
			exit 3
		}
	done
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM
	cd "$work"
	cp "$models"/*.pml .
}

# Makes the verifier: how Spin searches, then the parameters of the model.
build() {
	search=$1
	shift
	rm -f pan* ./*.trail
	if ! spin -a "$@" "$model" >spin.log 2>&1 || [ ! -f pan.c ]; then
		cat spin.log >&2
		exit 1
	fi
	# shellcheck disable=SC2086 # several words each
	gcc $optimize $compress -w -DMEMLIM=$megabytes $search -o pan pan.c
}

# Runs it, and says in $outcome what came of it: holds, broken, or why it cannot say.
search() {
	began=$(date +%s)
	nice timeout "$seconds" ./pan "$@" >pan.log 2>&1 || true
	took=$(($(date +%s) - began))
	states=$(awk '/states, stored/ { print $1 }' pan.log)
	depth=$(sed -n 's/.*depth reached \([0-9]*\).*/\1/p' pan.log)
	memory=$(awk '/total actual memory usage/ { print int($1) }' pan.log)
	if grep -q 'assertion violated\|acceptance cycle' pan.log; then
		outcome=broken
	elif grep -q 'pan.*invalid end state' pan.log; then
		outcome=deadlock
	elif grep -q 'out of memory\|Search not completed\|max search depth too small' pan.log; then
		outcome='not exhausted'
	elif grep -q 'errors: 0' pan.log; then
		outcome=holds
	else
		outcome='no result'
	fi
}

# Prints the outcome, EXPECTED first, then what was searched.
line() {
	expected=$1
	shift
	[ "$outcome" = "$expected" ] || { outcome="$outcome, expected: $expected"; failed=1; }
	printf '%-48s %-8s %10s states, depth %7s, %5s MB, %4s s\n' "$*" "$outcome" \
		"${states:-?}" "${depth:-?}" "${memory:-?}" "$took"
}

# No reachable state breaks the promise, and none is a deadlock.
verify() {
	name=$1
	shift
	build '-DSAFETY -DNOFAIR' "$@"
	search -m2000000 -w22
	line holds "$name"
}

# Whether all that was begun ends, as the model's LIVENESS says it.
liveness() {
	expected=$1
	name=$2
	shift 2
	build '-DNOREDUCE -DNFAIR=3' -DLIVENESS "$@"
	search -a -f -m2000000 -w22
	line "$expected" "$name"
}

# The shortest way to break it by a fault.
find_fault() {
	name=$1
	shift
	build '-DSAFETY -DNOFAIR -DBFS' "$@"
	search -w20
	line broken "fault $name"
}

# Each fault of the table.
find_faults() {
	fault_names >names
	while read -r each; do
		# shellcheck disable=SC2046 # parameters are words
		find_fault "$each" $(fault_parameters "$each")
	done <names
}
