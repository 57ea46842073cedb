//! Files in a pool. One key-value store holds their names, sizes and pages; each change is one transaction.
//!
//! A key begins with a letter. `n` and a name map to the file's number. `s` and a file's number map to its size and its *reach*, which is the number
//! of the first page behind all that may exist. `p`, a file's number and a page's number map to 4096 bytes. `d` maps to the numbers of deleted files
//! whose pages are still being freed, and `i` to the next number.

use std::borrow::BorrowMut;
use std::marker::PhantomData;

use strandline_core::Result;
use strandline_core::error::Error;
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::KeyValueStore;
use strandline_core::transaction::{Abort, Read, Runner, Transaction};

/// Size of a page, in bytes.
pub const PAGE_BYTES: u64 = 4096;

/// Number of pages that one transaction frees.
const FREED_AT_ONCE: u64 = 1024;

/// The amount of data that is logged and stored when a page is written again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pages {
    /// Only the words that differ.
    #[default]
    Changes,
    /// The whole page, as SQLite's pager writes it to a file.
    Whole,
}

/// The storage of files behind the VFS. Each call is atomic, and durable when it returns.
pub(crate) trait Storage {
    /// Returns the number of the file `name`.
    fn find(&mut self, name: &[u8]) -> Result<Option<u64>>;
    /// Creates an empty file. Returns its number.
    fn create(&mut self, name: &[u8]) -> Result<u64>;
    /// Deletes the file `name`. Returns whether it existed.
    fn delete(&mut self, name: &[u8]) -> Result<bool>;
    /// Returns the size of a file, in bytes.
    fn size(&mut self, file: u64) -> Result<u64>;
    /// Reads from `offset` on. Returns the number of bytes read.
    fn read(&mut self, file: u64, offset: u64, into: &mut [u8]) -> Result<usize>;
    /// Truncates the file to at most `kept` bytes and then performs the writes in their order, each at its offset, all in one transaction.
    fn write(&mut self, file: u64, kept: u64, writes: &[(u64, &[u8])]) -> Result<()>;
    /// Shortens a file to `size` bytes. Does nothing to a shorter file.
    fn truncate(&mut self, file: u64, size: u64) -> Result<()>;
}

/// The files under one root word, and the runner of their transactions.
pub(crate) struct Files<B, R> {
    store: KeyValueStore,
    pages: Pages,
    runner: B,
    _runner: PhantomData<fn(&mut R)>,
}

/// Returns the most bytes of heap that files of `bytes` bytes together take in a store of `buckets` buckets.
pub fn heap_bytes(bytes: u64, buckets: u64) -> u64 {
    // A page takes a node of 3 words, a key of 17 bytes and 4096 bytes of content; the heap rounds these up.
    buckets * 8 + bytes.div_ceil(PAGE_BYTES) * (PAGE_BYTES + 1024) + (1 << 20)
}

impl<R: Runner, B: BorrowMut<R>> Files<B, R> {
    /// Creates the store of files under `root`, or opens it. Finishes work that a crash has interrupted.
    pub(crate) fn new(mut runner: B, root: PersistentAddress, buckets: u64) -> Result<Self> {
        let store = match runner.borrow_mut().view(|tx| KeyValueStore::open(tx, root)) {
            Ok(store) => store,
            Err(Error::Missing { .. } | Error::Incomplete { .. }) => {
                KeyValueStore::create(runner.borrow_mut(), root, buckets)?
            }
            Err(error) => return Err(error),
        };
        let mut files = Self { store, pages: Pages::default(), runner, _runner: PhantomData };
        files.reclaim_orphans()?;
        Ok(files)
    }

    /// Opens the files for another runner.
    pub(crate) fn open(mut runner: B, root: PersistentAddress, pages: Pages) -> Result<Self> {
        let store = runner.borrow_mut().view(|tx| KeyValueStore::open(tx, root))?;
        Ok(Self { store, pages, runner, _runner: PhantomData })
    }

    /// Frees the pages of files whose deletion a crash has interrupted.
    fn reclaim_orphans(&mut self) -> Result<()> {
        let store = self.store;
        let orphans = self.runner.borrow_mut().view(|tx| orphans(&store, tx))?;
        orphans.into_iter().try_for_each(|file| self.reclaim(file))
    }

    /// Frees a deleted file.
    fn reclaim(&mut self, file: u64) -> Result<()> {
        self.free_pages(file, 0)?;
        let store = self.store;
        self.runner.borrow_mut().run(|tx| {
            store.remove(tx, &key(b's', file))?;
            let mut orphans = orphans(&store, tx)?;
            orphans.retain(|&number| number != file);
            set_orphans(&store, tx, &orphans)
        })
    }

