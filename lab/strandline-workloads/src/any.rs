//! Type-erased workloads, so that each workload is compiled once for all schemes and memories, and once more for each control of the product's path.

#[cfg(feature = "calibration")]
use strandline_core::Concurrency;
use strandline_core::Result;
use strandline_core::engine::{Control, Setup, SingleWriter};
use strandline_core::file::Pool;
use strandline_core::memory::Native;
use strandline_core::transaction::{AnyRunner, Runner, Statistics};

use crate::{Client, NewPool, Product, Transactions, Workload};

/// A type-erased [`Workload`], for type-erased runners.
pub trait AnyWorkload {
    /// Like [`Workload::heap_bytes`].
    fn heap_bytes(&self) -> u64;

    /// Like [`Workload::most_threads`].
    fn most_threads(&self) -> u64;

    /// Like [`Workload::prepare`].
    ///
    /// # Errors
    /// As for [`Workload::prepare`].
    fn prepare(&self, runner: &mut AnyRunner) -> Result<()>;

    /// Like [`Workload::thread`].
    ///
    /// # Errors
    /// As for [`Workload::thread`].
    fn thread(&self, runner: &mut AnyRunner, seed: u64) -> Result<Box<dyn AnyTransactions>>;

    /// Like [`Workload::check`].
    ///
    /// # Errors
    /// As for [`Workload::check`].
    fn check(&self, runner: &mut AnyRunner) -> Result<()>;
}

/// Type-erased [`Transactions`], for type-erased runners.
pub trait AnyTransactions {
    /// Like [`Transactions::transaction`].
    ///
    /// # Errors
    /// As for [`Transactions::transaction`].
    fn transaction(&mut self, runner: &mut AnyRunner) -> Result<()>;
}

impl<W: Workload> AnyWorkload for W {
    fn heap_bytes(&self) -> u64 {
        Workload::heap_bytes(self)
    }

    fn most_threads(&self) -> u64 {
        Workload::most_threads(self)
    }

    fn prepare(&self, runner: &mut AnyRunner) -> Result<()> {
        Workload::prepare(self, runner)
    }

    fn thread(&self, runner: &mut AnyRunner, seed: u64) -> Result<Box<dyn AnyTransactions>> {
        Ok(Box::new(Workload::thread(self, runner, seed)?))
    }

    fn check(&self, runner: &mut AnyRunner) -> Result<()> {
        Workload::check(self, runner)
    }
}

impl<T: Transactions> AnyTransactions for T {
    fn transaction(&mut self, runner: &mut AnyRunner) -> Result<()> {
        Transactions::transaction(self, runner)
    }
}

/// A client on a type-erased runner.
pub(crate) struct ErasedClient {
    runner: AnyRunner<'static>,
    thread: Box<dyn AnyTransactions>,
}

impl ErasedClient {
    /// Opens the workload's structure.
    pub fn new(workload: &dyn AnyWorkload, mut runner: AnyRunner<'static>, seed: u64) -> Result<Self> {
        let thread = workload.thread(&mut runner, seed)?;
        Ok(Self { runner, thread })
    }
}

impl Client for ErasedClient {
    fn transaction(&mut self) -> Result<()> {
        self.thread.transaction(&mut self.runner)
    }

    fn drain(&mut self) -> Result<()> {
        self.runner.drain()
    }

    fn statistics(&self) -> Statistics {
        self.runner.statistics()
    }
}

/// A type-erased [`Workload`] that is also compiled for the product's path.
pub trait InlinedWorkload: AnyWorkload + Send + Sync {
    /// Returns a client on the product's path: BPPM on native memory, inlined into the workload's transactions.
    ///
    /// # Errors
    /// As for [`Product::client`].
    fn inlined(&self, pool: &Pool, seed: u64) -> Result<Box<dyn Client>>;

    /// Returns a client on the product's path with a single writer.
    ///
    /// # Errors
    /// As for [`Product::client`].
    fn inlined_single_writer(&self, pool: &Pool<SingleWriter>, seed: u64) -> Result<Box<dyn Client>>;

    /// Returns a client that is an inlined plain program, alone on native memory. Its instructions are counted.
    ///
    /// # Errors
    /// Returns the errors of [`AnyWorkload::thread`] and [`Pool::unprotected_view`].
    #[cfg(feature = "calibration")]
    fn plain(&self, pool: &Pool<Concurrency>, seed: u64) -> Result<Box<dyn Client>>;
}

impl<W: Workload + Send + Sync> InlinedWorkload for W {
    fn inlined(&self, pool: &Pool, seed: u64) -> Result<Box<dyn Client>> {
        inlined(self, pool, seed)
    }

    fn inlined_single_writer(&self, pool: &Pool<SingleWriter>, seed: u64) -> Result<Box<dyn Client>> {
        inlined(self, pool, seed)
    }

    #[cfg(feature = "calibration")]
    fn plain(&self, pool: &Pool<Concurrency>, seed: u64) -> Result<Box<dyn Client>> {
        let mut worker = crate::plain_program::PlainProgram::new(&pool.unprotected_view()?);
        let thread = Workload::thread(self, &mut worker, seed)?;
        Ok(Box::new(InlinedClient { worker, thread }))
    }
}

fn inlined<W, C>(workload: &W, pool: &Pool<C>, seed: u64) -> Result<Box<dyn Client>>
where
    W: Workload,
    C: Control<Memory = Native> + 'static,
{
    // Opening is not measured, so it uses the type-erased code.
    let thread = Workload::thread(workload, &mut AnyRunner::new(pool.worker()?), seed)?;
    Ok(Box::new(InlinedClient { worker: pool.worker()?, thread }))
}

/// The product's path, with transactions on words.
pub(crate) struct Words<'w, C: Control<Memory = Native>> {
    pool: Pool<C>,
    workload: &'w dyn InlinedWorkload,
    client: InlinedClientOf<C>,
}

/// A method of [`InlinedWorkload`] that returns a client.
pub(crate) type InlinedClientOf<C> = fn(&dyn InlinedWorkload, &Pool<C>, u64) -> Result<Box<dyn Client>>;

impl<'w, C: Control<Memory = Native>> Words<'w, C> {
    /// Creates a pool as an application does, fills it, and reopens it for measuring.
    pub fn create(
        workload: &'w dyn InlinedWorkload,
        (setup, client): (Setup<C>, InlinedClientOf<C>),
        new: &NewPool,
    ) -> Result<Self> {
        let pool = setup.create(&new.path, &new.filling)?;
        workload.prepare(&mut AnyRunner::new(pool.worker()?))?;
        pool.close()?;
        Ok(Self { pool: new.open(|path, options| setup.open(path, options))?, workload, client })
    }
}

impl<C: Control<Memory = Native>> Product for Words<'_, C> {
    fn client(&self, seed: u64) -> Result<Box<dyn Client + '_>> {
        (self.client)(self.workload, &self.pool, seed)
    }

    fn check(&self) -> Result<()> {
        self.workload.check(&mut AnyRunner::new(self.pool.worker()?))
    }
}

/// A thread with the one type of runner that its transactions are compiled for.
struct InlinedClient<R, T> {
    worker: R,
    thread: T,
}

impl<R: Runner, T: Transactions> Client for InlinedClient<R, T> {
    fn transaction(&mut self) -> Result<()> {
        self.thread.transaction(&mut self.worker)
    }

    fn drain(&mut self) -> Result<()> {
        self.worker.drain()
    }

    fn statistics(&self) -> Statistics {
        self.worker.statistics()
    }
}
