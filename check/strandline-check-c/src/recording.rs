//! The recording. Each operation is one line, written immediately, so that the recording is complete even if the program dies.
//!
//! Nothing here allocates, since programs call it wherever they store, and signal handlers call it, too.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::fmt::{self, Write};
use std::io::BufRead;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering::Relaxed};

/// Larger than the descriptors that programs close in loops.
const DESCRIPTOR: i32 = 900;
/// The number of frames of a call that are recorded, at most.
const FRAMES: usize = 16;
/// The length of a line in bytes, at most.
const LINE: usize = 4096;

static OUTPUT: AtomicI32 = AtomicI32::new(-1);
static SEES_STORES: AtomicBool = AtomicBool::new(false);
static KNOWS_PLACES: AtomicBool = AtomicBool::new(false);

/// Opens the recording, if the checker requests one.
pub fn open() {
    let Some(path) = variable(c"STRANDLINE_RECORDING") else { return };
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero; the descriptor is this function's own.
    let output = unsafe {
        let low = libc::open(path.as_ptr(), flags, 0o600);
        let high = libc::fcntl(low, libc::F_DUPFD_CLOEXEC, DESCRIPTOR);
        if high < 0 {
            low
        } else {
            libc::close(low);
            high
        }
    };
    if output < 0 {
        say("the recording cannot be opened");
        return;
    }
    KNOWS_PLACES.store(variable(c"STRANDLINE_PLACES").is_some(), Relaxed);
    // The first call loads a library and allocates, which a handler must not.
    let _ = Place::caller();
    // Valgrind's processor does not stop after a single instruction.
    let is_in_valgrind = runs_in_valgrind();
    SEES_STORES.store(variable(c"STRANDLINE_ONLY_MARKED").is_none() && !is_in_valgrind, Relaxed);
    OUTPUT.store(output, Relaxed);
    if let Ok(program) = std::fs::read_link("/proc/self/exe") {
        write(format_args!("program {}", program.display()));
    }
    if is_in_valgrind {
        write(format_args!(
            "note valgrind runs the program, so only the stores of the header's macros and of libpmem's functions are recorded: \
             run it without valgrind, or check the log of valgrind's tool pmemcheck (--recording)"
        ));
    }
}

/// Returns whether this process runs under valgrind, which maps a library of its own into each program.
fn runs_in_valgrind() -> bool {
    let Ok(maps) = std::fs::File::open("/proc/self/maps") else { return false };
    std::io::BufReader::new(maps).lines().map_while(Result::ok).any(|line| line.contains("/vgpreload_core"))
}

/// Returns a variable of the environment.
pub fn variable(name: &CStr) -> Option<&'static CStr> {
    // SAFETY: the name ends with a zero; the checker's variables stay as they are.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    // SAFETY: `getenv` returns a string or null.
    (!value.is_null()).then(|| unsafe { CStr::from_ptr(value) })
}

/// Returns whether a recording is open.
pub fn is_open() -> bool {
    OUTPUT.load(Relaxed) >= 0
}

/// Returns whether the checker wants to know where in the program each operation is.
pub fn knows_places() -> bool {
    KNOWS_PLACES.load(Relaxed)
}

/// Returns whether to record stores by ordinary instructions.
pub fn sees_stores() -> bool {
    cfg!(target_arch = "x86_64") && SEES_STORES.load(Relaxed)
}

/// Prints `text` to standard error.
pub fn say(text: &str) {
    for part in ["strandline: ", text, "\n"] {
        // SAFETY: `part` has these bytes.
        unsafe { libc::write(2, part.as_ptr().cast(), part.len()) };
    }
}

