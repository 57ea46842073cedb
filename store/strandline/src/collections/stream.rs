//! Reading and storing a value piece by piece.

use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::ControlFlow;
use std::ptr::NonNull;

use super::ordered_map::OrderedMap;
use crate::value::key::{Key, KeyBytes};
use crate::value::persist::Persist;
use crate::value::transaction::{Control, Tx, View};
use strandline_core::error::{Error, Result};
use strandline_core::structures::{Cell, StoredValue, ValueWriter};

/// Reads the bytes of a value, in order or from any position, without loading all of them into memory. [`Table::reader`](crate::Table::reader)
/// creates it.
///
/// Each call is an operation of the reader's transaction or snapshot. Use a [`BufReader`](std::io::BufReader) to read few bytes at a time. If the
/// same transaction changes the value meanwhile, the bytes that are read are unspecified.
pub struct ValueReader<'t, 'p, C: Control> {
    tx: &'t View<'p, C>,
    value: StoredValue,
    at: u64,
}

impl<'t, 'p, C: Control> ValueReader<'t, 'p, C> {
    /// Creates a reader of a cell's value.
    pub(crate) fn of(tx: &'t View<'p, C>, cell: &Cell) -> Result<Self> {
        Ok(Self { tx, value: tx.words(|tx| cell.stored_value(tx))?, at: 0 })
    }

    /// Returns the pieces of the whole value where they are in memory, if all of them are lent, and `None` if the value must be copied.
    ///
    /// # Errors
    /// Returns an error after a conflict.
    ///
    /// # Safety
    /// The caller must not read the pieces after the end of the transaction or snapshot from which this reads.
    pub(crate) unsafe fn lent_pieces(&self) -> Result<Option<Vec<NonNull<[u8]>>>> {
        // SAFETY: the value is part of an `OrderedMap`, and only its tree refers to its extents. The caller promises the rest.
        self.tx.words(|tx| unsafe { self.value.lent_pieces(tx) })
    }

    /// Returns the number of bytes in the whole value.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let films = db.table::<String, Vec<u8>>("films")?;
    /// db.write(|tx| films.set(tx, "tide", b"low water".as_slice()))?;
    /// let bytes = db.read(|tx| Ok(films.reader(tx, "tide")?.map(|film| film.len())))?;
    /// assert_eq!(bytes, Some(9));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn len(&self) -> u64 {
        self.value.bytes()
    }

    /// Returns whether the value has no bytes.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let films = db.table::<String, Vec<u8>>("films")?;
    /// db.write(|tx| films.set(tx, "fog", b"".as_slice()))?;
    /// let is_empty = db.read(|tx| Ok(films.reader(tx, "fog")?.is_some_and(|film| film.is_empty())))?;
    /// assert!(is_empty);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<C: Control> ValueReader<'_, '_, C> {
    /// Reads bytes of the value from the offset `at` on, until `into` is full. The position of the reader does not matter and does not change.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let films = db.table::<String, Vec<u8>>("films")?;
    /// db.write(|tx| films.set(tx, "tide", b"low water".as_slice()))?;
    /// let mut second = [0; 5];
    /// db.read(|tx| match films.reader(tx, "tide")? {
    ///     Some(film) => film.read_at(4, &mut second),
    ///     None => Ok(()),
    /// })?;
    /// assert_eq!(&second, b"water");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the value does not have that many bytes from `at` on, and an error after a conflict.
    pub fn read_at(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let bytes = self.len();
        if at.checked_add(into.len() as u64).is_none_or(|end| end > bytes) {
            let what =
                format!("a value of {bytes} bytes does not have {} bytes from offset {at} on", into.len());
            return Err(Error::Parameter(what));
        }
        self.tx.words(|tx| self.value.read_at(tx, at, into))
    }

    /// Writes the value to `to`, from the reader's position to the end, and returns the number of bytes written. In a snapshot or in a transaction
    /// that only reads, a large value is written directly from the pool's memory, without a copy.
    ///
    /// If the transaction has to run again, `to` may already have received some of the bytes. A snapshot never runs again.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let films = db.table::<String, Vec<u8>>("films")?;
    /// db.write(|tx| films.set_from(tx, "noise", 1_000_000, std::io::repeat(7)))?;
    /// let mut copy = Vec::new(); // or a file, or a socket
    /// db.read(|tx| match films.reader(tx, "noise")? {
    ///     Some(mut film) => film.write_to(&mut copy),
    ///     None => Ok(0),
    /// })?;
    /// assert_eq!(copy, [7; 1_000_000]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Io`] if `to` fails, [`Error::Parameter`] if `to` uses the transaction, and an error after a conflict.
    pub fn write_to(&mut self, mut to: impl Write) -> Result<u64> {
        let (mut written, mut failed) = (0, Ok(()));
        let mut write = |piece: &[u8]| match to.write_all(piece) {
            Ok(()) => {
                written += piece.len() as u64;
                ControlFlow::Continue(())
            }
            Err(error) => {
                failed = Err(Error::io("write a value to the given writer", error));
                ControlFlow::Break(())
            }
        };
        // SAFETY: the value is part of an `OrderedMap`, and only its tree refers to its extents.
        let read = self.tx.words(|tx| unsafe { self.value.for_each_piece(tx, self.at, &mut write) });
        self.at += written;
        read.and(failed).map(|()| written)
    }
}

