//! What a pool can hold, word by word: values, and what they are loaded, stored, checked and described with.

pub(crate) mod bytes;
pub(crate) mod check;
pub(crate) mod convert;
pub(crate) mod derived;
pub(crate) mod form;
pub(crate) mod key;
pub(crate) mod lists;
pub(crate) mod packed;
pub(crate) mod persist;
pub(crate) mod pointer;
pub(crate) mod raw;
pub(crate) mod schema;
#[cfg(feature = "serde")]
pub(crate) mod serde;
pub(crate) mod shape;
pub(crate) mod transaction;
pub(crate) mod values;
