//! Records a workload's transactions, and computes their persist critical path meanwhile (section 7.1).

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use strandline_core::engine::Worker;
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::coroutines::{self, Thread};
use strandline_core::memory::recorder::{Observer, Recorded, Recorder};
use strandline_core::memory::{Hosted, Memory, World};
use strandline_core::scheme::SchemeKind;
use strandline_core::transaction::{AnyRunner, Concurrency, Runner};
use strandline_persistency::{CriticalPath, Model};
use strandline_schemes::{PlainWorker, Program, laboratory};
use strandline_workloads::AnyWorkload;

use crate::error::Error;

/// How transactions are recorded.
#[derive(Clone, Copy, Debug)]
pub struct Recording {
    /// The model whose critical path is computed.
    pub model: Model,
    /// The number of threads that run, each a coroutine.
    pub threads: u64,
    /// The number of transactions that all threads run together.
    pub transactions: u64,
    /// Bytes in each log.
    pub log_bytes: u64,
    /// The seed of the workload, and of the points where threads switch.
    pub seed: u64,
    /// True if threads take turns after each transaction, instead of running concurrently.
    pub in_turn: bool,
}

/// The number of parts that a run has for finding out whether its path grows with the run.
pub const TENTHS: usize = 10;

/// Returns how many of the transactions are executed at the end of a tenth of the run, which is counted from zero.
fn end_of(tenth: usize, transactions: u64) -> u64 {
    (transactions * (tenth as u64 + 1)).div_ceil(TENTHS as u64)
}

/// The critical paths and counts of a recorded run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Persist epochs on the critical path.
    pub critical_path: u32,
    /// Persist epochs on the critical path at the end of each tenth of the transactions.
    pub at_tenths: [u32; TENTHS],
    /// Transactions recorded, of all threads.
    pub transactions: u64,
    /// The number of memory events that the models received.
    pub events: u64,
    /// Stores to persistent memory.
    pub persists: u64,
}

impl Traced {
    /// Returns the persist epochs per transaction.
    pub fn epochs_per_transaction(&self) -> f64 {
        f64::from(self.critical_path) / self.transactions as f64
    }

    /// Returns the persist epochs per transaction of the first tenth.
    pub fn epochs_per_transaction_at_first(&self) -> f64 {
        self.increments()[0]
    }

    /// Returns the standard deviation of a tenth's persist epochs per transaction.
    ///
    /// It is computed from the differences between successive tenths, since the deviation from a mean would count a path's steady growth as scatter.
    /// The first tenth is left out because it is compared with the others, and the last because some threads have executed all their transactions by
    /// then and leave the others alone.
    pub fn deviation_of_a_tenth(&self) -> f64 {
        let increments = self.increments();
        let differences = increments[1..TENTHS - 1].windows(2).map(|pair| pair[1] - pair[0]);
        let count = differences.len() as f64;
        // A difference has the sum of both tenths' variances.
        (differences.map(|difference| difference * difference).sum::<f64>() / (2.0 * count)).sqrt()
    }

    /// Returns a run of so many transactions, each tenth of which makes the path longer by so many persist epochs.
    #[cfg(test)]
    pub fn of_increments(increments: [u32; TENTHS], transactions: u64) -> Self {
        let mut critical_path = 0;
        let at_tenths = increments.map(|epochs| {
            critical_path += epochs;
            critical_path
        });
        Self { critical_path, at_tenths, transactions, events: 0, persists: 0 }
    }

    /// Returns by how many persist epochs per transaction the path grows in each tenth.
    fn increments(&self) -> [f64; TENTHS] {
        let (mut path, mut executed) = (0, 0);
        std::array::from_fn(|tenth| {
            let (path_before, executed_before) = (path, executed);
            (path, executed) = (self.at_tenths[tenth], end_of(tenth, self.transactions));
            // With fewer than ten transactions some tenths are empty.
            f64::from(path - path_before) / (executed - executed_before).max(1) as f64
        })
    }
}

/// Threads run concurrently: a thread stops after one in this many operations on average, and the one that is furthest behind continues.
const SWITCH_EVERY: u32 = 16;
const CHUNK_BYTES: u64 = 256 << 10;
/// Bytes for the arenas' half-used chunks.
const SPARE_BYTES: u64 = 16 << 20;

/// The critical path, and how many operations each thread has performed.
struct Paced {
    path: CriticalPath,
    operations: Vec<u64>,
}

impl Observer for Paced {
    fn observe(&mut self, recorded: Recorded) {
        self.operations[recorded.thread] += 1;
        Observer::observe(&mut self.path, recorded);
    }
}

/// Runs `workload` under the scheme `name`, isolated by locks; see [`trace`].
///
/// # Errors
/// Returns an error if there is no such scheme, and the errors of [`trace`].
pub fn trace_scheme(
    name: &str,
    workload: &dyn AnyWorkload,
    recording: Recording,
    progress: &dyn Fn(u64),
) -> Result<Traced, Error> {
    let kind = strandline_schemes::ALL.of_name(name);
    let (kind, concurrency) = kind.ok_or_else(|| Error::Usage(format!("there is no scheme {name}")))?;
    trace(kind, workload, concurrency, recording, progress)
}

