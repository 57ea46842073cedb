//! Every form of a type that the derives accept: fields with and without names, attributes, visibility, parameters, where clauses, numbers of
//! variants, and types that macros produce.

#![allow(dead_code)]

use std::marker::PhantomData;

use strandline::{HashMap, Key, Persist, Ptr, Text, Value, Vector};

#[derive(Persist)]
struct Unit;
#[derive(Persist)]
struct Empty {}
#[derive(Persist)]
struct EmptyTuple();
/// Documented.
#[derive(Clone, Copy, Persist)]
#[repr(C)]
#[persist(name = "Other \"name\"", version = 1_2)]
#[must_use]
pub(crate) struct Plain {
    /// A field.
    pub a: u64,
    pub(crate) r#type: [u32; 3 + 1],
    pub(crate) c: (u8, (i64, bool)),
    d: Option<core::time::Duration>,
    e: (),
}
/// Without names.
#[derive(Persist)]
pub struct Tuple<'p>(pub u64, pub(crate) Text<'p>, pub (u8, u8), Ptr<'p, Tuple<'p>>);
#[derive(Persist)]
struct Generic<'p, T: Copy, U, const N: usize>
where
    T: Clone + 'p,
    U: ::core::fmt::Debug,
{
    one: T,
    two: [U; N],
    map: HashMap<'p, String, Vector<'p, u64>>,
}
#[derive(Persist)]
struct Bare<T>(T)
where
    T: Copy;
#[derive(Persist)]
struct Default2<T: ::core::marker::Copy = u64, const N: usize = 4> {
    t: [T; N],
}
#[derive(Clone, Persist)]
enum Choice<'p> {
    #[allow(unused)]
    None,
    One(u64),
    Two {
        text: Text<'p>,
        number: i8,
    },
    Pair(u8, Option<Ptr<'p, u64>>),
}
/// A type with fields that own their content.
#[derive(Clone, Debug, PartialEq, Persist)]
pub struct Owning {
    name: String,
    private: Vec<Inner>,
    maybe: Option<(String, [Vec<u16>; 2])>,
}
#[derive(Clone, Debug, PartialEq, Persist)]
enum Inner {
    Nothing,
    Text(String),
    Numbers { all: Vec<f32> },
}
#[derive(Persist)]
struct OwningGeneric<T, U: Clone>
where
    U: Copy,
{
    values: Vec<T>,
    other: (U, String),
}
#[derive(Persist)]
enum Numbered {
    A = 1 << 3,
    B = (1 < 2) as isize,
    C = 5,
}
macro_rules! made {
    ($(#[$a:meta])* $v:vis $n:ident $f:ident $t:ty) => {
        /// A structure that a macro makes.
        #[derive(Persist)]
        $v struct $n { $f: $t, #[doc = "Another."] $v other: Option<$t> }
        /// A module that a macro makes.
        pub mod inner {
            use super::*;
            /// A tuple structure that a macro makes.
            #[derive(Persist)]
            pub struct InTuple($v $t, $t);
        }
    };
}
made!(pub Made field (u64, u8));
mod quiet {
    use super::*;
    macro_rules! made2 { ($v:vis $n:ident $t:ty) => { #[derive(Persist)] $v struct $n { $v other: $t } #[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord)] struct K2($t); } }
    made2!(Hidden u64);
}
/// Parameters with the library's own bounds.
#[derive(Clone, Debug, Persist)]
struct Page<T: Value> {
    rows: Vec<T>,
    next: Option<u64>,
}
#[derive(Persist)]
struct Bounded<'p, T: Persist<'p>, U>
where
    U: for<'q> Persist<'q> + Clone,
    Vec<U>: Clone,
{
    one: T,
    other: Option<U>,
    link: Option<Ptr<'p, Bounded<'p, T, U>>>,
}
#[derive(Persist)]
struct Marked<T: Value> {
    number: u64,
    kind: PhantomData<T>,
}
#[derive(Persist)]
enum Either<L: Value, R: Value = u8> {
    Left(L),
    Right { right: R },
}
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Foreign(u32);
mod foreign {
    use super::Foreign;
    pub type Stored = (u16, u16);
    pub fn store(value: &Foreign) -> Stored {
        ((value.0 >> 16) as u16, value.0 as u16)
    }
    pub fn load((high, low): Stored) -> Result<Foreign, String> {
        Ok(Foreign(u32::from(high) << 16 | u32::from(low)))
    }
}
/// Has fields that are stored as another type, or not at all.
#[derive(Clone, Persist)]
#[persist(version = 2)]
struct With<'p> {
    #[persist(with = foreign)]
    one: Foreign,
    text: Text<'p>,
    #[persist(with = self::foreign, was = "another", default = Foreign(7))]
    other: Foreign,
    #[persist(skip)]
    cache: Option<std::sync::Arc<dyn Fn() -> u8>>,
}
#[derive(Persist)]
enum WithVariants {
    Tuple(#[persist(with = foreign)] Foreign, #[persist(skip)] std::sync::OnceLock<u8>, u8),
    Named {
        #[persist(with = foreign)]
        foreign: Foreign,
        #[persist(skip)]
        seen: std::cell::Cell<bool>,
    },
    Skipped(#[persist(skip)] u8),
}
#[derive(Key, Persist, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct KeyWith(#[persist(with = foreign)] Foreign, u8);
#[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Name {
    first: String,
    bytes: Vec<u8>,
    age: u8,
    pair: (u8, [u16; 2]),
}
#[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Place {
    Nowhere,
    At(i32, i32),
    Named { name: String },
}
#[derive(Key, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Wrapped<T: Clone, U>(T, U)
where
    U: Copy;
/// The derives also work in programs that forbid unsafe code.
mod without_unsafe_code {
    #![forbid(unsafe_code)]

    use strandline::{HashMap, Key, Persist, Ptr};

    #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Key)]
    enum Id {
        Number(u64),
        Name(String),
    }

    #[derive(Persist)]
    struct Node<'p> {
        names: HashMap<'p, Id, u64>,
        next: Option<Ptr<'p, Node<'p>>>,
    }

    #[derive(Clone, Copy, Persist)]
    enum Colour {
        Red,
        Mixed(u8, u8, u8),
    }
}
fn main() {}
