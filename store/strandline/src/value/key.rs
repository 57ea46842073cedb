//! Keys of maps: types that are encoded as bytes in the order of the keys.
//!
//! The encoding is *prefix-free*: no key's bytes begin with another key's bytes. So the bytes of a tuple are those of its parts, one after the other,
//! and a map may compare keys eight bytes at a time. Integers are stored most significant byte first, signed ones with the sign bit inverted. In a
//! byte string, a zero byte becomes 0, 255, and 0, 0 ends the string (as in FoundationDB's tuple layer).

use std::time::Duration;

use super::lists::for_tuples;
use super::lists::tuple;
use super::persist::Invalid;
use super::schema::Types;
use strandline_core::structures::type_layout as layout;

/// The encoded bytes of a key. Short keys are kept without an allocation.
///
/// ```
/// use strandline::{KeyBytes, KeyRef};
///
/// /// A name that is looked up in a map with `String` keys, whatever its case.
/// struct Lowercase<'n>(&'n str);
///
/// // SAFETY: the bytes of a `String`.
/// unsafe impl KeyRef for Lowercase<'_> {
///     fn write_key(&self, into: &mut KeyBytes) {
///         self.0.to_lowercase().write_key(into);
///     }
/// }
/// ```
#[derive(Clone)]
pub struct KeyBytes {
    few: [u8; Self::FEW],
    count: usize,
    many: Vec<u8>,
}

impl KeyBytes {
    const FEW: usize = 40;

    /// Creates an empty buffer.
    #[inline]
    pub(crate) fn empty() -> Self {
        Self { few: [0; Self::FEW], count: 0, many: Vec::new() }
    }

    /// Returns the bytes with which keys with the prefix `prefix` begin.
    pub(crate) fn of_prefix<K>(prefix: &(impl Prefix<K> + ?Sized)) -> Self {
        let mut bytes = Self::empty();
        prefix.write_prefix(&mut bytes);
        bytes
    }

    /// Returns the encoded bytes of `key`.
    #[inline]
    pub(crate) fn of(key: &(impl KeyRef + ?Sized)) -> Self {
        let mut bytes = Self::empty();
        key.write_key(&mut bytes);
        bytes
    }

    /// Appends `bytes` to the key's encoding.
    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        if self.many.is_empty() {
            if let Some(room) = self.few.get_mut(self.count..self.count + bytes.len()) {
                room.copy_from_slice(bytes);
                self.count += bytes.len();
                return;
            }
            self.many.extend_from_slice(&self.few[..self.count]);
        }
        self.many.extend_from_slice(bytes);
    }

    /// Inverts all bits of the bytes from index `begin` on.
    pub(crate) fn invert(&mut self, begin: usize) {
        let bytes = if self.many.is_empty() { &mut self.few[..self.count] } else { &mut self.many[..] };
        bytes[begin..].iter_mut().for_each(|byte| *byte = !*byte);
    }

    /// Calls `body` with the bytes of `key`. If every key has eight bytes ([`Key::ONE_WORD`]), `body` gets an array, so that the compiler knows the
    /// length.
    #[inline]
    pub(crate) fn with<K: Key, R>(key: &K, body: impl FnOnce(&[u8]) -> R) -> R {
        let key = Self::of(key);
        if !K::ONE_WORD {
            return body(key.as_slice());
        }
        let mut word = [0; 8];
        word.copy_from_slice(&key.few[..8]);
        body(&word)
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.many.is_empty() { &self.few[..self.count] } else { &self.many }
    }
}

