//! Spans and events for subscribers of the crate `tracing`. Without the feature of that name there are none.

use std::panic::Location;
use std::path::Path;
use std::time::Duration;

/// A span that ends with the value that this makes.
#[cfg(feature = "tracing")]
macro_rules! span {
    ($($what:tt)*) => { let _span = tracing::info_span!(target: "strandline", $($what)*).entered(); };
}
#[cfg(not(feature = "tracing"))]
macro_rules! span {
    ($($what:tt)*) => {};
}
pub(crate) use span;

/// Something that is over.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident, $($what:tt)*) => { tracing::$level!(target: "strandline", $($what)*) };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($level:ident, $($what:tt)*) => {};
}
pub(crate) use event;

/// A call has waited longer for its transaction than the program expects.
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "nobody is told"))]
pub(crate) fn slow_transaction(pool: &Path, took: Duration, caller: &Location<'_>) {
    event!(warn, pool = %pool.display(), ?took, caller = %caller, "slow transaction");
}
