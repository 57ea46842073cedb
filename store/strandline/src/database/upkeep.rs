//! Methods for operation: space, statistics, checks for damage, backups and compaction.

use std::path::Path;

use super::Database;
#[cfg(doc)]
use crate::store::Store;
use crate::value::check::LostMemory;
use crate::value::transaction::Control;
use strandline_core::engine::SnapshotUsage;
#[cfg(doc)]
use strandline_core::error::Error;
use strandline_core::error::Result;
use strandline_core::file::{BackupReport, CompactReport, PoolStatistics, Recovery, SpaceUsage};
use strandline_core::heap::HeapUsage;
use strandline_core::memory::Native;

impl<C: Control<Memory = Native>> Database<C> {
    /// Returns the memory that the existing snapshots take. It may be called inside a transaction.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// let snapshot = db.snapshot()?;
    /// assert_eq!(db.snapshot_usage()?.snapshots, 1);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Closed`] if the database was closed, and [`Error::Forked`] in a child of the process that opened it.
    pub fn snapshot_usage(&self) -> Result<SnapshotUsage> {
        self.store.snapshot_usage()
    }

    /// Checks the whole database for damage: blocks, links, lengths, the order of keys, that keys and values are valid for the types that the
    /// catalogue names, and everything that pointers in them refer to. Returns a list of problems, which is empty if there are none.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// for problem in db.check()? {
    ///     eprintln!("{problem}");
    /// }
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::check`].
    pub fn check(&self) -> Result<Vec<String>> {
        self.store.check()
    }

    /// Returns the memory that is allocated but belongs to no table and to no row of one, like [`Store::lost_memory`]. There is none unless rows with
    /// pointers were removed and the objects that they point to were not freed.
    ///
    /// ```
    /// # use strandline::*;
    /// let db = Database::in_memory()?;
    /// assert_eq!(db.lost_memory()?.bytes, 0);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::lost_memory`].
    pub fn lost_memory(&self) -> Result<LostMemory> {
        self.store.lost_memory()
    }

    /// Returns what the database did to recover from a crash when it was opened.
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// println!("{} transactions were replayed", db.recovery().replayed());
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn recovery(&self) -> &Recovery {
        self.store.recovery()
    }

    /// Returns how full the database is. See [`Store::usage`].
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// let usage = db.usage()?;
    /// println!("{} of {} bytes", usage.allocated_bytes, usage.total_bytes);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::usage`].
    pub fn usage(&self) -> Result<HeapUsage> {
        self.store.usage()
    }

    /// Returns the disk space and memory that the database takes. It may be called inside a transaction.
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// let space = db.space()?;
    /// println!("{space:?}");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::space`].
    pub fn space(&self) -> Result<SpaceUsage> {
        self.store.space()
    }

    /// Returns the statistics since this process opened the database: numbers of transactions, conflicts, writes and flushes, and their durations. It
    /// may be called inside a transaction, and takes some microseconds.
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// let before = db.statistics()?;
    /// for age in 0..10 {
    ///     db.write(|tx| ages.insert(tx, "ann", &age))?;
    /// }
    /// let after = db.statistics()?;
    /// assert_eq!(after.commits - before.commits, 10);
    /// // How long `write` took until the disk had it: the median, and what one call in a hundred exceeded.
    /// println!("{:?}, {:?}", after.writes.quantile(0.5), after.writes.quantile(0.99));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// With the feature `metrics`, `PoolStatistics::publish` passes them to the recorder of the `metrics` crate. With the feature `tracing`,
    /// subscribers of the `tracing` crate see a span for each opening, recovery, checkpoint, compaction and backup, and a warning for each slow
    /// write.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::statistics`].
    pub fn statistics(&self) -> Result<PoolStatistics> {
        self.store.statistics()
    }

    /// Releases the disk space of free memory to the file system. See [`Store::compact`].
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// let report = db.compact()?;
    /// println!("{report:?}");
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::compact`].
    #[track_caller]
    pub fn compact(&self) -> Result<CompactReport> {
        self.store.compact()
    }

    /// Writes all changes from the log to their places in the file now. See [`Store::checkpoint`].
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// db.checkpoint()?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::checkpoint`].
    pub fn checkpoint(&self) -> Result<()> {
        self.store.checkpoint()
    }

    /// Copies the database as it is at one moment to a new file, while transactions run. See [`Store::backup`].
    ///
    /// ```
    /// # use strandline::*;
    /// # let path = example::path();
    /// let db = Database::open(&path)?;
    /// let ages = db.table::<String, u32>("ages")?;
    /// db.write(|tx| ages.insert(tx, "ann", &41))?;
    /// # let copy = example::path();
    /// db.backup(&copy)?;
    /// let copy = Database::open_existing(&copy, &Options::default())?;
    /// let ages = copy.table::<String, u32>("ages")?;
    /// assert_eq!(copy.read(|tx| ages.get(tx, "ann"))?, Some(41));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the same errors as [`Store::backup`].
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        self.store.backup(to)
    }
}
