//! What can be kept in a pool: values that encode as words.

use std::marker::PhantomData;
use std::time::Duration;

use super::check::Checker;
use strandline_core::structures::type_layout as layout;

/// Words that are no value of the type that was expected: the pool is damaged, or holds something else there.
///
/// ```
/// use strandline::{Invalid, Key};
///
/// // Not the bytes of a `bool`.
/// assert_eq!(bool::read_key(&mut &[7][..]), Err(Invalid));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("these words are no value of the type")
    }
}

impl std::error::Error for Invalid {}

/// Says of words that they were read from the pool of brand `'p`, as the value of a type with the layout that was stored there.
/// Only the library can say so: a handle that safe code made from words of its own choice could lead anywhere.
///
/// ```compile_fail
/// use strandline::{Persist, Ptr, Stored};
///
/// fn forge<'p>() -> Ptr<'p, u64> {
///     Ptr::load(&[4096], Stored::new()).unwrap() // private
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stored<'p>(PhantomData<fn(&'p ()) -> &'p ()>);

impl Stored<'_> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

/// A type whose values can be kept in a pool of brand `'p`: numbers, `bool`, `char`, arrays, tuples and options
/// of such types, pointers and collections of the same pool, and what `#[derive(Persist)]` makes of them.
///
/// A value is a fixed number of 64-bit words. It is stored and loaded field by field, by value: there is no
/// reference into the pool, no padding reaches it, and words that are no value of the type are an error.
///
/// ```
/// use strandline::{Persist, Ptr};
///
/// #[derive(Clone, Copy, Persist)]
/// struct Account {
///     balance: i64,
///     frozen: bool,
/// }
///
/// #[derive(Persist)]
/// #[persist(version = 2)]
/// struct Node<'p> {
///     account: Account,
///     next: Option<Ptr<'p, Node<'p>>>,
/// }
/// assert_eq!(Node::WORDS, 3);
/// ```
///
/// # Safety
/// `#[derive(Persist)]` sees to all of this. An implementation by hand promises that
/// - [`LAYOUT`](Persist::LAYOUT) is of this type alone: types of the same layout store and load the same words, with the
///   same meaning;
/// - [`store`](Persist::store) writes, for every handle in the value, what that handle's own `store` writes, and
///   [`load`](Persist::load) makes handles of nothing else; it keeps no [`Stored`];
/// - [`NEVER_ZERO`](Persist::NEVER_ZERO) is true only if `store` never writes zeros alone.
///
/// Otherwise a value could be loaded as a handle that leads into the midst of somebody else's structure, and be
/// written through.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` cannot be kept in a pool",
    label = "not a type that a pool can hold",
    note = "plain data: `#[derive(Persist)]` on the type, of numbers, `bool`, `char`, arrays, tuples, options",
    note = "what points to something: `Ptr<'p, T>`, `Text<'p>`, `Bytes<'p>`, `Vector<'p, T>`, `HashMap<'p, K, V>`, …"
)]
pub unsafe trait Persist<'p>: Sized {
    /// Words that every value takes.
    const WORDS: usize;
    /// The type's name, for messages and as a part of the layout.
    const NAME: &'static str;
    /// Counts the type's versions.
    const VERSION: u32 = 1;
    /// A hash of name, version and fields.
    const LAYOUT: u64;
    /// Whether no value is all zeros, so that an option needs no word of its own.
    const NEVER_ZERO: bool = false;

    /// Stores the value to `into`, which has [`WORDS`](Persist::WORDS) words.
    fn store(&self, into: &mut [u64]);

    /// The value that `from` holds, which has [`WORDS`](Persist::WORDS) words.
    ///
    /// # Errors
    /// [`Invalid`]: they are no value of the type.
    fn load(from: &[u64], stored: Stored<'p>) -> Result<Self, Invalid>;

    /// Hands all pointers and collections in the value to `checker`, which looks over what they lead to. A type that
    /// has none need do nothing.
    ///
    /// # Errors
    /// A conflict. Damage is the checker's matter.
    fn visit(&self, _checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        Ok(())
    }
}

