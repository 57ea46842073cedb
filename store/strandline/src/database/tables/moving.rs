//! Tables that become ones of other types.

use super::rows::Rows;
use super::{Described, EncodedRow, Held, Moving, TableKind, Tables, Wanted};
use crate::value::schema::Types;
use crate::value::transaction::{Control, Tx, View};
use strandline_core::error::{Error, Result, compare_moved};

/// Converts a row, given as the bytes of its key, and the words and bytes of its value; `None` drops it.
pub(crate) type ConvertRow<'f> = &'f mut dyn FnMut(&[u8], &[u64], u64) -> Result<Option<EncodedRow>>;

/// So many rows are moved by one transaction,
const ROWS: u64 = 500;
/// but no more when their values have so many bytes.
const BYTES: u64 = 1 << 17;

/// How much one transaction has moved.
#[derive(Default)]
struct Portion {
    moved: u64,
    /// Rows of the target that have come from those that were moved.
    kept: u64,
    bytes: u64,
}

impl Portion {
    /// Moves rows from `source` to `target` until the transaction is full, or none are left. `are_unique`: two rows must not become one.
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

/// What one run of a migration has counted, for [`compare_moved`]. Another thread may run the same migration, and an earlier run may have
/// been interrupted.
#[derive(Clone, Copy)]
pub(crate) struct Tally {
    /// Rows of the source in all: those that had been moved when this run began, and those that were left then.
    rows: u64,
    /// Rows that had been moved when this run began.
    before: u64,
    /// Rows of the target when this run began.
    target: u64,
    /// Rows that this run has moved.
    moved: u64,
    /// Rows of the target that have come from them.
    kept: u64,
}

impl Tally {
    /// The tally of a run that begins after `before` rows were moved from `source` to `target`.
    fn of<'p>(tx: &View<'p, impl Control>, before: u64, source: Rows<'p>, target: Rows<'p>) -> Result<Self> {
        let rows = before + source.count(tx)?;
        Ok(Self { rows, before, target: target.count(tx)?, moved: 0, kept: 0 })
    }

    /// Compares the counts at the end, after `moved` rows were moved in all.
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
        // Nothing else has moved rows to the target since this run began.
        if moved == self.before + self.moved {
            let there = self.target + self.kept;
            compare_moved(|| format!("new rows of the table `{name}`"), there, target.count(tx)?)?;
        }
        Ok(())
    }
}

/// What one transaction of a migration did.
pub(crate) struct Step {
    /// Rows that were moved in all.
    pub moved: u64,
    pub tally: Option<Tally>,
    pub is_done: bool,
}

/// A table before or in the midst of a migration.
pub(crate) struct Movable {
    /// The types of its values.
    pub value: String,
    pub types: Types,
    pub layouts: (u64, u64),
    /// Those that it is being moved to, if it is, and whether by a function.
    pub moving_to: Option<((u64, u64), bool)>,
    /// Why it cannot be opened as it is.
    pub refused: Error,
}

/// Migration of a table: its keys are moved to another one, some in each transaction, so that neither a transaction nor the pool becomes
/// larger with the table. Each key is at any time in one of the two.
impl<'p> Tables<'p> {
    /// The table `name`, which is not of the types that are wanted, if it is of their kind.
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

    /// One transaction of a migration: begins it, moves some rows, or ends it. `tally` is what the one before has returned.
    ///
    /// # Errors
    /// Returns [`Error::Damaged`] if the rows that were moved are not those that were there: the migration does not end then, and the source stays.
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
                // Whoever has it open finds it gone.
                Self::number(&held.structure, tx, 0)?;
                (wanted.clone().hold(wanted.make(tx)?), 0)
            }
        };
        let (source, target) = (held.rows(), to.rows());
        let mut tally = match tally {
            Some(tally) => tally,
            None => Tally::of(tx, before, source, target)?,
        };
        // Pairs of a multimap that become the same are one; keys of a table must not.
        let are_unique = by_function && to.structure.kind() == TableKind::Table;
        let portion = Portion::of(tx, source, target, are_unique, convert)?;
        let moved = portion.moved;
        tally.moved += moved;
        tally.kept += portion.kept;
        let described = if moved == 0 {
            tally.check(tx, name, before, source, target)?;
            // The source, which is empty, goes with the entry that is replaced.
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
