//! Snapshots: a database as it was at one moment.

use std::collections::VecDeque;
use std::ops::Bound;

#[cfg(doc)]
use super::Database;
use super::table::Table;
use super::tables::Tables;
use super::value_ref::Value;
use crate::store::snapshot::{Snapshot, SnapshotView};
use crate::value::key::Key;
use crate::value::transaction::Control;
use strandline_core::engine::Stm;
use strandline_core::error::{Error, Result};
use strandline_core::memory::Native;

/// A [`Database`] as it was when the snapshot began. [`Database::snapshot`] creates it. A clone is of the same moment, and is cheap.
#[derive(Clone)]
pub struct DatabaseSnapshot<C: Control<Memory = Native> = Stm> {
    pub(super) inner: Snapshot<Tables<'static>, C>,
    pub(super) number: u64,
}

impl<C: Control<Memory = Native>> DatabaseSnapshot<C> {
    /// Returns a view of this moment, through which tables are read. There can be any number of views at a time, on any threads. Reading may continue
    /// after an error, even one that reports damage.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| ages.insert(tx, "ann", &41))?;
    /// let snapshot = db.snapshot()?;
    /// db.write(|tx| ages.insert(tx, "ann", &42))?;
    /// assert_eq!(ages.get(&snapshot.read(), "ann")?, Some(41));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn read(&self) -> SnapshotView<'_, C> {
        let (view, _) = self.inner.read();
        view.belongs_to(self.number);
        view
    }

    /// Returns an iterator over the rows of `table` at this moment, in order. The iterator owns what it reads, so that a program can keep it in a
    /// struct or a response, or send it to another thread. It reads some rows at a time, and searches for its place again in between. [`Table::iter`]
    /// through a [view](DatabaseSnapshot::read) is faster, and also goes backwards.
    ///
    /// ```
    /// # use strandline::*;
    /// struct Export {
    ///     rows: SnapshotRows<u64, String>,
    /// }
    ///
    /// let db = Database::in_memory()?;
    /// let names = db.table::<u64, String>("names")?;
    /// db.write(|tx| names.insert(tx, &7, "Ann"))?;
    /// let export = Export { rows: db.snapshot()?.rows(&names) };
    /// db.write(|tx| names.insert(tx, &8, "Bob"))?;
    /// let exported = std::thread::spawn(|| export.rows.collect::<Result<Vec<_>>>());
    /// assert_eq!(exported.join().unwrap()?, [(7, "Ann".to_string())]);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn rows<K: Key + Clone, V: Value>(&self, table: &Table<K, V>) -> SnapshotRows<K, V, C> {
        SnapshotRows {
            snapshot: self.clone(),
            table: table.clone(),
            read: VecDeque::new(),
            from: Some(Bound::Unbounded),
            failed: None,
        }
    }

    /// Checks the whole database for damage, like [`Database::check`].
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// assert!(db.snapshot()?.check()?.is_empty());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::SnapshotEnded`] if the snapshot was ended. Damage is reported in the list, not as an error.
    pub fn check(&self) -> Result<Vec<String>> {
        self.inner.check()
    }
}

impl<C: Control<Memory = Native>> std::fmt::Debug for DatabaseSnapshot<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}

/// Number of rows that [`SnapshotRows`] reads at a time.
const BATCH: usize = 64;

/// An iterator over the rows of a table at a snapshot's moment. [`DatabaseSnapshot::rows`] creates it. It ends after an error.
pub struct SnapshotRows<K, V, C: Control<Memory = Native> = Stm> {
    snapshot: DatabaseSnapshot<C>,
    table: Table<K, V>,
    read: VecDeque<(K, V)>,
    /// The bound from which to read on; `None` at the end.
    from: Option<Bound<K>>,
    /// The error that follows the rows that were read.
    failed: Option<Error>,
}

impl<K: Key + Clone, V: Value, C: Control<Memory = Native>> SnapshotRows<K, V, C> {
    /// Reads the next rows from `from` on.
    fn read_from(&mut self, from: Bound<K>) -> Result<()> {
        let view = self.snapshot.read();
        for row in self.table.range::<K, _>(&view, (from, Bound::Unbounded))?.take(BATCH) {
            self.read.push_back(row?);
        }
        if self.read.len() == BATCH {
            self.from = self.read.back().map(|(key, _)| Bound::Excluded(key.clone()));
        }
        Ok(())
    }
}

impl<K: Key + Clone, V: Value, C: Control<Memory = Native>> Iterator for SnapshotRows<K, V, C> {
    type Item = Result<(K, V)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.read.is_empty()
            && let Some(from) = self.from.take()
        {
            self.failed = self.read_from(from).err();
        }
        match self.read.pop_front() {
            Some(row) => Some(Ok(row)),
            None => self.failed.take().map(Err),
        }
    }
}

impl<K, V, C: Control<Memory = Native>> std::fmt::Debug for SnapshotRows<K, V, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotRows").field("table", &self.table).finish_non_exhaustive()
    }
}
