//! A small pool in hosted memory, for tests. It records its operations.

use std::rc::Rc;

use crate::engine::{Control, Over, Setup, Worker};
use crate::layout::{Geometry, Layout, SharedLayout, View};
use crate::memory::recorder::Recorder;
use crate::memory::{Hosted, Step, World};
use crate::scheme::{SchemeKind, SchemeObject};
use crate::{Concurrency, Result};

/// A pool in a recorder's memory.
pub struct TestPool {
    /// The recorder, which is the world that the pool's hosted memory calls.
    pub recorder: Rc<Recorder>,
    /// The layout of the pool.
    pub layout: Layout,
    /// The layout of the volatile words.
    pub shared: SharedLayout,
}

/// A geometry with small logs and chunks, so that rare paths run.
pub const SMALL: Geometry = Geometry { size: 256 << 10, logs: 3, log_bytes: 4096, chunk_bytes: 4096 };

impl TestPool {
    /// Creates a pool with these contents; all zeros are an empty pool.
    pub fn new(
        geometry: Geometry,
        image: Option<Vec<u64>>,
        switch_every: u32,
        seed: u64,
        omitted: Option<Step>,
    ) -> Self {
        let layout = Layout::new(geometry).unwrap();
        let shared = SharedLayout::new(&layout, 10, 0);
        let image = image.unwrap_or_else(|| vec![0; (geometry.size / 8) as usize]);
        let recorder = Rc::new(Recorder::new(image, shared.bytes(), switch_every, seed, omitted));
        Self { recorder, layout, shared }
    }

    /// Returns the recorder as a world, for `coroutines::run`.
    pub fn world(&self) -> Rc<dyn World> {
        self.recorder.clone()
    }

    /// Returns a view of the pool over `memory`.
    pub fn over<M>(&self, memory: M) -> View<M> {
        View { memory, layout: self.layout, shared: self.shared }
    }

    /// Returns a view for use outside coroutines.
    pub fn view(&self) -> View<Hosted> {
        self.over(Hosted::new(self.world(), 0))
    }

    /// Leases a worker under BPPM for use outside coroutines, on the path of its control.
    pub fn worker<C: Control<Scheme: SchemeObject<Hosted>>>(
        &self,
        setup: impl Into<Setup<C>>,
    ) -> Result<Worker<Over<C, Hosted>>> {
        Worker::lease(self.view(), setup, None)
    }

    /// Leases a worker under any scheme, on the laboratory's path.
    pub fn worker_of(
        &self,
        kind: SchemeKind,
        setup: impl Into<Setup<Concurrency>>,
    ) -> Result<Worker<Over<Concurrency, Hosted>>> {
        Worker::lease_of(self.view(), kind, setup, None)
    }
}
