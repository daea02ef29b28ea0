// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The ends of a channel between two VMs: whole messages, in order, and waits that end.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::io::{ErrorKind, Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use steady_vmm::virtio::disk;
use steady_vmm::virtio::pipe::{MESSAGE, Pipe};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const BYTES: usize = 4096;

fn fifo(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("link-0.up");
    assert!(
        Command::new("mkfifo")
            .arg(&path)
            .status()
            .unwrap()
            .success()
    );
    path
}

fn stop() -> Arc<EventFd> {
    Arc::new(EventFd::new(EFD_NONBLOCK).unwrap())
}

#[test]
fn messages_cross_whole_and_in_order_however_many_wait() {
    let folder = tempfile::tempdir().unwrap();
    let path = fifo(&folder);
    let mut outward = Pipe::open(&path, stop()).unwrap();
    let mut inward = Pipe::open(&path, stop()).unwrap();
    // More than a pipe holds: the writer waits for the reader.
    let writer = thread::spawn(move || {
        for number in 0..100 {
            outward.write_all(&[number; BYTES]).unwrap();
        }
    });
    for number in 0..100 {
        let mut message = [0xff; BYTES];
        inward.read_exact(&mut message).unwrap();
        assert!(
            message.iter().all(|&byte| byte == number),
            "message {number}"
        );
    }
    writer.join().unwrap();
}

#[test]
fn a_wait_for_a_message_ends_when_the_machine_stops() {
    let folder = tempfile::tempdir().unwrap();
    let stop = stop();
    let mut inward = Pipe::open(&fifo(&folder), stop.clone()).unwrap();
    let reader = thread::spawn(move || inward.read(&mut [0; BYTES]).unwrap_err().kind());
    thread::sleep(Duration::from_millis(20));
    assert!(!reader.is_finished(), "nothing has come");
    stop.write(1).unwrap();
    assert_eq!(reader.join().unwrap(), ErrorKind::BrokenPipe);
}

#[test]
fn a_named_pipe_is_a_disk_of_one_message_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let disk = disk::open(&fifo(&folder), &stop()).unwrap();
    assert_eq!((disk.sectors * 512, MESSAGE), (4096, 4096));
    assert!(disk.id.starts_with(b"link-0.up\0"));
}
