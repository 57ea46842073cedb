//! Values that can be stored in a pool, encoded as words.

use std::marker::PhantomData;

use super::check::Checker;
use super::schema::Types;
use super::transaction::{Control, Tx};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::{type_layout as layout, with_buffer};

/// The words are not a valid value of the expected type: the pool is damaged, or holds something else at this address.
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
        f.write_str("the words are not a valid value of the type")
    }
}

impl std::error::Error for Invalid {}

/// A proof that words were read from the pool of brand `'p`, where they were stored as a value of a type with the same layout. Only the library can
/// create it: if safe code could make a handle from words of its own choice, the handle could refer to anything.
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

/// A type whose values can be stored in a pool of brand `'p`: numbers, `bool`, `char`, strings, vectors, arrays, tuples and options of such types,
/// pointers and collections of the same pool, and your own types with `#[derive(Persist)]`. The [crate's documentation](crate#types) lists all of
/// them.
///
/// A value is encoded as 64-bit words: its parts, one after the other. It is stored and loaded by value: there are no references into the pool,
/// padding is not stored, and words that are not a valid value of the type are an error. Content that a value owns (a `String`, a `Vec`) is stored
/// among its words, and is removed with it.
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
/// A type may have parameters with the bound [`Value`](crate::Value), which allows every type that a table can hold: `struct Page<T: Value>`.
///
/// If the type of a field does not implement the trait, the functions of a module can store it: `#[persist(with = module)]`. The module names the
/// stored type; descriptions, orders and conversions of the field are those of this type. If `load` fails, reading the value returns
/// [`Error::Damaged`](crate::Error::Damaged). A field with `#[persist(skip)]` is not stored. It is `Default::default()` when a value is loaded.
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
/// `#[derive(Persist)]` guarantees all of this. A manual implementation must guarantee:
/// - [`LAYOUT`](Persist::LAYOUT) belongs to this type alone: types of the same layout store and load the same words, with the same meaning.
/// - [`store`](Persist::store) writes as many words as [`words`](Persist::words) returns, which is [`SIZE`](Persist::SIZE) if that is not `None`. For
///   every handle in the value it writes the words that the handle's own `store` writes, and [`load`](Persist::load) makes handles only of such
///   words. It keeps no [`Stored`].
/// - [`NEVER_ZERO`](Persist::NEVER_ZERO) is true only if `SIZE` is not `None` and `store` never writes zeros only.
///
/// Otherwise safe code could load a value as a handle into the middle of another structure, and write through it.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` cannot be kept in a pool",
    label = "not a type that a pool can hold",
    note = "for your own type: add `#[derive(Persist)]`",
    note = "for a type of another crate: enable strandline's feature for it (`uuid`, `chrono`, `time`, `jiff`, `bytes`), or put `#[persist(with = module)]` or `#[persist(skip)]` on the field",
    note = "for a pointer or a collection: `Ptr<'p, T>`, `Text<'p>`, `Bytes<'p>`, `Vector<'p, T>`, `HashMap<'p, K, V>`, …"
)]
pub unsafe trait Persist<'p>: Sized {
    /// The type's name, which is used in messages and is part of the layout.
    const NAME: &'static str;
    /// The type's version, which its author raises with every change.
    const VERSION: u32 = 1;
    /// A hash of the type's name, version and fields.
    const LAYOUT: u64;
    /// Number of words that every value takes; `None` if values differ in size.
    const SIZE: Option<usize>;
    /// True if no value consists of zeros only, so that an option needs no word of its own.
    const NEVER_ZERO: bool = false;
    /// Number of bytes that every value takes as a packed element; `None` for types that cannot be packed, such as all types with handles.
    #[doc(hidden)]
    const PACKED: Option<usize> = None;

    /// Stores the value in the first [`PACKED`](Self::PACKED) bytes of `into`, and returns the remaining bytes.
    #[doc(hidden)]
    fn store_packed<'b>(&self, into: &'b mut [u8]) -> &'b mut [u8] {
        into
    }

    /// Takes a packed value from the front of `from` and returns it. The value cannot be a handle, since there is no [`Stored`] with which to load
    /// one.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the bytes are not a valid value of the type.
    #[doc(hidden)]
    fn load_packed(_from: &mut &[u8]) -> Result<Self, Invalid> {
        Err(Invalid)
    }
    /// True for the types that stand for values of an unknown type.
    #[doc(hidden)]
    const ANY: bool = false;

    /// Returns the type's name as a pool describes it, with the names of its parts. The descriptions of structures and enumerations are added to
    /// `types`.
    fn describe(types: &mut Types) -> String;

    /// Returns the number of words that this value takes.
    fn words(&self) -> usize;

    /// Stores the value in the first words of `into`, and returns the remaining words.
    fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64];

    /// Takes a value from the front of `from` and returns it.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the words are not a valid value of the type.
    fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid>;

    /// Passes all pointers and collections in the value to `checker`, which checks what they refer to. A type without any need not implement this.
    ///
    /// # Errors
    /// Returns an error after a conflict. Damage is reported to the checker instead.
    fn visit(&self, _checker: &mut Checker<'_, 'p>) -> strandline_core::Result<()> {
        Ok(())
    }

    /// True if values can hold collections.
    #[doc(hidden)]
    const OWNS: bool = false;

    /// Appends the addresses of the collections in the value to `found`.
    #[doc(hidden)]
    fn collections(&self, _found: &mut Vec<PersistentAddress>) {}

    /// Destroys the collections in the value, except those at the addresses in `kept`. It adds the collections that it destroys to `kept`, since a
    /// value may hold the same one twice.
    ///
    /// # Errors
    /// Returns the errors of the collections' `destroy`.
    #[doc(hidden)]
    fn destroy_collections(
        &self,
        _tx: &Tx<'p, impl Control>,
        _kept: &mut Vec<PersistentAddress>,
    ) -> strandline_core::Result<()> {
        Ok(())
    }

    /// Returns the number of bytes that the value takes when it stands alone.
    #[doc(hidden)]
    #[inline]
    fn bytes(&self) -> u64 {
        8 * self.words() as u64
    }

    /// Stores the stand-alone value in `into`.
    #[doc(hidden)]
    #[inline]
    fn encode(&self, into: &mut [u64]) {
        self.store(into);
    }

    /// Loads the stand-alone value of `bytes` bytes in `from`.
    #[doc(hidden)]
    #[inline]
    fn decode(mut from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
        if bytes != 8 * from.len() as u64 {
            return Err(Invalid);
        }
        let value = Self::load(&mut from, stored)?;
        if from.is_empty() { Ok(value) } else { Err(Invalid) }
    }

    /// Returns the bytes of the stand-alone value, if they are in memory exactly as they are stored.
    #[doc(hidden)]
    fn plain(&self) -> Option<&[u8]> {
        None
    }

    /// True if [`plain`](Self::plain) returns the bytes of every value.
    #[doc(hidden)]
    const IS_PLAIN: bool = false;

    /// Loads a plain value of `bytes` bytes. `read` copies them into the buffer that it gets.
    #[doc(hidden)]
    fn read_plain<E>(
        _bytes: u64,
        _read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Result<Self, Invalid>, E> {
        Ok(Err(Invalid))
    }

    /// True for numbers of up to eight bytes. Vectors of these have always been packed.
    #[doc(hidden)]
    const IS_NUMBER: bool = false;

    /// True if elements are in memory exactly as they are stored.
    #[doc(hidden)]
    const IS_PLAIN_SLICE: bool = false;

    /// Returns the bytes of elements that are in memory exactly as they are stored.
    #[doc(hidden)]
    fn plain_slice(_elements: &[Self]) -> Option<&[u8]> {
        None
    }

    /// Loads elements of `bytes` bytes in total. `read` copies them into the buffer that it gets.
    #[doc(hidden)]
    fn read_plain_vec<E>(
        _bytes: u64,
        _read: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Result<Vec<Self>, Invalid>, E> {
        Ok(Err(Invalid))
    }

    /// Returns the number of words that the elements of a vector take.
    #[doc(hidden)]
    fn slice_words(elements: &[Self]) -> usize {
        match (packed::<Self>(), Self::SIZE) {
            (Some(each), _) => (each * elements.len()).div_ceil(8),
            (None, Some(words)) => words * elements.len(),
            (None, None) => elements.iter().map(Self::words).sum(),
        }
    }

    /// Stores the elements of a vector, and returns the remaining words.
    #[doc(hidden)]
    fn store_slice<'w>(elements: &[Self], into: &'w mut [u64]) -> &'w mut [u64] {
        if packed::<Self>().is_none() {
            return elements.iter().fold(into, |rest, element| element.store(rest));
        }
        let (own, rest) = into.split_at_mut(Self::slice_words(elements));
        pack(elements.iter(), own, |element, bytes| element.store_packed(bytes));
        rest
    }

    /// Takes the `count` elements of a vector from the front of `from`.
    #[doc(hidden)]
    fn load_vec(count: u64, from: &mut &[u64], stored: Stored<'p>) -> Result<Vec<Self>, Invalid> {
        if let Some(each) = packed::<Self>() {
            let mut bytes = take_packed(each, count, from)?;
            return (0..count).map(|_| Self::load_packed(&mut bytes)).collect();
        }
        // Each element takes at least one word. Elements without words are bounded by the memory that they would take.
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

/// Returns the number of bytes of an element of an array with packed elements, or `None` if elements take whole words.
pub(crate) const fn packed<'p, T: Persist<'p>>() -> Option<usize> {
    layout::packed(T::PACKED, T::SIZE)
}

/// Returns the number of bytes of an element of a vector whose elements are stored side by side. Such a vector has no word for its length when it
/// stands alone.
pub(crate) const fn each<'p, T: Persist<'p>>() -> Option<usize> {
    if T::IS_NUMBER { T::PACKED } else { packed::<T>() }
}

/// Stores packed elements in `into`, and pads its last word with zeros.
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

/// Takes the words of `count` packed elements of `each` bytes, and returns these bytes.
pub(crate) fn take_packed<'w>(each: usize, count: u64, from: &mut &'w [u64]) -> Result<&'w [u8], Invalid> {
    let count = usize::try_from(count).map_err(|_| Invalid)?;
    let bytes = each.checked_mul(count).ok_or(Invalid)?;
    let words = layout::take(from, Some(bytes.div_ceil(8))).ok_or(Invalid)?;
    Ok(&bytemuck::cast_slice(words)[..bytes])
}

