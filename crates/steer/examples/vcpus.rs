// SPDX-License-Identifier: Apache-2.0 OR MIT
//! `vcpus VMS VCPUS [busy]`: processes with threads that are named as QEMU names its vCPUs', for
//! the benchmark of `steady place`. They sleep, or compute and sleep in turn; they end with this
//! one.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A turn of computing and of sleeping.
const TURN: Duration = Duration::from_millis(10);

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<u32>().ok());
    let (Some(vms), Some(vcpus)) = (number(1), number(2)) else {
        eprintln!("vcpus VMS VCPUS [busy]");
        std::process::exit(2);
    };
    let is_busy = words.get(3).is_some_and(|word| word == "busy");
    if vms == 0 {
        return vm(vcpus, is_busy);
    }
    let mut children: Vec<_> = (0..vms)
        .filter_map(|_| {
            let mut command = Command::new(&words[0]);
            command.args(["0", &words[2]]).args(&words[3..]);
            command.stdin(Stdio::piped()).spawn().ok()
        })
        .collect();
    assert_eq!(children.len(), vms as usize, "all VMs run");
    // A wait would close them, and a VM ends with its pipe.
    let pipes: Vec<_> = children
        .iter_mut()
        .map(|child| child.stdin.take())
        .collect();
    println!("ready");
    for child in &mut children {
        let _ = child.wait();
    }
    drop(pipes);
}

/// One process, until its standard input is closed, as by its parent's end.
fn vm(vcpus: u32, is_busy: bool) {
    for number in 0..vcpus {
        let thread = std::thread::Builder::new().name(format!("CPU {number}/KVM"));
        let run = move || loop {
            let begun = Instant::now();
            while is_busy && begun.elapsed() < TURN {}
            std::thread::sleep(if is_busy { TURN } else { TURN * 10 });
        };
        if let Err(error) = thread.stack_size(64 << 10).spawn(run) {
            eprintln!("vcpus: thread {number}: {error}");
            std::process::exit(1);
        }
    }
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    std::process::exit(0);
}
