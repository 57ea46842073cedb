//! The schemes that are explored under their persistency models, their barriers, and small histories for them.

use std::ops::Range;
use std::rc::Rc;

use fastrand::Rng;
use strandline_core::engine::Worker;
use strandline_core::layout::{Geometry, Layout, SharedLayout, View};
use strandline_core::memory::recorder::Recorder;
use strandline_core::memory::{Hosted, PersistentAddress, Step, World};
use strandline_core::scheme::{Barrier, Persistency, SchemeKind, Schemes, recover};
use strandline_core::transaction::Concurrency;
use strandline_core::{Lock, Result, Runner, Transaction};
use strandline_persistency::Model;

use super::explore::{Outcome, Program, Sampling, explore};

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

/// One to three transactions, each on one or two granules: they conflict, or do not, or in part. Undoing a later one
/// must not leave a part of an earlier one, so write sets overlap without being equal. Some transactions declare no locks.
fn thread(ground: &Ground, kind: SchemeKind, number: usize, seed: u64, memory: &Hosted) -> Result<()> {
    let mut random = Rng::with_seed(seed ^ (number as u64 + 1) << 40);
    let mut worker = Worker::lease_of(ground.view(memory), kind, Concurrency::Locks, None)?;
    for transaction in 0..random.u64(1..=3) {
        let first = random.u64(..GRANULES);
        let second = random.bool().then(|| (first + random.u64(1..GRANULES)) % GRANULES);
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
        if random.u8(..4) == 0 {
            worker.drain()?;
        }
    }
    if random.bool() {
        worker.drain()?;
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

    /// Explores it; `omitted` makes a mutant, which is judged by the order of persists alone.
    ///
    /// # Errors
    /// The scheme refuses the pool.
    pub fn explore(
        &self,
        omitted: Option<Step>,
        sampling: Sampling,
        progress: impl FnMut(&super::Counts),
    ) -> Result<Outcome> {
        let kind = self.kind;
        let ground = Ground::new(self)?;
        let recovery = |memory: &Hosted| {
            // The view is lent: what stands behind it is this crash's memory.
            let view = View { memory, layout: ground.layout, shared: ground.shared };
            recover(&view, self.known, |_| ()).map(|_| ()).map_err(|error| error.to_string())
        };
        let program = Program {
            model: self.model,
            image: ground.image.clone(),
            volatile_bytes: ground.shared.bytes(),
            data: ground.data(),
            threads: THREADS,
            prepare: &recovery,
            thread: &|number, seed, memory| {
                thread(&ground, kind, number, seed, memory).map_err(|error| error.to_string())
            },
            recover: &recovery,
            omitted,
            acknowledgements: omitted.is_none(),
        };
        Ok(explore(&program, sampling, progress))
    }
}
