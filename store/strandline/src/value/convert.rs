//! Values of an earlier version of a type become values of the present one, without a line of code: fields that are new have a default,
//! fields that are gone are left out, names may have changed, and numbers may have become wider.

use super::persist::Invalid;
use super::schema::{FieldDescription, TypeDescription, Types, VariantDescription};
use super::shape::{Begun, Shape, Values, count, elements, is_some, word};

/// How values of one type become values of another.
pub(crate) struct Conversion<'t> {
    old: Values<'t>,
    new: Values<'t>,
    from: Shape,
    to: Shape,
}

/// Whether both have the same variants and fields, whose types have the same names.
fn have_the_same_fields(old: &TypeDescription, new: &TypeDescription) -> bool {
    let is_same = |(one, other): (&VariantDescription, &VariantDescription)| {
        let of = |variant: &VariantDescription| {
            variant
                .fields
                .iter()
                .map(|field| (field.name.clone(), field.type_name.clone()))
                .collect::<Vec<_>>()
        };
        one.name == other.name && of(one) == of(other)
    };
    old.is_enum == new.is_enum
        && old.variants.len() == new.variants.len()
        && old.variants.iter().zip(&new.variants).all(is_same)
}

impl<'t> Conversion<'t> {
    /// The conversion from `from`, among the types `old`, to `to`, among `new`.
    ///
    /// # Errors
    /// Why there is none, a line each.
    pub fn new((from, old): (&str, &'t Types), (to, new): (&str, &'t Types)) -> Result<Self, String> {
        let (old, new) = (Values { types: old }, Values { types: new });
        let shape = |name: &str| Shape::of(name).ok_or_else(|| format!("\n  {name} cannot be converted"));
        let conversion = Self { old, new, from: shape(from)?, to: shape(to)? };
        // What a handle leads to may have changed, too.
        let is_plain = |values: Values<'_>, shape: &Shape| {
            values.check(shape).is_ok() && values.has_handles(shape) == Ok(false)
        };
        if !is_plain(conversion.old, &conversion.from) || !is_plain(conversion.new, &conversion.to) {
            return Err(format!("\n  {from} holds what is not described, as a pointer or a collection"));
        }
        let mut reasons = String::new();
        conversion.check("value", &conversion.from, &conversion.to, &mut reasons);
        if reasons.is_empty() { Ok(conversion) } else { Err(reasons) }
    }

    /// Says why a value of the form `from` is none of the form `to`.
    fn check(&self, path: &str, from: &Shape, to: &Shape, reasons: &mut String) {
        match (from, to) {
            (from, to) if is_wider(from, to) => {}
            (Shape::Option(from), Shape::Option(to)) => self.check(path, from, to, reasons),
            (Shape::Vec(from), Shape::Vec(to)) if from.packed().is_none() || is_wider(from, to) => {
                self.check(path, from, to, reasons);
            }
            (Shape::Array(from, count), Shape::Array(to, same)) if count == same => {
                self.check(path, from, to, reasons);
            }
            (Shape::Tuple(from), Shape::Tuple(to)) if from.len() == to.len() => {
                for (number, (from, to)) in from.iter().zip(to).enumerate() {
                    self.check(&format!("{path}.{number}"), from, to, reasons);
                }
            }
            (Shape::Named(from), Shape::Named(to)) if from == to => self.check_named(from, reasons),
            (from, Shape::Option(to)) => self.check(path, from, to, reasons),
            _ => reasons
                .push_str(&format!("\n  {path}: only numbers can become wider, and a value an option of it")),
        }
    }

    fn check_named(&self, name: &str, reasons: &mut String) {
        let (Ok(old), Ok(new)) = (self.old.named(name), self.new.named(name)) else {
            reasons.push_str(&format!("\n  {name} is not described"));
            return;
        };
        if old.layout == new.layout {
            return;
        }
        if new.version < old.version {
            // Its values may have what the older type has no place for, so that there is no advice about the type.
            reasons.push_str(&format!(
                "\n  {name}: version {} cannot become the older version {}",
                old.version, new.version
            ));
            return;
        }
        // What only holds a type that has changed has not changed itself.
        let is_changed = !have_the_same_fields(old, new);
        if is_changed && new.version == old.version {
            reasons.push_str(&format!(
                "\n  {name}: it has changed; say so by its version: #[persist(version = {})]",
                u64::from(old.version) + 1
            ));
        }
        if old.is_enum != new.is_enum {
            reasons.push_str(&format!("\n  {name}: a structure is no enumeration"));
            return;
        }
        for before in &old.variants {
            match variant_of(old, new, before) {
                Some(now) => self.check_fields(name, before, &new.variants[now], reasons),
                None => reasons.push_str(&format!(
                    "\n  {name}::{}: values of it would have nowhere to go; #[persist(was = \"…\")] gives it another name",
                    before.name
                )),
            }
        }
    }

    fn check_fields(
        &self,
        name: &str,
        before: &VariantDescription,
        now: &VariantDescription,
        reasons: &mut String,
    ) {
        for (field, source) in now.fields.iter().zip(sources(before, now)) {
            let path = format!("{name}.{}", field.name);
            match source {
                Some(at) => {
                    let from = Shape::of(&before.fields[at].type_name);
                    match from.zip(Shape::of(&field.type_name)) {
                        Some((from, to)) => self.check(&path, &from, &to, reasons),
                        None => reasons.push_str(&format!("\n  {path} cannot be converted")),
                    }
                }
                None if field.default.is_none() => reasons.push_str(&format!(
                    "\n  {path}: what is it in earlier values? #[persist(default)], or #[persist(was = \"…\")]"
                )),
                None => {}
            }
        }
    }

    /// The words and the bytes of a value that stands alone, from those of an earlier one.
    ///
    /// # Errors
    /// [`Invalid`]: the words are none of the earlier type.
    pub fn convert(&self, words: &[u64], bytes: u64) -> Result<(Vec<u64>, u64), Invalid> {
        let mut with_length = Vec::new();
        let mut from = match self.from.packed_alone() {
            Some(each) => {
                with_length.push(bytes / each as u64);
                with_length.extend_from_slice(words);
                with_length.as_slice()
            }
            None => words,
        };
        let mut to = Vec::new();
        self.one(&self.from, &mut from, &self.to, &mut to)?;
        if !from.is_empty() {
            return Err(Invalid);
        }
        match self.to.packed_alone() {
            Some(each) => {
                let count = to.remove(0);
                Ok((to, count * each as u64))
            }
            None => {
                let bytes = 8 * to.len() as u64;
                Ok((to, bytes))
            }
        }
    }

    /// Takes a value of the form `shape` from `from`, and stores it as one of the form `wanted` behind `to`.
    fn one(
        &self,
        shape: &Shape,
        from: &mut &[u64],
        wanted: &Shape,
        to: &mut Vec<u64>,
    ) -> Result<(), Invalid> {
        match (shape, wanted) {
            (Shape::Option(inside), Shape::Option(wanted)) => {
                let words = self.old.take(shape, from)?;
                let mut words = words;
                if is_some(&mut words)? {
                    to.push(1);
                    self.one(inside, &mut words, wanted, to)
                } else {
                    to.extend(std::iter::repeat_n(0, 1 + self.new.size(wanted)?.unwrap_or(0)));
                    Ok(())
                }
            }
            (shape, Shape::Option(wanted)) => {
                to.push(1);
                self.one(shape, from, wanted, to)
            }
            (Shape::Vec(element), Shape::Vec(wanted)) if element.packed().is_some() => {
                let (count, bytes) = elements(element, from)?;
                let numbers = bytes.chunks_exact(element.packed().ok_or(Invalid)?);
                let numbers = numbers.map(|number| widen(element, wanted, from_bytes(element, number)));
                pack((element, wanted), count, numbers, to)
            }
            (Shape::Vec(element), Shape::Vec(wanted)) => {
                let count = count(from, self.old.size(element)?)?;
                to.push(count);
                (0..count).try_for_each(|_| self.one(element, from, wanted, to))
            }
            (Shape::Array(element, count), Shape::Array(wanted, _)) => {
                (0..*count).try_for_each(|_| self.one(element, from, wanted, to))
            }
            (Shape::Tuple(parts), Shape::Tuple(wanted)) => {
                parts.iter().zip(wanted).try_for_each(|(part, wanted)| self.one(part, from, wanted, to))
            }
            (Shape::Named(name), Shape::Named(_)) => self.named(name, from, to),
            (shape, wanted) if shape == wanted => {
                to.extend_from_slice(self.old.take(shape, from)?);
                Ok(())
            }
            (Shape::Unsigned(_) | Shape::Signed(_) | Shape::Float(_), wanted) => {
                let low = word(from)?;
                to.push(widen(shape, wanted, low));
                match wanted {
                    // The sign goes on.
                    Shape::Signed(128) if matches!(shape, Shape::Signed(_)) => {
                        to.push((low as i64 >> 63) as u64);
                    }
                    Shape::Signed(128) | Shape::Unsigned(128) => to.push(0),
                    _ => {}
                }
                Ok(())
            }
            _ => Err(Invalid),
        }
    }

    fn named(&self, name: &str, from: &mut &[u64], to: &mut Vec<u64>) -> Result<(), Invalid> {
        let (old, new) = (self.old.named(name)?, self.new.named(name)?);
        let shape = Shape::Named(name.to_owned());
        if old.layout == new.layout {
            to.extend_from_slice(self.old.take(&shape, from)?);
            return Ok(());
        }
        let is_fixed = self.old.size(&shape)?.is_some();
        let begun = self.old.begin(name, from)?;
        let (fields, rest) = self.old.fields(&begun)?;
        if !is_fixed {
            *from = rest;
        }
        let Begun { variant: before, .. } = begun;
        let number = variant_of(old, new, before).ok_or(Invalid)?;
        let now = new.variants.get(number).ok_or(Invalid)?;

        let begin = to.len();
        let size = self.new.size(&shape)?;
        if size.is_none() {
            to.push(new.layout);
        }
        if new.is_enum {
            to.push(number as u64);
        }
        for (field, source) in now.fields.iter().zip(sources(before, now)) {
            match source {
                Some(at) => {
                    let shape = Shape::of(&before.fields[at].type_name).ok_or(Invalid)?;
                    let wanted = Shape::of(&field.type_name).ok_or(Invalid)?;
                    let mut words = fields[at];
                    self.one(&shape, &mut words, &wanted, to)?;
                }
                None => to.extend_from_slice(field.default.as_ref().ok_or(Invalid)?),
            }
        }
        if let Some(size) = size {
            to.resize(begin + size, 0);
        }
        Ok(())
    }
}

