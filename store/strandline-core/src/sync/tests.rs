//! Tests of the protocol on real files, with operating-system threads. `strandline-scheme-check` tests failing devices and power failures in its
//! device world.

use std::fs::{File, OpenOptions};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;
use crate::engine::{Over, Tx, Worker};
use crate::layout::{Geometry, Layout, SharedLayout, View};
use crate::memory::{
    AlignedBuffer, Device, DeviceFile, Mapping, MappingKind, Memory, Native, VolatileAddress, WORD_BYTES,
};
use crate::scheme::BPPM;
use crate::transaction::{Concurrency, Read, Runner, Transaction};
use crate::{Domain, Error};

const IDENTITY: LogIdentity = LogIdentity { pool: *b"strandline tests", nonce: 1 };

struct Files {
    folder: tempfile::TempDir,
    layout: Layout,
    shared: SharedLayout,
    log: SharedLog,
    buffered: bool,
    /// True if the log file cannot be extended.
    full: bool,
    /// The size of the pages in which memory is released, if they are larger than the system's.
    page_bytes: u64,
}

/// The way in which a [`Failing`] device fails.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Failure {
    /// Files cannot be extended, as on a full disk.
    Growth,
    /// A flush panics.
    FlushPanics,
}

/// A device that fails in one way.
struct Failing(FileDevice, Failure);

impl Device for Failing {
    fn read(&self, file: DeviceFile, offset: u64, into: &mut [u8]) -> std::io::Result<()> {
        self.0.read(file, offset, into)
    }
    fn write(&self, file: DeviceFile, offset: u64, from: &[u8]) -> std::io::Result<()> {
        self.0.write(file, offset, from)
    }
    fn write_durable(&self, file: DeviceFile, offset: u64, from: &[u8]) -> std::io::Result<()> {
        self.0.write_durable(file, offset, from)
    }
    fn flush(&self, file: DeviceFile) -> std::io::Result<()> {
        assert!(self.1 != Failure::FlushPanics, "the device panics");
        self.0.flush(file)
    }
    fn size(&self, file: DeviceFile) -> std::io::Result<u64> {
        self.0.size(file)
    }
    fn extend(&self, file: DeviceFile, bytes: u64) -> std::io::Result<()> {
        match self.1 {
            Failure::Growth => Err(std::io::ErrorKind::StorageFull.into()),
            Failure::FlushPanics => self.0.extend(file, bytes),
        }
    }
    fn is_direct(&self, file: DeviceFile) -> bool {
        self.0.is_direct(file)
    }
}

