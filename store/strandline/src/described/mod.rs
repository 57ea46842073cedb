//! The walk over values whose types are known only from the pool's description.
//!
//! It visits the same blocks by the same rules as the walk of `value/check.rs`. This module supplies the knowledge that the program's types supply
//! there: the tags of pointers and collections, and the types of their content.

pub(crate) mod dynamic;
pub(crate) mod rows;
pub(crate) mod shown;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::collections::entry::has_none;
use crate::collections::vector::Tags;
use crate::collections::{hash_map, pages, queue, vector};
use crate::value::bytes;
use crate::value::check::{Checker, Look, Name};
use crate::value::pointer::no_value;
use crate::value::schema::{TypeDescription, Types};
use crate::value::shape::{Part, Shape, Target};
use dynamic::{Codec, Dynamic};
use rows::{RowCodec, split_row};
use shown::{Shown, TableDescription, TableKind};
use strandline_core::error::{Result, compare_moved};
use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::Survey;
use strandline_core::structures::root::RootType;
use strandline_core::structures::type_layout as layout;
use strandline_core::transaction::{Abort, Read};

/// A function that is called for everything that a walk meets.
pub(crate) type Show<'v> = &'v dyn Fn(Shown) -> Result<()>;

/// A catalogue of tables. Walks meet catalogues, but only the `database` module knows their types.
pub(crate) trait Catalogue {
    /// Returns whether an ordered map with values of this type is a catalogue.
    fn is_catalogue(&self, value: &TypeDescription) -> bool;
    /// Checks the catalogue whose map is at `at`, and shows its tables.
    ///
    /// # Errors
    /// Returns the errors of the walk, and the error that `show` returned.
    fn reach<'v>(
        &self,
        checker: &mut Checker<'v, '_>,
        at: PersistentAddress,
        show: Option<Show<'v>>,
    ) -> Result<()>;
}

/// The work of a walk beyond checking.
#[derive(Clone, Copy)]
pub(crate) struct Walker<'v> {
    pub show: Option<Show<'v>>,
    pub catalogue: &'static dyn Catalogue,
}

impl Walker<'_> {
    /// Calls `show` with the result of `shown`, if the walk shows anything.
    fn met(&self, shown: impl FnOnce() -> Shown) -> Result<()> {
        self.show.map_or(Ok(()), |show| show(shown()))
    }
}

/// The types of a description, and the forms of their pointers and collections that the walk has met.
pub(crate) struct World<'v> {
    types: Types,
    /// True if elements of lists are packed. In older pools they are not.
    packs: bool,
    walker: Walker<'v>,
    forms: RefCell<HashMap<Arc<str>, Option<Rc<Form>>>>,
}

/// Describes how to walk over pointers or collections of one type.
pub(crate) struct Form {
    /// The name of the type, for messages. For a pointer it is the name of the pointee's type.
    name: Arc<str>,
    tag: u64,
    /// The smallest number of words in the block to which the handle refers.
    words: u64,
    kind: Kind,
    /// The table's description, if this is a table.
    table: Option<TableDescription>,
}

enum Kind {
    Ptr(Codec),
    OrderedMap { key: Codec, value: Codec },
    HashMap { key: Codec, value: Codec },
    Vector { element: Codec, tags: Tags, each: u64 },
    Queue { item: Codec, node_tag: u64 },
    Text,
    Bytes,
    Catalogue,
}

/// A form, together with the types that it refers to.
#[derive(Clone)]
pub(crate) struct Described<'v> {
    world: Rc<World<'v>>,
    form: Rc<Form>,
}

impl<'v> World<'v> {
    fn new(types: Types, packs: bool, walker: Walker<'v>) -> Rc<Self> {
        Rc::new(Self { types, packs, walker, forms: RefCell::default() })
    }