/// A name, and the one before it.
type Names<'t> = (&'t String, &'t Option<String>);

/// Which of `before` each of `now` was. What has the same name and the same former one has not changed; then a former name decides, then
/// the name. None is taken twice.
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
    assign(&|earlier, name| name.1.as_ref() == Some(earlier.0));
    assign(&|earlier, name| earlier.0 == name.0);
    origins
}

/// Which variant of the new version one of the earlier is.
fn variant_of(old: &TypeDescription, new: &TypeDescription, before: &VariantDescription) -> Option<usize> {
    if !new.is_enum {
        return (!new.variants.is_empty()).then_some(0);
    }
    let names = |of: &'_ TypeDescription| -> Vec<(String, Option<String>)> {
        of.variants.iter().map(|variant| (variant.name.clone(), variant.was.clone())).collect()
    };
    let (earlier, now) = (names(old), names(new));
    fn refer(all: &[(String, Option<String>)]) -> Vec<Names<'_>> {
        all.iter().map(|(name, was)| (name, was)).collect()
    }
    let number = old.variants.iter().position(|variant| variant.name == before.name)?;
    origins(&refer(&earlier), &refer(&now)).iter().position(|origin| *origin == Some(number))
}

/// Where the value of each field is in an earlier version.
fn sources(before: &VariantDescription, now: &VariantDescription) -> Vec<Option<usize>> {
    fn refer(fields: &[FieldDescription]) -> Vec<Names<'_>> {
        fields.iter().map(|field| (&field.name, &field.was)).collect()
    }
    origins(&refer(&before.fields), &refer(&now.fields))
}

