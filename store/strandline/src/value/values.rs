//! The values of Rust's own types that a pool can hold.
//!
//! ```text
//! numbers    a word each, of 128 bits two
//! string     bytes · then the bytes, eight in a word
//! option     0, or 1 and the value; as long as one with a value where all of these have one size
//! ```
//!
//! A string that stands alone, as a map's value or an item of a queue, has no word for its length. In packed elements of lists (`lists.rs`), numbers
//! and the marks of options take only the bytes that they need.

use std::time::Duration;

use super::check::Checker;
use super::persist::{Fixed, Invalid, Persist, Root, Stored};
use super::schema::Types;
use super::transaction::{Control, Tx};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::type_layout as layout;

/// Takes and returns the next word.
#[inline]
pub(super) fn next(from: &mut &[u64]) -> Result<u64, Invalid> {
    let (&word, rest) = from.split_first().ok_or(Invalid)?;
    *from = rest;
    Ok(word)
}

/// Takes and returns the next `count` words.
#[inline]
pub(super) fn take<'w>(from: &mut &'w [u64], count: usize) -> Result<&'w [u64], Invalid> {
    layout::take(from, Some(count)).ok_or(Invalid)
}

/// Stores one word, and returns the remaining words.
#[inline]
pub(super) fn put(word: u64, into: &mut [u64]) -> &mut [u64] {
    let (first, rest) = into.split_first_mut().expect("the buffer has as many words as `words` returned");
    *first = word;
    rest
}

/// Stores some bytes, and returns the remaining bytes.
pub(super) fn put_bytes<const N: usize>(bytes: [u8; N], into: &mut [u8]) -> &mut [u8] {
    let (first, rest) = into.split_first_chunk_mut().expect("the buffer has as many bytes as `PACKED`");
    *first = bytes;
    rest
}

/// Takes and returns the next bytes.
pub(super) fn next_bytes<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], Invalid> {
    let (bytes, rest) = from.split_first_chunk().ok_or(Invalid)?;
    *from = rest;
    Ok(*bytes)
}

/// Implements [`Persist`] for a type whose values are stored as a number in one word. A packed element is a number of the type `$packed`.
macro_rules! persist_word {
    ($type:ty, $name:expr, |$value:ident| $to:expr, |$word:ident| $from:expr, $packed:ty, { $($more:item)* }) => {
        // SAFETY: the value is a number and has no handles. The layout is computed from the name, which no other type has.
        unsafe impl<'p> Persist<'p> for $type {
            const NAME: &'static str = $name;
            const LAYOUT: u64 = layout::begin($name, 0);
            const SIZE: Option<usize> = Some(1);
            fn describe(_: &mut Types) -> String {
                <Self as Persist<'p>>::NAME.into()
            }
            #[inline]
            fn words(&self) -> usize {
                1
            }
            #[inline]
            fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
                let $value = *self;
                put($to, into)
            }
            #[inline]
            fn load(from: &mut &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
                let $word = next(from)?;
                $from
            }
            const PACKED: Option<usize> = Some(size_of::<$packed>());
            fn store_packed<'b>(&self, into: &'b mut [u8]) -> &'b mut [u8] {
                let $value = *self;
                put_bytes(($to as $packed).to_ne_bytes(), into)
            }
            fn load_packed(from: &mut &[u8]) -> Result<Self, Invalid> {
                let $word = <$packed>::from_ne_bytes(next_bytes(from)?) as u64;
                $from
            }
            $($more)*
        }
        // SAFETY: the value always has one word.
        unsafe impl Fixed<'_> for $type {}
    };
    // Elements of vectors are stored side by side.
    ($type:ty, $name:expr, |$value:ident| $to:expr, |$word:ident| $from:expr, $packed:ty) => {
        persist_word!($type, $name, |$value| $to, |$word| $from, $packed, {
            const IS_NUMBER: bool = true;
            const IS_PLAIN_SLICE: bool = true;
            fn slice_words(elements: &[Self]) -> usize {
                size_of_val(elements).div_ceil(8)
            }
            fn store_slice<'w>(elements: &[Self], into: &'w mut [u64]) -> &'w mut [u64] {
                let (own, rest) = into.split_at_mut(Self::slice_words(elements));
                if let Some(last) = own.last_mut() {
                    *last = 0;
                }
                bytemuck::cast_slice_mut(own)[..elements.len()].copy_from_slice(elements);
                rest
            }
            fn load_vec(count: u64, from: &mut &[u64], _: Stored<'p>) -> Result<Vec<Self>, Invalid> {
                let count = usize::try_from(count).map_err(|_| Invalid)?;
                let words = take(from, count.div_ceil(8 / size_of::<$type>()))?;
                Ok(bytemuck::cast_slice(words)[..count].to_vec())
            }
            fn plain_slice(elements: &[Self]) -> Option<&[u8]> {
                Some(bytemuck::cast_slice(elements))
            }
            fn read_plain_vec<E>(
                bytes: u64,
                read: impl FnOnce(&mut [u8]) -> Result<(), E>,
            ) -> Result<Result<Vec<Self>, Invalid>, E> {
                let count = usize::try_from(bytes).map(|bytes| bytes / size_of::<$type>());
                let (Ok(count), true) = (count, bytes.is_multiple_of(size_of::<$type>() as u64)) else {
                    return Ok(Err(Invalid));
                };
                let mut all = vec![<$type as bytemuck::Zeroable>::zeroed(); count];
                read(bytemuck::cast_slice_mut(&mut all))?;
                Ok(Ok(all))
            }
        });
    };
}

