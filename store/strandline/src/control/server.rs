//! The thread that listens for requests, and those that answer them.

use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Refusal, Request, socket_path};
use crate::Database;
use crate::database::tables::Tables;
use crate::store::WeakStore;
use crate::store::shared::Guest;
use crate::value::transaction::Control;
use strandline_core::error::{Error, Result};
use strandline_core::memory::Native;

/// Number of requests that are answered at a time.
const MOST_AT_ONCE: usize = 16;
/// Number of names that are tried for the folder in which the socket is created.
const MOST_FOLDERS: u32 = 100;
/// The longest request, in bytes.
const LONGEST_REQUEST: u64 = 1 << 20;
/// The time for which a thread waits for the other side, before it checks whether the database is to be closed.
const PATIENCE: Duration = Duration::from_millis(100);
/// The number of times that a thread waits for a request.
const WAITS_FOR_REQUEST: u32 = 100;
/// The number of times that a thread waits for a client that does not read on. Together these are ten minutes.
const WAITS_FOR_READER: u32 = 6000;

impl<C: Control<Memory = Native> + Send + 'static> Database<C> {
    /// Answers requests of other processes from now on: `strandline pool info`, `list`, `get`, `range`, `dump`, `backup`, `checkpoint` and
    /// `statistics` work on the database while this program has it open. They arrive on a Unix socket beside the pool, with `.control` appended to
    /// its name. Only processes of the same user can connect to it.
    ///
    /// Answers read at a snapshot, so no writer waits for them. Closing the database, or dropping its last handle, ends answers that are in progress,
    /// but waits for a backup. If the database is served already, this does nothing.
    ///
    /// ```no_run
    /// # use strandline::Database;
    /// let db = Database::open("orders.db")?;
    /// db.serve_control()?;
    /// // Meanwhile, elsewhere: strandline pool get orders.db people 7
    /// # Ok::<(), strandline::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the socket cannot be created: the folder cannot be written, the name is taken, or the path is longer than the hundred or
    /// so bytes that the system allows. Returns [`Error::ReadOnly`] if the database was opened for reading only, as other processes can do too,
    /// [`Error::Unsupported`] if it is in memory, [`Error::Nested`] inside a transaction, [`Error::Parameter`] inside one of another database,
    /// [`Error::Closed`] and [`Error::Forked`].
    pub fn serve_control(&self) -> Result<()> {
        self.store().admit(|pool| {
            if pool.is_read_only() {
                return Err(Error::ReadOnly);
            }
            if !pool.path().exists() {
                return Err(Error::Unsupported("a control socket of a database in memory".into()));
            }
            let failed = |error| Error::io("make the control socket", error);
            let path = socket_path(pool.path());
            let listener = bind(&path).map_err(failed)?;
            let (own, source) = (listener.try_clone().map_err(failed)?, Arc::new(self.store().downgrade()));
            let state = Arc::<State>::default();
            state.lock().socket = Some(Socket { path, listener });
            // If there is no thread for it, this is dropped, which removes the socket.
            let server = Server { state: state.clone(), process: std::process::id() };
            let listen = move || listen(&own, &source, &state);
            Builder::new().name("strandline-control".into()).spawn(listen).map_err(failed)?;
            Ok(Box::new(server))
        })
    }
}

/// Creates the socket. It gets its name only when no other user can connect to it.
fn bind(path: &Path) -> io::Result<UnixListener> {
    // An existing socket is from a killed process, since no other process has the pool open. Anything else with this name is left there.
    match fs::symlink_metadata(path) {
        Ok(about) if about.file_type().is_socket() => fs::remove_file(path)?,
        Ok(_) => return Err(ErrorKind::AlreadyExists.into()),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    for number in 0..MOST_FOLDERS {
        let mut folder = path.as_os_str().to_owned();
        folder.push(format!("-{}-{number}", std::process::id()));
        let folder = PathBuf::from(folder);
        match DirBuilder::new().mode(0o700).create(&folder) {
            // A process with the same process number was killed here.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => continue,
            made => made?,
        }
        let made = bind_in(&folder, path);
        let _ = fs::remove_dir(&folder);
        return made;
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Creates the socket in a folder that other users cannot enter, and moves it to `path`.
fn bind_in(folder: &Path, path: &Path) -> io::Result<UnixListener> {
    let hidden = folder.join("s");
    let listener = UnixListener::bind(&hidden)?;
    let moved = fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&hidden, path));
    if moved.is_err() {
        let _ = fs::remove_file(&hidden);
    }
    moved.map(|()| listener)
}

/// The state that a server's threads share.
#[derive(Default)]
struct State {
    now: Mutex<Now>,
    /// Notified when an answer ends.
    ended: Condvar,
}

#[derive(Default)]
struct Now {
    socket: Option<Socket>,
    /// Number of answers in progress.
    answers: usize,
    /// Number of threads that want no answer to be in progress.
    pauses: usize,
    is_over: bool,
}

struct Socket {
    path: PathBuf,
    listener: UnixListener,
}

impl State {
    fn lock(&self) -> MutexGuard<'_, Now> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_paused(&self) -> bool {
        let now = self.lock();
        now.pauses > 0 || now.is_over
    }

    /// Begins an answer.
    ///
    /// # Errors
    /// Returns the reason why no answer may begin.
    fn begin(&self) -> std::result::Result<Answer<'_>, String> {
        let mut now = self.lock();
        if now.pauses > 0 || now.is_over {
            return Err(closing().to_string());
        }
        if now.answers == MOST_AT_ONCE {
            return Err(format!("{MOST_AT_ONCE} requests are being answered; ask again later"));
        }
        now.answers += 1;
        Ok(Answer(self))
    }
}

