//! A pool in a file: creating, opening, recovering and closing it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::{FallocateFlags, FlockOperation};

use super::backup::{self, BackupReport, Source};
use super::header::Header;
use super::heap::{self, HeapUsage};
use super::helper::Helper;
use super::layout::{Geometry, Layout, PAGE_BYTES, PoolState, SharedLayout, View};
use super::leases::IdleWorkers;
use crate::Domain;
use crate::error::{Error, Result};
use crate::memory::{Mapping, MappingKind, Memory, Native, Step, WriteBackInstruction};
use crate::scheme::{self, Blurred, RecoveryReport, RecoveryStep, Scheme, SchemeKind, VolatileWorker};
use crate::sync::{Device, DeviceCounters, FileDevice, SharedLog, SyncParameters, SyncRecoveryReport};
use crate::transaction::{Concurrency, Worker};

use super::ticket::{Flusher, Ticket};

use super::sync_files::{Checkpointer, create_log, log_path, open_device, synchronize_folder, write_state};

/// How a pool is created or opened.
///
/// ```
/// use strandline::pool::Geometry;
/// use strandline::{Concurrency, Domain, Options};
///
/// let options = Options {
///     geometry: Geometry { size: 1 << 30, ..Geometry::default() },
///     layout_name: "orders".into(),
///     domain: Domain::Sync,
///     concurrency: Concurrency::SingleWriter,
///     // Take disk space as the heap grows.
///     initial_size: Some(0),
///     ..Options::default()
/// };
/// # let _ = options;
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Sizes; for creating only, an existing pool has its own.
    pub geometry: Geometry,
    /// Names what the program keeps in the pool; a pool of another name is refused.
    pub layout_name: String,
    /// Where the line between what survives and what does not runs.
    pub domain: Domain,
    /// How transactions are isolated.
    pub concurrency: Concurrency,
    /// The instruction that writes lines back; `None` for the best there is.
    pub instruction: Option<WriteBackInstruction>,
    /// Opens a file that is not on persistent memory under `Flush` or `FlushOnFail` all the same: for tests
    /// and benchmarks, where nothing has to survive a power failure.
    pub assume_persistent: bool,
    /// Protects the mapped pool against stray writes: a store to it by anything but the library, a wild pointer of the
    /// program's or of a C library's, is a segmentation fault instead of silent damage. Off by default: it costs two
    /// writes of a processor register for each of the library's stores (`docs/guide.md` has a figure), and needs a
    /// memory protection key ([`Error::NoProtectionKey`]): x86-64 with `ospke` in `/proc/cpuinfo`.
    pub protect: bool,
    /// The STM has 2 to this power stripe locks, 8 bytes each.
    pub lock_bits: u32,
    /// `Sync`: the log's size, for making it only, and when checkpoints run.
    pub sync: SyncParameters,
    /// Bytes of disk space (or of persistent memory) to take when the pool is created; the rest, up to the geometry's size, is taken as
    /// the heap grows, and where the disk is full then, the allocation is an error like any other. `None`: all of it at
    /// once. Address space is reserved for the whole size in any case.
    pub initial_size: Option<u64>,
    /// `Sync`: how long a transaction that is to be durable later ([`Pool::ticket`]) may stay in memory before it is
    /// flushed, if nobody flushes before. What a power failure can take is what was committed in this time and in one
    /// flush; a killed process loses as much.
    pub flush_interval: Duration,
}

impl Default for Options {
    /// The `Sync` domain with STM, the default geometry and no layout name.
    fn default() -> Self {
        Self {
            geometry: Geometry::default(),
            layout_name: String::new(),
            domain: Domain::Sync,
            concurrency: Concurrency::Stm,
            instruction: None,
            assume_persistent: false,
            protect: false,
            lock_bits: 20,
            sync: SyncParameters::default(),
            initial_size: None,
            flush_interval: Duration::from_millis(10),
        }
    }
}

