//! The code that the ordered structures share: bounds of a range, and methods that are implemented by a scan.

use std::ops::{Bound, RangeBounds};

/// Returns whether `key` is less than all keys of a range.
pub fn is_before<K: Ord>(key: &K, keys: &impl RangeBounds<K>) -> bool {
    match keys.start_bound() {
        Bound::Included(start) => key < start,
        Bound::Excluded(start) => key <= start,
        Bound::Unbounded => false,
    }
}

/// Returns whether `key` is greater than all keys of a range.
pub fn is_behind<K: Ord>(key: &K, keys: &impl RangeBounds<K>) -> bool {
    match keys.end_bound() {
        Bound::Included(end) => key > end,
        Bound::Excluded(end) => key >= end,
        Bound::Unbounded => false,
    }
}

/// Defines the methods that every ordered map has, by its `scan(tx, keys, visit)`, which calls `visit` with the keys in `keys` and their
/// values, in ascending order, until `visit` breaks.
#[doc(hidden)]
#[macro_export]
macro_rules! ordered_methods {
    () => {
        /// Calls `visit` with every key and its value, in ascending order of the keys.
        ///
        /// # Errors
        /// Returns an error after a conflict or if the structure is damaged, and the errors of `visit`.
        pub fn for_each(
            &self,
            tx: &mut impl Read,
            visit: impl FnMut(K, V) -> Result<(), Abort>,
        ) -> Result<(), Abort> {
            self.range(tx, .., visit)
        }

        /// Calls `visit` with the keys in `keys` and their values, in ascending order.
        ///
        /// # Errors
        /// Returns an error after a conflict or if the structure is damaged, and the errors of `visit`.
        pub fn range(
            &self,
            tx: &mut impl Read,
            keys: impl RangeBounds<K>,
            mut visit: impl FnMut(K, V) -> Result<(), Abort>,
        ) -> Result<(), Abort> {
            self.scan(tx, keys, |key, value| visit(key, value).map(ControlFlow::Continue))
        }

        /// Returns the least key in `keys` and its value.
        ///
        /// # Errors
        /// Returns an error after a conflict or if the structure is damaged.
        pub fn first(&self, tx: &mut impl Read, keys: impl RangeBounds<K>) -> Result<Option<(K, V)>, Abort> {
            let mut first = None;
            self.scan(tx, keys, |key, value| {
                first = Some((key, value));
                Ok(ControlFlow::Break(()))
            })?;
            Ok(first)
        }

        /// Counts the keys by a scan.
        ///
        /// # Errors
        /// Returns an error after a conflict or if the structure is damaged.
        pub fn count(&self, tx: &mut impl Read) -> Result<u64, Abort> {
            let mut count = 0;
            self.for_each(tx, |_, _| {
                count += 1;
                Ok(())
            })?;
            Ok(count)
        }
    };
}
pub use crate::ordered_methods;
