//! Optional checksums of the heap file's pages.
//!
//! A third file has one word of 32 bits for each page of the heap file: the checksum of what the last checkpoint or recovery wrote there, or 0 if it
//! is unknown. Checks and backups compare the two, and thus notice pages that the disk or another program has changed since.
//!
//! ```text
//! page 0     magic, version, the pool's UUID, CRC-32C of these
//! from there a word of 4 bytes for page 0, 1, 2, … of the heap file
//! ```
//!
//! # The protocol
//!
//! [`Checksummed`] is a [`Device`] over another one. It notes the checksum of each page that is written. When the heap is flushed, it writes the
//! noted checksums after the flush, so that no checksum is durable before its page, and before it returns. So both files are durable before a
//! checkpoint slot is written. After a crash in between, a page and its checksum may differ, but then the log has records of the page, and recovery
//! or the checkpoint after it writes the page and its checksum again.
//!
//! This holds for each page that a checkpoint writes. It does not hold for pages that a large transaction writes, whose old contents need not be
//! restored if their chunk was free, nor for pages that lose their disk space. Their checksums are durably forgotten before they change
//! ([`Device::forget_checksums`]).
//!
//! The pages before the heap's data, header and slots and state, have their own checks and are left out.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::ops::Deref;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::layout::{Layout, PAGE_BYTES};
use crate::memory::device::{AlignedBuffer, Device, DeviceFile};

use super::block::to_bytes;

const MAGIC: u64 = u64::from_le_bytes(*b"StrndSum");
const VERSION: u64 = 1;
const SUMS: DeviceFile = DeviceFile::Checksums;
/// Number of checksums in a page of their file.
const IN_PAGE: u64 = PAGE_BYTES / 4;
/// Number of pages by which the file grows, which hold the checksums of 64 MB.
const GROWN_PAGES: u64 = 16;
/// Number of the heap's pages that are read together.
const BATCH_PAGES: u64 = 256;

/// Returns the file's first page.
fn header(pool: &[u8; 16]) -> AlignedBuffer {
    let mut page = AlignedBuffer::new(PAGE_BYTES as usize);
    to_bytes(&[MAGIC, VERSION], &mut page);
    page[16..32].copy_from_slice(pool);
    let checksum = crc32c::crc32c(&page[..32]);
    page[32..36].copy_from_slice(&checksum.to_le_bytes());
    page
}

/// Returns the place of a page's checksum: a page of the checksum file, and an offset in it.
fn place(page: u64) -> (u64, usize) {
    (PAGE_BYTES * (1 + page / IN_PAGE), 4 * (page % IN_PAGE) as usize)
}

/// The values on which checksums depend besides the pages' contents.
#[derive(Clone, Copy)]
struct Pages {
    seed: u32,
    /// The first page that has a checksum.
    first: u64,
}

impl Pages {
    fn new(pool: &[u8; 16], layout: &Layout) -> Self {
        Self { seed: crc32c::crc32c(pool), first: layout.data.offset().div_ceil(PAGE_BYTES) }
    }

    /// Returns the checksum of page `page` with these contents, which is never 0. It depends on the page's number, so that contents at a wrong place
    /// are noticed.
    fn checksum(self, page: u64, contents: &[u8]) -> u32 {
        let seed = crc32c::crc32c_append(self.seed, &page.to_le_bytes());
        crc32c::crc32c_append(seed, contents).max(1)
    }
}

/// A device that keeps checksums of what is written to the heap file.
pub struct Checksummed<P> {
    device: P,
    pages: Pages,
    /// The checksums that are not yet in the file, by page. The lock is held while they are written.
    noted: Mutex<BTreeMap<u64, u32>>,
    /// True if a mutant leaves out the flush of the checksums.
    leaves_out_flush: bool,
}

impl<P: Deref<Target: Device>> Checksummed<P> {
    /// Creates the device over `device`, which has the file of checksums.
    pub fn new(device: P, pool: &[u8; 16], layout: &Layout) -> Self {
        Self { device, pages: Pages::new(pool, layout), noted: Mutex::default(), leaves_out_flush: false }
    }

    /// Leaves out the flush if `left_out` is set, for a mutant of the crash checker.
    #[doc(hidden)]
    pub fn without_flush(self, left_out: bool) -> Self {
        Self { leaves_out_flush: left_out, ..self }
    }

