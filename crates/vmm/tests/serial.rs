// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Serial ports, the queue behind them and the channel, driven as a guest and a peer would.

#![allow(clippy::unwrap_used, reason = "a failed test panics")]

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use steady_vmm::channel::Channel;
use steady_vmm::sink::{CAPACITY, Sink};
use steady_vmm::uart::Uart;
use tempfile::TempDir;
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

const DATA: u8 = 0;
const INTERRUPT_ENABLE: u8 = 1;
const INTERRUPT_ID: u8 = 2;
const MODEM_CONTROL: u8 = 4;
const LINE_STATUS: u8 = 5;
const LIMIT: Duration = Duration::from_secs(60);

fn port() -> (Arc<Uart>, Sink, EventFd) {
    let (line, sink) = (EventFd::new(EFD_NONBLOCK).unwrap(), Sink::default());
    let uart = Uart::new(line.try_clone().unwrap(), sink.clone()).unwrap();
    (Arc::new(uart), sink, line)
}

/// What a driver does when a program opens the port: interrupts on, then DTR and RTS.
fn open(uart: &Uart) {
    uart.write(INTERRUPT_ENABLE, 1);
    uart.write(MODEM_CONTROL, 0x0b);
}

/// Reads `count` bytes as a driver does that polls the line status.
fn read_bytes(uart: &Uart, count: usize) -> Vec<u8> {
    let (mut bytes, end) = (Vec::new(), Instant::now() + LIMIT);
    while bytes.len() < count {
        assert!(Instant::now() < end, "{} of {count} bytes", bytes.len());
        if uart.read(LINE_STATUS) & 1 == 0 {
            thread::sleep(Duration::from_micros(200));
        } else {
            bytes.push(uart.read(DATA));
        }
    }
    bytes
}

fn pattern(size: usize) -> Vec<u8> {
    (0..size)
        .map(|n| (n * 7 + n / 256).to_le_bytes()[0])
        .collect()
}

#[test]
fn input_waits_until_the_port_is_open() {
    let (uart, _, _) = port();
    assert_eq!((uart.room_or_ask(), uart.feed(b"early")), (0, 0));
    uart.write(INTERRUPT_ENABLE, 1);
    assert_eq!(uart.feed(b"early"), 0, "RTS is not raised yet");
    uart.write(MODEM_CONTROL, 0x02);
    assert!(uart.room_event().read().is_ok(), "the feeder hears of it");
    assert_eq!(uart.feed(b"now"), 3);
    assert_eq!(read_bytes(&uart, 3), b"now");
}

#[test]
fn lowered_rts_stops_input() {
    let (uart, _, _) = port();
    open(&uart);
    uart.write(MODEM_CONTROL, 0x09);
    assert_eq!(uart.feed(b"x"), 0);
}

#[test]
fn a_loopback_test_of_the_driver_lets_no_input_in() {
    let (uart, _, _) = port();
    open(&uart);
    uart.write(MODEM_CONTROL, 0x1a);
    assert_eq!(uart.feed(b"x"), 0);
}

#[test]
fn received_data_stays_identified_until_the_last_byte_is_read() {
    let (uart, _, line) = port();
    open(&uart);
    assert_eq!(uart.feed(b"ab"), 2);
    assert!(line.read().is_ok(), "an interrupt came");
    uart.read(DATA);
    assert_eq!(uart.read(INTERRUPT_ID) & 0x0f, 0x04);
    uart.read(DATA);
    assert_eq!(uart.read(INTERRUPT_ID) & 0x0f, 0x01);
}

#[test]
fn a_full_queue_makes_the_writer_wait_and_loses_nothing() {
    let sink = Sink::default();
    let text = pattern(CAPACITY + 5000);
    let (writer, expected) = (sink.clone(), text.clone());
    let writing = thread::spawn(move || {
        let all = text.iter().all(|&byte| writer.push(byte));
        // Were a byte lost, the reader would wait for it.
        writer.close();
        all
    });
    let mut got = Vec::new();
    let mut buffer = [0; 3000];
    loop {
        assert!(sink.pending() <= CAPACITY);
        let count = sink.peek(&mut buffer, Duration::ZERO);
        if count == 0 {
            break;
        }
        got.extend_from_slice(&buffer[..count]);
        sink.consume(count);
    }
    assert!(writing.join().unwrap());
    assert_eq!(got, expected);
}

