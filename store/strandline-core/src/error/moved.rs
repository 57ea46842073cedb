//! The comparison with which every operation that moves data ends.

use super::{Error, Result};

/// Compares the number of items at the source, `there`, with the number that was moved.
///
/// Each such operation counts the source by another walk than the one that moves, so that a walk that ends early is noticed. It counts in
/// the snapshot or transaction that it moves from, so that concurrent writers make no difference:
///
/// | operation | count at the source | count at the target |
/// |---|---|---|
/// | `Database::dump`, `DynamicStore::dump` | rows, counted through the inner nodes; items of a queue, to its last one | rows shown |
/// | `pool load` | rows that the input announces (`"rows"` in `pool dump --json`) | rows counted after it, less those before, and the replaced ones |
/// | `pool copy` | as `dump` | as `pool load` |
/// | `Database::migrate` and conversions | rows when it begins; none when it ends | rows when it ends, less those when it began |
/// | `Pool::backup` | blocks of the log that were copied; outside `Sync` objects and their bytes | blocks that the copy's recovery accepts; objects and bytes of the copy |
/// | `pool compact` | objects and their bytes before | those after it |
///
/// # Errors
/// Returns [`Error::Damaged`] if the numbers differ. The operation then leaves no target, or rolls its transaction back.
pub fn compare_moved(what: impl FnOnce() -> String, there: u64, moved: u64) -> Result<()> {
    if there == moved {
        return Ok(());
    }
    Err(Error::damaged(format!("{}: there are {there}, and {moved} were moved", what())))
}