/// Runs `workload` under a scheme in a recorder. Calls `progress` after every thousand transactions of a thread.
///
/// # Errors
/// Returns an error if the workload does not fit, or if a transaction fails.
fn trace(
    scheme: SchemeKind,
    workload: &dyn AnyWorkload,
    concurrency: Concurrency,
    recording: Recording,
    progress: &dyn Fn(u64),
) -> Result<Traced, Error> {
    let Recording { threads, log_bytes, seed, .. } = recording;
    let size = (workload.heap_bytes() + threads * log_bytes + SPARE_BYTES).next_multiple_of(CHUNK_BYTES);
    let layout = Layout::new(Geometry { size, logs: threads, log_bytes, chunk_bytes: CHUNK_BYTES })?;
    let shared = SharedLayout::new(&layout, 20, 0);
    let recorder = Rc::new(Recorder::observed(
        vec![0; (size / 8) as usize],
        shared.bytes(),
        if recording.in_turn { 0 } else { SWITCH_EVERY },
        seed,
        None,
        Paced { path: CriticalPath::new(recording.model), operations: vec![0; threads as usize] },
    ));
    let world: Rc<dyn World> = recorder.clone();
    recorder.set_recording(false);
    let view = View { memory: Hosted::new(world.clone(), 0), layout, shared };
    workload.prepare(&mut AnyRunner::new(PlainWorker::new(view, 0, Program::VOLATILE)))?;
    // Recording begins when all threads have started, and ends before the first one leaves.
    let (ready, turn, done) = (Cell::new(0), Cell::new(0), Cell::new(0));
    let (executed, at_tenths) = (Cell::new(0), RefCell::new([0; TENTHS]));
    let failure = RefCell::new(None);
    let bodies = (0..threads).map(|thread| {
        let (ready, turn, done, failure, recorder) = (&ready, &turn, &done, &failure, &recorder);
        let (executed, at_tenths) = (&executed, &at_tenths);
        Box::new(move |memory: &Hosted| {
            let run = || -> strandline_core::Result<()> {
                let view = View { memory, layout, shared };
                let mut worker =
                    AnyRunner::new(Worker::lease_of(view, scheme, laboratory(concurrency), None)?);
                let mut part = workload.thread(&mut worker, seed ^ (thread + 1) << 32)?;
                let all_reach = |count: &Cell<u64>| {
                    count.set(count.get() + 1);
                    while count.get() < threads && failure.borrow().is_none() {
                        memory.pause();
                    }
                };
                all_reach(ready);
                recorder.set_recording(true);
                for number in (thread..recording.transactions).step_by(threads as usize) {
                    while recording.in_turn && turn.get() != number && failure.borrow().is_none() {
                        memory.pause();
                    }
                    part.transaction(&mut worker)?;
                    turn.set(number + 1);
                    executed.set(executed.get() + 1);
                    for (tenth, length) in at_tenths.borrow_mut().iter_mut().enumerate() {
                        if executed.get() == end_of(tenth, recording.transactions) {
                            *length = recorder.observer().path.length();
                        }
                    }
                    if number % 1000 == thread {
                        progress(1000);
                    }
                }
                // Deferred commits belong to the requested transactions.
                worker.drain()?;
                all_reach(done);
                recorder.set_recording(false);
                Ok(())
            };
            if let Err(error) = run() {
                failure.borrow_mut().get_or_insert(error);
            }
        }) as Thread<'_>
    });
    let (mut turns, mut last) = (0, vec![0; threads as usize]);
    coroutines::run(&world, bodies.collect(), |running| {
        // All threads count as equal before recording begins.
        let behind = |thread: usize| (recorder.observer().operations[thread], last[thread]);
        let position = (0..running.len()).min_by_key(|&position| behind(running[position])).unwrap_or(0);
        turns += 1;
        last[running[position]] = turns;
        position
    });
    if let Some(error) = failure.take() {
        return Err(error.into());
    }
    let path = &recorder.observer().path;
    Ok(Traced {
        critical_path: path.length(),
        at_tenths: at_tenths.into_inner(),
        transactions: recording.transactions,
        events: path.events(),
        persists: path.persists(),
    })
}

#[cfg(test)]
mod tests {
    use strandline_workloads::{HASH, Selection, Sizes, TATP_UPDATE_LOCATION};

    use super::*;

