//! Types of the standard library that are stored as another type, under a name of their own.

use std::cmp::{Ordering, Reverse};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::num::{NonZero, Saturating, Wrapping};
use std::ops::{Range, RangeInclusive};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::key::{Key, KeyBytes, KeyRef};
use super::persist::{Fixed, Invalid, Persist, Stored};
use super::schema::Types;
use strandline_core::structures::type_layout as layout;

/// Implements [`Persist`] for `$type`, which is stored as `$stored`. `$to` converts a reference to the stored type; `$from` converts back, and
/// returns `None` for a value that is not valid. `$layout` is the type's layout, computed from that of `$stored`.
macro_rules! persist_as {
    (
        [$($generics:tt)*] $type:ty, $name:expr, $stored:ty, |$value:ident| $to:expr, |$loaded:ident| $from:expr,
        layout: $layout:expr, describe: |$types:ident| $describe:expr $(, { $($more:item)* })?
    ) => {
        // SAFETY: the type stores the words of `$stored`, which has no handles. The layout is computed from the type's name and the layout of these
        // words.
        unsafe impl<'p, $($generics)*> Persist<'p> for $type {
            const NAME: &'static str = $name;
            const LAYOUT: u64 = $layout;
            const SIZE: Option<usize> = <$stored as Persist<'p>>::SIZE;
            const PACKED: Option<usize> = <$stored as Persist<'p>>::PACKED;
            fn describe($types: &mut Types) -> String {
                $describe
            }
            fn words(&self) -> usize {
                let $value = self;
                Self::SIZE.unwrap_or_else(|| Persist::<'p>::words(&$to))
            }
            fn store<'w>(&self, into: &'w mut [u64]) -> &'w mut [u64] {
                let $value = self;
                Persist::<'p>::store(&$to, into)
            }
            fn load(from: &mut &[u64], stored: Stored<'p>) -> Result<Self, Invalid> {
                let $loaded = <$stored as Persist<'p>>::load(from, stored)?;
                $from.ok_or(Invalid)
            }
            fn store_packed<'b>(&self, into: &'b mut [u8]) -> &'b mut [u8] {
                let $value = self;
                Persist::<'p>::store_packed(&$to, into)
            }
            fn load_packed(from: &mut &[u8]) -> Result<Self, Invalid> {
                let $loaded = <$stored as Persist<'p>>::load_packed(from)?;
                $from.ok_or(Invalid)
            }
            fn bytes(&self) -> u64 {
                let $value = self;
                Persist::<'p>::bytes(&$to)
            }
            fn encode(&self, into: &mut [u64]) {
                let $value = self;
                Persist::<'p>::encode(&$to, into);
            }
            fn decode(from: &[u64], bytes: u64, stored: Stored<'p>) -> Result<Self, Invalid> {
                let $loaded = <$stored as Persist<'p>>::decode(from, bytes, stored)?;
                $from.ok_or(Invalid)
            }
            $($($more)*)?
        }
    };
}
pub(super) use persist_as;

/// Returns the layout of a type called `name` that is stored as a type of layout `inside`.
pub(super) const fn named(name: &str, inside: u64) -> u64 {
    layout::field(layout::begin(name, 0), "", inside)
}