/// A type that can be looked up in a map: the key type, or a borrowed form of it (`str` for `String`).
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// use std::borrow::Borrow;
/// use strandline::Result;
/// use strandline::{KeyRef, View};
///
/// #[derive(Persist)]
/// struct Shop<'p> {
///     stock: HashMap<'p, String, u64>,
/// }
///
/// /// How many pieces there are of a name, which may be a `String` or a `str`.
/// fn pieces<'p, Q: KeyRef + ?Sized>(tx: &View<'p>, shop: Shop<'p>, name: &Q) -> Result<u64>
/// where
///     String: Borrow<Q>,
/// {
///     Ok(shop.stock.get(tx, name)?.unwrap_or(0))
/// }
///
/// let store = Store::<Shop>::create_new(&path, &options, |tx| {
///     let stock = HashMap::new(tx)?;
///     stock.insert(tx, &"pens".to_string(), &3)?;
///     Ok(Shop { stock })
/// })?;
/// assert_eq!(store.read(|tx, root| pieces(tx, root.get(tx)?, "pens"))?, 3);
/// # Ok::<(), strandline::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` cannot be keys of a map in a pool",
    label = "not a key",
    note = "possible are numbers, `bool`, `char`, `String`, `Vec<u8>`, times, addresses, tuples and arrays of them, and types with `#[derive(Key)]`",
    note = "for a type of another crate: enable strandline's feature for it (`uuid`, `chrono`, `time`, `jiff`), or put `#[persist(with = module)]` on the field"
)]
///
/// # Safety
/// [`write_key`](KeyRef::write_key) must write the bytes that the key type itself writes for an equal key, since a table stores them as that key, and
/// `write_keys` the same bytes as `write_key` for each key in turn.
/// `#[derive(Key)]` guarantees this.
pub unsafe trait KeyRef {
    /// Appends the key's bytes. The bytes of different keys must be in the order of the keys, and must not be a prefix of another key's bytes.
    fn write_key(&self, into: &mut KeyBytes);

    /// Appends the bytes of these keys, one after the other.
    #[doc(hidden)]
    fn write_keys(keys: &[Self], into: &mut KeyBytes)
    where
        Self: Sized,
    {
        keys.iter().for_each(|key| key.write_key(into));
    }
}

/// A type whose values can be keys of a map: numbers, `bool`, `char`, `String`, `Vec<u8>`, times, addresses, tuples, arrays and options of keys, and
/// types with `#[derive(Key)]`. Floating-point numbers have the order of `total_cmp`: -0.0 comes before 0.0, as another key, and a NaN comes first or
/// last, depending on its sign.
///
/// ```
/// use strandline::Key;
///
/// #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Key)]
/// enum Id {
///     Number(u64),
///     Name(String),
/// }
/// ```
///
/// # Safety
/// `#[derive(Key)]` guarantees all of this. A manual implementation must guarantee that no other type has the same [`LAYOUT`](Key::LAYOUT); that
/// [`ONE_WORD`](Key::ONE_WORD) is true only if every encoding has eight bytes, since maps then store only eight; that [`read_key`](Key::read_key) is
/// the inverse of [`write_key`](KeyRef::write_key); and that `write_key` keeps its own promise. Otherwise the keys of a map would be out of order for
/// every program that reads it.
#[diagnostic::on_unimplemented(
    message = "values of type `{Self}` cannot be keys of a map in a pool",
    label = "not a key",
    note = "possible are numbers, `bool`, `char`, `String`, `Vec<u8>`, times, addresses, tuples and arrays of them, and types with `#[derive(Key)]`",
    note = "for a type of another crate: enable strandline's feature for it (`uuid`, `chrono`, `time`, `jiff`), or put `#[persist(with = module)]` on the field"
)]
pub unsafe trait Key: KeyRef + Sized {
    /// The type's name in errors.
    const NAME: &'static str;
    /// A hash of the type's layout.
    const LAYOUT: u64;
    /// True if every key's encoding has eight bytes.
    const ONE_WORD: bool = false;

    /// Like [`Persist::describe`](crate::Persist::describe).
    fn describe(types: &mut Types) -> String;

    /// Takes a key's bytes from the front of `from` and returns the key.
    ///
    /// # Errors
    /// Returns [`Invalid`] if the bytes are not a valid key.
    fn read_key(from: &mut &[u8]) -> Result<Self, Invalid>;
}

// SAFETY: the reference writes the bytes of the key that it refers to.
unsafe impl<T: KeyRef + ?Sized> KeyRef for &T {
    fn write_key(&self, into: &mut KeyBytes) {
        (**self).write_key(into);
    }
}

