//! Descriptions of the types in a pool, for programs that do not know them.

use std::fmt::Write;

use super::shape::{Shape, own_name};

use crate::Persist as Derive;

/// A structure or an enumeration, as a pool describes it.
#[derive(Clone, Debug, PartialEq, Eq, Derive)]
#[persist(name = "strandline::TypeDescription")]
pub struct TypeDescription {
    /// The type's name. Further types of the same name have a number after it: `Person#2`.
    pub name: String,
    /// The type's version.
    pub version: u32,
    /// The hash of the type's layout.
    pub layout: u64,
    /// True for an enumeration.
    pub is_enum: bool,
    /// The variants in order. A structure has one.
    pub variants: Vec<VariantDescription>,
}

/// A variant of an enumeration, or the only variant of a structure.
#[derive(Clone, Debug, PartialEq, Eq, Derive)]
#[persist(name = "strandline::VariantDescription")]
pub struct VariantDescription {
    /// The variant's name. For a structure this is the structure's own name.
    pub name: String,
    /// The variant's name in earlier versions, if it was different.
    pub was: Option<String>,
    /// The fields in order.
    pub fields: Vec<FieldDescription>,
}

/// A field of a variant.
#[derive(Clone, Debug, PartialEq, Eq, Derive)]
#[persist(name = "strandline::FieldDescription")]
pub struct FieldDescription {
    /// The field's name, or its number if it has no name.
    pub name: String,
    /// The field's type, as [`Persist::describe`](crate::Persist::describe) returns it.
    pub type_name: String,
    /// The field's name in earlier versions, if it was different.
    pub was: Option<String>,
    /// The words of the field's value when a value of an earlier version without the field is converted.
    pub default: Option<Vec<u64>>,
}

/// The structures and enumerations that a type consists of.
///
/// ```
/// use strandline::{Persist, Types};
///
/// #[derive(Persist)]
/// struct Person {
///     name: String,
///     born: Option<u16>,
/// }
///
/// let mut types = Types::default();
/// assert_eq!(<Vec<Person>>::describe(&mut types), "Vec<Person>");
/// assert_eq!(types.all()[0].variants[0].fields[1].type_name, "Option<u16>");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Types {
    described: Described,
    /// The compiler's name of each type that was added by `note`. Types with the same layout can point to different types.
    identities: Vec<&'static str>,
}

/// The part of [`Types`] that is stored.
#[derive(Clone, Debug, Default, PartialEq, Eq, Derive)]
#[persist(name = "strandline::Types")]
struct Described {
    all: Vec<TypeDescription>,
}

impl PartialEq for Types {
    fn eq(&self, other: &Self) -> bool {
        self.described == other.described
    }
}

impl Eq for Types {}

// SAFETY: everything is that of [`Described`].
unsafe impl<'p> Derive<'p> for Types {
    const NAME: &'static str = <Described as Derive<'p>>::NAME;
    const LAYOUT: u64 = <Described as Derive<'p>>::LAYOUT;
    const SIZE: Option<usize> = <Described as Derive<'p>>::SIZE;
    fn describe(types: &mut Types) -> String {
        Described::describe(types)
    }
    fn words(&self) -> usize {
        self.described.words()
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        self.described.store(into)
    }
    fn load(from: &mut &[u64], stored: crate::Stored<'p>) -> Result<Self, crate::Invalid> {
        Described::load(from, stored).map(|described| Self { described, identities: Vec::new() })
    }
}

/// The type of a root, and the types that it consists of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Derive)]
#[persist(name = "strandline::Schema")]
#[non_exhaustive]
pub struct Schema {
    /// The root's type, as [`Persist::describe`](crate::Persist::describe) returns it.
    pub root: String,
    /// The structures and enumerations that are reachable from the root's type.
    pub types: Types,
}

impl Schema {
    pub(crate) fn of<'p, T: crate::Persist<'p>>() -> Self {
        let mut types = Types::default();
        Self { root: T::describe(&mut types), types }
    }