impl Files {
    fn file(&self, name: &str) -> File {
        let path = self.folder.path().join(name);
        OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).unwrap()
    }

    fn device(&self) -> FileDevice {
        let (heap, log) = (self.file("heap"), self.file("log"));
        if self.buffered { FileDevice::buffered(heap, log) } else { FileDevice::new(heap, log, true) }
    }

    fn create(geometry: Geometry, parameters: SyncParameters, buffered: bool) -> Self {
        let layout = Layout::new(geometry).unwrap();
        let shared = SharedLayout::new(&layout, 12, SharedLog::volatile_bytes(&layout, parameters));
        let log = SharedLog::new(&layout, &shared, parameters, IDENTITY, 1);
        let folder = tempfile::tempdir().unwrap();
        let files = Self { folder, layout, shared, log, buffered, full: false, page_bytes: 0 };
        let device = files.device();
        device.grow(DeviceFile::Heap, geometry.size).unwrap();
        super::create(&device, IDENTITY, parameters, 0).unwrap();
        files
    }

    fn open(&self) -> (View<Native>, SyncRecoveryReport) {
        self.open_on(Arc::new(self.device()))
    }

    fn open_on(&self, device: Arc<FileDevice>) -> (View<Native>, SyncRecoveryReport) {
        let (view, recovered) = self.try_open_on(device);
        (view, recovered.unwrap())
    }

    fn try_open_on(&self, device: Arc<FileDevice>) -> (View<Native>, crate::Result<SyncRecoveryReport>) {
        let size = self.layout.geometry.size;
        let heap = Mapping::file(self.file("heap"), size, MappingKind::Private).unwrap();
        let heap = heap.with_page_bytes(self.page_bytes);
        let volatile = Mapping::anonymous(self.shared.bytes()).unwrap();
        let device: Arc<dyn Device + Send + Sync> =
            if self.full { Arc::new(Failing(self.device(), Failure::Growth)) } else { device };
        assert_eq!(self.header().identity, IDENTITY);
        let memory =
            Native::new(Arc::new(heap), Arc::new(volatile), Domain::Sync, None, Some(device)).unwrap();
        let view = View { memory, layout: self.layout, shared: self.shared };
        let recovered = self.log.with_ring(self.header().ring).recover(&view);
        (view, recovered)
    }

    fn header(&self) -> LogHeader {
        read_log_header(&self.device(), &self.folder.path().join("log")).unwrap()
    }

    /// Runs `threads` workers. Takes checkpoints when they are wanted, and enlarges the ring after each one if possible.
    fn run(
        &self,
        view: &View<Native>,
        threads: u64,
        concurrency: Concurrency,
        body: impl Fn(u64, &mut Worker<Over<Concurrency, Native>>) + Sync,
    ) -> u64 {
        let stop = AtomicBool::new(false);
        let fork = || View { memory: view.memory.fork(), layout: self.layout, shared: self.shared };
        std::thread::scope(|scope| {
            let (runner, stop, body) = (fork(), &stop, &body);
            let checkpoints = scope.spawn(move || {
                let mut taken = 0;
                loop {
                    if !self.log.wait_for_request(&runner) {
                        self.log.grow_ahead(&runner);
                        continue;
                    }
                    if stop.load(Ordering::SeqCst) {
                        return taken;
                    }
                    self.log.checkpoint(&runner).unwrap();
                    taken += 1;
                    if let Some(blocks) = self.log.larger_ring(&runner, true) {
                        self.log.enlarge_ring(&runner, blocks).unwrap();
                    }
                }
            });
            let workers: Vec<_> = (0..threads)
                .map(|number| {
                    let view = fork();
                    scope.spawn(move || {
                        let mut worker = Worker::lease(view, concurrency, Some(self.log)).unwrap();
                        body(number, &mut worker);
                    })
                })
                .collect();
            for worker in workers {
                worker.join().unwrap();
            }
            stop.store(true, Ordering::SeqCst);
            self.log.request_checkpoint(&view.memory);
            checkpoints.join().unwrap()
        })
    }
}

const SMALL: Geometry = Geometry { size: 1 << 20, logs: 4, log_bytes: 16384, chunk_bytes: 4096 };

#[test]
fn threads_commit_checkpoint_and_recover_on_real_files() {
    for (buffered, concurrency) in
        [(false, Concurrency::Stm), (true, Concurrency::SingleWriter), (true, Concurrency::Stm)]
    {
        let parameters = SyncParameters {
            ring_blocks: 16,
            initial_ring_blocks: 16,
            dirty_pages: 8,
            most_dirty_pages: Some(16),
            staging_blocks: 1,
            memory_pages: Some(4),
            checksums: false,
            cut_damaged_log: false,
        };
        let files = Files::create(SMALL, parameters, buffered);
        let (counter, others) = (files.layout.root(0), files.layout.chunks);
        for life in 1..=2 {
            let (view, _) = files.open();
            let checkpoints = files.run(&view, 3, concurrency, |number, worker| {
                for i in 0..100 {
                    worker
                        .run(|tx| {
                            let value = tx.read(counter)? + 1;
                            tx.write(counter, value)?;
                            tx.write(others.byte((number * 100 + i) % 40 * 4096), value)
                        })
                        .unwrap();
                }
            });
            assert!(checkpoints > 0);
            assert_eq!(view.memory.load(counter), life * 300);
        }
        let (view, report) = files.open();
        assert_eq!((view.memory.load(counter), report.watermark), (600, 600));
    }
}

