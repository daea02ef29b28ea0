// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The script that runs the tests inside the emulated host, and what it says.
//!
//! Before each test the remedies' parameters are set again, so that every test meets every mode.
//! Left out: the tests' own words, but for the cycles that some measure, the checks that failed and
//! the last lines where a test did not pass, and what the host's kernel complained of before the
//! first.

use std::fmt::Write as _;

use steady_agent::complaint::complaint;

use super::config::UnitTest;

/// What stands before the script's own words.
const MARK: &str = "steady-unit:";
/// Most failed checks that are shown of a test.
const MOST_FAILED: u32 = 30;
/// Most warnings of the host's kernel that are read of a test.
const MOST_WARNED: u32 = 400;

/// How the kernel is set while a test runs: `module.parameter` and value, in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct Setting {
    /// Its name: `off`, or `shoot4u=deferred`.
    pub name: String,
    /// Parameters and values.
    pub parameters: Vec<(String, String)>,
}

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum UnitOutcome {
    /// All its checks held.
    Pass,
    /// A check did not.
    Fail,
    /// What it needs is not there.
    Skip,
    /// It gave up.
    Abort,
    /// The VM was reset or switched off before the test said anything.
    Reset,
    /// It was ended by its limit.
    TimeLimit,
    /// QEMU ended otherwise.
    Qemu,
    /// The emulated host ended with it.
    LostHost,
}

impl UnitOutcome {
    /// By the exit code of QEMU, which is twice the test's and one (`isa-debug-exit`), or that of
    /// `timeout`. The test's codes are in `lib/libcflat.h` there and `scripts/runtime.bash`.
    #[must_use]
    pub fn of(code: u8) -> Self {
        match code {
            1 => Self::Pass,
            3 => Self::Fail,
            155 => Self::Skip,
            255 => Self::Abort,
            0 => Self::Reset,
            124 | 137 => Self::TimeLimit,
            _ => Self::Qemu,
        }
    }

    /// One word for tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Fail => "fail",
            Self::Skip => "skip",
            Self::Abort => "abort",
            Self::Reset => "reset",
            Self::TimeLimit => "limit",
            Self::Qemu => "qemu",
            Self::LostHost => "lost",
        }
    }
}

/// What one test did under one setting.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Cell {
    /// The test.
    pub test: String,
    /// The setting's name.
    pub setting: String,
    /// How it ended.
    pub outcome: UnitOutcome,
    /// What it measured, where it is one of those that measure: cycles of an operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cycles: Option<u64>,
    /// The checks that failed, in their order, in the test's words.
    pub failed: Vec<String>,
    /// Its last words, where it did not pass.
    pub last_words: Vec<String>,
    /// What the host's kernel complained of meanwhile.
    pub complaints: Vec<String>,
}

/// The script for `tests`, each under every one of `settings`.
#[must_use]
pub fn script(tests: &[&UnitTest], settings: &[Setting]) -> Vec<u8> {
    assert!(!settings.is_empty(), "a kernel is set somehow");
    let mut text = format!(
        "#!/bin/sh\n{}",
        r#"
dmesg -c >/dev/null
set_to() {
	echo "$2" >"/sys/module/${1%%.*}/parameters/${1#*.}" || echo "MARK unset $1"
}
has() {
	[ "$(cat "${1%%=*}" 2>/dev/null)" = "${1#*=}" ]
}
run() {
	limit=$1 file=$2 smp=$3
	shift 3
	timeout -s KILL "$limit" /usr/bin/qemu-system-x86_64 --no-reboot -nodefaults \
		-global kvm-pit.lost_tick_policy=discard -device pc-testdev \
		-device isa-debug-exit,iobase=0xf4,iosize=0x4 -display none -serial stdio \
		-device pci-testdev -machine accel=kvm -kernel "/x86/$file" -smp "$smp" "$@" \
		</dev/null >/tmp/words 2>&1
	code=$?
	grep '^FAIL' /tmp/words | head -n MOST | tr -d '\r' | sed 's/^/MARK failed /'
	[ "$file" != vmexit.flat ] ||
		sed -n 's/^[a-z][a-z0-9_]* \([0-9]*\)\r*$/MARK cycles \1/p' /tmp/words
	[ $code = 1 ] || tail -n 4 /tmp/words | tr -d '\r' | sed 's/^/MARK said /'
	dmesg -c -r | grep '^<[0-4]>' | head -n WARNED | sed 's/^<[0-9]>/MARK warned /'
	echo "MARK end $code"
}
"#
    )
    .replace("MARK", MARK)
    .replace("WARNED", &MOST_WARNED.to_string())
    .replace("MOST", &MOST_FAILED.to_string());
    for test in tests {
        for setting in settings {
            let _ = writeln!(text, "echo '{MARK} begin {} {}'", test.name, setting.name);
            for (parameter, value) in &setting.parameters {
                let _ = writeln!(text, "set_to {parameter} {value}");
            }
            let has: String = test
                .checks
                .iter()
                .map(|check| format!("has '{}' && ", check.replace('\'', "")))
                .collect();
            let args = match test.args.as_str() {
                "" => String::new(),
                words => format!(" -append {words}"),
            };
            let (limit, file, smp) = (test.limit_s, &test.file, test.smp);
            let call = format!("run {limit} {file} {smp}{args} {}", test.params);
            if has.is_empty() {
                let _ = writeln!(text, "{call}");
            } else {
                let _ = writeln!(
                    text,
                    "if {has}true; then\n{call}\nelse echo '{MARK} end 155'\nfi"
                );
            }
        }
    }
    text.into_bytes()
}

