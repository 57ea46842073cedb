//! The schemes that are explored under their persistency models, with their barriers, and small histories for them.

use std::cell::Cell;
use std::ops::Range;
use std::rc::Rc;

use fastrand::Rng;
use strandline_check::Session;
use strandline_core::engine::Worker;
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Hosted, Memory, PersistentAddress, Step, World};
use strandline_core::scheme::{Barrier, Mode, Persistency, SchemeKind, Schemes, recover};
use strandline_core::transaction::Concurrency;
use strandline_core::{Lock, Result, Runner, Transaction};
use strandline_persistency::Model;
use strandline_schemes::UNDO_LOG_ENTRIES as ENTRIES;

use super::explore::{Outcome, Program, Sampling, explore};
use crate::explore::oracle::MOST_IN_COMMIT;

/// A scheme under a model.
#[derive(Clone, Copy)]
pub struct OrderedScheme {
    /// The scheme's descriptor.
    pub kind: SchemeKind,
    /// The persistency model that orders its persists.
    pub model: Model,
    /// The schemes whose pools its program can recover.
    pub known: Schemes,
}

/// The number of bytes that share a lock.
const GRANULE_BYTES: u64 = 256;
/// The number of granules that transactions write to.
const GRANULES: u64 = 3;
const THREADS: usize = 2;

/// The layouts of the pools of these histories.
struct Ground {
    layout: Layout,
    shared: SharedLayout,
    image: Vec<u64>,
}

impl Ground {
    fn new(scheme: &OrderedScheme) -> Result<Self> {
        let logs = THREADS as u64;
        let geometry = Geometry { size: (8 + logs) << 12, logs, log_bytes: 4096, chunk_bytes: 4096 };
        let layout = Layout::new(geometry)?;
        let shared = SharedLayout::new(&layout, 8, 0);
        let mut ground = Self { layout, shared, image: vec![0; (geometry.size / 8) as usize] };
        // Creates a pool whose logs are this scheme's, without transactions in progress.
        let recorder = Rc::new(Recorder::new(ground.image.clone(), shared.bytes(), 0, 1, None));
        let world: Rc<dyn World> = recorder.clone();
        lease(&ground, scheme.kind, &Hosted::new(world, 0))?;
        ground.image = recorder.contents();
        Ok(ground)
    }

    fn view<M>(&self, memory: M) -> View<M> {
        View { memory, layout: self.layout, shared: self.shared }
    }

    fn data(&self) -> Range<usize> {
        (self.layout.data.offset() / 8) as usize..(self.layout.end().offset() / 8) as usize
    }

    /// Returns the address of word `word` of granule `granule`. The page of the roots has room for all of them.
    fn word(&self, granule: u64, word: u64) -> PersistentAddress {
        self.layout.data.byte(GRANULE_BYTES * (1 + granule)).word(word)
    }
}

/// Leases all logs, and releases them.
fn lease(ground: &Ground, kind: SchemeKind, memory: &Hosted) -> Result<()> {
    let lease = |_| Worker::lease_of(ground.view(memory), kind, Concurrency::Locks, None);
    (0..THREADS).map(lease).collect::<Result<Vec<_>>>()?;
    Ok(())
}

/// The work of a history's threads.
#[derive(Clone, Copy)]
enum Plan {
    /// So many transactions of each thread, on any granules.
    Any([u64; THREADS]),
    /// A lock is unused while a log entry gets its second user. After the other thread's first transaction, thread `busy` performs `transactions`,
    /// more than its log has entries: the first on the first granule and the others elsewhere. The other thread then performs the rest of its
    /// `others` on the first granule. Together they are no more than the oracle's limit of optional transactions.
    Resting { busy: usize, transactions: u64, others: u64 },
}

impl Plan {
    fn of(seed: u64) -> Self {
        let mut random = Rng::with_seed(seed);
        if random.u8(..3) > 0 {
            return Self::Any(std::array::from_fn(|_| random.u64(1..=3)));
        }
        let transactions = ENTRIES + 1;
        let others = random.u64(2..=MOST_IN_COMMIT as u64 - transactions);
        Self::Resting { busy: random.usize(..THREADS), transactions, others }
    }

    /// Returns how many transactions thread `number` performs.
    fn transactions(self, number: usize) -> u64 {
        match self {
            Self::Any(transactions) => transactions[number],
            Self::Resting { busy, transactions, .. } if number == busy => transactions,
            Self::Resting { others, .. } => others,
        }
    }

    /// Returns the granules among which a transaction of thread `number` chooses its first one, and its second one if it uses two.
    fn granules(self, number: usize, transaction: u64) -> [Range<u64>; 2] {
        match self {
            Self::Any(_) => [0..GRANULES, 0..GRANULES],
            Self::Resting { busy, .. } if number == busy && transaction > 0 => [1..GRANULES, 1..GRANULES],
            Self::Resting { .. } => [0..1, 0..GRANULES],
        }
    }

    /// Returns whether thread `number` may continue after `transaction` of its transactions, when the threads have performed `done`.
    fn goes_on(self, number: usize, transaction: u64, done: [u64; THREADS]) -> bool {
        match self {
            Self::Resting { busy, transactions, others } if number == busy => match transaction {
                0 => done[1 - busy] > 0,
                // The thread's worker must not end, which would wait for its persists, before the other thread has committed.
                _ => transaction < transactions || done[1 - busy] > others,
            },
            Self::Resting { busy, transactions, .. } => transaction == 0 || done[busy] >= transactions,
            Self::Any(_) => true,
        }
    }
}

/// The seed of the present history, and how many transactions each thread has performed in it.
#[derive(Default)]
struct Progress(Cell<(u64, [u64; THREADS])>);