/// Whether every value of the form `from` is one of the form `to`, perhaps as a wider number.
fn is_wider(from: &Shape, to: &Shape) -> bool {
    match (from, to) {
        (Shape::Unsigned(from), Shape::Unsigned(to))
        | (Shape::Signed(from), Shape::Signed(to))
        | (Shape::Float(from), Shape::Float(to)) => from <= to,
        (Shape::Unsigned(from), Shape::Signed(to)) => from < to,
        (Shape::Size(_), to) => from == to,
        (Shape::Unit | Shape::Bool | Shape::Char | Shape::Duration | Shape::String, to) => from == to,
        _ => false,
    }
}

/// The word of a number in a wider form.
fn widen(shape: &Shape, wanted: &Shape, word: u64) -> u64 {
    match (shape, wanted) {
        (Shape::Float(32), Shape::Float(64)) => f64::from(f32::from_bits(word as u32)).to_bits(),
        _ => word,
    }
}

/// The word of a number that was packed.
pub(crate) fn from_bytes(shape: &Shape, bytes: &[u8]) -> u64 {
    let mut all = [0; 8];
    all[..bytes.len()].copy_from_slice(bytes);
    let word = u64::from_ne_bytes(all);
    let unused = 64 - 8 * bytes.len() as u32;
    if matches!(shape, Shape::Signed(_)) { ((word << unused) as i64 >> unused) as u64 } else { word }
}

