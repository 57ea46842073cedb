//! A worker on either path, as workloads see it. Workloads are compiled once for both.
//!
//! The word workloads need only a [`Transaction`]. Typed code is compiled for the engine's own transaction type, so the few operations of the typed
//! workload are methods of the trait object.

use strandline::hosted::{initialise, with_root};
use strandline_core::engine::{Control, Over, Setup, SingleWriter, Stm, Tx, Worker};
use strandline_core::layout::View;
use strandline_core::memory::{Hosted, Memory};
use strandline_core::scheme::Product;
use strandline_core::sync::SharedLog;
use strandline_core::transaction::Statistics;
use strandline_core::{Abort, Concurrency, Error, Read, Result, Runner, Transaction};
use strandline_schemes::{PlainTx, PlainWorker, Program};
use strandline_structures::model::typed::Everything;
use strandline_structures::model::{Contents, Operation, Outcome};

/// A transaction with the operations of the typed workload.
pub(crate) trait CheckedTx: Transaction {
    /// Calls [`Everything::apply`].
    fn apply(&mut self, operation: &Operation) -> Result<Outcome, Abort>;
    /// Calls [`Everything::contents`].
    fn contents(&mut self) -> Result<Contents, Abort>;
}

impl<C: Control> CheckedTx for Tx<C> {
    fn apply(&mut self, operation: &Operation) -> Result<Outcome, Abort> {
        with_root::<Everything, _, C>(self, |tx, root| Everything::apply(tx, root, operation))
    }

    fn contents(&mut self) -> Result<Contents, Abort> {
        with_root::<Everything, _, C>(self, |tx, root| Everything::contents(tx, root))
    }
}

/// A plain program supports only words.
impl<M: Memory> CheckedTx for PlainTx<M> {
    fn apply(&mut self, _: &Operation) -> Result<Outcome, Abort> {
        Err(self.fail(Error::Unsupported("typed collections in a plain program".into())))
    }

    fn contents(&mut self) -> Result<Contents, Abort> {
        Err(self.fail(Error::Unsupported("typed collections in a plain program".into())))
    }
}

type Body<'b> = dyn FnMut(&mut dyn CheckedTx) -> Result<(), Abort> + 'b;

/// The operations that workloads need of a worker, without generic methods.
trait Checked {
    fn execute(&mut self, reads_only: bool, body: &mut Body) -> Result<()>;
    fn make_everything(&mut self) -> Result<()>;
    fn drain(&mut self) -> Result<()>;
    fn statistics(&self) -> Statistics;
    fn log_index(&self) -> u64;
    /// Calls [`Worker::release_held`].
    fn release_held(&mut self) -> Result<()> {
        Ok(())
    }
    /// Calls [`Worker::compact`]; returns where to continue.
    fn compact(&mut self, _from: u64) -> Result<Option<u64>> {
        Err(Error::Unsupported("a compaction by a plain program".into()))
    }
    fn rolls_back(&self) -> bool {
        true
    }
}

/// A plain worker, and its arena's number.
impl<M: Memory> Checked for (PlainWorker<M>, u64) {
    fn execute(&mut self, reads_only: bool, body: &mut Body) -> Result<()> {
        if reads_only { self.0.view(|tx| body(tx)) } else { self.0.run(|tx| body(tx)) }
    }

    fn make_everything(&mut self) -> Result<()> {
        Err(Error::Unsupported("typed collections in a plain program".into()))
    }

    fn drain(&mut self) -> Result<()> {
        Runner::drain(&mut self.0)
    }

    fn statistics(&self) -> Statistics {
        Runner::statistics(&self.0)
    }

    fn log_index(&self) -> u64 {
        self.1
    }

    fn rolls_back(&self) -> bool {
        Runner::rolls_back(&self.0)
    }
}

impl<C: Control> Checked for Worker<C> {
    fn execute(&mut self, reads_only: bool, body: &mut Body) -> Result<()> {
        if reads_only { self.view(|tx| body(tx)) } else { self.run(|tx| body(tx)) }
    }

