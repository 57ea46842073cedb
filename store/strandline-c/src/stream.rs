//! Values that are stored and read piece by piece.

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io::{self, Read, Write};
use std::ptr;
use std::rc::Rc;

use strandline::{Stm, ValueReader};

use crate::map::StrandlineMap;
use crate::status::{Stop, answer, not_found, parameter};
use crate::transaction::{Running, StrandlineTransaction, running};
use crate::{put, reference};

/// Writes the next `length` bytes of a value to `into`. Returns 0 for that; anything else ends `strandline_put_from`, which returns
/// it. It may use the transaction, and must not leave by `longjmp` or a C++ exception.
pub type StrandlineSource =
    Option<unsafe extern "C" fn(argument: *mut c_void, into: *mut c_void, length: usize) -> c_int>;

/// A C function that provides the bytes of a value.
struct Source<'a> {
    source: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> c_int,
    argument: *mut c_void,
    /// The code that the function returned instead of providing bytes.
    refused: &'a Cell<c_int>,
}

impl Read for Source<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the caller of `strandline_put_from` promises that `source` may be called with `argument`, and `into` has room for the length that
        // is passed.
        let code = unsafe { (self.source)(self.argument, into.as_mut_ptr().cast(), into.len()) };
        self.refused.set(code);
        if code == 0 { Ok(into.len()) } else { Err(io::Error::other("the program gave no bytes")) }
    }
}

/// Stores under `key` a value of `value_length` bytes, which `source` fills in piece by piece, in order. In a database on an ordinary
/// file, the value is never in memory as a whole. If `source` fails, the key keeps the value that it had, and the call returns what
/// `source` returned.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the map at the same time. `source` is called on
/// this thread.
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
            Err(_) if refused.get() != 0 => Err(Stop::Code(refused.get(), "the source of the value failed")),
            done => Ok(done?),
        }
    })
}

/// Takes the next `length` bytes of a value, at `piece`, which are valid until it returns. Returns 0 to go on; anything else ends
/// `strandline_get_to`, which returns it. It must not leave by `longjmp` or a C++ exception.
///
/// It cannot use the transaction or the snapshot that the value is read from, nor their iterators and readers, except for ending
/// iterators and readers: every call returns `STRANDLINE_PARAMETER`. It may use other transactions and snapshots; in a read from a
/// snapshot, it may also write to the database.
pub type StrandlineSink =
    Option<unsafe extern "C" fn(argument: *mut c_void, piece: *const c_void, length: usize) -> c_int>;

/// A C function that receives the pieces of a value.
struct Sink<'a> {
    sink: unsafe extern "C" fn(*mut c_void, *const c_void, usize) -> c_int,
    argument: *mut c_void,
    /// The code with which the function stopped.
    refused: &'a Cell<c_int>,
    running: &'a Running<'a, 'a>,
}

impl Write for Sink<'_> {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let before = self.running.is_lending.replace(true);
        // SAFETY: the caller of `strandline_get_to` promises that `sink` may be called with `argument`.
        let code = unsafe { (self.sink)(self.argument, piece.as_ptr().cast(), piece.len()) };
        self.running.is_lending.set(before);
        self.refused.set(code);
        if code == 0 { Ok(piece.len()) } else { Err(io::Error::other("the program took no more bytes")) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads the value of `key`: calls `sink` with one piece after another, in order, which together are the value. A value of up to
/// 16,384 bytes is one piece, also one of 0 bytes. A larger one has pieces of any length; read from a snapshot or in the body of
/// `strandline_read`, they are not copied (`STRANDLINE_SYNC`).
///
/// If `sink` returns anything but 0, it is not called again, and the call returns that. Returns `STRANDLINE_NOT_FOUND` if there is no
/// such key; `sink` is not called then. If the call fails, `sink` may have been given the beginning of the value. After
/// `STRANDLINE_INTERRUPTED`, which a snapshot never returns, the body runs again and reads the value from its beginning.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the map at the same time. `sink` is called on this
/// thread.
///
/// # Safety
/// `transaction` runs; `map` is open; `key` has as many bytes as its length says; `sink` may be called with `argument`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_get_to(
    transaction: *mut StrandlineTransaction,
    map: *const StrandlineMap,
    key: *const c_void,
    key_length: usize,
    sink: StrandlineSink,
    argument: *mut c_void,
) -> c_int {
    answer(|| {
        // SAFETY: as the caller promises.
        let (running, map, key) =
            unsafe { (running(transaction)?, reference(map, "a map")?, crate::key(key, key_length)?) };
        let sink = sink.ok_or_else(|| parameter("a sink for the bytes is needed, and not NULL"))?;
        let found = map.table.reader(running.view, key)?;
        let mut reader = found.ok_or_else(|| not_found("there is no such key"))?;
        let refused = Cell::new(0);
        let mut to = Sink { sink, argument, refused: &refused, running };
        let done = if reader.is_empty() {
            // An empty value is a piece, too. The call goes through `read_with`, so that the sink cannot use the transaction here either.
            map.table.read_with(running.view, key, |empty| to.write(empty).map(drop)).map(drop)
        } else {
            reader.write_to(to).map(drop)
        };
        match refused.get() {
            0 => Ok(done?),
            code => Err(Stop::Code(code, "the sink of the value stopped")),
        }
    })
}

/// A reader of parts of a value, within its transaction.
pub struct StrandlineReader {
    reader: ValueReader<'static, 'static, Stm>,
    /// Becomes false when the transaction ends.
    lives: Rc<Cell<bool>>,
}

/// Begins to read the value of `key`, of `length` bytes, in parts. Returns `STRANDLINE_NOT_FOUND` if there is no such key. If the
/// transaction changes the value meanwhile, the bytes that are read are undefined.
///
/// Threads: the one that runs the body, or that uses the snapshot. Others may use the map at the same time.
///
/// # Safety
/// As for `strandline_put`; `reader` and `length` refer to room for a pointer and a length.
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
        // SAFETY: as the caller promises. The real lifetime is shorter than `'static`: the reader is used only while `lives` is set, which means that
        // the transaction runs, and dropping the reader does not access the transaction.
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

/// Copies `length` bytes of the value, from byte number `offset` on, to `into`. Returns `STRANDLINE_PARAMETER` if the value ends
/// before.
///
/// Threads: the one of the reader's transaction or snapshot.
///
/// # Safety
/// `reader` has not ended; `into` has room for `length` bytes.
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
            let what =
                format!("a value of {bytes} bytes does not have {length} bytes from offset {offset} on");
            return Err(parameter(what));
        }
        if length == 0 {
            return Ok(());
        }
        if into.is_null() {
            return Err(parameter("a place for the bytes is needed, and not NULL"));
        }
        // SAFETY: as the caller promises; bytes of any content are valid.
        let into = unsafe { std::slice::from_raw_parts_mut(into.cast::<u8>(), length) };
        Ok(it.reader.read_at(offset as u64, into)?)
    })
}

/// Ends a reader, during its transaction or after it.
///
/// Threads: the one of the reader's transaction or snapshot.
///
/// # Safety
/// `reader` has begun and is ended once; or it is null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn strandline_reader_end(reader: *mut StrandlineReader) {
    if !reader.is_null() {
        // SAFETY: it was made from a box.
        drop(unsafe { Box::from_raw(reader) });
    }
}
