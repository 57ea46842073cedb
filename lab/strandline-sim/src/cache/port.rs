//! The port between the caches and memory, at which a hardware scheme sees the lines that pass.
//!
//! The caches own the memory and lend it to the port with each request, so that a scheme can read and write it. The machine, not the caches, calls a
//! scheme's actions on the caches, while no access is in progress.

use crate::controller::{Line, MemorySide};
use crate::numbers::{CoreId, Cycle, LineNumber};

/// The destination of a modified line on its way to memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WayHome {
    /// It goes home: it takes its place in the queue immediately, and begins on the medium no earlier than this.
    Home(Cycle),
    /// The scheme has taken it (into a victim cache or a log); it was accepted at this time.
    Taken(Cycle),
}

/// The interface between the last caches and memory.
pub trait MemoryPort {
    /// Called before a line is read from memory at `now`. Returns the scheme's own copy and when it is available, if home is not the newest.
    fn read(&mut self, _memory: &mut MemorySide, _line: LineNumber, _now: Cycle) -> Option<(Cycle, Line)> {
        None
    }

    /// Called when a line was read from memory for `core`, with the permission to write if `exclusive`; its words leave their controller at `at`.
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

    /// Called when a modified line is about to leave the caches for memory at `now`, evicted or written back.
    fn way_home(&mut self, memory: &mut MemorySide, line: LineNumber, data: &Line, now: Cycle) -> WayHome;

    /// Called when the last cache level has no room for a version that the scheme keeps there
    /// ([`Hierarchy::keep_version`](super::Hierarchy::keep_version)).
    fn version_overflow(&mut self, _memory: &mut MemorySide, _version: u32, _now: Cycle) {}
}