    /// Encodes the schema as bytes, for storing in the pool.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        bytemuck::cast_slice(&stored_words(self)).to_vec()
    }

    /// Decodes the result of [`Schema::to_bytes`].
    pub(crate) fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        crate::Persist::decode(&words, bytes.len() as u64, super::persist::Stored::new()).ok()
    }

    /// Returns whether values of both schemas are stored as the same words.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let same = |(one, other): (&TypeDescription, &TypeDescription)| {
            let fields = |all: &TypeDescription| -> Vec<String> {
                all.variants
                    .iter()
                    .flat_map(|variant| &variant.fields)
                    .map(|field| field.type_name.clone())
                    .collect()
            };
            one.name == other.name && one.layout == other.layout && fields(one) == fields(other)
        };
        let (own, others) = (self.types.all(), other.types.all());
        self.root == other.root && own.len() == others.len() && own.iter().zip(others).all(same)
    }
}

impl Types {
    /// Returns all types. A type comes before the types of its fields, unless these were already there.
    pub fn all(&self) -> &[TypeDescription] {
        &self.described.all
    }

    /// Returns the type of this name, or `None` if there is none.
    pub fn get(&self, name: &str) -> Option<&TypeDescription> {
        self.all().iter().find(|known| known.name == name)
    }

    pub(crate) fn get_mut(&mut self, name: &str) -> Option<&mut TypeDescription> {
        self.described.all.iter_mut().find(|known| known.name == name)
    }

    /// Adds a type. No other type may have its name.
    pub(crate) fn add(&mut self, description: TypeDescription) {
        self.described.all.push(description);
        self.identities.push("");
    }

    /// Adds the type `T` with the description that `variants` returns, unless it is already there. Returns its name here.
    #[doc(hidden)]
    pub fn note<T: ?Sized>(
        &mut self,
        (name, version, layout): (&str, u32, u64),
        is_enum: bool,
        variants: impl FnOnce(&mut Self) -> Vec<VariantDescription>,
    ) -> String {
        let identity = std::any::type_name::<T>();
        let is_known =
            |(known, noted): (&TypeDescription, &&str)| known.layout == layout && *noted == identity;
        let all = &mut self.described.all;
        if let Some(at) = all.iter().zip(&self.identities).position(is_known) {
            return all[at].name.clone();
        }
        let of_the_library = usize::from(!matches!(Shape::of(name), Some(Shape::Named(_))));
        let others = of_the_library + all.iter().filter(|known| own_name(&known.name) == name).count();
        let name = if others == 0 { name.to_owned() } else { format!("{name}#{}", others + 1) };
        // The type is added before its fields, because it may contain itself.
        let at = all.len();
        all.push(TypeDescription { name: name.clone(), version, layout, is_enum, variants: Vec::new() });
        self.identities.push(identity);
        let variants = variants(self);
        let all = &mut self.described.all;
        // A type with the same description is the same type.
        let same = all[..at].iter().find(|other| other.layout == layout && other.variants == variants);
        if let Some(same) = same.filter(|_| at + 1 == all.len()) {
            let name = same.name.clone();
            all.pop();
            self.identities.pop();
            return name;
        }
        all[at].variants = variants;
        name
    }
}

/// Returns the words of a value inside another one. Derived code calls this for the defaults of fields.
#[doc(hidden)]
pub fn stored_words<'p, T: crate::Persist<'p>>(value: &T) -> Vec<u64> {
    let mut words = vec![0; value.words()];
    value.store(&mut words);
    words
}

impl From<Vec<TypeDescription>> for Types {
    fn from(all: Vec<TypeDescription>) -> Self {
        Self { described: Described { all }, identities: Vec::new() }
    }
}

/// Returns a type's name without the numbers that distinguish types of the same name, since an earlier version of Strandline may have numbered them
/// differently.
pub(crate) fn without_numbers(type_name: &str) -> String {
    let mut parts = type_name.split('#');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |name, part| name + part.trim_start_matches(|of: char| of.is_ascii_digit()))
}

