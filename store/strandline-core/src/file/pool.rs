//! A pool in a file, for users. `start.rs` maps and recovers it, and `close.rs` closes it.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::backup::{self, BackupReport, Source};
use super::checkpointer::Checkpointer;
use super::create::{NewPool, random};
use super::helper::Helper;
use super::leases::IdleWorkers;
use super::open::{OpenFiles, read_word};
use super::options::Options;
use super::recovery::Recovery;
use super::statistics::Observed;
use super::ticket::{Flusher, Ticket};
use crate::Domain;
use crate::engine::{Control, Setup, Snapshot, SnapshotUsage, Stm, Worker};
use crate::error::{Error, Result};
use crate::heap::{self, HeapUsage};
use crate::layout::Header;
use crate::layout::{Layout, SharedLayout, View};
use crate::memory::deadlock::{Awaited, Wait};
use crate::memory::{Device, Mapping, MappingKind, Memory, Native, Outside, SharedFile};
use crate::scheme::{self, BPPM, SchemeKind, SchemeMemory, SchemeObject};
use crate::sync::{FileDevice, SharedLog};
use crate::trace::span;
use crate::transaction::{Concurrency, Runner};

mod close;
mod start;

/// The purpose for which files are opened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Writing,
    Reading,
    /// To create a pool's first content before it is published.
    Creation,
}

/// An open pool. It is closed when dropped; [`Pool::close`] reports errors. A pool dropped while a worker exists stays locked until the worker is
/// gone, and is recovered when it is next opened.
///
/// A process that is forked from the one that opened the pool cannot use it: each call returns [`Error::Forked`] there, and dropping the pool changes
/// nothing. But the child holds the pool's lock as well, until it ends or executes another program.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// let pool = Pool::create(&path, &options)?;
/// pool.worker()?.run(|tx| tx.write(tx.root(0), 5))?;
/// pool.close()?;
///
/// let pool = Pool::open(&path, &options)?;
/// assert_eq!(pool.recovery().replayed(), 0, "it was closed");
/// assert_eq!(pool.worker()?.view(|tx| tx.read(tx.root(0)))?, 5);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct Pool<C: Control<Memory = Native> = Stm> {
    path: PathBuf,
    pub(super) file: SharedFile,
    header: Header,
    layout: Layout,
    shared: SharedLayout,
    persistent: Arc<Mapping>,
    volatile: Arc<Mapping>,
    mapping: MappingKind,
    options: Options,
    setup: Setup<C>,
    read_only: bool,
    /// The device, the shared log and its checkpoints, in the `Sync` domain.
    sync: Option<SyncPool>,
    /// The helper of the current scheme, if it has one.
    helper: Mutex<Option<Helper>>,
    pub(super) idle: Arc<IdleWorkers<C>>,
    /// Locked during a compaction. The value is whether one has been completed.
    compaction: Mutex<bool>,
    recovery: Recovery,
    observed: Arc<Observed>,
    closed: bool,
}

struct SyncPool {
    files: Arc<FileDevice>,
    /// The device of `files`, with checksums if the pool has them, and with a layer that keeps the first failure.
    device: Arc<dyn Device + Send + Sync>,
    log: SharedLog,
    /// `None` if the pool is open for reading only.
    checkpointer: Option<Checkpointer>,
    /// Started with the first ticket.
    flusher: Mutex<Option<Flusher>>,
}

impl<C: Control<Memory = Native>> Setup<C> {
    /// Like [`Pool::create`], with this setup.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::create`].
    pub fn create(self, path: impl AsRef<Path>, options: &Options) -> Result<Pool<C>> {
        self.create_with(path, options, |_| Ok(())).map(|(pool, ())| pool)
    }

    /// Like [`Setup::create`], but calls `init` to create the pool's first content before other processes can find the pool.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::create`] and `init`. No file is left then.
    pub fn create_with<T>(
        self,
        path: impl AsRef<Path>,
        options: &Options,
        init: impl FnOnce(&Pool<C>) -> Result<T>,
    ) -> Result<(Pool<C>, T)> {
        span!("create", pool = %path.as_ref().display());
        let new = NewPool::create(path.as_ref(), options)?;
        let pool = Pool::open_files(new.open(), options, self, Use::Creation)?;
        let made = init(&pool)?;
        pool.end_creation()?;
        new.publish()?;
        Ok((pool, made))
    }