/// Takes `N` bytes from the front of `from`.
fn take<const N: usize>(from: &mut &[u8]) -> Result<[u8; N], Invalid> {
    let (first, rest) = from.split_first_chunk::<N>().ok_or(Invalid)?;
    *from = rest;
    Ok(*first)
}

macro_rules! key_integers {
    ($($type:ty: $unsigned:ty = $flip:expr),*) => {$(
        // SAFETY: `Key::read_key` reads these bytes.
        unsafe impl KeyRef for $type {
            #[inline]
            fn write_key(&self, into: &mut KeyBytes) {
                into.push(&(*self as $unsigned ^ $flip).to_be_bytes());
            }
            fn write_keys(keys: &[Self], into: &mut KeyBytes) {
                let flip: $unsigned = $flip;
                if size_of::<$type>() == 1 && flip == 0 {
                    // Such a key is encoded as itself.
                    return into.push(bytemuck::cast_slice(keys));
                }
                keys.iter().for_each(|key| key.write_key(into));
            }
        }
        // SAFETY: the bytes have the order of the values, and no other type has the layout.
        unsafe impl Key for $type {
            const NAME: &'static str = stringify!($type);
            const LAYOUT: u64 = layout::begin(stringify!($type), 0);
            const ONE_WORD: bool = size_of::<$type>() == 8;
            fn describe(_: &mut Types) -> String {
                <Self as Key>::NAME.into()
            }
            #[inline]
            fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
                Ok((<$unsigned>::from_be_bytes(take(from)?) ^ $flip) as $type)
            }
        }
    )*};
}

key_integers!(
    u8: u8 = 0, u16: u16 = 0, u32: u32 = 0, u64: u64 = 0, u128: u128 = 0, usize: u64 = 0,
    i8: u8 = 1 << 7, i16: u16 = 1 << 15, i32: u32 = 1 << 31, i64: u64 = 1 << 63, i128: u128 = 1 << 127,
    isize: u64 = 1 << 63
);

macro_rules! key_floats {
    ($($type:ty: $unsigned:ty),*) => {$(
        // SAFETY: `Key::read_key` reads these bytes.
        unsafe impl KeyRef for $type {
            fn write_key(&self, into: &mut KeyBytes) {
                let bits = self.to_bits();
                // All bits of a negative number are inverted, and only the sign bit of other numbers.
                let flip = if self.is_sign_negative() { <$unsigned>::MAX } else { 1 << (<$unsigned>::BITS - 1) };
                into.push(&(bits ^ flip).to_be_bytes());
            }
        }
        // SAFETY: the bytes have the order of `total_cmp`, and no other type has the layout.
        unsafe impl Key for $type {
            const NAME: &'static str = stringify!($type);
            const LAYOUT: u64 = layout::begin(stringify!($type), 0);
            const ONE_WORD: bool = size_of::<$type>() == 8;
            fn describe(_: &mut Types) -> String {
                <Self as Key>::NAME.into()
            }
            fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
                let bits = <$unsigned>::from_be_bytes(take(from)?);
                let is_negative = bits >> (<$unsigned>::BITS - 1) == 0;
                let flip = if is_negative { <$unsigned>::MAX } else { 1 << (<$unsigned>::BITS - 1) };
                Ok(Self::from_bits(bits ^ flip))
            }
        }
    )*};
}

key_floats!(f32: u32, f64: u64);

// SAFETY: the bytes are those of its parts, one after the other.
unsafe impl KeyRef for Duration {
    fn write_key(&self, into: &mut KeyBytes) {
        (self.as_secs(), self.subsec_nanos()).write_key(into);
    }
}

// SAFETY: the bytes have the order of the values, and no other type has the layout.
unsafe impl Key for Duration {
    const NAME: &'static str = "Duration";
    const LAYOUT: u64 = layout::begin("Duration", 0);
    fn describe(_: &mut Types) -> String {
        <Self as Key>::NAME.into()
    }
    fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
        let (seconds, nanos) = <(u64, u32)>::read_key(from)?;
        if nanos < 1_000_000_000 { Ok(Self::new(seconds, nanos)) } else { Err(Invalid) }
    }
}