    /// Frees the pages from number `first` on: begins with the last ones, and frees some in each transaction.
    fn free_pages(&mut self, file: u64, first: u64) -> Result<()> {
        let store = self.store;
        loop {
            let is_done = self.runner.borrow_mut().run(|tx| {
                let mut extent = Extent::read(&store, tx, file)?;
                let until = first.max(extent.reach.saturating_sub(FREED_AT_ONCE));
                if extent.reach <= until {
                    return Ok(true);
                }
                for number in until..extent.reach {
                    store.remove(tx, &page(file, number))?;
                }
                extent.reach = until;
                extent.write(&store, tx, file)?;
                Ok(until == first)
            })?;
            if is_done {
                return Ok(());
            }
        }
    }
}

impl<R: Runner, B: BorrowMut<R>> Storage for Files<B, R> {
    fn find(&mut self, name: &[u8]) -> Result<Option<u64>> {
        let store = self.store;
        self.runner.borrow_mut().view(|tx| number_of(&store, tx, name))
    }

    fn create(&mut self, name: &[u8]) -> Result<u64> {
        let store = self.store;
        self.runner.borrow_mut().run(|tx| {
            let number = store.get(tx, b"i")?.map_or(0, |bytes| word(&bytes));
            store.insert(tx, b"i", &(number + 1).to_le_bytes())?;
            store.insert(tx, &named(name), &number.to_le_bytes())?;
            Extent::default().write(&store, tx, number)?;
            Ok(number)
        })
    }

    fn delete(&mut self, name: &[u8]) -> Result<bool> {
        let store = self.store;
        // The name is removed first: a journal that lost only some pages would still count as a journal.
        let deleted = self.runner.borrow_mut().run(|tx| {
            let Some(number) = number_of(&store, tx, name)? else { return Ok(None) };
            store.remove(tx, &named(name))?;
            let mut orphans = orphans(&store, tx)?;
            orphans.push(number);
            set_orphans(&store, tx, &orphans)?;
            Ok(Some(number))
        })?;
        deleted.map_or(Ok(()), |number| self.reclaim(number))?;
        Ok(deleted.is_some())
    }

    fn size(&mut self, file: u64) -> Result<u64> {
        let store = self.store;
        self.runner.borrow_mut().view(|tx| Ok(Extent::read(&store, tx, file)?.size))
    }

    fn read(&mut self, file: u64, offset: u64, into: &mut [u8]) -> Result<usize> {
        let store = self.store;
        self.runner.borrow_mut().view(|tx| {
            let size = Extent::read(&store, tx, file)?.size;
            let length = size.saturating_sub(offset).min(into.len() as u64) as usize;
            let mut contents = Vec::new();
            for piece in pieces(offset, length) {
                let into = &mut into[piece.from..piece.from + piece.length];
                if store.get_into(tx, &page(file, piece.page), &mut contents)? {
                    into.copy_from_slice(&contents[piece.within..piece.within + piece.length]);
                } else {
                    into.fill(0);
                }
            }
            Ok(length)
        })
    }

    fn write(&mut self, file: u64, kept: u64, writes: &[(u64, &[u8])]) -> Result<()> {
        let Self { store, pages, .. } = *self;
        let size = self.runner.borrow_mut().run(|tx| {
            let before = Extent::read(&store, tx, file)?;
            let mut extent = before;
            let is_shorter = extent.shorten(&store, tx, file, kept)?;
            let mut contents = Vec::new();
            for &(offset, bytes) in writes {
                // A write beyond the end makes a hole, which must read as zeros. An interrupted truncation may have left pages there, so this removes them.
                for number in extent.size.div_ceil(PAGE_BYTES)..extent.reach.min(offset / PAGE_BYTES) {
                    store.remove(tx, &page(file, number))?;
                }
                for piece in pieces(offset, bytes.len()) {
                    let key = page(file, piece.page);
                    let bytes = &bytes[piece.from..piece.from + piece.length];
                    let is_beyond = piece.page * PAGE_BYTES >= extent.size;
                    let is_there = pages == Pages::Whole
                        && !is_beyond
                        && store.overwrite(tx, &key, piece.within as u64, bytes)?;
                    if !is_there {
                        let is_new = is_beyond
                            || piece.length as u64 == PAGE_BYTES
                            || !store.get_into(tx, &key, &mut contents)?;
                        if is_new {
                            contents.clear();
                            contents.resize(PAGE_BYTES as usize, 0);
                        }
                        contents[piece.within..piece.within + piece.length].copy_from_slice(bytes);
                        store.insert(tx, &key, &contents)?;
                    }
                    extent.size = extent.size.max(offset + (piece.from + piece.length) as u64);
                    extent.reach = extent.reach.max(piece.page + 1);
                }
            }
            if extent != before {
                extent.write(&store, tx, file)?;
            }
            Ok(is_shorter.then_some(extent.size))
        })?;
        size.map_or(Ok(()), |size| self.free_pages(file, size.div_ceil(PAGE_BYTES)))
    }

