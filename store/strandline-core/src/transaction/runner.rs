//! Runners of transactions.

use super::{Abort, Lock, Statistics, Transaction};
use crate::error::Result;

/// A runner of transactions of a certain type. Drivers and benchmarks are generic over it.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_core::engine::Stm;
///
/// // Runs on any scheme's worker, in any memory.
/// fn count(runner: &mut impl Runner) -> strandline_core::Result<u64> {
///     runner.run(|tx| {
///         let count = tx.read(tx.root(0))? + 1;
///         tx.write(tx.root(0), count)?;
///         Ok(count)
///     })
/// }
///
/// assert_eq!(count(&mut pool().worker()?)?, 1);
/// assert_eq!(count(&mut Worker::lease(view, Stm, None)?)?, 1);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub trait Runner {
    /// The type of its transactions, which it lends for some time.
    type Tx<'t>: Transaction;

    /// Runs `body` as a transaction, and repeats it after a conflict, until it commits and is durable in the sense of the domain. `body` may run
    /// several times; only its last run has an effect on the pool.
    ///
    /// # Errors
    /// Returns [`Error::Aborted`](crate::Error::Aborted) if `body` returned [`Abort::User`], and otherwise the error that made the transaction fail.
    /// The pool is unchanged then. Only after [`Error::Poisoned`](crate::Error::Poisoned) is the outcome unknown.
    fn run<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R>;

    /// Runs `body` as a transaction whose lock set is known before it begins. With isolation by locks
    /// ([`Concurrency::Locks`](super::Concurrency::Locks)) the locks are taken in order before `body` runs, and a write to a word that none of them
    /// protects is an error. A read of such a word is allowed, and safe if no transaction writes to the word. Under other isolation the set is ignored.
    ///
    /// # Errors
    /// Returns [`Error::OutsideLockSet`](crate::Error::OutsideLockSet) if `body` writes outside `locks`, and the errors of [`Runner::run`].
    fn run_locked<R>(
        &mut self,
        _locks: &[Lock],
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>,
    ) -> Result<R> {
        self.run(body)
    }

    /// Returns whether the runner takes the locks that it is given. If not, they still determine the region from which it allocates.
    fn takes_locks(&self) -> bool {
        true
    }

    /// Returns whether the runner trusts declared locks, as a plain program does: it does not check which words are written under a lock.
    /// Transactions may then declare locks of parts, such as a bucket with all that it refers to.
    fn trusts_locks(&self) -> bool {
        false
    }

    /// Completes the commits that this runner has deferred, and waits until they are durable. Only deferred commit has anything to do here.
    ///
    /// # Errors
    /// Returns an error if the pool has failed.
    fn drain(&mut self) -> Result<()> {
        Ok(())
    }

    /// Runs `body` as a read-only transaction, which does not log, write back or fence.
    ///
    /// # Errors
    /// Returns [`Error::ReadOnly`](crate::Error::ReadOnly) if `body` writes, and the errors of [`Runner::run`].
    fn view<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R>;

    /// Returns the runner's counts so far.
    fn statistics(&self) -> Statistics;

    /// Returns whether an aborted transaction leaves nothing behind. This is false only for the `volatile` reference, which has no transactions.
    fn rolls_back(&self) -> bool {
        true
    }
}

impl<R: Runner> Runner for &mut R {
    type Tx<'t> = R::Tx<'t>;

    fn run<T>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<T, Abort>) -> Result<T> {
        R::run(self, body)
    }

    fn run_locked<T>(
        &mut self,
        locks: &[Lock],
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<T, Abort>,
    ) -> Result<T> {
        R::run_locked(self, locks, body)
    }

    fn takes_locks(&self) -> bool {
        R::takes_locks(self)
    }

    fn trusts_locks(&self) -> bool {
        R::trusts_locks(self)
    }

    fn drain(&mut self) -> Result<()> {
        R::drain(self)
    }

    fn view<T>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<T, Abort>) -> Result<T> {
        R::view(self, body)
    }

    fn statistics(&self) -> Statistics {
        R::statistics(self)
    }

    fn rolls_back(&self) -> bool {
        R::rolls_back(self)
    }
}
