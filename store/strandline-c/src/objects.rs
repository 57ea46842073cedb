//! Objects: memory by offset, as in libpmemobj, stored in pieces that are rows of a table.
//!
//! The upper 32 bits of an offset are the object's number, the lower 32 bits a place in the object. An offset thus remains valid after a copy, or a
//! dump and a load, and no offset that C passes can refer to anything but an object. Each row is one piece of an object; its key is the offset at
//! which the piece begins. The first piece begins with the object's size. Other pieces exist only if they were written.

use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::hash::{BuildHasher, RandomState};
use std::ptr;

use strandline::{Error, Table, Tx, View};

use crate::database::StrandlineDatabase;
use crate::status::{Stop, StrandlineStatus, answer, not_found, parameter};
use crate::transaction::{StrandlineTransaction, running};
use crate::{put, reference, text, value};

/// Objects of a database, by offset. All threads may share them, and use them in all transactions of their database.
pub struct StrandlineObjects {
    pieces: Table<u64, Vec<u8>>,
}

/// Size of a piece, in bytes. A write of a few bytes first reads its whole piece.
const PIECE: u64 = 512;
/// Bytes in front of the first piece, which hold the object's size.
const HEADER: usize = 8;
/// The number of the root, the object from which a program reaches all others.
const ROOT: u64 = 1;

/// Returns the offset at which the object of `offset` begins.
fn begin(offset: u64) -> u64 {
    offset & !u64::from(u32::MAX)
}

fn invalid(offset: u64, length: u64) -> Stop {
    let message = format!("no object has {length} bytes at the offset {offset:#x}");
    Stop::Status(StrandlineStatus::STRANDLINE_INVALID_ADDRESS, message)
}

fn check_size(size: u64) -> Result<(), Stop> {
    match size {
        1..=0xffff_ffff => Ok(()),
        _ => Err(parameter(format!("an object of {size} bytes: there are some of 1 to 4,294,967,295 bytes"))),
    }
}

impl StrandlineObjects {
    fn size(&self, tx: &View<'_>, object: u64) -> Result<Option<u64>, Stop> {
        let size = self.pieces.read_with(tx, &object, |piece| piece.first_chunk::<HEADER>().copied())?;
        Ok(size.flatten().map(u64::from_le_bytes))
    }

    /// Fails unless the object of `offset` has `length` bytes from there on.
    fn check(&self, tx: &View<'_>, offset: u64, length: u64) -> Result<(), Stop> {
        let object = begin(offset);
        let has_them = |size| (offset - object).checked_add(length).is_some_and(|end| end <= size);
        if self.size(tx, object)?.is_some_and(has_them) { Ok(()) } else { Err(invalid(offset, length)) }
    }

    /// Creates an object of `size` zeros.
    fn create(&self, tx: &Tx<'_>, object: u64, size: u64) -> Result<(), Stop> {
        let mut piece = size.to_le_bytes().to_vec();
        piece.resize(HEADER + size.min(PIECE) as usize, 0);
        self.pieces.insert(tx, &object, &piece)?;
        Ok(())
    }

    /// Returns a number that no object has.
    fn vacant(&self, tx: &View<'_>) -> Result<u64, Stop> {
        thread_local! {
            /// Each thread continues from its own random number, so that two threads that allocate do not conflict.
            static NEXT: Cell<u32> = Cell::new(RandomState::new().hash_one(0) as u32);
        }
        for _ in 0..1000 {
            let number = NEXT.replace(NEXT.get().wrapping_add(1));
            let object = u64::from(number) << 32;
            if u64::from(number) > ROOT {
                if !self.pieces.contains_key(tx, &object)? {
                    return Ok(object);
                }
                NEXT.set(RandomState::new().hash_one(0) as u32);
            }
        }
        // This happens only if nearly all of four billion numbers are taken.
        Err(Stop::Error(Error::Full { bytes: 0 }))
    }

    fn allocate(&self, tx: &Tx<'_>, size: u64) -> Result<u64, Stop> {
        check_size(size)?;
        let object = self.vacant(tx)?;
        self.create(tx, object, size)?;
        Ok(object)
    }

