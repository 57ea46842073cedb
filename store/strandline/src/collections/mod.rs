//! Collections of values in a pool, and the ways to walk over and change them.

pub(crate) mod cursor;
pub(crate) mod drain;
pub(crate) mod entry;
pub(crate) mod hash_map;
pub(crate) mod ordered_map;
pub(crate) mod pages;
pub(crate) mod queue;
pub(crate) mod range;
pub(crate) mod stream;
pub(crate) mod vector;
