//! Maps and recovers the files of a pool, so that it can be used.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Pool, SyncPool, Use};
use crate::Domain;
use crate::engine::{Control, Setup, holds_rights};
use crate::error::{Error, Result};
use crate::file::address_space::AddressSpace;
use crate::file::checkpointer::{Checkpointer, write_state};
use crate::file::create::random;
use crate::file::leases::IdleWorkers;
use crate::file::open::{OpenFiles, OpenLog};
use crate::file::options::Options;
use crate::file::recovery::{Recovery, check_length, no_space_for_holes, take_space, take_space_in_use};
use crate::layout::{Header, Layout, PoolState, SharedLayout, View};
use crate::memory::{
    Device, DeviceFile, Guarded, MappingKind, Memory, Native, Poison, SharedFile, Step, deadlock, fill_holes,
    system,
};
use crate::scheme::{self, RecoveryStep};
use crate::sync::{Checksummed, FileDevice, LogIdentity, SharedLog, SyncParameters};
use crate::trace::{event, span};
use crate::transaction::Concurrency;

/// The files of a pool in the `Sync` domain, before they are mapped.
struct SyncFiles {
    device: FileDevice,
    has_checksums: bool,
    identity: LogIdentity,
    ring_blocks: u64,
    parameters: SyncParameters,
}

impl SyncFiles {
    fn open(
        log: OpenLog,
        checksums: Option<SharedFile>,
        heap: &SharedFile,
        options: &Options,
        writable: bool,
    ) -> Result<Self> {
        let OpenLog { file: log, identity, ring_blocks, .. } = log;
        let mut parameters = options.sync.within(options.memory());
        parameters.ring_blocks = parameters.ring_blocks.max(ring_blocks);
        let has_checksums = checksums.is_some();
        let device = FileDevice::new(heap.clone(), log, writable).with_checksums(checksums);
        Ok(Self { device, has_checksums, identity, ring_blocks, parameters })
    }

    /// Returns the device and its log, to be shared by the pool's threads in the life `life`.
    fn shared_by(
        self,
        header: &Header,
        layout: &Layout,
        shared: &SharedLayout,
        poison: &Arc<Poison>,
        life: u64,
    ) -> SyncPool {
        let files = Arc::new(self.device);
        let device: Arc<dyn Device + Send + Sync> = if self.has_checksums {
            Arc::new(Checksummed::new(files.clone(), header.uuid.as_bytes(), layout))
        } else {
            files.clone()
        };
        let log = SharedLog::new(layout, shared, self.parameters, self.identity, life);
        SyncPool {
            files,
            device: Arc::new(Guarded::new(device, poison.clone())),
            log: log.with_ring(self.ring_blocks),
            checkpointer: None,
            flusher: Mutex::default(),
        }
    }
}

/// Returns the kind of mapping for the pool's file.
fn mapping_kind(options: &Options, read_only: bool) -> MappingKind {
    match options.domain {
        _ if read_only => MappingKind::Private,
        Domain::Flush | Domain::FlushOnFail if !options.assume_persistent => MappingKind::SharedSynchronous,
        Domain::Sync => MappingKind::Private,
        _ => MappingKind::Shared,
    }
}

/// Returns the layout of the volatile words, including those of the shared log in the `Sync` domain.
fn shared_layout(layout: &Layout, options: &Options, sync: Option<SyncParameters>) -> SharedLayout {
    let sync_bytes = sync.map_or(0, |sync| SharedLog::volatile_bytes(layout, sync));
    let snapshot_bytes = options.snapshot_bytes.min(options.memory() / 4);
    SharedLayout::new(layout, options.lock_bits, sync_bytes).with_versions(snapshot_bytes)
}

impl<C: Control<Memory = Native>> Pool<C> {
    /// Opens the pool in these locked files.
    pub(in crate::file) fn open_files(
        files: OpenFiles,
        options: &Options,
        setup: Setup<C>,
        usage: Use,
    ) -> Result<Self> {
        let path = files.path.clone();
        let start = |mut pool: Self| pool.start().map(|()| pool);
        Self::map(files, options, setup, usage).and_then(start).map_err(|error| error.in_pool(&path))
    }

