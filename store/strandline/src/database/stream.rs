//! Reading and storing values of tables piece by piece.

use std::borrow::Borrow;
use std::io;

use super::table::Table;
use super::value_ref::Value;
use crate::collections::stream::ValueReader;
use crate::value::key::{Key, KeyBytes, KeyRef};
use crate::value::persist::Readable;
use crate::value::transaction::{Control, Tx, View};
#[cfg(doc)]
use strandline_core::error::Error;
use strandline_core::error::Result;

impl<K: Key, V: Value> Table<K, V> {
    /// Sets the value of `key` to the `bytes` bytes that `from` returns, piece by piece. In a pool on an ordinary file, values of more than 64 KB are
    /// written directly to free pages of the file. The parts that have to go through the log stay in memory until the commit.
    ///
    /// If the transaction has to run again, its closure opens the source of the bytes again. At most 16 MB of a value are copied on the way.
    ///
    /// On persistent memory, and in databases in memory, all pages go through the log. On an ordinary file some do:
    ///
    /// - pages of a value that is stored twice in one transaction;
    /// - pages that were freed beside a snapshot that still exists;
    /// - pages that were changed through the log since the last checkpoint but one;
    /// - all pages while a backup is made;
    /// - for each 256 KB once, space that had other contents, or that the file had grown by when it was opened.
    ///
    /// If these pages do not fit into the log, the transaction becomes a [large one](crate::Database#who-waits-for-whom).
    ///
    /// A transaction that stores a large value keeps its part of the heap's tables locked until it commits. Reads and snapshots do not wait for it,
    /// but a write that needs new space does.
    ///
    /// ```
    /// # use strandline::*;
    /// use std::io::Read;
    ///
    /// let db = Database::in_memory()?;
    /// let films = db.table::<String, Vec<u8>>("films")?;
    /// db.write(|tx| films.set_from(tx, "noise", 1_000_000, std::io::repeat(7)))?;
    /// db.read(|tx| {
    ///     let mut first = [0; 16];
    ///     if let Some(mut film) = films.reader(tx, "noise")? {
    ///         assert_eq!(film.len(), 1_000_000);
    ///         film.read_exact(&mut first).map_err(|error| Error::io("read a film", error))?;
    ///     }
    ///     assert_eq!(first, [7; 16]);
    ///     Ok(())
    /// })?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Io`] if `from` fails or returns fewer bytes, in which case the value is unchanged, and the errors of [`Table::insert`].
    pub fn set_from<'p, Q: KeyRef + ?Sized>(
        &self,
        tx: &Tx<'p, impl Control>,
        key: &Q,
        bytes: u64,
        from: impl io::Read,
    ) -> Result<()>
    where
        K: Borrow<Q>,
        V: Readable<Borrowed = [u8]>,
    {
        self.map(tx)?.set_from_encoded(tx, &KeyBytes::of(key), bytes, from)
    }

    /// Returns a reader of the value of `key`, or `None` if the table does not have the key. See [`Table::set_from`].
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
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn reader<'t, 'p, Q: KeyRef + ?Sized, C: Control>(
        &self,
        tx: &'t View<'p, C>,
        key: &Q,
    ) -> Result<Option<ValueReader<'t, 'p, C>>>
    where
        K: Borrow<Q>,
        V: Readable<Borrowed = [u8]>,
    {
        self.map(tx)?.reader_encoded(tx, &KeyBytes::of(key))
    }
}
