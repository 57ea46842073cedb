//! A store as it was at one moment.

use std::marker::PhantomData;

use super::Store;
use crate::value::persist::Root;
use crate::value::pointer::Ptr;
use crate::value::transaction::{Control, View};
use strandline_core::engine::{self, Stm};
use strandline_core::error::Result;
use strandline_core::memory::{Native, PersistentAddress};

/// A [`Store`] as it was when the snapshot began, for as long as it exists, whatever transactions do meanwhile.
///
/// What reads it runs once: there is no closure that could run again, nothing waits for a writer, and no writer waits
/// for it. So rows can go to a socket as they are read.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// #[derive(Persist)]
/// struct Measured<'p> {
///     values: Vector<'p, u64>,
/// }
///
/// let store = Store::<Measured>::create(&path, &options, |tx| {
///     let values = Vector::new(tx)?;
///     values.extend(tx, [1, 2, 3])?;
///     Ok(Measured { values })
/// })?;
/// let mut snapshot = store.snapshot()?;
/// let (tx, root) = snapshot.read();
/// let mut sum = 0;
/// for value in root.get(&tx)?.values.iter(&tx)? {
///     // Writers go on.
///     store.update(|tx, root| root.get(tx)?.values.push(tx, &100))?;
///     sum += value?;
/// }
/// assert_eq!(sum, 6);
/// assert_eq!(store.view(|tx, root| root.get(tx)?.values.len(tx))?, 6);
/// # Ok::<(), strandline::Error>(())
/// ```
///
/// What transactions change meanwhile is kept aside in memory, up to [`Options::snapshot_bytes`](crate::Options::snapshot_bytes)
/// for all snapshots together. Past that the oldest one ends, and reading it is
/// [`Error::SnapshotEnded`](crate::Error::SnapshotEnded).
pub struct Snapshot<'s, R, C: Control<Memory = Native> = Stm> {
    inner: engine::Snapshot<C>,
    root: PersistentAddress,
    /// The pool stays open and locked.
    store: PhantomData<&'s Store<R, C>>,
}

impl<'s, R: Root, C: Control<Memory = Native>> Snapshot<'s, R, C> {
    pub(crate) fn new(inner: engine::Snapshot<C>, root: PersistentAddress) -> Self {
        Self { inner, root, store: PhantomData }
    }

    /// What reads, and a pointer to the root. After an error, also one that says that something is damaged, it can be read on.
    pub fn read<'p>(&'p mut self) -> (View<'p, C>, Ptr<'p, R::At<'p>>) {
        (View::new(self.inner.tx(), false), Ptr::of(self.root))
    }

    /// Looks all that hangs from the root over for damage, as [`Store::check`].
    ///
    /// # Errors
    /// [`Error::SnapshotEnded`](crate::Error::SnapshotEnded). Damage is in what is returned.
    pub fn check(&mut self) -> Result<Vec<String>> {
        let (tx, root) = self.read();
        root.check(&tx)
    }
}

impl<R, C: Control<Memory = Native>> std::fmt::Debug for Snapshot<'_, R, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("time", &self.inner.time()).finish_non_exhaustive()
    }
}
