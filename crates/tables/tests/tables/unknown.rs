// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is not known is refused with what to do.

use steady_tables::read;

fn refused(bytes: &[u8]) -> String {
    let mut bytes = bytes;
    read(&mut bytes, "input").unwrap_err().to_string()
}

#[test]
fn every_refusal_names_the_command_that_records() {
    for input in [
        &b""[..],
        b"hello\n",
        b"\x89PNG\r\n\x1a\n\x00\x00",
        b"<domain type='kvm' id='3'>\n<name>a</name>\n",
        b"# Overhead  Command  Shared Object\n",
        b"Architecture:        x86_64\n",
        b"1 2 x\n3 4 y\n",
    ] {
        let said = refused(input);
        assert!(
            said.starts_with("input: not a trace, a table or a log"),
            "{said}"
        );
        assert!(said.contains("sudo steady record"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
    }
}

#[test]
fn a_known_shape_is_named() {
    assert!(refused(b"<domain type='kvm' id='3'>\n").contains("virsh domstats --vcpu"));
    assert!(refused(b"# Overhead  Command\n").contains("perf report"));
    assert!(refused(b"\x89PNG\r\n").contains("paste the text"));
    let bars = b"value |------------ count\n    8 |@@@  30\n   16 |@@   20\n";
    assert!(refused(bars).contains("such as `runqlat (us)`"));
    assert!(refused(b"  PID  %usr %system\n").contains("pidstat"));
    for (line, said) in [
        (
            " 2:11:02pm up 44 days 12:11, 812 worlds, 22 VMs; CPU load average: 1.91",
            "esxtop",
        ),
        ("vcpu_quota     : 20000", "virsh schedinfo"),
        ("Job type:         Unbounded", "virsh domjobinfo"),
        (
            "AM   UID  TGID   TID    %usr %system  %guest   %wait    %CPU   CPU",
            "pidstat, whose %wait",
        ),
    ] {
        let text = refused(format!("{line}\n").as_bytes());
        assert!(text.contains(said), "{text}");
    }
    let headless = b"Average:       0   50.00    0.00    5.00    0.00   25.00   20.00\n";
    assert!(refused(headless).contains("that names the columns"));
}

#[test]
fn an_unknown_one_is_quoted_in_part() {
    let long = "x".repeat(500);
    let said = refused(long.as_bytes());
    assert!(
        said.contains(&"x".repeat(60)) && !said.contains(&"x".repeat(61)),
        "{said}"
    );
}
