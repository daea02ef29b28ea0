// SPDX-License-Identifier: Apache-2.0 OR MIT
//! One request to the block device: checked, carried out, answered (virtio 1.2, section 5.2.6).
//!
//! Framing is free (section 2.7.4): the header is the first 16 readable bytes, the status is the last
//! writable byte, whatever the descriptors' bounds. A descriptor chain is the guest's word and is
//! believed in nothing; a request that makes no sense gets an error status, one that cannot even
//! carry a status is dropped with a used length of 0.

use std::io::{self, Read, Seek, SeekFrom, Write};

use virtio_bindings::virtio_blk::{
    VIRTIO_BLK_S_IOERR, VIRTIO_BLK_S_OK, VIRTIO_BLK_S_UNSUPP, VIRTIO_BLK_T_FLUSH,
    VIRTIO_BLK_T_GET_ID, VIRTIO_BLK_T_IN, VIRTIO_BLK_T_OUT,
};
use virtio_queue::{DescriptorChain, Reader, Writer};
use vm_memory::GuestMemoryMmap;

/// Bytes in a sector.
pub const SECTOR: u64 = 512;
/// Length of a disk's serial text.
pub const ID_SIZE: usize = 20;

/// What a disk is made of. A trait, so that a failing one can be tested.
pub trait Backend: Read + Write + Seek {
    /// Makes everything written so far durable.
    ///
    /// # Errors
    /// When the storage fails.
    fn sync(&mut self) -> io::Result<()>;
}

impl Backend for std::fs::File {
    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

impl Backend for Box<dyn Backend + Send> {
    fn sync(&mut self) -> io::Result<()> {
        (**self).sync()
    }
}

/// A disk: its backend, size and serial text.
#[derive(Debug)]
pub struct Disk<B> {
    /// Where the data is.
    pub backend: B,
    /// Size in sectors of 512 bytes.
    pub sectors: u64,
    /// Serial text, filled with zeros.
    pub id: [u8; ID_SIZE],
}

/// Carries out the request in `chain`; returns how many bytes were written to the guest's memory.
pub fn serve<B: Backend>(
    disk: &mut Disk<B>,
    memory: &GuestMemoryMmap,
    chain: DescriptorChain<&GuestMemoryMmap>,
) -> u32 {
    let parts = chain
        .clone()
        .reader(memory)
        .and_then(|r| Ok((r, chain.writer(memory)?)));
    let Ok((mut input, mut output)) = parts else {
        return 0;
    };
    // The status is the last byte; without room for one there is no way to answer.
    let Some(data_size) = output.available_bytes().checked_sub(1) else {
        return 0;
    };
    let Ok(mut status) = output.split_at(data_size) else {
        return 0;
    };
    let result = carry_out(disk, &mut input, &mut output);
    let code = match result {
        Ok(()) => VIRTIO_BLK_S_OK,
        Err(Failure::Io) => VIRTIO_BLK_S_IOERR,
        Err(Failure::Unsupported) => VIRTIO_BLK_S_UNSUPP,
    };
    let code = u8::try_from(code).expect("statuses are 0 to 2");
    if status.write_all(&[code]).is_err() {
        return 0;
    }
    u32::try_from(output.bytes_written() + 1).unwrap_or(u32::MAX)
}

enum Failure {
    Io,
    Unsupported,
}

impl From<io::Error> for Failure {
    fn from(_: io::Error) -> Self {
        Failure::Io
    }
}

fn carry_out<B: Backend>(
    disk: &mut Disk<B>,
    input: &mut Reader<'_>,
    output: &mut Writer<'_>,
) -> Result<(), Failure> {
    let kind: u32 = input.read_obj()?;
    let _reserved: u32 = input.read_obj()?;
    let sector: u64 = input.read_obj()?;
    match kind {
        VIRTIO_BLK_T_IN => {
            let size = output.available_bytes();
            disk.seek_to(sector, size)?;
            copy(&mut disk.backend, output, size)
        }
        VIRTIO_BLK_T_OUT => {
            let size = input.available_bytes();
            disk.seek_to(sector, size)?;
            copy(input, &mut disk.backend, size)
        }
        VIRTIO_BLK_T_FLUSH => Ok(disk.backend.sync()?),
        VIRTIO_BLK_T_GET_ID => {
            let size = output.available_bytes().min(ID_SIZE);
            Ok(output.write_all(&disk.id[..size])?)
        }
        _ => Err(Failure::Unsupported),
    }
}

impl<B: Backend> Disk<B> {
    /// Goes to `sector` if `size` bytes from there are whole sectors inside the disk.
    fn seek_to(&mut self, sector: u64, size: usize) -> Result<(), Failure> {
        let size = size as u64;
        let end = sector.checked_add(size / SECTOR).ok_or(Failure::Io)?;
        if !size.is_multiple_of(SECTOR) || end > self.sectors {
            return Err(Failure::Io);
        }
        self.backend.seek(SeekFrom::Start(sector * SECTOR))?;
        Ok(())
    }
}

/// Copies exactly `size` bytes through a small buffer.
fn copy(from: &mut impl Read, to: &mut impl Write, size: usize) -> Result<(), Failure> {
    let mut buffer = [0; 16 << 10];
    let mut left = size;
    while left > 0 {
        let part = &mut buffer[..left.min(16 << 10)];
        from.read_exact(part)?;
        to.write_all(part)?;
        left -= part.len();
    }
    Ok(())
}