/// What opening a pool had to do, and how long each step took.
///
/// ```
/// # use strandline::pool::Geometry;
/// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// # let geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 1 << 15, chunk_bytes: 1 << 12 };
/// # let options = Options { geometry, domain: Domain::Process, lock_bits: 10, ..Options::default() };
/// # let pool = Pool::create(&path, &options)?;
/// let mut worker = pool.worker()?;
/// worker.run(|tx| tx.write(tx.root(0), 5))?;
/// // The pool is not closed: it is dropped while a worker exists.
/// drop(pool);
/// drop(worker);
///
/// let pool = Pool::open(&path, &options)?;
/// assert_eq!(pool.recovery().replayed(), 1);
/// println!("{:?} to read the logs, {:?} to replay them", pool.recovery().scan, pool.recovery().replay);
/// # Ok::<(), strandline::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Recovery {
    /// What was found and done.
    pub report: RecoveryReport,
    /// What was found and done in the `Sync` domain, whose time is in `replay`.
    pub sync: Option<SyncRecoveryReport>,
    /// Reading the logs.
    pub scan: Duration,
    /// Sorting the committed transactions.
    pub sort: Duration,
    /// Storing them home and making that durable.
    pub replay: Duration,
    /// Raising the watermark and zeroing the logs.
    pub truncate: Duration,
}

impl Recovery {
    /// Transactions that were replayed.
    pub fn replayed(&self) -> u64 {
        self.sync.map_or(self.report.replayed, |sync| sync.replayed)
    }

    /// Log records that were read.
    pub fn records(&self) -> u64 {
        self.sync.map_or(self.report.records, |sync| sync.records)
    }
}

/// An open pool. It is closed when dropped; [`Pool::close`] reports errors. A pool dropped while a worker
/// exists stays locked until the worker is gone, and is recovered when it is next opened.
///
/// A process that is forked from the one that opened the pool cannot use it: everything is [`Error::Forked`] there, and
/// dropping this changes nothing. But it holds the pool's lock too, as long as it lives or until it executes another program.
///
/// ```
/// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("pool");
/// # let options = Options { domain: Domain::Process, ..Options::default() };
/// let pool = Pool::create(&path, &options)?;
/// pool.worker()?.run(|tx| tx.write(tx.root(0), 5))?;
/// pool.close()?;
///
/// let pool = Pool::open(&path, &options)?;
/// assert_eq!(pool.recovery().replayed(), 0, "it was closed");
/// assert_eq!(pool.worker()?.view(|tx| tx.read(tx.root(0)))?, 5);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Pool {
    header: Header,
    layout: Layout,
    shared: SharedLayout,
    persistent: Arc<Mapping>,
    volatile: Arc<Mapping>,
    mapping: MappingKind,
    options: Options,
    read_only: bool,
    /// The device, the shared log and its checkpoints, in the `Sync` domain.
    sync: Option<SyncPool>,
    /// The helper of the scheme that runs, where it has one.
    helper: Mutex<Option<Helper>>,
    pub(super) idle: IdleWorkers,
    recovery: Recovery,
    closed: bool,
}

struct SyncPool {
    device: Arc<FileDevice>,
    log: SharedLog,
    /// None in a pool that is only read.
    checkpointer: Option<Checkpointer>,
    /// Started with the first ticket.
    flusher: Mutex<Option<Flusher>>,
}

impl Pool {
    /// Creates a pool in a new file at `path`, allocates all of its space, and opens it.
    ///
    /// # Errors
    /// The file exists (in the `Sync` domain its log file too), the disk is full, or an option is impossible.
    /// No file is left then.
    pub fn create(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        let path = path.as_ref();
        if options.domain == Domain::Sync && !path.exists() && log_path(path).exists() {
            return Err(Error::LogFile {
                path: log_path(path).display().to_string(),
                problem: "exists already; move it away, or create the pool elsewhere".into(),
            });
        }
        let header = Header::new(&options.layout_name, options.geometry)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(|e| Error::io(format!("create the pool {}", path.display()), e))?;
        let made = fill_new_file(&file, path, &header, options.initial_size);
        drop(file);
        let opened = made.and_then(|()| Self::open(path, options));
        if opened.is_err() {
            // Nobody has seen the pool yet.
            let _ = std::fs::remove_file(path);
            if options.domain == Domain::Sync {
                let _ = std::fs::remove_file(log_path(path));
            }
        }
        opened
    }

