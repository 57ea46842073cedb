//! The operations on two or three files on which the `Sync` domain is built.
//!
//! A device keeps what was written in a cache that survives the process but not a power failure. Only a flush or a durable write moves it to the
//! medium. Each failure is an error: there are no short reads or writes. After a failed write or flush, nothing is certain about the medium. An open
//! pool's device is therefore a [`Guarded`](super::Guarded) one, which keeps the first failure; the devices below it need not remember it.

use std::io;

use super::PAGE_BYTES;
use crate::error::Result;

/// One of a pool's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceFile {
    /// The heap, which checkpoints and recovery write.
    Heap,
    /// The ring of log blocks.
    Log,
    /// The checksums of the heap's pages, if the pool has them.
    Checksums,
}

impl DeviceFile {
    /// Returns the file's name in messages.
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
    /// Returns the system's error, or `UnexpectedEof` past the file's end.
    fn read(&self, file: DeviceFile, offset: u64, into: &mut [u8]) -> io::Result<()>;

    /// Writes all of `from`. It is durable after the next [`flush`](Device::flush) of the file.
    ///
    /// # Errors
    /// Returns the system's error. Any part may then have been written, and any of that may be lost.
    fn write(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()>;

    /// Like [`Device::write`], for data that is likely to be read soon: the system keeps it in memory, too.
    ///
    /// # Errors
    /// Returns the errors of [`Device::write`].
    fn write_kept(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        self.write(file, offset, from)
    }

    /// Writes pages of 4 KB, whose consecutive contents are in `contents`, in the fastest order; like [`Device::write`] for each page.
    ///
    /// # Errors
    /// Returns the errors of [`Device::write`].
    fn write_pages(&self, file: DeviceFile, pages: &[u64], contents: &[u8]) -> io::Result<()> {
        let mut each = pages.iter().zip(contents.chunks_exact(PAGE_BYTES as usize));
        each.try_for_each(|(page, content)| self.write(file, page * PAGE_BYTES, content))
    }

    /// Writes all of `from` and waits until it is durable. This guarantees nothing about earlier writes.
    ///
    /// # Errors
    /// Returns the errors of [`Device::write`].
    fn write_durable(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()>;

    /// Waits until all that was written to the file is durable.
    ///
    /// # Errors
    /// Returns the system's error. What was written since the last flush may then be lost, even though reads still show it.
    fn flush(&self, file: DeviceFile) -> io::Result<()>;

    /// Returns the size of the file, in bytes.
    ///
    /// # Errors
    /// Returns the system's error.
    fn size(&self, file: DeviceFile) -> io::Result<u64>;

    /// Extends the file to `bytes` bytes with allocated zeros. Does nothing if it is that large already. Durable after the next flush.
    ///
    /// # Errors
    /// Returns the system's error, usually `ENOSPC`. The file is then no smaller than before, and nothing is lost.
    fn extend(&self, file: DeviceFile, bytes: u64) -> io::Result<()>;

    /// Extends the file durably.
    ///
    /// # Errors
    /// Returns the errors of [`Device::extend`] and of the flush.
    fn grow(&self, file: DeviceFile, bytes: u64) -> io::Result<()> {
        self.extend(file, bytes)?;
        self.flush(file)
    }

    /// Writes zeros to the `bytes` bytes at `offset` of the file, to which nothing refers yet, so that later writes there allocate nothing. Durable
    /// after the next flush.
    ///
    /// # Errors
    /// Returns the system's error, usually `ENOSPC`. The content of these bytes is then undefined.
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

    /// Allocates space for the `bytes` bytes at `offset`, which are within the file, so that writing them later cannot fail for lack of space. This
    /// is cheap if they have space already.
    ///
    /// # Errors
    /// Returns the system's error, usually `ENOSPC`.
    fn allocate(&self, _file: DeviceFile, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Returns whether parts of the file lack space. [`Device::allocate`] must then be called for the parts that a transaction changes before the
    /// transaction is acknowledged.
    fn needs_space(&self, _file: DeviceFile) -> bool {
        false
    }

    /// Gives back the space of the `bytes` bytes at `offset` of the file. Until [`Device::allocate`], they read as zeros or as before.
    ///
    /// # Errors
    /// Returns the system's error, also if the file system does not support this.
    fn punch(&self, _file: DeviceFile, _offset: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Durably forgets the checksums of these pages of the heap file, which are about to change in a way that the log does not record. A device
    /// without checksums does nothing.
    ///
    /// # Errors
    /// Returns the system's error.
    fn forget_checksums(&self, _pages: &mut dyn Iterator<Item = u64>) -> io::Result<()> {
        Ok(())
    }

    /// Checks that no write or flush has failed, if the device keeps the first failure ([`Guarded`](super::Guarded)).
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`](crate::Error::Poisoned) with the cause if one has failed.
    fn check(&self) -> Result<()> {
        Ok(())
    }

    /// Returns the size, a power of two of at most 4096, for which durable writes to the file are cheapest: if offset and length are multiples of it.
    fn sector(&self, _file: DeviceFile) -> u64 {
        PAGE_BYTES
    }

    /// Returns whether writes to the file bypass the system's page cache, so that flushing every few pages is useless.
    fn is_direct(&self, file: DeviceFile) -> bool;
}

/// Number of bytes that [`Device::fill`] writes at a time.
const FILL_BYTES: u64 = 1 << 20;

/// The alignment of memory, offset and length that unbuffered input and output require.
pub const ALIGNMENT: usize = 4096;

/// A buffer whose address is a multiple of 4096.
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
    /// Allocates `length` zeros.
    pub fn new(length: usize) -> Self {
        let bytes = vec![0; length + ALIGNMENT];
        let address = bytes.as_ptr().addr();
        Self { start: address.next_multiple_of(ALIGNMENT) - address, bytes, length }
    }

    /// Extends the buffer to at least `length` bytes. If it was shorter, all bytes become zeros.
    pub fn make_room(&mut self, length: usize) {
        if self.length < length {
            *self = Self::new(length);
        }
    }

    /// Shortens the buffer to `length` bytes, unless it is shorter.
    pub fn truncate(&mut self, length: usize) {
        self.length = self.length.min(length);
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

/// A page with the alignment of an [`AlignedBuffer`], for the stack.
#[repr(align(4096))]
pub struct Page(pub [u8; 4096]);
