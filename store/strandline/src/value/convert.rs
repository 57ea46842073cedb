//! Conversion of values to the present version of their type, without code of the program: new fields have a default, removed fields are dropped,
//! names may have changed, and numbers may have become wider.

use std::iter;
use std::sync::Arc;

use super::form::{Form, Kind, List, Named, Node, Parts, word};
use super::persist::Invalid;
use super::schema::{TypeDescription, Types, VariantDescription, have_the_same_fields};
use super::shape::{Shape, own_name};

/// A conversion of the values of one type to those of another.
pub(crate) struct Conversion {
    from: Form,
    to: Form,
    plan: Plan,
}

/// The steps that convert a value of one form to another form.
enum Plan {
    /// Copies the words unchanged.
    Keep,
    /// Stores a number of the first shape in the second, wider one.
    Widen(Shape, Shape),
    /// Converts a value to one of this form, and wraps it in an option.
    Some(Box<Plan>, Arc<Form>),
    /// Converts the value of an option to this form.
    Option(Box<Plan>, Arc<Form>),
    /// Converts all elements by the same plan to elements of this list. If `true`, their number is stored before them.
    Each(Box<Plan>, Arc<List>, bool),
    Tuple(Vec<Plan>),
    /// The plans for the variants of the earlier version, and the new type.
    Named(Vec<VariantPlan>, Arc<Named>),
}

/// The number of the new variant, and a plan for each of its fields.
struct VariantPlan(usize, Vec<FieldPlan>);

enum FieldPlan {
    /// Converts the field that has this number in the earlier version.
    Was(usize, Plan),
    /// Stores these words, since the earlier version has no such field.
    New(Vec<u64>),
}

impl Conversion {
    /// Plans the conversion from the type `from`, whose form is `old` if it is known, to `to`, which `new` describes.
    ///
    /// # Errors
    /// Returns the reasons why the type cannot be converted, one on each line.
    pub fn new((from, old): (&str, Option<Form>), (to, new): (&str, &Types)) -> Result<Self, String> {
        for name in [from, to] {
            Shape::of(name).ok_or_else(|| format!("\n  {name} cannot be converted"))?;
        }
        // The values that a handle refers to may have changed as well.
        let plain = |form: Option<Form>| form.filter(|form| !form.facts.has_handles);
        let Some((from, to)) = plain(old).zip(plain(Form::of(to, new))) else {
            return Err(format!(
                "\n  {from} contains a pointer, a collection, or a type without a description"
            ));
        };
        let mut planner = Planner { reasons: String::new() };
        let plan = planner.plan("value", &from, &to);
        if planner.reasons.is_empty() { Ok(Self { from, to, plan }) } else { Err(planner.reasons) }
    }

    /// Converts a stand-alone value of the earlier type, and returns its new words and its new length in bytes.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the words are not a valid value of the earlier type.
    pub fn convert(&self, words: &[u64], bytes: u64) -> Result<(Vec<u64>, u64), Invalid> {
        let mut to = Vec::new();
        self.from.decode_alone(words, bytes, |from| self.plan.convert(&self.from, from, &mut to))?;
        Ok(self.to.encoded_alone(to))
    }
}

/// Plans a conversion, and collects the reasons why there is none. The plan is valid only if there are no reasons.
struct Planner {
    reasons: String,
}

impl Planner {
    fn refuse(&mut self, reason: String) -> Plan {
        self.reasons += &reason;
        Plan::Keep
    }

