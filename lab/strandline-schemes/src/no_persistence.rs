//! NP, no persistence (Blurred Persistence, section V-A): the same transactions with a volatile execution area, and without durability. It is the
//! upper bound of every scheme.

use crate::execution_area::ExecutionArea;
use crate::native;
use strandline_core::error::Error;
use strandline_core::layout::View;
use strandline_core::memory::{Memory, PersistentAddress};
use strandline_core::scheme::PAPER;
use strandline_core::scheme::{
    Durability, Full, Mode, Of, RecoveryReport, RecoveryStep, Scheme, SchemeDescriptor,
};
use strandline_core::transaction::Concurrency;

/// The execution area of one worker.
struct NoPersistence(ExecutionArea);

/// NP: transactions without persistence.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_schemes::NP;
///
/// let mut worker = Worker::lease_of(view, &NP, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| {
///     tx.write(tx.root(0), 5)?;
///     tx.write(tx.root(1), 6)
/// })?;
/// // Nothing was made durable.
/// assert_eq!(worker.statistics().total, before);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub static NP: SchemeDescriptor = SchemeDescriptor {
    code: 1,
    modes: &[
        Mode { concurrency: Concurrency::Stm, name: "np", redundant: &[] },
        Mode { concurrency: Concurrency::SingleWriter, name: "np+single-writer", redundant: &[] },
        Mode { concurrency: Concurrency::Locks, name: "np+locks", redundant: &[] },
    ],
    source: PAPER,
    description: "transactions without persistence: the upper bound",
    durability: Durability::Nobody,
    leftover: |_, _, _| (),
    commit_cost: Some(|_, _, _| (0, 0, 0)),
    ..native(&Of::<NoPersistence>::NEW)
};

impl Scheme for NoPersistence {
    fn lease<M: Memory>(_: &View<M>, _: u64) -> Self {
        Self(ExecutionArea::default())
    }

    fn release<M: Memory>(&mut self, _: &View<M>) {}

    fn begin<M: Memory>(&mut self, _: &View<M>) {
        self.0.clear();
    }

    fn write<M: Memory>(
        &mut self,
        view: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        Ok(self.0.write(&view.memory, (at, value), previous))
    }

    fn value<M: Memory>(&self, view: &View<M>, place: u32) -> u64 {
        self.0.value(&view.memory, place)
    }

    fn recover<M: Memory>(_: &View<M>, _: &mut dyn FnMut(RecoveryStep)) -> Result<RecoveryReport, Error> {
        Err(Error::Unprotected { path: None })
    }

    /// Does nothing: the scheme's pools become durable as a whole when they are closed, because it does not record what it stored.
    fn drain<M: Memory>(_: &View<M>) {}
}
