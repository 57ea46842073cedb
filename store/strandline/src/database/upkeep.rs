//! What an operator asks of a database: how full it is, what it has done, whether it is damaged; backups and compaction.

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
    /// What the snapshots that exist take. It may be called inside a transaction.
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
    /// [`Error::Closed`], [`Error::Forked`].
    pub fn snapshot_usage(&self) -> Result<SnapshotUsage> {
        self.store.snapshot_usage()
    }

    /// Looks everything over for damage: blocks, links, lengths, the order of keys, that keys and values are of the types that the database says, and
    /// what pointers in them lead to. What is wrong is returned, and nothing if all is well.
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

    /// What is allocated and belongs to no table, nor hangs from a row of one, as [`Store::lost_memory`]: nothing, unless rows with pointers were
    /// removed and what they led to was not.
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

    /// What opening it had to do after a crash.
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

    /// How full it is: [`Store::usage`].
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

    /// What it takes of disk and memory. It may be called inside a transaction.
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

    /// Returns what it has done since this process opened it: transactions, conflicts, writes, flushes, and how long they took. It may be called
    /// inside a transaction, and costs some microseconds.
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
    /// With the feature `metrics`, `PoolStatistics::publish` hands them to the recorder of the crate of this name. With the feature `tracing`,
    /// subscribers see a span each for opening, recovery, checkpoints, compaction and backup, and a warning for each slow write.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::statistics`].
    pub fn statistics(&self) -> Result<PoolStatistics> {
        self.store.statistics()
    }

    /// Gives the disk space of what is free back to the file system: [`Store::compact`].
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

    /// Brings everything home from the log now: [`Store::checkpoint`].
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

    /// Copies the database as it is at one time to a new file, while transactions run: [`Store::backup`].
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
