//! Sends requests to a program that has a database open.

use std::fmt;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::{Request, socket_path};

/// The longest time that a program may take until it begins to answer.
const MOST_TO_BEGIN: Duration = Duration::from_secs(10);

/// Sends a request to the program that has the database at `pool` open, and calls `line` with each object of the answer, in order. If `line` returns
/// an error, the answer ends.
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
/// Returns [`NotFound`](io::ErrorKind::NotFound) or [`ConnectionRefused`](io::ErrorKind::ConnectionRefused) if no program answers requests,
/// [`TimedOut`](io::ErrorKind::TimedOut) if the program does not begin to answer, perhaps because it is stopped, the errors of `line`, and a
/// [`Refusal`] in an error of the kind [`Other`](io::ErrorKind::Other).
pub fn ask(pool: &Path, request: &Request, mut line: impl FnMut(Value) -> io::Result<()>) -> io::Result<()> {
    // The socket is beside the pool itself, not beside a link to it.
    let pool = pool.canonicalize()?;
    let mut stream = UnixStream::connect(socket_path(&pool))?;
    stream.set_read_timeout(Some(MOST_TO_BEGIN))?;
    // If the program refuses the request, it does not read all of it, and answers with the reason.
    let _ = writeln!(stream, "{}", serde_json::to_string(request)?);
    let mut has_begun = false;
    for object in BufReader::new(&stream).lines() {
        let object = match object {
            Err(error) if !has_begun && error.kind() == ErrorKind::WouldBlock => {
                return Err(ErrorKind::TimedOut.into());
            }
            object => serde_json::from_str::<Value>(&object?)?,
        };
        if object.get("begin").is_some() {
            has_begun = true;
            stream.set_read_timeout(None)?;
        } else if object.get("end").is_some() {
            return Ok(());
        } else if let Some(message) = object.get("error").and_then(Value::as_str) {
            let kind = object.get("kind").and_then(Value::as_str).map(str::to_owned);
            return Err(io::Error::other(Refusal { message: message.to_owned(), kind }));
        } else {
            line(object)?;
        }
    }
    Err(io::Error::new(ErrorKind::UnexpectedEof, "the program ended before its answer did"))
}

/// The reason why a program did not answer a request, or not completely.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refusal {
    /// A description of the error.
    pub message: String,
    /// The name of the [`ErrorKind`](crate::ErrorKind), if the database returned an error.
    pub kind: Option<String>,
}

impl Refusal {
    pub(super) fn of(message: String) -> Self {
        Self { message, kind: None }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refusal {}
