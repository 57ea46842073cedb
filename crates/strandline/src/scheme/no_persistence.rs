//! NP, no persistence (Blurred Persistence, section V-A): the same transactions with a volatile execution
//! area and nothing that makes them durable. The upper bound of every scheme.

use super::execution_area::ExecutionArea;
use super::{Full, RecoveryReport, RecoveryStep, Scheme, SchemeKind};
use crate::error::Error;
use crate::memory::{Memory, PersistentAddress};
use crate::pool::layout::View;

/// The execution area of one worker.
///
/// ```
/// # use std::rc::Rc;
/// # use strandline::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress, recorder::Recorder};
/// # use strandline::pool::{Geometry, Layout, SharedLayout, View};
/// # use strandline::{Concurrency, Read, Runner, Transaction, transaction::Worker};
/// # let geometry = Geometry { size: 1 << 18, logs: 2, log_bytes: 1 << 12, chunk_bytes: 1 << 12 };
/// # let layout = Layout::new(geometry)?;
/// # let shared = SharedLayout::new(&layout, 10, 0);
/// # let recorder = Rc::new(Recorder::new(vec![0; geometry.size as usize / 8], shared.bytes(), 0, 1, None));
/// # let view = View { memory: Hosted::new(recorder.clone(), 0), layout, shared };
/// use strandline::scheme::SchemeKind;
///
/// let mut worker = Worker::lease_of(view, SchemeKind::NoPersistence, Concurrency::Stm, None)?;
/// let before = worker.statistics().total;
/// worker.run(|tx| {
///     tx.write(tx.root(0), 5)?;
///     tx.write(tx.root(1), 6)
/// })?;
/// // Nothing was made durable.
/// assert_eq!(worker.statistics().total, before);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct NoPersistence(ExecutionArea);

impl Scheme for NoPersistence {
    const KIND: SchemeKind = SchemeKind::NoPersistence;

    fn lease<M: Memory>(_: &View<M>, _: u64) -> Self {
        Self(ExecutionArea::default())
    }

    fn release<M: Memory>(&mut self, _: &View<M>) {}

    #[inline(always)]
    fn begin<M: Memory>(&mut self, _: &View<M>) {
        self.0.clear();
    }

    #[inline(always)]
    fn write<M: Memory>(
        &mut self,
        _: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        Ok(self.0.write((at, value), previous))
    }

    #[inline(always)]
    fn value<M: Memory>(&self, _: &View<M>, place: u32) -> u64 {
        self.0.value(place)
    }

    fn recover<M: Memory>(_: &View<M>, _: &mut dyn FnMut(RecoveryStep)) -> Result<RecoveryReport, Error> {
        Err(Error::Unprotected { path: None })
    }

    /// Nothing tells what it has stored: its pools are made durable as a whole, when they are closed.
    fn drain<M: Memory>(_: &View<M>) {}
}