    fn truncate(&mut self, file: u64, size: u64) -> Result<()> {
        let store = self.store;
        self.runner.borrow_mut().run(|tx| {
            let mut extent = Extent::read(&store, tx, file)?;
            if extent.shorten(&store, tx, file, size)? { extent.write(&store, tx, file) } else { Ok(()) }
        })?;
        self.free_pages(file, size.div_ceil(PAGE_BYTES))
    }
}

/// The extent of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    /// The file's size, in bytes.
    size: u64,
    /// The number of the first page behind all that may exist; never below the size's.
    reach: u64,
}

impl Extent {
    fn read(store: &KeyValueStore, tx: &mut impl Read, file: u64) -> Result<Self, Abort> {
        match store.get(tx, &key(b's', file))? {
            Some(bytes) if bytes.len() == 16 => {
                Ok(Self { size: word(&bytes[..8]), reach: word(&bytes[8..]) })
            }
            _ => Err(tx.fail(Error::damaged(format!("file number {file} of the SQLite store has no size")))),
        }
    }

    /// Shortens the file to `size` bytes, and zeroes the rest of the last page. Returns whether the file was longer.
    fn shorten(
        &mut self,
        store: &KeyValueStore,
        tx: &mut impl Transaction,
        file: u64,
        size: u64,
    ) -> Result<bool, Abort> {
        if size >= self.size {
            return Ok(false);
        }
        let (last, within) = (page(file, size / PAGE_BYTES), (size % PAGE_BYTES) as usize);
        let mut contents = Vec::new();
        if within > 0 && store.get_into(tx, &last, &mut contents)? {
            contents[within..].fill(0);
            store.insert(tx, &last, &contents)?;
        }
        self.size = size;
        Ok(true)
    }

    fn write(self, store: &KeyValueStore, tx: &mut impl Transaction, file: u64) -> Result<(), Abort> {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.size.to_le_bytes());
        bytes[8..].copy_from_slice(&self.reach.to_le_bytes());
        store.insert(tx, &key(b's', file), &bytes)?;
        Ok(())
    }
}

fn number_of(store: &KeyValueStore, tx: &mut impl Read, name: &[u8]) -> Result<Option<u64>, Abort> {
    Ok(store.get(tx, &named(name))?.map(|bytes| word(&bytes)))
}

/// Returns the numbers of the deleted files that are not yet freed.
fn orphans(store: &KeyValueStore, tx: &mut impl Read) -> Result<Vec<u64>, Abort> {
    Ok(store.get(tx, b"d")?.unwrap_or_default().chunks(8).map(word).collect())
}

fn set_orphans(store: &KeyValueStore, tx: &mut impl Transaction, orphans: &[u64]) -> Result<(), Abort> {
    let bytes: Vec<u8> = orphans.iter().flat_map(|number| number.to_le_bytes()).collect();
    store.insert(tx, b"d", &bytes)?;
    Ok(())
}

fn named(name: &[u8]) -> Vec<u8> {
    [b"n", name].concat()
}

fn key(letter: u8, file: u64) -> [u8; 9] {
    let mut key = [letter; 9];
    key[1..].copy_from_slice(&file.to_le_bytes());
    key
}

fn page(file: u64, number: u64) -> [u8; 17] {
    let mut key = [b'p'; 17];
    key[1..9].copy_from_slice(&file.to_le_bytes());
    key[9..].copy_from_slice(&number.to_le_bytes());
    key
}

/// Returns the word in the first eight bytes. Missing bytes count as zero.
fn word(bytes: &[u8]) -> u64 {
    bytes.iter().take(8).rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// The part of a read or write that is within one page.
pub(crate) struct Piece {
    pub page: u64,
    /// Its offset in the page.
    pub within: usize,
    /// Its offset in the bytes that are read or written.
    pub from: usize,
    pub length: usize,
}

pub(crate) fn pieces(offset: u64, length: usize) -> impl Iterator<Item = Piece> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = offset + from as u64;
        let within = (at % PAGE_BYTES) as usize;
        let piece = Piece {
            page: at / PAGE_BYTES,
            within,
            from,
            length: (PAGE_BYTES as usize - within).min(length - from),
        };
        from += piece.length;
        (piece.length > 0).then_some(piece)
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use strandline_core::Domain;
    use strandline_core::engine::Worker;
    use strandline_core::file::{Options, Pool};
    use strandline_core::layout::Geometry;

    use super::*;

    /// Runs `body` with files in a new pool.
    pub fn with_files(body: impl FnOnce(&mut dyn Storage)) {
        let folder = tempfile::tempdir().unwrap();
        let geometry = Geometry { size: 24 << 20, logs: 2, ..Geometry::default() };
        let options = Options { geometry, domain: Domain::Process, ..Options::default() };
        let pool = Pool::create(folder.path().join("pool"), &options).unwrap();
        let mut worker = pool.worker().unwrap();
        let root = worker.view(|tx| Ok(tx.root(0))).unwrap();
        body(&mut Files::<Worker, Worker>::new(worker, root, 64).unwrap());
    }
}