    /// Creates a pool whose files have no names. They vanish when the pool is closed. `folder` is where they would be.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::create`] and `init`.
    pub fn create_unnamed<T>(
        self,
        folder: impl AsRef<Path>,
        options: &Options,
        init: impl FnOnce(&Pool<C>) -> Result<T>,
    ) -> Result<(Pool<C>, T)> {
        let new = NewPool::create_unnamed(folder.as_ref(), options)?;
        let pool = Pool::open_files(new.open(), options, self, Use::Creation)?;
        pool.persistent.expect_no_name();
        let made = init(&pool)?;
        pool.end_creation()?;
        Ok((pool, made))
    }

    /// Like [`Pool::open`], with this setup.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::open`].
    pub fn open(self, path: impl AsRef<Path>, options: &Options) -> Result<Pool<C>> {
        self.open_as(path.as_ref(), options, false)
    }

    /// Like [`Pool::open_read_only`], with this setup.
    ///
    /// # Errors
    /// Returns the errors of [`Pool::open`].
    pub fn open_read_only(self, path: impl AsRef<Path>, options: &Options) -> Result<Pool<C>> {
        self.open_as(path.as_ref(), options, true)
    }

    fn open_as(self, path: &Path, options: &Options, read_only: bool) -> Result<Pool<C>> {
        span!("open", pool = %path.display(), read_only);
        let usage = if read_only { Use::Reading } else { Use::Writing };
        let files = OpenFiles::open(path, options, self.schemes, read_only)?;
        let was_closed = read_word(&files.heap, Layout::STATE.offset())? == 0;
        let pool = Pool::open_files(files, options, self, usage)?;
        if !was_closed && !read_only {
            pool.release_held()?;
        }
        Ok(pool)
    }
}

impl Pool {
    /// Creates a pool in a new file at `path`, which grows with the heap, and opens it. The file gets its name when it is complete and durable, so
    /// that no process ever finds an incomplete pool. An existing file at `path` is not changed.
    ///
    /// # Errors
    /// Returns an error if the file exists; in the `Sync` domain, if a file with the log's name holds another pool's transactions or is not a log; if
    /// the disk is full; or if an option is impossible. No file is left then, unless the flush of the folder failed. In that case the whole pool may
    /// exist, or an unused log, which the next creation removes.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Setup::from(Stm).create(path, options)
    }

    /// Opens the pool at `path` for reading and writing, and recovers it.
    ///
    /// # Errors
    /// Returns a distinct error for a damaged, truncated, foreign, newer or locked pool, for another layout name, and for an impossible domain.
    /// Nothing has been changed then.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Setup::from(Stm).open(path, options)
    }

    /// Opens the pool at `path` for reading only, beside any number of other readers. The logs are replayed into this process's own copy, and the
    /// file is not changed.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (path, options) = path_and_options();
    /// Pool::create(&path, &options)?.close()?;
    /// let readers = [Pool::open_read_only(&path, &options)?, Pool::open_read_only(&path, &options)?];
    /// assert_eq!(readers[1].worker()?.view(|tx| tx.read(tx.root(0)))?, 0);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Pool::open`].
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Setup::from(Stm).open_read_only(path, options)
    }
}

impl<C: Control<Memory = Native>> Pool<C> {
    /// Ends the creation of a pool that has no name yet. All of its content is durable when this returns.
    ///
    /// # Errors
    /// Returns an error if the device failed.
    fn end_creation(&self) -> Result<()> {
        match &self.sync {
            Some(sync) => sync.log.end_creation(&self.native_view()?, random()?),
            None => self.synchronize(),
        }
    }

    /// Makes stores durable that reach the file through the page cache. With other mappings, each transaction is durable by itself.
    ///
    /// # Errors
    /// Returns an error if the device failed.
    fn synchronize(&self) -> Result<()> {
        match self.mapping {
            MappingKind::Shared => self.persistent.synchronize(),
            MappingKind::SharedSynchronous | MappingKind::Private => Ok(()),
        }
    }

    /// Returns the shared log of a pool in the `Sync` domain.
    pub(super) fn shared_log(&self) -> Option<SharedLog> {
        self.sync.as_ref().map(|sync| sync.log)
    }

    /// Returns how transactions are isolated.
    pub(super) fn concurrency(&self) -> Concurrency {
        self.setup.control.concurrency()
    }

