//! Asks a program that has a database open.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde_json::Value;

use super::{Request, socket_path};

/// Asks the program that has the database at `pool` open; `line` runs for each object of the answer, in order. An error that it returns ends
/// the answer.
///
/// ```
/// # use strandline::*;
/// use strandline::control::{Request, ask};
///
/// # let path = example::path();
/// let db = Database::open(&path)?;
/// db.serve_control()?;
/// // In another process:
/// ask(&path, &Request::Statistics, |line| {
///     assert_eq!(line["conflicts"], 0);
///     Ok(())
/// })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`NotFound`](io::ErrorKind::NotFound) or [`ConnectionRefused`](io::ErrorKind::ConnectionRefused): no program answers requests to it; what `line`
/// returns; what the program could not do is an error of the kind [`Other`](io::ErrorKind::Other) with its message.
pub fn ask(pool: &Path, request: &Request, mut line: impl FnMut(Value) -> io::Result<()>) -> io::Result<()> {
    // The socket lies beside the pool itself, and not beside a link to it.
    let pool = pool.canonicalize()?;
    let mut stream = UnixStream::connect(socket_path(&pool))?;
    writeln!(stream, "{}", serde_json::to_string(request)?)?;
    for answer in BufReader::new(stream).lines() {
        let answer: Value = serde_json::from_str(&answer?)?;
        if answer.get("end").is_some() {
            return Ok(());
        }
        if let Some(error) = answer.get("error").and_then(Value::as_str) {
            return Err(io::Error::other(error.to_owned()));
        }
        line(answer)?;
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the program ended before its answer did"))
}
