//! NP, no persistence (Blurred Persistence, section V-A): the same transactions with a volatile execution
//! area and nothing that makes them durable. The upper bound of every scheme.

use super::execution_area::ExecutionArea;
use super::{Full, RecoveryReport, RecoveryStep, Scheme, SchemeKind};
use crate::error::Error;
use crate::memory::{Memory, PersistentAddress};
use crate::pool::layout::View;

/// The execution area of one worker.
pub struct NoPersistence(ExecutionArea);

impl Scheme for NoPersistence {
    const KIND: SchemeKind = SchemeKind::NoPersistence;

    fn lease<M: Memory>(_: &View<M>, _: u64) -> Self {
        Self(ExecutionArea::default())
    }

    fn release<M: Memory>(&mut self, _: &View<M>) {}

    #[inline(always)]
    fn begin<M: Memory>(&mut self, _: &View<M>) {
        self.0.clear();
    }

    #[inline(always)]
    fn write<M: Memory>(
        &mut self,
        _: &View<M>,
        at: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        Ok(self.0.write((at, value), previous))
    }

    #[inline(always)]
    fn value<M: Memory>(&self, _: &View<M>, place: u32) -> u64 {
        self.0.value(place)
    }

    fn recover<M: Memory>(_: &View<M>, _: &mut dyn FnMut(RecoveryStep)) -> Result<RecoveryReport, Error> {
        Err(Error::Unprotected)
    }

    /// Nothing tells what it has stored: its pools are made durable as a whole, when they are closed.
    fn drain<M: Memory>(_: &View<M>) {}
}