impl Progress {
    fn done(&self, seed: u64) -> [u64; THREADS] {
        let (of, done) = self.0.get();
        if of == seed { done } else { [0; THREADS] }
    }

    fn count(&self, number: usize, seed: u64) {
        let mut done = self.done(seed);
        done[number] += 1;
        self.0.set((seed, done));
    }
}

/// Runs transactions on one or two granules each, which conflict completely, in part, or not at all. Write sets overlap without being equal, because
/// undoing a later transaction must not leave a part of an earlier one. Some transactions declare no locks.
fn thread(
    ground: &Ground,
    kind: SchemeKind,
    (number, seed): (usize, u64),
    memory: &Hosted,
    progress: &Progress,
) -> Result<()> {
    let mut random = Rng::with_seed(seed ^ (number as u64 + 1) << 40);
    let mut worker = Worker::lease_of(ground.view(memory), kind, Concurrency::Locks, None)?;
    let plan = Plan::of(seed);
    for transaction in 0..plan.transactions(number) {
        while !plan.goes_on(number, transaction, progress.done(seed)) {
            memory.pause();
        }
        let [first, second] = plan.granules(number, transaction);
        let first = random.u64(first);
        let second = Some(random.u64(second)).filter(|&second| second != first && random.bool());
        let mut words = Vec::new();
        for granule in [Some(first), second].into_iter().flatten() {
            let word = random.u64(..2);
            words.push(ground.word(granule, word));
            if random.u8(..3) == 0 {
                words.push(ground.word(granule, 1 - word));
            }
        }
        let locks: Vec<Lock> = words.iter().map(|&at| Lock::word(at)).collect();
        // Every value is unique, so that an old version cannot be mistaken for a new one.
        let unique = seed << 24 | (number as u64 + 1) << 16 | (transaction + 1) << 8;
        let mut write = |tx: &mut _| {
            words.iter().enumerate().try_for_each(|(i, &at)| Transaction::write(tx, at, unique | i as u64))
        };
        match random.u8(..3) {
            // Locks that are taken late make the engine repeat the barrier after them.
            0 => worker.run(write)?,
            _ => worker.run_locked(&locks, &mut write)?,
        }
        progress.count(number, seed);
        if matches!(plan, Plan::Any(_)) && random.u8(..4) == 0 {
            worker.drain()?;
        }
    }
    if matches!(plan, Plan::Resting { busy, .. } if busy != number) || random.bool() {
        worker.drain()?;
    }
    progress.count(number, seed);
    while !plan.goes_on(number, plan.transactions(number), progress.done(seed)) {
        memory.pause();
    }
    Ok(())
}

/// Returns the papers' designs, under each model.
pub fn schemes() -> Vec<OrderedScheme> {
    schemes_of(strandline_schemes::ALL)
}

/// Returns the schemes of another registry that are written for a persistency model.
pub fn schemes_of(known: Schemes) -> Vec<OrderedScheme> {
    let ordered = |kind: SchemeKind| {
        let model = match kind.persistency? {
            Persistency::Strict => Model::Strict,
            Persistency::Epoch => Model::Epoch,
            Persistency::EagerSync => Model::EagerSync,
            // The barriers of epoch persistency, on the transaction's own strand.
            Persistency::Strand => Model::Strand { strands: None },
        };
        Some(OrderedScheme { kind, model, known })
    };
    known.iter().filter_map(ordered).collect()
}

impl OrderedScheme {
    /// Returns the scheme's name in `strandline-lab list`.
    pub fn name(&self) -> &'static str {
        self.kind.name(Concurrency::Locks)
    }

    /// Returns the barriers that the paper calls necessary (Figs. 2 to 5).
    pub fn barriers(&self) -> &'static [Barrier] {
        self.kind.barriers
    }

    /// Returns the barriers, and the orders between a barrier and a volatile store without which persists are out of order.
    pub fn mutants(&self) -> Vec<Barrier> {
        let generation =
            Barrier { step: Step::DeferredGenerationAfterBarrier, name: "generation", within: true };
        let redundant = |mode: &Mode| mode.redundant.iter().any(|(step, _)| *step == generation.step);
        let is_needed = self.kind.all_steps().any(|step| step == generation.step)
            && !self.kind.mode(Concurrency::Locks).is_some_and(redundant);
        self.barriers().iter().copied().chain(is_needed.then_some(generation)).collect()
    }

    /// Explores the scheme. `omitted` makes it a mutant, which is judged only by the order of persists.
    ///
    /// # Errors
    /// Returns an error if the scheme refuses the pool.
    pub fn explore(
        &self,
        omitted: Option<Step>,
        sampling: Sampling,
        session: &Session,
        progress: impl FnMut(&super::Counts),
    ) -> Result<Outcome> {
        let kind = self.kind;
        let ground = Ground::new(self)?;
        let performed = Progress::default();
        let recovery = |memory: &Hosted| {
            // The view borrows the memory of the present crash.
            let view = View { memory, layout: ground.layout, shared: ground.shared };
            recover(&view, self.known, |_| ()).map(|_| ()).map_err(|error| format!("{error:#}"))
        };
        let program = Program {
            model: self.model,
            image: ground.image.clone(),
            volatile_bytes: ground.shared.bytes(),
            data: ground.data(),
            threads: THREADS,
            prepare: &recovery,
            thread: &|number, seed, memory| {
                thread(&ground, kind, (number, seed), memory, &performed)
                    .map_err(|error| format!("{error:#}"))
            },
            recover: &recovery,
            omitted,
            acknowledgements: omitted.is_none(),
        };
        Ok(explore(&program, sampling, session, progress))
    }
}
