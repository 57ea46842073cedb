//! Measures software schemes at the points of a figure, natively and on a simulated machine.

mod cell;
mod native;
mod simulated;

pub use cell::{ABORTS, BY_LINE, Cell, SIMULATED, THROUGHPUT};

use crate::error::Error;
use crate::measurements::Measurements;
use crate::session::Session;

#[cfg(test)]
pub(crate) use simulated::{machine_of, transactions};

/// Returns how many measurements these cells take, natively and simulated.
pub fn steps(figure: &str, cells: &[Cell], session: &Session) -> u64 {
    native::steps(figure, cells, session) + simulated::steps(figure, cells, session)
}

/// Measures the cells of a figure natively and on the simulated machine, as far as the session has them.
///
/// # Errors
/// Returns an error if the machine or a pool cannot be created, or if a transaction fails.
pub fn measure(
    session: &Session,
    figure: &str,
    cells: &[Cell],
    into: &mut Measurements,
) -> Result<(), Error> {
    simulated::measure(session, figure, cells, into)?;
    native::measure(session, figure, cells, into)
}
