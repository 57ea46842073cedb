//! Runners whose type is erased.
//!
//! A program that knows its runner and its structure compiles the structure for that runner, which makes it fast. If speed does not matter, as on a
//! simulated machine, in a recorder or while a pool is filled, [`AnyRunner`] avoids compiling each structure again for each runner.

use crate::error::{Error, Result};
use crate::memory::{MappedWords, PersistentAddress};

use super::{Abort, Lock, Plain, Read, Runner, Statistics, Transaction};

/// A runner of any type. Its transactions are trait objects, so each access is an indirect call.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// use strandline_core::engine::{Setup, SingleWriter, Stm};
/// use strandline_core::transaction::AnyRunner;
///
/// let alone = std::env::args().any(|argument| argument == "--one-writer");
/// let (shared, single);
/// // Two types, one runner.
/// let mut runner = if alone {
///     single = Setup::from(SingleWriter).create(&path, &options)?;
///     AnyRunner::new(single.worker()?)
/// } else {
///     shared = Setup::from(Stm).create(&path, &options)?;
///     AnyRunner::new(shared.worker()?)
/// };
/// runner.run(|tx| tx.write(tx.root(0), 5))?;
/// assert_eq!(runner.view(|tx| tx.read(tx.root(0)))?, 5);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub struct AnyRunner<'r>(Box<dyn RunnerObject + 'r>);

impl<'r> AnyRunner<'r> {
    /// Erases the type of `runner`.
    pub fn new(runner: impl Runner + 'r) -> Self {
        Self(Box::new(runner))
    }

    fn execute<R>(
        &mut self,
        how: How,
        mut body: impl FnMut(&mut &mut dyn Transaction) -> Result<R, Abort>,
    ) -> Result<R> {
        let mut result = None;
        self.0.execute(how, &mut |mut tx| {
            result = Some(body(&mut tx)?);
            Ok(())
        })?;
        Ok(result.expect("a transaction commits after its body has run"))
    }
}

/// Selects one of a runner's methods.
#[derive(Clone, Copy)]
enum How<'l> {
    Run,
    RunLocked(&'l [Lock]),
    View,
}

type Body<'b> = dyn FnMut(&mut dyn Transaction) -> Result<(), Abort> + 'b;

/// The methods of [`Runner`] without type parameters.
trait RunnerObject {
    fn execute(&mut self, how: How, body: &mut Body) -> Result<()>;
    fn takes_locks(&self) -> bool;
    fn trusts_locks(&self) -> bool;
    fn drain(&mut self) -> Result<()>;
    fn statistics(&self) -> Statistics;
    fn rolls_back(&self) -> bool;
}

impl<R: Runner> RunnerObject for R {
    fn execute(&mut self, how: How, body: &mut Body) -> Result<()> {
        match how {
            How::Run => self.run(|tx| body(tx)),
            How::RunLocked(locks) => self.run_locked(locks, |tx| body(tx)),
            How::View => self.view(|tx| body(tx)),
        }
    }

    fn takes_locks(&self) -> bool {
        Runner::takes_locks(self)
    }

    fn trusts_locks(&self) -> bool {
        Runner::trusts_locks(self)
    }

    fn drain(&mut self) -> Result<()> {
        Runner::drain(self)
    }

    fn statistics(&self) -> Statistics {
        Runner::statistics(self)
    }

    fn rolls_back(&self) -> bool {
        Runner::rolls_back(self)
    }
}

