//! What can be kept in a pool: values that encode as words.

use std::marker::PhantomData;

use super::check::Checker;
use super::schema::Types;
use super::transaction::{Control, Tx};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::{type_layout as layout, with_buffer};

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
///     Ptr::load(&mut &[4096][..], Stored::new()).unwrap() // private
/// }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Stored<'p>(PhantomData<fn(&'p ()) -> &'p ()>);

impl Stored<'_> {
    pub(crate) fn new() -> Self {
        Self(PhantomData)
    }
}

/// A type whose values can be kept in a pool of brand `'p`: numbers, `bool`, `char`, strings, vectors, arrays, tuples and options
/// of such types, pointers and collections of the same pool, and what `#[derive(Persist)]` makes of them. The
/// [crate's documentation](crate#types) lists all of them.
///
/// A value is a number of 64-bit words: its parts, one after the other. It is stored and loaded by value: there is no
/// reference into the pool, no padding reaches it, and words that are no value of the type are an error. What it
/// owns (a `String`, a `Vec`) lies among its words, and is gone with it.
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
/// assert_eq!(Node::SIZE, Some(3));
///
/// #[derive(Persist)]
/// struct Person {
///     name: String,
///     born: Option<u16>,
///     towns: Vec<String>,
/// }
/// assert_eq!(Person::SIZE, None); // as long as its strings
/// ```
///
/// A type may have parameters with the bound [`Value`](crate::Value), which stands for every type that a table can hold: `struct Page<T: Value>`.
///
/// A field of a type that does not implement the trait is stored with the functions of a module: `#[persist(with = module)]`. The module names the type
/// that is stored, and the field is described, ordered and converted as that one. If `load` fails, reading the value returns
/// [`Error::Damaged`](crate::Error::Damaged). A field with
/// `#[persist(skip)]` is not stored, and is `Default::default()` when a value is loaded.
///
/// ```
/// use strandline::Persist;
///
/// struct Celsius(f32);
///
/// mod celsius {
///     pub type Stored = i16;
///     pub fn store(value: &super::Celsius) -> Stored {
///         (value.0 * 10.0) as i16
///     }
///     pub fn load(stored: Stored) -> Result<super::Celsius, std::convert::Infallible> {
///         Ok(super::Celsius(f32::from(stored) / 10.0))
///     }
/// }
///
/// #[derive(Persist)]
/// struct Reading {
///     #[persist(with = celsius)]
///     outside: Celsius,
///     #[persist(skip)]
///     shown: bool,
/// }
/// # fn main() {
/// assert_eq!(Reading::SIZE, Some(1));
/// # }
/// ```
///
/// # Safety
/// `#[derive(Persist)]` sees to all of this. An implementation by hand promises that
/// - [`LAYOUT`](Persist::LAYOUT) is of this type alone: types of the same layout store and load the same words, with the
///   same meaning;
/// - [`store`](Persist::store) writes as many words as [`words`](Persist::words) says, which are [`SIZE`](Persist::SIZE) if that is a number;
///   for every handle in the value it writes what that handle's own `store` writes, and
///   [`load`](Persist::load) makes handles of nothing else; it keeps no [`Stored`];
/// - [`NEVER_ZERO`](Persist::NEVER_ZERO) is true only if `SIZE` is a number and `store` never writes zeros alone.
///
/// Otherwise a value could be loaded as a handle that leads into the midst of somebody else's structure, and be
/// written through.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` cannot be kept in a pool",
    label = "not a type that a pool can hold",
    note = "a type of yours: `#[derive(Persist)]` on it",
    note = "a type of another crate: its feature of strandline (`uuid`, `chrono`, `time`, `jiff`, `bytes`), or `#[persist(with = module)]` on the field, or `#[persist(skip)]`",
    note = "what points to something: `Ptr<'p, T>`, `Text<'p>`, `Bytes<'p>`, `Vector<'p, T>`, `HashMap<'p, K, V>`, …"
)]
pub unsafe trait Persist<'p>: Sized {
    /// The type's name, for messages and as a part of the layout.
    const NAME: &'static str;
    /// Counts the type's versions.
    const VERSION: u32 = 1;
    /// A hash of name, version and fields.
    const LAYOUT: u64;
    /// Words that every value takes; `None` where they differ.
    const SIZE: Option<usize>;
    /// Whether no value is all zeros, so that an option needs no word of its own.
    const NEVER_ZERO: bool = false;
    /// Bytes that every value takes as a packed element; `None` for types that cannot be packed, such as all types with handles.
    #[doc(hidden)]
    const PACKED: Option<usize> = None;

    /// Stores the value to the first [`PACKED`](Self::PACKED) bytes of `into`; returns the others.
    #[doc(hidden)]
    fn store_packed<'b>(&self, into: &'b mut [u8]) -> &'b mut [u8] {
        into
    }

    /// Takes a packed value from the front of `from`. It cannot be a handle: there is no [`Stored`] to load one with.
    ///
    /// # Errors
    /// Returns [`Invalid`] if no value of the type is stored there.
    #[doc(hidden)]
    fn load_packed(_from: &mut &[u8]) -> Result<Self, Invalid> {
        Err(Invalid)
    }
    /// Whether this stands for values of a type that is not known.
    #[doc(hidden)]
    const ANY: bool = false;

    /// The type as a pool describes it: its name, with those of its parts. What is said of structures and enumerations goes to `types`.
    fn describe(types: &mut Types) -> String;

    /// Words that this value takes.
    fn words(&self) -> usize;

    /// Stores the value to the first words of `into`; returns the others.
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64];

    /// Takes a value from the front of `from`.
    ///
    /// # Errors
    /// Returns [`Invalid`] if no value of the type stands there.
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid>;

    /// Hands all pointers and collections in the value to `checker`, which looks over what they lead to. A type that has none need do nothing.
    ///
    /// # Errors
    /// Returns an error after a conflict. Damage is the checker's matter.
    fn visit(&self, _checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        Ok(())
    }

    /// Whether values can hold collections.
    #[doc(hidden)]
    const OWNS: bool = false;

    /// Appends the addresses of the collections in the value to `found`.
    #[doc(hidden)]
    fn collections(&self, _found: &mut Vec<PersistentAddress>) {}

    /// Destroys the collections in the value, but for those at the addresses in `kept`, to which it adds those that are gone: a value may
    /// hold one twice.
    ///
    /// # Errors
    /// As for a `destroy`.
    #[doc(hidden)]
    fn destroy_collections(
        &self,
        _tx: &Tx<'p, impl Control>,
        _kept: &mut Vec<PersistentAddress>,
    ) -> strandline_core::Result<()> {
        Ok(())
    }

    /// Bytes that the value takes where it stands alone.
    #[doc(hidden)]
    #[inline]
    fn bytes(&self) -> u64 {
        8 * self.words() as u64
    }

    /// Stores the value to `into`, where it stands alone.
    #[doc(hidden)]
    #[inline]
    fn encode(&self, into: &mut [u64]) {
        self.store(into);
    }

    /// The value of `bytes` bytes that stands alone in `from`.
    #[doc(hidden)]
    #[inline]
    fn decode(mut from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
        if bytes != 8 * from.len() as u64 {
            return Err(Invalid);
        }
        let value = Self::load(&mut from, stored)?;
        if from.is_empty() { Ok(value) } else { Err(Invalid) }
    }

    /// The bytes that the value is stored as where it stands alone, if it has them in memory as they are stored.
    #[doc(hidden)]
    fn plain(&self) -> Option<&[u8]> {
        None
    }

    /// True if values are [`plain`](Self::plain).
    #[doc(hidden)]
    const IS_PLAIN: bool = false;

    /// The plain value of `bytes` bytes, which `read` puts where they belong.
    #[doc(hidden)]
    fn read_plain<E>(
        _bytes: u64,
        _read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Result<Self, Invalid>, E> {
        Ok(Err(Invalid))
    }

    /// Whether it is a number of up to eight bytes: vectors of these have always been packed.
    #[doc(hidden)]
    const IS_NUMBER: bool = false;

    /// True if elements lie in memory as they are stored.
    #[doc(hidden)]
    const IS_PLAIN_SLICE: bool = false;

    /// The bytes of elements that lie in memory as they are stored.
    #[doc(hidden)]
    fn plain_slice(_elements: &[Self]) -> Option<&[u8]> {
        None
    }

    /// Elements of `bytes` bytes, which `read` puts where they belong.
    #[doc(hidden)]
    fn read_plain_vec<E>(
        _bytes: u64,
        _read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Result<Vec<Self>, Invalid>, E> {
        Ok(Err(Invalid))
    }

    /// Words that the elements of a vector take.
    #[doc(hidden)]
    fn slice_words(elements: &[Self]) -> usize {
        match (packed::<Self>(), Self::SIZE) {
            (Some(each), _) => (each * elements.len()).div_ceil(8),
            (None, Some(words)) => words * elements.len(),
            (None, None) => elements.iter().map(Self::words).sum(),
        }
    }

    /// Stores the elements of a vector; returns the words behind.
    #[doc(hidden)]
    fn store_slice<'w>(elements: &[Self], into: &'w mut [u64]) -> &'w mut [u64] {
        if packed::<Self>().is_none() {
            return elements.iter().fold(into, |rest, element| element.store(rest));
        }
        let (own, rest) = into.split_at_mut(Self::slice_words(elements));
        pack(elements.iter(), own, |element, bytes| element.store_packed(bytes));
        rest
    }

    /// Takes the elements of a vector.
    #[doc(hidden)]
    fn load_vec(count: u64, from: &mut &[u64], stored: Stored<'p>) -> Result<Vec<Self>, Invalid> {
        if let Some(each) = packed::<Self>() {
            let mut bytes = take_packed(each, count, from)?;
            return (0..count).map(|_| Self::load_packed(&mut bytes)).collect();
        }
        // Each takes a word at least, or nothing can be known of their number but by what they would take in memory.
        let bound = match (Self::SIZE, size_of::<Self>()) {
            (Some(0), 0) => u64::from(u32::MAX),
            (Some(0), _) => u64::from(u16::MAX),
            _ => from.len() as u64,
        };
        if count > bound {
            return Err(Invalid);
        }
        (0..count).map(|_| Self::load(from, stored)).collect()
    }
}

