//! The errors of this library. Each message says what happened and what to do.

use std::fmt;
use std::path::{Path, PathBuf};

mod moved;
#[cfg(test)]
mod tests;

pub use moved::compare_moved;

/// The result of an operation of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Declares [`Error`] and [`ErrorKind`]. Each variant is followed by its message, which can name the variant's fields.
macro_rules! errors {
    ($($(#[$doc:meta])* $name:ident
        $({ $($(#[$field_doc:meta])* $field:ident: $field_type:ty,)* })?
        $(($inner:ident: $inner_type:ty))?
        => $text:literal $(, $shown:ident = $by:expr)*;)*
    ) => {
        /// The reason for which an operation failed. A transaction that fails has changed nothing, except with [`Error::Poisoned`]: then
        /// its outcome is unknown.
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
            // Some texts do not use all fields.
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
            /// All kinds of this version. A test can check with it that a table has an entry for each kind.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }

        impl Error {
            /// Returns the kind of this error.
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
        /// The action that failed, as a verb and its object.
        what: String,
        /// The operating system's error.
        source: std::io::Error,
    } => "cannot {what}";
    /// A parameter is not valid.
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
    /// The header's checksum does not match, or one of its fields is impossible.
    #[non_exhaustive]
    DamagedHeader {
        /// The path of the pool's file.
        path: PathBuf,
        /// A description of the fault.
        problem: String,
    } => "the header of the pool {path} is damaged ({problem}); restore the pool from a backup", path = path.display();
    /// The pool's file has several names (hard links). The log's name is derived from the pool's, so each name would have a log of its own.
    #[non_exhaustive]
    SeveralLinks {
        /// The path of the pool's file.
        path: PathBuf,
        /// The number of names.
        links: u64,
    } => "the pool {path} has {links} hard links; its log is found by its name, so it must have one name only: remove the others (`find -samefile` finds them; a repair that was cut short leaves one that ends in `.damaged`, and a restore one that ends in `.replaced`: run `strandline pool restore` again)", path = path.display();
    /// The file is shorter than its header and its heap require.
    #[non_exhaustive]
    Truncated {
        /// The path of the pool's file.
        path: PathBuf,
        /// The size in bytes that header and heap require.
        expected: u64,
        /// The size of the file in bytes.
        found: u64,
    } => "the pool {path} has {found} bytes and should have {expected}: it was truncated; restore it from a backup", path = path.display();
    /// A log, a table or a structure contradicts itself.
    #[non_exhaustive]
    Damaged {
        /// The path of the pool's file, if it is known.
        path: Option<PathBuf>,
        /// A description of the damage, with its place.
        problem: String,
    } => "{path} is damaged: {problem}; restore it from a backup", path = the_pool(path);
    /// A repair would lose data, or data are lost already.
    #[non_exhaustive]
    Irreparable {
        /// The path of the pool's file, if it is known.
        path: Option<PathBuf>,
        /// The data that would be lost, or are lost.
        problem: String,
    } => "{path} cannot be repaired and was not changed: {problem}; restore it from a backup", path = the_pool(path);
    /// A root word is 0 where a structure was expected.
    Missing {
        /// The structure asked for.
        what: &'static str,
        /// Offset of the root word.
        root: u64,
    } => "there is no {what} at the root {root:#x}; create it first";
    /// A root word refers to another structure than the expected one.
    WrongStructure {
        /// The structure asked for.
        what: &'static str,
        /// Offset of the root word.
        root: u64,
    } => "the root {root:#x} does not hold the expected {what} of these types and sizes; use another root, or open it with the types and sizes that it has";
    /// The creation of a structure was interrupted.
    Incomplete {
        /// The structure asked for.
        what: &'static str,
        /// Offset of the root word.
        root: u64,
    } => "the creation of the {what} at the root {root:#x} was interrupted; create it again to finish it";
    /// Another process or handle has the pool open.
    #[non_exhaustive]
    Locked {
        /// The path of the pool's file or of its log.
        path: PathBuf,
        /// The access for which it is open: reading or writing.
        held: &'static str,
        /// A description of the process that has it open, if the system tells.
        by: Option<String>,
    } => "{path} is in use: it is open for {held} in {by}; close it there first", path = path.display(), by = by.as_deref().unwrap_or("another process, or elsewhere in this one");
    /// The pool belongs to another program: its layout has another name.
    #[non_exhaustive]
    WrongLayout {
        /// The path of the pool's file.
        path: PathBuf,
        /// The name asked for.
        expected: String,
        /// The name in the header.
        found: String,
    } => "the layout of the pool {path} is named {found:?}, not {expected:?}: it belongs to another program", path = path.display();
    /// The pool was not closed cleanly, and must first be opened under the domain that wrote it, since recovery depends on the domain.
    #[non_exhaustive]
    WrongDomain {
        /// The path of the pool's file.
        path: PathBuf,
        /// The domain that wrote it.
        wrote: String,
        /// The domain asked for.
        asked: String,
    } => "the pool {path} was not closed cleanly and was written under domain {wrote}; open it once under {wrote} to recover it (asked: {asked})", path = path.display();
    /// The pool was used without persistence and not closed cleanly afterwards.
    Unprotected {
        /// The path of the pool's file, if it is known.
        path: Option<PathBuf>,
    } => "{path} was used without persistence (scheme np or volatile) and not closed cleanly: what it holds is undefined; restore it from a backup, or create it again", path = the_pool(path);
    /// The pool's file is not on persistent memory, which `Flush` and `FlushOnFail` need.
    #[non_exhaustive]
    NotPersistentMemory {
        /// The path of the pool's file, if it is known.
        path: Option<PathBuf>,
    } => "{path} is not on persistent memory (MAP_SYNC refused); use the Sync domain on an ordinary file system", path = the_pool(path);
    /// The log file of a `Sync` pool is missing, belongs to another pool, or is an older one of this pool.
    #[non_exhaustive]
    LogFile {
        /// The expected path of the log file.
        path: String,
        /// A description of the fault.
        problem: String,
        /// The advice at the end of the message, without a full stop.
        advice: String,
    } => "the log file {path} {problem}; {advice}";
    /// The file of checksums beside a pool is damaged, belongs to another pool, or would become wrong.
    #[non_exhaustive]
    ChecksumFile {
        /// The path of the checksum file.
        path: PathBuf,
        /// A description of the fault.
        problem: String,
    } => "the checksum file {path} {problem}; the pool works without it: delete it, and create another from the present contents with `strandline pool checksum`", path = path.display();
    /// The processor does not have this instruction.
    UnsupportedInstruction(what: &'static str) => "this processor has no {what}; choose another write-back instruction or the Sync domain";
    /// The domain is for persistent memory on x86-64; see [`Domain::is_supported`](crate::Domain::is_supported).
    UnsupportedDomain(name: &'static str) => "the domain {name} needs an x86-64 processor, because its order of stores is checked on these only; use the Sync domain, or Process if a power failure may destroy everything";
    /// [`Options::protect`](crate::Options::protect) needs a memory protection key.
    #[non_exhaustive]
    NoProtectionKey {
        /// The operating system's error.
        source: std::io::Error,
    } => "open the pool without `protect`: this system gives it no memory protection key, because it has none or because all 15 are taken";
    /// The operation is not supported for this pool, domain or scheme.
    Unsupported(what: String) => "not supported: {what}";
    /// The pool was left by a scheme that this program does not have.
    #[non_exhaustive]
    OtherScheme {
        /// The path of the pool's file, if it is known.
        path: Option<PathBuf>,
        /// The scheme's number in the pool's state word.
        code: u64,
    } => "{path} was left by another scheme than bppm (number {code} in its state word), which this program does not have; `strandline-lab pool recover FILE` recovers and closes it, and then every program can open it", path = the_pool(path);
    /// The pool has no room for an allocation.
    Full {
        /// The size of the allocation in bytes.
        bytes: u64,
    } => "the pool is full: no room for {bytes} bytes; free something, create a larger pool, or open it with more address space if that is limited";
    /// A transaction under one of the laboratory's schemes wrote more than a whole log holds.
    #[doc(hidden)]
    TransactionTooLarge {
        /// The number of records that the log has room for.
        records: u64,
    } => "the transaction is larger than its log of {records} records; split it or create the pool with larger logs";
    /// A transaction wrote to a word that none of its declared locks protects, in the laboratory's concurrency control with locks.
    #[doc(hidden)]
    OutsideLockSet(address: u64) => "the transaction writes address {address:#x}, which its lock set does not cover; declare a lock for it, or declare no locks, so that they are found automatically";
    /// Every log is leased to a worker.
    NoFreeLog {
        /// The number of logs in the pool.
        logs: u64,
    } => "all {logs} logs of the pool are in use; drop a worker or create the pool with more logs";
    /// The pool has as many snapshots as it can have.
    TooManySnapshots {
        /// The number of snapshots that a pool can have at a time.
        most: u64,
    } => "there are {most} snapshots already, as many as a pool can have; drop one";
    /// A snapshot was ended, because the old versions that it needed took more memory than the pool's options allow.
    #[non_exhaustive]
    SnapshotEnded {
        /// The number of bytes that old versions may take.
        bytes: u64,
    } => "the snapshot was ended: the old versions that it needs take more than {bytes} bytes; begin another, or open the pool with larger Options::snapshot_bytes";
    /// A thread began a transaction within its own transaction of the same pool.
    Nested => "this thread already has a transaction open on this pool; do this after the transaction's closure has returned, or pass the transaction to the code that is to be a part of it";
    /// Inside a transaction of one pool, a thread would have had to wait for another pool, perhaps for ever: other threads
    /// that use the other pool wait for the transaction. The transaction may return this error and run again.
    ///
    /// If one thread updates pool B inside a transaction of pool A, and another thread A inside B, each may hold what the other one waits
    /// for: one of them gets this error, and the other continues. Its closures return it, so that they roll back, and the outermost
    /// transaction runs again. An inner transaction that has returned is committed, even if the outer one then rolls back. Every operation
    /// that waits for a lock inside a transaction of another pool may return it: transactions, snapshots, checkpoints, backups, and waiting
    /// for a log.
    ///
    /// The search for deadlocks does not know which lock a thread waits for, so threads that nest pools in opposite orders may get the
    /// error although both could have continued. Threads that nest them in the same order never get it. Transactions that have changed
    /// nothing yet do not count, since they make no other wait.
    #[non_exhaustive]
    Deadlock {
        /// The pool of the transaction that others wait for.
        held: PathBuf,
        /// The other pool.
        awaited: PathBuf,
    } => "deadlock: inside a transaction of {held} this thread waits for {awaited}, and threads that use that one wait for the transaction; begin transactions of several pools in the same order everywhere, or run the outermost one again", held = held.display(), awaited = awaited.display();
    /// The pool was opened by the process that this one was forked from.
    Forked => "the pool was opened by the process that this one was forked from, and only that process can use it; open it after the fork, in the process that is to use it";
    /// The database or store was closed, through this handle or another one.
    Closed => "the database was closed; open it again to use it";
    /// A database or store cannot be closed while it has sessions or snapshots. It stays open.
    InUse {
        /// The number of snapshots and sessions.
        users: u64,
    } => "the database cannot be closed: {users} of its snapshots or sessions still exist; drop them, and close it again";
    /// An address is not an aligned word of the pool's heap.
    InvalidAddress(address: u64) => "address {address:#x} is not an aligned word of the pool's heap";
    /// A block was freed that is not allocated.
    InvalidFree(address: u64) => "nothing is allocated at {address:#x}: it was freed twice or never allocated";
    /// A pointer refers to a value that does not exist any more.
    Dangling {
        /// The address in the pointer.
        at: u64,
        /// The type that was expected.
        expected: &'static str,
    } => "no value of type {expected} is at {at:#x}: it was freed, or a value of another type is there";
    /// The root of a store has another type than the program expects.
    RootLayout {
        /// The type in the pool.
        found: String,
        /// The type asked for.
        expected: String,
        /// The differences, by type and field, one a line.
        differences: String,
    } => "the pool's root is {found}; this program expects {expected}: open it with a migration from that type{differences}";
    /// A table does not exist, or was deleted after it had been opened.
    NoTable {
        /// The table's name.
        name: String,
    } => "there is no table `{name}`, or it was deleted after it had been opened";
    /// A table has other types than those it is opened with.
    TableTypes {
        /// The table's name.
        table: String,
        /// The differences, by type and field.
        differences: String,
    } => "the table `{table}` holds other types than this program expects:{differences}\nopen it with the types that it has, or under another name, or convert it with `Database::migrate`";
    /// An operation of a transaction returns this when the transaction cannot continue: after a conflict the transaction will run
    /// again, after an error its runner returns that error. Return this with `?`.
    Interrupted => "the transaction was interrupted; return this error from its closure";
    /// A read-only transaction tried to write.
    ReadOnly => "a read-only transaction cannot write";
    /// The transaction's closure aborted it; nothing was changed.
    Aborted => "the transaction was aborted by its caller";
    /// A write or flush failed, now or earlier. It is unknown whether transactions that were not
    /// acknowledged survive, until the pool is opened again.
    #[non_exhaustive]
    Poisoned {
        /// The action that failed, and the system's error.
        why: String,
        /// The kind of the system's error: [`StorageFull`](std::io::ErrorKind::StorageFull), for example.
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

/// Returns "the pool", with the name of its file if that is known.
fn the_pool(path: &Option<PathBuf>) -> String {
    match path {
        Some(path) => format!("the pool {}", path.display()),
        None => "the pool".to_owned(),
    }
}

/// The reason for which a pool is poisoned whose files another program deleted or truncated.
pub(crate) const FILE_GONE: &str = "one of the pool's files was deleted or cut short while it was open";

impl Error {
    /// Returns this error with the path of the pool, `at`, in it.
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

    /// Returns an error for damage in a pool whose path is not known yet: `problem` says what is wrong, and where.
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

    /// Returns the error for a file at `path` that is open for `held` ("reading" or "writing") in `by`, a description of the process if the
    /// system tells.
    pub fn locked(path: impl Into<PathBuf>, held: &'static str, by: Option<String>) -> Self {
        Self::Locked { path: path.into(), held, by }
    }

    /// Returns the error for a repair that would lose the data that `problem` names.
    pub(crate) fn irreparable(problem: impl Into<String>) -> Self {
        Self::Irreparable { path: None, problem: problem.into() }
    }

    /// Writes the causes, which the alternate form adds.
    fn fmt_causes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut next = std::error::Error::source(self);
        while let Some(cause) = next {
            write!(f, ": {cause}")?;
            next = cause.source();
        }
        Ok(())
    }

    /// Returns the error for a failure of a system call, or of the program's own reader or writer, in the action `what`: a verb and its object.
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
            // The program's reader has returned an error of this library, wrapped in one of `std::io`.
            Ok(error) => error,
            Err(source) => Self::Io { what: what.into(), source },
        }
    }
}

/// The reason for which a transaction cannot continue. Return it with `?`: a transaction that has met one cannot commit.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// use strandline_core::{Abort, Error};
/// let pool = Pool::create(&path, &options)?;
/// let given_up: strandline_core::Result<()> = pool.worker()?.run(|tx| {
///     tx.write(tx.root(0), 5)?; // returns a conflict to the runner
///     Err(Abort::User)
/// });
/// assert!(matches!(given_up, Err(Error::Aborted)));
/// assert_eq!(pool.worker()?.view(|tx| tx.read(tx.root(0)))?, 0);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Abort {
    /// The transaction conflicts with another one and will run again.
    Conflict,
    /// The log is full. The transaction will run again when there is room.
    LogFull,
    /// The closure aborts the transaction.
    User,
    /// The transaction has failed with an error that another attempt would not avoid. The worker keeps the error and returns it.
    Failed,
}
