//! The port between the caches and memory, at which a hardware scheme sees the lines that pass.
//!
//! The caches own the memory and hand it to the port with each request, so that a scheme can read and write it. A scheme that
//! acts on the caches is called by the machine instead, while no access is under way.

use crate::controller::{Line, MemorySide};
use crate::numbers::{CoreId, Cycle, LineNumber};

/// What becomes of a modified line on its way to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayHome {
    /// It goes home: it takes its place in the queue at once, and begins on the medium no earlier than this.
    Home(Cycle),
    /// The scheme has taken it (a victim cache, a log); it was accepted at this time.
    Taken(Cycle),
}

/// What is between the last caches and memory.
pub trait MemoryPort {
    /// A line is about to be read from memory at `now`: the scheme's own copy, and when it is there, if home is not
    /// the newest.
    fn read(&mut self, _memory: &mut MemorySide, _line: LineNumber, _now: Cycle) -> Option<(Cycle, Line)> {
        None
    }

    /// A line was read from memory for `core`, with the permission to write if `exclusive`; its words leave their controller
    /// at `at`.
    fn fetched(
        &mut self,
        _memory: &mut MemorySide,
        _core: CoreId,
        _exclusive: bool,
        _line: LineNumber,
        _data: &Line,
        _at: Cycle,
    ) {
    }

    /// A modified line is about to leave the caches for memory at `now`, evicted or written back.
    fn way_home(&mut self, memory: &mut MemorySide, line: LineNumber, data: &Line, now: Cycle) -> WayHome;

    /// The last cache level has no room for a version that the scheme keeps there
    /// ([`Hierarchy::keep_version`](super::Hierarchy::keep_version)).
    fn version_overflow(&mut self, _memory: &mut MemorySide, _version: u32, _now: Cycle) {}
}
