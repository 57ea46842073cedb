//! Measuring software schemes at the points of a figure: natively, and on a simulated machine.

mod cell;
mod native;
mod simulated;

pub use cell::{ABORTS, BY_LINE, Cell, SIMULATED, THROUGHPUT};

use crate::error::Error;
use crate::measurements::Measurements;
use crate::session::Session;

#[cfg(test)]
pub(crate) use simulated::{machine_of, transactions};

/// How many measurements these cells take in both places.
pub fn steps(figure: &str, cells: &[Cell], session: &Session) -> u64 {
    native::steps(figure, cells, session) + simulated::steps(figure, cells, session)
}

/// Measures the cells of a figure in both places, as far as the session has them.
///
/// # Errors
/// The machine or a pool cannot be created; a transaction failed.
pub fn measure(
    session: &Session,
    figure: &str,
    cells: &[Cell],
    into: &mut Measurements,
) -> Result<(), Error> {
    simulated::measure(session, figure, cells, into)?;
    native::measure(session, figure, cells, into)
}