/// Bytes of an element of an array whose elements are packed; `None` where they are whole words.
pub(crate) const fn packed<'p, T: Persist<'p>>() -> Option<usize> {
    layout::packed(T::PACKED, T::SIZE)
}

/// Bytes of an element of a vector whose elements lie side by side, so that a vector that stands alone has no word for its length.
pub(crate) const fn each<'p, T: Persist<'p>>() -> Option<usize> {
    if T::IS_NUMBER { T::PACKED } else { packed::<T>() }
}

/// Stores packed elements to all of `into`, whose last word is filled up with zeros.
pub(crate) fn pack<T>(
    elements: impl Iterator<Item = T>,
    into: &mut [u64],
    store: impl for<'b> Fn(T, &'b mut [u8]) -> &'b mut [u8],
) {
    if let Some(last) = into.last_mut() {
        *last = 0;
    }
    elements.fold(bytemuck::cast_slice_mut(into), |rest, element| store(element, rest));
}

/// Takes the words of `count` packed elements of `each` bytes; returns these bytes.
pub(crate) fn take_packed<'w>(each: usize, count: u64, from: &mut &'w [u64]) -> Result<&'w [u8], Invalid> {
    let count = usize::try_from(count).map_err(|_| Invalid)?;
    let bytes = each.checked_mul(count).ok_or(Invalid)?;
    let words = layout::take(from, Some(bytes.div_ceil(8))).ok_or(Invalid)?;
    Ok(&bytemuck::cast_slice(words)[..bytes])
}