/// Reads what the script said. A test that began and did not end was lost with its host.
///
/// # Errors
/// A sentence, if a parameter could not be set or the words make no sense.
pub fn cells(said: &[u8]) -> Result<Vec<Cell>, String> {
    let said = String::from_utf8_lossy(said);
    let mut cells: Vec<Cell> = Vec::new();
    for line in said.lines() {
        let Some((_, words)) = line.split_once(MARK) else {
            continue;
        };
        let (what, rest) = words.trim_start().split_once(' ').unwrap_or((words, ""));
        if what == "begin" {
            let (test, setting) = rest
                .split_once(' ')
                .ok_or_else(|| format!("`{line}` names no setting"))?;
            cells.push(Cell {
                test: test.to_owned(),
                setting: setting.to_owned(),
                outcome: UnitOutcome::LostHost,
                cycles: None,
                failed: Vec::new(),
                last_words: Vec::new(),
                complaints: Vec::new(),
            });
            continue;
        }
        let Some(cell) = cells.last_mut() else {
            return Err(format!("`{line}` belongs to no test"));
        };
        match what {
            // The first is the operation's own, of those that report more than one.
            "cycles" => cell.cycles = cell.cycles.or(rest.trim().parse().ok()),
            "failed" => cell.failed.push(rest.to_owned()),
            "said" => cell.last_words.push(rest.to_owned()),
            "warned" => cell.complaints.extend(complaint(rest).map(str::to_owned)),
            "unset" => return Err(format!("the host has no parameter {rest}")),
            "end" => {
                let code = rest.trim().parse();
                let code = code.map_err(|_| format!("`{line}` has no exit code"))?;
                cell.outcome = UnitOutcome::of(code);
            }
            _ => return Err(format!("`{line}` is not understood")),
        }
    }
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit_tests::config::parse;

    fn setting(name: &str) -> Setting {
        let parameters = vec![("kvm.shoot4u".to_owned(), name.to_owned())];
        let name = name.to_owned();
        Setting { name, parameters }
    }

    #[test]
    fn each_test_runs_under_each_setting_after_its_parameters_were_set() {
        let tests =
            parse("[a]\nfile = a.flat\ntest_args = 'x y'\n[b]\nfile = b.flat\ncheck = /f=Y\n");
        let tests = tests.unwrap();
        let tests: Vec<_> = tests.iter().collect();
        let text = String::from_utf8(script(&tests, &[setting("off"), setting("eager")])).unwrap();
        let calls: Vec<&str> = text
            .lines()
            .filter(|line| line.starts_with("run ") || line.starts_with("set_to "))
            .collect();
        assert_eq!(
            calls,
            [
                "set_to kvm.shoot4u off",
                "run 90 a.flat 1 -append 'x y' ",
                "set_to kvm.shoot4u eager",
                "run 90 a.flat 1 -append 'x y' ",
                "set_to kvm.shoot4u off",
                "run 90 b.flat 1 ",
                "set_to kvm.shoot4u eager",
                "run 90 b.flat 1 ",
            ]
        );
        assert!(
            text.contains("if has '/f=Y' && true; then\nrun 90 b.flat"),
            "{text}"
        );
    }

    #[test]
    fn what_the_script_says_becomes_cells_and_an_unended_test_is_lost() {
        let said = b"noise\nsteady-unit: begin a off\nsteady-unit: cycles 1784\n\
                     steady-unit: cycles 9\nsteady-unit: failed FAIL: x\n\
                     steady-unit: said last\n\
                     steady-unit: warned [    1.5] WARNING: suspicious RCU usage\n\
                     steady-unit: warned [    1.6] kvm: a word\nsteady-unit: end 3\n\
                     steady-unit: begin b off\nboom\n";
        let cells = cells(said).unwrap();
        assert_eq!(cells[0].outcome, UnitOutcome::Fail);
        assert_eq!((cells[0].cycles, cells[1].cycles), (Some(1784), None));
        assert_eq!(cells[0].failed, ["FAIL: x"]);
        assert_eq!(cells[0].last_words, ["last"]);
        assert_eq!(cells[0].complaints, ["WARNING: suspicious RCU usage"]);
        assert_eq!(cells[1].outcome, UnitOutcome::LostHost);
    }

    #[test]
    fn cycles_are_taken_from_the_lines_of_an_operation_and_its_figure() {
        let text = String::from_utf8(script(&[], &[setting("off")])).unwrap();
        let (_, behind) = text.split_once("sed -n '").expect("cycles are read");
        let (program, _) = behind.split_once('\'').expect("a quoted program");
        let words = "enabling apic\r\nvmcall 1784\r\n  ipi vmcall 3\r\nPM timer port is 608\n";
        let said = std::process::Command::new("sh")
            .args([
                "-c",
                "printf %s \"$1\" | sed -n \"$2\"",
                "sh",
                words,
                program,
            ])
            .output()
            .unwrap();
        assert_eq!(said.stdout, b"steady-unit: cycles 1784\n", "{said:?}");
    }

    #[test]
    fn a_parameter_that_is_not_there_is_an_error() {
        let said = b"steady-unit: begin a off\nsteady-unit: unset kvm.nosuch\n";
        assert_eq!(
            cells(said).unwrap_err(),
            "the host has no parameter kvm.nosuch"
        );
    }

    #[test]
    fn exit_codes_are_those_of_kvm_unit_tests() {
        let of = |code| UnitOutcome::of(code).name();
        assert_eq!(
            [1, 3, 155, 255, 0].map(of),
            ["pass", "fail", "skip", "abort", "reset"]
        );
        assert_eq!([137, 2].map(of), ["limit", "qemu"]);
    }
}
