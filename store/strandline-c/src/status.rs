//! The status of calls: codes, and one message per thread.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};

use strandline::{Error, ErrorKind};

/// The status of a call. All failures are below zero; the numbers above it are left to functions of the program: bodies, sources, sinks.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(non_camel_case_types)]
pub enum StrandlineStatus {
    /// The call succeeded.
    STRANDLINE_OK = 0,
    /// There is no such key, or the iterator is at the end.
    STRANDLINE_NOT_FOUND = -1,
    /// An error in Strandline itself; please report it.
    STRANDLINE_INTERNAL = -2,
    /// A system call failed.
    STRANDLINE_IO = -10,
    /// An argument is not valid, or the call is not allowed here; the message says why.
    STRANDLINE_PARAMETER = -11,
    /// The file is not a Strandline database.
    STRANDLINE_NOT_A_POOL = -12,
    /// A newer Strandline wrote the file.
    STRANDLINE_NEWER_FORMAT = -13,
    /// The file has a format that is no longer read.
    STRANDLINE_OLDER_FORMAT = -14,
    /// The header of the file is damaged.
    STRANDLINE_DAMAGED_HEADER = -15,
    /// The file has several hard links, each of which would have a log of its own.
    STRANDLINE_SEVERAL_LINKS = -16,
    /// The file is shorter than its header says.
    STRANDLINE_TRUNCATED = -17,
    /// The stored data is damaged.
    STRANDLINE_DAMAGED = -18,
    /// A repair would lose data.
    STRANDLINE_IRREPARABLE = -19,
    /// The file has no root: another program created it.
    STRANDLINE_MISSING = -20,
    /// The file has a root of another kind.
    STRANDLINE_WRONG_STRUCTURE = -21,
    /// The creation of the root was interrupted.
    STRANDLINE_INCOMPLETE = -22,
    /// Another process has the file open, or this one has it open already.
    STRANDLINE_LOCKED = -23,
    /// The file belongs to another program.
    STRANDLINE_WRONG_LAYOUT = -24,
    /// The file was not closed, and was written under another domain: open it under that one first.
    STRANDLINE_WRONG_DOMAIN = -25,
    /// The file was used without persistence and not closed: what it holds is undefined.
    STRANDLINE_UNPROTECTED = -26,
    /// `STRANDLINE_FLUSH` needs a file on persistent memory.
    STRANDLINE_NOT_PERSISTENT_MEMORY = -27,
    /// The log beside the file is absent, or does not belong to it.
    STRANDLINE_LOG_FILE = -28,
    /// The processor lacks an instruction.
    STRANDLINE_UNSUPPORTED_INSTRUCTION = -29,
    /// `protect` needs a memory protection key, and there is none.
    STRANDLINE_NO_PROTECTION_KEY = -30,
    /// The operation is not supported here: by this domain, this scheme or a pool that is open for reading.
    STRANDLINE_UNSUPPORTED = -31,
    /// The file was left by a scheme that only the laboratory has.
    STRANDLINE_OTHER_SCHEME = -32,
    /// The disk is full, or the database has its greatest size.
    STRANDLINE_FULL = -33,
    /// A transaction was larger than its log; only under schemes of the laboratory.
    STRANDLINE_TRANSACTION_TOO_LARGE = -34,
    /// A write outside the declared locks; only under schemes of the laboratory.
    STRANDLINE_OUTSIDE_LOCK_SET = -35,
    /// All logs are in use.
    STRANDLINE_NO_FREE_LOG = -36,
    /// There are 64 snapshots, the most that are possible.
    STRANDLINE_TOO_MANY_SNAPSHOTS = -37,
    /// The snapshot was ended, because keeping what has changed since takes more memory than `snapshot_bytes`.
    STRANDLINE_SNAPSHOT_ENDED = -38,
    /// The thread is in a transaction of this database already.
    STRANDLINE_NESTED = -39,
    /// The database was opened before a `fork`, by the other process.
    STRANDLINE_FORKED = -40,
    /// There is no object at the offset, or it ends too early.
    STRANDLINE_INVALID_ADDRESS = -41,
    /// No object begins at the offset that is to be freed.
    STRANDLINE_INVALID_FREE = -42,
    /// A pointer in the file refers to freed memory.
    STRANDLINE_DANGLING = -43,
    /// The file is a store with a root of its own type, and no database.
    STRANDLINE_ROOT_LAYOUT = -44,
    /// There is no such map, or it was deleted.
    STRANDLINE_NO_TABLE = -45,
    /// There is a table of that name, with other types of keys or values.
    STRANDLINE_TABLE_TYPES = -46,
    /// The transaction cannot go on, and the body must return this at once. After a conflict the body runs again; after an error the
    /// transaction returns that error.
    STRANDLINE_INTERRUPTED = -47,
    /// A write in a transaction, snapshot or database that only reads.
    STRANDLINE_READ_ONLY = -48,
    /// The transaction was rolled back.
    STRANDLINE_ABORTED = -49,
    /// The pool failed earlier, as the message says: close the database, repair the device, open it again.
    STRANDLINE_POISONED = -50,
    /// The checksum file is damaged or belongs to another database, or this domain keeps no checksums.
    STRANDLINE_CHECKSUM_FILE = -51,
    /// This kind of machine or system does not have the domain.
    STRANDLINE_UNSUPPORTED_DOMAIN = -52,
    /// Inside a transaction of one database, the call would wait for another database whose transactions wait for this one. Begin
    /// transactions of several databases in the same order everywhere, or run the outermost one again.
    STRANDLINE_DEADLOCK = -53,
    /// The database was closed.
    STRANDLINE_CLOSED = -54,
    /// The database cannot be closed, because snapshots of it exist: end them first. It stays open.
    STRANDLINE_IN_USE = -55,
}