    /// Opens the pool at `path` for reading and writing, and recovers it.
    ///
    /// # Errors
    /// A distinct one for a damaged, truncated, foreign, newer or locked pool, another layout name, and a
    /// domain that cannot be; nothing has been changed then.
    pub fn open(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Self::open_as(path.as_ref(), options, false)
    }

    /// Opens the pool at `path` for reading only, beside any number of other readers. What the logs hold is
    /// replayed into this process's own copy; the file is not changed.
    ///
    /// ```
    /// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("pool");
    /// # let options = Options { domain: Domain::Process, ..Options::default() };
    /// Pool::create(&path, &options)?.close()?;
    /// let readers = [Pool::open_read_only(&path, &options)?, Pool::open_read_only(&path, &options)?];
    /// assert_eq!(readers[1].worker()?.view(|tx| tx.read(tx.root(0)))?, 0);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Pool::open`].
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Self::open_as(path.as_ref(), options, true)
    }

    fn open_as(path: &Path, options: &Options, read_only: bool) -> Result<Self> {
        let (file, header) = open_file(path, read_only)?;
        if header.layout_name != options.layout_name {
            return Err(Error::WrongLayout {
                expected: options.layout_name.clone(),
                found: header.layout_name,
            });
        }
        let state = read_word(&file, Layout::STATE.offset())?;
        check_state(state, options.domain)?;
        let layout = Layout::new(header.geometry)?;
        let uuid = *header.uuid.as_bytes();
        let mut parameters = options.sync;
        let mut device = None;
        if options.domain == Domain::Sync {
            // All of a cleanly closed pool is in the one file; another domain has closed it, or it is new.
            if state == 0 && !log_path(path).exists() && !read_only {
                let watermark = read_word(&file, Layout::WATERMARK.offset())?;
                create_log(&file, path, &uuid, parameters, watermark)?;
            }
            if state != 0 || log_path(path).exists() {
                let (opened, ring_blocks) = open_device(&file, path, &uuid, read_only)?;
                parameters.ring_blocks = ring_blocks;
                device = Some(Arc::new(opened));
            }
        }
        let sync_bytes = if device.is_some() { SharedLog::volatile_bytes(&layout, parameters) } else { 0 };
        let shared = SharedLayout::new(&layout, options.lock_bits, sync_bytes);
        let sync = device.map(|device| SyncPool {
            device,
            log: SharedLog::new(&layout, &shared, parameters, &uuid),
            checkpointer: None,
            flusher: Mutex::default(),
        });
        let mapping = match options.domain {
            _ if read_only => MappingKind::Private,
            Domain::Flush | Domain::FlushOnFail if !options.assume_persistent => {
                MappingKind::SharedSynchronous
            }
            Domain::Sync => MappingKind::Private,
            _ => MappingKind::Shared,
        };
        let mut persistent = Mapping::file(&file, header.geometry.size, mapping)?;
        if options.protect {
            persistent = persistent.protect()?;
        }
        let mut pool = Self {
            persistent: Arc::new(persistent),
            volatile: Arc::new(Mapping::anonymous(shared.bytes())?),
            header,
            layout,
            shared,
            mapping,
            options: options.clone(),
            read_only,
            sync,
            helper: Mutex::new(None),
            idle: IdleWorkers::default(),
            recovery: Recovery::default(),
            // Until recovery has succeeded there is nothing to close.
            closed: true,
        };
        pool.recover()?;
        Ok(pool)
    }

    /// Recovers the pool, and marks it as in use if it is to be written.
    fn recover(&mut self) -> Result<()> {
        let view = self.native_view()?;
        if let Some(sync) = &mut self.sync {
            let since = Instant::now();
            let report =
                if self.read_only { sync.log.recover_read_only(&view) } else { sync.log.recover(&view) }?;
            self.recovery = Recovery { sync: Some(report), replay: since.elapsed(), ..Recovery::default() };
            if !self.read_only {
                write_state(&*sync.device, self.options.domain.code(), None)?;
                sync.checkpointer = Some(Checkpointer::start(view, sync.log)?);
                self.closed = false;
            }
            return Ok(());
        }
        let mut times = [Duration::ZERO; 4];
        let mut running: Option<(RecoveryStep, Instant)> = None;
        let mut tick = |next: Option<RecoveryStep>| {
            if let Some((step, since)) = running.take() {
                times[step as usize] = since.elapsed();
            }
            running = next.map(|step| (step, Instant::now()));
        };
        let state = PoolState::decode(view.memory.load(Layout::STATE));
        let report = if state == PoolState::default() {
            // Everything is home, and the logs may be any scheme's.
            tick(Some(RecoveryStep::Truncate));
            scheme::forget_logs(&view)?
        } else {
            scheme::recover(&view, |step| tick(Some(step)))?
        };
        tick(None);
        let [scan, sort, replay, truncate] = times;
        self.recovery = Recovery { report, sync: None, scan, sort, replay, truncate };
        if !self.read_only {
            let state = PoolState { domain: self.options.domain.code(), ..state };
            view.memory.store(Layout::STATE, state.encode());
            view.memory.write_back(Layout::STATE, Step::MarkState);
            view.memory.fence(Step::MarkState);
            self.closed = false;
        }
        Ok(())
    }

    /// Fails in a forked child of the process that opened the pool.
    pub(super) fn check_process(&self) -> Result<()> {
        self.volatile.process().check()
    }

    pub(super) fn native_view(&self) -> Result<View<Native>> {
        // A reader's own copy needs no durability.
        let domain = if self.read_only { Domain::Process } else { self.options.domain };
        let device = self.sync.as_ref().map(|sync| sync.device.clone() as Arc<dyn Device + Send + Sync>);
        let memory = Native::new(
            self.persistent.clone(),
            self.volatile.clone(),
            domain,
            self.options.instruction,
            device,
        )?;
        let view = View { memory, layout: self.layout, shared: self.shared };
        assert!(view.fits(), "mappings are as large as the layouts that they were made for");
        Ok(view)
    }

    /// A worker, for one thread, to run transactions with.
    ///
    /// ```
    /// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("pool");
    /// # let options = Options { domain: Domain::Process, ..Options::default() };
    /// let pool = Pool::create(&path, &options)?;
    /// std::thread::scope(|threads| {
    ///     for root in 0..4 {
    ///         let mut worker = pool.worker()?;
    ///         threads.spawn(move || worker.run(|tx| tx.write(tx.root(root), root)));
    ///     }
    ///     strandline::Result::Ok(())
    /// })?;
    /// assert_eq!(pool.worker()?.view(|tx| tx.read(tx.root(3)))?, 3);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoFreeLog`]: there are as many workers as the pool has logs; [`Pool::wait_for_worker`] waits then.
    /// [`Error::Forked`].
    pub fn worker(&self) -> Result<Worker<Native, Blurred>> {
        self.worker_with()
    }

    /// A worker under another scheme, for the laboratory. The pool goes over to that scheme, and is recovered by it.
    ///
    /// # Errors
    /// As [`Pool::worker`]; [`Error::Unsupported`]: the `Sync` domain carries BPPM alone, or workers under another
    /// scheme exist.
    pub fn worker_with<S: Scheme>(&self) -> Result<Worker<Native, S>> {
        if self.options.domain == Domain::Sync && !S::KIND.in_sync() {
            return Err(Error::Unsupported(format!(
                "scheme {} instead of bppm",
                S::KIND.name(self.options.concurrency)
            )));
        }
        if !S::KIND.is_native() {
            return Err(Error::Parameter(format!(
                "no processor has the persist barriers of {}: it exists for the recorder, the crash checker and \
                 the simulator; on real memory use sct-eager-sync or dct-eager-sync",
                S::KIND.name(S::KIND.modes()[0])
            )));
        }
        let shared_log = self.sync.as_ref().map(|sync| sync.log);
        let mut worker = loop {
            match Worker::lease(self.native_view()?, self.options.concurrency, shared_log) {
                // An idle worker gives its log up.
                Err(Error::NoFreeLog(_)) if self.idle.take().is_some() => {}
                leased => break leased?,
            }
        };
        if self.read_only {
            worker.make_read_only();
            return Ok(worker);
        }
        let mut helper = self.helper.lock().unwrap_or_else(PoisonError::into_inner);
        if !S::HELPER {
            // No worker of the scheme that it helped exists any more.
            if let Some(helper) = helper.take() {
                helper.stop(worker.memory());
            }
        } else if helper.is_none() {
            *helper = Some(Helper::start::<S>(self.native_view()?, self.options.concurrency)?);
        }
        Ok(worker)
    }

    /// Plain loads and stores under one lock, allocating from arena `index`: the reference that schemes are
    /// measured against. Nothing that it does is made durable, or isolated from other workers.
    ///
    /// # Errors
    /// The pool is read-only, or its domain needs every change to go through a log.
    pub fn volatile_worker(&self, index: u64) -> Result<VolatileWorker<Native>> {
        if self.read_only || self.options.domain == Domain::Sync {
            return Err(Error::Unsupported("the volatile pseudo-scheme".into()));
        }
        let view = self.native_view()?;
        scheme::mark_unprotected(&view);
        Ok(VolatileWorker::new(view, index))
    }

    /// A ticket for the transaction with number `transaction`, as [`Worker::run_later`] returned it. In domains
    /// other than `Sync` a transaction is durable when it has committed.
    ///
    /// ```
    /// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("pool");
    /// # let options = Options { domain: Domain::Process, ..Options::default() };
    /// let pool = Pool::create(&path, &options)?;
    /// let mut worker = pool.worker()?;
    /// let (_, transaction) = worker.run_later(|tx| tx.write(tx.root(0), 5))?;
    /// // Here it could be lost in the `Sync` domain.
    /// pool.ticket(transaction)?.wait()?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// The system has no thread left for flushing. [`Error::Forked`].
    pub fn ticket(&self, transaction: u64) -> Result<Ticket> {
        self.check_process()?;
        let Some(sync) = self.sync.as_ref().filter(|_| transaction > 0) else { return Ok(Ticket::durable()) };
        let mut flusher = sync.flusher.lock().unwrap_or_else(PoisonError::into_inner);
        let flusher = match &mut *flusher {
            Some(flusher) => flusher,
            none => none.insert(Flusher::start(self.native_view()?, sync.log, self.options.flush_interval)?),
        };
        Ok(flusher.ticket(transaction))
    }

    fn stop_flusher(&self, everything_is_durable: bool) {
        if let Some(sync) = &self.sync
            && let Some(flusher) = sync.flusher.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            flusher.stop(everything_is_durable);
        }
    }

    /// What opening the pool had to do.
    pub fn recovery(&self) -> &Recovery {
        &self.recovery
    }

    /// The pool's header.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where everything lies in the pool.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// What the device of a `Sync` pool has been asked to do since it was opened; `None` in other domains.
    pub fn device_counters(&self) -> Option<DeviceCounters> {
        self.sync.as_ref().map(|sync| sync.device.counters())
    }

    /// Waits until every committed transaction is durable and in the heap file, and frees the log. Transactions go on
    /// meanwhile. A thread does this in the background; it is for measuring, and before a copy of the file is made by
    /// other means. In domains other than `Sync` it does nothing.
    ///
    /// # Errors
    /// [`Error::Poisoned`]: the device failed. [`Error::Forked`].
    pub fn checkpoint(&self) -> Result<()> {
        self.check_process()?;
        match &self.sync {
            Some(sync) if !self.read_only => sync.log.checkpoint(&self.native_view()?).map(drop),
            _ => Ok(()),
        }
    }

    /// Copies the pool to a new file at `to` while transactions run: a pool of its own, cleanly closed.
    ///
    /// In the `Sync` domain it has every transaction that was durable when the copy of the heap ended. Checkpoints wait
    /// meanwhile, so that commits may have to wait too when the log is full. In the other domains transactions that begin wait
    /// until the memory is copied, in single-writer mode updates alone; the copy has every transaction that had committed.
    ///
    /// ```
    /// # use strandline::{Options, Result};
    /// # use strandline::typed::Store;
    /// # fn main() -> Result<()> {
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let (path, copy) = (folder.path().join("pool"), folder.path().join("copy"));
    /// let store = Store::<u64>::create(&path, &Options::default(), |_| Ok(7u64))?;
    /// store.pool().backup(&copy)?;
    /// let restored = Store::<u64>::open(&copy, &Options::default())?;
    /// assert_eq!(restored.view(|tx, root| root.get(tx))?, 7);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`]: the pool is open for reading (copy its file), or outside the `Sync` domain in the hands of one
    /// of the laboratory's schemes; there is something at `to`; input or output fails. No file is left then.
    /// [`Error::Nested`]: it is called in a transaction's closure, for whose end it might have to wait. [`Error::Forked`].
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupReport> {
        if self.read_only {
            return Err(Error::Unsupported("a backup of a pool that is open for reading".into()));
        }
        let kind = match &self.sync {
            Some(sync) => backup::Kind::Sync(&sync.device, sync.log),
            None => backup::Kind::Mapped(self.options.concurrency),
        };
        let view = self.native_view()?;
        view.memory.check_outside()?;
        backup::backup(&Source { view, layout_name: self.header.layout_name.clone(), kind }, to.as_ref())
    }

    /// How full the heap is. Exact while no transaction runs.
    ///
    /// ```
    /// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("pool");
    /// # let options = Options { domain: Domain::Process, ..Options::default() };
    /// let pool = Pool::create(&path, &options)?;
    /// let empty = pool.usage()?;
    /// pool.worker()?.run(|tx| tx.alloc(100))?;
    /// let used = pool.usage()?;
    /// assert_eq!((empty.objects, used.objects), (0, 1));
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// The heap is damaged.
    pub fn usage(&self) -> Result<HeapUsage> {
        heap::usage(&self.native_view()?)
    }

    /// Makes everything durable and marks the pool as cleanly closed.
    ///
    /// ```
    /// # use strandline::{Domain, Options, Pool, Read, Runner, Transaction};
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let path = folder.path().join("pool");
    /// # let options = Options { domain: Domain::Process, ..Options::default() };
    /// let pool = Pool::create(&path, &options)?;
    /// let worker = pool.worker()?;
    /// drop(worker); // Workers first.
    /// pool.close()?;
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// A worker still exists, or the device failed; the pool is recovered when it is next opened. [`Error::Forked`]: the
    /// parent's pool stays as it is.
    pub fn close(mut self) -> Result<()> {
        self.close_once()
    }

    fn stop_helper<M: Memory>(&self, memory: &M) {
        if let Some(helper) = self.helper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            helper.stop(memory);
        }
    }

    fn close_once(&mut self) -> Result<()> {
        self.check_process()?;
        self.idle.clear();
        if std::mem::replace(&mut self.closed, true) {
            return Ok(());
        }
        let view = self.native_view()?;
        let memory = &view.memory;
        if self.shared.slots().any(|slot| memory.load(slot.leased()) != 0) {
            self.closed = false;
            return Err(Error::Parameter("the pool cannot be closed while a worker exists".into()));
        }
        self.stop_helper(memory);
        if let Some(sync) = &mut self.sync {
            if let Some(mut checkpointer) = sync.checkpointer.take() {
                checkpointer.stop(memory, &sync.log);
            }
            let report = sync.log.checkpoint(&view);
            self.stop_flusher(report.is_ok());
            let report = report?;
            let device = self.sync.as_ref().map(|sync| sync.device.clone());
            return device.map_or(Ok(()), |device| write_state(&*device, 0, Some(report.watermark)));
        }
        scheme::drain(&view, scheme::current(&view)?);
        // Under any domain but MAP_SYNC's, what a clean pool promises has to be in the file itself.
        let unprotected = PoolState::decode(memory.load(Layout::STATE)).unprotected;
        let synchronize = || match self.mapping {
            MappingKind::Shared => self.persistent.synchronize(),
            MappingKind::SharedSynchronous if unprotected => {
                // Nobody knows what was stored.
                let bytes = self.layout.end().offset() - self.layout.data.offset();
                memory.write_back_range(self.layout.data, bytes, Step::MarkState);
                memory.fence(Step::MarkState);
                Ok(())
            }
            MappingKind::SharedSynchronous | MappingKind::Private => Ok(()),
        };
        synchronize()?;
        memory.store(Layout::STATE, 0);
        memory.write_back(Layout::STATE, Step::MarkState);
        memory.fence(Step::MarkState);
        synchronize()
    }
}

