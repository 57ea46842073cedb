//! Migration of a table to other types.

use super::rows::Rows;
use super::{Described, EncodedRow, Held, Moving, TableKind, Tables, Wanted};
use crate::value::persist::Invalid;
use crate::value::schema::Types;
use crate::value::transaction::{Control, Tx, View};
use strandline_core::error::{Error, Result, compare_moved};

/// A function that converts a row, given as the bytes of its key, and the words and bytes of its value. `None` drops the row.
pub(crate) type ConvertRow<'f> = &'f mut dyn FnMut(&[u8], &[u64], u64) -> Result<Option<EncodedRow>>;

/// A function that checks the bytes of a key, and the words and bytes of a converted value.
pub(crate) type AreValid<'f> = &'f dyn Fn(&[u8], &[u64], u64) -> std::result::Result<(), Invalid>;

/// The largest number of rows that one transaction moves.
const ROWS: u64 = 500;
/// The number of bytes in moved values after which a transaction moves no more rows.
const BYTES: u64 = 1 << 17;

/// The rows that one transaction has moved.
#[derive(Default)]
struct Portion {
    moved: u64,
    /// Number of rows that they have added to the target.
    kept: u64,
    bytes: u64,
}

impl Portion {
    /// Moves rows from `source` to `target` until the transaction has moved enough, or none are left. With `are_unique`, two rows that get the same
    /// key are an error.
    fn of<'p>(
        tx: &Tx<'p, impl Control>,
        source: Rows<'p>,
        target: Rows<'p>,
        are_unique: bool,
        convert: ConvertRow<'_>,
    ) -> Result<Self> {
        let mut portion = Self::default();
        for row in source.drain(tx) {
            let (key, words, bytes) = row?;
            portion.moved += 1;
            if let Some((key, words, bytes)) = convert(&key, &words, bytes)? {
                let is_replaced = target.store(tx, &key, (&words, bytes))?;
                if is_replaced && are_unique {
                    return Err(Error::Parameter("the migration maps two keys to the same key".into()));
                }
                portion.kept += u64::from(!is_replaced);
                portion.bytes += bytes;
            }
            if portion.moved == ROWS || portion.bytes >= BYTES {
                break;
            }
        }
        Ok(portion)
    }
}

/// The counts of one run of a migration, for [`compare_moved`]. Another thread may run the same migration, and an earlier run may have been
/// interrupted.
#[derive(Clone, Copy)]
pub(crate) struct Tally {
    /// Number of rows of the source at first: those that had been moved when this run began, and those that were left then.
    rows: u64,
    /// Number of rows that had been moved when this run began.
    before: u64,
    /// Number of rows of the target when this run began.
    target: u64,
    /// Number of rows that this run has moved.
    moved: u64,
    /// Number of rows that the moved rows have added to the target.
    kept: u64,
}

impl Tally {
    /// Creates the tally of a run that begins after `before` rows were moved from `source` to `target`.
    fn of<'p>(tx: &View<'p, impl Control>, before: u64, source: Rows<'p>, target: Rows<'p>) -> Result<Self> {
        let rows = before + source.count(tx)?;
        Ok(Self { rows, before, target: target.count(tx)?, moved: 0, kept: 0 })
    }

    /// Compares the counts at the end of a migration. `moved` is the number of rows that all runs have moved.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if they differ.
    fn check<'p>(
        &self,
        tx: &View<'p, impl Control>,
        name: &str,
        moved: u64,
        source: Rows<'p>,
        target: Rows<'p>,
    ) -> Result<()> {
        compare_moved(|| format!("rows of the table `{name}`"), self.rows, moved)?;
        compare_moved(|| format!("rows left of the table `{name}`"), source.count(tx)?, 0)?;
        // If only this run has moved rows since it began, the rows of the target must be those that it has counted.
        if moved == self.before + self.moved {
            let there = self.target + self.kept;
            compare_moved(|| format!("new rows of the table `{name}`"), there, target.count(tx)?)?;
        }
        Ok(())
    }
}

