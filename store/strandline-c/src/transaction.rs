//! Transactions, tickets and snapshots.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::rc::Rc;

use strandline::{DatabaseSnapshot, Error, SnapshotView, Ticket, Tx, View};

use crate::database::StrandlineDatabase;
use crate::status::{Stop, answer, parameter, run_body};
use crate::{put, reference};

/// Asserts at compile time what the header promises about threads.
const _: fn() = || {
    fn one_at_a_time<T: Send>() {}
    fn any_number<T: Send + Sync>() {}
    one_at_a_time::<(DatabaseSnapshot, SnapshotView<'static>)>();
    any_number::<(StrandlineDatabase, StrandlineTicket, crate::StrandlineMap, crate::StrandlineObjects)>();
};

/// A running transaction, or a snapshot that is read. It ends when its body returns, and belongs to the thread on which that runs.
pub struct StrandlineTransaction {
    _opaque: [u8; 0],
}

/// The value behind a `StrandlineTransaction`.
pub(crate) struct Running<'a, 'p> {
    pub view: &'a View<'p>,
    /// `None` if the transaction only reads.
    tx: Option<&'a Tx<'p>>,
    /// Set to false when the transaction ends, so that iterators and readers can refuse to be used longer.
    pub lives: Rc<Cell<bool>>,
    /// True if a sink is being called with a piece of a value; the transaction must not end then.
    pub is_lending: Cell<bool>,
}

impl<'a, 'p> Running<'a, 'p> {
    fn new(view: &'a View<'p>, tx: Option<&'a Tx<'p>>) -> Self {
        Self { view, tx, lives: Rc::new(Cell::new(true)), is_lending: Cell::new(false) }
    }

    pub fn writer(&self) -> Result<&'a Tx<'p>, Stop> {
        self.tx.ok_or(Stop::Error(Error::ReadOnly))
    }
}

impl Drop for Running<'_, '_> {
    fn drop(&mut self) {
        self.lives.set(false);
    }
}

/// Returns the transaction behind C's pointer.
///
/// # Safety
/// `transaction` is null; or it was passed to a body that still runs, or comes from a snapshot that has not ended, on the same thread and for `'a`.
pub(crate) unsafe fn running<'a>(
    transaction: *const StrandlineTransaction,
) -> Result<&'a Running<'a, 'a>, Stop> {
    // SAFETY: the caller promises that the pointer refers to a living `Running`, whose own lifetimes are longer than `'a`. Of what has these
    // lifetimes, only iterators and readers leave the call, and they check whether the transaction still lives.
    unsafe { reference(transaction.cast(), "a transaction") }
}

/// The body of a transaction. If it returns 0, the transaction commits. If it returns anything else, the transaction is rolled back
/// and returns that: numbers above 0 are the program's own, and codes of failed operations are handed on. It may run several times,
/// of which only the last has an effect, so it must do nothing else that cannot be repeated. After an operation returns
/// `STRANDLINE_INTERRUPTED`, the body returns that at once. It must not leave by `longjmp` or a C++ exception.
pub type StrandlineBody =
    Option<unsafe extern "C" fn(transaction: *mut StrandlineTransaction, argument: *mut c_void) -> c_int>;

/// Calls the body of a transaction.
///
/// # Safety
/// `body` may be called with `argument`.
unsafe fn call(body: StrandlineBody, argument: *mut c_void, running: &Running<'_, '_>) -> Result<(), Stop> {
    let body = body.ok_or_else(|| parameter("a body is needed, and not NULL"))?;
    let transaction = std::ptr::from_ref(running).cast::<StrandlineTransaction>().cast_mut();
    // SAFETY: the caller promises that `body` may be called. Its documentation forbids it to keep the transaction longer.
    run_body(|| unsafe { body(transaction, argument) })
}

/// Runs `body` as one transaction. When it returns 0, all that the body wrote is visible to every thread and survives a power
/// failure; otherwise none of it has happened. Returns what the body returned, or the code of what made the transaction fail.
///
/// Threads: any, at the same time as others use the database. The body runs on the calling thread.
///
/// # Safety
/// `database` is open; `body` may be called with `argument` until this returns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_write(
    database: *const StrandlineDatabase,
    body: StrandlineBody,
    argument: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let database = unsafe { reference(database, "a database")? };
        // SAFETY: as the caller promises.
        database.database.write_with_error(|tx| unsafe { call(body, argument, &Running::new(tx, Some(tx))) })
    })
}

/// Tells when a transaction of `strandline_write_later` is durable. Any number of threads may use it at a time, and it may outlive
/// the database.
pub struct StrandlineTicket {
    ticket: Ticket,
}

/// Runs `body` like `strandline_write`, but does not wait until the transaction is durable. A crash before that takes the transaction
/// back as a whole, and all later ones with it. `ticket` becomes a ticket to wait with, for `strandline_ticket_free`; null, if the
/// caller needs none.
///
/// Threads: any, at the same time as others use the database. The body runs on the calling thread.
///
/// # Safety
/// As for `strandline_write`; `ticket` is null or refers to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_write_later(
    database: *const StrandlineDatabase,
    body: StrandlineBody,
    argument: *mut c_void,
    ticket: *mut *mut StrandlineTicket,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let database = unsafe { reference(database, "a database")? };
        let (_, given) = database
            .database
            .later()
            // SAFETY: as the caller promises.
            .write_with_error(|tx| unsafe { call(body, argument, &Running::new(tx, Some(tx))) })?;
        if !ticket.is_null() {
            // SAFETY: as the caller promises.
            unsafe { put(ticket, Box::into_raw(Box::new(StrandlineTicket { ticket: given })))? };
        }
        Ok(())
    })
}

