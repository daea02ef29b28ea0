// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a file seems to be that is not read here, so that its error names what to do instead.

use crate::table::Line;

/// Lines that are looked at.
const LINES: u64 = 400;

/// What a line of it shows, what it is, and what to do.
const SHAPES: [(&str, &str); 44] = [
    (
        "value |---",
        "a histogram without its title; put what it counts and its unit above it, such as \
         `runqlat (us)`",
    ),
    (
        "\u{fffd}PNG",
        "an image; paste the text of the screen in place of a picture of it",
    ),
    (
        "JFIF",
        "an image; paste the text of the screen in place of a picture of it",
    ),
    ("%PDF-", "a PDF; copy its text into a file"),
    ("\u{7f}ELF", "a program or a core dump"),
    (
        "<domain type=",
        "a domain's XML; `virsh domstats --vcpu NAME` has its times",
    ),
    (
        "<domain ",
        "a domain's XML; `virsh domstats --vcpu NAME` has its times",
    ),
    ("<!DOCTYPE html", "a page; save its text"),
    ("<html", "a page; save its text"),
    (
        "<svg",
        "a picture, perhaps a flame graph; it has no waits, `perf sched latency` does",
    ),
    (
        "(PDH-CSV",
        "esxtop's or Windows' counters; only KVM's hosts are read",
    ),
    ("xentop -", "xentop's screen; only KVM's hosts are read"),
    (
        "virt-top",
        "virt-top's screen; `virsh domstats --vcpu NAME` has the times of vCPUs",
    ),
    (
        "CPU Affinity:",
        "virsh vcpuinfo; `virsh domstats --vcpu NAME` has waits beside times",
    ),
    (
        "# Overhead",
        "perf report; it has no waits, `perf sched latency` does",
    ),
    (
        "Percent|",
        "perf annotate; it has no waits, `perf sched latency` does",
    ),
    (
        "Samples: ",
        "perf top or perf report; it has no waits, `perf sched latency` does",
    ),
    ("avg-cpu", "iostat without its numbers"),
    (
        "Kwork Name",
        "perf kwork; `perf sched latency` has the waits of threads",
    ),
    (
        "PSR COMMAND",
        "ps; `grep . /proc/PID/task/*/schedstat` has the waits of its threads",
    ),
    (
        "%CPU %MEM",
        "ps or the list of top; the head of `top`, with `st`, is read",
    ),
    ("Architecture:", "lscpu; it has no times"),
    (
        "MemTotal:",
        "/proc/meminfo; `grep . /proc/pressure/*` has the pressure",
    ),
    ("numa_hit", "numastat; it has no waits of vCPUs"),
    (
        "Busy%",
        "turbostat; it has no waits of vCPUs, `perf sched latency` does",
    ),
    (
        "sched-in run-time",
        "perf sched timehist --summary; without --summary it has the waits",
    ),
    (
        "Performance counter stats for",
        "perf stat of other events; `perf stat -e 'kvm:*' -a sleep 10` is read",
    ),
    (
        "domain0 ",
        "/proc/schedstat; `grep . /proc/PID/task/*/schedstat` has the waits of threads",
    ),
    (
        "worlds, ",
        "esxtop's screen; only KVM's hosts are read, where `virsh domstats --vcpu NAME` has the \
         waits that are %RDY there",
    ),
    (
        "vcpu_quota",
        "virsh schedinfo, the limits alone; `cat cpu.stat` of the VM's group shows whether \
         vcpu_quota is reached",
    ),
    (
        "Job type:",
        "virsh domjobinfo, a job's progress; with `Auto converge throttle` the migration holds \
         vCPUs back on purpose: give it more bandwidth or downtime (virsh migrate-setspeed, \
         migrate-setmaxdowntime), or end it by virsh migrate-postcopy",
    ),
    (
        "%wait %CPU",
        "pidstat, whose %wait is time ready without a pCPU; `perf sched latency` and \
         `grep . /proc/PID/task/*/schedstat` have the same and are read",
    ),
    (
        "load average:",
        "the load alone; the head of `top`, with `st`, and `vmstat 1` are read",
    ),
    (
        "usr_time",
        "pidstat; `pidstat` has %wait with -u, `perf sched latency` has more",
    ),
    (
        "%usr %system",
        "pidstat; `perf sched latency` has the waits of threads",
    ),
    (
        "\"sysstat\":",
        "sysstat's JSON; its tables are read without `-o JSON`",
    ),
    (
        "libvirt_domain_",
        "an exporter's metrics; `virsh domstats --vcpu NAME` has the waits of vCPUs",
    ),
    (
        "node_cpu_seconds_total",
        "an exporter's metrics; `vmstat 1 10` has steal and idle time",
    ),
    (
        "Tasks: ",
        "htop's screen, or a part of top's; the line `%Cpu(s):` of top with `st` and `id` is read",
    ),
    (
        "Function call interrupts",
        "/proc/interrupts; it has no waits, `grep . /proc/PID/task/*/schedstat` does",
    ),
    (
        "cfs_rq[",
        "the scheduler's debug file; `cat cpu.stat` of the VM's group has what a limit took",
    ),
    (
        "voluntary_ctxt_switches:",
        "/proc/PID/status; `grep . /proc/PID/task/*/schedstat` has the waits of its threads",
    ),
    (
        "procs_running",
        "/proc/stat; `vmstat 1 10` has steal and idle time",
    ),
    (
        "Average: ",
        "rows of mpstat or sar; those of `mpstat -P ALL 1 10` are read with the line above them \
         that names the columns",
    ),
];

/// Looks at the lines of a file.
#[derive(Debug, Default)]
pub(crate) struct Shapes {
    lines: u64,
    full: u64,
    first: Option<String>,
    found: Option<&'static str>,
}

impl Shapes {
    pub fn line(&mut self, line: &Line<'_>) {
        self.lines += 1;
        if line.words.is_empty() {
            return;
        }
        self.full += 1;
        if self.lines > LINES {
            return;
        }
        if self.first.is_none() {
            self.first = Some(line.text.trim().chars().take(60).collect());
        }
        if self.found.is_none() {
            let joined = line.words.join(" ");
            let shape = SHAPES.iter().find(|(shape, _)| joined.contains(shape));
            self.found = shape.map(|(_, what)| *what);
        }
    }

    /// What the file seems to be.
    pub fn what(&self) -> String {
        if let Some(found) = self.found {
            return format!("it seems to be {found}");
        }
        match (&self.first, self.full) {
            (None, _) => "it has no text".to_owned(),
            (Some(first), 1) => format!("its one line is `{first}`"),
            (Some(first), lines) => {
                format!("none of its {lines} lines is of a known shape, the first is `{first}`")
            }
        }
    }
}