use StrandlineStatus::*;

/// The code and the text of each kind of error. A test compares the kinds with `ErrorKind::ALL`.
macro_rules! codes {
    ($($kind:ident, $status:ident, $text:literal;)*) => {
        fn status_of(kind: ErrorKind) -> StrandlineStatus {
            match kind {
                $(ErrorKind::$kind => $status,)*
                _ => STRANDLINE_INTERNAL,
            }
        }

        /// The text of each code; a test compares them with the header.
        const TEXTS: &[(StrandlineStatus, &CStr)] = &[
            (STRANDLINE_OK, c"success"),
            (STRANDLINE_NOT_FOUND, c"there is no such key, or no further one"),
            (STRANDLINE_INTERNAL, c"an internal error; please report it"),
            $(($status, $text),)*
        ];
    };
}

codes! {
    Io, STRANDLINE_IO, c"a system call failed";
    Parameter, STRANDLINE_PARAMETER, c"an argument is not valid";
    NotAPool, STRANDLINE_NOT_A_POOL, c"the file is not a Strandline database";
    NewerFormat, STRANDLINE_NEWER_FORMAT, c"a newer Strandline wrote the file";
    OlderFormat, STRANDLINE_OLDER_FORMAT, c"the file has a format that is no longer read";
    DamagedHeader, STRANDLINE_DAMAGED_HEADER, c"the header of the file is damaged";
    SeveralLinks, STRANDLINE_SEVERAL_LINKS, c"the file has several hard links";
    Truncated, STRANDLINE_TRUNCATED, c"the file is shorter than its header says";
    Damaged, STRANDLINE_DAMAGED, c"the stored data is damaged";
    Irreparable, STRANDLINE_IRREPARABLE, c"a repair would lose data";
    Missing, STRANDLINE_MISSING, c"the file has no root";
    WrongStructure, STRANDLINE_WRONG_STRUCTURE, c"the file has a root of another kind";
    Incomplete, STRANDLINE_INCOMPLETE, c"the creation of the root was interrupted";
    Locked, STRANDLINE_LOCKED, c"the file is open already, in this process or in another";
    WrongLayout, STRANDLINE_WRONG_LAYOUT, c"the file belongs to another program";
    WrongDomain, STRANDLINE_WRONG_DOMAIN, c"the file was not closed under another domain: open it under that one first";
    Unprotected, STRANDLINE_UNPROTECTED, c"the file was used without persistence and not closed";
    NotPersistentMemory, STRANDLINE_NOT_PERSISTENT_MEMORY, c"the file is not on persistent memory";
    LogFile, STRANDLINE_LOG_FILE, c"the log file is missing or does not belong to the database";
    UnsupportedInstruction, STRANDLINE_UNSUPPORTED_INSTRUCTION, c"the processor lacks an instruction";
    NoProtectionKey, STRANDLINE_NO_PROTECTION_KEY, c"there is no memory protection key";
    Unsupported, STRANDLINE_UNSUPPORTED, c"the operation is not supported here";
    OtherScheme, STRANDLINE_OTHER_SCHEME, c"a scheme of the laboratory left the file";
    Full, STRANDLINE_FULL, c"the disk is full, or the database has its greatest size";
    TransactionTooLarge, STRANDLINE_TRANSACTION_TOO_LARGE, c"the transaction is larger than its log";
    OutsideLockSet, STRANDLINE_OUTSIDE_LOCK_SET, c"a write outside the declared locks";
    NoFreeLog, STRANDLINE_NO_FREE_LOG, c"all logs are in use";
    TooManySnapshots, STRANDLINE_TOO_MANY_SNAPSHOTS, c"there are as many snapshots as there can be";
    SnapshotEnded, STRANDLINE_SNAPSHOT_ENDED, c"the snapshot was ended: it needed more memory than snapshot_bytes";
    Nested, STRANDLINE_NESTED, c"the thread has a transaction of this database open";
    Forked, STRANDLINE_FORKED, c"the database was opened before a fork, in the other process";
    InvalidAddress, STRANDLINE_INVALID_ADDRESS, c"there is no object at the offset, or it ends too early";
    InvalidFree, STRANDLINE_INVALID_FREE, c"there is no object to free at the offset";
    Dangling, STRANDLINE_DANGLING, c"a pointer in the file refers to freed memory";
    RootLayout, STRANDLINE_ROOT_LAYOUT, c"the file is a store with a root of its own type";
    NoTable, STRANDLINE_NO_TABLE, c"there is no such map";
    TableTypes, STRANDLINE_TABLE_TYPES, c"the table of that name has other types";
    Interrupted, STRANDLINE_INTERRUPTED, c"the transaction cannot go on: return from its body";
    ReadOnly, STRANDLINE_READ_ONLY, c"a write where only reads are possible";
    Aborted, STRANDLINE_ABORTED, c"the transaction was rolled back";
    Poisoned, STRANDLINE_POISONED, c"the database failed earlier: close it, repair the device, open it again";
    ChecksumFile, STRANDLINE_CHECKSUM_FILE, c"the checksum file is damaged or does not belong to the database";
    UnsupportedDomain, STRANDLINE_UNSUPPORTED_DOMAIN, c"this kind of machine or system does not have the domain";
    Deadlock, STRANDLINE_DEADLOCK, c"a transaction of another database would wait for this one: begin them in the same order";
    Closed, STRANDLINE_CLOSED, c"the database was closed";
    InUse, STRANDLINE_IN_USE, c"snapshots of the database exist: end them first";
}