    fn make_everything(&mut self) -> Result<()> {
        initialise::<Everything, C>(self, |tx| Everything::new(tx))
    }

    fn drain(&mut self) -> Result<()> {
        Runner::drain(self)
    }

    fn statistics(&self) -> Statistics {
        Runner::statistics(self)
    }

    fn log_index(&self) -> u64 {
        Worker::log_index(self)
    }

    fn release_held(&mut self) -> Result<()> {
        Worker::release_held(self)
    }

    fn compact(&mut self, from: u64) -> Result<Option<u64>> {
        Worker::compact(self, from).map(|done| done.next)
    }
}

/// Creates a worker on the product's path.
fn product<'m, C: Control<Scheme = Product> + 'm>(
    view: View<&'m Hosted>,
    control: C,
    shared_log: Option<SharedLog>,
) -> Result<Box<dyn Checked + 'm>>
where
    Setup<C>: From<C>,
{
    let mut worker = Worker::lease(view, control, shared_log)?;
    // Only the device world permits large transactions, since its oracle knows them.
    if shared_log.is_none() {
        worker.keep_to_log();
    }
    Ok(Box::new(worker))
}

/// A worker on either path.
pub(crate) struct AnyWorker<'m>(Box<dyn Checked + 'm>);

impl<'m> AnyWorker<'m> {
    /// Creates a worker on the laboratory's path.
    pub fn laboratory(worker: Worker<Over<Concurrency, &'m Hosted>>) -> Self {
        Self(Box::new(worker))
    }

    /// Creates a worker on the product's path.
    ///
    /// # Errors
    /// Returns the errors of [`Worker::lease`], and [`Error::Parameter`] if there is no such mode.
    pub fn product(
        view: View<&'m Hosted>,
        concurrency: Concurrency,
        shared_log: Option<SharedLog>,
    ) -> Result<Self> {
        Ok(Self(match concurrency {
            Concurrency::Stm => product(view, Stm, shared_log)?,
            Concurrency::SingleWriter => product(view, SingleWriter, shared_log)?,
            Concurrency::Locks => return Err(Error::Parameter("the product has no mode with locks".into())),
        }))
    }

    /// Creates a plain program's worker with the arena of this number.
    pub fn plain(view: View<&'m Hosted>, index: u64, program: Program) -> Self {
        Self(Box::new((PlainWorker::new(view, index, program), index)))
    }

    /// Calls [`Worker::log_index`].
    pub fn log_index(&self) -> u64 {
        self.0.log_index()
    }

    /// Frees the chunks that a compaction held when the power failed: calls [`Worker::release_held`].
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn release_held(&mut self) -> Result<()> {
        self.0.release_held()
    }

    /// Releases the disk space of all free chunks: calls [`Worker::compact`].
    ///
    /// # Errors
    /// Returns an error if the device fails.
    pub fn compact(&mut self) -> Result<()> {
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.0.compact(from)?;
        }
        Ok(())
    }

    /// Creates the collections of the typed workload.
    ///
    /// # Errors
    /// Returns an error if the pool is too small.
    pub fn make_everything(&mut self) -> Result<()> {
        self.0.make_everything()
    }

    fn execute<R>(
        &mut self,
        reads_only: bool,
        mut body: impl FnMut(&mut &mut dyn CheckedTx) -> Result<R, Abort>,
    ) -> Result<R> {
        let mut result = None;
        self.0.execute(reads_only, &mut |mut tx| {
            result = Some(body(&mut tx)?);
            Ok(())
        })?;
        Ok(result.expect("a transaction commits after its body has run"))
    }
}

impl Runner for AnyWorker<'_> {
    type Tx<'t> = &'t mut (dyn CheckedTx + 't);

    fn run<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R> {
        self.execute(false, body)
    }

    fn view<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R> {
        self.execute(true, body)
    }

    fn drain(&mut self) -> Result<()> {
        self.0.drain()
    }

    fn statistics(&self) -> Statistics {
        self.0.statistics()
    }

    fn rolls_back(&self) -> bool {
        self.0.rolls_back()
    }
}
