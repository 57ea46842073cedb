//! Values that a snapshot lends, for as long as the program keeps them.

use std::borrow::Borrow;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Mutex;

use super::snapshot::DatabaseSnapshot;
use super::table::Table;
use super::value_ref::Value;
use crate::collections::stream::ValueReader;
use crate::value::key::{Key, KeyRef};
use crate::value::persist::Readable;
use crate::value::transaction::{Control, View};
use strandline_core::engine::{self, Stm};
use strandline_core::error::Result;
use strandline_core::memory::Native;

/// The bytes of a value in the pool's own memory, lent for as long as this object exists. [`Table::lend`] creates it.
///
/// It is not bound to a transaction: a program can keep it in a struct and send it to other threads, and all threads can read it. While it exists,
/// the database cannot be closed ([`Error::InUse`](crate::Error::InUse)), and the pages of the value are not used again even if a transaction
/// replaces or removes it.
pub struct LentValue<C: Control<Memory = Native> = Stm> {
    bytes: Bytes<C>,
}

enum Bytes<C: Control<Memory = Native>> {
    Lent(Box<Lent<C>>),
    /// A copy of a value that cannot be lent.
    Copied(Vec<u8>),
}

struct Lent<C: Control<Memory = Native>> {
    /// The pieces of the value in the pool's memory, in order.
    pieces: Vec<NonNull<[u8]>>,
    /// The reader that has borrowed the pages. It returns them when it is dropped. That happens before the snapshot is dropped, which keeps the pool
    /// open, because fields are dropped in order. The reader is not used again; the mutex only makes this type `Sync`.
    _reader: Mutex<engine::Snapshot<C>>,
    _snapshot: DatabaseSnapshot<C>,
}

// SAFETY: a piece is memory that is only read, by any thread. The other fields can be sent, as the bounds say.
unsafe impl<C: Control<Memory = Native>> Send for Lent<C>
where
    Mutex<engine::Snapshot<C>>: Send,
    DatabaseSnapshot<C>: Send,
{
}

// SAFETY: nothing changes the pieces (see `LentValue::piece`). The other fields can be shared, as the bounds say.
unsafe impl<C: Control<Memory = Native>> Sync for Lent<C>
where
    Mutex<engine::Snapshot<C>>: Sync,
    DatabaseSnapshot<C>: Sync,
{
}

impl<C: Control<Memory = Native>> LentValue<C> {
    /// Returns the pieces of the value, in order. A value of up to 252 KB usually has one piece; an empty value has none.
    pub fn pieces(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        let count = match &self.bytes {
            Bytes::Lent(lent) => lent.pieces.len(),
            Bytes::Copied(bytes) => usize::from(!bytes.is_empty()),
        };
        (0..count).map(|number| self.piece(number).expect("the number is below the count"))
    }

    /// Returns the piece with this index, or `None` if there are not that many.
    pub fn piece(&self, number: usize) -> Option<&[u8]> {
        match &self.bytes {
            // SAFETY: `_reader` has borrowed the pages. It returns them when it is dropped with `self`, from which the slice is borrowed. Until then
            // nothing writes to the pages, by the protocol in `engine/lend.rs` of the core. The memory stays mapped as long as the pool is open, and
            // `_snapshot` keeps it open.
            Bytes::Lent(lent) => lent.pieces.get(number).map(|piece| unsafe { piece.as_ref() }),
            Bytes::Copied(bytes) => (number == 0 && !bytes.is_empty()).then_some(bytes),
        }
    }

    /// Returns the number of bytes in the value.
    pub fn len(&self) -> u64 {
        self.pieces().map(|piece| piece.len() as u64).sum()
    }

    /// Returns whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the pieces are the database's own memory. They are a copy if the value has at most 16 KB, if a transaction has replaced or
    /// removed it since the snapshot began, and if the database is in memory, on persistent memory or protected against stray writes.
    pub fn is_lent(&self) -> bool {
        matches!(self.bytes, Bytes::Lent(_))
    }
}

impl<C: Control<Memory = Native>> fmt::Debug for LentValue<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LentValue").field("len", &self.len()).field("is_lent", &self.is_lent()).finish()
    }
}

impl<C: Control<Memory = Native>> DatabaseSnapshot<C> {
    /// Lends the value that `find` returns.
    pub(super) fn lend_found(
        &self,
        find: impl for<'t, 'p> FnOnce(&'t View<'p, C>) -> Result<Option<ValueReader<'t, 'p, C>>>,
    ) -> Result<Option<LentValue<C>>> {
        let mut reader = self.inner.reader();
        let is_protected = reader.is_protected();
        let pieces = {
            let tx = View::new(reader.tx(), false);
            tx.belongs_to(self.number);
            let Some(value) = find(&tx)? else { return Ok(None) };
            let pieces = match is_protected {
                true => None,
                // SAFETY: `reader` reads the value, and the `LentValue` owns it from here on, so that it outlives every use of the pieces.
                false => unsafe { value.lent_pieces() }?,
            };
            match pieces {
                Some(pieces) => pieces,
                None => {
                    let mut copy = vec![0; value.len() as usize];
                    value.read_at(0, &mut copy)?;
                    return Ok(Some(LentValue { bytes: Bytes::Copied(copy) }));
                }
            }
        };
        let lent = Lent { pieces, _reader: Mutex::new(reader), _snapshot: self.clone() };
        Ok(Some(LentValue { bytes: Bytes::Lent(Box::new(lent)) }))
    }
}

impl<K: Key, V: Value> Table<K, V> {
    /// Lends the value that `key` had when the snapshot began. A value of more than 16 KB is lent without a copy: see [`LentValue`].
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// let films = db.table::<String, Vec<u8>>("films")?;
    /// db.write(|tx| films.set_from(tx, "noise", 1_000_000, std::io::repeat(7)))?;
    /// let film = films.lend(&db.snapshot()?, "noise")?.expect("it is there");
    /// db.write(|tx| films.remove(tx, "noise"))?; // the film stays as it was
    /// let sum = std::thread::spawn(move || film.pieces().flatten().map(|byte| u64::from(*byte)).sum::<u64>());
    /// assert_eq!(sum.join().unwrap(), 7_000_000);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Table::get`].
    pub fn lend<Q: KeyRef + ?Sized, C: Control<Memory = Native>>(
        &self,
        snapshot: &DatabaseSnapshot<C>,
        key: &Q,
    ) -> Result<Option<LentValue<C>>>
    where
        K: Borrow<Q>,
        V: Readable<Borrowed = [u8]>,
    {
        snapshot.lend_found(|tx| self.reader(tx, key))
    }
}
