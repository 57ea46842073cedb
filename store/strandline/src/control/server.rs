//! The thread that listens, and those that answer.

use std::fs::{self, DirBuilder};
use std::io::{self, BufRead, BufReader, BufWriter, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use serde_json::{Value, json};

use super::{Request, socket_path};
use crate::Database;
use crate::database::tables::Tables;
use crate::store::WeakStore;
use crate::store::shared::Guest;
use crate::value::transaction::Control;
use strandline_core::error::{Error, Result};
use strandline_core::memory::Native;

/// Requests that are answered at a time.
const MOST_AT_ONCE: usize = 16;
/// The longest request, in bytes.
const LONGEST_REQUEST: u64 = 1 << 20;
/// How long a thread waits for the other side before it looks whether the database is to be closed.
const PATIENCE: Duration = Duration::from_millis(100);

impl<C: Control<Memory = Native> + Send + 'static> Database<C> {
    /// Answers requests of other processes from now on: `strandline pool info`, `list`, `get`, `range`, `dump`, `backup`, `checkpoint` and `statistics` work
    /// on the database while this program has it open. They arrive by a Unix socket beside the pool, `.control` appended to its name. Only
    /// processes of this one's user can reach it.
    ///
    /// Reading is at a snapshot, and keeps nobody from writing. Closing the database ends answers that are under way. If it is called again, nothing happens.
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
    /// The socket cannot be made: the folder cannot be written, or the path is longer than the some hundred bytes that the system allows for one;
    /// [`Error::ReadOnly`]: the database was opened for reading only, which other processes can do as well; [`Error::Closed`].
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
            // Dropped if there is no thread for it, which removes the socket.
            let server = Server { state: state.clone() };
            let listen = move || listen(&own, &source, &state);
            Builder::new().name("strandline-control".into()).spawn(listen).map_err(failed)?;
            Ok(Box::new(server))
        })
    }
}

/// Makes the socket. It gets its name when only this process's user can reach it.
fn bind(path: &Path) -> io::Result<UnixListener> {
    // A process that was killed has left it; no other has the pool open.
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut folder = path.as_os_str().to_owned();
    folder.push("-new");
    let folder = PathBuf::from(folder);
    let _ = fs::remove_dir_all(&folder);
    DirBuilder::new().mode(0o700).create(&folder)?;
    let made = make(&folder, path);
    let _ = fs::remove_dir_all(&folder);
    made
}

fn make(folder: &Path, path: &Path) -> io::Result<UnixListener> {
    use std::os::unix::fs::PermissionsExt;
    let hidden = folder.join("s");
    let listener = UnixListener::bind(&hidden)?;
    fs::set_permissions(&hidden, fs::Permissions::from_mode(0o600))?;
    fs::rename(&hidden, path)?;
    Ok(listener)
}

/// What the threads of a server share.
#[derive(Default)]
struct State {
    now: Mutex<Now>,
    /// Notified when an answer ends.
    ended: Condvar,
}

#[derive(Default)]
struct Now {
    socket: Option<Socket>,
    /// Answers under way.
    answers: usize,
    /// How many want that none be.
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

    /// Begins an answer, if one may begin.
    fn begin(&self) -> Option<Answer<'_>> {
        let mut now = self.lock();
        if now.pauses > 0 || now.is_over || now.answers == MOST_AT_ONCE {
            return None;
        }
        now.answers += 1;
        Some(Answer(self))
    }
}

/// An answer under way.
struct Answer<'s>(&'s State);

impl Drop for Answer<'_> {
    fn drop(&mut self) {
        self.0.lock().answers -= 1;
        self.0.ended.notify_all();
    }
}

/// The server, as the pool knows it.
struct Server {
    state: Arc<State>,
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
        let mut now = self.state.lock();
        now.is_over = true;
        let Some(Socket { path, listener }) = now.socket.take() else { return };
        let _ = fs::remove_file(path);
        // Wakes the thread that listens, on Linux; elsewhere it sleeps on.
        let _ = UnixStream::from(OwnedFd::from(listener)).shutdown(Shutdown::Both);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Where answers come from.
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
            // Such as too many open files, which may pass.
            Err(_) => {
                std::thread::sleep(PATIENCE);
                continue;
            }
        };
        if state.lock().is_over {
            return;
        }
        let (source, state) = (source.clone(), state.clone());
        // Where the system has no thread left, whoever asks finds the connection closed.
        let _ = Builder::new().name("strandline-answer".into()).spawn(move || {
            // The other side may be gone, and then nobody waits for more.
            let _ = serve(&stream, &source, &state);
        });
    }
}

/// A connection, which gives up when the database is to be closed, however slow the other side is.
struct Connection<'s> {
    stream: &'s UnixStream,
    state: &'s State,
}

impl Connection<'_> {
    fn patiently<T>(&self, mut transfer: impl FnMut(&UnixStream) -> io::Result<T>) -> io::Result<T> {
        loop {
            match transfer(self.stream) {
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if self.state.is_paused() {
                        return Err(closing());
                    }
                }
                done => return done,
            }
        }
    }
}

impl Read for Connection<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.patiently(|mut stream| stream.read(into))
    }
}

impl Write for Connection<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.patiently(|mut stream| stream.write(from))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn closing() -> io::Error {
    io::Error::other("the database is being closed")
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
    let last = match answer(&request, source, state, &mut out) {
        Ok(()) => json!({"end": true}),
        Err(why) => json!({"error": why}),
    };
    writeln!(out, "{last}")?;
    out.flush()
}

fn answer<C: Control<Memory = Native>>(
    request: &str,
    source: &Source<C>,
    state: &State,
    out: &mut impl Write,
) -> std::result::Result<(), String> {
    let request: Request = serde_json::from_str(request).map_err(|error| format!("no request: {error}"))?;
    let _answer =
        state.begin().ok_or("the database is being closed, or too many requests are being answered")?;
    // Dropped before the answer ends: whoever waits for that closes the database.
    let store = source.upgrade().ok_or("the database was closed")?;
    let db = Database::from(store);
    let mut failed = None;
    let put = |line: Value| match writeln!(out, "{line}") {
        Ok(()) if !state.is_paused() => Ok(()),
        done => {
            failed = Some(done.err().unwrap_or_else(closing));
            Err(Error::Aborted)
        }
    };
    db.answer(&request, put)
        .map_err(|error| failed.map_or_else(|| format!("{error:#}"), |error| error.to_string()))
}
