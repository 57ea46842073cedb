//! A pool on a faulty device, and the hosted memory of a process that has it open.

use std::cell::{Cell, Ref, RefCell};
use std::collections::HashSet;
use std::ops::Range;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use fastrand::Rng;
use strandline_core::engine::{Control, Over, SingleWriter, Snapshot, Stm};
use strandline_core::heap;
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::hosted::Operation;
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Device, DeviceFile, Guarded};
use strandline_core::memory::{Event, Hosted, Memory, PersistentAddress, Space, Step, World};
use strandline_core::scheme::Product;
use strandline_core::sync::{
    Checksummed, LogIdentity, SharedLog, SyncParameters, SyncRecoveryReport, Verifier, create,
    create_checksums,
};
use strandline_core::{Concurrency, Error, Read, Result};

use super::faulty_device::FaultyDevice;
use super::journal::Journal;
use crate::explore::worker::AnyWorker;

/// The identity that binds the two files to each other.
pub(super) const IDENTITY: LogIdentity = LogIdentity { pool: *b"strandline crash", nonce: 1 };

/// The number of chunks that a new pool's heap file has; it grows for workloads that allocate more.
const FIRST_CHUNKS: u64 = super::transactions::MIX_CHUNKS;

/// Memory for versions of lines: room for some hundred.
const VERSION_BYTES: u64 = 32 << 10;

/// The number of threads that run transactions, at most.
pub(super) const THREADS: usize = 3;
/// The thread that recovers. If fewer than `THREADS` threads run transactions, the next thread takes checkpoints, and the ones after it compact and
/// read snapshots.
const MAIN: usize = THREADS;

/// Marks a thread as sleeping at no word because it has been woken.
const AWAKE: u64 = u64::MAX;

/// A transaction's TxID, and the words that it stored home, by address.
pub(super) type Committed = (u64, Vec<(u64, u64)>);

/// Memory over a private mapping of the heap file. It notes which transactions commit and which are acknowledged.
pub(super) struct DeviceWorld {
    recorder: Recorder,
    device: Rc<FaultyDevice>,
    /// The device with checksums, if the pool has them, and with a record of the first failure.
    guarded: Guarded<Rc<dyn Device>>,
    /// Addresses of the words of transactions.
    data: Range<u64>,
    /// For each thread the index in `history` of the transaction that is storing home.
    storing: RefCell<Vec<Option<usize>>>,
    /// For each thread what its transaction has stored home before it entered commit, as only large transactions do.
    in_place: RefCell<Vec<Vec<(u64, u64)>>>,
    /// For each thread where its transaction has written past the log.
    past_log: RefCell<Vec<Vec<Range<u64>>>>,
    /// Addresses of all words that were written so.
    scratch: RefCell<HashSet<u64>>,
    history: RefCell<Vec<Committed>>,
    acknowledged: Cell<u64>,
    /// The thread that compacts, if any.
    compactor: Cell<Option<usize>>,
    /// For each thread the volatile word at which it sleeps.
    asleep: RefCell<Vec<Option<u64>>>,
    /// True if the thread that has called last sleeps on.
    postponed: Cell<bool>,
    journal: Journal,
}

impl DeviceWorld {
    /// Sets the thread that compacts.
    pub fn set_compactor(&self, thread: usize) {
        self.compactor.set(Some(thread));
    }

    /// Wakes sleeping threads that no longer exist.
    pub fn forget_sleepers(&self) {
        self.asleep.borrow_mut().fill(None);
    }

    /// Returns the words of the holes that were punched since the last call, as zeros. They may still have their old values until the transaction
    /// that releases their chunks commits.
    fn take_holes(&self) -> Vec<(u64, u64)> {
        let holes = self.device.take_punched();
        let words = holes.iter().flat_map(|&(at, bytes)| (at..at + bytes).step_by(8));
        let words: Vec<_> = words.map(|at| (at, 0)).collect();
        self.scratch.borrow_mut().extend(words.iter().map(|&(at, _)| at));
        words
    }