/// The result of one transaction of a migration.
pub(crate) struct Step {
    /// Number of rows that were moved so far, by all runs.
    pub moved: u64,
    pub tally: Option<Tally>,
    pub is_done: bool,
}

/// A table before or during a migration.
pub(crate) struct Movable {
    /// The type of its values.
    pub value: String,
    pub types: Types,
    pub layouts: (u64, u64),
    /// The layouts to which the table is being moved, if it is, and whether by a function of the program.
    pub moving_to: Option<((u64, u64), bool)>,
    /// The error for a program that opens the table as it is.
    pub refused: Error,
}

/// Migration of a table: its rows are moved to another structure, some in each transaction, so that neither the transactions nor the pool grow with
/// the table. Each row is in exactly one of the two structures at any time.
impl<'p> Tables<'p> {
    /// Returns the table `name` if it is of the wanted kind but not of the wanted types, and otherwise `None`.
    pub(crate) fn movable(
        self,
        tx: &View<'p, impl Control>,
        name: &str,
        wanted: &Wanted,
    ) -> Result<Option<Movable>> {
        let Some(found) = self.named.get(tx, name)? else { return Ok(None) };
        let Err(refused) = wanted.check(name, &found) else { return Ok(None) };
        let Described { held, moving, .. } = found;
        if held.structure.kind() != wanted.kind {
            return Err(refused);
        }
        let Held { value, layouts, types, .. } = held;
        let moving_to = moving.map(|moving| (moving.to.layouts, moving.by_function));
        Ok(Some(Movable { value, types, layouts, moving_to, refused }))
    }

    /// Runs one transaction of a migration, which begins it, moves some rows, or ends it. `tally` is the one that the previous transaction returned.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if the number of rows that were moved is not that of the rows that existed. The migration then does not end, and
    /// the source is kept.
    pub(crate) fn migrate_some(
        self,
        tx: &Tx<'p, impl Control>,
        name: &str,
        wanted: &Wanted,
        by_function: bool,
        tally: Option<Tally>,
        convert: ConvertRow<'_>,
    ) -> Result<Step> {
        let found = self.named.get(tx, name)?.ok_or_else(|| Error::NoTable { name: name.to_owned() })?;
        if wanted.check(name, &found).is_ok() {
            return Ok(Step { moved: 0, tally, is_done: true });
        }
        found.check(tx, name)?;
        let Described { held, number, moving } = found;
        let (to, before) = match moving {
            Some(moving) if moving.to.layouts != wanted.layouts || moving.by_function != by_function => {
                return Err(wanted.refuse(name, wanted.differences(&moving.to)));
            }
            Some(moving) => (moving.to, moving.moved),
            None => {
                // Handles that were opened before find another number and fail.
                Self::number(&held.structure, tx, 0)?;
                (wanted.clone().hold(wanted.make(tx)?), 0)
            }
        };
        let (source, target) = (held.rows(), to.rows());
        let mut tally = match tally {
            Some(tally) => tally,
            None => Tally::of(tx, before, source, target)?,
        };
        // In a multimap, pairs that become equal are one pair. In a table, two keys must not become equal.
        let are_unique = by_function && to.structure.kind() == TableKind::Table;
        let portion = Portion::of(tx, source, target, are_unique, convert)?;
        let moved = portion.moved;
        tally.moved += moved;
        tally.kept += portion.kept;
        let described = if moved == 0 {
            tally.check(tx, name, before, source, target)?;
            // The insertion below destroys the source, which is empty, with the entry that it replaces.
            let number = self.next_number(tx)?;
            Self::number(&to.structure, tx, number)?;
            Described { held: to, number, moving: None }
        } else {
            Described { held, number, moving: Some(Moving { to, moved: before + moved, by_function }) }
        };
        self.named.insert(tx, &name.to_owned(), &described)?;
        Ok(Step { moved: before + moved, tally: Some(tally), is_done: moved == 0 })
    }
}