/// A type that can be the root of a [`Store`](super::Store). `#[derive(Persist)]` implements it, for types
/// without type parameters.
///
/// ```
/// use strandline::{Root, Store};
///
/// // Code for every store.
/// fn bytes_in_use<R: Root>(store: &Store<R>) -> strandline::Result<u64> {
///     Ok(store.usage()?.allocated_bytes)
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the root of a store",
    note = "`#[derive(Persist)]` on a structure without type parameters makes it one"
)]
pub trait Root {
    /// The type under brand `'p`.
    type At<'p>: Persist<'p>;
}

macro_rules! persist_integers {
    ($($type:ty),*) => {$(
        // SAFETY: a number, and no handle; the layout is the name's, which no other type has.
        unsafe impl<'p> Persist<'p> for $type {
            const WORDS: usize = 1;
            const NAME: &'static str = stringify!($type);
            const LAYOUT: u64 = layout::begin(stringify!($type), 0);
            #[inline(always)]
            fn store(&self, into: &mut [u64]) {
                into[0] = *self as u64;
            }
            #[inline(always)]
            fn load(from: &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
                let value = from[0] as $type;
                if value as u64 == from[0] { Ok(value) } else { Err(Invalid) }
            }
        }
        impl Root for $type {
            type At<'p> = Self;
        }
    )*};
}

persist_integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

/// One word: from its number.
macro_rules! persist_word {
    ($type:ty, $name:literal, |$value:ident| $to:expr, |$word:ident| $from:expr) => {
        // SAFETY: a number, and no handle; the layout is the name's, which no other type has.
        unsafe impl<'p> Persist<'p> for $type {
            const WORDS: usize = 1;
            const NAME: &'static str = $name;
            const LAYOUT: u64 = layout::begin($name, 0);
            #[inline(always)]
            fn store(&self, into: &mut [u64]) {
                let $value = *self;
                into[0] = $to;
            }
            #[inline(always)]
            fn load(from: &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
                let $word = from[0];
                $from
            }
        }
    };
}

persist_word!(bool, "bool", |value| value.into(), |word| match word {
    0 => Ok(false),
    1 => Ok(true),
    _ => Err(Invalid),
});
persist_word!(char, "char", |value| u32::from(value).into(), |word| {
    u32::try_from(word).ok().and_then(char::from_u32).ok_or(Invalid)
});
persist_word!(f64, "f64", |value| value.to_bits(), |word| Ok(f64::from_bits(word)));
persist_word!(f32, "f32", |value| value.to_bits().into(), |word| {
    u32::try_from(word).map(f32::from_bits).map_err(|_| Invalid)
});

macro_rules! persist_wide {
    ($($type:ty),*) => {$(
        // SAFETY: a number, and no handle; the layout is the name's, which no other type has.
        unsafe impl<'p> Persist<'p> for $type {
            const WORDS: usize = 2;
            const NAME: &'static str = stringify!($type);
            const LAYOUT: u64 = layout::begin(stringify!($type), 0);
            #[inline]
            fn store(&self, into: &mut [u64]) {
                into[0] = *self as u64;
                into[1] = (*self >> 64) as u64;
            }
            #[inline]
            fn load(from: &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
                Ok((u128::from(from[1]) << 64 | u128::from(from[0])) as $type)
            }
        }
    )*};
}

persist_wide!(u128, i128);

impl Root for () {
    type At<'p> = ();
}

// SAFETY: no word at all.
unsafe impl<'p> Persist<'p> for () {
    const WORDS: usize = 0;
    const NAME: &'static str = "()";
    const LAYOUT: u64 = layout::begin("()", 0);
    fn store(&self, _: &mut [u64]) {}
    fn load(_: &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
        Ok(())
    }
}

// SAFETY: two numbers, and no handle.
unsafe impl<'p> Persist<'p> for Duration {
    const WORDS: usize = 2;
    const NAME: &'static str = "Duration";
    const LAYOUT: u64 = layout::begin("Duration", 0);
    fn store(&self, into: &mut [u64]) {
        into[0] = self.as_secs();
        into[1] = self.subsec_nanos().into();
    }
    fn load(from: &[u64], _: Stored<'p>) -> Result<Self, Invalid> {
        match u32::try_from(from[1]) {
            Ok(nanos) if nanos < 1_000_000_000 => Ok(Duration::new(from[0], nanos)),
            _ => Err(Invalid),
        }
    }
}

