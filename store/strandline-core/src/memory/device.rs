//! What the `Sync` domain stands on: a few operations on two files, or three.
//!
//! A device keeps what was written in a cache that survives the process and not a power failure; only a
//! flush, or a durable write, moves it to the medium. Every failure is an error: there are no short reads
//! and no short writes. After a failed write or flush nothing may be assumed about the medium, which is why an open pool's
//! device is a [`Guarded`](super::Guarded) one, that keeps the first failure; the devices below need not remember it.

use std::io;

use super::PAGE_BYTES;
use crate::error::Result;

/// Which of a pool's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceFile {
    /// The heap: what the checkpoint and recovery write.
    Heap,
    /// The ring of log blocks.
    Log,
    /// Checksums of the heap's pages, in pools that have them.
    Checksums,
}

impl DeviceFile {
    /// The file's name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Log => "log",
            Self::Checksums => "checksum",
        }
    }
}

/// The files of a `Sync` pool. Offsets and sizes are in bytes.
///
/// Buffers whose address, length and offset are multiples of 4096 ([`AlignedBuffer`]) spare a copy.
///
/// ```
/// # use strandline_core::example::*;
/// # let device = device();
/// /// Changes a few bytes durably, on whatever device.
/// fn patch(device: &dyn Device, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
///     device.write(DeviceFile::Heap, offset, bytes)?;
///     device.flush(DeviceFile::Heap)
/// }
///
/// device.grow(DeviceFile::Heap, 4096).unwrap();
/// patch(&device, 100, b"here").unwrap();
/// let mut found = [0; 6];
/// device.read(DeviceFile::Heap, 99, &mut found).unwrap();
/// assert_eq!(&found, b"\0here\0");
/// ```
pub trait Device {
    /// Reads exactly `into.len()` bytes.
    ///
    /// # Errors
    /// The system's; `UnexpectedEof` past the file's end.
    fn read(&self, file: DeviceFile, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all of `from`; durable after the next [`flush`](Device::flush) of the file.
    ///
    /// # Errors
    /// The system's. Any part of it may have been written, and any part of that lost.
    fn write(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()>;

    /// Like [`Device::write`], for what is likely to be read soon: the system keeps it in memory, too.
    ///
    /// # Errors
    /// As for [`Device::write`].
    fn write_kept(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        self.write(file, offset, from)
    }

    /// Writes pages of 4 KB, whose contents stand one after another in `contents`, in whatever order is fastest; as [`Device::write`] for each.
    ///
    /// # Errors
    /// As for [`Device::write`].
    fn write_pages(&self, file: DeviceFile, pages: &[u64], contents: &[u8]) -> io::Result<()> {
        let mut each = pages.iter().zip(contents.chunks_exact(PAGE_BYTES as usize));
        each.try_for_each(|(page, content)| self.write(file, page * PAGE_BYTES, content))
    }

    /// Writes all of `from` and waits until it is durable. Promises nothing about earlier writes.
    ///
    /// # Errors
    /// As for [`Device::write`].
    fn write_durable(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()>;

    /// Waits until everything written to the file is durable.
    ///
    /// # Errors
    /// The system's. What was written since the last flush may be lost then, even though reads still show it.
    fn flush(&self, file: DeviceFile) -> io::Result<()>;

    /// Bytes in the file.
    ///
    /// # Errors
    /// The system's.
    fn size(&self, file: DeviceFile) -> io::Result<u64>;

    /// Extends the file to `bytes` bytes, allocated, reading as zeros; does nothing if it is that large already. Durable after the
    /// next flush.
    ///
    /// # Errors
    /// The system's, `ENOSPC` above all; the file is then no smaller than before, and nothing is lost.
    fn extend(&self, file: DeviceFile, bytes: u64) -> io::Result<()>;

    /// Extends the file, durably.
    ///
    /// # Errors
    /// Those of [`Device::extend`], or of the flush.
    fn grow(&self, file: DeviceFile, bytes: u64) -> io::Result<()> {
        self.extend(file, bytes)?;
        self.flush(file)
    }

    /// Writes zeros to the `bytes` bytes at `offset` of the file, which nothing refers to yet, so that later writes there allocate
    /// nothing. Durable after the next flush.
    ///
    /// # Errors
    /// The system's, `ENOSPC` above all; what the bytes hold is undefined then.
    fn fill(&self, file: DeviceFile, offset: u64, bytes: u64) -> io::Result<()> {
        let zeros = AlignedBuffer::new(bytes.min(FILL_BYTES) as usize);
        let mut at = offset;
        while at < offset + bytes {
            let length = (offset + bytes - at).min(zeros.len() as u64);
            self.write(file, at, &zeros[..length as usize])?;
            at += length;
        }
        Ok(())
    }

    /// Sees to it that there is space for the `bytes` bytes at `offset` of the file, which has them already, so that
    /// writing them later cannot fail for want of it. Cheap where there is.
    ///
    /// # Errors
    /// The system's, `ENOSPC` above all.
    fn allocate(&self, _file: DeviceFile, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether parts of the file lack space: before a transaction that changes them is acknowledged, [`Device::allocate`] is to
    /// be called for them.
    fn needs_space(&self, _file: DeviceFile) -> bool {
        false
    }

    /// Gives back the space of the `bytes` bytes at `offset` of the file, which read as zeros from now on or as they were, until
    /// [`Device::allocate`].
    ///
    /// # Errors
    /// The system's; where it cannot do this, too.
    fn punch(&self, _file: DeviceFile, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// These pages of the heap file are about to change in a way that the log does not tell of: what is known of their contents is
    /// forgotten, durably. A device that keeps no checksums has nothing to do.
    ///
    /// # Errors
    /// The system's.
    fn forget_checksums(&self, _pages: &mut dyn Iterator<Item = u64>) -> io::Result<()> {
        Ok(())
    }

    /// Fails from the first failed write or flush on, where the device keeps that: [`Guarded`](super::Guarded).
    ///
    /// # Errors
    /// [`Error::Poisoned`](crate::Error::Poisoned), with the cause.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Durable writes to the file are as cheap as they can be if offset and length are multiples of this many bytes, a power of two of at most
    /// 4096.
    fn sector(&self, _file: DeviceFile) -> u64 {
        PAGE_BYTES
    }

    /// Returns whether writes to the file go past the system's page cache, so that there is no point in flushing
    /// every few pages.
    fn is_direct(&self, file: DeviceFile) -> bool;
}

/// Bytes that [`Device::fill`] writes at a time.
const FILL_BYTES: u64 = 1 << 20;

/// Alignment of memory, offset and length that unbuffered input and output ask for.
pub const ALIGNMENT: usize = 4096;

/// Bytes whose address is a multiple of 4096.
///
/// ```
/// use strandline_core::memory::AlignedBuffer;
///
/// let mut page = AlignedBuffer::new(4096);
/// page[..4].copy_from_slice(b"head");
/// assert_eq!((page.as_ptr().addr() % 4096, page.len()), (0, 4096));
/// ```
pub struct AlignedBuffer {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// `length` zeroed bytes.
    pub fn new(length: usize) -> Self {
        let bytes = vec![0; length + ALIGNMENT];
        let address = bytes.as_ptr().addr();
        Self { start: address.next_multiple_of(ALIGNMENT) - address, bytes, length }
    }

    /// Has at least `length` bytes from now on; if they were fewer, all are zeros.
    pub fn make_room(&mut self, length: usize) {
        if self.length < length {
            *self = Self::new(length);
        }
    }
}

impl std::ops::Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl std::ops::DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

/// One page with the alignment of an [`AlignedBuffer`], for the stack.
#[repr(align(4096))]
pub struct Page(pub [u8; 4096]);
