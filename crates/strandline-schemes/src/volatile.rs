//! `volatile`: the same structures by plain loads and stores under one lock. No transactions, no recovery;
//! the in-run reference that every scheme is measured against.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use strandline_core::Pool;
use strandline_core::engine::Control;
use strandline_core::error::{Error, Result};
use strandline_core::heap::{self, Access, Arenas};
use strandline_core::layout::{Layout, SharedLayout, View};
use strandline_core::memory::{Memory, Native, PersistentAddress};
use strandline_core::transaction::{Abort, Lock, Read, Runner, Statistics, Transaction};

/// One thread's use of a pool without transactions.
///
/// ```
/// # use strandline_core::example::*;
/// # let pool = pool();
/// let mut worker = strandline_schemes::VolatileWorker::in_pool(&pool, 0)?;
/// let given_up: strandline_core::Result<()> = worker.run(|tx| {
///     tx.write(tx.root(0), 5)?;
///     Err(strandline_core::Abort::User)
/// });
/// assert!(given_up.is_err());
/// // There is no transaction that could be rolled back.
/// assert_eq!(worker.view(|tx| tx.read(tx.root(0)))?, 5);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct VolatileWorker<M: Memory>(VolatileTx<M>);

struct Direct<M> {
    view: View<M>,
    error: Option<Error>,
    statistics: Statistics,
}

/// A stretch of plain loads and stores under the lock.
pub struct VolatileTx<M: Memory> {
    direct: Direct<M>,
    arenas: Arenas,
    /// The region that the transaction declared.
    region: Option<u32>,
}

impl VolatileWorker<Native> {
    /// One that allocates from arena `index` of an open pool, which is marked as used without persistence.
    ///
    /// # Errors
    /// As [`Pool::unprotected_view`].
    pub fn in_pool<C: Control<Native>>(pool: &Pool<C>, index: u64) -> Result<Self> {
        Ok(Self::new(pool.unprotected_view()?, index))
    }
}

impl<M: Memory> VolatileWorker<M> {
    /// A worker that allocates from arena `index`.
    pub fn new(view: View<M>, index: u64) -> Self {
        let direct = Direct { view, error: None, statistics: Statistics::default() };
        Self(VolatileTx { direct, arenas: Arenas::new(index), region: None })
    }

    fn locked<R>(&mut self, mut body: impl FnMut(&mut VolatileTx<M>) -> Result<R, Abort>) -> Result<R> {
        self.0.direct.view.memory.admit_thread();
        self.0.direct.view.memory.begin_transaction()?;
        self.0.direct.view.memory.lock(SharedLayout::WRITER);
        let outcome = catch_unwind(AssertUnwindSafe(|| body(&mut self.0)));
        self.0.direct.view.memory.unlock(SharedLayout::WRITER);
        self.0.direct.view.memory.end_transaction();
        let result = outcome.unwrap_or_else(|panic| resume_unwind(panic));
        if self.0.direct.view.memory.is_forked() {
            // The closure forked, and this is the child.
            return Err(Error::Forked);
        }
        self.0.direct.statistics.commits += 1;
        result.map_err(|_| self.0.direct.error.take().unwrap_or(Error::Aborted))
    }
}

impl<M: Memory> Runner for VolatileWorker<M> {
    type Tx<'t> = VolatileTx<M>;

    fn run<R>(&mut self, body: impl FnMut(&mut VolatileTx<M>) -> Result<R, Abort>) -> Result<R> {
        self.locked(body)
    }

    fn run_locked<R>(
        &mut self,
        locks: &[Lock],
        body: impl FnMut(&mut VolatileTx<M>) -> Result<R, Abort>,
    ) -> Result<R> {
        self.0.region = Lock::first_region(locks);
        let result = self.locked(body);
        self.0.region = None;
        result
    }

    fn view<R>(&mut self, body: impl FnMut(&mut VolatileTx<M>) -> Result<R, Abort>) -> Result<R> {
        self.locked(body)
    }

    fn statistics(&self) -> Statistics {
        Statistics { total: self.0.direct.view.memory.counters(), ..self.0.direct.statistics }
    }

    fn rolls_back(&self) -> bool {
        false
    }
}

impl<M: Memory> Access for Direct<M> {
    #[inline(always)]
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        if self.view.layout.is_data(at, 1) {
            Ok(self.view.memory.load(at))
        } else {
            Err(self.fail(Error::InvalidAddress(at.offset())))
        }
    }

    #[inline(always)]
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        if into.is_empty() || self.view.layout.is_data(at, into.len() as u64) {
            self.view.memory.load_range(at, into);
            Ok(())
        } else {
            Err(self.fail(Error::InvalidAddress(at.offset())))
        }
    }

    #[inline(always)]
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.write_range(at, &[value])
    }

    #[inline(always)]
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        if from.is_empty() || self.view.layout.is_data(at, from.len() as u64) {
            self.view.memory.store_range(at, from);
            Ok(())
        } else {
            Err(self.fail(Error::InvalidAddress(at.offset())))
        }
    }

    fn hint(&self, at: PersistentAddress) -> u64 {
        self.view.memory.load(at)
    }

    fn fail(&mut self, error: Error) -> Abort {
        self.error.get_or_insert(error);
        Abort::Failed
    }

    fn layout(&self) -> &Layout {
        &self.view.layout
    }
}

impl<M: Memory> Read for VolatileTx<M> {
    #[inline(always)]
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.direct.read(at)
    }
    #[inline(always)]
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.direct.read_range(at, into)
    }
    fn root(&self, index: u64) -> PersistentAddress {
        self.direct.view.layout.root(index)
    }
    fn fail(&mut self, error: Error) -> Abort {
        self.direct.fail(error)
    }
    fn data_words(&self) -> u64 {
        self.direct.view.layout.data_words()
    }
    fn find_block(&mut self, at: PersistentAddress) -> Result<Option<u64>, Abort> {
        heap::find_block(&mut self.direct, at)
    }
    fn is_allocated(&mut self, at: PersistentAddress) -> Result<bool, Abort> {
        heap::is_allocated(&mut self.direct, at)
    }
    fn tolerate(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Read) -> Result<(), Abort>,
    ) -> Result<Option<Error>, Abort> {
        let before = self.direct.error.take();
        let outcome = body(self);
        let failed = std::mem::replace(&mut self.direct.error, before);
        match outcome {
            Ok(()) | Err(Abort::Failed) => Ok(failed),
            Err(abort) => Err(abort),
        }
    }
}

impl<M: Memory> Transaction for VolatileTx<M> {
    #[inline(always)]
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.direct.write(at, value)
    }
    #[inline(always)]
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        self.direct.write_range(at, from)
    }
    fn alloc(&mut self, bytes: u64) -> Result<PersistentAddress, Abort> {
        self.arenas.alloc(&mut self.direct, self.region, bytes)
    }
    fn free(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        self.arenas.free(&mut self.direct, self.region, at)
    }
    fn block(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        heap::block(&mut self.direct, at)
    }
}