    fn noted(&self) -> MutexGuard<'_, BTreeMap<u64, u32>> {
        self.noted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, first: u64, contents: &[u8]) {
        let pages = (first..).zip(contents.chunks_exact(PAGE_BYTES as usize));
        let pages = pages.filter(|&(page, _)| page >= self.pages.first);
        self.noted().extend(pages.map(|(page, contents)| (page, self.pages.checksum(page, contents))));
    }

    /// Extends the file for a heap of this size.
    fn reach(&self, heap_bytes: u64) -> io::Result<()> {
        let (last_page, _) = place(heap_bytes.div_ceil(PAGE_BYTES).saturating_sub(1));
        if self.device.size(SUMS)? <= last_page {
            self.device.extend(SUMS, (last_page + 1).next_multiple_of(GROWN_PAGES * PAGE_BYTES))?;
        }
        Ok(())
    }

    /// Writes these checksums durably. The caller excludes other writers.
    fn write_durably(&self, checksums: &BTreeMap<u64, u32>) -> io::Result<()> {
        let Some((&last, _)) = checksums.last_key_value() else { return Ok(()) };
        self.reach((last + 1) * PAGE_BYTES)?;
        let mut table = AlignedBuffer::new(PAGE_BYTES as usize);
        let mut open = None;
        for (&page, checksum) in checksums {
            let (at, inside) = place(page);
            if open != Some(at) {
                if let Some(before) = open {
                    self.device.write(SUMS, before, &table)?;
                }
                self.device.read(SUMS, at, &mut table)?;
                open = Some(at);
            }
            table[inside..inside + 4].copy_from_slice(&checksum.to_le_bytes());
        }
        if let Some(at) = open {
            self.device.write(SUMS, at, &table)?;
        }
        if self.leaves_out_flush { Ok(()) } else { self.device.flush(SUMS) }
    }
}

impl<P: Deref<Target: Device>> Device for Checksummed<P> {
    fn read(&self, file: DeviceFile, offset: u64, into: &mut [u8]) -> io::Result<()> {
        self.device.read(file, offset, into)
    }

    fn write(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        self.device.write(file, offset, from)?;
        if file == DeviceFile::Heap {
            self.note(offset / PAGE_BYTES, from);
        }
        Ok(())
    }

    fn write_kept(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        self.device.write_kept(file, offset, from)?;
        if file == DeviceFile::Heap {
            self.note(offset / PAGE_BYTES, from);
        }
        Ok(())
    }

    fn write_pages(&self, file: DeviceFile, pages: &[u64], contents: &[u8]) -> io::Result<()> {
        self.device.write_pages(file, pages, contents)?;
        if file == DeviceFile::Heap {
            let each = pages.iter().zip(contents.chunks_exact(PAGE_BYTES as usize));
            each.for_each(|(&page, contents)| self.note(page, contents));
        }
        Ok(())
    }

    fn write_durable(&self, file: DeviceFile, offset: u64, from: &[u8]) -> io::Result<()> {
        self.device.write_durable(file, offset, from)?;
        if file == DeviceFile::Heap {
            self.note(offset / PAGE_BYTES, from);
        }
        Ok(())
    }

    fn flush(&self, file: DeviceFile) -> io::Result<()> {
        if file != DeviceFile::Heap {
            return self.device.flush(file);
        }
        // The lock is held so that no other thread writes the file meanwhile. The noted pages were written before.
        let mut noted = self.noted();
        self.device.flush(file)?;
        self.write_durably(&noted)?;
        noted.clear();
        Ok(())
    }

    fn forget_checksums(&self, pages: &mut dyn Iterator<Item = u64>) -> io::Result<()> {
        // The iterator may let other threads run, so it is read before the lock is taken.
        let pages: Vec<u64> = pages.filter(|&page| page >= self.pages.first).collect();
        let mut noted = self.noted();
        let forgotten: BTreeMap<u64, u32> = pages.into_iter().map(|page| (page, 0)).collect();
        noted.retain(|page, _| !forgotten.contains_key(page));
        self.write_durably(&forgotten)
    }

    fn size(&self, file: DeviceFile) -> io::Result<u64> {
        self.device.size(file)
    }

    fn extend(&self, file: DeviceFile, bytes: u64) -> io::Result<()> {
        if file == DeviceFile::Heap {
            // A full disk is reported here, so that no checkpoint fails because of it.
            self.reach(bytes)?;
        }
        self.device.extend(file, bytes)
    }

    fn allocate(&self, file: DeviceFile, offset: u64, bytes: u64) -> io::Result<()> {
        self.device.allocate(file, offset, bytes)
    }

    fn punch(&self, file: DeviceFile, offset: u64, bytes: u64) -> io::Result<()> {
        self.device.punch(file, offset, bytes)
    }

    fn needs_space(&self, file: DeviceFile) -> bool {
        self.device.needs_space(file)
    }

    fn sector(&self, file: DeviceFile) -> u64 {
        self.device.sector(file)
    }

    fn is_direct(&self, file: DeviceFile) -> bool {
        self.device.is_direct(file)
    }
}

