//! The values that a pool can hold, and the code that loads, stores, checks and describes them.

pub(crate) mod adapted;
pub(crate) mod bytes;
pub(crate) mod check;
pub(crate) mod convert;
pub(crate) mod derived;
pub(crate) mod elements;
#[cfg(any(feature = "bytes", feature = "chrono", feature = "jiff", feature = "time", feature = "uuid"))]
pub(crate) mod foreign;
pub(crate) mod form;
pub(crate) mod key;
pub(crate) mod lists;
pub(crate) mod owned;
pub(crate) mod packed;
pub(crate) mod persist;
pub(crate) mod pointer;
pub(crate) mod raw;
pub(crate) mod recent;
pub(crate) mod result;
pub(crate) mod schema;
#[cfg(feature = "serde")]
pub(crate) mod serde;
pub(crate) mod shape;
pub(crate) mod transaction;
pub(crate) mod values;
pub(crate) mod waiting;
