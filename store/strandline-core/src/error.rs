//! What can go wrong, and what to do about it.

use std::fmt;
use std::path::{Path, PathBuf};

mod moved;
#[cfg(test)]
mod tests;

pub use moved::compare_moved;

/// The result of an operation of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Declares [`Error`] and [`ErrorKind`]. Behind each variant is its message, in which its fields have their names.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident
        $({ $($(#[$field_doc:meta])* $field:ident: $field_type:ty,)* })?
        $(($inner:ident: $inner_type:ty))?
        => $text:literal $(, $shown:ident = $by:expr)*;)*
    ) => {
        /// Why an operation failed. A transaction that fails has changed nothing, except with [`Error::Poisoned`]: then its outcome is unknown.
        ///
        /// `{}` prints the failure without its cause, which [`source`](std::error::Error::source) returns: reporters that print a chain, such as
        /// `anyhow`'s, print each cause once. The alternate form `{:#}` prints the failure and its causes in one line.
        ///
        /// ```
        /// # use strandline_core::{self as strandline, Pool as Database};
        /// # let (path, options) = strandline_core::example::path_and_options();
        /// use strandline::Error;
        ///
        /// match Database::open(&path, &options) {
        ///     Ok(db) => println!("{} replayed", db.recovery().replayed()),
        ///     Err(Error::WrongDomain { wrote, .. }) => println!("open it under {wrote} first"),
        ///     // `{error}` is the failure alone; the alternate form adds its causes.
        ///     Err(error) => println!("{error:#}"),
        /// }
        /// # Ok::<(), strandline_core::Error>(())
        /// ```
        #[derive(Debug)]
        #[non_exhaustive]
        pub enum Error {
            $($(#[$doc])* $name $({ $($(#[$field_doc])* $field: $field_type,)* })? $(($inner_type))?,)*
        }

        impl fmt::Display for Error {
            // Not every field is in the text.
            #[allow(unused_variables)]
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$name $({ $($field),* })? $(($inner))? => write!(f, $text $(, $shown = $by)*),)*
                }?;
                if f.alternate() { self.fmt_causes(f) } else { Ok(()) }
            }
        }

        /// The kind of an [`Error`], without its details.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum ErrorKind {
            $(#[doc = concat!("[`Error::", stringify!($name), "`].")] $name,)*
        }

        impl ErrorKind {
            /// All kinds of this version: for a test of a table that has an entry for each kind.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }

        impl Error {
            /// The kind of this error.
            ///
            /// ```
            /// # use strandline_core as strandline;
            /// use strandline::{Error, ErrorKind};
            ///
            /// assert_eq!(Error::Full { bytes: 8 }.kind(), ErrorKind::Full);
            /// ```
            pub fn kind(&self) -> ErrorKind {
                match self {
                    $(Self::$name { .. } => ErrorKind::$name,)*
                }
            }
        }
    };
}

errors! {
    /// A system call failed.
    #[non_exhaustive]
    Io {
        /// What was attempted, as a verb and its object.
        what: String,
        /// What the operating system answered.
        source: std::io::Error,
    } => "cannot {what}";
    /// A parameter makes no sense.
    Parameter(what: String) => "{what}";
    /// The file does not begin with a pool's magic number.
    #[non_exhaustive]
    NotAPool {
        /// The file's path.
        path: PathBuf,
    } => "{path} is not a Strandline pool: it does not begin with the pool magic; check the path, or create a pool elsewhere", path = path.display();
    /// The pool was written in a later format, or with a feature that this library does not know and that must be known.
    #[non_exhaustive]
    NewerFormat {
        /// The path of the pool's file.
        path: PathBuf,
        /// The pool's format version, or its features.
        found: String,
        /// The latest version, or the features, that this library knows.
        supported: String,
    } => "the pool {path} has {found}, this library knows {supported}; open it with a newer Strandline", path = path.display();
    /// The pool was written in a format that is no longer read.
    #[non_exhaustive]
    OlderFormat {
        /// The path of the pool's file.
        path: PathBuf,
        /// The pool's format version.
        found: u64,
        /// The oldest version that this library reads.
        supported: u64,
    } => "the pool {path} has format version {found}, this library reads version {supported} and later; read its data with the Strandline that wrote it, and put them into a new pool", path = path.display();
    /// The header's checksum does not match.
    #[non_exhaustive]
    DamagedHeader {
        /// The path of the pool's file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    } => "the header of the pool {path} is damaged ({problem}); restore the pool from a backup", path = path.display();
    /// The pool's file has several names, each of which would lead to a log of its own.
    #[non_exhaustive]
    SeveralLinks {
        /// The path of the pool's file.
        path: PathBuf,
        /// The names that it has.
        links: u64,
    } => "the pool {path} has {links} hard links; its log is found by its name, so that it must have one name only: remove the others (`find -samefile` finds them; a repair that was cut short leaves one that ends in `.damaged`, and a restore one that ends in `.replaced`: run `strandline pool restore` again)", path = path.display();
    /// The file is shorter than its header says.
    #[non_exhaustive]
    Truncated {
        /// The path of the pool's file.
        path: PathBuf,
        /// The size that header and heap ask for.
        expected: u64,
        /// The size that the file has.
        found: u64,
    } => "the pool {path} has {found} bytes and should have {expected}: it was truncated; restore it from a backup", path = path.display();
    /// A log, a table or a structure contradicts itself.
    #[non_exhaustive]
    Damaged {
        /// The pool's file, where it is known.
        path: Option<PathBuf>,
        /// What is wrong, and where.
        problem: String,
    } => "{path} is damaged: {problem}; restore it from a backup", path = the_pool(path);
    /// A repair would lose something, or something is lost already.
    #[non_exhaustive]
    Irreparable {
        /// The pool's file, where it is known.
        path: Option<PathBuf>,
        /// What would be lost, or is lost.
        problem: String,
    } => "{path} cannot be repaired and is as it was: {problem}; restore it from a backup", path = the_pool(path);
    /// A root word that holds 0 where a structure was expected.
    Missing {
        /// The structure asked for.
        what: &'static str,
        /// Offset of the root word.
        root: u64,
    } => "no {what} hangs from the root at {root:#x}; create it first";
    /// A root word that holds something else.
    WrongStructure {
        /// The structure asked for.
        what: &'static str,
        /// Offset of the root word.
        root: u64,
    } => "what hangs from the root at {root:#x} is not {what} of these types and sizes; use another root, or open it as what it is";
    /// The creation of a structure was cut short.
    Incomplete {
        /// The structure asked for.
        what: &'static str,
        /// Offset of the root word.
        root: u64,
    } => "{what} at the root at {root:#x} was never created completely; create it again, which goes on where it ended";
    /// Another process or handle has the pool open.
    #[non_exhaustive]
    Locked {
        /// The pool's file, or its log's.
        path: PathBuf,
        /// How it is held: reading or writing.
        held: &'static str,
        /// Who holds it, in words, where the system tells.
        by: Option<String>,
    } => "{path} is in use: it is open for {held} in {by}; close it there first", path = path.display(), by = by.as_deref().unwrap_or("another process, or elsewhere in this one");
    /// The pool holds something else.
    #[non_exhaustive]
    WrongLayout {
        /// The path of the pool's file.
        path: PathBuf,
        /// The name asked for.
        expected: String,
        /// The name in the header.
        found: String,
    } => "the layout of the pool {path} is named {found:?}, not {expected:?}: it belongs to another program", path = path.display();
    /// The pool was not closed, and what its last writes mean depends on the domain.
    #[non_exhaustive]
    WrongDomain {
        /// The path of the pool's file.
        path: PathBuf,
        /// The domain that wrote it.
        wrote: String,
        /// The domain asked for.
        asked: String,
    } => "the pool {path} was not closed cleanly and was written under domain {wrote}; open it once under {wrote} to recover it (asked: {asked})", path = path.display();
    /// The pool was used without persistence and not closed afterwards.
    Unprotected {
        /// The pool's file, where it was opened.
        path: Option<PathBuf>,
    } => "{path} was used without persistence (scheme np or volatile) and not closed cleanly: what it holds is undefined; restore it from a backup, or create it anew", path = the_pool(path);
    /// `Flush` and `FlushOnFail` need memory that is persistent.
    #[non_exhaustive]
    NotPersistentMemory {
        /// The pool's file, where it was opened.
        path: Option<PathBuf>,
    } => "{path} is not on persistent memory (MAP_SYNC refused); use the Sync domain on an ordinary file system", path = the_pool(path);
    /// The log file that belongs to a `Sync` pool is absent, another pool's, or an older one of this pool.
    #[non_exhaustive]
    LogFile {
        /// Where it should be.
        path: String,
        /// What is wrong with it.
        problem: String,
        /// The advice that the message ends with, without a full stop.
        advice: String,
    } => "the log file {path} {problem}; {advice}";
    /// The file of checksums beside a pool is damaged, another's, or would become wrong.
    #[non_exhaustive]
    ChecksumFile {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    } => "the checksum file {path} {problem}; the pool can do without it: delete it, and `strandline pool checksum` makes another from what the pool holds", path = path.display();
    /// The processor has no such instruction.
    UnsupportedInstruction(what: &'static str) => "this processor has no {what}; choose another write-back instruction or the Sync domain";
    /// The domain is for persistent memory on x86-64; see [`Domain::is_supported`](crate::Domain::is_supported).
    UnsupportedDomain(name: &'static str) => "the domain {name} is for x86-64 processors, on which alone its order of stores is checked; use the Sync domain, or Process where a power failure may take everything";
    /// [`Options::protect`](crate::Options::protect) needs a memory protection key.
    #[non_exhaustive]
    NoProtectionKey {
        /// What the operating system answered.
        source: std::io::Error,
    } => "open the pool without `protect`: this system gives it no memory protection key, because it has none or because all 15 are taken";
    /// The combination does not exist.
    Unsupported(what: String) => "{what} is not possible in this domain";
    /// The logs of the pool are of a scheme that this program does not know.
    #[non_exhaustive]
    OtherScheme {
        /// The pool's file, where it is known.
        path: Option<PathBuf>,
        /// The scheme's number in the pool's state word.
        code: u64,
    } => "{path} was left by another scheme than bppm (number {code} in its state word), which this program does not have; `strandline-lab pool recover FILE` recovers and closes it, and then every program can open it", path = the_pool(path);
    /// No room for an allocation.
    Full {
        /// Bytes that were asked for.
        bytes: u64,
    } => "the pool is full: no room for {bytes} bytes; free something, create a larger pool, or open it with more address space if that is limited";
    /// A transaction under one of the laboratory's schemes wrote more than a whole log holds.
    #[doc(hidden)]
    TransactionTooLarge {
        /// Records that the log holds.
        records: u64,
    } => "the transaction is larger than its log of {records} records; split it or create the pool with larger logs";
    /// A write to a word that none of the locks declared by its transaction protects, in the laboratory's concurrency control with locks.
    #[doc(hidden)]
    OutsideLockSet(address: u64) => "the transaction writes address {address:#x}, which its lock set does not cover; declare a lock for it, or declare none and let them be found";
    /// Every log is leased.
    NoFreeLog {
        /// Logs that the pool has.
        logs: u64,
    } => "all {logs} logs of the pool are in use; drop a worker or create the pool with more logs";
    /// As many snapshots exist as can be.
    TooManySnapshots {
        /// Snapshots that can exist at a time.
        most: u64,
    } => "there are {most} snapshots, and no more can be; drop one";
    /// A snapshot was ended, because the old versions that it needed took more memory than they may.
    #[non_exhaustive]
    SnapshotEnded {
        /// Bytes that old versions may take.
        bytes: u64,
    } => "the snapshot was ended: what transactions have changed since it began takes more than {bytes} bytes; begin another, or open the pool with larger Options::snapshot_bytes";
    /// A transaction within a transaction of the same pool, by the same thread.
    Nested => "this thread is in a transaction of the same pool, for whose end this would have to wait; do it after the closure has returned, or hand the closure's transaction on to what is to be a part of it";
    /// Inside a transaction of one pool something of another pool would have been waited for, and would not have come, or not soon: other threads
    /// that use the other pool wait for the transaction. The transaction may return this error and run again.
    ///
    /// If one thread updates pool B inside a transaction of pool A, and another thread A inside B, each may hold what the other one waits for: one of them
    /// gets this error, and the other goes on. Its closures return it, so that they roll back, and the outermost transaction runs again. An inner transaction
    /// that has returned is committed, whatever becomes of the outer one. Everything that waits for a lock inside a transaction of another pool may return it:
    /// transactions, snapshots, checkpoints, backups, and waiting for a log.
    ///
    /// The search for deadlocks does not know which lock a thread waits for, so threads that nest pools in opposite orders may get the error although both
    /// would have gone on. Threads that nest them in the same order never get it, nor do transactions that have changed nothing yet make others wait.
    #[non_exhaustive]
    Deadlock {
        /// The pool of the transaction that others wait for.
        held: PathBuf,
        /// The other pool.
        awaited: PathBuf,
    } => "deadlock: inside a transaction of {held} this thread waits for {awaited}, and threads that use that one wait for the transaction; begin transactions of several pools in the same order everywhere, or run the outermost one again", held = held.display(), awaited = awaited.display();
    /// The pool was opened by the process that this one was forked from.
    Forked => "the pool was opened by the process that this one was forked from, and only that one can use it; open it after the fork, in the process that is to use it";
    /// The database or store was closed, by this handle of it or another.
    Closed => "the database was closed; open it again to use it";
    /// A database or store was to be closed of which sessions or snapshots exist. It stays open.
    InUse {
        /// Snapshots and sessions that exist.
        users: u64,
    } => "the database cannot be closed: {users} of its snapshots or sessions exist; drop them, and close it again";
    /// An address that no allocation or root has.
    InvalidAddress(address: u64) => "address {address:#x} is not an aligned word of the pool's heap";
    /// A free of something that is not allocated there.
    InvalidFree(address: u64) => "nothing is allocated at {address:#x}: it was freed twice or never allocated";
    /// A pointer whose value is not there.
    Dangling {
        /// Where the pointer points.
        at: u64,
        /// The type that was expected.
        expected: &'static str,
    } => "no value of type {expected} is at {at:#x}: it was freed, or another type's is there";
    /// The root of a store is of another type.
    RootLayout {
        /// The type in the pool.
        found: String,
        /// The type asked for.
        expected: String,
        /// What differs, by type and field, a line each.
        differences: String,
    } => "the pool's root is {found}; this program expects {expected}: open it with a migration from that type{differences}";
    /// A table is not there, or was deleted after it had been opened.
    NoTable {
        /// The table's name.
        name: String,
    } => "there is no table `{name}`, or it was deleted after it had been opened";
    /// A table holds other types than those it is opened with.
    TableTypes {
        /// The table's name.
        table: String,
        /// What differs, by type and field.
        differences: String,
    } => "the table `{table}` holds other types than this program expects:{differences}\nopen it with the types that it has, or under another name; `Database::migrate` makes them others";
    /// What an operation of a transaction returns when the transaction cannot go on: after a conflict it will run
    /// again, after an error its runner returns that error. Return it with `?`.
    Interrupted => "the transaction was interrupted; return this error from its closure";
    /// A write in a read-only transaction.
    ReadOnly => "a read-only transaction cannot write";
    /// The transaction's closure gave up; nothing happened.
    Aborted => "the transaction was aborted by its caller";
    /// A write or flush failed, now or earlier, so nothing can be promised any more: whether transactions that were not
    /// acknowledged survive is unknown until the pool is opened again.
    #[non_exhaustive]
    Poisoned {
        /// What failed, and the system's answer.
        why: String,
        /// The kind of the system's answer: [`StorageFull`](std::io::ErrorKind::StorageFull), for example.
        kind: std::io::ErrorKind,
    } => "the pool failed earlier ({why}); the outcome of unacknowledged transactions is unknown: close the pool, repair the device and open it again";
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } | Self::NoProtectionKey { source } => Some(source),
            _ => None,
        }
    }
}

/// The pool, by its file's name if that is known.
fn the_pool(path: &Option<PathBuf>) -> String {
    match path {
        Some(path) => format!("the pool {}", path.display()),
        None => "the pool".to_owned(),
    }
}

/// Why a pool is poisoned whose files somebody else took away.
pub(crate) const FILE_GONE: &str = "one of the pool's files was deleted or cut short while it was open";

impl Error {
    /// The error of somebody who opens the pool at `at`: it names the file.
    pub(crate) fn in_pool(self, at: &Path) -> Self {
        let shown = at.display().to_string();
        match self {
            Self::Io { what, source } if !what.contains(&shown) => {
                Self::Io { what: format!("{what} ({shown})"), source }
            }
            Self::Irreparable { path: None, problem } => {
                Self::Irreparable { path: Some(at.to_owned()), problem }
            }
            Self::Damaged { path: None, problem } => Self::Damaged { path: Some(at.to_owned()), problem },
            Self::Truncated { path, expected, found } if path.as_os_str().is_empty() => {
                Self::Truncated { path: at.to_owned(), expected, found }
            }
            Self::Unprotected { path: None } => Self::Unprotected { path: Some(at.to_owned()) },
            Self::OtherScheme { path: None, code } => Self::OtherScheme { path: Some(at.to_owned()), code },
            Self::NotPersistentMemory { path: None } => {
                Self::NotPersistentMemory { path: Some(at.to_owned()) }
            }
            other => other,
        }
    }

    /// Damage of which the pool is not known yet: `problem` says what is wrong, and where.
    ///
    /// ```
    /// # use strandline_core as strandline;
    /// use strandline::Error;
    ///
    /// let error = Error::damaged("the account 7 has no owner");
    /// assert_eq!(error.to_string(), "the pool is damaged: the account 7 has no owner; restore it from a backup");
    /// ```
    pub fn damaged(problem: impl Into<String>) -> Self {
        Self::Damaged { path: None, problem: problem.into() }
    }

    /// The file at `path` is held for `held` ("reading" or "writing") by `by`, in words, where the system tells.
    pub fn locked(path: impl Into<PathBuf>, held: &'static str, by: Option<String>) -> Self {
        Self::Locked { path: path.into(), held, by }
    }

    /// A repair would lose data, as `problem` says.
    pub(crate) fn irreparable(problem: impl Into<String>) -> Self {
        Self::Irreparable { path: None, problem: problem.into() }
    }

    /// Writes what the alternate form adds.
    fn fmt_causes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = std::error::Error::source(self);
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }

    /// The failure of a system call, or of the program's own reader or writer, while doing `what`: a verb and its object.
    ///
    /// ```
    /// # use strandline_core as strandline;
    /// use strandline::Error;
    ///
    /// let error = Error::io("read the list of books", std::io::ErrorKind::NotFound.into());
    /// assert_eq!(error.to_string(), "cannot read the list of books");
    /// assert_eq!(format!("{error:#}"), "cannot read the list of books: entity not found");
    /// ```
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        match source.downcast::<Self>() {
            // A reader of a value has handed it on.
            Ok(error) => error,
            Err(source) => Self::Io { what: what.into(), source },
        }
    }
}

/// Why a transaction cannot go on. Hand it up with `?`: a transaction that has met one will not commit.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// use strandline_core::{Abort, Error};
/// let pool = Pool::create(&path, &options)?;
/// let given_up: strandline_core::Result<()> = pool.worker()?.run(|tx| {
///     tx.write(tx.root(0), 5)?; // hands a conflict up
///     Err(Abort::User)
/// });
/// assert!(matches!(given_up, Err(Error::Aborted)));
/// assert_eq!(pool.worker()?.view(|tx| tx.read(tx.root(0)))?, 0);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Abort {
    /// Another transaction was in the way; this one will be run again.
    Conflict,
    /// The log is full; this transaction will be run again after bulk persistence.
    LogFull,
    /// The closure gave up.
    User,
    /// An error that a retry would not cure; the worker keeps it and returns it.
    Failed,
}
