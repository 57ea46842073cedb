//! NP, no persistence (Blurred Persistence, section V-A): the same transactions with a volatile execution
//! area and nothing that makes them durable. The upper bound of every scheme.

use super::{Full, RecoveryReport, RecoveryStep, Scheme, SchemeKind};
use crate::error::Error;
use crate::memory::{Memory, PersistentAddress};
use crate::pool::layout::View;
use crate::transaction::{Concurrency, Statistics, WriteSet};

/// The execution area of one worker.
pub struct NoPersistence {
    values: Vec<u64>,
}

impl Scheme for NoPersistence {
    const KIND: SchemeKind = SchemeKind::NoPersistence;

    fn lease<M: Memory>(_: &View<M>, _: u64) -> Self {
        Self { values: Vec::with_capacity(1024) }
    }

    fn release<M: Memory>(&mut self, _: &View<M>) {}

    #[inline(always)]
    fn begin<M: Memory>(&mut self, _: &View<M>) {
        self.values.clear();
    }

    #[inline(always)]
    fn write<M: Memory>(
        &mut self,
        _: &View<M>,
        _: PersistentAddress,
        value: u64,
        previous: Option<u32>,
    ) -> Result<u32, Full> {
        if let Some(place) = previous {
            self.values[place as usize] = value;
            return Ok(place);
        }
        let place = self.values.len() as u32;
        self.values.push(value);
        Ok(place)
    }

    #[inline(always)]
    fn value<M: Memory>(&self, _: &View<M>, place: u32) -> u64 {
        self.values[place as usize]
    }

    fn running_records(&self) -> (PersistentAddress, u64) {
        (PersistentAddress::NULL, 0)
    }

    #[inline(always)]
    fn commit<M: Memory>(&mut self, _: &View<M>, _: u64) -> u64 {
        0
    }

    #[inline(always)]
    fn stored_home<M: Memory>(&mut self, _: &View<M>, _: &WriteSet, _: Concurrency) {}

    fn abort<M: Memory>(&mut self, _: &View<M>) {}

    fn make_room<M: Memory>(&mut self, _: &View<M>, _: Concurrency, _: &mut Statistics) -> Result<(), Error> {
        Ok(())
    }
    fn recover<M: Memory>(_: &View<M>, _: &mut dyn FnMut(RecoveryStep)) -> Result<RecoveryReport, Error> {
        Err(Error::Unprotected)
    }

    /// Nothing tells what it has stored: its pools are made durable as a whole, when they are closed.
    fn drain<M: Memory>(_: &View<M>) {}
}