    fn plan(&mut self, path: &str, from: &Form, to: &Form) -> Plan {
        if let (Kind::Plain(shape), Kind::Plain(wanted)) = (&from.kind, &to.kind)
            && is_wider(shape, wanted)
        {
            return if shape == wanted { Plan::Keep } else { Plan::Widen(shape.clone(), wanted.clone()) };
        }
        match (&from.kind, &to.kind) {
            (Kind::Option(from), Kind::Option(to)) => match self.plan(path, from, to) {
                Plan::Keep => Plan::Keep,
                plan => Plan::Option(Box::new(plan), to.clone()),
            },
            (Kind::Vec(from), Kind::Vec(to)) => self.each(path, from, to, true),
            (Kind::Array(from, count), Kind::Array(to, same)) if count == same => {
                self.each(path, from, to, false)
            }
            (Kind::Tuple(from), Kind::Tuple(to)) if from.len() == to.len() => {
                let parts = from.iter().zip(to).enumerate();
                let plans =
                    parts.map(|(number, (from, to))| self.plan(&format!("{path}.{number}"), from, to));
                Plan::Tuple(plans.collect())
            }
            (Kind::As(name, from), Kind::As(same, to)) if name == same => self.plan(path, from, to),
            (Kind::Named(from), Kind::Named(to))
                if own_name(&from.description.name) == own_name(&to.description.name) =>
            {
                self.named(from, to)
            }
            (_, Kind::Option(to)) => Plan::Some(Box::new(self.plan(path, from, to)), to.clone()),
            _ => self.refuse(format!(
                "\n  {path}: only numbers can become wider, and a value can become an option"
            )),
        }
    }

    fn each(&mut self, path: &str, from: &List, to: &Arc<List>, is_counted: bool) -> Plan {
        match self.plan(path, &from.element, &to.element) {
            Plan::Keep if from.packed == to.packed => Plan::Keep,
            plan => Plan::Each(Box::new(plan), to.clone(), is_counted),
        }
    }

    fn named(&mut self, from: &Named, to: &Arc<Named>) -> Plan {
        let (old, new) = (&from.description, &to.description);
        let name = &new.name;
        if old.layout == new.layout {
            return Plan::Keep;
        }
        if new.version < old.version {
            // Newer values may have content for which the older type has no place. So there is no advice on how to change the type.
            return self.refuse(format!(
                "\n  {name}: version {} cannot become the older version {}",
                old.version, new.version
            ));
        }
        // A type that only contains a changed type has not changed itself.
        let is_changed = !have_the_same_fields(old, new);
        if is_changed && new.version == old.version {
            self.refuse(format!(
                "\n  {name}: it has changed: raise its version with #[persist(version = {})]",
                u64::from(old.version) + 1
            ));
        }
        if old.is_enum != new.is_enum {
            return self.refuse(format!(
                "\n  {name}: a structure cannot become an enumeration, nor an enumeration a structure"
            ));
        }
        let mut variants = Vec::with_capacity(old.variants.len());
        for (number, before) in old.variants.iter().enumerate() {
            if let Some(now) = variant_of(old, new, number) {
                let fields = self.fields(
                    name,
                    (before, &from.variants[number]),
                    (&new.variants[now], &to.variants[now]),
                );
                variants.push(VariantPlan(now, fields));
            } else {
                self.refuse(format!(
                    "\n  {name}::{}: the variant was removed, but values may have it: mark the variant that replaces it with #[persist(was = \"…\")]",
                    before.name
                ));
            }
        }
        Plan::Named(variants, to.clone())
    }

    fn fields(
        &mut self,
        name: &str,
        (before, from): (&VariantDescription, &[Form]),
        (now, to): (&VariantDescription, &[Form]),
    ) -> Vec<FieldPlan> {
        let fields = now.fields.iter().zip(to).zip(sources(before, now));
        let plans = fields.map(|((field, to), source)| {
            let path = format!("{name}.{}", field.name);
            match (source, &field.default) {
                (Some(at), _) => FieldPlan::Was(at, self.plan(&path, &from[at], to)),
                (None, Some(default)) => FieldPlan::New(default.clone()),
                (None, None) => {
                    self.refuse(format!(
                        "\n  {path}: the field is new: add #[persist(default)], or if it was renamed #[persist(was = \"…\")]"
                    ));
                    FieldPlan::New(Vec::new())
                }
            }
        });
        plans.collect()
    }
}

