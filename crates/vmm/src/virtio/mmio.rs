// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The registers of a virtio block device (virtio 1.2, section 4.2.2).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use virtio_bindings::virtio_blk::{VIRTIO_BLK_F_FLUSH, VIRTIO_BLK_F_SEG_MAX};
use virtio_bindings::virtio_config::{
    VIRTIO_CONFIG_S_DRIVER_OK, VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_NEEDS_RESET,
    VIRTIO_F_VERSION_1,
};
use virtio_bindings::virtio_ids::VIRTIO_ID_BLOCK;
use virtio_bindings::virtio_mmio::{
    VIRTIO_MMIO_CONFIG, VIRTIO_MMIO_CONFIG_GENERATION, VIRTIO_MMIO_DEVICE_FEATURES,
    VIRTIO_MMIO_DEVICE_FEATURES_SEL, VIRTIO_MMIO_DEVICE_ID, VIRTIO_MMIO_DRIVER_FEATURES,
    VIRTIO_MMIO_DRIVER_FEATURES_SEL, VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INTERRUPT_STATUS,
    VIRTIO_MMIO_MAGIC_VALUE, VIRTIO_MMIO_QUEUE_AVAIL_HIGH, VIRTIO_MMIO_QUEUE_AVAIL_LOW,
    VIRTIO_MMIO_QUEUE_DESC_HIGH, VIRTIO_MMIO_QUEUE_DESC_LOW, VIRTIO_MMIO_QUEUE_NOTIFY,
    VIRTIO_MMIO_QUEUE_NUM, VIRTIO_MMIO_QUEUE_NUM_MAX, VIRTIO_MMIO_QUEUE_READY,
    VIRTIO_MMIO_QUEUE_SEL, VIRTIO_MMIO_QUEUE_USED_HIGH, VIRTIO_MMIO_QUEUE_USED_LOW,
    VIRTIO_MMIO_STATUS, VIRTIO_MMIO_VENDOR_ID, VIRTIO_MMIO_VERSION,
};
use virtio_bindings::virtio_ring::{VIRTIO_RING_F_EVENT_IDX, VIRTIO_RING_F_INDIRECT_DESC};
use virtio_queue::{Queue, QueueT};

use crate::virtio::disk::{QUEUE_SIZE, Shared};

/// Offset of the doorbell register, which KVM watches itself.
pub const DOORBELL: u64 = VIRTIO_MMIO_QUEUE_NOTIFY as u64;

const MAGIC: u32 = 0x7472_6976;
const LAYOUT_VERSION: u32 = 2;
/// Free for any vendor to choose; "STDY".
const VENDOR: u32 = 0x5954_4453;
const FEATURES: u64 = (1 << VIRTIO_F_VERSION_1)
    | (1 << VIRTIO_RING_F_EVENT_IDX)
    | (1 << VIRTIO_RING_F_INDIRECT_DESC)
    | (1 << VIRTIO_BLK_F_SEG_MAX)
    | (1 << VIRTIO_BLK_F_FLUSH);

/// The register file of one device.
#[derive(Debug)]
pub struct Registers {
    shared: Arc<Shared>,
    config: [u8; 16],
    device_features_page: u32,
    driver_features_page: u32,
    driver_features: u64,
    queue_selected: u32,
    status: u32,
}

impl Registers {
    /// Registers of a disk of this number of sectors.
    #[must_use]
    pub fn new(shared: Arc<Shared>, sectors: u64) -> Self {
        // struct virtio_blk_config: capacity, size_max (unused), seg_max. A request has a header
        // and a status beside its segments.
        let mut config = [0; 16];
        config[..8].copy_from_slice(&sectors.to_le_bytes());
        config[12..].copy_from_slice(&(u32::from(QUEUE_SIZE) - 2).to_le_bytes());
        Registers {
            shared,
            config,
            device_features_page: 0,
            driver_features_page: 0,
            driver_features: 0,
            queue_selected: 0,
            status: 0,
        }
    }

    /// The guest reads at `offset`. What is not a register reads as zero.
    pub fn read(&self, offset: u64, data: &mut [u8]) {
        data.fill(0);
        if let Some(at) = offset.checked_sub(VIRTIO_MMIO_CONFIG.into()) {
            let config = usize::try_from(at)
                .ok()
                .and_then(|at| self.config.get(at..));
            for (to, from) in data.iter_mut().zip(config.unwrap_or_default()) {
                *to = *from;
            }
        } else if let (Ok(data), Ok(offset)) = (<&mut [u8; 4]>::try_from(data), offset.try_into()) {
            *data = self.register(offset).to_le_bytes();
        }
    }