impl Runner for AnyRunner<'_> {
    type Tx<'t> = &'t mut (dyn Transaction + 't);

    fn run<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R> {
        self.execute(How::Run, body)
    }

    fn run_locked<R>(
        &mut self,
        locks: &[Lock],
        body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>,
    ) -> Result<R> {
        self.execute(How::RunLocked(locks), body)
    }

    fn takes_locks(&self) -> bool {
        self.0.takes_locks()
    }

    fn trusts_locks(&self) -> bool {
        self.0.trusts_locks()
    }

    fn drain(&mut self) -> Result<()> {
        self.0.drain()
    }

    fn view<R>(&mut self, body: impl FnMut(&mut Self::Tx<'_>) -> Result<R, Abort>) -> Result<R> {
        self.execute(How::View, body)
    }

    fn statistics(&self) -> Statistics {
        self.0.statistics()
    }

    fn rolls_back(&self) -> bool {
        self.0.rolls_back()
    }
}

impl<T: Read + ?Sized> Read for &mut T {
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        T::read(self, at)
    }
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        T::read_range(self, at, into)
    }
    // For a `tx: &mut impl Read`, `tx.plain()` and `tx.prefetch(…)` call these methods.
    fn plain(&self) -> Option<Plain<'_>> {
        T::plain(self)
    }
    fn guard(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        T::guard(self, at)
    }
    fn read_pages(
        &mut self,
        guard: PersistentAddress,
        at: PersistentAddress,
        into: &mut [u64],
    ) -> Result<(), Abort> {
        T::read_pages(self, guard, at, into)
    }
    fn prepare_to_borrow(&mut self, at: PersistentAddress, pages: u64) -> Result<bool, Abort> {
        T::prepare_to_borrow(self, at, pages)
    }
    unsafe fn borrow_pages(&self, at: PersistentAddress, bytes: u64) -> Option<&[u8]> {
        // SAFETY: the caller promises it.
        unsafe { T::borrow_pages(self, at, bytes) }
    }
    fn mapped_words(&self, at: PersistentAddress, count: u64) -> Option<MappedWords<'_>> {
        T::mapped_words(self, at, count)
    }
    fn prefetch(&self, at: PersistentAddress, words: usize) {
        T::prefetch(self, at, words);
    }
    fn read_ahead(&self, places: &mut [PersistentAddress], words: usize, further: u64) {
        T::read_ahead(self, places, words, further);
    }
    fn walk(&self, begins: bool) {
        T::walk(self, begins);
    }
    fn pages_waited_for(&self) -> u64 {
        T::pages_waited_for(self)
    }
    fn root(&self, index: u64) -> PersistentAddress {
        T::root(self, index)
    }
    fn fail(&mut self, error: Error) -> Abort {
        T::fail(self, error)
    }
    fn heap_words(&self) -> u64 {
        T::heap_words(self)
    }
    fn find_block(&mut self, at: PersistentAddress) -> Result<Option<u64>, Abort> {
        T::find_block(self, at)
    }
    fn is_allocated(&mut self, at: PersistentAddress) -> Result<bool, Abort> {
        T::is_allocated(self, at)
    }
    fn next_allocated(&mut self, from: PersistentAddress) -> Result<Option<(PersistentAddress, u64)>, Abort> {
        T::next_allocated(self, from)
    }
    fn tolerate(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Read) -> Result<(), Abort>,
    ) -> Result<Option<Error>, Abort> {
        T::tolerate(self, body)
    }
}

impl<T: Transaction + ?Sized> Transaction for &mut T {
    fn worker_number(&self) -> u64 {
        T::worker_number(self)
    }
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        T::write(self, at, value)
    }
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        T::write_range(self, at, from)
    }
    fn alloc(&mut self, bytes: u64) -> Result<PersistentAddress, Abort> {
        T::alloc(self, bytes)
    }
    fn free(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        T::free(self, at)
    }
    fn alloc_pages(&mut self, most: u64) -> Result<Option<(PersistentAddress, u64)>, Abort> {
        T::alloc_pages(self, most)
    }
    fn fill_pages(&mut self, at: PersistentAddress, words: &[u64]) -> Result<(), Abort> {
        T::fill_pages(self, at, words)
    }
    fn free_pages(&mut self, at: PersistentAddress, pages: u64) -> Result<(), Abort> {
        T::free_pages(self, at, pages)
    }
    fn block(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        T::block(self, at)
    }
    fn begin_section(&mut self, lock: Lock) {
        T::begin_section(self, lock);
    }
    fn end_section(&mut self, is_done: bool) {
        T::end_section(self, is_done);
    }
}