impl Pool {
    /// In a forked child: the pool's threads are not there, and what they share with it may be locked for ever.
    fn forget_threads(&mut self) {
        std::mem::forget(self.helper.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(sync) = &mut self.sync {
            std::mem::forget(sync.checkpointer.take());
            std::mem::forget(sync.flusher.get_mut().unwrap_or_else(PoisonError::into_inner).take());
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.check_process().is_err() {
            return self.forget_threads();
        }
        // Whatever fails here, the pool stays marked as in use and is recovered when it is next opened.
        let _ = self.close_once();
        let Ok(view) = self.native_view() else { return };
        self.stop_helper(&view.memory);
        self.stop_flusher(false);
        if let Some(SyncPool { log, checkpointer: Some(checkpointer), .. }) = &mut self.sync {
            checkpointer.stop(&view.memory, log);
            log.abandon(&view.memory);
        }
    }
}

/// Opens and locks the file, and reads its header.
fn open_file(path: &Path, read_only: bool) -> Result<(File, Header)> {
    let file = OpenOptions::new()
        .read(true)
        .write(!read_only)
        .open(path)
        .map_err(|e| Error::io(format!("open the pool {}", path.display()), e))?;
    let header = read_header(&file)?;
    let wanted = if read_only {
        FlockOperation::NonBlockingLockShared
    } else {
        FlockOperation::NonBlockingLockExclusive
    };
    if rustix::fs::flock(&file, wanted).is_err() {
        let readers = rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).is_ok();
        return Err(Error::Locked { held: if readers { "reading" } else { "writing" } });
    }
    // A repair puts a new file in the place of the one that it holds locked.
    let is_at_path = || -> std::io::Result<bool> {
        let (locked, found) = (file.metadata()?, std::fs::metadata(path)?);
        Ok((locked.dev(), locked.ino()) == (found.dev(), found.ino()))
    };
    if !is_at_path().map_err(|e| Error::io(format!("open the pool {}", path.display()), e))? {
        return Err(Error::Locked { held: "repair" });
    }
    Ok((file, header))
}

pub(super) fn read_header(file: &File) -> Result<Header> {
    let length = file.metadata().map_err(|e| Error::io("read the pool's size", e))?.len();
    let mut page = vec![0; PAGE_BYTES.min(length) as usize];
    file.read_exact_at(&mut page, 0).map_err(|e| Error::io("read the pool's header", e))?;
    Header::decode(&page, length)
}

pub(super) fn read_word(file: &File, offset: u64) -> Result<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, offset).map_err(|e| Error::io("read the pool", e))?;
    Ok(u64::from_le_bytes(bytes))
}