macro_rules! persist_integers {
    ($($type:ty),*) => {$(
        persist_word!($type, stringify!($type), |value| value as u64, |word| {
            let value = word as $type;
            if value as u64 == word { Ok(value) } else { Err(Invalid) }
        }, $type);
        impl Root for $type {
            type At<'p> = Self;
        }
    )*};
}

persist_integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

persist_word!(f64, "f64", |value| value.to_bits(), |word| Ok(f64::from_bits(word)), u64);
persist_word!(
    f32,
    "f32",
    |value| u64::from(value.to_bits()),
    |word| u32::try_from(word).map(f32::from_bits).map_err(|_| Invalid),
    u32
);
persist_word!(
    bool,
    "bool",
    |value| u64::from(value),
    |word| match word {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Invalid),
    },
    u8,
    {}
);
persist_word!(
    char,
    "char",
    |value| u64::from(u32::from(value)),
    |word| u32::try_from(word).ok().and_then(char::from_u32).ok_or(Invalid),
    u32,
    {}
);

/// Implements [`Persist`] for a type whose values are stored as two numbers in two words. In a packed element the second number is of the type
/// `$packed`.
macro_rules! persist_wide {
    ($type:ty, $name:expr, |$value:ident| $to:expr, |$low:ident, $high:ident| $from:expr, $packed:ty) => {
        // SAFETY: the value consists of two numbers and has no handles. The layout is computed from the name, which no other type has.
        unsafe impl<'p> Persist<'p> for $type {
            const NAME: &'static str = $name;
            const LAYOUT: u64 = layout::begin($name, 0);
            const SIZE: Option<usize> = Some(2);
            fn describe(_: &mut Types) -> String {
                <Self as Persist<'p>>::NAME.into()
            }
            #[inline]
            fn words(&self) -> usize {
                2
            }
            #[inline]
            fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
                let $value = *self;
                let (low, high) = $to;
                put(high, put(low, into))
            }
            #[inline]
            fn load(from: &mut &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
                let ($low, $high) = (next(from)?, next(from)?);
                $from
            }
            const PACKED: Option<usize> = Some(8 + size_of::<$packed>());
            fn store_packed<'b>(&self, into: &'b mut [u8]) -> &'b mut [u8] {
                let $value = *self;
                let (low, high): (u64, u64) = $to;
                put_bytes((high as $packed).to_ne_bytes(), put_bytes(low.to_ne_bytes(), into))
            }
            fn load_packed(from: &mut &[u8]) -> Result<Self, Invalid> {
                let $low = u64::from_ne_bytes(next_bytes(from)?);
                let $high = u64::from(<$packed>::from_ne_bytes(next_bytes(from)?));
                $from
            }
        }
        // SAFETY: the value always has two words.
        unsafe impl Fixed<'_> for $type {}
    };
}

