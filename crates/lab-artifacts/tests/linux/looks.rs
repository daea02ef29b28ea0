// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `linux/strict-boost/looks` makes of a trace, by one of a few made-up lines.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// vCPU 0 (thread 76) has sent a call to 4 and waits for it. It looks twice: at first 4 stands
/// ready and is passed over, then it is boosted. Then 4 takes the call, looks itself, and is
/// boosted once more. What vCPU 0 of another VM (thread 99) does counts for nothing.
const TRACE: &str = "
CPU 0/KVM-76 [000] 7.1: kvm_apic_accept_irq: apicid 4 vec 251 (Fixed|edge)
CPU 0/KVM-76 [000] 7.2: kvm_strict_boost_look: vm 69 vcpu 0 rip 0xffffffff81000110 \
    kernel 1 awaited 1
CPU 0/KVM-76 [000] 7.2: kvm_strict_boost_judged: vm 69 for 0 vcpu 4 cause ipi verdict user
CPU 0/KVM-76 [000] 7.3: kvm_entry: vcpu 0 rip 0xffffffff81000110
CPU 0/KVM-76 [000] 7.4: kvm_strict_boost_look: vm 69 vcpu 0 rip 0xffffffff81000110 \
    kernel 1 awaited 1
CPU 0/KVM-76 [000] 7.4: kvm_strict_boost_judged: vm 69 for 0 vcpu 4 cause ipi verdict chosen
CPU 0/KVM-76 [000] 7.4: kvm_strict_boost_answer: vm 69 for 0 vcpu 4 cause ipi answer 1
CPU 0/KVM-76 [000] 7.5: kvm_entry: vcpu 0 rip 0xffffffff81000110
CPU 4/KVM-80 [000] 7.6: kvm_inj_virq: IRQ 0xfb
CPU 4/KVM-80 [000] 7.6: kvm_strict_boost_look: vm 69 vcpu 4 rip 0xffffffff81000210 \
    kernel 1 awaited 0
CPU 4/KVM-80 [000] 7.6: kvm_entry: vcpu 4 rip 0xffffffff81000210
CPU 0/KVM-76 [000] 7.7: kvm_strict_boost_look: vm 69 vcpu 0 rip 0xffffffff81000110 \
    kernel 1 awaited 1
CPU 0/KVM-76 [000] 7.7: kvm_strict_boost_judged: vm 69 for 0 vcpu 4 cause ipi verdict chosen
CPU 0/KVM-76 [000] 7.7: kvm_strict_boost_answer: vm 69 for 0 vcpu 4 cause ipi answer 1
CPU 1/KVM-99 [001] 7.8: kvm_strict_boost_look: vm 98 vcpu 0 rip 0xffffffff81000110 \
    kernel 1 awaited 1
";

const SYMBOLS: &str = "\
ffffffff81000000 T _text
ffffffff81000100 t smp_call_function_many_cond
ffffffff81000200 t native_queued_spin_lock_slowpath
ffffffff81000300 T memcpy
";

fn looks(symbols: &str, vm: &str) -> Output {
    let place = tempfile::tempdir().unwrap();
    let map = place.path().join("System.map");
    std::fs::write(&map, symbols).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../linux/strict-boost/looks");
    let mut child = Command::new(script)
        .arg(&map)
        .arg(vm)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(TRACE.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn looks_and_boosts_are_sorted_by_what_the_apic_says_and_not_the_account() {
    let output = looks(SYMBOLS, "69");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    for line in [
        "      3  75.0 %  smp_call_function_many_cond",
        "      1  25.0 %  native_queued_spin_lock_slowpath",
        "      1  25.0 %  for calls: LOST: a ready vCPU had an IPI of the spinner",
        "      2  50.0 %  for calls: somebody boosted",
        "      1  25.0 %  for others: nobody else stood ready",
        "lost opportunity: 1 of 4 looks, 25.0 %",
        "      1  50.0 %  a receiver of the spinner's IPI, which waits for calls",
        "overboost: 1 of 2 boosts, 50.0 %",
    ] {
        assert!(
            said.lines().any(|said| said == line),
            "{line} is not in:\n{said}"
        );
    }
}

#[test]
fn the_symbols_of_another_kernel_are_refused() {
    let other = SYMBOLS.replace("smp_call_function_many_cond", "do_something_else");
    let output = looks(&other, "69");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(said.contains("as in do_something_else"), "{said}");
}

#[test]
fn a_file_that_is_no_system_map_is_told() {
    let output = looks("a line of words\n", "69");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("is no System.map"), "{said}");
}

#[test]
fn a_vm_without_looks_is_told() {
    let output = looks(SYMBOLS, "7");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    assert!(said.contains("no kvm_strict_boost_look of VM 7"), "{said}");
}