/// A stand-alone value that is to be stored.
pub struct Encoded<'v, E> {
    /// Length of the value in bytes.
    pub bytes: u64,
    /// The bytes of the value, if they are in memory exactly as they are stored.
    pub plain: Option<&'v [u8]>,
    /// Stores the value in the words that it gets, which are as many as the value takes.
    pub encode: E,
}

/// A value with more bytes is not copied as a whole.
const MOST_COPIED: u64 = 16 << 20;

impl<E: FnOnce(&mut [u64])> Encoded<'_, E> {
    /// Returns the bytes of a value that [`with_words`](Self::with_words) would have to copy, if there are so many that they should be stored piece
    /// by piece.
    pub fn in_pieces(&self) -> Option<&[u8]> {
        let is_copied = |plain: &&[u8]| bytemuck::try_cast_slice::<_, u64>(plain).is_err();
        self.plain.filter(|_| self.bytes > MOST_COPIED).filter(is_copied)
    }

    /// Calls `body` with the words of the value. They are copied only if they must be: if the bytes are not whole words, or not aligned as words.
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

/// Returns `value` for storing.
pub(crate) fn encoded<'v, 'p, V: Persist<'p>>(value: &'v V) -> Encoded<'v, impl FnOnce(&mut [u64])> {
    Encoded { bytes: value.bytes(), plain: value.plain(), encode: |words: &mut [u64]| value.encode(words) }
}

