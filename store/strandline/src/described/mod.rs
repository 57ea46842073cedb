//! Walking over values whose types only the pool's description is known of.
//!
//! It is the walk of `value/check.rs`, over the same blocks by the same rules; here is what the program's types say there: how pointers and
//! collections are tagged, and what is in them.

pub(crate) mod dynamic;
pub(crate) mod shown;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use crate::collections::entry::has_none;
use crate::collections::vector::Tags;
use crate::collections::{hash_map, layers, queue, vector};
use crate::value::bytes;
use crate::value::check::{Checker, Look, Name};
use crate::value::pointer::no_value;
use crate::value::schema::{TypeDescription, Types};
use crate::value::shape::{Part, Shape, Target, Values};
use dynamic::{Codec, Dynamic};
use shown::{Shown, TableDescription, TableKind};
use strandline_core::error::{Result, compare_moved};
use strandline_core::memory::{LINE_BYTES, PersistentAddress};
use strandline_core::structures::Survey;
use strandline_core::structures::root::RootType;
use strandline_core::structures::type_layout as layout;
use strandline_core::transaction::{Abort, Read};

/// Is called with what a walk meets.
pub(crate) type Show<'v> = &'v dyn Fn(Shown) -> Result<()>;

/// Catalogues of tables: a walk meets them, but only the room of databases knows their types.
pub(crate) trait Catalogue {
    /// Whether an ordered map with values of this type is a catalogue.
    fn is_catalogue(&self, value: &TypeDescription) -> bool;
    /// Reaches the catalogue whose map is at `at`, and shows its tables.
    ///
    /// # Errors
    /// Those of the walk, and what `show` returns.
    fn reach<'v>(
        &self,
        checker: &mut Checker<'v, '_>,
        at: PersistentAddress,
        show: Option<Show<'v>>,
    ) -> Result<()>;
}

/// What a walk does beside checking.
#[derive(Clone, Copy)]
pub(crate) struct Walker<'v> {
    pub show: Option<Show<'v>>,
    pub catalogue: &'static dyn Catalogue,
}

impl Walker<'_> {
    /// Shows what was met, if there is somebody to see it.
    fn met(&self, shown: impl FnOnce() -> Shown) -> Result<()> {
        self.show.map_or(Ok(()), |show| show(shown()))
    }
}

/// Some types, and what is known of the pointers and collections of them that were met.
pub(crate) struct World<'v> {
    types: Types,
    walker: Walker<'v>,
    forms: RefCell<HashMap<Arc<str>, Option<Rc<Form>>>>,
}

/// How values of a type of pointers or collections are walked over.
pub(crate) struct Form {
    /// The type, for messages: of a pointer that of what it leads to.
    name: Arc<str>,
    tag: u64,
    /// Words at least in the block to which it leads.
    words: u64,
    kind: Kind,
    /// The table that it is, if it is one.
    table: Option<TableDescription>,
}

enum Kind {
    Ptr(Part),
    OrderedMap {
        key: Part,
        value: Part,
        /// Whether keys and values are words, which stand in the tree.
        inline: bool,
    },
    HashMap {
        key: Part,
        value: Part,
    },
    Vector {
        element: Part,
        tags: Tags,
        each: u64,
    },
    Queue {
        item: Part,
        node_tag: u64,
    },
    Text,
    Bytes,
    Catalogue,
}

/// A form, with the types that it is among.
#[derive(Clone)]
pub(crate) struct Described<'v> {
    world: Rc<World<'v>>,
    form: Rc<Form>,
}

impl<'v> World<'v> {
    fn new(types: Types, walker: Walker<'v>) -> Rc<Self> {
        Rc::new(Self { types, walker, forms: RefCell::default() })
    }