    fn register(&self, offset: u32) -> u32 {
        let selected = self.queue_selected == 0;
        match offset {
            VIRTIO_MMIO_MAGIC_VALUE => MAGIC,
            VIRTIO_MMIO_VERSION => LAYOUT_VERSION,
            VIRTIO_MMIO_DEVICE_ID => VIRTIO_ID_BLOCK,
            VIRTIO_MMIO_VENDOR_ID => VENDOR,
            VIRTIO_MMIO_DEVICE_FEATURES => page(FEATURES, self.device_features_page),
            VIRTIO_MMIO_QUEUE_NUM_MAX if selected => QUEUE_SIZE.into(),
            VIRTIO_MMIO_QUEUE_READY if selected => self.shared.lock().ready().into(),
            VIRTIO_MMIO_INTERRUPT_STATUS => self.shared.interrupt_status.load(Ordering::Acquire),
            VIRTIO_MMIO_STATUS => self.status,
            VIRTIO_MMIO_CONFIG_GENERATION => 0,
            _ => 0,
        }
    }

    /// The guest writes at `offset`. What is not a register, or not 32 bits wide, is ignored.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let (Ok(data), Ok(offset)) = (<[u8; 4]>::try_from(data), u32::try_from(offset)) else {
            return;
        };
        let value = u32::from_le_bytes(data);
        match offset {
            VIRTIO_MMIO_DEVICE_FEATURES_SEL => self.device_features_page = value,
            VIRTIO_MMIO_DRIVER_FEATURES_SEL => self.driver_features_page = value,
            VIRTIO_MMIO_DRIVER_FEATURES => self.set_features(value),
            VIRTIO_MMIO_QUEUE_SEL => self.queue_selected = value,
            VIRTIO_MMIO_INTERRUPT_ACK => {
                self.shared
                    .interrupt_status
                    .fetch_and(!value, Ordering::AcqRel);
            }
            VIRTIO_MMIO_STATUS => self.set_status(value),
            // A live queue can only be taken away.
            VIRTIO_MMIO_QUEUE_READY if value == 0 && self.queue_selected == 0 => {
                self.shared.lock().set_ready(false);
            }
            _ if self.queue_selected == 0 && self.status & VIRTIO_CONFIG_S_DRIVER_OK == 0 => {
                set_queue(&mut self.shared.lock(), offset, value);
                if offset == VIRTIO_MMIO_QUEUE_READY && value == 1 {
                    self.check_queue();
                }
            }
            _ => {}
        }
    }

    fn set_features(&mut self, value: u32) {
        let shift = match self.driver_features_page {
            0 => 0,
            1 => 32,
            _ => return,
        };
        self.driver_features &= !(u64::from(u32::MAX) << shift);
        self.driver_features |= u64::from(value) << shift;
    }

    fn set_status(&mut self, value: u32) {
        if value == 0 {
            self.reset();
            return;
        }
        self.status = value;
        if self.driver_features & !FEATURES != 0
            || self.driver_features & (1 << VIRTIO_F_VERSION_1) == 0
        {
            // A driver that asks for what was not offered finds the bit cleared when it looks.
            self.status &= !VIRTIO_CONFIG_S_FEATURES_OK;
        }
        let event_idx = self.driver_features & (1 << VIRTIO_RING_F_EVENT_IDX) != 0;
        self.shared.lock().set_event_idx(event_idx);
    }

    fn reset(&mut self) {
        self.shared.lock().reset();
        self.shared.interrupt_status.store(0, Ordering::Release);
        *self = Registers {
            config: self.config,
            ..Registers::new(self.shared.clone(), 0)
        };
    }

    /// A queue outside of memory is refused: not ready, and the driver is asked to reset.
    fn check_queue(&mut self) {
        let mut queue = self.shared.lock();
        if !queue.is_valid(&self.shared.memory) {
            queue.set_ready(false);
            self.status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        }
    }
}

/// One half of a 64-bit feature word.
fn page(features: u64, index: u32) -> u32 {
    let [a, b, c, d, e, f, g, h] = features.to_le_bytes();
    match index {
        0 => u32::from_le_bytes([a, b, c, d]),
        1 => u32::from_le_bytes([e, f, g, h]),
        _ => 0,
    }
}

fn set_queue(queue: &mut Queue, offset: u32, value: u32) {
    match offset {
        VIRTIO_MMIO_QUEUE_NUM => queue.set_size(u16::try_from(value).unwrap_or(0)),
        VIRTIO_MMIO_QUEUE_READY => queue.set_ready(value == 1),
        VIRTIO_MMIO_QUEUE_DESC_LOW => queue.set_desc_table_address(Some(value), None),
        VIRTIO_MMIO_QUEUE_DESC_HIGH => queue.set_desc_table_address(None, Some(value)),
        VIRTIO_MMIO_QUEUE_AVAIL_LOW => queue.set_avail_ring_address(Some(value), None),
        VIRTIO_MMIO_QUEUE_AVAIL_HIGH => queue.set_avail_ring_address(None, Some(value)),
        VIRTIO_MMIO_QUEUE_USED_LOW => queue.set_used_ring_address(Some(value), None),
        VIRTIO_MMIO_QUEUE_USED_HIGH => queue.set_used_ring_address(None, Some(value)),
        _ => {}
    }
}