/// A value that is to be stored where it stands alone.
pub struct Encoded<'v, E> {
    /// Bytes that it takes.
    pub bytes: u64,
    /// They, if they are in memory as they are stored.
    pub plain: Option<&'v [u8]>,
    /// Stores it to as many words as it takes.
    pub encode: E,
}

/// A value of more bytes is not copied as a whole.
const MOST_COPIED: u64 = 16 << 20;

impl<E: FnOnce(&mut [u64])> Encoded<'_, E> {
    /// Returns the bytes of a value that [`with_words`](Self::with_words) would have to copy, if it is so large that they are to be stored piece by
    /// piece.
    pub fn in_pieces(&self) -> Option<&[u8]> {
        let is_copied = |plain: &&[u8]| bytemuck::try_cast_slice::<_, u64>(plain).is_err();
        self.plain.filter(|_| self.bytes > MOST_COPIED).filter(is_copied)
    }

    /// Calls `body` with the words of the value, which are copied only where they must be: bytes that are no whole words, or not aligned as words.
    pub fn with_words<R>(self, body: impl FnOnce(&[u64]) -> R) -> R {
        let plain = self.plain.and_then(|plain| bytemuck::try_cast_slice(plain).ok());
        let copied = if plain.is_some() { 0 } else { self.bytes.div_ceil(8) };
        with_buffer(copied, |buffer| {
            body(plain.unwrap_or_else(|| {
                (self.encode)(buffer);
                buffer
            }))
        })
    }
}