    /// How pointers or collections of this type are walked over; `None`: only the program can tell.
    fn form(self: &Rc<Self>, type_name: &Arc<str>) -> Option<Described<'v>> {
        let known = self.forms.borrow().get(type_name).cloned();
        let form = known.unwrap_or_else(|| {
            let made = self.make(type_name).map(Rc::new);
            self.forms.borrow_mut().insert(type_name.clone(), made.clone());
            made
        });
        form.map(|form| Described { world: self.clone(), form })
    }

    /// The layout of values or keys of this type, and their size if all have the same; `None`: it is not known.
    fn measure(&self, part: &Part, is_key: bool) -> Option<(u64, Option<usize>)> {
        Values { types: &self.types }.check(&part.shape).ok()?;
        let codec = Codec::again(&part.shape, &self.types);
        Some((codec.layout(is_key).ok()?, codec.size()))
    }

    fn make(&self, type_name: &Arc<str>) -> Option<Form> {
        let form = |tag, words, kind| Some(Form { name: type_name.clone(), tag, words, kind, table: None });
        match Target::of(type_name)? {
            Target::Ptr(part) => self.pointer(part),
            Target::OrderedMap(key, value) => {
                if let Shape::Named(name) = &value.shape
                    && self.walker.catalogue.is_catalogue(self.types.get(name)?)
                {
                    return form(0, 0, Kind::Catalogue);
                }
                let ((of_keys, _), (of_values, _)) =
                    (self.measure(&key, true)?, self.measure(&value, false)?);
                form(layers::tag(of_keys, of_values), LINE_BYTES / 8, self.ordered_map(key, value))
            }
            Target::HashMap(key, value) => {
                let ((of_keys, _), (of_values, _)) =
                    (self.measure(&key, true)?, self.measure(&value, false)?);
                form(
                    hash_map::tag(of_keys, of_values),
                    hash_map::HEADER_WORDS as u64,
                    Kind::HashMap { key, value },
                )
            }
            Target::Vector(element) => {
                let (of_elements, size) = self.measure(&element, false)?;
                let tags = Tags::of(of_elements);
                let kind = Kind::Vector { element, tags, each: size? as u64 };
                form(tags.header, vector::HEADER_WORDS as u64, kind)
            }
            Target::Queue(item) => {
                let (of_items, _) = self.measure(&item, false)?;
                let (tag, node_tag) = queue::tags(of_items);
                form(tag, queue::HEADER_WORDS as u64, Kind::Queue { item, node_tag })
            }
            Target::Text => form(bytes::TAG, bytes::HEADER_WORDS, Kind::Text),
            Target::Bytes => form(bytes::TAG, bytes::HEADER_WORDS, Kind::Bytes),
        }
    }

    /// A pointer to values of this type.
    fn pointer(&self, part: Part) -> Option<Form> {
        let (of_value, size) = self.measure(&part, false)?;
        let (name, words) = (part.name.as_str().into(), 1 + size? as u64);
        Some(Form { name, tag: layout::tag(of_value), words, kind: Kind::Ptr(part), table: None })
    }

    fn ordered_map(&self, key: Part, value: Part) -> Kind {
        let codec = |part| Codec::again(part, &self.types);
        let inline = codec(&key.shape).is_word_key() && codec(&value.shape).is_one_word();
        Kind::OrderedMap { key, value, inline }
    }

    /// The value of this type that stands alone in `words`.
    fn value(&self, part: &Part, words: &[u64], bytes: u64) -> Option<Dynamic> {
        Codec::again(&part.shape, &self.types).read_value(words, bytes).ok()
    }

    /// Reaches all that a value leads to.
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
    /// Reaches what a pointer or collection at `at` leads to.
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

    /// Looks over what is there.
    fn look(self, checker: &mut Checker<'v, '_>, at: PersistentAddress) -> Result<()> {
        let Self { world, form } = &self;
        let walker = world.walker;
        let type_name = || form.name.to_string();
        let is_value = matches!(form.kind, Kind::Ptr(_) | Kind::Text | Kind::Bytes);
        let mut rows = None;
        if let Some(table) = &form.table {
            if walker.show.is_some() {
                rows = checker.read(|tx| self.count(tx, at))?;
            }
            walker.met(|| Shown::Table { table: table.clone(), rows })?;
        } else if !is_value {
            walker.met(|| Shown::Collection { at: at.offset(), type_name: type_name() })?;
        }
        let surveyed = Cell::new(0);
        let value = match &form.kind {
            Kind::Ptr(part) => {
                let mut words = vec![0; form.words as usize];
                if checker.read(|tx| tx.read_range(at, &mut words))?.is_none() {
                    return Ok(());
                }
                let value = world.value(part, &words[1..], 8 * (form.words - 1));
                match &value {
                    Some(value) => world.follow(checker, value)?,
                    None => checker.damaged(no_value(at, &form.name)),
                }
                value
            }
            Kind::Text => bytes::look_at_text(checker, at)?.map(Dynamic::Text),
            Kind::Bytes => bytes::look(checker, at)?.map(Dynamic::Bytes),
            Kind::OrderedMap { key, value, inline } => {
                let map = (form.tag, *inline);
                layers::survey(checker, at, map, &mut |checker, at, key_bytes, words, bytes| {
                    surveyed.update(|count| count + 1);
                    self.pair(checker, at, (key, key_bytes), (value, words, bytes))
                })?;
                return self.compare(checker, rows, surveyed.get());
            }
            Kind::HashMap { key, value } => {
                return hash_map::survey(
                    checker,
                    at,
                    form.tag,
                    &mut |checker, at, key_bytes, words, bytes| {
                        self.pair(checker, at, (key, key_bytes), (value, words, bytes))
                    },
                );
            }
            Kind::Vector { element, tags, each } => {
                return vector::survey(checker, at, *tags, *each, &mut |checker, at, words, bytes| {
                    self.element(checker, at, (element, words, bytes))
                });
            }
            Kind::Queue { item, node_tag } => {
                queue::survey(checker, at, *node_tag, &mut |checker, at, words, bytes| {
                    surveyed.update(|count| count + 1);
                    self.element(checker, at, (item, words, bytes))
                })?;
                return self.compare(checker, rows, surveyed.get());
            }
            Kind::Catalogue => None,
        };
        match value {
            Some(value) => walker.met(|| Shown::Value { at: at.offset(), type_name: type_name(), value }),
            None => Ok(()),
        }
    }

    /// Counts the rows of the table at `at`.
    fn count(&self, tx: &mut impl Read, at: PersistentAddress) -> Result<u64, Abort> {
        match &self.form.kind {
            Kind::OrderedMap { inline, .. } => {
                let first = layers::first_layer(tx, at, self.form.tag)?;
                layers::count(tx, first, *inline)
            }
            Kind::Queue { node_tag, .. } => queue::count(tx, at, *node_tag),
            _ => Ok(0),
        }
    }

    /// Compares the rows that were shown of a table with those that were counted, if they were.
    fn compare(&self, checker: &mut Checker<'_, '_>, rows: Option<u64>, surveyed: u64) -> Result<()> {
        if let Some(rows) = rows
            && let Err(error) = compare_moved(|| format!("rows of {}", self.form.name), rows, surveyed)
        {
            checker.damaged(error.to_string());
        }
        Ok(())
    }

    /// Looks over a pair of a map that is at `at`.
    fn pair(
        &self,
        checker: &mut Checker<'v, '_>,
        at: PersistentAddress,
        (key, key_bytes): (&Part, &[u8]),
        (value, words, bytes): (&Part, &[u64], u64),
    ) -> Result<()> {
        let decoded_key = Codec::again(&key.shape, &self.world.types).read_key(key_bytes).ok();
        if decoded_key.is_none() {
            has_none(checker, at, "key", &key.name);
        }
        let decoded = self.world.value(value, words, bytes);
        match &decoded {
            Some(value) => self.world.follow(checker, value)?,
            None => has_none(checker, at, "value", &value.name),
        }
        match decoded_key.zip(decoded) {
            Some((key, value)) => self.world.walker.met(|| self.row(key, value)),
            None => Ok(()),
        }
    }

    /// A pair as it is shown: in a multimap, its key is a key with one of its values.
    fn row(&self, key: Dynamic, value: Dynamic) -> Shown {
        let is_multimap = self.form.table.as_ref().is_some_and(|table| table.kind == TableKind::Multimap);
        match key {
            Dynamic::List(mut pair) if is_multimap => {
                let value = pair.pop().unwrap_or(Dynamic::Unit);
                Shown::Row { key: pair.pop(), value }
            }
            key => Shown::Row { key: Some(key), value },
        }
    }

    /// Looks over an element of a vector or an item of a queue that is at `at`.
    fn element(
        &self,
        checker: &mut Checker<'v, '_>,
        at: PersistentAddress,
        (part, words, bytes): (&Part, &[u64], u64),
    ) -> Result<()> {
        match self.world.value(part, words, bytes) {
            Some(value) => {
                self.world.follow(checker, &value)?;
                self.world.walker.met(|| Shown::Row { key: None, value })
            }
            None => {
                checker.damaged(no_value(at, &part.name));
                Ok(())
            }
        }
    }
}

