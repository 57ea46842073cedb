//! What can go wrong, and what to do about it.

use std::path::{Path, PathBuf};

/// The result of an operation of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed. None of these changes what is stored.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// use strandline_core::Error;
///
/// match Pool::open(&path, &options) {
///     Ok(pool) => println!("{} replayed", pool.recovery().replayed()),
///     Err(Error::WrongDomain { wrote, .. }) => println!("open it under {wrote} first"),
///     Err(error) => println!("{error}"),
/// }
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A system call failed.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was attempted, as a verb and its object.
        what: String,
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// A parameter makes no sense.
    #[error("{0}")]
    Parameter(String),
    /// The file does not begin with a pool's magic number.
    #[error(
        "{path} is not a Strandline pool: it does not begin with the pool magic; check the path, or create a pool elsewhere"
    )]
    NotAPool {
        /// The file's path.
        path: PathBuf,
    },
    /// The pool was written in a later format, or with a feature that this library does not know and that must be known.
    #[error("the pool {path} has {found}, this library knows {supported}; open it with a newer Strandline")]
    NewerFormat {
        /// The path of the pool's file.
        path: PathBuf,
        /// The pool's format version, or its features.
        found: String,
        /// The latest version, or the features, that this library knows.
        supported: String,
    },
    /// The pool was written in a format that is no longer read.
    #[error(
        "the pool {path} has format version {found}, this library reads version {supported}; read its data with the Strandline that wrote it, and put them into a new pool"
    )]
    OlderFormat {
        /// The path of the pool's file.
        path: PathBuf,
        /// The pool's format version.
        found: u64,
        /// The version that this library reads.
        supported: u64,
    },
    /// The header's checksum does not match.
    #[error("the header of the pool {path} is damaged ({problem}); restore the pool from a backup")]
    DamagedHeader {
        /// The path of the pool's file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The pool's file has several names, each of which would lead to a log of its own.
    #[error(
        "the pool {path} has {links} hard links; its log is found by its name, so that it must have one name only: remove the others (`find -samefile` finds them; a repair that was cut short leaves one that ends in `.damaged`)"
    )]
    SeveralLinks {
        /// The path of the pool's file.
        path: PathBuf,
        /// The names that it has.
        links: u64,
    },
    /// The file is shorter than its header says.
    #[error(
        "the pool {path} has {found} bytes but its header says {expected}: it was truncated; restore it from a backup"
    )]
    Truncated {
        /// The path of the pool's file.
        path: PathBuf,
        /// The size that the header says.
        expected: u64,
        /// The size that the file has.
        found: u64,
    },
    /// A log, a table or a structure contradicts itself.
    #[error("the pool is damaged: {0}; restore it from a backup")]
    Damaged(String),
    /// A repair would lose something, or something is lost already.
    #[error("the pool cannot be repaired and is as it was: {0}; restore it from a backup")]
    Irreparable(String),
    /// A root word that holds 0 where a structure was expected.
    #[error("no {what} hangs from the root at {root:#x}; create it first")]
    Missing {
        /// The structure asked for.
        what: &'static str,
        /// Offset of the root word.
        root: u64,
    },
    /// A root word that holds something else.
    #[error(
        "what hangs from the root at {root:#x} is not {what} of these types and sizes; use another root, or open it as what it is"
    )]
    WrongStructure {
        /// The structure asked for.
        what: &'static str,
        /// Offset of the root word.
        root: u64,
    },
    /// The creation of a structure was cut short.
    #[error(
        "{what} at the root at {root:#x} was never created completely; create it again, which goes on where it ended"
    )]
    Incomplete {
        /// The structure asked for.
        what: &'static str,
        /// Offset of the root word.
        root: u64,
    },
    /// Another process or handle has the pool open.
    #[error(
        "{path} is in use: it is open for {held} in {}; close it there first",
        .by.as_deref().unwrap_or("another process, or elsewhere in this one")
    )]
    Locked {
        /// The pool's file, or its log's.
        path: PathBuf,
        /// How it is held: reading or writing.
        held: &'static str,
        /// Who holds it, in words, where the system tells.
        by: Option<String>,
    },
    /// The pool holds something else.
    #[error(
        "the layout of the pool {path} is named {found:?}, not {expected:?}: it belongs to another program"
    )]
    WrongLayout {
        /// The path of the pool's file.
        path: PathBuf,
        /// The name asked for.
        expected: String,
        /// The name in the header.
        found: String,
    },
    /// The pool was not closed, and what its last writes mean depends on the domain.
    #[error(
        "the pool {path} was not closed cleanly and was written under domain {wrote}; open it once under {wrote} to recover it (asked: {asked})"
    )]
    WrongDomain {
        /// The path of the pool's file.
        path: PathBuf,
        /// The domain that wrote it.
        wrote: String,
        /// The domain asked for.
        asked: String,
    },
    /// The pool was used without persistence and not closed afterwards.
    #[error(
        "{} was used without persistence (scheme np or volatile) and not closed cleanly: what it holds is undefined; restore it from a backup, or create it anew",
        the_pool(.path)
    )]
    Unprotected {
        /// The pool's file, where it was opened.
        path: Option<PathBuf>,
    },
    /// `Flush` and `FlushOnFail` need memory that is persistent.
    #[error(
        "{} is not on persistent memory (MAP_SYNC refused); use the Sync domain on an ordinary file system",
        the_pool(.path)
    )]
    NotPersistentMemory {
        /// The pool's file, where it was opened.
        path: Option<PathBuf>,
    },
    /// The log file that belongs to a `Sync` pool is absent, another pool's, or an older one of this pool.
    #[error(
        "the log file {path} {problem}; a pool and its log belong together: put the pool's own log back beside it"
    )]
    LogFile {
        /// Where it should be.
        path: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The processor has no such instruction.
    #[error("this processor has no {0}; choose another write-back instruction or the Sync domain")]
    UnsupportedInstruction(&'static str),
    /// [`Options::protect`](crate::Options::protect) needs a memory protection key.
    #[error(
        "the pool cannot be protected against stray writes: there is no memory protection key to be had ({source}); the processor or the system has none, or all 15 are taken; open the pool without `protect`"
    )]
    NoProtectionKey {
        /// What the operating system answered.
        source: std::io::Error,
    },
    /// The combination does not exist.
    #[error("{0} is not possible in this domain")]
    Unsupported(String),
    /// The logs of the pool are of a scheme that this program does not know.
    #[error(
        "the pool{} was left by another scheme than bppm (number {code} in its state word), which this program does not have; \
         `strandline pool recover FILE` recovers and closes it, and then every program can open it",
        path.as_ref().map_or(String::new(), |path| format!(" {}", path.display()))
    )]
    OtherScheme {
        /// The pool's file, where it is known.
        path: Option<PathBuf>,
        /// The scheme's number in the pool's state word.
        code: u64,
    },
    /// No room for an allocation.
    #[error("the pool is full: no room for {0} bytes; free something or create a larger pool")]
    Full(u64),
    /// A transaction wrote more than a whole log holds.
    #[error(
        "the transaction is larger than its log of {records} records; split it or create the pool with larger logs"
    )]
    TransactionTooLarge {
        /// Records that the log holds.
        records: u64,
    },
    /// A write to a word that none of the locks declared by its transaction protects.
    #[error(
        "the transaction writes address {0:#x}, which its lock set does not cover; declare a lock for it, or declare none and let them be found"
    )]
    OutsideLockSet(u64),
    /// Every log is leased.
    #[error("all {0} logs of the pool are in use; drop a worker or create the pool with more logs")]
    NoFreeLog(u64),
    /// A transaction within a transaction of the same pool, by the same thread.
    #[error(
        "this thread is in a transaction of the same pool, for whose end this would have to wait; do it after the closure has returned, or hand the closure's transaction on to what is to be a part of it"
    )]
    Nested,
    /// The pool was opened by the process that this one was forked from.
    #[error(
        "the pool was opened by the process that this one was forked from, and only that one can use it; open it after the fork, in the process that is to use it"
    )]
    Forked,
    /// An address that no allocation or root has.
    #[error("address {0:#x} is not an aligned word of the pool's heap")]
    InvalidAddress(u64),
    /// A free of something that is not allocated there.
    #[error("nothing is allocated at {0:#x}: it was freed twice or never allocated")]
    InvalidFree(u64),
    /// A pointer whose value is not there.
    #[error("no value of type {expected} is at {at:#x}: it was freed, or another type's is there")]
    Dangling {
        /// Where the pointer points.
        at: u64,
        /// The type that was expected.
        expected: &'static str,
    },
    /// The root of a store is of another type.
    #[error(
        "the pool's root is {found}; this program expects {expected}: open it with a migration from that type"
    )]
    RootLayout {
        /// The type in the pool.
        found: String,
        /// The type asked for.
        expected: String,
    },
    /// What an operation of a transaction returns when the transaction cannot go on: after a conflict it will run
    /// again, after an error its runner returns that error. Hand it up with `?`.
    #[error("the transaction was interrupted; return this error from its closure")]
    Interrupted,
    /// A write in a read-only transaction.
    #[error("a read-only transaction cannot write")]
    ReadOnly,
    /// The transaction's closure gave up; nothing happened.
    #[error("the transaction was aborted by its caller")]
    Aborted,
    /// An earlier write or flush failed, so nothing can be promised any more.
    #[error(
        "the pool's device failed earlier ({0}); the outcome of unacknowledged transactions is unknown: close the pool, repair the device and open it again"
    )]
    Poisoned(String),
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
            Self::Damaged(what) if !what.contains(&shown) => Self::Damaged(format!("{what} (in {shown})")),
            Self::Unprotected { path: None } => Self::Unprotected { path: Some(at.to_owned()) },
            Self::OtherScheme { path: None, code } => Self::OtherScheme { path: Some(at.to_owned()), code },
            Self::NotPersistentMemory { path: None } => {
                Self::NotPersistentMemory { path: Some(at.to_owned()) }
            }
            other => other,
        }
    }

    /// A system call's failure while doing `what`.
    pub fn io(what: impl Into<String>, source: std::io::Error) -> Self {
        Self::Io { what: what.into(), source }
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
