//! The check of a catalogue: its entries by their type, and the tables by their descriptions in the entries.

use super::rows::{moving, tags};
use super::{Described, Held, TableDescription, Tables, misplaced};
use crate::Persist;
use crate::collections::entry::decode_pair;
use crate::collections::ordered_map::OrderedMap;
use crate::collections::pages::survey;
use crate::described::shown::Shown;
use crate::described::{self, Catalogue, Show, Walker};
use crate::value::check::{Checker, Look};
use crate::value::schema::TypeDescription;
use strandline_core::error::{Error, Result};
use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::Survey;
use strandline_core::transaction::Read;

/// The map of a catalogue.
type Named<'p> = OrderedMap<'p, String, Described<'p>>;

/// Implements the catalogue for walks by descriptions.
struct Catalogues;

impl Catalogue for Catalogues {
    fn is_catalogue(&self, value: &TypeDescription) -> bool {
        value.layout == <Described<'_> as Persist<'_>>::LAYOUT
    }

    fn reach<'v>(
        &self,
        checker: &mut Checker<'v, '_>,
        at: PersistentAddress,
        show: Option<Show<'v>>,
    ) -> Result<()> {
        reach(checker, at, show)
    }
}

/// Returns the walker for a walk by descriptions that also checks catalogues.
pub(crate) fn walker(show: Option<Show<'_>>) -> Walker<'_> {
    Walker { show, catalogue: &Catalogues }
}

/// Checks the catalogue whose map is at `at`.
pub(crate) fn reach<'v>(
    checker: &mut Checker<'v, '_>,
    at: PersistentAddress,
    show: Option<Show<'v>>,
) -> Result<()> {
    let look = Look::Described(Box::new(move |checker, at| {
        if let Some(show) = show {
            show(Shown::Collection { at: at.offset(), type_name: Tables::NAME.into() })?;
        }
        survey(checker, at, Named::TAG, &mut |checker, at, key, words, bytes| match decode_pair::<
            String,
            Described<'_>,
        >(
            checker, at, key, words, bytes,
        ) {
            (Some(name), Some(described)) => described.reach(checker, &name, show),
            _ => Ok(()),
        })
    }));
    checker.pointer(at, Named::TAG, LINE_BYTES / 8, "OrderedMap", look)
}

impl<'p> Described<'p> {
    fn reach<'v>(&self, checker: &mut Checker<'v, 'p>, name: &str, show: Option<Show<'v>>) -> Result<()> {
        match &self.moving {
            None => self.held.reach(checker, name, self.number, show),
            Some(_) if show.is_some() => Err(moving(name)),
            Some(moving) => {
                self.held.reach(checker, name, 0, show)?;
                moving.to.reach(checker, name, 0, show)
            }
        }
    }
}

impl<'p> Held<'p> {
    /// Checks the table, which must have this number, and everything that its rows refer to.
    fn reach<'v>(
        &self,
        checker: &mut Checker<'v, 'p>,
        name: &str,
        number: u64,
        show: Option<Show<'v>>,
    ) -> Result<()> {
        let (at, number_at) = self.structure.places();
        let kind = self.structure.kind();
        let tags = tags(kind, self.layouts);
        if !described::reach_table(checker, at, self.describe(name), tags, walker(show))? {
            // Only the program can read values of these types. The walk at least checks the blocks of the table.
            if show.is_some() {
                let Self { key, value, .. } = self;
                return Err(Error::Unsupported(format!(
                    "reading the table `{name}` of {value} by {key}, which only its program can read"
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

    /// Returns the description of the table, which the catalogue has under `name`.
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
