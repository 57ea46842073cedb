//! The beginning of the examples in the documentation.

pub use strandline_core::example::{path, path_and_options};

use crate::{Result, Store, Tx};

/// Runs `body` as a transaction on a new store with a number as its root. The store is deleted afterwards.
///
/// # Panics
/// Panics if the transaction failed.
pub fn transaction(body: impl for<'p> Fn(&Tx<'p>) -> Result<()>) {
    let (path, options) = path_and_options();
    let store = Store::<u64>::create_new(path, &options, |_| Ok(0)).expect("a store can be made");
    store.write(|tx, _| body(tx)).expect("the transaction commits");
}