// SAFETY: the key is one byte.
unsafe impl KeyRef for bool {
    fn write_key(&self, into: &mut KeyBytes) {
        into.push(&[u8::from(*self)]);
    }
}

// SAFETY: the bytes have the order of the values, and no other type has the layout.
unsafe impl Key for bool {
    const NAME: &'static str = "bool";
    const LAYOUT: u64 = layout::begin("bool", 0);
    fn describe(_: &mut Types) -> String {
        <Self as Key>::NAME.into()
    }
    fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
        match take::<1>(from)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(Invalid),
        }
    }
}

// SAFETY: the bytes are those of the character's number.
unsafe impl KeyRef for char {
    fn write_key(&self, into: &mut KeyBytes) {
        u32::from(*self).write_key(into);
    }
}

// SAFETY: the bytes have the order of the values, and no other type has the layout.
unsafe impl Key for char {
    const NAME: &'static str = "char";
    const LAYOUT: u64 = layout::begin("char", 0);
    fn describe(_: &mut Types) -> String {
        <Self as Key>::NAME.into()
    }
    fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
        char::from_u32(u32::read_key(from)?).ok_or(Invalid)
    }
}

// SAFETY: the key has no bytes, and there is only one value.
unsafe impl KeyRef for () {
    fn write_key(&self, _: &mut KeyBytes) {}
}

// SAFETY: the bytes have the order of the values, and no other type has the layout.
unsafe impl Key for () {
    const NAME: &'static str = "()";
    const LAYOUT: u64 = layout::begin("()", 0);
    fn describe(_: &mut Types) -> String {
        <Self as Key>::NAME.into()
    }
    fn read_key(_: &mut &[u8]) -> Result<Self, Invalid> {
        Ok(())
    }
}

fn write_string(bytes: &[u8], into: &mut KeyBytes) {
    write_begin(bytes, into);
    into.push(&[0, 0]);
}

fn read_string(from: &mut &[u8]) -> Result<Vec<u8>, Invalid> {
    let mut bytes = Vec::new();
    loop {
        let zero = from.iter().position(|&byte| byte == 0).ok_or(Invalid)?;
        let (piece, rest) = from.split_at(zero);
        *from = rest;
        bytes.extend_from_slice(piece);
        match take::<2>(from)? {
            [_, 0] => return Ok(bytes),
            [_, 255] => bytes.push(0),
            _ => return Err(Invalid),
        }
    }
}

macro_rules! key_strings {
    ($($type:ty),*) => {$(
        // SAFETY: `Key::read_key` reads these bytes.
        unsafe impl KeyRef for $type {
            fn write_key(&self, into: &mut KeyBytes) {
                write_string(self.as_ref(), into);
            }
        }
    )*};
}

key_strings!(str, String, [u8], Vec<u8>);

// SAFETY: the bytes have the order of the values, and no other type has the layout.
unsafe impl Key for String {
    const NAME: &'static str = "String";
    const LAYOUT: u64 = layout::begin("String", 0);
    fn describe(_: &mut Types) -> String {
        <Self as Key>::NAME.into()
    }
    fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
        String::from_utf8(read_string(from)?).map_err(|_| Invalid)
    }
}

// SAFETY: the bytes have the order of the values, and no other type has the layout.
unsafe impl Key for Vec<u8> {
    const NAME: &'static str = "Vec<u8>";
    const LAYOUT: u64 = layout::begin("Vec<u8>", 0);
    fn describe(_: &mut Types) -> String {
        <Self as Key>::NAME.into()
    }
    fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
        read_string(from)
    }
}

// SAFETY: `Key::read_key` of the option reads these bytes.
unsafe impl<T: KeyRef> KeyRef for Option<T> {
    fn write_key(&self, into: &mut KeyBytes) {
        into.push(&[u8::from(self.is_some())]);
        if let Some(key) = self {
            key.write_key(into);
        }
    }
}

// SAFETY: the first byte orders `None` before `Some`, and the bytes of the value follow it.
unsafe impl<T: Key> Key for Option<T> {
    const NAME: &'static str = "Option";
    const LAYOUT: u64 = layout::field(layout::begin("Option", 0), "", T::LAYOUT);
    fn describe(types: &mut Types) -> String {
        format!("Option<{}>", T::describe(types))
    }
    fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
        if bool::read_key(from)? { T::read_key(from).map(Some) } else { Ok(None) }
    }
}

