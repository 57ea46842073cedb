//! Collections of values in a pool, with their iterators, cursors and entries.

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
