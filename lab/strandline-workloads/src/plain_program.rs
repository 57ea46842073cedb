//! Plain programs whose instructions are counted: the structures inlined over memory whose load is a load and whose store is a store, as a C compiler
//! makes them. They check nothing that C would not check, and the allocator has lists of freed blocks by size, like the front end of any C library's.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use strandline_core::error::{Abort, Error, Result};
use strandline_core::heap::{self, Access, Arenas};
use strandline_core::layout::{Layout, View};
use strandline_core::memory::{Memory, Native, PersistentAddress, Space};
use strandline_core::transaction::{Lock, Read, Runner, Statistics, Transaction};

/// The largest block in bytes that has a list.
const LISTED_BYTES: u64 = 8192;

/// A plain program that runs alone.
pub struct PlainProgram(PlainTransaction);

/// The program's critical section.
pub struct PlainTransaction {
    memory: Words,
    arenas: Arenas,
    /// The first freed block of each size in units of 16 bytes; a block's first word refers to the next one.
    free: Box<[u64]>,
    error: Option<Error>,
}

/// A copy of the pool's words.
struct Words {
    words: Box<[AtomicU64]>,
    layout: Layout,
}

impl PlainProgram {
    /// Creates a program with a copy of the pool's present contents.
    pub fn new(view: &View<Native>) -> Self {
        let layout = view.layout;
        // Parts that the file does not have yet are zeros.
        let size = view.memory.size(Space::Persistent);
        let value = |at| if at < size { view.memory.load(PersistentAddress::new(at)) } else { 0 };
        let words = (0..layout.geometry.size / 8).map(|index| AtomicU64::new(value(8 * index))).collect();
        let free = vec![0; (LISTED_BYTES / 16 + 1) as usize].into();
        Self(PlainTransaction { memory: Words { words, layout }, arenas: Arenas::new(0), free, error: None })
    }
}

impl Words {
    fn word(&self, at: PersistentAddress) -> &AtomicU64 {
        &self.range(at, 1)[0]
    }

    fn range(&self, at: PersistentAddress, words: usize) -> &[AtomicU64] {
        debug_assert!(
            at.offset().is_multiple_of(8) && at.offset() / 8 + words as u64 <= self.words.len() as u64
        );
        // SAFETY: addresses belong to the workload's structure, which this process has filled and which is intact. So they are inside the copy and
        // aligned to words, like a C program's pointers.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().byte_add(at.offset() as usize), words) }
    }
}

impl Access for Words {
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        Ok(self.word(at).load(Relaxed))
    }
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        let words = self.range(at, into.len());
        for (value, word) in into.iter_mut().zip(words) {
            *value = word.load(Relaxed);
        }
        Ok(())
    }
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.word(at).store(value, Relaxed);
        Ok(())
    }
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        for (value, word) in from.iter().zip(self.range(at, from.len())) {
            word.store(*value, Relaxed);
        }
        Ok(())
    }
    fn hint(&self, at: PersistentAddress) -> u64 {
        self.word(at).load(Relaxed)
    }
    #[cold]
    fn fail(&mut self, error: Error) -> Abort {
        // An error discards the whole run.
        panic!("{error:#}")
    }
    fn layout(&self) -> &Layout {
        &self.layout
    }
}

impl Read for PlainTransaction {
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort> {
        self.memory.read(at)
    }
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort> {
        self.memory.read_range(at, into)
    }
    fn root(&self, index: u64) -> PersistentAddress {
        self.memory.layout.root(index)
    }
    #[cold]
    fn fail(&mut self, error: Error) -> Abort {
        self.error.get_or_insert(error);
        Abort::Failed
    }
    fn heap_words(&self) -> u64 {
        self.memory.layout.heap_words()
    }
    fn find_block(&mut self, at: PersistentAddress) -> Result<Option<u64>, Abort> {
        heap::find_block(&mut self.memory, at)
    }
    fn is_allocated(&mut self, at: PersistentAddress) -> Result<bool, Abort> {
        heap::is_allocated(&mut self.memory, at)
    }
    fn next_allocated(&mut self, from: PersistentAddress) -> Result<Option<(PersistentAddress, u64)>, Abort> {
        heap::next_allocated(&mut self.memory, from)
    }
    fn tolerate(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Read) -> Result<(), Abort>,
    ) -> Result<Option<Error>, Abort> {
        match body(self) {
            Ok(()) | Err(Abort::Failed) => Ok(self.error.take()),
            Err(abort) => Err(abort),
        }
    }
}

impl Transaction for PlainTransaction {
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort> {
        self.memory.write(at, value)
    }
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort> {
        self.memory.write_range(at, from)
    }
    fn alloc(&mut self, bytes: u64) -> Result<PersistentAddress, Abort> {
        let bytes = heap::block_bytes(&self.memory.layout, bytes);
        if let Some(first) = self.free.get_mut((bytes / 16) as usize).filter(|first| **first != 0) {
            let at = PersistentAddress::new(*first);
            *first = self.memory.read(at)?;
            return Ok(at);
        }
        self.arenas.alloc(&mut self.memory, None, bytes)
    }
    fn free(&mut self, at: PersistentAddress) -> Result<(), Abort> {
        let bytes = heap::block(&mut self.memory, at)?;
        let Some(first) = self.free.get_mut((bytes / 16) as usize) else {
            return self.arenas.free(&mut self.memory, None, at);
        };
        self.memory.write(at, *first)?;
        *first = at.offset();
        Ok(())
    }
    /// Does not check whether a block is large enough, since C would not.
    fn block(&mut self, _: PersistentAddress) -> Result<u64, Abort> {
        Ok(u64::MAX)
    }
}

impl Runner for PlainProgram {
    type Tx<'t> = PlainTransaction;

    fn run<R>(&mut self, mut body: impl FnMut(&mut PlainTransaction) -> Result<R, Abort>) -> Result<R> {
        let tx = &mut self.0;
        body(tx).map_err(|_| tx.error.take().unwrap_or(Error::Aborted))
    }

    fn run_locked<R>(
        &mut self,
        _: &[Lock],
        body: impl FnMut(&mut PlainTransaction) -> Result<R, Abort>,
    ) -> Result<R> {
        self.run(body)
    }

    fn view<R>(&mut self, body: impl FnMut(&mut PlainTransaction) -> Result<R, Abort>) -> Result<R> {
        self.run(body)
    }

    fn takes_locks(&self) -> bool {
        false
    }

    fn statistics(&self) -> Statistics {
        Statistics::default()
    }

    fn rolls_back(&self) -> bool {
        false
    }
}