/// Returns whether both have the same variants and fields, and the fields have types of the same name. Numbers that distinguish types of the same
/// name are ignored.
pub(crate) fn have_the_same_fields(old: &TypeDescription, new: &TypeDescription) -> bool {
    let is_same = |(one, other): (&VariantDescription, &VariantDescription)| {
        let fields = one.fields.iter().map(|field| (&field.name, without_numbers(&field.type_name)));
        let others = other.fields.iter().map(|field| (&field.name, without_numbers(&field.type_name)));
        one.name == other.name && fields.eq(others)
    };
    old.is_enum == new.is_enum
        && old.variants.len() == new.variants.len()
        && old.variants.iter().zip(&new.variants).all(is_same)
}

/// Returns the type in `old` from which `now` comes, if its layout was different: the type with the same name, or else the one whose name has no
/// number and which has the same fields.
fn former<'t>(old: &'t Types, now: &TypeDescription) -> Option<&'t TypeDescription> {
    let former = old
        .get(&now.name)
        .or_else(|| old.get(own_name(&now.name)).filter(|before| have_the_same_fields(before, now)));
    former.filter(|before| before.layout != now.layout)
}

/// Describes how the types of `old` differ from those of `new`: a line for each type or field that differs, for the message of an error. If the
/// version in `old` is newer, only that is reported.
pub(crate) fn differences(old: &Types, new: &Types) -> String {
    let mut lines = changes(old, new);
    if lines.is_empty()
        && let Some(now) = new.all().iter().find(|now| former(old, now).is_some())
    {
        let _ = write!(
            lines,
            "\n  {}: its variants are in another order, or an earlier version of Strandline stored it in another way: \
             dump it with the program that wrote it, and load the dump",
            now.name
        );
    }
    lines
}

/// Like [`differences`], but without types of which no difference is known.
pub(crate) fn changes(old: &Types, new: &Types) -> String {
    let mut lines = String::new();
    for now in new.all() {
        let Some(before) = former(old, now) else { continue };
        if before.version > now.version {
            let _ = write!(
                lines,
                "\n  {}: a newer program wrote version {}, and this program has version {}: use the newer one",
                now.name, before.version, now.version
            );
            continue;
        }
        if before.version != now.version {
            let _ = write!(lines, "\n  {}: version {} became {}", now.name, before.version, now.version);
        }
        variants(before, now, &mut lines);
    }
    lines
}

fn variants(before: &TypeDescription, now: &TypeDescription, lines: &mut String) {
    let name = &now.name;
    for variant in &now.variants {
        // A structure has one variant, whatever it is called.
        let same = |other: &&VariantDescription| !now.is_enum || other.name == variant.name;
        let path = if now.is_enum { format!("{name}::{}", variant.name) } else { name.clone() };
        match before.variants.iter().find(same) {
            Some(earlier) => fields(&path, earlier, variant, lines),
            None => {
                let _ = write!(lines, "\n  {path}: new");
            }
        }
    }
    for gone in before.variants.iter().filter(|_| now.is_enum) {
        if !now.variants.iter().any(|variant| variant.name == gone.name) {
            let _ = write!(lines, "\n  {name}::{}: no longer there", gone.name);
        }
    }
}