impl<C: Control> fmt::Debug for ValueReader<'_, '_, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ValueReader").field("len", &self.len()).field("at", &self.at).finish()
    }
}

impl<C: Control> Read for ValueReader<'_, '_, C> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.len().saturating_sub(self.at).min(into.len() as u64) as usize;
        if bytes == 0 {
            return Ok(0);
        }
        self.read_at(self.at, &mut into[..bytes]).map_err(io::Error::other)?;
        self.at += bytes as u64;
        Ok(bytes)
    }
}

impl<C: Control> Seek for ValueReader<'_, '_, C> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let to = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(offset) => self.len().checked_add_signed(offset),
            SeekFrom::Current(offset) => self.at.checked_add_signed(offset),
        };
        self.at =
            to.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a place before the value"))?;
        Ok(self.at)
    }
}

impl<'p, K: Key, V: Persist<'p>> OrderedMap<'p, K, V> {
    /// Sets the value of `key` to the `bytes` bytes that `from` returns. Like [`set`](Self::set), but copies piece by piece. `from` may use the
    /// transaction.
    pub(crate) fn set_from_encoded(
        self,
        tx: &Tx<'p, impl Control>,
        key: &KeyBytes,
        bytes: u64,
        mut from: impl Read,
    ) -> Result<()> {
        let (mut writer, restorations) = tx.words(|tx| {
            Self::check_sizes(tx, key.as_slice(), bytes)?;
            Ok((ValueWriter::new(bytes), tx.restorations()))
        })?;
        let mut piece = Vec::new();
        loop {
            piece.resize(tx.words(|tx| writer.next(tx))?, 0);
            if piece.is_empty() {
                break;
            }
            if let Err(error) = from.read_exact(&mut piece) {
                tx.words(|tx| {
                    self.check_load(tx, restorations)?;
                    writer.give_up(tx)
                })?;
                return Err(Error::io("read the value that is to be stored", error));
            }
            tx.words(|tx| {
                self.check_load(tx, restorations)?;
                writer.put(tx, &piece)
            })?;
        }
        tx.words(|tx| {
            self.check_load(tx, restorations)?;
            let tree = self.tree_to_write(tx)?;
            writer.finish(tx, &tree, key.as_slice())
        })
    }

    /// Returns a reader of the value of `key`, or `None` if the map does not have the key.
    pub(crate) fn reader_encoded<'t, C: Control>(
        self,
        tx: &'t View<'p, C>,
        key: &KeyBytes,
    ) -> Result<Option<ValueReader<'t, 'p, C>>> {
        let cell = tx.words(|tx| self.tree(tx)?.find(tx, key.as_slice()))?;
        cell.map(|cell| ValueReader::of(tx, &cell)).transpose()
    }
}
