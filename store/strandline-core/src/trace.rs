//! Spans and events for subscribers of the crate `tracing`. Without the feature `tracing` the macros do nothing.

use std::panic::Location;
use std::path::Path;
use std::time::Duration;

/// Enters a span, which ends with the enclosing scope.
#[cfg(feature = "tracing")]
macro_rules! span {
    ($($what:tt)*) => { let _span = tracing::info_span!(target: "strandline", $($what)*).entered(); };
}
#[cfg(not(feature = "tracing"))]
macro_rules! span {
    ($($what:tt)*) => {};
}
pub(crate) use span;

/// Emits an event.
#[cfg(feature = "tracing")]
macro_rules! event {
    ($level:ident, $($what:tt)*) => { tracing::$level!(target: "strandline", $($what)*) };
}
#[cfg(not(feature = "tracing"))]
macro_rules! event {
    ($level:ident, $($what:tt)*) => {};
}
pub(crate) use event;

/// Emits a warning: a call took longer for its transaction than the program expects.
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "no event is emitted"))]
pub(crate) fn slow_transaction(pool: &Path, took: Duration, caller: &Location<'_>) {
    event!(warn, pool = %pool.display(), ?took, caller = %caller, "slow transaction");
}