fn fields(path: &str, before: &VariantDescription, now: &VariantDescription, lines: &mut String) {
    for field in &now.fields {
        let FieldDescription { name, type_name, .. } = field;
        let _ = match before.fields.iter().find(|earlier| earlier.name == *name) {
            Some(earlier) if without_numbers(&earlier.type_name) != without_numbers(type_name) => {
                write!(lines, "\n  {path}.{name}: {} became {type_name}", earlier.type_name)
            }
            Some(_) => Ok(()),
            None => write!(lines, "\n  {path}.{name}: {type_name}: new"),
        };
    }
    for gone in &before.fields {
        if !now.fields.iter().any(|field| field.name == gone.name) {
            let _ = write!(lines, "\n  {path}.{}: {}: no longer there", gone.name, gone.type_name);
        }
    }
    let names = |variant: &VariantDescription| -> Vec<String> {
        variant.fields.iter().map(|field| field.name.clone()).collect()
    };
    let (mut earlier, mut later) = (names(before), names(now));
    let in_order = earlier == later;
    earlier.sort_unstable();
    later.sort_unstable();
    if !in_order && earlier == later {
        let _ = write!(lines, "\n  {path}: its fields are in another order");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Derive)]
    struct Address {
        town: String,
    }

    mod before {
        use super::*;
        #[derive(Derive)]
        pub struct Person {
            _name: String,
            _age: u8,
            _fax: Option<u64>,
            _at: Address,
        }
        #[derive(Derive)]
        pub enum Shape {
            _Point,
            _Circle(u32),
        }
    }

    mod now {
        use super::*;
        #[derive(Derive)]
        #[persist(version = 2)]
        pub struct Person {
            _name: String,
            _age: u16,
            _mail: Vec<String>,
            _at: Address,
        }
        #[derive(Derive)]
        pub enum Shape {
            _Point,
            _Box(u32, u32),
        }
    }

    fn types<T: for<'p> Derive<'p>>() -> Types {
        let mut types = Types::default();
        T::describe(&mut types);
        types
    }

    #[test]
    fn differences_are_told_by_type_and_field() {
        let (before, now) =
            (types::<(before::Person, before::Shape)>(), types::<(now::Person, now::Shape)>());
        assert_eq!(
            differences(&before, &now),
            "\n  Person: version 1 became 2\
             \n  Person._age: u8 became u16\
             \n  Person._mail: Vec<String>: new\
             \n  Person._fax: Option<u64>: no longer there\
             \n  Shape::_Box: new\
             \n  Shape::_Circle: no longer there"
        );
        assert_eq!(differences(&now, &now), "");
        // A description from before elements of arrays were packed.
        let mut unpacked = now.all().to_vec();
        unpacked[0].layout ^= 1;
        assert!(
            differences(&unpacked.into(), &now)
                .contains("Person: its variants are in another order, or an earlier")
        );
        let back = differences(&now, &before);
        assert_eq!(
            back,
            "\n  Person: a newer program wrote version 2, and this program has version 1: use the newer one\
             \n  Shape::_Circle: new\
             \n  Shape::_Box: no longer there"
        );
    }

    /// A layout includes only the name of a type that a pointer refers to.
    #[test]
    fn types_of_one_layout_that_point_to_others_are_told_apart() {
        #[derive(Derive)]
        struct Cell<'p, T> {
            _value: T,
            _next: Option<crate::Ptr<'p, Cell<'p, T>>>,
        }
        #[derive(Derive)]
        struct List<'p, T> {
            _first: Option<crate::Ptr<'p, Cell<'p, T>>>,
        }
        #[derive(Derive)]
        struct Root<'p> {
            _small: List<'p, u8>,
            _large: List<'p, (u64, u64)>,
            _other: List<'p, u8>,
        }
        assert_eq!(<List<'_, u8> as Derive<'_>>::LAYOUT, <List<'_, (u64, u64)> as Derive<'_>>::LAYOUT);
        let mut types = Types::default();
        assert_eq!(<Root<'_> as Derive<'_>>::describe(&mut types), "Root");
        let field = |of: &str, at: usize| types.get(of).unwrap().variants[0].fields[at].type_name.clone();
        assert_eq!([0, 1, 2].map(|at| field("Root", at)), ["List", "List#2", "List"]);
        assert_eq!(
            (field("List", 0), field("List#2", 0)),
            ("Option<Ptr<Cell>>".into(), "Option<Ptr<Cell#2>>".into())
        );
        assert_eq!((field("Cell", 0), field("Cell#2", 0)), ("u8".into(), "(u64, u64)".into()));
    }

    #[test]
    fn types_of_one_name_are_told_apart() {
        let mut types = Types::default();
        assert_eq!(before::Person::describe(&mut types), "Person");
        assert_eq!(<(now::Person, before::Person)>::describe(&mut types), "(Person#2, Person)");
        assert_eq!(types.all().len(), 3);
    }
}