/// The value to be stored.
pub(crate) fn encoded<'v, 'p, V: Persist<'p>>(value: &'v V) -> Encoded<'v, impl FnOnce(&mut [u64])> {
    Encoded { bytes: value.bytes(), plain: value.plain(), encode: |words: &mut [u64]| value.encode(words) }
}

/// Destroys what `old` holds, in whose place there is `new` now, if anything is.
#[inline]
pub(crate) fn replaced<'p, T: Persist<'p>>(
    tx: &Tx<'p, impl Control>,
    old: &T,
    new: Option<&T>,
) -> strandline_core::Result<()> {
    if !T::OWNS {
        return Ok(());
    }
    let mut kept = Vec::new();
    if let Some(new) = new {
        new.collections(&mut kept);
    }
    tx.deeper(|| old.destroy_collections(tx, &mut kept))
}

/// A type whose values all take the same number of words, so that one can be replaced in its place: what a [`Ptr`](crate::Ptr) leads to, the
/// elements of a [`Vector`](crate::Vector), a root. `#[derive(Persist)]` implements it for types whose fields all are.
///
/// ```compile_fail
/// # use strandline::*;
/// #[derive(Persist)]
/// struct Person {
///     name: String,
/// }
///
/// fn keep<'p>(tx: &Tx<'p>, person: &Person) -> strandline::Result<Ptr<'p, Person>> {
///     Ptr::new(tx, person) // a longer name would have no room
/// }
/// ```
///
/// # Safety
/// [`Persist::SIZE`] is a number.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` differ in size",
    label = "not a type of one size",
    note = "keep them as values of a map or items of a queue, which take any size",
    note = "or keep a `Text<'p>` in place of a `String`, a `Vector<'p, T>` in place of a `Vec<T>`"
)]
pub unsafe trait Fixed<'p>: Persist<'p> {
    /// Words that every value takes.
    const WORDS: usize = layout::size(Self::SIZE);
}

/// Values whose bytes can be lent to a closure: `String` as a `str`, `Vec<u8>` as a slice.
pub trait Readable: sealed::Sealed {
    /// What is read.
    type Borrowed: ?Sized;

    /// The value that is stored as these bytes.
    ///
    /// # Errors
    /// Returns [`Invalid`] if none is.
    fn borrowed(bytes: &[u8]) -> Result<&Self::Borrowed, Invalid>;
}

mod sealed {
    /// Values that stand alone as their bytes.
    pub trait Sealed {}
    impl Sealed for Vec<u8> {}
    impl Sealed for String {}
}

impl Readable for Vec<u8> {
    type Borrowed = [u8];
    fn borrowed(bytes: &[u8]) -> Result<&[u8], Invalid> {
        Ok(bytes)
    }
}

impl Readable for String {
    type Borrowed = str;
    fn borrowed(bytes: &[u8]) -> Result<&str, Invalid> {
        str::from_utf8(bytes).map_err(|_| Invalid)
    }
}

/// A type that can be the root of a [`Store`](crate::Store). `#[derive(Persist)]` implements it, for types
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
    type At<'p>: Fixed<'p>;
}