/// The domain and the scheme of a pool in use.
pub(super) fn decode_state(word: u64) -> Result<(Domain, SchemeKind)> {
    let state = PoolState::decode(word);
    match Domain::of_code(state.domain) {
        Some(domain) if state.unknown == 0 => Ok((domain, SchemeKind::of_code(state.scheme)?)),
        _ => Err(Error::Damaged(format!("its state word is {word:#x}"))),
    }
}

/// A cleanly closed pool opens under any domain, otherwise only under the one that wrote it.
fn check_state(word: u64, domain: Domain) -> Result<()> {
    if word == 0 {
        return Ok(());
    }
    let (wrote, _) = decode_state(word)?;
    if PoolState::decode(word).unprotected {
        return Err(Error::Unprotected);
    }
    if wrote.code() != domain.code() {
        return Err(Error::WrongDomain { wrote: wrote.name().into(), asked: domain.name().into() });
    }
    Ok(())
}

/// Allocates the file's space, all of it or the first `initial_size` bytes, and writes its header last: a file without
/// it is not a pool.
fn fill_new_file(file: &File, path: &Path, header: &Header, initial_size: Option<u64>) -> Result<()> {
    let size = header.geometry.size;
    // What lies before the chunks is used from the beginning.
    let initial = initial_size.unwrap_or(size).max(Layout::new(header.geometry)?.chunks.offset()).min(size);
    file.set_len(size).map_err(|e| Error::io(format!("reserve {size} bytes for the pool"), e))?;
    rustix::fs::fallocate(file, FallocateFlags::empty(), 0, initial)
        .map_err(|e| Error::io(format!("allocate {initial} bytes for the pool"), e.into()))?;
    let write = || {
        file.sync_all()?;
        file.write_all_at(&header.encode(), 0)?;
        file.sync_all()?;
        synchronize_folder(path)
    };
    write().map_err(|e| Error::io("write the pool's header", e))
}