/// Reaches the root at `at`, whose type is described as `type_name` among `types`.
pub(crate) fn reach_root<'v>(
    checker: &mut Checker<'v, '_>,
    at: PersistentAddress,
    root_type: &RootType,
    (type_name, types): (&str, Types),
    walker: Walker<'v>,
) -> Result<()> {
    let world = World::new(types, walker);
    let Some(form) = Part::of(type_name).and_then(|part| world.pointer(part)) else {
        checker.unknown(&type_name.into());
        return Ok(());
    };
    if form.tag != layout::tag(root_type.layout) || form.words != root_type.words.saturating_add(1) {
        checker.damaged(root_type.contradiction());
        return Ok(());
    }
    Described { world, form: Rc::new(form) }.reach(checker, at)
}

/// Reaches the table at `at`, whose structure has the tag `tag`, and its items, if it is a queue, `item_tag`. `false`: its types are
/// known to its program alone.
pub(crate) fn reach_table<'v>(
    checker: &mut Checker<'v, '_>,
    at: PersistentAddress,
    table: TableDescription,
    (tag, item_tag): (u64, u64),
    walker: Walker<'v>,
) -> Result<bool> {
    let world = World::new(table.types.clone(), walker);
    let part =
        |name: &str| Part::of(name).filter(|part| Values { types: &world.types }.check(&part.shape).is_ok());
    let TableDescription { key, value, .. } = &table;
    let (words, kind) = match table.kind {
        TableKind::Table => {
            let (Some(key), Some(value)) = (part(key), part(value)) else { return Ok(false) };
            (LINE_BYTES / 8, world.ordered_map(key, value))
        }
        TableKind::Multimap => {
            let (Some(key), Some(value)) = (part(&format!("({key}, {value})")), part("()")) else {
                return Ok(false);
            };
            (LINE_BYTES / 8, world.ordered_map(key, value))
        }
        TableKind::Queue => {
            let Some(item) = part(value) else { return Ok(false) };
            (queue::HEADER_WORDS as u64, Kind::Queue { item, node_tag: item_tag })
        }
    };
    let name = format!("the table `{}`", table.name).into();
    let form = Rc::new(Form { name, tag, words, kind, table: Some(table) });
    Described { world, form }.reach(checker, at)?;
    Ok(true)
}

#[cfg(test)]
mod tests;
