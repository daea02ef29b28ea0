// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Valid scenarios by seed: shapes of host and VMs, pinning, groups, weights, disks, programs and
//! variants, all short. What it leaves out: the distribution's QEMU as the VMM, and stock kernels.

use std::fmt::Write;

use steady_random::{Stream, named};

/// A program, its arguments, and whether it needs a disk.
type Program = (&'static str, &'static [&'static str], bool);

/// What a measured VM may run.
const MEASURED: [Program; 11] = [
    (
        "shootdown",
        &["--targets", "1", "--operations", "60"],
        false,
    ),
    ("pingpong", &["--pairs", "1", "--operations", "200"], false),
    ("pagecache", &["--threads", "2", "--records", "500"], false),
    ("indexer", &["--processes", "3", "--files", "24"], false),
    ("hackbench", &["-g", "1", "-l", "20"], false),
    ("stress-ng", &["--futex", "1", "--futex-ops", "200"], false),
    (
        "stress-ng",
        &["--tlb-shootdown", "1", "--tlb-shootdown-ops", "20"],
        false,
    ),
    (
        "sysbench",
        &["cpu", "--time=1", "--threads=2", "run"],
        false,
    ),
    ("pbzip2", &["-b1", "-p2", "input-kib=200"], false),
    (
        "fio",
        &[
            "--name=a",
            "--rw=randread",
            "--size=1m",
            "--filename=/data/a",
        ],
        true,
    ),
    ("dbench", &["-t", "1", "1"], true),
];
/// What a background VM may run.
const BACKGROUND: [Program; 3] = [
    ("spin", &[], false),
    (
        "sysbench",
        &["cpu", "--time=0", "--threads=1", "run"],
        false,
    ),
    ("stress-ng", &["--cpu", "1"], false),
];
const VARIANTS: [&str; 5] = [
    "",
    "[variant.pv]\ntlb_flush = false\nipi = false\n",
    "[variant.shoot4u]\n",
    "[variant.shoot4u]\nmode = \"eager\"\n[variant.pv]\ntlb_flush = false\n",
    "[variant.switches]\nple = false\n",
];
/// Memory of a VM: twice the image with the largest programs, and the kernel.
const VM_MEMORY_MIB: u64 = 384;
/// Bound on a variant by the emulated host's clock, in seconds.
pub const TIME_LIMIT_S: u64 = 120;

/// The scenario of a seed.
pub fn scenario(seed: u64) -> String {
    let mut draw = Draw(Stream::new(seed, named("generated scenario")));
    let pcpus = 1 + draw.below(4);
    let vms = 1 + draw.below(3);
    let mut text = format!(
        "schema = 2\nname = \"generated-{seed}\"\ntitle = \"generated\"\n\
         question = \"Does it end with a sound result?\"\nseed = {seed}\n\
         [host]\npcpus = {pcpus}\nmemory_mib = {}\ntime_limit_s = {TIME_LIMIT_S}\n",
        512 + vms * VM_MEMORY_MIB
    );
    for at in 0..vms {
        // The first is measured; of the others about half are.
        let background = at > 0 && draw.chance();
        vm(&mut text, &mut draw, at, pcpus, background);
    }
    for at in 0..1 + draw.below(2) {
        let variant = draw.of(&VARIANTS);
        write!(text, "[[variant]]\nname = \"v{at}\"\n{variant}").expect("a String takes all");
    }
    text
}

fn vm(text: &mut String, draw: &mut Draw, at: u64, pcpus: u64, background: bool) {
    let vcpus = 1 + draw.below(4);
    let workloads: Vec<Program> = if background {
        vec![*draw.of(&BACKGROUND)]
    } else {
        (0..1 + draw.below(2))
            .map(|_| *draw.of(&MEASURED))
            .collect()
    };
    // These need a second vCPU, for a target and for the other side.
    let pair = |one: &Program| ["shootdown", "pingpong"].contains(&one.0);
    let vcpus = vcpus.max(if workloads.iter().any(pair) { 2 } else { 1 });
    let mut put = |line: String| {
        text.push_str(&line);
        text.push('\n');
    };
    put(format!(
        "[[vm]]\nname = \"m{at}\"\nvcpus = {vcpus}\nmemory_mib = {VM_MEMORY_MIB}"
    ));
    if draw.chance() {
        let pins: Vec<String> = (0..vcpus).map(|_| draw.below(pcpus).to_string()).collect();
        put(format!("pin = [{}]", pins.join(", ")));
    }
    let cgroup = *draw.of(&["vm", "vcpu", "none"]);
    put(format!("cgroup = \"{cgroup}\""));
    if cgroup != "none" && draw.chance() {
        put(format!("cpu_weight = {}", 50 + draw.below(200)));
    }
    if workloads.iter().any(|one| one.2) {
        // dbench writes more than 16 MiB.
        put("disk_mib = 64".to_owned());
    }
    if background {
        put("background = true".to_owned());
    }
    for (program, args, _) in workloads {
        let args: Vec<String> = args.iter().map(|arg| format!("\"{arg}\"")).collect();
        put(format!(
            "[[vm.workload]]\nprogram = \"{program}\"\nargs = [{}]",
            args.join(", ")
        ));
    }
}

/// Small draws.
struct Draw(Stream);

impl Draw {
    fn below(&mut self, bound: u64) -> u64 {
        let bound = u32::try_from(bound).expect("a small number");
        u64::from(self.0.below(bound))
    }

    fn chance(&mut self) -> bool {
        self.below(2) == 0
    }

    fn of<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        let at = self.below(choices.len() as u64);
        &choices[usize::try_from(at).expect("a small number")]
    }
}