persist_wide!(
    u128,
    "u128",
    |value| (value as u64, (value >> 64) as u64),
    |low, high| Ok(u128::from(high) << 64 | u128::from(low)),
    u64
);
persist_wide!(
    i128,
    "i128",
    |value| (value as u64, (value >> 64) as u64),
    |low, high| Ok((u128::from(high) << 64 | u128::from(low)) as i128),
    u64
);
persist_wide!(
    Duration,
    "Duration",
    |value| (value.as_secs(), value.subsec_nanos().into()),
    |seconds, nanos| match u32::try_from(nanos) {
        Ok(nanos) if nanos < 1_000_000_000 => Ok(Duration::new(seconds, nanos)),
        _ => Err(Invalid),
    },
    u32
);

impl Root for () {
    type At<'p> = ();
}

// SAFETY: the value has no words.
unsafe impl<'p> Persist<'p> for () {
    const NAME: &'static str = "()";
    const LAYOUT: u64 = layout::begin("()", 0);
    const SIZE: Option<usize> = Some(0);
    fn describe(_: &mut Types) -> String {
        <Self as Persist<'p>>::NAME.into()
    }
    fn words(&self) -> usize {
        0
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        into
    }
    fn load(_: &mut &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
        Ok(())
    }
    const PACKED: Option<usize> = Some(0);
    fn load_packed(_: &mut &[u8]) -> Result<Self, Invalid> {
        Ok(())
    }
}

// SAFETY: the value has no words.
unsafe impl Fixed<'_> for () {}

/// Implements the methods for collections by iterating over values of `T`.
macro_rules! owns_those_of {
    ($of:ident) => {
        const OWNS: bool = $of::OWNS;
        fn collections(&self, found: &mut Vec<PersistentAddress>) {
            self.iter().for_each(|value| value.collections(found));
        }
        fn destroy_collections(
            &self,
            tx: &Tx<'p, impl Control>,
            kept: &mut Vec<PersistentAddress>,
        ) -> strandline_core::Result<()> {
            self.iter().try_for_each(|value| value.destroy_collections(tx, kept))
        }
    };
}
pub(super) use owns_those_of;

