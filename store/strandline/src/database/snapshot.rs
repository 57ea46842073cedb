//! A database as it was at one moment.

#[cfg(doc)]
use super::Database;
use super::tables::Tables;
use crate::store::snapshot::{Snapshot, SnapshotView};
use crate::value::transaction::Control;
use strandline_core::engine::Stm;
#[cfg(doc)]
use strandline_core::error::Error;
use strandline_core::error::Result;
use strandline_core::memory::Native;

/// A [`Database`] as it was when the snapshot began: [`Database::snapshot`]. A clone is of the same moment, and costs little.
#[derive(Clone)]
pub struct DatabaseSnapshot<C: Control<Memory = Native> = Stm> {
    pub(super) inner: Snapshot<Tables<'static>, C>,
    pub(super) number: u64,
}

impl<C: Control<Memory = Native>> DatabaseSnapshot<C> {
    /// A view of this moment, through which tables are read. There can be any number of views at a time, on any threads. After an error,
    /// also one that reports damage, reading may continue.
    pub fn read(&self) -> SnapshotView<'_, C> {
        let (view, _) = self.inner.read();
        view.belongs_to(self.number);
        view
    }

    /// Checks everything for damage, as [`Database::check`].
    ///
    /// # Errors
    /// [`Error::SnapshotEnded`]. Damage is in what is returned.
    pub fn check(&self) -> Result<Vec<String>> {
        self.inner.check()
    }
}

impl<C: Control<Memory = Native>> std::fmt::Debug for DatabaseSnapshot<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.inner.fmt(f)
    }
}