thread_local! {
    /// The number of nested calls of recorded functions that this thread is in. A recorded function may call others, which are part of it.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A call of a function that is recorded.
pub struct Call(());

impl Call {
    /// Begins a call. Returns `true` with it if the program itself made the call, and `false` if another recorded function did.
    pub fn begin() -> (Self, bool) {
        let depth = DEPTH.replace(DEPTH.get() + 1);
        (Self(()), depth == 0 && is_open())
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// The place in a program that an operation comes from.
#[derive(Clone, Copy)]
pub enum Place {
    /// A source line: a string that ends with a zero, and the line number.
    Source(*const c_char, u32),
    /// The return addresses of the calls that led to the operation, the innermost first.
    Calls([*mut c_void; FRAMES], usize),
}

impl Place {
    /// Returns the place of the caller.
    pub fn caller() -> Self {
        let mut frames = [std::ptr::null_mut(); FRAMES];
        if !knows_places() {
            return Self::Calls(frames, 0);
        }
        // SAFETY: `frames` has room for `FRAMES` addresses.
        let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES as i32) };
        Self::Calls(frames, count as usize)
    }

    /// Returns the place of an instruction at `address` that a signal interrupted, for the signal's handler.
    #[cfg(target_arch = "x86_64")]
    pub fn interrupted(address: usize) -> Self {
        let Self::Calls(mut frames, count) = Self::caller() else { unreachable!() };
        if count == 0 {
            return Self::Calls(frames, 0);
        }
        let at = frames[..count].iter().position(|frame| frame.addr() == address);
        frames.copy_within(at.unwrap_or(count)..count, 0);
        let count = count - at.unwrap_or(count);
        frames[0] = std::ptr::without_provenance_mut(address + 1);
        Self::Calls(frames, count.max(1))
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Source(file, line) => {
                // SAFETY: the header passes the file's name as the compiler has made it.
                let file = unsafe { CStr::from_ptr(*file) };
                write_text(f, file)?;
                write!(f, ":{line}")
            }
            Self::Calls(frames, count) => {
                f.write_char('@')?;
                for (number, frame) in frames[..*count].iter().enumerate() {
                    let comma = if number == 0 { "" } else { "," };
                    write!(f, "{comma}{:x}", frame.addr())?;
                }
                Ok(())
            }
        }
    }
}

/// Writes a text on one line, without the parts that are not UTF-8.
fn write_text(f: &mut impl Write, text: &CStr) -> fmt::Result {
    for chunk in text.to_bytes().utf8_chunks() {
        for part in chunk.valid().split(['\n', '\r']) {
            f.write_str(part)?;
        }
    }
    Ok(())
}

/// A program's text, on one line.
pub struct Text<'a>(pub &'a CStr);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_text(f, self.0)
    }
}

/// Bytes, as hexadecimal digits.
pub struct Digits<'a>(pub &'a [u8]);

impl fmt::Display for Digits<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

struct Line {
    bytes: [u8; LINE],
    length: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // The last byte is for the end of the line.
        let room = self.bytes[..LINE - 1].get_mut(self.length..self.length + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.length += text.len();
        Ok(())
    }
}

/// Returns the system's number of this thread.
pub fn thread() -> i32 {
    // SAFETY: `gettid` only returns a number.
    unsafe { libc::gettid() }
}

/// Records a note for the reader of a report, unless `is_told` shows that it was recorded before.
pub fn note_once(is_told: &AtomicBool, text: &str) {
    if !is_told.swap(true, Relaxed) {
        write(format_args!("note {text}"));
    }
}

/// Records a line. A line that is too long is cut.
pub fn write(text: fmt::Arguments<'_>) {
    let mut line = Line { bytes: [0; LINE], length: 0 };
    let _ = line.write_fmt(text);
    line.bytes[line.length] = b'\n';
    let output = OUTPUT.load(Relaxed);
    // SAFETY: the buffer has these bytes. `errno` is restored, so that the program sees what its own call left.
    unsafe {
        let error = *libc::__errno_location();
        libc::write(output, line.bytes.as_ptr().cast(), line.length + 1);
        *libc::__errno_location() = error;
    }
}