// SAFETY: the option stores the words of `T`, as `T` stores them. A number before them says whether there is a value; it is left out if no value of
// `T` is all zeros. `T`'s layout is part of this layout.
unsafe impl<'p, T: Persist<'p>> Persist<'p> for Option<T> {
    const NAME: &'static str = "Option";
    const LAYOUT: u64 = layout::field(layout::begin("Option", 0), "", T::LAYOUT);
    const SIZE: Option<usize> = match T::SIZE {
        Some(words) if T::NEVER_ZERO => Some(words),
        Some(words) => Some(1 + words),
        None => None,
    };
    fn describe(types: &mut Types) -> String {
        format!("Option<{}>", T::describe(types))
    }
    #[inline]
    fn words(&self) -> usize {
        match (Self::SIZE, self) {
            (Some(words), _) => words,
            (None, Some(value)) => 1 + value.words(),
            (None, None) => 1,
        }
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        let into = if T::NEVER_ZERO { into } else { put(self.is_some().into(), into) };
        match self {
            Some(value) => value.store(into),
            None => {
                let (own, rest) = into.split_at_mut(T::SIZE.unwrap_or(0));
                own.fill(0);
                rest
            }
        }
    }
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        let words = T::SIZE.unwrap_or(0);
        let is_some = if T::NEVER_ZERO {
            from.get(..words).ok_or(Invalid)?.iter().any(|&word| word != 0)
        } else {
            bool::load(from, stored)?
        };
        if is_some { T::load(from, stored).map(Some) } else { take(from, words).map(|_| None) }
    }
    const PACKED: Option<usize> = match T::PACKED {
        Some(bytes) => Some(bytes + !T::NEVER_ZERO as usize),
        None => None,
    };
    fn store_packed<'b>(&self, into: &'b mut [u8]) -> &'b mut [u8] {
        let into = if T::NEVER_ZERO { into } else { put_bytes([self.is_some().into()], into) };
        match self {
            Some(value) => value.store_packed(into),
            None => {
                let (own, rest) = into.split_at_mut(T::PACKED.unwrap_or(0));
                own.fill(0);
                rest
            }
        }
    }
    fn load_packed(from: &mut &[u8]) -> Result<Self, Invalid> {
        let bytes = T::PACKED.unwrap_or(0);
        let is_some = if T::NEVER_ZERO {
            from.get(..bytes).ok_or(Invalid)?.iter().any(|&byte| byte != 0)
        } else {
            bool::load_packed(from)?
        };
        if is_some {
            return T::load_packed(from).map(Some);
        }
        *from = from.get(bytes..).ok_or(Invalid)?;
        Ok(None)
    }
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        self.as_ref().map_or(Ok(()), |value| value.visit(checker))
    }
    owns_those_of!(T);
}

// SAFETY: the option always has the words of `T`, and perhaps one more.
unsafe impl<'p, T: Fixed<'p>> Fixed<'p> for Option<T> {}

// SAFETY: the value consists of bytes and has no handles.
unsafe impl<'p> Persist<'p> for String {
    const NAME: &'static str = "String";
    const LAYOUT: u64 = layout::begin("String", 0);
    const SIZE: Option<usize> = None;
    fn describe(_: &mut Types) -> String {
        <Self as Persist<'p>>::NAME.into()
    }
    fn words(&self) -> usize {
        1 + u8::slice_words(self.as_bytes())
    }
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
        u8::store_slice(self.as_bytes(), put(self.len() as u64, into))
    }
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        Vec::load(from, stored).and_then(|bytes| String::from_utf8(bytes).map_err(|_| Invalid))
    }
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
    fn encode(&self, into: &mut [u64]) {
        u8::store_slice(self.as_bytes(), into);
    }
    fn decode(from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
        Vec::decode(from, bytes, stored).and_then(|bytes| String::from_utf8(bytes).map_err(|_| Invalid))
    }
    const IS_PLAIN: bool = true;
    fn plain(&self) -> Option<&[u8]> {
        Some(self.as_bytes())
    }
    fn read_plain<E>(
        bytes: u64,
        read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Result<Self, Invalid>, E> {
        let bytes = u8::read_plain_vec(bytes, read)?;
        Ok(bytes.and_then(|bytes| String::from_utf8(bytes).map_err(|_| Invalid)))
    }
}

