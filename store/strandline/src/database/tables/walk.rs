//! Looking a catalogue over: its entries by their type, and the tables by what these say.

use super::rows::{moving, tags};
use super::{Described, Held, TableDescription, Tables, misplaced};
use crate::Persist;
use crate::collections::entry::decode_pair;
use crate::collections::layers::survey;
use crate::collections::ordered_map::OrderedMap;
use crate::described::{self, Shown};
use crate::value::check::{Checker, Look};
use crate::value::schema::TypeDescription;
use strandline_core::error::{Error, Result};
use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::Survey;
use strandline_core::transaction::Read;

/// The map of a catalogue.
type Named<'p> = OrderedMap<'p, String, Described<'p>>;

/// Whether an ordered map with values of this type is a catalogue.
pub(crate) fn is_catalogue(value: &TypeDescription) -> bool {
    value.layout == <Described<'_> as Persist<'_>>::LAYOUT
}

/// Reaches the catalogue whose map is at `at`.
pub(crate) fn reach(checker: &mut Checker<'_, '_>, at: PersistentAddress) -> Result<()> {
    let look = Look::Typed(|checker, at| {
        checker.met(|| Shown::Collection { at: at.offset(), type_name: Tables::NAME.into() })?;
        let map = (Named::TAG, Named::INLINE);
        survey(checker, at, map, &mut |checker, at, key, words, bytes| match decode_pair::<
            String,
            Described<'_>,
        >(
            checker, at, key, words, bytes
        ) {
            (Some(name), Some(described)) => described.reach(checker, &name),
            _ => Ok(()),
        })
    });
    checker.pointer(at, Named::TAG, LINE_BYTES / 8, "OrderedMap", look)
}

impl<'p> Described<'p> {
    fn reach(&self, checker: &mut Checker<'_, 'p>, name: &str) -> Result<()> {
        match &self.moving {
            None => self.held.reach(checker, name, self.number),
            Some(_) if checker.is_shown() => Err(moving(name)),
            Some(moving) => {
                self.held.reach(checker, name, 0)?;
                moving.to.reach(checker, name, 0)
            }
        }
    }
}

impl<'p> Held<'p> {
    /// Reaches the table, and what hangs from its rows, which has this number.
    fn reach(&self, checker: &mut Checker<'_, 'p>, name: &str, number: u64) -> Result<()> {
        if !self.is_as_said() {
            checker.damaged(misplaced(name));
            return Ok(());
        }
        let (at, number_at) = self.structure.places();
        let kind = self.structure.kind();
        let tags = tags(kind, self.layouts);
        if !described::reach_table(checker, at, self.describe(name), tags)? {
            // Of types that only the program can read: its blocks at least.
            if checker.is_shown() {
                let Self { key, value, .. } = self;
                return Err(Error::Unsupported(format!(
                    "the table `{name}` holds {value} by {key}, which only its program can read"
                )));
            }
            self.structure.visit(checker)?;
        }
        let found = checker.read(|tx| {
            Ok(if tx.is_allocated(at)? { Some((tx.read(at)?, tx.read(number_at)?)) } else { None })
        })?;
        if found.flatten().is_some_and(|found| found != (tags.0, number)) {
            checker.damaged(misplaced(name));
        }
        Ok(())
    }

    /// The table as the catalogue has it under `name`.
    pub(super) fn describe(&self, name: &str) -> TableDescription {
        let Self { structure, key, value, types, layouts } = self;
        TableDescription {
            name: name.to_owned(),
            kind: structure.kind(),
            key: key.clone(),
            value: value.clone(),
            types: types.clone(),
            layouts: *layouts,
        }
    }
}