/// Stores `count` numbers of one form as a vector of another.
pub(crate) fn pack(
    (shape, wanted): (&Shape, &Shape),
    count: usize,
    numbers: impl Iterator<Item = u64>,
    to: &mut Vec<u64>,
) -> Result<(), Invalid> {
    to.push(count as u64);
    let Some(each) = wanted.packed() else {
        // Numbers of two words.
        for number in numbers {
            let high = if matches!(shape, Shape::Signed(_)) { (number as i64 >> 63) as u64 } else { 0 };
            to.extend([number, high]);
        }
        return Ok(());
    };
    let mut bytes = Vec::with_capacity(count * each);
    for number in numbers {
        bytes.extend_from_slice(&number.to_ne_bytes()[..each]);
    }
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    to.extend(bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("eight bytes"))));
    Ok(())
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
        let conversion = Conversion::new((&from, &old), (&to, &new)).unwrap();
        let (words, bytes) = words(value);
        let (words, bytes) = conversion.convert(&words, bytes).unwrap();
        U::decode(&words, bytes, Stored::new()).unwrap()
    }

    fn refused<T: Value, U: Value>() -> String {
        let ((from, old), (to, new)) = (described::<T>(), described::<U>());
        Conversion::new((&from, &old), (&to, &new)).map(drop).unwrap_err()
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

        /// What lies where, by the description, is what the types say; and damaged words are no value or one.
        #[test]
        fn shapes_are_those_of_the_types(value in person(), at: prop::sample::Index, word: u64) {
            let (name, types) = described::<before::Person>();
            let values = Values { types: &types };
            let shape = Shape::of(&name).unwrap();
            prop_assert_eq!(values.size(&shape).unwrap(), before::Person::SIZE);
            prop_assert_eq!(values.size(&Shape::of("Shape").unwrap()).unwrap(), before::Shape::SIZE);
            let (mut words, _) = words(&value);
            let mut rest = words.as_slice();
            prop_assert_eq!(values.take(&shape, &mut rest).unwrap().len(), words.len());
            prop_assert!(rest.is_empty());
            let at = at.index(words.len());
            words[at] = word;
            let _ = values.take(&shape, &mut words.as_slice());
        }
    }

    /// What was renamed keeps its place in later versions, and what took its former name does not become it.
    #[test]
    fn former_names_are_looked_at_once() {
        fn names(all: &[(&str, Option<&str>)]) -> Vec<(String, Option<String>)> {
            all.iter().map(|(name, was)| ((*name).into(), was.map(Into::into))).collect()
        }
        fn refer(all: &[(String, Option<String>)]) -> Vec<Names<'_>> {
            all.iter().map(|(name, was)| (name, was)).collect()
        }
        let first = names(&[("a", None)]);
        let second = names(&[("b", Some("a")), ("a", None)]);
        let third = names(&[("c", None), ("a", None), ("b", Some("a"))]);
        let of = |before: &[_], now: &[_]| origins(&refer(before), &refer(now));
        assert_eq!(of(&first, &second), [Some(0), None]);
        assert_eq!(of(&second, &third), [None, Some(1), Some(0)]);
        assert_eq!(of(&first, &third), [None, None, Some(0)]);
        // The attribute may go, and a variant that was renamed is known later.
        assert_eq!(of(&second, &names(&[("b", None), ("a", None)])), [Some(0), Some(1)]);
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
            "\n  Person._name: what is it in earlier values? #[persist(default)], or #[persist(was = \"…\")]\
             \n  Person._age: what is it in earlier values? #[persist(default)], or #[persist(was = \"…\")]"
        );
        assert!(
            refused::<before::Shape, changed::Shape>()
                .contains("Shape::Circle: values of it would have nowhere")
        );
        assert!(refused::<u64, u32>().contains("only numbers can become wider"));
        let back = refused::<now::Person, before::Person>();
        assert_eq!(back, "\n  Person: version 2 cannot become the older version 1");
        assert!(refused::<Vec<u8>, Vec<Option<u8>>>().contains("only numbers"));
    }
}