    /// Maps the pool in these files. The caller then [starts](Self::start) it.
    fn map(files: OpenFiles, options: &Options, setup: Setup<C>, usage: Use) -> Result<Self> {
        options.check()?;
        let read_only = usage == Use::Reading;
        let life = if usage == Use::Creation { 0 } else { random()? | 1 << 63 };
        let OpenFiles { path, heap: file, header, log, checksums } = files;
        // Some systems do not tell; then this is false.
        let overwriting_takes_space = system::overwriting_takes_space(&file).unwrap_or(false);
        let log_remade = log.as_ref().is_some_and(|log| log.remade);
        let sync_files = match log {
            Some(log) => Some(SyncFiles::open(log, checksums, &file, options, !read_only)?),
            None => None,
        };
        let poison = Arc::new(Poison::of(&path));
        if !read_only {
            fill_holes(&file).map_err(no_space_for_holes)?;
        }
        let mapping = mapping_kind(options, read_only);
        let sync_parameters = sync_files.as_ref().map(|files| files.parameters);
        let shared_for = |layout: &Layout| shared_layout(layout, options, sync_parameters);
        let layout = Layout::new(header.geometry)?;
        let AddressSpace { layout, shared, persistent, volatile } =
            AddressSpace::reserve(&file, mapping, layout, options.address_space, read_only, shared_for)?;
        let sync = sync_files.map(|files| files.shared_by(&header, &layout, &shared, &poison, life));
        let mut persistent = persistent.with_poison(poison);
        if options.protect {
            persistent = persistent.protect()?;
        }
        Ok(Self {
            persistent: Arc::new(persistent),
            volatile: Arc::new(volatile),
            header,
            layout,
            shared,
            mapping,
            options: options.clone(),
            setup,
            read_only,
            sync,
            helper: Mutex::new(None),
            idle: Arc::new(IdleWorkers::new(layout.geometry.logs)),
            compaction: Mutex::default(),
            recovery: Recovery { log_remade, overwriting_takes_space, ..Recovery::default() },
            observed: Arc::default(),
            path,
            file,
            // Before recovery has succeeded there is nothing to close.
            closed: true,
        })
    }

    /// Recovers the pool, after which it can be used.
    fn start(&mut self) -> Result<()> {
        if self.options.map_ahead {
            self.map_ahead();
        }
        self.register_for_deadlocks();
        if !self.read_only && self.sync.is_none() {
            take_space(&self.native_view()?)?;
        }
        {
            span!("recover", pool = %self.path.display());
            self.recover()?;
        }
        event!(info, pool = %self.path.display(), replayed = self.recovery.replayed(), "open");
        if !self.read_only && self.concurrency() == Concurrency::SingleWriter {
            // The first barrier takes the system milliseconds, so it is issued here and not in a transaction.
            self.native_view()?.memory.process_barrier();
        }
        Ok(())
    }

    /// Maps the pages of both memories that are known to be used.
    fn map_ahead(&self) {
        self.persistent.map_ahead(u64::MAX);
        // The pages for versions are left out, since there may never be a snapshot.
        let bytes = match &self.sync {
            Some(sync) => sync.log.bytes_for(self.persistent.extent().min(self.layout.end().offset())),
            None => self.shared.bytes_without_versions(),
        };
        self.volatile.map_ahead(bytes);
    }

    /// Registers the pool for the detection of deadlocks among threads that hold locks of several pools.
    fn register_for_deadlocks(&self) {
        let (shared, concurrency) = (self.shared, self.concurrency());
        let holds: deadlock::Holds =
            Box::new(move |load, line| holds_rights(load, shared, concurrency, line));
        deadlock::register(&self.volatile, self.path(), self.layout.geometry.logs, holds);
    }

    /// Recovers the pool, and marks it as in use if it is to be written.
    fn recover(&mut self) -> Result<()> {
        let view = self.native_view()?;
        match self.shared_log() {
            Some(log) => self.recover_shared_log(view, log),
            None => self.recover_logs(&view),
        }
    }

    /// Recovers a pool in the `Sync` domain, and starts its checkpoints.
    fn recover_shared_log(&mut self, view: View<Native>, log: SharedLog) -> Result<()> {
        if let Some(sync) = self.sync.as_ref().filter(|_| !self.read_only) {
            sync.files.take_space_for_log().map_err(|e| {
                Error::io(
                    "allocate disk space for the pool's log; open the pool for reading, or make room",
                    e,
                )
            })?;
        }
        let since = Instant::now();
        let report = if self.read_only { log.recover_read_only(&view) } else { log.recover(&view) }?;
        self.recovery = Recovery { sync: Some(report), replay: since.elapsed(), ..self.recovery };
        check_length(&view, &self.path)?;
        if let Some(sync) = self.sync.as_mut().filter(|_| !self.read_only) {
            take_space_in_use(&view, Some(&sync.files))?;
            if sync.files.needs_space(DeviceFile::Heap) {
                // A transaction takes space only for the pages that it writes itself, and a later checkpoint of recovery's pages would poison the
                // pool if it met a full disk.
                log.checkpoint_recovered(&view)?;
                self.recovery.replay = since.elapsed();
            }
            write_state(&*sync.device, self.options.domain.code(), None)?;
            sync.checkpointer = Some(Checkpointer::start(view, sync.log, self.observed.clone(), &self.path));
            self.closed = false;
        }
        Ok(())
    }

    /// Recovers a pool with logs of threads.
    fn recover_logs(&mut self, view: &View<Native>) -> Result<()> {
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
            scheme::forget_logs(view)?
        } else {
            scheme::recover(view, self.setup.schemes, |step| tick(Some(step)))?
        };
        tick(None);
        check_length(view, &self.path)?;
        let [scan, sort, replay, truncate] = times;
        self.recovery = Recovery { report, scan, sort, replay, truncate, ..self.recovery };
        if !self.read_only {
            take_space_in_use(view, None)?;
            let state = PoolState { domain: self.options.domain.code(), ..state };
            view.memory.store(Layout::STATE, state.encode());
            view.memory.write_back(Layout::STATE, Step::MarkState);
            view.memory.fence(Step::MarkState);
            self.closed = false;
        }
        Ok(())
    }
}