/// The reason why a call failed.
pub(crate) enum Stop {
    Error(Error),
    Status(StrandlineStatus, String),
    /// The code that a function of the program returned, and what that has ended.
    Code(c_int, &'static str),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

/// Returns the failure of a bad argument.
pub(crate) fn parameter(what: impl Into<String>) -> Stop {
    Stop::Error(Error::Parameter(what.into()))
}

/// Returns the failure that something is not found; `what` names it.
pub(crate) fn not_found(what: &str) -> Stop {
    Stop::Status(STRANDLINE_NOT_FOUND, what.into())
}

/// Bytes of a message, including the zero at its end.
const MESSAGE_BYTES: usize = 4096;

thread_local! {
    /// The message of this thread's last call. Its address never changes, so that C may read it at any time. It has no destructor, so that calls from
    /// other destructors of the thread can use it.
    static MESSAGE: [Cell<u8>; MESSAGE_BYTES] = const { [const { Cell::new(0) }; MESSAGE_BYTES] };
    /// The number of transaction bodies that run in this thread, nested in each other.
    static BODIES: Cell<u32> = const { Cell::new(0) };
    /// True if an operation has panicked since the last body began.
    static PANICKED: Cell<bool> = const { Cell::new(false) };
}

/// Returns whether this thread runs the body of a transaction.
pub(crate) fn in_body() -> bool {
    BODIES.get() > 0
}

/// Runs the body of a transaction. If an operation in it has panicked, the transaction fails, whatever the body returns.
pub(crate) fn run_body(body: impl FnOnce() -> c_int) -> Result<(), Stop> {
    PANICKED.set(false);
    BODIES.set(BODIES.get() + 1);
    let code = body();
    BODIES.set(BODIES.get() - 1);
    match code {
        _ if PANICKED.get() => Err(Stop::Status(STRANDLINE_INTERNAL, INTERNAL.into())),
        0 => Ok(()),
        code => Err(Stop::Code(code, "the body of the transaction gave up")),
    }
}

const INTERNAL: &str = "an internal error; please report it";

/// Keeps the message for `strandline_message`, cut to the room that there is. An empty message removes the last one.
fn remember(message: &str) {
    MESSAGE.with(|place| {
        let mut kept = message.len().min(MESSAGE_BYTES - 1);
        while !message.is_char_boundary(kept) {
            kept -= 1;
        }
        let bytes = message[..kept].bytes().map(|byte| if byte == 0 { b' ' } else { byte });
        place.iter().zip(bytes.chain([0])).for_each(|(place, byte)| place.set(byte));
    });
}

fn has_message() -> bool {
    MESSAGE.with(|message| message[0].get() != 0)
}

/// Runs a call of the library, and returns its code to C. A panic must not cross into C.
pub(crate) fn answer(call: impl FnOnce() -> Result<(), Stop>) -> c_int {
    let (status, message) = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => (STRANDLINE_OK, String::new()),
        Ok(Err(Stop::Error(error))) => (status_of(error.kind()), format!("{error:#}")),
        Ok(Err(Stop::Status(status, message))) => (status, message),
        Ok(Err(Stop::Code(code, what))) => {
            // If the program's function returns the code of a failed call, the message of that call is kept.
            if code > 0 || !has_message() {
                remember(&format!("{what}, with {code}"));
            }
            return code;
        }
        Err(_) => {
            PANICKED.set(true);
            (STRANDLINE_INTERNAL, INTERNAL.into())
        }
    };
    remember(&message);
    status as c_int
}

/// Returns what went wrong in this thread's last call, in at most 4095 bytes of UTF-8, or an empty text if that call succeeded. The
/// pointer is the same for all calls of a thread and valid until the thread ends; the text at it changes with each call.
///
/// Threads: any. Each has a message of its own, which no other thread may read.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_message() -> *const c_char {
    MESSAGE.with(|message| message.as_ptr().cast())
}

/// Returns what a code means, in a text that is never freed. It has no details, which `strandline_message` has. Numbers above 0 are
/// the program's own.
///
/// Threads: any, at any time; the text may be shared.
#[unsafe(no_mangle)]
pub extern "C" fn strandline_error_text(code: c_int) -> *const c_char {
    let known = TEXTS.iter().find(|(status, _)| *status as c_int == code);
    let text = match known {
        Some((_, text)) => text,
        None if code > 0 => c"a code of the program's own",
        None => c"an unknown code",
    };
    text.as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_error_has_a_code() {
        for kind in ErrorKind::ALL {
            assert_ne!(status_of(*kind), STRANDLINE_INTERNAL, "{kind:?}");
        }
    }

    #[test]
    fn a_message_has_each_cause_once() {
        let cause = std::io::Error::other("the tape is torn");
        let code = answer(|| Err(Error::io("read a film", cause).into()));
        assert_eq!(code, STRANDLINE_IO as c_int);
        // SAFETY: the message is this thread's, and it is compared before the next call.
        let message = unsafe { CStr::from_ptr(strandline_message()) };
        assert_eq!(message, c"cannot read a film: the tape is torn");
    }
}
