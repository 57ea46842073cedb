//! What is measured, type-erased.

use strandline_core::Result;
use strandline_core::transaction::Statistics;

/// A thread with whoever runs its transactions.
pub trait Client {
    /// As [`Transactions::transaction`].
    ///
    /// # Errors
    /// As there.
    fn transaction(&mut self) -> Result<()>;

    /// As [`Runner::drain`].
    ///
    /// # Errors
    /// As there.
    fn drain(&mut self) -> Result<()>;

    /// As [`Runner::statistics`].
    fn statistics(&self) -> Statistics;
}

/// A pool or a store on the product's path, filled, and open.
pub trait Product: Send + Sync {
    /// A client that draws its random numbers from `seed`.
    ///
    /// # Errors
    /// As [`Workload::thread`]; as [`Pool::worker`].
    fn client(&self, seed: u64) -> Result<Box<dyn Client + '_>>;

    /// Checks all that is there, while nobody works.
    ///
    /// # Errors
    /// As [`Workload::check`].
    fn check(&self) -> Result<()>;
}
