//! What the command prints.

use std::io::{ErrorKind, Write, stdout};
use std::sync::Mutex;

use serde::Serialize;

use crate::Failure;

/// The number of the form of all JSON that the command prints or writes. It rises when a field goes or means something else; fields may be
/// added without.
pub const SCHEMA: u32 = 1;

/// A row, or an object, with the number of its form before its own fields.
#[derive(Serialize)]
pub struct Numbered<T> {
    schema: u32,
    #[serde(flatten)]
    row: T,
}

impl<T> Numbered<T> {
    /// With it.
    pub fn new(row: T) -> Self {
        Self { schema: SCHEMA, row }
    }
}

/// Why standard output could not be written to, the first time.
static FAILED: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// Prints a line. That a reader has gone away (`| head`) is no failure; any other is kept for [`finish`].
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::note(std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*))))
    };
}

/// Keeps why it failed, unless the reader has gone away.
pub fn note(written: std::io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let mut failed = FAILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        failed.get_or_insert(error);
    }
}

/// Writes what is still buffered.
///
/// # Errors
/// Returns an error if something could not be written: a disk is full.
pub fn finish() -> Result<(), Failure> {
    note(stdout().flush());
    let failed = FAILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    failed.map_or(Ok(()), |error| Err(Failure::io("write to standard output")(error)))
}