impl Plan {
    /// Takes a value of the form `form` from `from`, and appends the converted value to `to`.
    fn convert(&self, form: &Form, from: &mut &[u64], to: &mut Vec<u64>) -> Result<(), Invalid> {
        match self {
            Self::Keep => {
                to.extend_from_slice(form.skip(from)?);
                return Ok(());
            }
            Self::Some(plan, inside) => {
                mark(inside, true, to);
                return plan.convert(form, from, to);
            }
            _ => {}
        }
        if let Some((parts, words)) = form.unpacked(from)? {
            return self.convert_each(parts, &mut words.as_slice(), to);
        }
        form.open(from, |node, from| match (self, node) {
            (Self::Widen(shape, wanted), Node::Plain(_)) => widen(shape, wanted, from, to),
            (Self::Option(_, wanted), Node::Option(None)) => {
                mark(wanted, false, to);
                to.extend(iter::repeat_n(0, wanted.facts.size.unwrap_or(0)));
                Ok(())
            }
            (Self::Option(plan, wanted), Node::Option(Some(inside))) => {
                mark(wanted, true, to);
                plan.convert(inside, from, to)
            }
            (Self::Each(..), Node::List(parts)) => self.convert_each(parts, from, to),
            (Self::Tuple(plans), Node::List(parts)) => {
                parts.iter().zip(plans).try_for_each(|(part, plan)| plan.convert(part, from, to))
            }
            (Self::Named(variants, wanted), Node::Variant(_, number, fields)) => {
                let plan = variants.get(number).ok_or(Invalid)?;
                plan.convert(wanted, fields, from, to)
            }
            _ => Err(Invalid),
        })
    }

    /// Converts the elements of a list, whose forms are `parts`.
    fn convert_each(&self, parts: Parts<'_>, from: &mut &[u64], to: &mut Vec<u64>) -> Result<(), Invalid> {
        let Self::Each(plan, list, is_counted) = self else { return Err(Invalid) };
        to.extend(is_counted.then(|| parts.count()));
        let begin = to.len();
        parts.iter().try_for_each(|part| plan.convert(part, from, to))?;
        list.pack_from(begin, to)
    }
}

/// Appends the word that says whether an option has a value, unless the form `inside` of the value makes it redundant.
fn mark(inside: &Form, is_some: bool, to: &mut Vec<u64>) {
    if !inside.is_never_zero() {
        to.push(is_some.into());
    }
}

impl VariantPlan {
    fn convert(
        &self,
        wanted: &Named,
        fields: &[Form],
        from: &mut &[u64],
        to: &mut Vec<u64>,
    ) -> Result<(), Invalid> {
        let Self(number, plans) = self;
        let words = fields.iter().map(|field| field.skip(from)).collect::<Result<Vec<_>, _>>()?;
        let begin = wanted.begin(*number, to);
        for plan in plans {
            match plan {
                FieldPlan::Was(at, plan) => plan.convert(&fields[*at], &mut { words[*at] }, to)?,
                FieldPlan::New(default) => to.extend_from_slice(default),
            }
        }
        wanted.fill(begin, to);
        Ok(())
    }
}

/// A name, and its former name.
type Names<'t> = (&'t str, Option<&'t str>);

/// Returns, for each name in `now`, the index of the name in `before` from which it comes. A field with the same name and the same former name is
/// unchanged and is matched first. Former names are matched next, and equal names last. No name is matched twice.
fn origins(before: &[Names<'_>], now: &[Names<'_>]) -> Vec<Option<usize>> {
    let mut origins = vec![None; now.len()];
    let mut taken = vec![false; before.len()];
    let mut assign = |may: &dyn Fn(Names<'_>, Names<'_>) -> bool| {
        for (origin, &name) in origins.iter_mut().zip(now) {
            if origin.is_none()
                && let Some(at) = (0..before.len()).find(|&at| !taken[at] && may(before[at], name))
            {
                (*origin, taken[at]) = (Some(at), true);
            }
        }
    };
    assign(&|earlier, name| name.1.is_some() && earlier == name);
    assign(&|earlier, name| name.1 == Some(earlier.0));
    assign(&|earlier, name| earlier.0 == name.0);
    origins
}