    /// Returns the form of pointers or collections of this type, or `None` if only the program can read them.
    fn form(self: &Rc<Self>, type_name: &Arc<str>) -> Option<Described<'v>> {
        let known = self.forms.borrow().get(type_name).cloned();
        let form = known.unwrap_or_else(|| {
            let made = self.make(type_name).map(Rc::new);
            self.forms.borrow_mut().insert(type_name.clone(), made.clone());
            made
        });
        form.map(|form| Described { world: self.clone(), form })
    }

    /// Returns the codec and the layout of values or keys of this type, or `None` if the type is not known.
    fn codec(&self, type_name: &str, is_key: bool) -> Option<(Codec, u64)> {
        let new = if self.packs { Codec::new } else { Codec::unpacked };
        let codec = new(type_name, &self.types)?;
        let layout = codec.layout(is_key).ok()?;
        Some((codec, layout))
    }

    fn make(&self, type_name: &Arc<str>) -> Option<Form> {
        let form = |tag, words, kind| Some(Form { name: type_name.clone(), tag, words, kind, table: None });
        let pair =
            |key: &Part, value: &Part| Some((self.codec(&key.name, true)?, self.codec(&value.name, false)?));
        match Target::of(type_name)? {
            Target::Ptr(part) => self.pointer(&part.name),
            Target::OrderedMap(_, Part { shape: Shape::Named(name), .. })
                if self.walker.catalogue.is_catalogue(self.types.get(&name)?) =>
            {
                form(0, 0, Kind::Catalogue)
            }
            Target::OrderedMap(key, value) => {
                let ((key, of_keys), (value, of_values)) = pair(&key, &value)?;
                form(pages::tag(of_keys, of_values), LINE_BYTES / 8, Kind::OrderedMap { key, value })
            }
            Target::HashMap(key, value) => {
                let ((key, of_keys), (value, of_values)) = pair(&key, &value)?;
                let tag = hash_map::tag(of_keys, of_values);
                form(tag, hash_map::HEADER_WORDS as u64, Kind::HashMap { key, value })
            }
            Target::Vector(element) => {
                let (element, of_elements) = self.codec(&element.name, false)?;
                let (tags, each) = (Tags::of(of_elements), element.size()? as u64);
                form(tags.header, vector::HEADER_WORDS as u64, Kind::Vector { element, tags, each })
            }
            Target::Queue(item) => {
                let (item, of_items) = self.codec(&item.name, false)?;
                let (tag, node_tag) = queue::tags(of_items);
                form(tag, queue::HEADER_WORDS as u64, Kind::Queue { item, node_tag })
            }
            Target::Text => form(bytes::TAG, bytes::HEADER_WORDS, Kind::Text),
            Target::Bytes => form(bytes::TAG, bytes::HEADER_WORDS, Kind::Bytes),
        }
    }

    /// Returns the form of a pointer to values of this type.
    fn pointer(&self, type_name: &str) -> Option<Form> {
        let (value, layout) = self.codec(type_name, false)?;
        let (name, words) = (type_name.into(), 1 + value.size()? as u64);
        Some(Form { name, tag: layout::tag(layout), words, kind: Kind::Ptr(value), table: None })
    }

    /// Checks everything that a value refers to.
    fn follow(self: &Rc<Self>, checker: &mut Checker<'v, '_>, value: &Dynamic) -> Result<()> {
        match value {
            Dynamic::Handle(type_name, at) => match self.form(type_name) {
                Some(form) => form.reach(checker, PersistentAddress::new(*at)),
                None => {
                    checker.unknown(type_name);
                    Ok(())
                }
            },
            Dynamic::Optional(Some(inside)) | Dynamic::Variant(_, inside) => self.follow(checker, inside),
            Dynamic::List(list) => list.iter().try_for_each(|value| self.follow(checker, value)),
            Dynamic::Record(fields) => fields.iter().try_for_each(|(_, value)| self.follow(checker, value)),
            _ => Ok(()),
        }
    }
}

impl<'v> Described<'v> {
    /// Checks the target of a pointer or collection, which is at `at`.
    fn reach(self, checker: &mut Checker<'v, '_>, at: PersistentAddress) -> Result<()> {
        let Form { name, tag, words, kind, .. } = &*self.form;
        if let Kind::Catalogue = kind {
            let Walker { show, catalogue } = self.world.walker;
            return catalogue.reach(checker, at, show);
        }
        let (name, tag, words) = (Name::Described(name.clone()), *tag, *words);
        checker.pointer(
            at,
            tag,
            words,
            name,
            Look::Described(Box::new(move |checker, at| self.look(checker, at))),
        )
    }