    /// Returns the words as the process sees them.
    pub fn words(&self) -> Ref<'_, [u64]> {
        self.recorder.words()
    }

    /// Takes the transactions that have committed so far.
    pub fn take_history(&self) -> Vec<Committed> {
        self.history.take()
    }

    /// Returns the highest acknowledged TxID.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.get()
    }

    /// Returns the words that large transactions have stored to in chunks of the heap, or anywhere. If a transaction was rolled back, its words are
    /// in free chunks.
    pub fn take_scratch(&self) -> HashSet<u64> {
        self.take_holes();
        self.scratch.take()
    }

    fn observe(&self, thread: usize, operation: Operation) {
        let storing = &mut self.storing.borrow_mut()[thread];
        let in_place = &mut self.in_place.borrow_mut()[thread];
        let past_log = &mut self.past_log.borrow_mut()[thread];
        match operation {
            Operation::Event(Event::Begin) => {
                *storing = None;
                in_place.clear();
                past_log.clear();
            }
            Operation::Event(Event::Abort) => {
                *storing = None;
                // A large transaction that is rolled back leaves the values that it restores, and anything in free chunks.
                for (at, value) in in_place {
                    *value = self.recorder.perform(thread, Operation::Load(Space::Persistent, *at));
                }
            }
            Operation::Event(Event::PastLog(at, bytes)) => {
                let words = at.offset()..at.offset() + bytes;
                self.scratch.borrow_mut().extend(words.clone().step_by(8));
                past_log.push(words);
                self.journal.note(|| format!("thread {thread}: writes {bytes} bytes at {at:?} past the log"));
            }
            Operation::Event(Event::Commit(transaction)) if transaction != 0 => {
                let mut history = self.history.borrow_mut();
                *storing = Some(history.len());
                let mut writes = std::mem::take(in_place);
                for at in past_log.drain(..).flat_map(|words| words.step_by(8)) {
                    writes.push((at, self.recorder.perform(thread, Operation::Load(Space::Persistent, at))));
                }
                if self.compactor.get() == Some(thread) {
                    writes.extend(self.take_holes());
                }
                history.push((transaction, writes));
                self.journal.note(|| format!("thread {thread}: transaction {transaction} commits"));
            }
            Operation::Event(Event::Acknowledged(transaction)) => {
                self.acknowledged.set(self.acknowledged.get().max(transaction));
                self.journal.note(|| format!("thread {thread}: transaction {transaction} is acknowledged"));
            }
            Operation::Store(Space::Persistent, at, value) if self.data.contains(&at) => {
                if let Some(index) = *storing {
                    self.history.borrow_mut()[index].1.push((at, value));
                    self.journal.note(|| format!("thread {thread}: stores {value:#x} home at {at:#x}"));
                } else if thread != MAIN {
                    in_place.push((at, value));
                    self.scratch.borrow_mut().insert(at);
                    self.journal.note(|| format!("thread {thread}: stores {value:#x} in place at {at:#x}"));
                }
            }
            _ => {}
        }
    }
}

impl World for DeviceWorld {
    fn perform(&self, thread: usize, operation: Operation) -> u64 {
        self.observe(thread, operation);
        self.recorder.perform(thread, operation)
    }
    fn load_range(&self, thread: usize, space: Space, offset: u64, into: &mut [u64]) {
        self.recorder.load_range(thread, space, offset, into);
    }
    /// Waits like a futex, but without spurious wake-ups, which would hide missing ones.
    fn wait(&self, thread: usize, offset: u64, value: u64) {
        self.recorder.perform(thread, Operation::Pause);
        let asleep = &mut self.asleep.borrow_mut()[thread];
        match asleep {
            None if self.recorder.perform(thread, Operation::Load(Space::Volatile, offset)) == value => {
                *asleep = Some(offset);
                self.postponed.set(true);
            }
            None => {}
            Some(AWAKE) => *asleep = None,
            Some(_) => self.postponed.set(true),
        }
    }
    fn wait_briefly(&self, thread: usize, _: u64, _: u64, _: u64) -> bool {
        self.recorder.perform(thread, Operation::Pause);
        true
    }
    fn wake(&self, _: usize, offset: u64) {
        for word in self.asleep.borrow_mut().iter_mut().filter(|word| **word == Some(offset)) {
            *word = Some(AWAKE);
        }
    }
    fn postponed(&self, _: usize) -> bool {
        self.postponed.take()
    }
    fn give_back(&self, thread: usize, offset: u64, bytes: u64) {
        // Returns the file's present contents, whatever was stored here since: a page that was not clean loses stores.
        let file = self.device.contents(DeviceFile::Heap);
        for at in (offset..offset + bytes).step_by(8) {
            let word = file[at as usize..at as usize + 8].try_into().unwrap_or_default();
            let store = Operation::Store(Space::Persistent, at, u64::from_le_bytes(word));
            self.recorder.perform(thread, store);
        }
        self.journal.note(|| format!("thread {thread}: gives back {offset:#x}+{bytes}"));
    }
    fn switches(&self, thread: usize) -> bool {
        self.recorder.switches(thread)
    }
    fn omitted(&self, step: Step) -> bool {
        self.recorder.omitted(step)
    }
    fn size(&self, space: Space) -> u64 {
        match space {
            // Memory beyond the file's end is not accessed before the file has grown.
            Space::Persistent => {
                self.recorder.size(space).min(self.device.size(DeviceFile::Heap).unwrap_or(0))
            }
            Space::Volatile => self.recorder.size(space),
        }
    }
    fn device(&self) -> Option<&dyn Device> {
        Some(&self.guarded)
    }
}