/// Returns the variant of the new version that the variant `number` of the earlier version becomes.
fn variant_of(old: &TypeDescription, new: &TypeDescription, number: usize) -> Option<usize> {
    fn names(of: &TypeDescription) -> Vec<Names<'_>> {
        of.variants.iter().map(|variant| (variant.name.as_str(), variant.was.as_deref())).collect()
    }
    if !new.is_enum {
        return (!new.variants.is_empty()).then_some(0);
    }
    origins(&names(old), &names(new)).iter().position(|origin| *origin == Some(number))
}

/// Returns, for each field, the index of the field in the earlier version that has its value.
fn sources(before: &VariantDescription, now: &VariantDescription) -> Vec<Option<usize>> {
    fn names(of: &VariantDescription) -> Vec<Names<'_>> {
        of.fields.iter().map(|field| (field.name.as_str(), field.was.as_deref())).collect()
    }
    origins(&names(before), &names(now))
}

/// Returns whether every value of the shape `from` is also a value of the shape `to`, perhaps as a wider number.
fn is_wider(from: &Shape, to: &Shape) -> bool {
    match (from, to) {
        (Shape::Unsigned(from), Shape::Unsigned(to))
        | (Shape::Signed(from), Shape::Signed(to))
        | (Shape::Float(from), Shape::Float(to)) => from <= to,
        (Shape::Unsigned(from), Shape::Signed(to)) => from < to,
        (from, to) => from == to,
    }
}

/// Takes a number and appends it to `to` in a wider shape.
fn widen(shape: &Shape, wanted: &Shape, from: &mut &[u64], to: &mut Vec<u64>) -> Result<(), Invalid> {
    let low = word(from)?;
    to.push(widen_word(shape, wanted, low));
    to.extend((wanted.size() == Some(2)).then(|| high_word(shape, low)));
    Ok(())
}

/// Returns the word of a number in a wider shape.
fn widen_word(shape: &Shape, wanted: &Shape, word: u64) -> u64 {
    match (shape, wanted) {
        (Shape::Float(32), Shape::Float(64)) => f64::from(f32::from_bits(word as u32)).to_bits(),
        _ => word,
    }
}