    /// Returns the root. Creates it, or enlarges it, if it is smaller than `size`.
    fn root(&self, tx: &View<'_>, writer: Result<&Tx<'_>, Stop>, size: u64) -> Result<u64, Stop> {
        check_size(size)?;
        let root = ROOT << 32;
        let before = self.size(tx, root)?;
        match before {
            Some(before) if before >= size => return Ok(root),
            None => self.create(writer?, root, size)?,
            Some(before) => {
                let tx = writer?;
                // The first piece, and the one that was last, can now have their full length.
                for at in [root, root + (before - 1) / PIECE * PIECE] {
                    if let Some(mut piece) = self.pieces.get(tx, &at)? {
                        let header = if at == root { HEADER } else { 0 };
                        piece.resize(header + (size - (at - root)).min(PIECE) as usize, 0);
                        if at == root {
                            piece[..HEADER].copy_from_slice(&size.to_le_bytes());
                        }
                        self.pieces.insert(tx, &at, &piece)?;
                    }
                }
            }
        }
        Ok(root)
    }

    /// Yields the pieces of a range: the offset at which each begins, the place of its bytes in its row, the range of these bytes, and their place in
    /// the whole range.
    fn pieces(offset: u64, length: u64) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>, usize)> {
        let end = offset + length;
        let mut at = offset;
        std::iter::from_fn(move || {
            let first = at / PIECE * PIECE;
            let header = if first == begin(first) { HEADER } else { 0 };
            let until = end.min(first.saturating_add(PIECE));
            let part = header + (at - first) as usize..header + (until - first) as usize;
            let found = (at < end).then(|| (first, header, part, (at - offset) as usize));
            at = until;
            found
        })
    }

    fn read(&self, tx: &View<'_>, offset: u64, into: &mut [u8]) -> Result<(), Stop> {
        self.check(tx, offset, into.len() as u64)?;
        for (first, _, part, at) in Self::pieces(offset, into.len() as u64) {
            let into = &mut into[at..at + part.len()];
            let found = self.pieces.read_with(tx, &first, |piece| match piece.get(part) {
                Some(bytes) => {
                    into.copy_from_slice(bytes);
                    true
                }
                None => false,
            })?;
            match found {
                Some(true) => {}
                Some(false) => {
                    return Err(Error::damaged(format!("the object at {first:#x} is too short")).into());
                }
                None => into.fill(0),
            }
        }
        Ok(())
    }

    fn write(&self, tx: &Tx<'_>, offset: u64, bytes: &[u8]) -> Result<(), Stop> {
        self.check(tx, offset, bytes.len() as u64)?;
        let (object, size) = (begin(offset), self.size(tx, begin(offset))?.unwrap_or(0));
        for (first, header, part, at) in Self::pieces(offset, bytes.len() as u64) {
            let length = header + (size - (first - object)).min(PIECE) as usize;
            let bytes = &bytes[at..at + part.len()];
            if part.len() == length {
                self.pieces.insert(tx, &first, bytes)?;
                continue;
            }
            let mut piece = self.pieces.get(tx, &first)?.unwrap_or_default();
            piece.resize(length, 0);
            piece[part].copy_from_slice(bytes);
            self.pieces.insert(tx, &first, &piece)?;
        }
        Ok(())
    }

    fn free(&self, tx: &Tx<'_>, object: u64) -> Result<(), Stop> {
        if object != begin(object) || self.size(tx, object)?.is_none() {
            return Err(Error::InvalidFree(object).into());
        }
        let pieces = self.pieces.drain(tx, object..=object | u64::from(u32::MAX))?;
        for piece in pieces {
            piece?;
        }
        Ok(())
    }

    /// Returns the first object after the one that `after` is in.
    fn next(&self, tx: &View<'_>, after: u64) -> Result<Option<u64>, Stop> {
        let Some(from) = begin(after).checked_add(1 << 32) else { return Ok(None) };
        let next = self.pieces.range(tx, from..)?.next();
        Ok(next.transpose()?.map(|(object, _)| object))
    }
}

/// Opens the objects `name`, in UTF-8, and creates the name if it does not exist. It cannot be the name of a map. Not inside a
/// transaction.
///
/// Threads: any, at the same time as others use the database. All threads may share the objects that it opens.
///
/// # Safety
/// `database` is open; `name` is a string; `objects` refers to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_objects_open(
    database: *const StrandlineDatabase,
    name: *const c_char,
    objects: *mut *mut StrandlineObjects,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe {
            put(objects, ptr::null_mut())?;
            let database = reference(database, "a database")?;
            let pieces = database.database.table(text(name, "a name")?)?;
            put(objects, Box::into_raw(Box::new(StrandlineObjects { pieces })))
        }
    })
}