    /// Threads that run at an even pace meet threads at the same position: transactions that rarely conflict have Table 1's paths.
    #[test]
    fn threads_that_run_evenly_have_the_paths_of_table_1() {
        let sizes = Sizes { subscribers: 20_000, ..Sizes::small() };
        let selection = Selection::new(&TATP_UPDATE_LOCATION, &sizes).unwrap();
        let epochs = |scheme: &str, model| {
            let recording = Recording {
                model,
                threads: 4,
                transactions: 4000,
                log_bytes: 1 << 20,
                seed: 1,
                in_turn: false,
            };
            trace_scheme(scheme, selection.workload(), recording, &|_| ()).unwrap().epochs_per_transaction()
        };
        let strand = Model::Strand { strands: std::num::NonZeroU32::new(4) };
        for (scheme, model, path) in [
            ("sct-epoch", Model::Epoch, 3.0 / 4.0),
            ("dct-epoch", Model::Epoch, 2.0 / 4.0),
            ("sct-eager-sync", Model::EagerSync, 3.0 / 4.0),
            ("dct-eager-sync", Model::EagerSync, 1.0 / 4.0),
            ("sct-strand", strand, 3.0 / 16.0),
            ("dct-strand", strand, 3.0 / 16.0),
        ] {
            let measured = epochs(scheme, model);
            assert!((measured / path - 1.0).abs() < 0.1, "{scheme}: {measured} epochs, not {path}");
        }
    }

    /// A path that grows with the run is not a property of the transactions. Checking a lock that was unused for long must not order the thread after
    /// the present use of the lock's old log entry.
    #[test]
    fn paths_do_not_grow_with_the_run() {
        let sizes = Sizes { subscribers: 20_000, ..Sizes::small() };
        let selection = Selection::new(&TATP_UPDATE_LOCATION, &sizes).unwrap();
        let strand = Model::Strand { strands: std::num::NonZeroU32::new(4) };
        for (scheme, model) in
            [("dct-epoch", Model::Epoch), ("dct-eager-sync", Model::EagerSync), ("dct-strand", strand)]
        {
            let recording = Recording {
                model,
                threads: 4,
                transactions: 40_000,
                log_bytes: 1 << 20,
                seed: 1,
                in_turn: false,
            };
            let traced = trace_scheme(scheme, selection.workload(), recording, &|_| ()).unwrap();
            let (first, whole) = (traced.epochs_per_transaction_at_first(), traced.epochs_per_transaction());
            assert!((first / whole - 1.0).abs() < 0.02, "{scheme}: {first} epochs at first, {whole} in all");
            let last = traced.at_tenths[TENTHS - 1];
            assert!(traced.at_tenths.is_sorted() && last <= traced.critical_path, "{scheme}: {traced:?}");
            assert!(f64::from(last) > 0.98 * f64::from(traced.critical_path), "{scheme}: {traced:?}");
        }
    }

    #[test]
    fn the_deviation_counts_neither_a_slope_nor_the_ends_of_a_run() {
        let deviation = |increments| Traced::of_increments(increments, 10_000).deviation_of_a_tenth();
        assert_eq!(deviation([9, 500, 500, 500, 500, 500, 500, 500, 500, 900]), 0.0);
        // Each difference of two thousandths has the variances of two tenths.
        let scattered = deviation([500, 501, 499, 501, 499, 501, 499, 501, 499, 500]);
        assert!((scattered - 0.002 / 2f64.sqrt()).abs() < 1e-9, "{scattered}");
        let growing = deviation([500, 510, 520, 530, 540, 550, 560, 570, 580, 590]);
        assert!((growing - 0.01 / 2f64.sqrt()).abs() < 1e-9, "{growing}");
    }

    /// A transaction that declares no locks repeats PB1 after taking each lock. So its log entry comes between that barrier and the next, in parallel
    /// with the deferred commits and not after them.
    #[test]
    fn locks_taken_late_leave_deferred_commits_off_the_path() {
        let sizes = Sizes { hash_keys: 40_000, buckets: 20_000, ..Sizes::small() };
        let selection = Selection::new(&HASH, &sizes).unwrap();
        let recording = Recording {
            model: Model::Epoch,
            threads: 4,
            transactions: 4000,
            log_bytes: 1 << 20,
            seed: 1,
            in_turn: false,
        };
        let epochs = |scheme: &str| {
            trace_scheme(scheme, selection.workload(), recording, &|_| ()).unwrap().epochs_per_transaction()
        };
        let (sct, dct) = (epochs("sct-epoch"), epochs("dct-epoch"));
        assert!(dct < 0.75 * sct, "{dct} epochs under DCT, {sct} under SCT");
    }

    /// One thread under BPPM: each transaction's fence ends a persist epoch, and home stores overlap the next transaction's log records.
    #[test]
    fn a_bppm_transaction_is_one_epoch_under_eager_sync() {
        let recording = Recording {
            model: Model::EagerSync,
            threads: 1,
            transactions: 200,
            log_bytes: 1 << 20,
            seed: 1,
            in_turn: false,
        };
        let traced = trace(
            &strandline_schemes::BPPM,
            Selection::new(&HASH, &Sizes::small()).unwrap().workload(),
            Concurrency::SingleWriter,
            recording,
            &|_| (),
        )
        .unwrap();
        assert!((200..=202).contains(&traced.critical_path), "{traced:?}");
        assert!(traced.persists > 200 && traced.events > traced.persists);
    }
}