/// Returns the second word of a number with two words, which repeats the sign.
fn high_word(shape: &Shape, low: u64) -> u64 {
    if matches!(shape, Shape::Signed(_)) { (low as i64 >> 63) as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::value::persist::Stored;
    use crate::{Persist, Value};

    mod before {
        use crate::Persist;

        #[derive(Clone, Debug, PartialEq, Persist)]
        pub struct Person {
            pub name: String,
            pub age: u8,
            pub fax: Option<u32>,
            pub shapes: Vec<Shape>,
            pub sizes: Vec<i16>,
            pub pair: (bool, [u32; 2]),
            pub same: Option<Same>,
        }

        #[derive(Clone, Copy, Debug, PartialEq, Persist)]
        pub enum Shape {
            Point,
            Circle(u16),
            Line { from: i8, to: i8 },
        }

        #[derive(Clone, Debug, PartialEq, Persist)]
        pub struct Same {
            pub text: String,
            pub numbers: [u8; 3],
        }
    }

    mod now {
        pub use super::before::Same;
        use crate::Persist;

        #[derive(Clone, Debug, PartialEq, Persist)]
        #[persist(version = 2)]
        pub struct Person {
            #[persist(default = vec!["none".to_string()])]
            pub mail: Vec<String>,
            pub shapes: Vec<Shape>,
            #[persist(was = "age")]
            pub years: i64,
            pub name: Option<String>,
            pub sizes: Vec<i128>,
            pub pair: (bool, [u64; 2]),
            #[persist(default)]
            pub score: f64,
            pub same: Option<Same>,
        }

        #[derive(Clone, Debug, PartialEq, Persist)]
        #[persist(version = 5)]
        pub enum Shape {
            Text(String),
            #[persist(was = "Circle")]
            Ring {
                #[persist(was = "0")]
                radius: u32,
                #[persist(default = 7)]
                width: u8,
            },
            Line {
                to: i32,
                from: i32,
            },
            Point,
        }
    }

    fn expected(old: before::Person) -> now::Person {
        let shape = |shape| match shape {
            before::Shape::Point => now::Shape::Point,
            before::Shape::Circle(radius) => now::Shape::Ring { radius: radius.into(), width: 7 },
            before::Shape::Line { from, to } => now::Shape::Line { to: to.into(), from: from.into() },
        };
        now::Person {
            mail: vec!["none".into()],
            shapes: old.shapes.into_iter().map(shape).collect(),
            years: old.age.into(),
            name: Some(old.name),
            sizes: old.sizes.into_iter().map(i128::from).collect(),
            pair: (old.pair.0, old.pair.1.map(u64::from)),
            score: 0.0,
            same: old.same,
        }
    }

    fn person() -> impl Strategy<Value = before::Person> {
        let shape = prop_oneof![
            Just(before::Shape::Point),
            any::<u16>().prop_map(before::Shape::Circle),
            any::<(i8, i8)>().prop_map(|(from, to)| before::Shape::Line { from, to }),
        ];
        let same = (".{0,9}", any::<[u8; 3]>()).prop_map(|(text, numbers)| before::Same { text, numbers });
        let rest = (any::<(bool, [u32; 2])>(), prop::option::of(same));
        (".{0,20}", any::<u8>(), any::<Option<u32>>(), vec(shape, 0..5), vec(any::<i16>(), 0..9), rest)
            .prop_map(|(name, age, fax, shapes, sizes, (pair, same))| before::Person {
                name,
                age,
                fax,
                shapes,
                sizes,
                pair,
                same,
            })
    }

    fn described<T: Value>() -> (String, Types) {
        let mut types = Types::default();
        (T::describe(&mut types), types)
    }

    fn words<T: Value>(value: &T) -> (Vec<u64>, u64) {
        let bytes = Persist::bytes(value);
        let mut words = vec![0; bytes.div_ceil(8) as usize];
        Persist::encode(value, &mut words);
        (words, bytes)
    }

    fn converted<T: Value, U: Value>(value: &T) -> U {
        let ((from, old), (to, new)) = (described::<T>(), described::<U>());
        let conversion = Conversion::new((&from, Form::of(&from, &old)), (&to, &new)).unwrap();
        let (words, bytes) = words(value);
        let (words, bytes) = conversion.convert(&words, bytes).unwrap();
        U::decode(&words, bytes, Stored::new()).unwrap()
    }

    fn refused<T: Value, U: Value>() -> String {
        let ((from, old), (to, new)) = (described::<T>(), described::<U>());
        Conversion::new((&from, Form::of(&from, &old)), (&to, &new)).map(drop).unwrap_err()
    }

    proptest! {
        #[test]
        fn earlier_values_become_present_ones(value in person(), numbers: Vec<u16>, text: String) {
            prop_assert_eq!(converted::<_, now::Person>(&value), expected(value.clone()));
            let all = vec![value.clone(), value];
            let expected: Vec<_> = all.iter().cloned().map(expected).collect();
            prop_assert_eq!(converted::<_, Vec<now::Person>>(&all), expected);
            let wide: Vec<i32> = numbers.iter().map(|&n| n.into()).collect();
            prop_assert_eq!(converted::<_, Vec<i32>>(&numbers), wide);
            prop_assert_eq!(converted::<_, Option<String>>(&text), Some(text));
        }

        /// The description gives every type the layout that the type itself has. Damaged words are refused or are a value, but do not panic.
        #[test]
        fn shapes_are_those_of_the_types(value in person(), at: prop::sample::Index, word: u64) {
            let (name, types) = described::<before::Person>();
            let form = Form::of(&name, &types).unwrap();
            prop_assert_eq!(form.facts.size, before::Person::SIZE);
            prop_assert_eq!(Form::of("Shape", &types).unwrap().facts.size, before::Shape::SIZE);
            let (mut words, _) = words(&value);
            let mut rest = words.as_slice();
            prop_assert_eq!(form.skip(&mut rest).unwrap().len(), words.len());
            prop_assert!(rest.is_empty());
            let at = at.index(words.len());
            words[at] = word;
            let _ = form.skip(&mut words.as_slice());
        }
    }

    /// A renamed field keeps its values in later versions, and a new field with its former name does not get them.
    #[test]
    fn former_names_are_looked_at_once() {
        let of = |before: &[_], now: &[_]| origins(before, now);
        let first = [("a", None)];
        let second = [("b", Some("a")), ("a", None)];
        let third = [("c", None), ("a", None), ("b", Some("a"))];
        assert_eq!(of(&first, &second), [Some(0), None]);
        assert_eq!(of(&second, &third), [None, Some(1), Some(0)]);
        assert_eq!(of(&first, &third), [None, None, Some(0)]);
        // The attribute can be removed later, and the renamed variant is still recognised.
        assert_eq!(of(&second, &[("b", None), ("a", None)]), [Some(0), Some(1)]);
    }

    #[test]
    fn numbers_keep_their_values() {
        assert_eq!(converted::<_, Vec<i128>>(&vec![u64::MAX, 1]), [u64::MAX.into(), 1]);
        assert_eq!(converted::<_, Vec<i128>>(&vec![-1i64, 1]), [-1, 1]);
        assert_eq!(converted::<_, i128>(&-7i8), -7);
        assert_eq!(converted::<_, i128>(&u64::MAX), u64::MAX.into());
        assert_eq!(converted::<_, f64>(&1.5f32), 1.5);
        assert_eq!(converted::<_, (i64, Option<u32>)>(&(-1i32, 3u8)), (-1, Some(3)));
        assert_eq!(converted::<_, Option<[i64; 2]>>(&Some([i16::MIN, 1])), Some([-32768, 1]));
        assert_eq!(converted::<_, Option<u64>>(&None::<u8>), None);
        assert_eq!(converted::<_, Vec<Option<u8>>>(&vec![1u8, 0]), [Some(1), Some(0)]);
        assert_eq!(converted::<_, Vec<(i64, u8)>>(&vec![(-1i8, 2u8)]), [(-1, 2)]);
        assert_eq!(converted::<_, [[i32; 2]; 2]>(&[[1i16, -1], [0, i16::MIN]]), [[1, -1], [0, -32768]]);
    }

    #[test]
    fn what_cannot_be_converted_is_told() {
        mod changed {
            #[derive(crate::Persist)]
            #[persist(version = 3)]
            pub struct Person {
                _name: String,
                _age: u8,
            }
            #[derive(crate::Persist)]
            #[persist(version = 2)]
            pub enum Shape {
                _Point,
            }
        }
        assert_eq!(
            refused::<before::Person, changed::Person>(),
            "\n  Person._name: the field is new: add #[persist(default)], or if it was renamed #[persist(was = \"…\")]\
             \n  Person._age: the field is new: add #[persist(default)], or if it was renamed #[persist(was = \"…\")]"
        );
        assert!(
            refused::<before::Shape, changed::Shape>().contains("Shape::Circle: the variant was removed")
        );
        assert!(refused::<u64, u32>().contains("only numbers can become wider"));
        let back = refused::<now::Person, before::Person>();
        assert_eq!(back, "\n  Person: version 2 cannot become the older version 1");
        assert!(refused::<Vec<u8>, Vec<String>>().contains("only numbers"));
    }

    /// Elements without words take no space in the pool. Their number is bounded only by the memory that they would take.
    #[test]
    fn damaged_counts_take_no_memory() {
        let decode = |count: u64| Vec::<Box<()>>::decode(&[count], 8, Stored::new()).map(|all| all.len());
        assert_eq!(decode(u16::MAX.into()), Ok(65_535));
        assert_eq!(decode(1 << 16), Err(Invalid));
        assert_eq!(Vec::<()>::decode(&[1 << 20], 8, Stored::new()).map(|all| all.len()), Ok(1 << 20));
    }
}
