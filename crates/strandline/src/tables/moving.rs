//! Tables that become ones of other types.

use super::{Described, Form, Held, Moving, Structure, Tables, Wanted};
use crate::schema::Types;
use crate::transaction::{Control, Tx, View};
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;

/// What moves some of a table's keys with their values, or of a queue's items, in one transaction: from `from` (whether its values are words is said) to `to`. It
/// returns how many, which are none when none are left.
pub(crate) trait MoveSome {
    fn move_some<'p, C: Control>(
        &mut self,
        tx: &Tx<'p, C>,
        from: (PersistentAddress, bool),
        to: PersistentAddress,
    ) -> Result<u64>;
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

    /// One transaction of a migration: begins it, moves some keys, or ends it. How many were moved in all; whether it is done.
    pub(crate) fn migrate_some<F: Form>(
        self,
        tx: &Tx<'p, impl Control>,
        name: &str,
        by_function: bool,
        step: &mut impl MoveSome,
    ) -> Result<(u64, bool)> {
        let found = self.named.get(tx, name)?.ok_or_else(|| Error::NoTable(name.to_owned()))?;
        let wanted = F::wanted();
        if wanted.check(name, &found).is_ok() {
            return Ok((0, true));
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
                (wanted.hold(F::make(tx)?), 0)
            }
        };
        let from = (held.structure.places().0, matches!(held.structure, Structure::WordTable(_)));
        let moved = step.move_some(tx, from, to.structure.places().0)?;
        let described = if moved == 0 {
            // What it was moved from, which is empty, goes with the entry that is replaced.
            let number = self.next_number(tx)?;
            Self::number(&to.structure, tx, number)?;
            Described { held: to, number, moving: None }
        } else {
            Described { held, number, moving: Some(Moving { to, moved: before + moved, by_function }) }
        };
        self.named.insert(tx, &name.to_owned(), &described)?;
        Ok((before + moved, moved == 0))
    }
}