#[test]
fn a_restart_leaves_pages_to_the_next_checkpoint() {
    let parameters = SyncParameters { ring_blocks: 64, initial_ring_blocks: 64, ..SyncParameters::default() };
    let files = Files::create(SMALL, parameters, false);
    let data = |page: u64| files.layout.chunks.byte(page * 4096);
    let in_heap = || {
        let heap = std::fs::read(files.folder.path().join("heap")).unwrap();
        u64::from_le_bytes(heap[data(0).offset() as usize..][..8].try_into().unwrap())
    };
    let commit = |view: View<Native>, value| {
        let mut worker = Worker::lease(view, Concurrency::Stm, Some(files.log)).unwrap();
        worker.run(|tx| (0..20).try_for_each(|page| tx.write(data(page), value))).unwrap();
    };
    commit(files.open().0, 1);
    let (view, report) = files.open();
    assert_eq!((report.replayed, report.pages), (1, 20));
    assert_eq!((view.memory.load(data(19)), in_heap()), (1, 0));
    commit(view, 2);

    // The first block, which this life has inherited, rots.
    let device = files.device();
    let at = block::offset(report.start, files.header().ring);
    let mut good = AlignedBuffer::new(4096);
    device.read(DeviceFile::Log, at, &mut good).unwrap();
    device.write_durable(DeviceFile::Log, at, &AlignedBuffer::new(4096)).unwrap();
    let damage = files.try_open_on(Arc::new(files.device())).1.unwrap_err().to_string();
    assert!(damage.contains("as the checkpoint slot says"), "{damage}");
    device.write_durable(DeviceFile::Log, at, &good).unwrap();

    // Blocks of two lives are not left in the log again.
    let (view, report) = files.open();
    assert_eq!((report.replayed, report.words, view.memory.load(data(19)), in_heap()), (2, 40, 2, 2));
    drop(view);
    assert_eq!(files.open().1.replayed, 0);
}

#[test]
fn what_an_earlier_life_has_left_does_not_follow_a_slot() {
    let parameters = SyncParameters { ring_blocks: 64, initial_ring_blocks: 64, ..SyncParameters::default() };
    let files = Files::create(SMALL, parameters, false);
    let word = |number: u64| files.layout.chunks.byte(number * 64);
    let commit = |view: View<Native>, transactions: &[u64]| {
        let mut worker = Worker::lease(view, Concurrency::Stm, Some(files.log)).unwrap();
        for &words in transactions {
            worker.run(|tx| (0..words).try_for_each(|number| tx.write(word(number), words))).unwrap();
        }
    };
    commit(files.open().0, &[1, 1000]);
    // The second transaction's blocks were in one write, of which the first block is lost.
    let device = files.device();
    let slots =
        || [0, 1].map(|index| slot::CheckpointSlot::read(&device, index, &IDENTITY.pool).unwrap().unwrap());
    let start = slots().iter().map(|slot| slot.start).max().unwrap();
    let second = block::offset(start + 1, files.header().ring);
    device.write_durable(DeviceFile::Log, second, &AlignedBuffer::new(4096)).unwrap();
    let (view, report) = files.open();
    assert_eq!((report.blocks, report.replayed), (1, 1));
    // The next life inherits the first block, and writes the second one.
    commit(view, &[2]);

    let [first, other] = slots();
    let older = u64::from(other.generation < first.generation);
    let at = Layout::CHECKPOINT_SLOTS.offset() + older * 4096;
    device.write_durable(DeviceFile::Heap, at, &AlignedBuffer::new(4096)).unwrap();
    let (view, report) = files.open();
    assert_eq!((report.replayed, view.memory.load(word(1)), view.memory.load(word(2))), (2, 2, 0));
}

/// Provokes the waits of the protocols: there is little room in the ring and in the staging buffers, few pages may be dirty, and there are more threads than processors.
#[test]
fn nobody_waits_for_ever() {
    for concurrency in [Concurrency::Stm, Concurrency::SingleWriter] {
        let geometry = Geometry { logs: 8, ..SMALL };
        let files = Files::create(
            geometry,
            SyncParameters {
                ring_blocks: 7,
                initial_ring_blocks: 7,
                dirty_pages: 2,
                most_dirty_pages: Some(4),
                staging_blocks: 1,
                ..SyncParameters::default()
            },
            true,
        );
        let (view, _) = files.open();
        let chunks = files.layout.chunks;
        files.run(&view, 8, concurrency, |number, worker| {
            for i in 0..60 {
                let writes = if i % 20 == number { 700 } else { 3 };
                worker
                    .run(|tx| {
                        (0..writes).try_for_each(|w| {
                            tx.write(chunks.byte((number * 16 + w) % 100 * 4096 + w * 8 % 4096), i)
                        })
                    })
                    .unwrap();
                worker.view(|tx| tx.read(chunks.byte(number * 4096))).unwrap();
            }
        });
        let contents = |view: &View<Native>| {
            let mut words = vec![0; 100 * 512];
            view.memory.load_range(chunks, &mut words);
            words
        };
        let before = contents(&view);
        drop(view);
        let (view, report) = files.open();
        assert_eq!(report.watermark, 480);
        assert!(contents(&view) == before);
    }
}

