//! The schemes that are explored under their persistency models, their barriers, and small histories for them.

use std::ops::Range;
use std::rc::Rc;

use fastrand::Rng;
use strandline::memory::recorder::Recorder;
use strandline::memory::{Hosted, PersistentAddress, Step, World};
use strandline::pool::{Geometry, Layout, SharedLayout, View};
use strandline::scheme::{SchemeKind, recover};
use strandline::transaction::{Concurrency, Worker};
use strandline::{Error, Lock, Result, Runner, Transaction};
use strandline_persistency::Model;

use super::explore::{Outcome, Program, Sampling, explore};

/// A barrier of a design under a model, by the step that it is.
#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    /// The step.
    pub step: Step,
    /// The paper's name for it.
    pub name: &'static str,
    /// Whether it stands within the transaction, and so counts in the claim (D9).
    pub within: bool,
}

const fn within(step: Step, name: &'static str) -> Barrier {
    Barrier { step, name, within: true }
}

const fn later(step: Step, name: &'static str) -> Barrier {
    Barrier { step, name, within: false }
}

/// A design under a model.
#[derive(Clone, Copy)]
pub struct OrderedScheme {
    /// The scheme's name in `strandline list`.
    pub name: &'static str,
    /// The model.
    pub model: Model,
    /// The barriers that the paper calls necessary (Figs. 2 to 5).
    pub barriers: &'static [Barrier],
}

/// Bytes whose words share a lock.
const GRANULE_BYTES: u64 = 256;
/// Granules that transactions write in.
const GRANULES: u64 = 3;
/// Threads.
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
        lease(&ground, scheme.kind()?, &Hosted::new(world, 0))?;
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
/// must not leave a part of an earlier one, so write sets overlap without being equal.
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
        worker.run_locked(&locks, |tx| {
            for (i, &at) in words.iter().enumerate() {
                tx.write(at, unique | i as u64)?;
            }
            Ok(())
        })?;
        if random.u8(..4) == 0 {
            worker.drain()?;
        }
    }
    if random.bool() {
        worker.drain()?;
    }
    Ok(())
}

/// The designs under each model. Strict persistency needs no barriers. Under strand persistency the barriers are
/// those of epoch persistency, on the transaction's own strand.
pub const SCHEMES: [OrderedScheme; 8] = [
    OrderedScheme { name: "sct-strict", model: Model::Strict, barriers: &[] },
    OrderedScheme { name: "sct-epoch", model: Model::Epoch, barriers: &SCT },
    OrderedScheme { name: "sct-eager-sync", model: Model::EagerSync, barriers: SCT_EAGER },
    OrderedScheme { name: "sct-strand", model: Model::Strand { strands: None }, barriers: &SCT },
    OrderedScheme { name: "dct-strict", model: Model::Strict, barriers: &[] },
    OrderedScheme { name: "dct-epoch", model: Model::Epoch, barriers: DCT_EPOCH },
    OrderedScheme { name: "dct-eager-sync", model: Model::EagerSync, barriers: DCT_EAGER },
    OrderedScheme { name: "dct-strand", model: Model::Strand { strands: None }, barriers: DCT_STRAND },
];

const SCT: [Barrier; 4] = [
    within(Step::SynchronousLockBarrier, "PB1"),
    within(Step::SynchronousPrepareBarrier, "PB2"),
    within(Step::SynchronousMutateBarrier, "PB3"),
    within(Step::SynchronousCommitBarrier, "PB4"),
];
const SCT_EAGER: &[Barrier] = &[
    within(Step::SynchronousPrepareBarrier, "SB1"),
    within(Step::SynchronousMutateBarrier, "SB2"),
    within(Step::SynchronousCommitBarrier, "SB3"),
];
const DCT_EPOCH: &[Barrier] = &[
    within(Step::DeferredLockBarrier, "PB1"),
    within(Step::DeferredPrepareBarrier, "PB2"),
    later(Step::DeferredMutateBarrier, "PBz"),
];
const DCT_EAGER: &[Barrier] = &[
    within(Step::DeferredPrepareBarrier, "SB1"),
    later(Step::DeferredMutateBarrier, "SBx"),
    later(Step::DeferredCommitBarrier, "SBy"),
];
// The one before the log entry's lock is released is not among them: `docs/papers/deferred-commit.md` says why.
const DCT_STRAND: &[Barrier] = &[
    within(Step::DeferredLockBarrier, "PB1"),
    within(Step::DeferredPrepareBarrier, "PB2"),
    within(Step::DeferredMutateBarrier, "PBz"),
];

impl OrderedScheme {
    /// The scheme in the library.
    ///
    /// # Errors
    /// There is none of this name.
    fn kind(&self) -> Result<SchemeKind> {
        let found = SchemeKind::ALL.iter().find(|kind| kind.name(Concurrency::Locks) == self.name);
        found.copied().ok_or_else(|| Error::Parameter(format!("there is no scheme {}", self.name)))
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
        let kind = self.kind()?;
        let ground = Ground::new(self)?;
        let recovery = |memory: &Hosted| {
            // The view is lent: what stands behind it is this crash's memory.
            let view = View { memory, layout: ground.layout, shared: ground.shared };
            recover(&view, |_| ()).map(|_| ()).map_err(|error| error.to_string())
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
