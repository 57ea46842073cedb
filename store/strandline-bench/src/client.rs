//! The traits through which the driver runs transactions, whatever pool or store they are for.

use strandline_core::Result;
use strandline_core::transaction::Statistics;

/// One thread that runs transactions.
pub trait Client {
    /// Runs one transaction.
    ///
    /// # Errors
    /// Returns an error if the transaction failed.
    fn transaction(&mut self) -> Result<()>;

    /// Completes the commits that the client has deferred. The driver calls this before the thread idles.
    ///
    /// # Errors
    /// Returns an error if a commit failed.
    fn drain(&mut self) -> Result<()>;

    /// Returns what the thread has counted since the client was opened.
    fn statistics(&self) -> Statistics;
}

/// A pool or a store that is filled and open.
pub trait Product: Send + Sync {
    /// Opens a client that draws its random numbers from `seed`.
    ///
    /// # Errors
    /// Returns an error if all logs are taken, or the structure cannot be opened.
    fn client(&self, seed: u64) -> Result<Box<dyn Client + '_>>;

    /// Checks the whole content. The caller makes sure that no transaction runs.
    ///
    /// # Errors
    /// Returns an error that lists the damage.
    fn check(&self) -> Result<()>;
}