/// Like [`persist_as`], for types without parameters whose values all have the same size.
macro_rules! persist_named {
    ($type:ty, $name:literal, $stored:ty, |$value:ident| $to:expr, |$loaded:ident| $from:expr) => {
        $crate::value::adapted::persist_as!(
            [] $type, $name, $stored, |$value| $to, |$loaded| $from,
            layout: $crate::value::adapted::named($name, <$stored as Persist<'p>>::LAYOUT),
            describe: |_types| $name.into()
        );
        // SAFETY: `$stored` has a fixed size.
        unsafe impl Fixed<'_> for $type {}
    };
}
pub(super) use persist_named;

/// Implements [`Key`] for `$type`, whose keys are those of `$stored` and have their order.
macro_rules! key_as {
    (
        [$($generics:tt)*] $type:ty, $name:expr, $stored:ty, |$value:ident| $to:expr, |$loaded:ident| $from:expr,
        layout: $layout:expr, describe: |$types:ident| $describe:expr
    ) => {
        // SAFETY: `Key::read_key` reads these bytes.
        unsafe impl<$($generics)*> KeyRef for $type {
            fn write_key(&self, into: &mut KeyBytes) {
                let $value = self;
                KeyRef::write_key(&$to, into);
            }
        }
        // SAFETY: the bytes are those of a key of `$stored`, in the order of the values. The layout is computed from the type's name and the layout
        // of that key.
        unsafe impl<$($generics)*> Key for $type {
            const NAME: &'static str = $name;
            const LAYOUT: u64 = $layout;
            const ONE_WORD: bool = <$stored as Key>::ONE_WORD;
            fn describe($types: &mut Types) -> String {
                $describe
            }
            fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
                let $loaded = <$stored as Key>::read_key(from)?;
                $from.ok_or(Invalid)
            }
        }
    };
}
pub(super) use key_as;

/// Like [`key_as`], for types without parameters.
macro_rules! key_named {
    ($type:ty, $name:literal, $stored:ty, |$value:ident| $to:expr, |$loaded:ident| $from:expr) => {
        $crate::value::adapted::key_as!(
            [] $type, $name, $stored, |$value| $to, |$loaded| $from,
            layout: $crate::value::adapted::named($name, <$stored as Key>::LAYOUT),
            describe: |_types| $name.into()
        );
    };
}
pub(super) use key_named;

/// Implements [`Persist`] and [`Key`] with the same conversions.
macro_rules! both_named {
    ($($input:tt)*) => {
        $crate::value::adapted::persist_named!($($input)*);
        $crate::value::adapted::key_named!($($input)*);
    };
}
#[allow(unused_imports)] // used only if a feature adds types of another crate
pub(super) use both_named;

macro_rules! non_zero {
    ($($number:ty),*) => {$(
        persist_as!(
            [] NonZero<$number>, "NonZero", $number, |value| value.get(), |number| NonZero::new(number),
            layout: named("NonZero", <$number as Persist<'p>>::LAYOUT),
            describe: |_types| concat!("NonZero<", stringify!($number), ">").into(),
            { const NEVER_ZERO: bool = true; }
        );
        // SAFETY: the number has a fixed size.
        unsafe impl Fixed<'_> for NonZero<$number> {}
        key_as!(
            [] NonZero<$number>, "NonZero", $number, |value| value.get(), |number| NonZero::new(number),
            layout: named("NonZero", <$number as Key>::LAYOUT),
            describe: |_types| concat!("NonZero<", stringify!($number), ">").into()
        );
    )*};
}

non_zero!(u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize);

both_named!(Ipv4Addr, "ipv4", u32, |value| value.to_bits(), |bits| Some(Ipv4Addr::from_bits(bits)));
both_named!(Ipv6Addr, "ipv6", u128, |value| value.to_bits(), |bits| Some(Ipv6Addr::from_bits(bits)));
both_named!(
    IpAddr,
    "ip",
    (bool, u128),
    |value| match value {
        IpAddr::V4(address) => (false, address.to_bits().into()),
        IpAddr::V6(address) => (true, address.to_bits()),
    },
    |stored| match stored {
        (false, bits) => u32::try_from(bits).ok().map(|bits| IpAddr::V4(Ipv4Addr::from_bits(bits))),
        (true, bits) => Some(IpAddr::V6(Ipv6Addr::from_bits(bits))),
    }
);

/// The address, the port, the flow information and the scope.
type Socket6 = (u128, u16, u32, u32);

fn of_socket6(value: &SocketAddrV6) -> Socket6 {
    (value.ip().to_bits(), value.port(), value.flowinfo(), value.scope_id())
}

fn to_socket6((bits, port, flow, scope): Socket6) -> SocketAddrV6 {
    SocketAddrV6::new(Ipv6Addr::from_bits(bits), port, flow, scope)
}

both_named!(
    SocketAddrV4,
    "socket address v4",
    (u32, u16),
    |value| (value.ip().to_bits(), value.port()),
    |stored| Some(SocketAddrV4::new(Ipv4Addr::from_bits(stored.0), stored.1))
);
both_named!(SocketAddrV6, "socket address v6", Socket6, |value| of_socket6(value), |stored| Some(
    to_socket6(stored)
));
both_named!(
    SocketAddr,
    "socket address",
    (bool, Socket6),
    |value| match value {
        SocketAddr::V4(address) => (false, (address.ip().to_bits().into(), address.port(), 0, 0)),
        SocketAddr::V6(address) => (true, of_socket6(address)),
    },
    |stored| match stored {
        (false, (bits, port, 0, 0)) =>
            u32::try_from(bits).ok().map(|bits| SocketAddr::new(Ipv4Addr::from_bits(bits).into(), port)),
        (false, _) => None,
        (true, socket) => Some(to_socket6(socket).into()),
    }
);

/// The seconds since 1970, and the nanoseconds. In a leap second the nanoseconds are 1,000,000,000 or more.
pub(super) type Instant = (i64, u32);

/// Returns whether an instant can be written as a time. Nanoseconds of a second or more are a leap second, which is only valid at the end of a
/// minute.
pub(crate) fn is_instant(seconds: i64, nanos: u32) -> bool {
    nanos < 1_000_000_000 || nanos < 2_000_000_000 && seconds.rem_euclid(60) == 59
}

fn of_system_time(time: &SystemTime) -> Instant {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => (since.as_secs() as i64, since.subsec_nanos()),
        Err(error) => {
            let before = error.duration();
            let (seconds, nanos) = (0_i64.wrapping_sub(before.as_secs() as i64), before.subsec_nanos());
            if nanos == 0 { (seconds, 0) } else { (seconds.wrapping_sub(1), 1_000_000_000 - nanos) }
        }
    }
}

