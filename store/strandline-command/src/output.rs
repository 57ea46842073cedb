//! Prints the command's output.

use std::io::{ErrorKind, Write, stdout};
use std::sync::Mutex;

use serde::Serialize;

use crate::Failure;

/// The version of the format of all JSON that the command prints or writes. It rises when a field is removed or changes its meaning, but not when one
/// is added.
pub const SCHEMA: u32 = 1;

/// A row or an object that is printed with the format's version as its first field.
#[derive(Serialize)]
pub struct Numbered<T> {
    schema: u32,
    #[serde(flatten)]
    row: T,
}

impl<T> Numbered<T> {
    /// Adds the version to `row`.
    pub fn new(row: T) -> Self {
        Self { schema: SCHEMA, row }
    }
}

/// Prints rows as an array of JSON, each with the format's version.
///
/// # Errors
/// Returns an error if a row cannot be represented.
pub fn print_json(rows: &[impl Serialize]) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(&rows.iter().map(Numbered::new).collect::<Vec<_>>())
        .map_err(|error| Failure::Other(format!("cannot print the rows: {error}")))?;
    crate::say!("{text}");
    Ok(())
}

/// The first error of writing to standard output.
static FAILED: Mutex<Option<std::io::Error>> = Mutex::new(None);

/// Prints a line. [`note`] keeps an error for [`finish`].
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {
        $crate::output::note(std::io::Write::write_fmt(&mut std::io::stdout(), format_args!("{}\n", format_args!($($text)*))))
    };
}

/// Keeps the error for [`finish`], unless the reader has closed the pipe (`| head`).
pub fn note(written: std::io::Result<()>) {
    if let Err(error) = written
        && error.kind() != ErrorKind::BrokenPipe
    {
        let mut failed = FAILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        failed.get_or_insert(error);
    }
}

/// Flushes standard output.
///
/// # Errors
/// Returns the first error of writing, for example because a disk is full.
pub fn finish() -> Result<(), Failure> {
    note(stdout().flush());
    let failed = FAILED.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take();
    failed.map_or(Ok(()), |error| Err(Failure::io("write to standard output")(error)))
}