// SAFETY: words of `T`, as `T` stores them, after a number or for values that are not all zeros; `T`'s layout is part of this one.
unsafe impl<'p, T: Persist<'p>> Persist<'p> for Option<T> {
    const WORDS: usize = if T::NEVER_ZERO { T::WORDS } else { 1 + T::WORDS };
    const NAME: &'static str = "Option";
    const LAYOUT: u64 = layout::field(layout::begin("Option", 0), "", T::LAYOUT);
    fn store(&self, into: &mut [u64]) {
        let rest = if T::NEVER_ZERO {
            into
        } else {
            let (first, rest) = into.split_at_mut(1);
            first[0] = self.is_some().into();
            rest
        };
        match self {
            Some(value) => value.store(rest),
            None => rest.fill(0),
        }
    }
    fn load(from: &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        if T::NEVER_ZERO {
            return if from.iter().all(|&word| word == 0) {
                Ok(None)
            } else {
                T::load(from, stored).map(Some)
            };
        }
        match from[0] {
            0 => Ok(None),
            1 => T::load(&from[1..], stored).map(Some),
            _ => Err(Invalid),
        }
    }
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        self.as_ref().map_or(Ok(()), |value| Persist::visit(value, checker))
    }
}

// SAFETY: words of `T`, as `T` stores them; the layout has `T`'s and the number.
unsafe impl<'p, T: Persist<'p>, const N: usize> Persist<'p> for [T; N] {
    const WORDS: usize = N * T::WORDS;
    const NAME: &'static str = "array";
    const LAYOUT: u64 = layout::field(layout::begin("array", N as u32), "", T::LAYOUT);
    fn store(&self, into: &mut [u64]) {
        for (i, value) in self.iter().enumerate() {
            value.store(&mut into[i * T::WORDS..(i + 1) * T::WORDS]);
        }
    }
    fn load(from: &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
        let values: [Option<T>; N] =
            std::array::from_fn(|i| T::load(&from[i * T::WORDS..(i + 1) * T::WORDS], stored).ok());
        if values.iter().any(Option::is_none) {
            return Err(Invalid);
        }
        Ok(values.map(|value| value.expect("none of them is missing")))
    }
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        self.iter().try_for_each(|value| Persist::visit(value, checker))
    }
}

macro_rules! persist_tuples {
    ($($($name:ident $index:tt),+;)*) => {$(
        // SAFETY: words of each, as each stores them; the layout has all of theirs, in order.
        unsafe impl<'p, $($name: Persist<'p>),+> Persist<'p> for ($($name,)+) {
            const WORDS: usize = 0 $(+ $name::WORDS)+;
            const NAME: &'static str = "tuple";
            const LAYOUT: u64 = {
                let hash = layout::begin("tuple", 0);
                $(let hash = layout::field(hash, "", $name::LAYOUT);)+
                hash
            };
            fn store(&self, into: &mut [u64]) {
                let rest = into;
                $(let (now, rest) = rest.split_at_mut($name::WORDS); self.$index.store(now);)+
                let _ = rest;
            }
            fn load(from: &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
                let mut rest = from;
                Ok(($({
                    let (now, after) = rest.split_at($name::WORDS);
                    rest = after;
                    let _ = rest;
                    $name::load(now, stored)?
                },)+))
            }
            fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
                $(Persist::visit(&self.$index, checker)?;)+
                Ok(())
            }
        }
    )*};
}

persist_tuples! {
    A 0;
    A 0, B 1;
    A 0, B 1, C 2;
    A 0, B 1, C 2, D 3;
    A 0, B 1, C 2, D 3, E 4;
    A 0, B 1, C 2, D 3, E 4, F 5;
}