/// An answer in progress.
struct Answer<'s>(&'s State);

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        self.0.lock().answers -= 1;
        self.0.ended.notify_all();
    }
}

/// The server, which the pool owns as a guest.
struct Server {
    state: Arc<State>,
    /// The process that listens. In a child of `fork`, the server's state is the parent's, and perhaps locked forever.
    process: u32,
}

impl Guest for Server {
    fn pause(&self) {
        let mut now = self.state.lock();
        now.pauses += 1;
        while now.answers > 0 {
            now = self.state.ended.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn resume(&self) {
        self.state.lock().pauses -= 1;
    }

    fn end(&self) {
        if self.process != std::process::id() {
            return;
        }
        let mut now = self.state.lock();
        now.is_over = true;
        let Some(Socket { path, listener }) = now.socket.take() else { return };
        let _ = fs::remove_file(path);
        // On Linux this wakes the thread that listens; elsewhere that thread sleeps on.
        let _ = UnixStream::from(OwnedFd::from(listener)).shutdown(Shutdown::Both);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// The database from which answers come.
type Source<C> = WeakStore<Tables<'static>, C>;

fn listen<C: Control<Memory = Native> + Send + 'static>(
    listener: &UnixListener,
    source: &Arc<Source<C>>,
    state: &Arc<State>,
) {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(_) if state.lock().is_over => return,
            // The error may pass, such as too many open files.
            Err(_) => {
                std::thread::sleep(PATIENCE);
                continue;
            }
        };
        if state.lock().is_over {
            return;
        }
        let (source, state) = (source.clone(), state.clone());
        // If the system cannot start a thread, the client finds the connection closed.
        let _ = Builder::new().name("strandline-answer".into()).spawn(move || {
            // If the client is gone, nobody waits for the rest.
            let _ = serve(&stream, &source, &state);
        });
    }
}

/// A connection. Its transfers end when the database is to be closed, however slow the other side is.
struct Connection<'s> {
    stream: &'s UnixStream,
    state: &'s State,
}

impl Connection<'_> {
    /// Repeats a transfer up to `waits` times while the other side is not ready.
    fn patiently<T>(
        &self,
        waits: u32,
        mut transfer: impl FnMut(&UnixStream) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut waited = 0;
        loop {
            match transfer(self.stream) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
                        && waited < waits =>
                {
                    if self.state.is_paused() {
                        return Err(closing());
                    }
                    waited += 1;
                }
                done => return done,
            }
        }
    }
}

impl Read for Connection<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.patiently(WAITS_FOR_REQUEST, |mut stream| stream.read(into))
    }
}

impl Write for Connection<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.patiently(WAITS_FOR_READER, |mut stream| stream.write(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn closing() -> io::Error {
    io::Error::other("the program has begun to close the database; if it could not, ask again")
}

/// Reads a request, and answers it.
fn serve<C: Control<Memory = Native>>(
    stream: &UnixStream,
    source: &Source<C>,
    state: &State,
) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut request = String::new();
    BufReader::new(Connection { stream, state }.take(LONGEST_REQUEST)).read_line(&mut request)?;
    let mut out = BufWriter::new(Connection { stream, state });
    // This is sent immediately, so that the other side knows that its request has arrived.
    writeln!(out, "{}", json!({"begin": true}))?;
    out.flush()?;
    let last = match answer(&request, source, state, &mut out) {
        Ok(()) => json!({"end": true}),
        Err(Refusal { message, kind }) => json!({"error": message, "kind": kind}),
    };
    writeln!(out, "{last}")?;
    out.flush()
}

fn answer<C: Control<Memory = Native>>(
    request: &str,
    source: &Source<C>,
    state: &State,
    out: &mut impl Write,
) -> std::result::Result<(), Refusal> {
    if request.len() as u64 == LONGEST_REQUEST {
        return Err(Refusal::of(format!("the request is longer than {LONGEST_REQUEST} bytes")));
    }
    let request: Request = serde_json::from_str(request)
        .map_err(|error| Refusal::of(format!("cannot understand the request: {error}")))?;
    let _answer = state.begin().map_err(Refusal::of)?;
    // The store is dropped before the answer ends, because a close that waits for that then closes the database.
    let store = source.upgrade().ok_or_else(|| Refusal::of(closing().to_string()))?;
    let db = Database::from(store);
    let mut failed = None;
    let put = |line: Value| match writeln!(out, "{line}") {
        Ok(()) if !state.is_paused() => Ok(()),
        done => {
            failed = Some(done.err().unwrap_or_else(closing));
            Err(Error::Aborted)
        }
    };
    db.answer(&request, put).map_err(|error| match failed {
        Some(failed) => Refusal::of(failed.to_string()),
        None => Refusal { message: format!("{error:#}"), kind: Some(format!("{:?}", error.kind())) },
    })
}
