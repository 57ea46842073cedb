//! Who runs transactions.

use super::{Abort, Lock, Statistics, Transaction};
use crate::error::Result;

/// Whoever can run transactions of a certain kind; drivers and benchmarks are generic over it.
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
    /// The transactions that it runs, lent for a time.
    type Tx<'t>: Transaction;

    /// Runs `body` as a transaction, again after a conflict, until it commits and is durable as the domain
    /// promises. `body` may run several times; only its last run has an effect on the pool.
    ///
    /// # Errors
    /// [`Error::Aborted`](crate::Error::Aborted) where `body` returned [`Abort::User`]; what made the transaction fail otherwise.
    /// The pool is unchanged then. After [`Error::Poisoned`](crate::Error::Poisoned) alone the outcome is unknown.
    fn run<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R>;

    /// Runs `body` as a transaction whose lock set is known before it begins. Where isolation is by locks
    /// ([`Concurrency::Locks`](super::Concurrency::Locks)) these are taken in order, before `body` runs, and a write to a word that none of them
    /// protects is an error; a read of such a word is allowed, and safe where nobody writes it. Elsewhere the set is not needed and is ignored.
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

    /// Returns whether it takes the locks that it is given. Where it does not, they still say which region it allocates from.
    fn takes_locks(&self) -> bool {
        true
    }

    /// Returns whether a declared lock guards whatever the program says that it does, as in a plain program: nobody looks at which words are
    /// written under it. Transactions may then declare locks of parts, such as a bucket with all that hangs from it.
    fn trusts_locks(&self) -> bool {
        false
    }

    /// A quiescent point: commits what this runner has deferred, and waits until all of it is durable. Only deferred commit ever has anything to do
    /// here.
    ///
    /// # Errors
    /// Returns an error if the pool has failed.
    fn drain(&mut self) -> Result<()> {
        Ok(())
    }

    /// Runs `body` as a read-only transaction: it logs, writes back and fences nothing.
    ///
    /// # Errors
    /// Returns [`Error::ReadOnly`](crate::Error::ReadOnly) if `body` writes, and the errors of [`Runner::run`].
    fn view<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R>;

    /// What it has done so far.
    fn statistics(&self) -> Statistics;

    /// Returns whether a transaction that gives up leaves nothing behind; not so for the `volatile` reference alone,
    /// which has no transactions.
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
