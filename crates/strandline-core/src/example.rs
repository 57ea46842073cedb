//! What the examples in the documentation begin with, and the pool in a recorder's memory that tests of several crates use.

mod test_pool;

use std::rc::Rc;

pub use test_pool::{SMALL, TestPool};

pub use crate::engine::Worker;
pub use crate::layout::{Geometry, Layout, SharedLayout, View};
pub use crate::memory::recorder::Recorder;
pub use crate::memory::{Hosted, Memory, PersistentAddress, Step, VolatileAddress};
pub use crate::{Concurrency, Read, Runner, Transaction};

/// A small pool in a recorder's memory, with two logs.
pub fn recorded() -> (Rc<Recorder>, View<Hosted>, Layout) {
    let geometry = Geometry { size: 1 << 18, logs: 2, log_bytes: 1 << 12, chunk_bytes: 1 << 12 };
    let layout = Layout::new(geometry).expect("the sizes are possible");
    let shared = SharedLayout::new(&layout, 10, 0);
    let words = vec![0; geometry.size as usize / 8];
    let recorder = Rc::new(Recorder::new(words, shared.bytes(), 0, 1, None));
    (recorder.clone(), View { memory: Hosted::new(recorder, 0), layout, shared }, layout)
}