/// Frees what `strandline_objects_open` has allocated. The stored objects stay.
///
/// Threads: any one, after all others have stopped using `objects`.
///
/// # Safety
/// `objects` were opened, are closed once, and no thread is in a call with them; or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_objects_close(objects: *mut StrandlineObjects) {
    if !objects.is_null() {
        // SAFETY: it was made from a box.
        drop(unsafe { Box::from_raw(objects) });
    }
}

/// Returns the offset of the root, the object from which a program reaches all others; the offset is always the same. If there is no
/// root, the call creates one of `size` zeros; if the root is shorter than `size` bytes, zeros are added. Both need a transaction
/// that writes.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the objects at the same time.
///
/// # Safety
/// `transaction` runs; `objects` are open; `offset` refers to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_root(
    transaction: *mut StrandlineTransaction,
    objects: *const StrandlineObjects,
    size: u64,
    offset: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe {
            let (running, objects) = (running(transaction)?, reference(objects, "objects")?);
            put(offset, 0)?;
            put(offset, objects.root(running.view, running.writer(), size)?)
        }
    })
}

/// Creates an object of `size` zeros, 1 to 4,294,967,295. Its offset is a multiple of 2^32, and never 0.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the objects at the same time.
///
/// # Safety
/// As for `strandline_root`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_allocate(
    transaction: *mut StrandlineTransaction,
    objects: *const StrandlineObjects,
    size: u64,
    offset: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe {
            let tx = running(transaction)?.writer()?;
            // Checks the place for the offset first, or an object could be created that nobody can name.
            put(offset, 0)?;
            put(offset, reference(objects, "objects")?.allocate(tx, size)?)
        }
    })
}

/// Copies `length` bytes at `offset` to `into`. The offset may refer to the inside of an object: `offset + offsetof(struct node,
/// next)`. Returns `STRANDLINE_INVALID_ADDRESS` if there is no object, or if it ends before.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the objects at the same time.
///
/// # Safety
/// As for `strandline_root`; `into` has room for `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_load(
    transaction: *mut StrandlineTransaction,
    objects: *const StrandlineObjects,
    offset: u64,
    into: *mut c_void,
    length: usize,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises. Memory that C has not initialized is zeroed first.
        unsafe {
            let (running, objects) = (running(transaction)?, reference(objects, "objects")?);
            // Checks the length before it writes to `into`, which may be smaller than C says.
            objects.check(running.view, offset, length as u64)?;
            if length == 0 {
                return Ok(());
            }
            reference(into.cast::<u8>(), "a place to read to")?;
            into.cast::<u8>().write_bytes(0, length);
            objects.read(running.view, offset, std::slice::from_raw_parts_mut(into.cast(), length))
        }
    })
}

/// Copies `length` bytes from `from` to `offset`, which may refer to the inside of an object. Returns `STRANDLINE_INVALID_ADDRESS` if
/// there is no object, or if it ends before.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the objects at the same time.
///
/// # Safety
/// As for `strandline_root`; `from` has `length` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_store(
    transaction: *mut StrandlineTransaction,
    objects: *const StrandlineObjects,
    offset: u64,
    from: *const c_void,
    length: usize,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe {
            let tx = running(transaction)?.writer()?;
            reference(objects, "objects")?.write(tx, offset, value(from, length)?)
        }
    })
}

/// Frees the object at `offset`. Returns `STRANDLINE_INVALID_FREE` if no object begins there.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the objects at the same time.
///
/// # Safety
/// As for `strandline_root`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_release(
    transaction: *mut StrandlineTransaction,
    objects: *const StrandlineObjects,
    offset: u64,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe { reference(objects, "objects")?.free(running(transaction)?.writer()?, offset) }
    })
}