    /// Checks and shows the target.
    fn look(self, checker: &mut Checker<'v, '_>, at: PersistentAddress) -> Result<()> {
        let form = &self.form;
        let rows = self.begin(checker, at)?;
        let surveyed = Cell::new(0);
        match &form.kind {
            Kind::Catalogue => {}
            Kind::Ptr(_) | Kind::Text | Kind::Bytes => self.value(checker, at)?,
            Kind::OrderedMap { key, value } => {
                pages::survey(checker, at, form.tag, &mut |checker, at, key_bytes, words, bytes| {
                    surveyed.update(|count| count + 1);
                    self.pair(checker, at, (key, key_bytes), (value, words, bytes))
                })?;
            }
            Kind::HashMap { key, value } => {
                hash_map::survey(checker, at, form.tag, &mut |checker, at, key_bytes, words, bytes| {
                    self.pair(checker, at, (key, key_bytes), (value, words, bytes))
                })?;
            }
            Kind::Vector { element, tags, each } => {
                vector::survey(checker, at, *tags, *each, &mut |checker, at, words, bytes| {
                    self.element(checker, at, (element, words, bytes))
                })?;
            }
            Kind::Queue { item, node_tag } => {
                queue::survey(checker, at, *node_tag, &mut |checker, at, words, bytes| {
                    surveyed.update(|count| count + 1);
                    self.element(checker, at, (item, words, bytes))
                })?;
            }
        }
        self.compare(checker, rows, surveyed.get())
    }

    /// Shows the table or the collection at `at`, whose parts follow. Returns the number of a table's rows, if the walk shows them.
    fn begin(&self, checker: &mut Checker<'v, '_>, at: PersistentAddress) -> Result<Option<u64>> {
        let (walker, form) = (self.world.walker, &self.form);
        if let Some(table) = &form.table {
            let rows = if walker.show.is_some() { checker.read(|tx| self.count(tx, at))? } else { None };
            walker.met(|| Shown::Table { table: table.clone(), rows })?;
            return Ok(rows);
        }
        if !matches!(form.kind, Kind::Ptr(_) | Kind::Text | Kind::Bytes) {
            walker.met(|| Shown::Collection { at: at.offset(), type_name: form.name.to_string() })?;
        }
        Ok(None)
    }

    /// Checks and shows the value at `at`.
    fn value(&self, checker: &mut Checker<'v, '_>, at: PersistentAddress) -> Result<()> {
        let Self { world, form } = self;
        let value = match &form.kind {
            Kind::Ptr(codec) => {
                let mut words = vec![0; form.words as usize];
                if checker.read(|tx| tx.read_range(at, &mut words))?.is_none() {
                    return Ok(());
                }
                let value = codec.read_value(&words[1..], 8 * (form.words - 1)).ok();
                match &value {
                    Some(value) => world.follow(checker, value)?,
                    None => checker.damaged(no_value(at, &form.name)),
                }
                value
            }
            Kind::Text => bytes::look_at_text(checker, at)?.map(Dynamic::Text),
            _ => bytes::look(checker, at)?.map(Dynamic::Bytes),
        };
        match value {
            Some(value) => {
                let type_name = || form.name.to_string();
                world.walker.met(|| Shown::Value { at: at.offset(), type_name: type_name(), value })
            }
            None => Ok(()),
        }
    }

    /// Counts the rows of the table at `at`.
    fn count(&self, tx: &mut impl Read, at: PersistentAddress) -> Result<u64, Abort> {
        match &self.form.kind {
            Kind::OrderedMap { .. } => pages::tree(tx, at, self.form.tag)?.count(tx),
            Kind::Queue { node_tag, .. } => queue::count(tx, at, *node_tag),
            _ => Ok(0),
        }
    }

    /// If the rows of a table were counted, compares their number with the number of rows that the walk has met.
    fn compare(&self, checker: &mut Checker<'_, '_>, rows: Option<u64>, surveyed: u64) -> Result<()> {
        if let Some(rows) = rows
            && let Err(error) = compare_moved(|| format!("rows of {}", self.form.name), rows, surveyed)
        {
            checker.damaged(error.to_string());
        }
        Ok(())
    }