/// Destroys the collections in `old`, except those that are also in `new`, which replaces `old`.
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

/// A type whose values all have the same number of words, so that one can be replaced in place: the types to which a [`Ptr`](crate::Ptr) points, the
/// elements of a [`Vector`](crate::Vector), a root. `#[derive(Persist)]` implements it for types whose fields all implement it.
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
/// [`Persist::SIZE`] must not be `None`.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` differ in size",
    label = "not a type of one size",
    note = "keep them as values of a map or items of a queue, which take any size",
    note = "or keep a `Text<'p>` in place of a `String`, a `Vector<'p, T>` in place of a `Vec<T>`"
)]
pub unsafe trait Fixed<'p>: Persist<'p> {
    /// Number of words of every value.
    const WORDS: usize = layout::size(Self::SIZE);
}

/// A type whose values' bytes can be lent to a closure: `String` as a `str`, `Vec<u8>` as a slice.
pub trait Readable: sealed::Sealed {
    /// The type that the closure gets.
    type Borrowed: ?Sized;

    /// Returns the value that is stored as these bytes.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the bytes are not a valid value.
    fn borrowed(bytes: &[u8]) -> Result<&Self::Borrowed, Invalid>;
}

mod sealed {
    /// Implemented by types whose stand-alone values are stored as their bytes.
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

/// A type that can be the root of a [`Store`](crate::Store). `#[derive(Persist)]` implements it for types without type parameters.
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
    /// The type under the brand `'p`.
    type At<'p>: Fixed<'p>;
}