/// A transaction for which the ring has no room does not begin, so that it holds no lock while it waits.
#[test]
fn room_is_waited_for_before_a_transaction_begins() {
    for concurrency in [Concurrency::Stm, Concurrency::SingleWriter] {
        let parameters = SyncParameters {
            ring_blocks: 16,
            initial_ring_blocks: 16,
            dirty_pages: 100,
            most_dirty_pages: Some(200),
            staging_blocks: 16,
            ..SyncParameters::default()
        };
        let files = Files::create(SMALL, parameters, true);
        let (view, _) = files.open();
        let fork = || View { memory: view.memory.fork(), layout: files.layout, shared: files.shared };
        let root = files.layout.root(0);
        let is_running = AtomicBool::new(false);
        let was_running = std::thread::scope(|scope| {
            let (is_running, view, log) = (&is_running, fork(), files.log);
            let writer = scope.spawn(move || {
                let mut worker = Worker::lease(view, concurrency, Some(log)).unwrap();
                for value in 0..64 {
                    worker
                        .run(|tx| {
                            is_running.store(true, Ordering::SeqCst);
                            tx.write(root, value)
                        })
                        .unwrap();
                    is_running.store(false, Ordering::SeqCst);
                }
            });
            // Waits until the transaction waits for room.
            while fork().memory.load(files.log.queue()) == 0 {
                std::thread::yield_now();
            }
            let was_running = is_running.load(Ordering::SeqCst);
            while !writer.is_finished() {
                files.log.checkpoint(&fork()).unwrap();
            }
            was_running
        });
        assert!(!was_running, "{concurrency:?}");
        assert_eq!(view.memory.load(root), 63);
    }
}

/// Returns the bytes of a file's mapping that are this process's own copies, as the system counts them.
fn anonymous_bytes(path: &std::path::Path) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let own = maps.lines().skip_while(|line| !line.ends_with(path.to_str().unwrap()));
    let line = own.map(|line| line.split_whitespace()).find_map(|mut words| match words.next() {
        Some("Anonymous:") => words.next().map(|kilobytes| 1024 * kilobytes.parse::<u64>().unwrap()),
        _ => None,
    });
    line.unwrap()
}

#[test]
fn memory_over_the_bound_is_given_back() {
    let geometry = Geometry { size: 8 << 20, ..SMALL };
    for (buffered, page_bytes) in [(false, 4096), (true, 4096), (false, 16384), (false, 65536)] {
        let parameters = SyncParameters {
            ring_blocks: 256,
            initial_ring_blocks: 256,
            dirty_pages: 4096,
            most_dirty_pages: Some(8192),
            memory_pages: Some(100),
            staging_blocks: 1,
            checksums: false,
            cut_damaged_log: false,
        };
        let files = Files { page_bytes, ..Files::create(geometry, parameters, buffered) };
        let (heap, chunks) = (files.folder.path().join("heap"), files.layout.chunks);
        let words = |page: u64| chunks.byte(page * 4096 + page * 8 % 4096);
        {
            let (view, _) = files.open();
            let before = anonymous_bytes(&heap);
            let count_up = || {
                files.run(&view, 1, Concurrency::Stm, |_, worker| {
                    for first in (0..1000).step_by(100) {
                        let count = |tx: &mut Tx<_>, page| {
                            let value = tx.read(words(page))?;
                            tx.write(words(page), if value == 0 { page } else { value } + 1)
                        };
                        worker.run(|tx| (first..first + 100).try_for_each(|page| count(tx, page))).unwrap();
                    }
                })
            };
            assert_eq!(count_up(), 0);
            assert!(anonymous_bytes(&heap) - before >= 1000 * 4096);
            assert_eq!(files.log.private_bytes(&view.memory), (1000 * 4096, 100 * 4096));
            let report = files.log.checkpoint(&view).unwrap();
            assert!(report.pages == 1000 && (900..970).contains(&report.given_back), "{report:?}");
            assert_eq!(files.log.private_bytes(&view.memory).0, (1000 - report.given_back) * 4096);
            assert!(anonymous_bytes(&heap) - before < 150 * 4096);
            count_up();
            assert_eq!(files.log.private_bytes(&view.memory).0, 1000 * 4096);
        }
        // Pages to which replay has stored count as well.
        let (view, report) = files.open();
        assert_eq!(report.pages, 1000);
        assert!(anonymous_bytes(&heap) < 150 * 4096);
        assert!((1..=100 * 4096).contains(&files.log.private_bytes(&view.memory).0));
        for page in 0..1000 {
            assert_eq!(view.memory.load(words(page)), page + 2);
        }
    }
}