/// Fills the empty file of checksums for a pool with the checksums of all pages that are not zeros. Nobody changes the heap file meanwhile. Durable
/// when this returns.
///
/// # Errors
/// Returns an error if the device fails.
pub fn create_checksums(device: &dyn Device, pool: &[u8; 16], layout: &Layout) -> io::Result<()> {
    device.extend(SUMS, PAGE_BYTES)?;
    device.write(SUMS, 0, &header(pool))?;
    let made = Checksummed::new(device, pool, layout);
    let end = device.size(DeviceFile::Heap)? / PAGE_BYTES;
    let mut contents = AlignedBuffer::new((BATCH_PAGES.min(end) * PAGE_BYTES) as usize);
    let mut page = made.pages.first;
    while page < end {
        let pages = BATCH_PAGES.min(end - page);
        let contents = &mut contents[..(pages * PAGE_BYTES) as usize];
        device.read(DeviceFile::Heap, page * PAGE_BYTES, contents)?;
        for (page, contents) in (page..).zip(contents.chunks_exact(PAGE_BYTES as usize)) {
            if contents.iter().any(|&byte| byte != 0) {
                made.note(page, contents);
            }
        }
        page += pages;
        if page.is_multiple_of(64 * IN_PAGE) {
            made.flush(DeviceFile::Heap)?;
        }
    }
    made.reach(device.size(DeviceFile::Heap)?)?;
    made.flush(DeviceFile::Heap)?;
    device.flush(SUMS)
}

/// Returns whether the file contains checksums of this pool, or otherwise describes what is wrong with it.
///
/// # Errors
/// Returns an error if the device fails.
pub fn check_checksums_header(device: &dyn Device, pool: &[u8; 16]) -> io::Result<Result<(), &'static str>> {
    let (mut found, expected) = (AlignedBuffer::new(PAGE_BYTES as usize), header(pool));
    if device.size(SUMS)? < PAGE_BYTES {
        return Ok(Err("is too short for a header"));
    }
    device.read(SUMS, 0, &mut found)?;
    Ok(if found[..] == expected[..] {
        Ok(())
    } else if found[..16] == expected[..16] && found[16..32] != expected[16..32] {
        Err("has the checksums of another pool")
    } else if found[..8] == expected[..8] && found[8..16] != expected[8..16] {
        Err("is of another version")
    } else {
        Err("has a damaged header")
    })
}

/// Compares pages with their checksums; fastest in ascending order.
pub struct Verifier<'d> {
    device: &'d dyn Device,
    pages: Pages,
    /// Number of the heap's pages for which the file has checksums.
    known: u64,
    table: AlignedBuffer,
    /// The number of the file's page in `table`.
    open: Option<u64>,
}

impl<'d> Verifier<'d> {
    /// Creates a verifier for the pool on `device`, which has checksums.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn new(device: &'d dyn Device, pool: &[u8; 16], layout: &Layout) -> io::Result<Self> {
        let known = (device.size(SUMS)? / PAGE_BYTES).saturating_sub(1) * IN_PAGE;
        let table = AlignedBuffer::new(PAGE_BYTES as usize);
        Ok(Self { device, pages: Pages::new(pool, layout), known, table, open: None })
    }

    /// Returns the file's checksum of a page.
    fn recorded(&mut self, page: u64) -> io::Result<u32> {
        if !(self.pages.first..self.known).contains(&page) {
            return Ok(0);
        }
        let (at, inside) = place(page);
        if self.open != Some(at) {
            self.open = None;
            self.device.read(SUMS, at, &mut self.table)?;
            self.open = Some(at);
        }
        let bytes = &self.table[inside..inside + 4];
        Ok(bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte)))
    }

    /// Returns whether these contents differ from what was written to the page.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn is_damaged(&mut self, page: u64, contents: &[u8]) -> io::Result<bool> {
        let found = self.pages.checksum(page, contents);
        if [0, found].contains(&self.recorded(page)?) {
            return Ok(false);
        }
        // The page's space may have been released meanwhile, and its checksum forgotten, so this reads the checksum again.
        self.open = None;
        Ok(![0, found].contains(&self.recorded(page)?))
    }

    /// Returns all pages of the heap file that differ from what was written to them. Leaves out those in `left_out`, which will be written again.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn damaged_pages(&mut self, left_out: &HashSet<u64>) -> io::Result<Vec<u64>> {
        let end = self.device.size(DeviceFile::Heap)? / PAGE_BYTES;
        let mut contents = AlignedBuffer::new((BATCH_PAGES.min(end) * PAGE_BYTES) as usize);
        let mut damaged = Vec::new();
        for first in (self.pages.first..self.known).step_by(BATCH_PAGES as usize) {
            let mut known = Vec::new();
            for page in (first..self.known).take(BATCH_PAGES as usize) {
                if self.recorded(page)? != 0 && !left_out.contains(&page) {
                    known.push(page);
                }
            }
            let Some(&last) = known.iter().rfind(|&&page| page < end) else {
                damaged.extend(known);
                continue;
            };
            let contents = &mut contents[..((last + 1 - first) * PAGE_BYTES) as usize];
            self.device.read(DeviceFile::Heap, first * PAGE_BYTES, contents)?;
            for page in known {
                let at = ((page - first) * PAGE_BYTES) as usize;
                let contents = contents.get(at..at + PAGE_BYTES as usize);
                // There are no pages behind the end of the file.
                if contents.map_or(Ok(true), |contents| self.is_damaged(page, contents))? {
                    damaged.push(page);
                }
            }
        }
        Ok(damaged)
    }
}