/// Copies bytes to the words that hold them, and pads the last word with zeros.
pub(crate) fn to_words(from: &[u8], into: &mut [u64]) {
    u8::store_slice(from, into);
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::Persist as Derive;

    #[derive(Clone, Debug, PartialEq, Derive)]
    struct Person {
        name: String,
        born: Option<u16>,
        towns: Vec<String>,
        likes: Vec<Like>,
        at: [Option<Vec<i16>>; 2],
    }

    #[derive(Clone, Debug, PartialEq, Derive)]
    enum Like {
        All,
        Numbers(Vec<u32>, u8),
        Name { first: String, last: Option<String> },
    }

    #[derive(Clone, Debug, PartialEq, Derive)]
    enum Small {
        None,
        One(u64),
        Pair(u8, Option<bool>),
    }

    fn like() -> impl Strategy<Value = Like> {
        prop_oneof![
            Just(Like::All),
            (vec(any::<u32>(), 0..5), any::<u8>()).prop_map(|(all, n)| Like::Numbers(all, n)),
            (".{0,9}", prop::option::of(".{0,9}")).prop_map(|(first, last)| Like::Name { first, last }),
        ]
    }

    fn person() -> impl Strategy<Value = Person> {
        let at = [prop::option::of(vec(any::<i16>(), 0..9)), prop::option::of(vec(any::<i16>(), 0..9))];
        (".{0,20}", any::<Option<u16>>(), vec(".{0,9}", 0..4), vec(like(), 0..4), at)
            .prop_map(|(name, born, towns, likes, at)| Person { name, born, towns, likes, at })
    }

    fn words<T: for<'p> Persist<'p>>(value: &T) -> (Vec<u64>, u64) {
        let bytes = value.bytes();
        let mut words = vec![u64::MAX; bytes.div_ceil(8) as usize];
        value.encode(&mut words);
        (words, bytes)
    }

    fn comes_back<T: for<'p> Persist<'p> + PartialEq + std::fmt::Debug>(value: &T) {
        let (words, bytes) = words(value);
        assert_eq!(T::decode(&words, bytes, Stored::new()).as_ref(), Ok(value));
        // The value is also checked as a part of another value.
        let mut inside = vec![u64::MAX; value.words() + 1];
        assert_eq!(value.store(&mut inside), [u64::MAX]);
        let mut rest = inside.as_slice();
        assert_eq!(T::load(&mut rest, Stored::new()).as_ref(), Ok(value));
        assert_eq!(rest, [u64::MAX]);
    }

    proptest! {
        #[test]
        fn values_come_back(
            value in person(), bytes: Vec<u8>, text: String, floats: Vec<f64>, number: u64,
        ) {
            comes_back(&value);
            comes_back(&(bytes.clone(), Some(text.clone())));
            comes_back(&bytes);
            comes_back(&text);
            comes_back(&floats.iter().map(|f| f.to_bits()).collect::<Vec<_>>());
            for small in [Small::None, Small::One(number), Small::Pair(7, None), Small::Pair(7, Some(true))] {
                comes_back(&small);
                comes_back(&vec![small.clone(), small]);
            }
        }

        /// Words are a valid value or an error, whatever they are, and they bound how much is read.
        #[test]
        fn damaged_words_are_no_harm(
            value in person(), at: prop::sample::Index, word in prop_oneof![any::<u64>(), 0u64..9], cut: prop::sample::Index,
        ) {
            let (mut words, _) = words(&value);
            let shorter = cut.index(words.len());
            prop_assert_eq!(Person::decode(&words[..shorter], 8 * shorter as u64, Stored::new()), Err(Invalid));
            let at = at.index(words.len());
            words[at] = word;
            if let Ok(other) = Person::decode(&words, 8 * words.len() as u64, Stored::new()) {
                comes_back(&other);
            }
        }
    }

    #[test]
    fn sizes_are_known_where_they_are_the_same() {
        assert_eq!(Small::SIZE, Some(1 + 3));
        assert_eq!((Person::SIZE, Like::SIZE, <(String, u8)>::SIZE), (None, None, None));
        assert_eq!(vec![1u16, 2, 3, 4, 5].words(), 1 + 2);
        // A value of another version of the type is not valid.
        let (mut words, bytes) = words(&Like::All);
        words[0] ^= 1;
        assert_eq!(Like::decode(&words, bytes, Stored::new()), Err(Invalid));
        // A length that is greater than the block is not valid, either.
        assert_eq!(Vec::<()>::decode(&[u64::MAX], 8, Stored::new()), Err(Invalid));
        assert_eq!(Vec::<u64>::load(&mut &[u64::MAX, 1][..], Stored::new()), Err(Invalid));
    }
}
