// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does `steady place` place vCPUs on a real host, and is a host as before when it is killed? In
//! Bochs, whose clock is instructions; on a distribution's kernel see `under_qemu`.

use crate::support::{self, Place};

/// A VM of two vCPUs that compute, on two pCPUs.
const BEGIN: &str = r#"
mkdir -p /tmp/g/dev /tmp/g/proc && cp /usr/bin/busybox /tmp/g/busybox
cat > /tmp/g/init <<'E'
#!/busybox sh
/busybox sh -c 'while :; do :; done' &
while :; do :; done
E
chmod +x /tmp/g/init
(cd /tmp/g && find . | cpio -o -H newc > /tmp/guest.cpio) 2>/dev/null
steady-vmm --name web --kernel /lab/bzImage --initrd /tmp/guest.cpio --cpus 2 --memory-mib 64 \
	--console /tmp/web.log --channel /tmp/web.sock --report /tmp/web.json \
	--cmdline 'console=ttyS0 quiet reboot=k panic=-1' &
web=$!
sleep 3
may() {
	printf '%s:' "$1"
	for task in /proc/$web/task/*; do
		grep -q KVM $task/comm || continue
		sed -n 's/^Cpus_allowed_list:\t/ /p' $task/status | tr -d '\n'
	done
	echo
}
"#;

/// What a host with these pCPUs says to the script.
fn in_host(place: &Place, pcpus: &[&str], script: &str) -> String {
    support::in_host(place, pcpus, &format!("{BEGIN}{script}"))
}

#[test]
fn vcpus_may_run_where_they_might_before_also_after_sigkill() {
    let place = Place::beside();
    let said = in_host(
        &place,
        &["--pcpus", "2"],
        r#"
may first
steady place --apply --pin --state /tmp/place.jsonl &
place=$!
sleep 2
may placed
steady place --apply --state /tmp/place.jsonl && echo both
kill -9 $place
sleep 2
may killed
echo "guards: $(ps | grep -c '[-]-guard')"
echo "left: $(wc -c < /tmp/place.jsonl)"
steady place --apply --pin --state /tmp/place.jsonl --seconds 2
may ended
exit 0
"#,
    );
    for line in [
        "first: 0-1 0-1",
        "placed: 0 1",
        "killed: 0-1 0-1",
        "guards: 0",
        "left: 0",
        "ended: 0-1 0-1",
    ] {
        let found = said.lines().any(|said| said.trim() == line);
        assert!(found, "no `{line}` in: {said}");
    }
    assert!(!said.contains("both"), "{said}");
}

#[test]
fn the_threads_of_a_core_are_left_to_one_vcpu_while_there_are_cores() {
    let place = Place::beside();
    let said = in_host(
        &place,
        &["--pcpus", "4", "--smt"],
        r#"
for load in 1 2 3 4 5 6; do sh -c 'while :; do :; done' & done
steady place --apply --state /tmp/place.jsonl --seconds 3 2>&1
steady place --apply --pin --state /tmp/place.jsonl &
sleep 2
may pinned
exit 0
"#,
    );
    let parts = said.lines().find(|line| line.contains("parts its vCPUs"));
    let parts = parts.unwrap_or_else(|| panic!("no VM is parted: {said}"));
    assert!(
        parts.contains(" on 0-1") && parts.contains(" on 2-3"),
        "{parts}"
    );
    assert!(
        said.lines().any(|line| line.trim() == "pinned: 0 2"),
        "{said}"
    );
}
