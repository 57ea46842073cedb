//! The schemes that are explored under their persistency models, their barriers, and small histories for them.

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

/// A design under a model.
#[derive(Clone, Copy)]
pub struct OrderedScheme {
    /// What is to be known of the scheme.
    pub kind: SchemeKind,
    /// The persistency model that orders its persists.
    pub model: Model,
    /// The schemes whose pools its program recovers.
    pub known: Schemes,
}

/// Bytes whose words share a lock.
const GRANULE_BYTES: u64 = 256;
/// Granules that transactions write in.
const GRANULES: u64 = 3;
const THREADS: usize = 2;

/// Where everything lies in the pools of these histories.
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
        // A pool whose logs are this scheme's, and nothing in progress.
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

    /// Word `word` of granule `granule`. The page of the roots has room for them.
    fn word(&self, granule: u64, word: u64) -> PersistentAddress {
        self.layout.data.byte(GRANULE_BYTES * (1 + granule)).word(word)
    }
}

/// Leases all logs and gives them back.
fn lease(ground: &Ground, kind: SchemeKind, memory: &Hosted) -> Result<()> {
    let lease = |_| Worker::lease_of(ground.view(memory), kind, Concurrency::Locks, None);
    (0..THREADS).map(lease).collect::<Result<Vec<_>>>()?;
    Ok(())
}

/// What a history's threads do.
#[derive(Clone, Copy)]
enum Plan {
    /// So many transactions of each, on any granules.
    Any([u64; THREADS]),
    /// A lock rests while a log entry gets its second user: after the other thread's first transaction, thread `busy` performs
    /// `transactions`, more than its log has entries, the first on the first granule and the others elsewhere; then the other
    /// thread performs the rest of its `others` on the first granule. Together they are no more than the oracle takes for
    /// optional.
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

    /// How many transactions thread `number` performs.
    fn transactions(self, number: usize) -> u64 {
        match self {
            Self::Any(transactions) => transactions[number],
            Self::Resting { busy, transactions, .. } if number == busy => transactions,
            Self::Resting { others, .. } => others,
        }
    }

    /// Among which granules a transaction of thread `number` chooses the first, and the second if it uses two.
    fn granules(self, number: usize, transaction: u64) -> [Range<u64>; 2] {
        match self {
            Self::Any(_) => [0..GRANULES, 0..GRANULES],
            Self::Resting { busy, .. } if number == busy && transaction > 0 => [1..GRANULES, 1..GRANULES],
            Self::Resting { .. } => [0..1, 0..GRANULES],
        }
    }

    /// Returns whether thread `number` may go on after `transaction` of its transactions, when the threads have performed `done`.
    fn goes_on(self, number: usize, transaction: u64, done: [u64; THREADS]) -> bool {
        match self {
            Self::Resting { busy, transactions, others } if number == busy => match transaction {
                0 => done[1 - busy] > 0,
                // Its worker does not end, and wait for its persists, before the other thread has committed.
                _ => transaction < transactions || done[1 - busy] > others,
            },
            Self::Resting { busy, transactions, .. } => transaction == 0 || done[busy] >= transactions,
            Self::Any(_) => true,
        }
    }
}

/// How many transactions of a history, by its seed, the threads have performed.
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

/// Transactions on one or two granules each: they conflict, or do not, or in part. Undoing a later one
/// must not leave a part of an earlier one, so write sets overlap without being equal. Some transactions declare no locks.
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
        // Every value is unique, so that an old version is never taken for a new one.
        let unique = seed << 24 | (number as u64 + 1) << 16 | (transaction + 1) << 8;
        let mut write = |tx: &mut _| {
            words.iter().enumerate().try_for_each(|(i, &at)| Transaction::write(tx, at, unique | i as u64))
        };
        match random.u8(..3) {
            // Locks that are taken late: the barrier behind them is repeated.
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

/// The papers' designs, under each model.
pub fn schemes() -> Vec<OrderedScheme> {
    schemes_of(strandline_schemes::ALL)
}

/// Those of another registry's schemes that are written for a persistency model.
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
    /// The scheme's name in `strandline-lab list`.
    pub fn name(&self) -> &'static str {
        self.kind.name(Concurrency::Locks)
    }

    /// The barriers that the paper calls necessary (Figs. 2 to 5).
    pub fn barriers(&self) -> &'static [Barrier] {
        self.kind.barriers
    }

    /// The barriers, and an order between a barrier and a volatile store, without which persists are out of order.
    pub fn mutants(&self) -> Vec<Barrier> {
        let generation =
            Barrier { step: Step::DeferredGenerationAfterBarrier, name: "generation", within: true };
        let redundant = |mode: &Mode| mode.redundant.iter().any(|(step, _)| *step == generation.step);
        let is_needed = self.kind.all_steps().any(|step| step == generation.step)
            && !self.kind.mode(Concurrency::Locks).is_some_and(redundant);
        self.barriers().iter().copied().chain(is_needed.then_some(generation)).collect()
    }

    /// Explores it; `omitted` makes a mutant, which is judged by the order of persists alone.
    ///
    /// # Errors
    /// The scheme refuses the pool.
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
            // The view is lent: what stands behind it is this crash's memory.
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