// SAFETY: the bytes are those of the elements, in order.
unsafe impl<T: KeyRef, const N: usize> KeyRef for [T; N] {
    fn write_key(&self, into: &mut KeyBytes) {
        T::write_keys(self, into);
    }
}

// SAFETY: the bytes have the order of the values, and no other type has the layout.
unsafe impl<T: Key, const N: usize> Key for [T; N] {
    const NAME: &'static str = "array";
    const LAYOUT: u64 = layout::field(layout::begin("array", N as u32), "", T::LAYOUT);
    fn describe(types: &mut Types) -> String {
        format!("[{}; {N}]", T::describe(types))
    }
    fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
        let parts: [Option<T>; N] = std::array::from_fn(|_| T::read_key(from).ok());
        if parts.iter().any(Option::is_none) {
            return Err(Invalid);
        }
        Ok(parts.map(|part| part.expect("none of them is missing")))
    }
}

macro_rules! key_tuples {
    ($($($name:ident $index:tt),+;)*) => {$(
        // SAFETY: the bytes are those of the parts, in order.
        unsafe impl<$($name: KeyRef),+> KeyRef for ($($name,)+) {
            #[inline]
            fn write_key(&self, into: &mut KeyBytes) {
                $(self.$index.write_key(into);)+
            }
        }
        // SAFETY: the bytes have the order of the values, and no other type has the layout.
        unsafe impl<$($name: Key),+> Key for ($($name,)+) {
            const NAME: &'static str = "tuple";
            const LAYOUT: u64 = {
                let hash = layout::begin("tuple", 0);
                $(let hash = layout::field(hash, "", $name::LAYOUT);)+
                hash
            };
            fn describe(types: &mut Types) -> String {
                tuple(&[$($name::describe(types)),+])
            }
            #[inline]
            fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
                Ok(($($name::read_key(from)?,)+))
            }
        }
    )*};
}

for_tuples!(key_tuples);

/// A prefix of the keys of a map: the first parts of a tuple, or the beginning of a string or of bytes.
///
/// ```
/// # use strandline::*;
/// let db = Database::in_memory()?;
/// let files = db.table::<(u64, String), u64>("files")?;
/// db.write(|tx| {
///     files.insert(tx, &(7, "a".to_string()), &1)?;
///     files.insert(tx, &(7, "b".to_string()), &2)?;
///     files.insert(tx, &(8, "a".to_string()), &3)
/// })?;
/// let names = db.table::<String, u64>("names")?;
/// db.write(|tx| names.insert(tx, "strand", &1))?;
/// let (of_7, str) = db.read(|tx| {
///     Ok((files.prefix(tx, &(7,))?.count(), names.prefix(tx, "str")?.count()))
/// })?;
/// assert_eq!((of_7, str), (2, 1));
/// # Ok::<(), strandline::Error>(())
/// ```
pub trait Prefix<K> {
    /// Appends the bytes with which the keys begin.
    #[doc(hidden)]
    fn write_prefix(&self, into: &mut KeyBytes);
}

/// Writes the beginning of a byte string, without the bytes that end it.
fn write_begin(bytes: &[u8], into: &mut KeyBytes) {
    for (i, piece) in bytes.split(|&byte| byte == 0).enumerate() {
        if i > 0 {
            into.push(&[0, 255]);
        }
        into.push(piece);
    }
}

impl Prefix<String> for str {
    fn write_prefix(&self, into: &mut KeyBytes) {
        write_begin(self.as_bytes(), into);
    }
}

impl Prefix<Vec<u8>> for [u8] {
    fn write_prefix(&self, into: &mut KeyBytes) {
        write_begin(self, into);
    }
}

