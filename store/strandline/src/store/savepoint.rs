//! Savepoints within a transaction.

use crate::value::transaction::{Control, Tx, debug_as_name};
use strandline_core::engine::Stm;
use strandline_core::error::{Error, Result};

/// A point in a transaction to which it can be rolled back without aborting as a whole. [`Tx::savepoint`] sets it.
///
/// ```
/// # use strandline::*;
/// let db = Database::in_memory()?;
/// let orders = db.table::<u64, String>("orders")?;
/// db.write(|tx| {
///     for (number, line) in [(1, "two apples"), (2, "no pears"), (3, "a plum")] {
///         let before = tx.savepoint();
///         orders.insert(tx, &number, line)?;
///         if line.starts_with("no") {
///             before.roll_back()?; // this order alone
///         }
///     }
///     Ok(())
/// })?;
/// assert_eq!(db.read(|tx| orders.len(tx))?, 2);
/// # Ok::<(), strandline::Error>(())
/// ```
///
/// Savepoints can be nested. They cannot rescue a transaction after an error that ends all of it, such as a conflict or a full disk.
///
/// Dropping a savepoint keeps the changes since it was set. As long as a savepoint exists, the transaction keeps the old values that it overwrites in
/// memory.
pub struct Savepoint<'t, 'p, C: Control = Stm> {
    tx: &'t Tx<'p, C>,
    number: u64,
}

debug_as_name! { Savepoint<'_, '_;> }

impl<'p, C: Control> Tx<'p, C> {
    /// Sets a savepoint. [`Savepoint::roll_back`] undoes the changes that this transaction makes from here on. There may be several savepoints.
    ///
    /// ```
    /// # use strandline::*;
    /// # let (path, options) = example::path_and_options();
    /// let store = Store::<u64>::create_new(&path, &options, |_| Ok(5))?;
    /// store.write(|tx, root| {
    ///     let outer = tx.savepoint();
    ///     root.set(tx, &6)?;
    ///     let inner = tx.savepoint();
    ///     root.set(tx, &7)?;
    ///     inner.roll_back()?;
    ///     assert_eq!(root.get(tx)?, 6);
    ///     outer.roll_back()?;
    ///     // The inner one was set after the outer one.
    ///     assert!(inner.roll_back().is_err());
    ///     Ok(())
    /// })?;
    /// assert_eq!(store.read(|tx, root| root.get(tx))?, 5);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    pub fn savepoint(&self) -> Savepoint<'_, 'p, C> {
        // If pairs that wait cannot be stored, the transaction has failed, and its later operations report it.
        let number = self.words(|tx| Ok(tx.set_savepoint())).unwrap_or(0);
        Savepoint { tx: self, number }
    }
}

impl<C: Control> Savepoint<'_, '_, C> {
    /// Undoes all changes that the transaction has made since the savepoint. The transaction then continues, and can be rolled back again. Savepoints
    /// that were set later become invalid. Collections and pointers that were created since then count as destroyed: using one that a variable still
    /// holds returns [`Error::Dangling`].
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the transaction was rolled back to an earlier savepoint, which made this one invalid. After an error that ends
    /// the whole transaction (a conflict, [`Error::Interrupted`]; a full disk), the transaction cannot be rescued: its closure returns the error.
    pub fn roll_back(&self) -> Result<()> {
        if self.tx.words(|tx| tx.roll_back_to(self.number))? {
            return Ok(());
        }
        Err(Error::Parameter(
            "the transaction was rolled back to an earlier savepoint, so that this one no longer exists"
                .into(),
        ))
    }
}

impl<C: Control> Drop for Savepoint<'_, '_, C> {
    fn drop(&mut self) {
        let number = self.number;
        // This cannot fail.
        let _ = self.tx.beside(|tx| {
            tx.release_savepoint(number);
            Ok(())
        });
    }
}