/// A value of a collection: anything that is [`Persist`], and strings and byte strings of any size.
///
/// ```
/// # use strandline::*;
/// # example::transaction(|tx| {
/// fn enqueue<'p, T: Item<'p>>(tx: &Tx<'p>, items: &[T]) -> strandline::Result<Queue<'p, T>> {
///     let queue = Queue::new(tx)?;
///     items.iter().try_for_each(|item| queue.push(tx, item))?;
///     Ok(queue)
/// }
///
/// enqueue(tx, &["text of any size".to_string()])?;
/// enqueue(tx, &[(1u64, true)])?;
/// # Ok(())
/// # });
/// ```
///
/// # Safety
/// As for [`Persist`], of which all other implementations are made.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` cannot be kept in a pool's collection",
    label = "not a type that a pool can hold",
    note = "possible are types with `#[derive(Persist)]`, numbers, tuples, …, and `String` and `Vec<u8>`"
)]
pub unsafe trait Item<'p>: Sized {
    /// Bytes that every value takes; `None` where they differ.
    const BYTES: Option<u64>;
    /// The type's name in errors.
    const NAME: &'static str;
    /// A hash of the type's layout.
    const LAYOUT: u64;

    /// Bytes that this value takes.
    fn bytes(&self) -> u64;

    /// Stores the value to `into`, which has as many words as the bytes take.
    fn encode(&self, into: &mut [u64]);

    /// The value of `bytes` bytes that `from` holds.
    ///
    /// # Errors
    /// [`Invalid`]: they are no value of the type.
    fn decode(from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid>;

    /// As [`Persist::visit`].
    ///
    /// # Errors
    /// As [`Persist::visit`].
    fn visit(&self, _checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        Ok(())
    }
}

// SAFETY: words of a `Persist` type, as it stores them.
unsafe impl<'p, T: Persist<'p>> Item<'p> for T {
    const BYTES: Option<u64> = Some(8 * T::WORDS as u64);
    const NAME: &'static str = T::NAME;
    const LAYOUT: u64 = T::LAYOUT;
    #[inline(always)]
    fn bytes(&self) -> u64 {
        8 * T::WORDS as u64
    }
    #[inline(always)]
    fn encode(&self, into: &mut [u64]) {
        self.store(into);
    }
    #[inline(always)]
    fn decode(from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
        if bytes == 8 * T::WORDS as u64 && from.len() == T::WORDS {
            T::load(from, stored)
        } else {
            Err(Invalid)
        }
    }
    fn visit(&self, checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        Persist::visit(self, checker)
    }
}

/// The bytes that words hold.
pub(crate) fn to_bytes(from: &[u64], bytes: u64) -> Result<Vec<u8>, Invalid> {
    if from.len() as u64 != bytes.div_ceil(8) {
        return Err(Invalid);
    }
    let mut all: Vec<u8> = from.iter().flat_map(|word| word.to_le_bytes()).collect();
    all.truncate(bytes as usize);
    Ok(all)
}

/// The words that hold some bytes, filled up with zeros.
pub(crate) fn to_words(from: &[u8], into: &mut [u64]) {
    for (word, bytes) in into.iter_mut().zip(from.chunks(8)) {
        let mut all = [0; 8];
        all[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(all);
    }
}

// SAFETY: bytes, and no handle.
unsafe impl<'p> Item<'p> for Vec<u8> {
    const BYTES: Option<u64> = None;
    const NAME: &'static str = "Vec<u8>";
    const LAYOUT: u64 = layout::begin("Vec<u8>", 0);
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
    fn encode(&self, into: &mut [u64]) {
        to_words(self, into);
    }
    fn decode(from: &[u64], bytes: u64, _: Stored<'p>) -> Result<Self, Invalid> {
        to_bytes(from, bytes)
    }
}

// SAFETY: bytes, and no handle.
unsafe impl<'p> Item<'p> for String {
    const BYTES: Option<u64> = None;
    const NAME: &'static str = "String";
    const LAYOUT: u64 = layout::begin("String", 0);
    fn bytes(&self) -> u64 {
        self.len() as u64
    }
    fn encode(&self, into: &mut [u64]) {
        to_words(self.as_bytes(), into);
    }
    fn decode(from: &[u64], bytes: u64, _: Stored<'p>) -> Result<Self, Invalid> {
        String::from_utf8(to_bytes(from, bytes)?).map_err(|_| Invalid)
    }
}