    /// Returns whether the pool was opened for reading only.
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }

    pub(super) fn observed(&self) -> &Arc<Observed> {
        &self.observed
    }

    /// Returns the files of a pool in the `Sync` domain.
    pub(super) fn files(&self) -> Option<&FileDevice> {
        self.sync.as_ref().map(|sync| &*sync.files)
    }

    pub(super) fn slow_transaction(&self) -> Duration {
        self.options.slow_transaction
    }

    /// Prevents other compactions while the guard exists.
    pub(super) fn compacting(&self) -> MutexGuard<'_, bool> {
        self.compaction.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`Pool::compacting`], unless the running compaction waits for the calling thread.
    ///
    /// # Errors
    /// Returns [`Error::Deadlock`] in that case.
    fn compacting_unless_deadlocked(&self) -> Result<MutexGuard<'_, bool>> {
        let memory = self.native_view()?.memory;
        if !memory.is_nested() {
            return Ok(self.compacting());
        }
        let wait = Wait::of(&memory, Awaited::Rights);
        loop {
            match self.compaction.try_lock() {
                Ok(compacting) => return Ok(compacting),
                Err(TryLockError::Poisoned(poisoned)) => return Ok(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::sleep(Duration::from_millis(1)),
            }
            wait.poll()?;
        }
    }

    /// Returns an error in a forked child of the process that opened the pool.
    pub(super) fn check_process(&self) -> Result<()> {
        self.volatile.process().check()
    }

    /// Returns the guard for calls that wait for transactions of this pool.
    #[doc(hidden)]
    pub fn outside(&self) -> Outside {
        Outside::of(&self.volatile)
    }

    /// Checks that the thread is outside of transactions of this pool. All methods that may wait for transactions call this.
    ///
    /// # Errors
    /// Returns [`Error::Nested`] if it is inside one, and [`Error::Forked`] if this is a fork of the process that opened the pool.
    pub(super) fn check_outside(&self) -> Result<()> {
        self.outside().check()
    }

    pub(super) fn native_view(&self) -> Result<View<Native>> {
        // The own copy of a process that only reads needs no durability.
        let domain = if self.read_only { Domain::Process } else { self.options.domain };
        let device = self.sync.as_ref().map(|sync| sync.device.clone());
        let memory = Native::new(
            self.persistent.clone(),
            self.volatile.clone(),
            domain,
            self.options.instruction,
            device,
        )?;
        let view = View { memory, layout: self.layout, shared: self.shared }.looking();
        assert!(view.fits(), "mappings are as large as the layouts that they were made for");
        Ok(view)
    }

    /// Returns a worker, with which one thread can run transactions.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (path, options) = path_and_options();
    /// let pool = Pool::create(&path, &options)?;
    /// std::thread::scope(|threads| {
    ///     for root in 0..2 {
    ///         let mut worker = pool.worker()?;
    ///         threads.spawn(move || worker.run(|tx| tx.write(tx.root(root), root)));
    ///     }
    ///     strandline_core::Result::Ok(())
    /// })?;
    /// assert_eq!(pool.worker()?.view(|tx| tx.read(tx.root(1)))?, 1);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::NoFreeLog`] if there are as many workers as the pool has logs ([`Pool::wait_for_worker`] waits in that case),
    /// [`Error::Nested`] inside a transaction of this pool, and [`Error::Forked`].
    pub fn worker(&self) -> Result<Worker<C>> {
        self.lease(&BPPM, SchemeObject::lease).map_err(|error| error.in_pool(&self.path))
    }

    fn lease(&self, kind: SchemeKind, lease: impl Fn(&View<Native>, u64) -> C::Scheme) -> Result<Worker<C>> {
        self.check_outside()?;
        let shared_log = self.sync.as_ref().map(|sync| sync.log);
        let mut worker = loop {
            match Worker::lease_log(self.native_view()?, kind, self.setup, shared_log, &lease) {
                // An idle worker's log was given up, so try again.
                Err(Error::NoFreeLog { .. }) if self.idle.take().is_some() => {}
                leased => break leased?,
            }
        };
        self.observed.add_worker(worker.tally());
        if self.read_only {
            worker.make_read_only();
            return Ok(worker);
        }
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        if !kind.scheme.has_helper() {
            // No worker of the helper's scheme exists any more.
            if let Some(helper) = helper.take() {
                helper.stop(worker.memory());
            }
        } else if helper.is_none() {
            *helper = Some(Helper::start(kind, self.native_view()?, self.setup.control.concurrency())?);
        }
        Ok(worker)
    }

    /// Returns a snapshot: the pool as it is now, as long as the snapshot exists, whatever transactions do meanwhile. A snapshot leases no
    /// log.
    ///
    /// # Errors
    /// Returns [`Error::TooManySnapshots`], [`Error::Forked`], [`Error::Parameter`] if the pool was opened without memory for snapshots,
    /// [`Error::Unsupported`] if it is the laboratory's, [`Error::Poisoned`] if the device failed, and [`Error::Nested`] if it is called inside a
    /// transaction of the pool (a snapshot that exists may be read there).
    pub fn snapshot(&self) -> Result<Snapshot<C>> {
        self.check_outside()?;
        let shared_log = self.sync.as_ref().filter(|_| !self.read_only).map(|sync| sync.log);
        Snapshot::begin(self.native_view()?, self.setup.control, shared_log)
    }

    /// Returns the memory that the existing snapshots use. This may be called inside a transaction.
    ///
    /// # Errors
    /// Returns [`Error::Forked`] if this is a fork of the process that opened the pool.
    pub fn snapshot_usage(&self) -> Result<SnapshotUsage> {
        self.check_process()?;
        Ok(SnapshotUsage::of(&self.native_view()?))
    }

    /// Returns a view for a runner that does not make its stores durable. The pool is marked, and refused when it is next opened unless it
    /// is closed cleanly.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the pool is open for reading only, or in the `Sync` domain, where only a scheme knows what has
    /// changed.
    pub fn unprotected_view(&self) -> Result<View<Native>> {
        if self.read_only || self.options.domain == Domain::Sync {
            return Err(Error::Unsupported("the volatile pseudo-scheme".into()));
        }
        let view = self.native_view()?;
        scheme::mark_unprotected(&view);
        Ok(view)
    }

    /// Returns a ticket for the transaction with number `transaction`, as [`Worker::run_later`] returned it. In domains other than `Sync` a
    /// transaction is durable when it has committed.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (path, options) = path_and_options();
    /// let pool = Pool::create(&path, &options)?;
    /// let mut worker = pool.worker()?;
    /// let (_, transaction) = worker.run_later(|tx| tx.write(tx.root(0), 5))?;
    /// // In the `Sync` domain, a crash here could lose the transaction.
    /// pool.ticket(transaction)?.wait()?;
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// If the system has no thread left for flushing, the transaction is durable when this returns.
    ///
    /// # Errors
    /// Returns [`Error::Nested`] inside a transaction of the pool, [`Error::Poisoned`] if the device failed, and [`Error::Forked`].
    pub fn ticket(&self, transaction: u64) -> Result<Ticket> {
        self.check_outside()?;
        let Some(sync) = self.sync.as_ref().filter(|_| transaction > 0) else { return Ok(Ticket::durable()) };
        let mut flusher = sync.flusher.lock().unwrap_or_else(PoisonError::into_inner);
        if flusher.is_none() {
            let (view, interval) = (self.native_view()?, self.options.flush_interval);
            *flusher = Flusher::start(view, self.outside(), sync.log, interval);
        }
        match &*flusher {
            Some(flusher) => Ok(flusher.ticket(transaction)),
            // There is no thread that would flush the transaction later.
            None => sync.log.wait_durable(&self.native_view()?, transaction).map(|()| Ticket::durable()),
        }
    }

    /// Returns a report of what opening the pool had to do.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// Returns the path of the pool's file, with all symbolic links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the pool's header, which was written when the pool was created.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Returns the layout of the pool.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Waits until every committed transaction is durable and in the heap file, and frees the log. Other transactions run meanwhile. A
    /// thread does this in the background, so a program calls it only to measure, or before it copies the file by other means. In domains
    /// other than `Sync` this does nothing.
    ///
    /// # Errors
    /// Returns [`Error::Poisoned`] if the device failed, [`Error::Nested`] inside a transaction of the pool, and [`Error::Forked`].
    pub fn checkpoint(&self) -> Result<()> {
        self.check_outside()?;
        match &self.sync {
            Some(sync) if !self.read_only => {
                let view = self.native_view()?;
                let take = || sync.log.checkpoint(&view).map(drop);
                self.observed.checkpoint(&self.path, take).map_err(|error| error.in_pool(&self.path))
            }
            _ => Ok(()),
        }
    }

    /// Copies the pool to a new file at `to` while transactions run. The copy is an independent pool, cleanly closed.
    ///
    /// In the `Sync` domain the copy has every transaction that was durable when the heap had been copied. Checkpoints wait meanwhile, so
    /// commits also have to wait if the log is full. In the other domains, transactions that begin wait until the memory is copied (in
    /// single-writer mode only writing ones), and the copy has every transaction that had committed.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// worker.run(|tx| tx.write(tx.root(0), 7))?;
    /// let copy = path();
    /// pool.backup(&copy)?;
    /// let restored = Pool::open(&copy, &Options { domain: Domain::Process, ..Options::default() })?;
    /// assert_eq!(restored.worker()?.view(|tx| tx.read(tx.root(0)))?, 7);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the pool is open for reading only (copy its file), or if one of the laboratory's schemes uses it outside the
    /// `Sync` domain, [`Error::Nested`] inside a transaction of the pool, [`Error::Forked`], and an error if something exists at `to` or if input or
    /// output fails. No file is left then.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        self.check_outside()?;
        if self.read_only {
            return Err(Error::Unsupported("a backup of a pool that is open for reading".into()));
        }
        let kind = match &self.sync {
            Some(sync) => backup::Kind::Sync(&sync.files, sync.log),
            None => backup::Kind::Mapped(self.setup.control.concurrency()),
        };
        span!("backup", pool = %self.path.display(), to = %to.as_ref().display());
        let view = self.native_view()?;
        // If the heap were copied while a compaction holds chunks, they would stay held in the copy.
        let _no_compaction = self.compacting_unless_deadlocked()?;
        let source = Source { view, header: &self.header, path: &self.path, file: &self.file, kind };
        backup::backup(&source, to.as_ref())
    }

    /// Returns how full the heap is at one moment. It reads at a snapshot or, if none can be registered, in a transaction. For a pool of
    /// the laboratory the result is exact only while no transaction runs.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if the heap's tables contradict themselves, [`Error::Nested`] inside a transaction of the pool,
    /// [`Error::NoFreeLog`] if there is neither a snapshot nor a worker left, and [`Error::Forked`].
    pub fn usage(&self) -> Result<HeapUsage> {
        self.check_outside()?;
        // Transactions that are not durable yet count as well, so there is no need to wait for them.
        let at_snapshot = Snapshot::begin(self.native_view()?, self.setup.control, None)
            .and_then(|mut snapshot| snapshot.read(|tx| tx.usage()));
        match at_snapshot {
            // No snapshot could be registered, or it ended before everything was read.
            Err(Error::TooManySnapshots { .. } | Error::Parameter(_) | Error::SnapshotEnded { .. }) => {
                let mut worker = self.idle.take().map_or_else(|| self.worker().map(Box::new), Ok)?;
                let usage = worker.view(|tx| tx.usage());
                self.return_worker(worker);
                usage
            }
            Err(Error::Unsupported(_)) => heap::usage(&self.native_view()?),
            done => done,
        }
    }

    /// Makes everything durable and marks the pool as cleanly closed.
    ///
    /// # Errors
    /// Returns an error if a worker still exists or the device failed; the pool is then recovered when it is next opened. Returns
    /// [`Error::Nested`] if a worker of this pool runs a transaction on this thread; the pool is then dropped without being closed. Returns
    /// [`Error::Forked`] in a forked child; the parent's pool is not affected.
    pub fn close(mut self) -> Result<()> {
        self.close_once().map_err(|error| error.in_pool(&self.path))
    }
}

/// A pool under a scheme of the laboratory.
impl Pool<Concurrency> {
    /// Returns a worker under another scheme. The pool changes to that scheme, which also recovers it.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the scheme does not run in the `Sync` domain, or if workers under another scheme exist, and the
    /// errors of [`Pool::worker`].
    pub fn worker_of(&self, kind: SchemeKind) -> Result<Worker<Concurrency>> {
        if self.options.domain == Domain::Sync && !kind.in_sync {
            return Err(Error::Unsupported(format!(
                "scheme {} in the Sync domain, which has only bppm",
                kind.name(self.setup.control)
            )));
        }
        if !kind.is_native {
            return Err(Error::Parameter(format!(
                "{} needs what no processor has, persist barriers or a hardware scheme: it exists for the recorder, \
                 the crash checker and the simulator",
                kind.modes[0].name
            )));
        }
        self.lease(kind, |view, index| SchemeMemory::lease(kind, view, index))
    }
}