/// A pool on a faulty device.
#[derive(Clone)]
pub(super) struct Pool {
    pub device: Rc<FaultyDevice>,
    pub layout: Layout,
    shared: SharedLayout,
    pub log: SharedLog,
    pub concurrency: Concurrency,
    omitted: Option<Step>,
    has_checksums: bool,
    journal: Journal,
}

impl Pool {
    /// Creates a pool with so many chunks of so many bytes. `direct` is the result of [`Device::is_direct`].
    ///
    /// # Errors
    /// Returns an error if the parameters are impossible.
    pub fn create(
        seed: u64,
        direct: bool,
        (chunks, chunk_bytes): (u64, u64),
        parameters: SyncParameters,
        concurrency: Concurrency,
        omitted: Option<Step>,
        journal: Journal,
    ) -> Result<Self> {
        let geometry = Geometry {
            size: (15 << 12) + (chunks + 1) * chunk_bytes,
            logs: THREADS as u64 + 1,
            log_bytes: 8192,
            chunk_bytes,
        };
        let layout = Layout::new(geometry)?;
        let device = Rc::new(FaultyDevice::new(seed, direct, journal.clone()));
        let grown = device.grow(DeviceFile::Heap, layout.end_of(chunks.min(FIRST_CHUNKS)).offset());
        grown.map_err(|error| strandline_core::Error::io("grow the heap", error))?;
        create(&*device, IDENTITY, parameters, 0)?;
        let has_checksums = parameters.checksums;
        if has_checksums {
            create_checksums(&*device, &IDENTITY.pool, &layout)
                .map_err(|error| strandline_core::Error::io("make checksums", error))?;
        }
        journal.take();
        let sync_bytes = SharedLog::volatile_bytes(&layout, parameters);
        let shared = SharedLayout::new(&layout, 6, sync_bytes).with_versions(VERSION_BYTES);
        let log = SharedLog::new(&layout, &shared, parameters, IDENTITY, 1);
        Ok(Self { device, layout, shared, log, concurrency, omitted, has_checksums, journal })
    }

    /// Returns the same pool on another device.
    pub fn on(&self, device: FaultyDevice) -> Self {
        Self { device: Rc::new(device), ..self.clone() }
    }

