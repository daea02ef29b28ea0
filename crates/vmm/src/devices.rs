// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What is behind the guest's I/O ports and memory-mapped registers.
//!
//! Two serial ports, the keyboard controller's reset line, the stop port and the disks. Whatever else
//! the guest touches is absent: ports read as ones, memory as ones, writes go nowhere. Timer,
//! interrupt controllers and port 0x61 are KVM's own and never come here.

use std::sync::{Arc, Mutex, PoisonError};

use crate::layout::{
    CMOS_INDEX, COM_SIZE, COM1, COM2, I8042_COMMAND, STOP_BYTE, STOP_PORT, VIRTIO_BASE, VIRTIO_SIZE,
};
use crate::outcome::StopCause;
use crate::uart::Uart;
use crate::virtio::mmio::Registers;

const CMOS_DATA: u16 = CMOS_INDEX + 1;
const I8042_RESET: u8 = 0xfe;
/// Output full, input empty. Full, and never emptied by reading, shows Linux at once that there is
/// no controller, where an idle one would cost it half a second of waiting (`i8042_controller_check()`);
/// input empty lets its reboot write the reset command without waiting (`kb_wait()`).
const I8042_STATUS: u8 = 0x01;

/// The devices of a machine.
#[derive(Debug)]
pub struct Devices {
    /// ttyS0.
    pub console: Arc<Uart>,
    /// ttyS1.
    pub channel: Arc<Uart>,
    /// The virtio disks, in the order of their windows.
    pub disks: Vec<Mutex<Registers>>,
}

impl Devices {
    /// The guest reads a port.
    pub fn port_read(&self, port: u16, data: &mut [u8]) {
        for byte in data {
            *byte = match (self.serial(port), port) {
                (Some((uart, register)), _) => uart.read(register),
                (None, I8042_COMMAND) => I8042_STATUS,
                // An update that never is in progress: ones would make the kernel wait for its end.
                (None, CMOS_DATA) => 0,
                _ => 0xff,
            };
        }
    }

    /// The guest writes a port. Returns why the machine must stop, if it must.
    #[must_use]
    pub fn port_write(&self, port: u16, data: &[u8]) -> Option<StopCause> {
        if let Some((uart, register)) = self.serial(port) {
            data.iter().for_each(|&byte| uart.write(register, byte));
        }
        match (port, data) {
            (STOP_PORT, &[STOP_BYTE]) => Some(StopCause::StopPort),
            (I8042_COMMAND, &[I8042_RESET]) => Some(StopCause::KeyboardReset),
            _ => None,
        }
    }

    /// The guest reads where no memory is.
    pub fn memory_read(&self, address: u64, data: &mut [u8]) {
        match self.disk(address) {
            Some((disk, offset)) => {
                disk.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .read(offset, data);
            }
            None => data.fill(0xff),
        }
    }

    /// The guest writes where no memory is.
    pub fn memory_write(&self, address: u64, data: &[u8]) {
        if let Some((disk, offset)) = self.disk(address) {
            disk.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .write(offset, data);
        }
    }

    fn serial(&self, port: u16) -> Option<(&Uart, u8)> {
        let register = |base| {
            port.checked_sub(base)
                .filter(|register| *register < COM_SIZE)
        };
        let (uart, register) = register(COM1)
            .map(|register| (&self.console, register))
            .or_else(|| register(COM2).map(|register| (&self.channel, register)))?;
        Some((
            &**uart,
            u8::try_from(register).expect("registers are 0 to 7"),
        ))
    }

    fn disk(&self, address: u64) -> Option<(&Mutex<Registers>, u64)> {
        let offset = address.checked_sub(VIRTIO_BASE)?;
        let index = usize::try_from(offset / VIRTIO_SIZE).ok()?;
        Some((self.disks.get(index)?, offset % VIRTIO_SIZE))
    }
}
