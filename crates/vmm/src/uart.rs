// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A 16550 serial port of the guest: registers by vm-superio, output into a [`Sink`], input gated.
//!
//! Linux clears the receive FIFO while it opens a port, and drops bytes when its own buffers are
//! full unless it may lower RTS. So input is offered only while the guest has the port open: receive
//! interrupts enabled, RTS raised, loopback off. With hardware flow control on (`stty crtscts`) RTS
//! also says when its buffers are full. A guest that closes the port drops what is in the FIFO (at
//! most 64 bytes), so whoever must lose nothing keeps it open.

use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vm_superio::serial::NoEvents;
use vm_superio::{Serial, Trigger};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use crate::sink::Sink;

const DATA: u8 = 0;
const INTERRUPT_ENABLE: u8 = 1;
const INTERRUPT_ID: u8 = 2;
const LINE_CONTROL: u8 = 3;
const MODEM_CONTROL: u8 = 4;
const LINE_STATUS: u8 = 5;
const RECEIVE_INTERRUPT: u8 = 0x01;
const DATA_READY: u8 = 0x01;
const ID_MASK: u8 = 0x0f;
const ID_NONE: u8 = 0x01;
const ID_RECEIVED: u8 = 0x04;
const DIVISOR_ACCESS: u8 = 0x80;
const RTS: u8 = 0x02;
const LOOPBACK: u8 = 0x10;

/// The interrupt line of a port: an eventfd that KVM turns into an interrupt.
#[derive(Debug)]
pub struct Line(pub EventFd);

impl Trigger for Line {
    type E = io::Error;

    fn trigger(&self) -> io::Result<()> {
        self.0.write(1)
    }
}

#[derive(Debug)]
struct State {
    serial: Serial<Line, NoEvents, Sink>,
    /// Somebody waits for [`Uart::room_event`].
    room_wanted: bool,
}

impl State {
    fn receive_interrupt_enabled(&mut self) -> bool {
        self.serial.read(LINE_CONTROL) & DIVISOR_ACCESS == 0
            && self.serial.read(INTERRUPT_ENABLE) & RECEIVE_INTERRUPT != 0
    }

    /// How many bytes the guest is ready to take.
    fn room(&mut self) -> usize {
        let modem = self.serial.read(MODEM_CONTROL);
        if modem & (RTS | LOOPBACK) == RTS && self.receive_interrupt_enabled() {
            self.serial.fifo_capacity()
        } else {
            0
        }
    }

    /// The interrupt identification. vm-superio takes "received data" back when one byte is read; on
    /// a 16550 it lasts until the FIFO is empty. Linux reads at most 256 bytes per interrupt and
    /// then looks here whether it is done. If it read that it is, with bytes left, it would
    /// sleep for ever.
    fn interrupt_id(&mut self) -> u8 {
        let id = self.serial.read(INTERRUPT_ID);
        let waiting = self.serial.read(LINE_STATUS) & DATA_READY != 0;
        if id & ID_MASK == ID_NONE && waiting && self.receive_interrupt_enabled() {
            return (id & !ID_MASK) | ID_RECEIVED;
        }
        id
    }
}

/// A serial port, shared by the vCPUs and the thread that feeds it.
#[derive(Debug)]
pub struct Uart {
    state: Mutex<State>,
    room_event: EventFd,
}

impl Uart {
    /// A port that writes to `sink` and interrupts by `line`.
    ///
    /// # Errors
    /// When no eventfd can be made.
    pub fn new(line: EventFd, sink: Sink) -> io::Result<Self> {
        let serial = Serial::new(Line(line), sink);
        Ok(Uart {
            state: Mutex::new(State {
                serial,
                room_wanted: false,
            }),
            room_event: EventFd::new(EFD_NONBLOCK)?,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The guest reads a register (0 to 7).
    pub fn read(&self, register: u8) -> u8 {
        let mut state = self.lock();
        if register == INTERRUPT_ID {
            return state.interrupt_id();
        }
        let value = state.serial.read(register);
        if register == DATA {
            self.tell_room(&mut state);
        }
        value
    }

    /// The guest writes a register (0 to 7). Waits while the output queue is full.
    pub fn write(&self, register: u8, value: u8) {
        let mut state = self.lock();
        // It fails only when the machine is stopping: the sink is closed. An eventfd that is full
        // means that the interrupt is pending already.
        let _ = state.serial.write(register, value);
        if register != DATA {
            self.tell_room(&mut state);
        }
    }

    /// How many bytes [`Uart::feed`] would take now. At 0, [`Uart::room_event`] will be signalled
    /// when there is room again.
    pub fn room_or_ask(&self) -> usize {
        let mut state = self.lock();
        let room = state.room();
        state.room_wanted = room == 0;
        room
    }

    /// Signalled when there is room, after [`Uart::room_or_ask`] found none.
    pub fn room_event(&self) -> &EventFd {
        &self.room_event
    }

    /// Puts bytes into the receive FIFO; returns how many it took.
    pub fn feed(&self, bytes: &[u8]) -> usize {
        let mut state = self.lock();
        let count = state.room().min(bytes.len());
        if count == 0 {
            return 0;
        }
        let before = state.serial.fifo_capacity();
        // It fails only on the interrupt, which is then pending already; the bytes are in.
        let _ = state.serial.enqueue_raw_bytes(&bytes[..count]);
        assert_eq!(before - state.serial.fifo_capacity(), count);
        count
    }

    /// Waits for a quarter of the FIFO at least, so that the feeder does not wake for every byte.
    fn tell_room(&self, state: &mut State) {
        if state.room_wanted && state.room() >= 16 {
            state.room_wanted = false;
            // A full eventfd is signalled already.
            let _ = self.room_event.write(1);
        }
    }
}