/// Implements the prefixes of tuples, for all numbers of parts that can follow the first ones.
macro_rules! prefixes {
    ($(($($first:ident $index:tt),+) $($rest:ident),+;)*) => {$(
        prefixes!(@ ($($first $index),+) () $($rest),+);
    )*};
    (@ $begin:tt $before:tt) => {};
    (@ ($($first:ident $index:tt),+) ($($before:ident),*) $next:ident $(, $rest:ident)*) => {
        impl<$($first: Key,)+ $($before,)* $next> Prefix<($($first,)+ $($before,)* $next,)> for ($($first,)+) {
            fn write_prefix(&self, into: &mut KeyBytes) {
                $(self.$index.write_key(into);)+
            }
        }
        prefixes!(@ ($($first $index),+) ($($before,)* $next) $($rest),*);
    };
}

prefixes! {
    (A 0) B, C, D, E, F, G, H, I, J, K, L;
    (A 0, B 1) C, D, E, F, G, H, I, J, K, L;
    (A 0, B 1, C 2) D, E, F, G, H, I, J, K, L;
    (A 0, B 1, C 2, D 3) E, F, G, H, I, J, K, L;
    (A 0, B 1, C 2, D 3, E 4) F, G, H, I, J, K, L;
    (A 0, B 1, C 2, D 3, E 4, F 5) G, H, I, J, K, L;
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6) H, I, J, K, L;
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7) I, J, K, L;
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8) J, K, L;
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9) K, L;
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7, I 8, J 9, K 10) L;
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::num::NonZero;

    use proptest::prelude::*;

    use super::*;

    /// Checks that keys are decoded again, that their bytes have the order of the keys, and that no key's bytes are a prefix of another's.
    fn check<K: Key + Ord + Clone + std::fmt::Debug>(one: &K, other: &K) {
        let (first, second) = (KeyBytes::of(one), KeyBytes::of(other));
        let mut rest = first.as_slice();
        assert_eq!(K::read_key(&mut rest).as_ref(), Ok(one));
        assert!(rest.is_empty());
        assert_eq!(first.as_slice().cmp(second.as_slice()), one.cmp(other));
        assert!(one == other || !first.as_slice().starts_with(second.as_slice()));
    }

    proptest! {
        #[test]
        fn bytes_are_ordered_as_keys(
            a: (i64, u16, bool), b: (i64, u16, bool), c: Vec<u8>, d: Vec<u8>, e: (String, i8), f: (String, i8),
        ) {
            check(&a, &b);
            check(&c, &d);
            check(&e, &f);
            check(&(c.clone(), a.0), &(c.clone(), b.0));
            check(&(Some(c.clone()), a.0), &(None::<Vec<u8>>, b.0));
            check(&(Some(c), a.0), &(Some(d), b.0));
        }

        #[test]
        fn bytes_of_other_types_are_ordered_as_keys(
            a: (Duration, i16, u128, String), b: (Duration, i16, u128, String), floats: [u64; 2],
        ) {
            check(&a.0, &b.0);
            check(&(Reverse(a.3.clone()), a.1), &(Reverse(b.3.clone()), b.1));
            check(&Some(Reverse((a.1, Reverse(a.2)))), &Some(Reverse((b.1, Reverse(b.2)))));
            check(&(NonZero::new(a.1), Box::new(a.3.clone())), &(NonZero::new(b.1), Box::new(b.3.clone())));
            let address = |bits: u128| -> IpAddr {
                u32::try_from(bits >> 64).map_or_else(|_| Ipv6Addr::from_bits(bits).into(), |bits| {
                    Ipv4Addr::from_bits(bits).into()
                })
            };
            check(&address(a.2), &address(b.2 >> 48));
            let [one, other] = floats.map(f64::from_bits);
            let (first, second) = (KeyBytes::of(&one), KeyBytes::of(&other));
            prop_assert_eq!(first.as_slice().cmp(second.as_slice()), one.total_cmp(&other));
            let again = f64::read_key(&mut first.as_slice()).unwrap();
            prop_assert_eq!(again.to_bits(), one.to_bits());
        }

        #[test]
        fn byte_strings_of_few_values(c in prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..60),
                                      d in prop::collection::vec(prop::sample::select(vec![0u8, 1, 255]), 0..60)) {
            check(&c, &d);
        }
    }
}