/// Waits until the transaction is durable, and with it all that committed before it. Not inside a transaction.
///
/// Threads: any number at a time.
///
/// # Safety
/// `ticket` comes from `strandline_write_later` and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_ticket_wait(ticket: *const StrandlineTicket) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        Ok(unsafe { reference(ticket, "a ticket")? }.ticket.wait()?)
    })
}

/// Sets `is_durable` to 1 if the transaction is durable by now, and to 0 otherwise. It does not wait.
///
/// Threads: any number at a time.
///
/// # Safety
/// As for `strandline_ticket_wait`; `is_durable` refers to room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_ticket_is_durable(
    ticket: *const StrandlineTicket,
    is_durable: *mut c_int,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        unsafe {
            let durable = reference(ticket, "a ticket")?.ticket.is_durable()?;
            put(is_durable, c_int::from(durable))
        }
    })
}

/// Frees a ticket. The transaction becomes durable all the same.
///
/// Threads: any one, after all others have stopped using the ticket.
///
/// # Safety
/// `ticket` comes from `strandline_write_later`, is freed once, and no thread is in a call with it; or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_ticket_free(ticket: *mut StrandlineTicket) {
    if !ticket.is_null() {
        // SAFETY: it was made from a box.
        drop(unsafe { Box::from_raw(ticket) });
    }
}

/// Runs `body` as a transaction that only reads: it sees one state of the database, whatever others write meanwhile. After a conflict
/// it runs again. Returns what the body returned, or the code of what made it fail.
///
/// Threads: any, at the same time as others use the database. The body runs on the calling thread.
///
/// # Safety
/// As for `strandline_write`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_read(
    database: *const StrandlineDatabase,
    body: StrandlineBody,
    argument: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let database = unsafe { reference(database, "a database")? };
        // SAFETY: as the caller promises.
        database.database.read_with_error(|tx| unsafe { call(body, argument, &Running::new(tx, None)) })
    })
}

/// A database as it was at one moment. One thread at a time may use it.
pub struct StrandlineSnapshot {
    // Fields are dropped in this order: each one borrows from the next.
    running: Box<Running<'static, 'static>>,
    view: *mut SnapshotView<'static>,
    snapshot: *mut DatabaseSnapshot,
}

/// Begins a snapshot: the database as it is now, for reads that take long. Writers do not wait for it, and its reads never have to be repeated. The
/// database cannot be closed before the snapshot has ended.
///
/// Threads: any, at the same time as others use the database. The snapshot may move to another thread between calls.
///
/// # Safety
/// `database` is open; `snapshot` refers to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_snapshot_begin(
    database: *const StrandlineDatabase,
    snapshot: *mut *mut StrandlineSnapshot,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let open = unsafe {
            put(snapshot, std::ptr::null_mut())?;
            reference(database, "a database")?
        };
        let begun = Box::into_raw(Box::new(open.database.snapshot()?));
        // SAFETY: each value stays at its place on the heap, borrowed only by the next one, until `strandline_snapshot_end` drops them in the
        // opposite order.
        let view = unsafe { Box::into_raw(Box::new((*begun).read())) };
        // SAFETY: as above.
        let running = Box::new(Running::new(unsafe { &*view }, None));
        let all = StrandlineSnapshot { running, view, snapshot: begun };
        // SAFETY: as the caller promises.
        unsafe { put(snapshot, Box::into_raw(Box::new(all))) }
    })
}

/// Returns the transaction through which functions read the snapshot, and which cannot write. It is valid until the snapshot ends,
/// and null if `snapshot` is null.
///
/// Threads: the one that uses the snapshot; one at a time.
///
/// # Safety
/// `snapshot` has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_snapshot_read(
    snapshot: *const StrandlineSnapshot,
) -> *mut StrandlineTransaction {
    // SAFETY: as the caller promises.
    match unsafe { snapshot.as_ref() } {
        Some(snapshot) => std::ptr::from_ref(&*snapshot.running).cast::<StrandlineTransaction>().cast_mut(),
        None => std::ptr::null_mut(),
    }
}

/// Ends a snapshot. Returns `STRANDLINE_PARAMETER` in a sink that is given a piece of a value of this snapshot; the snapshot then
/// goes on.
///
/// Threads: any one, when no other uses the snapshot.
///
/// # Safety
/// `snapshot` has begun and is ended once; or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_snapshot_end(snapshot: *mut StrandlineSnapshot) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let Some(begun) = (unsafe { snapshot.as_ref() }) else { return Ok(()) };
        if begun.running.is_lending.get() {
            return Err(parameter("a sink cannot end the snapshot that its value is read from"));
        }
        // SAFETY: all three were made from boxes, and are dropped in the opposite order.
        unsafe {
            let StrandlineSnapshot { running, view, snapshot } = *Box::from_raw(snapshot);
            drop(running);
            drop(Box::from_raw(view));
            drop(Box::from_raw(snapshot));
        }
        Ok(())
    })
}