/// Returns in `size` the bytes of the object that `offset` refers to. Returns `STRANDLINE_INVALID_ADDRESS` if no object begins there.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the objects at the same time.
///
/// # Safety
/// As for `strandline_root`; `size` refers to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_size(
    transaction: *mut StrandlineTransaction,
    objects: *const StrandlineObjects,
    offset: u64,
    size: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe {
            let (running, objects) = (running(transaction)?, reference(objects, "objects")?);
            objects.check(running.view, offset, 1)?;
            put(size, objects.size(running.view, begin(offset))?.unwrap_or(0))
        }
    })
}

/// Returns in `next` the object after the one that `offset` refers to, in no particular order; after 0 the first. Returns
/// `STRANDLINE_NOT_FOUND` at the end. A program can find leaked objects with it.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the objects at the same time.
///
/// # Safety
/// As for `strandline_root`; `next` refers to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_next(
    transaction: *mut StrandlineTransaction,
    objects: *const StrandlineObjects,
    offset: u64,
    next: *mut u64,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe {
            let (running, objects) = (running(transaction)?, reference(objects, "objects")?);
            let found = objects.next(running.view, offset)?;
            put(next, found.ok_or_else(|| not_found("there is no further object"))?)
        }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use strandline::Database;

    use super::*;

    fn with_objects(body: impl Fn(&StrandlineObjects, &Tx<'_>)) {
        let db = Database::in_memory().unwrap();
        let objects = StrandlineObjects { pieces: db.table("objects").unwrap() };
        db.write(|tx| {
            body(&objects, tx);
            Ok(())
        })
        .unwrap();
    }

    fn contents(objects: &StrandlineObjects, tx: &Tx<'_>, object: u64) -> Option<Vec<u8>> {
        let mut bytes = vec![0xee; objects.size(tx, object).ok()?? as usize];
        objects.read(tx, object, &mut bytes).ok()?;
        Some(bytes)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Compares an object and a growing root with vectors of bytes.
        #[test]
        fn objects_hold_what_was_written(
            size in 1u64..3000,
            writes in prop::collection::vec((0u64..3000, prop::collection::vec(any::<u8>(), 0..1500), 1u64..3000), 1..12),
        ) {
            with_objects(|objects, tx| {
                let object = objects.allocate(tx, size).ok().unwrap();
                let (mut root, mut model) = (Vec::new(), vec![0; size as usize]);
                for (at, bytes, root_size) in &writes {
                    let at_root = objects.root(tx, Ok(tx), *root_size).ok().unwrap();
                    root.resize(root.len().max(*root_size as usize), 0u8);
                    for (offset, model) in [(object, &mut model), (at_root, &mut root)] {
                        let range = *at as usize..*at as usize + bytes.len();
                        let written = objects.write(tx, offset + at, bytes).is_ok();
                        assert_eq!(written, range.end <= model.len());
                        if written {
                            model[range].copy_from_slice(bytes);
                        }
                        assert_eq!(contents(objects, tx, offset).as_ref(), Some(&*model));
                    }
                }
                assert_eq!(objects.next(tx, 0).ok(), Some(Some(ROOT << 32)));
                assert!(objects.free(tx, object).is_ok() && objects.free(tx, object).is_err());
                assert_eq!(contents(objects, tx, object), None);
                assert_eq!(objects.next(tx, ROOT << 32).ok(), Some(None));
                // Freeing must remove all pieces.
                let left = objects.pieces.range(tx, object..).unwrap().count();
                assert_eq!(left, 0);
            });
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        with_objects(|objects, tx| {
            assert!(objects.allocate(tx, 0).is_err() && objects.allocate(tx, 1 << 32).is_err());
            let largest = objects.allocate(tx, u64::from(u32::MAX)).ok().unwrap();
            // A large object takes room only for what was written.
            assert!(objects.write(tx, largest + u64::from(u32::MAX) - 3, b"end").is_ok());
            assert!(objects.write(tx, largest + u64::from(u32::MAX) - 2, b"end").is_err());
            let mut end = [0; 5];
            assert!(objects.read(tx, largest + u64::from(u32::MAX) - 5, &mut end).is_ok());
            assert_eq!(&end, b"\0\0end");
            for offset in [0, 1, 1 << 32, u64::MAX, largest - 1] {
                assert!(objects.read(tx, offset, &mut end).is_err(), "{offset:#x}");
            }
            assert!(objects.free(tx, largest + 1).is_err());
            assert!(objects.root(tx, Err(parameter("reads")), 8).is_err());
        });
    }
}