/// Gives memory back around pages that commits make dirty meanwhile.
#[test]
fn nothing_is_lost_where_the_system_has_larger_pages() {
    const PAGES: u64 = 256;
    let geometry = Geometry { size: 4 << 20, ..SMALL };
    for page_bytes in [16384, 65536] {
        let parameters = SyncParameters {
            ring_blocks: 256,
            initial_ring_blocks: 256,
            dirty_pages: 16,
            most_dirty_pages: Some(32),
            memory_pages: Some(8),
            staging_blocks: 1,
            checksums: false,
            cut_damaged_log: false,
        };
        let files = Files { page_bytes, ..Files::create(geometry, parameters, false) };
        let word = |page: u64| files.layout.chunks.byte(page * 4096);
        let sum = |view: &View<Native>| (0..PAGES).map(|page| view.memory.load(word(page))).sum::<u64>();
        let (view, _) = files.open();
        let checkpoints = files.run(&view, 2, Concurrency::Stm, |number, worker| {
            let mut random = fastrand::Rng::with_seed(number);
            for _ in 0..2000 {
                let page = random.u64(..PAGES);
                let count = |tx: &mut Tx<_>| {
                    let value = tx.read(word(page))?;
                    tx.write(word(page), value + 1)
                };
                worker.run(count).unwrap();
            }
        });
        assert!(checkpoints > 10);
        assert_eq!(sum(&view), 4000, "pages of {page_bytes} bytes");
        drop(view);
        assert_eq!(sum(&files.open().0), 4000);
    }
}

#[test]
fn a_flush_writes_the_sectors_that_it_uses() {
    for buffered in [false, true] {
        let parameters = SyncParameters { ring_blocks: 64, ..SyncParameters::default() };
        let files = Files::create(SMALL, parameters, buffered);
        let chunks = files.layout.chunks;
        let device = Arc::new(files.device());
        let sector = device.sector(DeviceFile::Log);
        assert!(sector == 4096 || !buffered && sector == 512);
        {
            let (view, _) = files.open_on(device.clone());
            let mut worker = Worker::lease(view, crate::engine::Stm, Some(files.log)).unwrap();
            // If no words are consecutive, a block has four words before the records, and two for each record and the commit record.
            for words in [1, 13, 28, 29, 30, 61, 100, 253, 300, 1] {
                let before = device.counters();
                worker
                    .run(|tx| (0..words).try_for_each(|word| tx.write(chunks.word(2 * word), words)))
                    .unwrap();
                let after = device.counters();
                let last = (words + 1) % 254;
                let bytes = (words + 1) / 254 * 4096
                    + (16 * (last + 2 * u64::from(last > 0))).next_multiple_of(sector);
                let written = (after.log_writes - before.log_writes, after.log_bytes - before.log_bytes);
                assert_eq!(written, (1, bytes), "{words} words");
            }
            // Of 32 consecutive words, 31 share a record with 16 places; the last has its own.
            let before = device.counters().log_bytes;
            worker.run(|tx| tx.write_range(chunks.word(1000), &[7; 320])).unwrap();
            let bytes = (32 + 16 * (10 * 17 + 1)) as u64;
            assert_eq!(device.counters().log_bytes - before, bytes.next_multiple_of(sector));
        }
        let (view, report) = files.open();
        assert_eq!((report.replayed, report.words), (11, 816 + 320));
        assert_eq!([0, 1, 99, 299].map(|word| view.memory.load(chunks.word(2 * word))), [1, 300, 300, 300]);
        assert!((1000..1320).all(|word| view.memory.load(chunks.word(word)) == 7));
    }
}

