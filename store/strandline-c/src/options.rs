//! The options for opening a database.

use std::ffi::c_char;
use std::ptr;
use std::time::Duration;

use strandline::{Domain, Geometry, Options};

use crate::status::{Stop, parameter};
use crate::text;

/// A domain: committed transactions survive a power failure, on any file system.
pub const STRANDLINE_SYNC: u32 = 0;
/// A domain: committed transactions survive a power failure, on persistent memory.
pub const STRANDLINE_FLUSH: u32 = 1;
/// A domain: as `STRANDLINE_FLUSH`, where the caches are flushed when power fails.
pub const STRANDLINE_FLUSH_ON_FAIL: u32 = 2;
/// A domain: committed transactions survive a killed process, but no power failure.
pub const STRANDLINE_PROCESS: u32 = 3;

/// Options with which a database is opened. All zeros are the defaults.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct StrandlineOptions {
    /// The failures that committed transactions survive: `STRANDLINE_SYNC`, ….
    pub domain: u32,
    /// Not 0: stores to the mapped file by anything but the library are segmentation faults. Needs a processor with protection keys.
    pub protect: u32,
    /// Not 0: all of the file is mapped while it is opened, and no transaction waits for that.
    pub map_ahead: u32,
    /// Not 0: a file that is not on persistent memory is opened under `STRANDLINE_FLUSH` all the same, for tests.
    pub assume_persistent: u32,
    /// The greatest size that a new database can reach, in bytes, a multiple of 4096; 0: 1 TB. Up to 16 threads can be in transactions at a time;
    /// in a database of less than 64 MB, one for each 4 MB.
    pub size: u64,
    /// Bytes to allocate on the disk for a new database immediately; 0: what it needs.
    pub initial_size: u64,
    /// Bytes of address space to reserve, a multiple of 4096; 0: enough for the database's greatest size.
    pub address_space: u64,
    /// `STRANDLINE_SYNC`: the most bytes of log; 0: 64 MB.
    pub log_bytes: u64,
    /// Bytes of memory for copies of the file's pages and for old versions, at least 4 MB; 0: half of what the machine or the container has, and at
    /// most 4 GB.
    pub memory_bytes: u64,
    /// Bytes of memory for what snapshots need; 0: 1 GB. At most a quarter of `memory_bytes`, or of its default, is taken.
    pub snapshot_bytes: u64,
    /// `STRANDLINE_SYNC`: how long a transaction of `strandline_write_later` may stay in memory, in microseconds; 0: 10,000.
    pub flush_interval_us: u64,
    /// Not 0: `strandline_open` opens the database for reading only, as `strandline_open_read_only` does.
    pub read_only: u32,
    /// For later versions: zero.
    pub reserved_flag: u32,
    /// The name of the program's format, in UTF-8, of at most 32 bytes. Opening a database that was created with another name returns
    /// `STRANDLINE_WRONG_LAYOUT`. NULL: the empty name.
    pub layout_name: *const c_char,
    /// For later versions: zeros.
    pub reserved: [u64; 3],
}

impl Default for StrandlineOptions {
    fn default() -> Self {
        Self {
            domain: STRANDLINE_SYNC,
            protect: 0,
            map_ahead: 0,
            assume_persistent: 0,
            size: 0,
            initial_size: 0,
            address_space: 0,
            log_bytes: 0,
            memory_bytes: 0,
            snapshot_bytes: 0,
            flush_interval_us: 0,
            read_only: 0,
            reserved_flag: 0,
            layout_name: ptr::null(),
            reserved: [0; 3],
        }
    }
}

impl StrandlineOptions {
    /// Returns the options of the library.
    ///
    /// # Safety
    /// `layout_name` is null, or a string.
    pub(crate) unsafe fn options(&self) -> Result<Options, Stop> {
        if (self.reserved_flag, self.reserved) != (0, [0; 3]) {
            return Err(parameter(
                "the reserved options have to be 0: set all of StrandlineOptions to zeros first",
            ));
        }
        let mut options = Options {
            domain: match self.domain {
                STRANDLINE_SYNC => Domain::Sync,
                STRANDLINE_FLUSH => Domain::Flush,
                STRANDLINE_FLUSH_ON_FAIL => Domain::FlushOnFail,
                STRANDLINE_PROCESS => Domain::Process,
                other => return Err(parameter(format!("there is no domain {other}: STRANDLINE_SYNC is 0"))),
            },
            protect: self.protect != 0,
            map_ahead: self.map_ahead != 0,
            assume_persistent: self.assume_persistent != 0,
            ..Options::default()
        };
        if !self.layout_name.is_null() {
            // SAFETY: the caller promises a string.
            options.layout_name = unsafe { text(self.layout_name, "a layout name") }?.into();
        }
        let given = |value: u64| (value != 0).then_some(value);
        options.initial_size = given(self.initial_size);
        options.address_space = given(self.address_space);
        options.memory = given(self.memory_bytes);
        if let Some(size) = given(self.size) {
            options.geometry = Geometry::of_size(size);
        }
        if let Some(bytes) = given(self.log_bytes) {
            options.sync.ring_blocks = bytes / 4096;
        }
        if let Some(bytes) = given(self.snapshot_bytes) {
            options.snapshot_bytes = bytes;
        }
        if let Some(microseconds) = given(self.flush_interval_us) {
            options.flush_interval = Duration::from_micros(microseconds);
        }
        Ok(options)
    }
}