    /// Checks the pair of a map that is at `at`, and shows it.
    fn pair(
        &self,
        checker: &mut Checker<'v, '_>,
        at: PersistentAddress,
        (key, key_bytes): (&Codec, &[u8]),
        (value, words, bytes): (&Codec, &[u64], u64),
    ) -> Result<()> {
        let decoded_key = key.read_key(key_bytes).ok();
        if decoded_key.is_none() {
            has_none(checker, at, "key", &key.name);
        }
        let decoded = value.read_value(words, bytes).ok();
        match &decoded {
            Some(value) => self.world.follow(checker, value)?,
            None => has_none(checker, at, "value", &value.name),
        }
        match decoded_key.zip(decoded) {
            Some((key, value)) => self.world.walker.met(|| self.row(key, value)),
            None => Ok(()),
        }
    }

    /// Returns the form in which a pair is shown.
    fn row(&self, key: Dynamic, value: Dynamic) -> Shown {
        let (key, value) = match &self.form.table {
            Some(table) => split_row(table.kind, key, value),
            None => (key, value),
        };
        Shown::Row { key: Some(key), value }
    }

    /// Checks the element of a vector, or the item of a queue, that is at `at`, and shows it.
    fn element(
        &self,
        checker: &mut Checker<'v, '_>,
        at: PersistentAddress,
        (codec, words, bytes): (&Codec, &[u64], u64),
    ) -> Result<()> {
        match codec.read_value(words, bytes) {
            Ok(value) => {
                self.world.follow(checker, &value)?;
                self.world.walker.met(|| Shown::Row { key: None, value })
            }
            Err(_) => {
                checker.damaged(no_value(at, &codec.name));
                Ok(())
            }
        }
    }
}

/// Checks the root at `at`, whose type is described as `type_name` in `types`.
pub(crate) fn reach_root<'v>(
    checker: &mut Checker<'v, '_>,
    at: PersistentAddress,
    root_type: &RootType,
    (type_name, types): (&str, Types),
    walker: Walker<'v>,
) -> Result<()> {
    let mut world = World::new(types.clone(), true, walker);
    let is_it = |form: &Form| form.tag == layout::tag(root_type.layout);
    let mut form = world.pointer(type_name);
    if !form.as_ref().is_some_and(is_it) {
        let before = World::new(types, false, walker);
        if let Some(found) = before.pointer(type_name).filter(is_it) {
            (world, form) = (before, Some(found));
        }
    }
    let Some(form) = form else {
        checker.unknown(&type_name.into());
        return Ok(());
    };
    if form.tag != layout::tag(root_type.layout) || form.words != root_type.words.saturating_add(1) {
        checker.damaged(root_type.contradiction());
        return Ok(());
    }
    Described { world, form: Rc::new(form) }.reach(checker, at)
}

/// Checks the table at `at`, whose structure must have the tag `tag`. The nodes of a queue must have the tag `item_tag`. Returns `false` if only the
/// table's program can read its types.
pub(crate) fn reach_table<'v>(
    checker: &mut Checker<'v, '_>,
    at: PersistentAddress,
    table: TableDescription,
    (tag, item_tag): (u64, u64),
    walker: Walker<'v>,
) -> Result<bool> {
    let world = World::new(table.types.clone(), true, walker);
    let Ok(RowCodec { key, value }) = RowCodec::new(&table) else { return Ok(false) };
    let (words, kind) = match table.kind {
        TableKind::Table | TableKind::Multimap => (LINE_BYTES / 8, Kind::OrderedMap { key, value }),
        TableKind::Queue => (queue::HEADER_WORDS as u64, Kind::Queue { item: value, node_tag: item_tag }),
    };
    let name = format!("the table `{}`", table.name).into();
    let form = Rc::new(Form { name, tag, words, kind, table: Some(table) });
    Described { world, form }.reach(checker, at)?;
    Ok(true)
}

#[cfg(test)]
mod tests;
