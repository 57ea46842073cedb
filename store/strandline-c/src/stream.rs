//! Values that are stored and read piece by piece.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io::{self, Read};
use std::ptr;
use std::rc::Rc;

use strandline::{Stm, ValueReader};

use crate::map::StrandlineMap;
use crate::status::{Stop, answer, not_found, parameter};
use crate::transaction::{StrandlineTransaction, running};
use crate::{put, reference};

/// Puts the next `length` bytes of a value where `into` is. Returns 0 for that; everything else ends `strandline_put_from`, which returns
/// it. It may use the transaction, and must not leave by `longjmp` or a C++ exception.
pub type StrandlineSource =
    Option<unsafe extern "C" fn(argument: *mut c_void, into: *mut c_void, length: usize) -> c_int>;

/// Bytes from C.
struct Source<'a> {
    source: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int,
    argument: *mut c_void,
    /// The code that it returned instead of bytes.
    refused: &'a Cell<c_int>,
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the caller of `strandline_put_from` promises that `source` may be called with `argument`; `into` has room for its length.
        let code = unsafe { (self.source)(self.argument, into.as_mut_ptr().cast(), into.len()) };
        self.refused.set(code);
        if code == 0 { Ok(into.len()) } else { Err(io::Error::other("the program gave no bytes")) }
    }
}

/// Gives `key` a value of `value_length` bytes, which `source` gives piece by piece, in order. So it is never in memory as a whole, in a database
/// on an ordinary file. If `source` fails, `key` has what it had before.
///
/// # Safety
/// `transaction` runs; `map` is open; `key` has as many bytes as its length says; `source` may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_put_from(
    transaction: *mut StrandlineTransaction,
    map: *const StrandlineMap,
    key: *const c_void,
    key_length: usize,
    value_length: usize,
    source: StrandlineSource,
    argument: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (tx, map, key) = unsafe {
            (running(transaction)?.writer()?, reference(map, "a map")?, crate::key(key, key_length)?)
        };
        crate::check_value_length(value_length)?;
        let source = source.ok_or_else(|| parameter("a source of bytes is needed, and not NULL"))?;
        let refused = Cell::new(0);
        let from = Source { source, argument, refused: &refused };
        match map.table.set_from(tx, key, value_length as u64, from) {
            Err(_) if refused.get() != 0 => Err(Stop::Code(refused.get())),
            done => Ok(done?),
        }
    })
}

/// A reader of a value, piece by piece, within its transaction.
pub struct StrandlineReader {
    reader: ValueReader<'static, 'static, Stm>,
    /// Becomes false when the transaction ends.
    lives: Rc<Cell<bool>>,
}

/// Begins to read the value of `key`, of `length` bytes, piece by piece. If the transaction changes the value meanwhile, what is read is
/// undefined. `STRANDLINE_NOT_FOUND`: there is no such key.
///
/// # Safety
/// As `strandline_put_from`; `reader` and `length` lead to places for them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_reader_begin(
    transaction: *mut StrandlineTransaction,
    map: *const StrandlineMap,
    key: *const c_void,
    key_length: usize,
    reader: *mut *mut StrandlineReader,
    length: *mut usize,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises. `'static` is longer than the truth: the reader is only used while `lives` says that the
        // transaction runs, and dropping it looks at nothing of the transaction.
        unsafe {
            put(reader, ptr::null_mut())?;
            put(length, 0)?;
            let running = running::<'static>(transaction)?;
            let key = crate::key(key, key_length)?;
            let found = reference(map, "a map")?.table.reader(running.view, key)?;
            let found = found.ok_or_else(|| not_found("there is no such key"))?;
            put(length, found.len() as usize)?;
            let begun = StrandlineReader { reader: found, lives: running.lives.clone() };
            put(reader, Box::into_raw(Box::new(begun)))
        }
    })
}

/// Copies `length` bytes of the value, from byte number `offset` on, to `into`. `STRANDLINE_PARAMETER`: it ends before.
///
/// # Safety
/// `reader` has not ended; `into` has room for so many bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_reader_read(
    reader: *mut StrandlineReader,
    offset: usize,
    into: *mut c_void,
    length: usize,
) -> c_int {
    answer(|| {
        // SAFETY: the caller promises a reader that has not ended, which one thread uses at a time.
        let it = unsafe { reader.as_mut() }.ok_or_else(|| parameter("a reader is needed, and not NULL"))?;
        if !it.lives.get() {
            return Err(parameter("the transaction of this reader has ended"));
        }
        let bytes = it.reader.len();
        if offset.checked_add(length).is_none_or(|end| end as u64 > bytes) {
            let what = format!("a value of {bytes} bytes has not {length} from byte number {offset} on");
            return Err(parameter(what));
        }
        if length == 0 {
            return Ok(());
        }
        if into.is_null() {
            return Err(parameter("a place for the bytes is needed, and not NULL"));
        }
        // SAFETY: as the caller promises, and bytes of any contents are bytes.
        let into = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), length) };
        Ok(it.reader.read_at(offset as u64, into)?)
    })
}

/// Ends a reader; in its transaction or after it.
///
/// # Safety
/// `reader` is one that has begun, only once and on the same thread, or null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_reader_end(reader: *mut StrandlineReader) {
    if !reader.is_null() {
        // SAFETY: it was made of a box.
        drop(unsafe { Box::from_raw(reader) });
    }
}