/// Waits until a thread of this process waits for something itself.
fn wait_until_asleep(thread: rustix::thread::Pid) {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    let end = Instant::now() + LIMIT;
    while !std::fs::read_to_string(&path).unwrap().contains(") S ") {
        assert!(Instant::now() < end, "the thread does not wait");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn closing_frees_a_writer_that_waits() {
    let sink = Sink::default();
    assert!((0..CAPACITY).all(|_| sink.push(0)));
    let writer = sink.clone();
    let (tell, told) = mpsc::channel();
    let writing = thread::spawn(move || {
        tell.send(rustix::thread::gettid()).unwrap();
        writer.push(1)
    });
    wait_until_asleep(told.recv_timeout(LIMIT).unwrap());
    sink.close();
    assert!(!writing.join().unwrap());
}

struct Bench {
    _folder: TempDir,
    path: PathBuf,
    uart: Arc<Uart>,
    channel: Channel,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("channel");
        let (uart, sink, _) = port();
        let channel = Channel::start(&path, uart.clone(), sink).unwrap();
        Bench {
            _folder: folder,
            path,
            uart,
            channel,
        }
    }

    fn connect(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.path).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream
    }

    fn send(&self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.uart.write(DATA, byte));
    }
}

#[test]
fn the_channel_carries_64_kib_both_ways_at_once() {
    let bench = Bench::new();
    open(&bench.uart);
    let mut peer = bench.connect();
    let (down, up) = (pattern(64 << 10), pattern(64 << 10));
    let mut sender = peer.try_clone().unwrap();
    let to_send = down.clone();
    let sending = thread::spawn(move || sender.write_all(&to_send).unwrap());
    let uart = bench.uart.clone();
    let reading = thread::spawn(move || read_bytes(&uart, 64 << 10));
    bench.send(&up);
    let mut got = vec![0; up.len()];
    peer.read_exact(&mut got).unwrap();
    sending.join().unwrap();
    assert!(got == up && reading.join().unwrap() == down);
    assert_eq!(bench.channel.finish(LIMIT), 0);
}

#[test]
fn what_was_sent_before_anybody_connected_arrives_even_at_the_end() {
    let bench = Bench::new();
    bench.send(b"result");
    let mut peer = bench.connect();
    let Bench { channel, path, .. } = &bench;
    channel.close();
    let mut got = [0; 6];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"result");
    let path = path.clone();
    assert_eq!(bench.channel.finish(LIMIT), 0);
    assert_eq!(peer.read(&mut got).unwrap(), 0, "then the channel ends");
    assert!(!path.exists(), "and the socket is gone");
}

#[test]
fn what_nobody_fetches_is_counted_within_the_limit() {
    let bench = Bench::new();
    bench.send(b"lost");
    assert_eq!(bench.channel.finish(Duration::from_millis(50)), 4);
}

/// Waits until the sender has filled the queue and sends no more.
fn wait_until_stuck(sent: &AtomicUsize) {
    let end = Instant::now() + LIMIT;
    let mut before = 0;
    while Instant::now() < end {
        thread::sleep(Duration::from_millis(200));
        let now = sent.load(Relaxed);
        if now >= CAPACITY && now == before {
            return;
        }
        before = now;
    }
    panic!("the sender was never held up");
}

#[test]
fn a_peer_that_does_not_read_does_not_hold_up_the_end() {
    let bench = Bench::new();
    let _peer = bench.connect();
    let uart = bench.uart.clone();
    let sent = Arc::new(AtomicUsize::new(0));
    let count = sent.clone();
    let sending = thread::spawn(move || {
        for _ in 0..1 << 20 {
            uart.write(DATA, 0);
            count.fetch_add(1, Relaxed);
        }
    });
    wait_until_stuck(&sent);
    assert!(bench.channel.finish(Duration::from_millis(50)) > 0);
    sending.join().unwrap();
}

#[test]
fn a_peer_that_sends_and_hangs_up_at_once_is_heard() {
    let bench = Bench::new();
    let mut peer = bench.connect();
    peer.write_all(b"hello").unwrap();
    drop(peer);
    thread::sleep(Duration::from_millis(20));
    open(&bench.uart);
    assert_eq!(read_bytes(&bench.uart, 5), b"hello");
    let mut next = bench.connect();
    next.write_all(b"again").unwrap();
    assert_eq!(read_bytes(&bench.uart, 5), b"again");
}

#[test]
fn a_peer_that_has_sent_all_can_still_receive() {
    let bench = Bench::new();
    open(&bench.uart);
    let mut peer = bench.connect();
    peer.write_all(b"ask").unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    assert_eq!(read_bytes(&bench.uart, 3), b"ask");
    bench.send(b"answer");
    let mut got = [0; 6];
    peer.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"answer");
}

#[test]
fn an_old_socket_is_replaced_and_another_file_is_not() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("old");
    drop(UnixListener::bind(&path).unwrap());
    let (uart, sink, _) = port();
    let channel = Channel::start(&path, uart.clone(), sink.clone()).unwrap();
    assert_eq!(channel.finish(LIMIT), 0);
    std::fs::write(&path, "precious").unwrap();
    let error = Channel::start(&path, uart, sink).unwrap_err().to_string();
    assert!(error.contains("is not a socket"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
}
