//! What is measured, type-erased.

use strandline_core::Result;
use strandline_core::transaction::Statistics;

/// One thread that runs transactions.
pub trait Client {
    /// Runs one transaction.
    ///
    /// # Errors
    /// Returns an error if the transaction failed.
    fn transaction(&mut self) -> Result<()>;

    /// Finishes commits that were deferred, before the thread is idle.
    ///
    /// # Errors
    /// Returns an error if a commit failed.
    fn drain(&mut self) -> Result<()>;

    /// What the thread has counted since it began.
    fn statistics(&self) -> Statistics;
}

/// A pool or a store that is filled and open.
pub trait Product: Send + Sync {
    /// A client that draws its random numbers from `seed`.
    ///
    /// # Errors
    /// Returns an error if all logs are taken, or the structure cannot be opened.
    fn client(&self, seed: u64) -> Result<Box<dyn Client + '_>>;

    /// Checks all that is there, while no transaction runs.
    ///
    /// # Errors
    /// Returns an error that lists the damage.
    fn check(&self) -> Result<()>;
}