    /// Maps the heap file privately, as a process does. `seed` determines how its threads switch.
    pub fn open(&self, seed: u64) -> Rc<DeviceWorld> {
        let heap = self.device.contents(DeviceFile::Heap);
        let words =
            heap.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap_or_default()));
        let mut words: Vec<u64> = words.collect();
        words.resize((self.layout.geometry.size / 8) as usize, 0);
        let recorder = Recorder::new(words, self.shared.bytes(), 6, seed, self.omitted);
        recorder.set_recording(false);
        let device: Rc<dyn Device> =
            if self.has_checksums { Rc::new(self.checksummed()) } else { self.device.clone() };
        Rc::new(DeviceWorld {
            recorder,
            device: self.device.clone(),
            guarded: Guarded::new(device, Arc::default())
                .without_growth(self.omitted == Some(Step::SyncGrowthFlush)),
            data: self.layout.data.offset()..self.layout.end().offset(),
            storing: RefCell::new(vec![None; THREADS + 3]),
            in_place: RefCell::new(vec![Vec::new(); THREADS + 3]),
            past_log: RefCell::new(vec![Vec::new(); THREADS + 3]),
            scratch: RefCell::default(),
            history: RefCell::default(),
            acknowledged: Cell::new(0),
            compactor: Cell::new(None),
            asleep: RefCell::new(vec![None; THREADS + 3]),
            postponed: Cell::new(false),
            journal: self.journal.clone(),
        })
    }

    fn checksummed(&self) -> Checksummed<Rc<FaultyDevice>> {
        let device = Checksummed::new(self.device.clone(), &IDENTITY.pool, &self.layout);
        device.without_flush(self.omitted == Some(Step::SyncChecksumFlush))
    }

    /// Compares the heap file with its checksums, without the pages that are in the log. Reads the contents directly, so that no fault affects the
    /// comparison.
    ///
    /// # Errors
    /// Returns the differences.
    pub fn verify(&self) -> std::result::Result<(), String> {
        if !self.has_checksums {
            return Ok(());
        }
        self.device.without_faults(|| self.verify_unfaulted())
    }

    fn verify_unfaulted(&self) -> std::result::Result<(), String> {
        let world = self.open(1);
        let pages = self.log_as_found().logged_pages(&self.main(&world));
        let left_out = pages.map_err(|error| format!("what the log has is not found: {error:#}"))?;
        let verifier = Verifier::new(&*self.device, &IDENTITY.pool, &self.layout);
        match verifier.and_then(|mut verifier| verifier.damaged_pages(&left_out)) {
            Ok(damaged) if damaged.is_empty() => Ok(()),
            Ok(damaged) => Err(format!("pages {damaged:?} are not what their checksums say")),
            Err(error) => Err(format!("the checksums cannot be read: {error:#}")),
        }
    }

    /// Recovers the pool.
    ///
    /// # Errors
    /// Returns the errors of [`SharedLog::recover`], and one if the heap file is too short.
    pub fn recover(&self, world: &Rc<DeviceWorld>) -> Result<SyncRecoveryReport> {
        self.check(world, self.log_as_found().recover(&self.main(world)))
    }

    /// Recovers it without writing anything.
    ///
    /// # Errors
    /// As for [`Pool::recover`].
    pub fn recover_read_only(&self, world: &Rc<DeviceWorld>) -> Result<SyncRecoveryReport> {
        self.check(world, self.log_as_found().recover_read_only(&self.main(world)))
    }

    /// Checks that the heap file has all the chunks that the heap should have by now.
    fn check(
        &self,
        world: &Rc<DeviceWorld>,
        recovered: Result<SyncRecoveryReport>,
    ) -> Result<SyncRecoveryReport> {
        let report = recovered?;
        let reached = world.words()[(self.layout.reached().offset() / 8) as usize];
        let length = self.device.contents(DeviceFile::Heap).len() as u64;
        self.layout.check_length(reached, length, Path::new("heap"))?;
        Ok(report)
    }

    /// Returns the log with the ring that its header describes. Reads the header directly, so that no fault affects it.
    fn log_as_found(&self) -> SharedLog {
        let header = &self.device.contents(DeviceFile::Log)[40..48];
        self.log.with_ring(u64::from_le_bytes(header.try_into().unwrap_or_default()))
    }

    /// Returns a view over `memory`.
    pub fn view<M>(&self, memory: M) -> View<M> {
        View { memory, layout: self.layout, shared: self.shared }
    }

    /// Returns the view of the thread that recovers.
    pub fn main(&self, world: &Rc<DeviceWorld>) -> View<Hosted> {
        self.view(Hosted::new(world.clone(), MAIN))
    }

    /// Reads words of a snapshot several times, with pauses. Words in chunks that were in use at the snapshot's time must not change.
    ///
    /// # Errors
    /// Returns an error if no snapshot can begin because the device failed.
    ///
    /// # Panics
    /// Panics if the snapshot changes.
    pub fn look_at_snapshot(&self, memory: &Hosted, rng: &mut Rng) -> Result<()> {
        match self.concurrency {
            Concurrency::SingleWriter => self.look(memory, SingleWriter, rng),
            _ => self.look(memory, Stm, rng),
        }
    }

    fn look<C: Control<Scheme = Product>>(&self, memory: &Hosted, control: C, rng: &mut Rng) -> Result<()> {
        let layout = &self.layout;
        let mut snapshot = Snapshot::begin(self.view(memory), Over::new(control), Some(self.log))?;
        let chunks = memory.load(layout.reached());
        let mut seen: Vec<(PersistentAddress, u64)> = Vec::new();
        for _ in 0..rng.u8(2..6) {
            for _ in 0..8 {
                let chunk = rng.u64(..chunks.max(1));
                let (table, word) =
                    (layout.chunk_table.word(chunk), rng.u64(..layout.geometry.chunk_bytes / 8));
                let at = layout.chunks.byte(chunk * layout.geometry.chunk_bytes).word(word);
                let bitmap = layout.chunks.byte(chunk * layout.geometry.chunk_bytes);
                let read = snapshot.read(|tx| {
                    let (chunk, used, value) = (tx.read(table)?, tx.read(bitmap)?, tx.read(at)?);
                    let is_used = heap::is_used(layout, at, |word| if word == table { chunk } else { used });
                    Ok(is_used.then_some(value))
                });
                match read {
                    Ok(None) => {}
                    Ok(Some(value)) => seen.push((at, value)),
                    Err(Error::SnapshotEnded { .. }) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
            (0..rng.u8(..60)).for_each(|_| memory.pause());
            for &(at, before) in &seen {
                match snapshot.read(|tx| tx.read(at)) {
                    Ok(now) => assert_eq!(now, before, "at {at:?} a snapshot changes"),
                    Err(Error::SnapshotEnded { .. }) => return Ok(()),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Calls `body` with the words of the extents that a snapshot has borrowed, among those in slots of
    /// [`Extents`](strandline_structures::model::Extents). It pauses between reading a slot and borrowing.
    ///
    /// # Errors
    /// Returns an error if no snapshot can begin because the device failed.
    #[cfg(test)]
    pub fn extents_of_a_snapshot<R>(
        &self,
        memory: &Hosted,
        (slots, pauses): (u64, u16),
        body: impl FnOnce(&[(PersistentAddress, u64)]) -> R,
    ) -> Result<R> {
        match self.concurrency {
            Concurrency::SingleWriter => self.extents_of(memory, SingleWriter, (slots, pauses), body),
            _ => self.extents_of(memory, Stm, (slots, pauses), body),
        }
    }

    #[cfg(test)]
    fn extents_of<C: Control<Scheme = Product>, R>(
        &self,
        memory: &Hosted,
        control: C,
        (slots, pauses): (u64, u16),
        body: impl FnOnce(&[(PersistentAddress, u64)]) -> R,
    ) -> Result<R> {
        let mut snapshot = Snapshot::begin(self.view(memory), Over::new(control), Some(self.log))?;
        let mut words = Vec::new();
        for slot in 0..slots {
            let at = self.layout.root(0).byte(256).word(4 * slot);
            let [value, runs @ ..] = snapshot.read(|tx| tx.read_array::<4>(at))?;
            (0..pauses).for_each(|_| memory.pause());
            for run in runs.into_iter().filter(|&run| value != 0 && run != 0) {
                let (first, pages) = (PersistentAddress::new(run & !0xfff), 1 + (run & 0xfff));
                if snapshot.read(|tx| tx.prepare_to_borrow(first, pages))? {
                    for at in (0..512 * pages).map(|word| first.word(word)) {
                        words.push((at, snapshot.read(|tx| tx.read(at))?));
                    }
                }
            }
        }
        Ok(body(&words))
    }

    /// Leases a worker over `memory`.
    ///
    /// # Errors
    /// Returns an error if all logs are leased.
    pub fn worker<'m>(&self, memory: &'m Hosted) -> Result<AnyWorker<'m>> {
        AnyWorker::product(self.view(memory), self.concurrency, Some(self.log))
    }
}