fn to_system_time((seconds, nanos): Instant) -> Option<SystemTime> {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let time = match seconds {
        0.. => SystemTime::UNIX_EPOCH.checked_add(whole),
        _ => SystemTime::UNIX_EPOCH.checked_sub(whole),
    };
    // `SystemTime` has no leap seconds. One would be loaded as the second after it, which is another key.
    time?.checked_add(Duration::from_nanos(nanos.into())).filter(|_| nanos < 1_000_000_000)
}

both_named!(SystemTime, "timestamp", Instant, |value| of_system_time(value), |stored| to_system_time(stored));

both_named!(Ordering, "ordering", i8, |value| *value as i8, |number| [
    Ordering::Less,
    Ordering::Equal,
    Ordering::Greater
]
.into_iter()
.find(|order| *order as i8 == number));

persist_as!(
    [] PathBuf, "path", Vec<u8>, |value| value.as_os_str().as_bytes().to_vec(),
    |bytes| Some(PathBuf::from(std::ffi::OsString::from_vec(bytes))),
    layout: named("path", <Vec<u8> as Persist<'p>>::LAYOUT),
    describe: |_types| "path".into()
);

/// Implements [`Persist`] for a range, which is stored as its two ends.
macro_rules! ranges {
    ($($type:ident, |$value:ident| $to:expr, |$ends:ident| $from:expr;)*) => {$(
        persist_as!(
            [T: for<'q> Persist<'q> + Clone] $type<T>, stringify!($type), (T, T), |$value| $to, |$ends| Some($from),
            layout: named(stringify!($type), <(T, T) as Persist<'p>>::LAYOUT),
            describe: |types| format!("{}<{}>", stringify!($type), <T as Persist<'p>>::describe(types))
        );
        // SAFETY: both ends have a fixed size.
        unsafe impl<'p, T: for<'q> Fixed<'q> + Clone> Fixed<'p> for $type<T> {}
    )*};
}

ranges! {
    Range, |value| (value.start.clone(), value.end.clone()), |ends| ends.0..ends.1;
    RangeInclusive, |value| (value.start().clone(), value.end().clone()), |ends| ends.0..=ends.1;
}

/// Implements both traits for types that only change how a number is calculated with. They are stored as the number, and with its layout.
macro_rules! transparent_numbers {
    ($($type:ident),*) => {$(
        persist_as!(
            [T: for<'q> Persist<'q> + Copy] $type<T>, <T as Persist<'p>>::NAME, T, |value| value.0, |number| Some($type(number)),
            layout: <T as Persist<'p>>::LAYOUT,
            describe: |types| <T as Persist<'p>>::describe(types),
            {
                const NEVER_ZERO: bool = <T as Persist<'p>>::NEVER_ZERO;
                const IS_NUMBER: bool = <T as Persist<'p>>::IS_NUMBER;
            }
        );
        // SAFETY: the number has a fixed size.
        unsafe impl<'p, T: for<'q> Fixed<'q> + Copy> Fixed<'p> for $type<T> {}
        key_as!(
            [T: Key + Copy] $type<T>, <T as Key>::NAME, T, |value| value.0, |number| Some($type(number)),
            layout: <T as Key>::LAYOUT,
            describe: |types| <T as Key>::describe(types)
        );
    )*};
}

transparent_numbers!(Wrapping, Saturating);

persist_as!(
    [T: ?Sized] PhantomData<T>, "()", (), |_value| (), |_nothing| Some(PhantomData),
    layout: <() as Persist<'p>>::LAYOUT,
    describe: |types| <() as Persist<'p>>::describe(types)
);
// SAFETY: the type is stored in no words.
unsafe impl<T: ?Sized> Fixed<'_> for PhantomData<T> {}
key_as!(
    [T: ?Sized] PhantomData<T>, "()", (), |_value| (), |_nothing| Some(PhantomData),
    layout: <() as Key>::LAYOUT,
    describe: |types| <() as Key>::describe(types)
);

persist_as!(
    [T: for<'q> Persist<'q> + Clone] Reverse<T>, "Reverse", T, |value| value.0.clone(), |inside| Some(Reverse(inside)),
    layout: named("Reverse", <T as Persist<'p>>::LAYOUT),
    describe: |types| format!("Reverse<{}>", <T as Persist<'p>>::describe(types))
);
// SAFETY: the value inside has a fixed size.
unsafe impl<'p, T: for<'q> Fixed<'q> + Clone> Fixed<'p> for Reverse<T> {}

// SAFETY: `Key::read_key` reads these bytes.
unsafe impl<K: KeyRef> KeyRef for Reverse<K> {
    fn write_key(&self, into: &mut KeyBytes) {
        let begin = into.as_slice().len();
        self.0.write_key(into);
        into.invert(begin);
    }
}

// SAFETY: no key's bytes are a prefix of another's, so that the first byte in which two keys differ decides their order. Inverting all bits reverses
// this order.
unsafe impl<K: Key> Key for Reverse<K> {
    const NAME: &'static str = "Reverse";
    const LAYOUT: u64 = named("Reverse", K::LAYOUT);
    const ONE_WORD: bool = K::ONE_WORD;
    fn describe(types: &mut Types) -> String {
        format!("Reverse<{}>", K::describe(types))
    }
    fn read_key(from: &mut &[u8]) -> Result<Self, Invalid> {
        read_inverted(from, K::read_key).map(Reverse)
    }
}

/// Calls `read` with the bytes of `from`, all bits inverted, and then removes as many bytes from the front of `from` as `read` took.
pub(crate) fn read_inverted<R>(
    from: &mut &[u8],
    read: impl FnOnce(&mut &[u8]) -> Result<R, Invalid>,
) -> Result<R, Invalid> {
    let inverted: Vec<u8> = from.iter().map(|byte| !byte).collect();
    let mut rest = inverted.as_slice();
    let value = read(&mut rest)?;
    *from = &from[inverted.len() - rest.len()..];
    Ok(value)
}