/// The ring is enlarged between commits, and has its new size after recovery. A transaction that needs more than the ring has waits for that.
#[test]
fn a_ring_grows_under_commits() {
    for (buffered, concurrency) in [(false, Concurrency::Stm), (true, Concurrency::SingleWriter)] {
        let parameters = SyncParameters {
            ring_blocks: 40,
            initial_ring_blocks: 3,
            dirty_pages: 8,
            most_dirty_pages: Some(16),
            staging_blocks: 8,
            ..SyncParameters::default()
        };
        let mut files = Files::create(SMALL, parameters, buffered);
        assert_eq!(files.header().ring, 3);
        let root = files.layout.root(0);
        let increment = |view: &View<Native>, records: u64| {
            files.run(view, 3, concurrency, |number, worker| {
                for i in 0..100 {
                    worker
                        .run(|tx| {
                            let value = tx.read(root)? + 1;
                            let at = files.layout.chunks.byte(number * 65536);
                            (0..records.min(i * 10)).try_for_each(|word| tx.write(at.word(word), value))?;
                            tx.write(root, value)
                        })
                        .unwrap();
                }
            })
        };
        let (view, _) = files.open();
        // The longest transactions need four blocks.
        increment(&view, 700);
        assert_eq!((files.header().ring, files.log.ring_blocks(&view.memory)), (40, 40));
        drop(view);
        let (view, report) = files.open();
        assert_eq!((view.memory.load(root), report.watermark), (300, 300));
        assert_eq!(files.log.ring_blocks(&view.memory), 40);
        increment(&view, 700);
        drop(view);
        let (view, _) = files.open();
        assert_eq!(view.memory.load(root), 600);
        drop(view);

        // On a full disk the ring keeps its size, and what does not fit is refused.
        files = Files { full: true, ..Files::create(SMALL, parameters, buffered) };
        let (view, _) = files.open();
        let at = files.layout.chunks;
        files.run(&view, 1, concurrency, |_, worker| {
            let mut write =
                |words: u64| worker.run(|tx| (0..words).try_for_each(|word| tx.write(at.word(word), words)));
            (1..50).for_each(|_| write(100).unwrap());
            assert!(matches!(write(700), Err(Error::TransactionTooLarge { records: 253 })));
            (1..50).for_each(|_| write(101).unwrap());
        });
        assert_eq!(files.header().ring, 3);
        drop(view);
        let (view, report) = files.open();
        assert_eq!((view.memory.load(at), report.watermark), (101, 98));
    }
}

#[test]
fn a_checkpoint_that_panics_poisons_and_leaves_no_latch() {
    let geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 1 << 14, chunk_bytes: 1 << 14 };
    let files = Files::create(geometry, SyncParameters::default(), false);
    let (view, _) = files.open();
    let device: Arc<dyn Device + Send + Sync> = Arc::new(Failing(files.device(), Failure::FlushPanics));
    let heap = Mapping::file(files.file("heap"), geometry.size, MappingKind::Private).unwrap();
    let volatile = Mapping::anonymous(files.shared.bytes()).unwrap();
    let memory = Native::new(Arc::new(heap), Arc::new(volatile), Domain::Sync, None, Some(device)).unwrap();
    // Keeps the volatile words as recovery has left them.
    let words = files.shared.bytes() / WORD_BYTES;
    (0..words)
        .map(|word| VolatileAddress::new(word * WORD_BYTES))
        .for_each(|at| memory.store(at, view.memory.load(at)));
    let view = View { memory, layout: files.layout, shared: files.shared };
    let fork = || View { memory: view.memory.fork(), layout: files.layout, shared: files.shared };
    let mut worker = Worker::lease_of(fork(), &BPPM, Concurrency::Stm, Some(files.log)).unwrap();
    worker.run(|tx| tx.write(tx.root(0), 5)).unwrap();
    let checkpoint = || files.log.checkpoint(&view);
    assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(checkpoint)).is_err());
    // Neither thread waits for the latch or the gate.
    for _ in 0..2 {
        match checkpoint() {
            Err(Error::Poisoned { why, .. }) => assert!(why.contains("the device panics"), "{why}"),
            other => panic!("{other:?}"),
        }
        assert!(matches!(worker.run(|tx| tx.write(tx.root(0), 6)), Err(Error::Poisoned { .. })));
    }
}
