//! Waist 1: the operations that structures use, and the concurrency controls below them.
//!
//! A structure accesses persistent words only through [`Read`] and [`Transaction`]. Their methods return `Result<_, Abort>`, so that a conflict or a
//! user's abort unwinds with `?`; the runner of the transaction then repeats it or reports the reason. Pool words cannot be accessed outside
//! transactions, and there are no references into pool memory, because reads copy.

mod any;
mod control;
pub(crate) mod locks;
pub(crate) mod plain;
mod runner;
mod statistics;
pub(crate) mod write_set;

pub use crate::error::Abort;
pub use any::AnyRunner;
pub use control::Concurrency;
pub use locks::{Holder, Lock, LockSet};
pub use plain::Plain;
pub use runner::Runner;
pub use statistics::Statistics;
pub(crate) use statistics::Tally;
pub use write_set::WriteSet;

use crate::error::Error;
use crate::memory::{MappedWords, PAGE_BYTES, PersistentAddress};

/// Reading in a transaction.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// use strandline_core::Abort;
/// use strandline_core::memory::PersistentAddress;
///
/// // The first word of the block to which a root refers.
/// fn first(tx: &mut impl Read, root: u64) -> Result<u64, Abort> {
///     let at = tx.read(tx.root(root))?;
///     if at == 0 { Ok(0) } else { tx.read(PersistentAddress::new(at)) }
/// }
///
/// let pool = Pool::create(&path, &options)?;
/// assert_eq!(pool.worker()?.view(|tx| first(tx, 0))?, 0);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub trait Read {
    /// Reads the word at `at`.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// worker.run(|tx| tx.write(tx.root(2), 5))?;
    /// assert_eq!(worker.view(|tx| tx.read(tx.root(2)))?, 5);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict or if an address is outside the heap.
    fn read(&mut self, at: PersistentAddress) -> Result<u64, Abort>;

    /// Reads consecutive words.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
    /// let mut words = [0; 2];
    /// worker.view(|tx| tx.read_range(tx.root(1), &mut words))?;
    /// assert_eq!(words, [2, 3]);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Read::read`].
    fn read_range(&mut self, at: PersistentAddress, into: &mut [u64]) -> Result<(), Abort>;

    /// Reads `N` consecutive words, which is fastest within one cache line.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// worker.run(|tx| tx.write_range(tx.root(0), &[1, 2, 3]))?;
    /// assert_eq!(worker.view(|tx| tx.read_array(tx.root(1)))?, [2, 3]);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Read::read`].
    fn read_array<const N: usize>(&mut self, at: PersistentAddress) -> Result<[u64; N], Abort>
    where
        Self: Sized,
    {
        let mut words = [0; N];
        self.read_range(at, &mut words)?;
        Ok(words)
    }

    /// Returns a reader that only loads the words, or `None` if each read has to consult the concurrency control. A single writer that has written
    /// nothing yet has such a reader; read-only transactions and those of the STM do not. The reader fails for words by which the pool has grown
    /// recently, so after an error, read with the transaction itself.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (path, options) = path_and_options();
    /// use strandline_core::engine::{Setup, SingleWriter};
    ///
    /// let pool = Setup::from(SingleWriter).create(&path, &options)?;
    /// let mut worker = pool.worker()?;
    /// let seen = worker.run(|tx| {
    ///     let root = tx.root(0);
    ///     let before = tx.plain().and_then(|mut plain| plain.read(root).ok());
    ///     tx.write(root, 5)?;
    ///     // A transaction reads its own writes.
    ///     assert!(tx.plain().is_none());
    ///     Ok(before)
    /// })?;
    /// assert_eq!(seen, Some(0));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    fn plain(&self) -> Option<Plain<'_>> {
        None
    }

    /// Runs `search` once directly on the pool's words, if that is possible. Returns `None` if it is not, if the words on which the search relied
    /// have changed meanwhile, or if the search failed; search with this reader then. See [`OptimisticSearch`].
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// use strandline_core::Abort;
    /// use strandline_core::transaction::OptimisticSearch;
    ///
    /// /// Returns the first of the other seven root words that is not zero. Each transaction that writes one of them also writes the first word.
    /// struct First;
    ///
    /// impl OptimisticSearch for First {
    ///     type Found = Option<u64>;
    ///     fn search(&mut self, tx: &mut impl Read) -> Result<Option<u64>, Abort> {
    ///         tx.guard(tx.root(0))?;
    ///         let words: [u64; 8] = tx.read_array(tx.root(0))?;
    ///         Ok(words[1..].iter().copied().find(|&word| word != 0))
    ///     }
    /// }
    ///
    /// worker.run(|tx| tx.write_range(tx.root(0), &[1, 0, 0, 5]))?;
    /// let found = worker.view(|tx| match tx.search_optimistically(&mut First) {
    ///     Some(found) => Ok(found),
    ///     None => First.search(tx),
    /// })?;
    /// assert_eq!(found, Some(5));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    fn search_optimistically<S: OptimisticSearch>(&mut self, _search: &mut S) -> Option<S::Found>
    where
        Self: Sized,
    {
        None
    }

    /// In an [`OptimisticSearch`]: makes the search depend on the line of `at`: what it reads from here on is valid only if the line does not change
    /// until the search ends. Elsewhere this does nothing.
    ///
    /// # Errors
    /// Returns an error if another transaction writes to the line, or if it is too new.
    fn guard(&mut self, _at: PersistentAddress) -> Result<(), Abort> {
        Ok(())
    }

    /// In an [`OptimisticSearch`]: returns `count` words from `at` on, if the search may read them directly in the pool's file. Elsewhere `None`.
    fn mapped_words(&self, _at: PersistentAddress, _count: u64) -> Option<MappedWords<'_>> {
        None
    }

    /// Reads words of an extent ([`Transaction::alloc_pages`]). `guard` is a word to which each transaction writes that frees these pages.
    ///
    /// # Errors
    /// Returns the errors of [`Read::read`].
    fn read_pages(
        &mut self,
        _guard: PersistentAddress,
        at: PersistentAddress,
        into: &mut [u64],
    ) -> Result<(), Abort> {
        self.read_range(at, into)
    }

    /// Returns whether [`Read::borrow_pages`] may lend `pages` pages of an extent from `at` on, until the transaction or snapshot ends. If possible,
    /// a read-only transaction continues at a snapshot from here on.
    ///
    /// # Errors
    /// Returns an error after a conflict, or if the snapshot was ended.
    fn prepare_to_borrow(&mut self, _at: PersistentAddress, _pages: u64) -> Result<bool, Abort> {
        Ok(false)
    }

    /// Returns the first `bytes` bytes of consecutive pages directly in memory, without a copy, or `None` if they have to be read.
    ///
    /// # Safety
    /// [`Read::prepare_to_borrow`] has returned true for all of these pages in this transaction or snapshot, and the pool is open. No code writes to
    /// pages of extents except the transaction that has allocated them, before it commits.
    unsafe fn borrow_pages(&self, _at: PersistentAddress, _bytes: u64) -> Option<&[u8]> {
        None
    }

    /// Hints that `words` words from `at` on will soon be read. Several hints let the memory fetch the places at the same time.
    fn prefetch(&self, _at: PersistentAddress, _words: usize) {}

    /// Hints that `words` words from each of `places` on will soon be read, and may have to come from the pool's file. All places are requested at
    /// once, in an order that suits the disk. Where places are adjacent, `further` bytes behind them are requested as well.
    fn read_ahead(&self, _places: &mut [PersistentAddress], _words: usize, _further: u64) {}

    /// Hints that a walk over most of the pool begins or has ended.
    fn walk(&self, _begins: bool) {}

    /// Returns the number of times that this thread has waited for pages of a file. If it does not change, [`read_ahead`](Self::read_ahead) is of no use.
    fn pages_waited_for(&self) -> u64 {
        0
    }

    /// Returns the address of root word `index`, one of eight entry points for structures.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// use strandline_core::layout::ROOTS;
    ///
    /// let roots = worker.view(|tx| Ok((0..ROOTS).map(|index| tx.root(index)).collect::<Vec<_>>()))?;
    /// assert_eq!(roots[7], roots[0].word(7));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    fn root(&self, index: u64) -> PersistentAddress;

    /// Returns the number of words in the heap, as far as this transaction knows the pool's length. It learns a new length when it reads behind the
    /// known one. A pool may grow a thousandfold.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// assert!(worker.view(|tx| Ok(tx.heap_words()))? < pool.header().geometry.size / 8);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    fn heap_words(&self) -> u64;

    /// Returns the size in bytes of the heap's block that begins at `at`, allocated or not, or `None` if none begins there. Structures compare
    /// lengths that they read from the pool with it before they allocate memory for so much.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// let block = worker.run(|tx| tx.alloc(100))?;
    /// // Unlike with [`Transaction::block`], the transaction continues.
    /// assert_eq!(worker.view(|tx| tx.find_block(block.word(1)))?, None);
    /// assert_eq!(worker.view(|tx| tx.find_block(block))?, Some(128));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict.
    fn find_block(&mut self, at: PersistentAddress) -> Result<Option<u64>, Abort>;

    /// Returns whether a block or a large object that is allocated begins at `at`.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// let block = worker.run(|tx| tx.alloc(100))?;
    /// assert!(worker.view(|tx| tx.is_allocated(block))?);
    /// worker.run(|tx| tx.free(block))?;
    /// assert!(!worker.view(|tx| tx.is_allocated(block))?);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict.
    fn is_allocated(&mut self, at: PersistentAddress) -> Result<bool, Abort>;

    /// Returns the first allocated block or large object that begins at or behind `from`, with its size in bytes.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// let (small, large) = worker.run(|tx| Ok((tx.alloc(100)?, tx.alloc(5000)?)))?;
    /// let first = worker.view(|tx| tx.next_allocated(PersistentAddress::NULL))?;
    /// assert_eq!(first, Some((small, 128)));
    /// let second = worker.view(|tx| tx.next_allocated(small.word(1)))?;
    /// assert_eq!(second, Some((large, 8192)));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict.
    fn next_allocated(&mut self, from: PersistentAddress) -> Result<Option<(PersistentAddress, u64)>, Abort>;

    /// Runs `body`, which can only read. If it fails, returns its error, and the transaction continues as if `body` had not run. This is for checking
    /// what may be damaged.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// use strandline_core::Error;
    /// use strandline_core::memory::PersistentAddress;
    ///
    /// let nowhere = PersistentAddress::new(12345);
    /// let failed = worker.view(|tx| tx.tolerate(&mut |tx| tx.read(nowhere).map(drop)))?;
    /// assert!(matches!(failed, Some(Error::InvalidAddress(12345))));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict or if the transaction had failed before.
    fn tolerate(
        &mut self,
        body: &mut dyn FnMut(&mut dyn Read) -> Result<(), Abort>,
    ) -> Result<Option<Error>, Abort>;

    /// Ends the transaction with an error, which the worker returns. Structures use this if they find damage or misuse.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// use strandline_core::Error;
    ///
    /// let withdrawn = worker.run(|tx| match tx.read(tx.root(0))?.checked_sub(10) {
    ///     Some(rest) => tx.write(tx.root(0), rest),
    ///     None => Err(tx.fail(Error::Parameter("the account does not have so much".into()))),
    /// });
    /// assert!(matches!(withdrawn, Err(Error::Parameter(_))));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    fn fail(&mut self, error: Error) -> Abort;
}

/// A search that reads many words. Each transaction that changes one of them also writes to one of a few lines, the search's guards.
///
/// An ordinary read checks each line with the concurrency control before and after the access, and records it for the validation. An optimistic
/// search checks only the guards: each one before it reads what depends on the guard, and all of them again at the end. (This is optimistic lock
/// coupling, for trees whose pages have versions: Leis et al., "The ART of Practical Synchronization", 2016.) In between, it may read what a writer
/// has half stored. Whatever it reads, it must therefore terminate, and fail instead of panicking; its result is then discarded.
///
/// A search may rely on a word if each transaction that changes the word also writes to a guard, and each transaction that frees the word's block
/// writes to a guard by which the search reached the block.
pub trait OptimisticSearch {
    /// The search's result.
    type Found;

    /// Searches, using the words that `tx` reads. Calls [`Read::guard`] before it reads what depends on that guard. It may be called again, and then
    /// forgets what an earlier call has left in `self`.
    ///
    /// # Errors
    /// Returns the reader's errors. After any error, an optimistic search counts as not run.
    fn search(&mut self, tx: &mut impl Read) -> Result<Self::Found, Abort>;
}

/// Reading, writing, allocating and freeing in a transaction: all of it happens, or nothing.
///
/// ```
/// # use strandline_core::example::*;
/// # let (pool, mut worker) = pool_and_worker();
/// use strandline_core::memory::PersistentAddress;
///
/// worker.run(|tx| {
///     let block = tx.alloc(24)?;
///     tx.write_range(block, &[1, 2, 3])?;
///     tx.write(tx.root(0), block.offset())
/// })?;
/// worker.run(|tx| {
///     let block = PersistentAddress::new(tx.read(tx.root(0))?);
///     tx.write(tx.root(0), 0)?;
///     tx.free(block)
/// })?;
/// assert_eq!(pool.usage()?.objects, 0);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub trait Transaction: Read {
    /// Returns the number of the log of the worker that runs the transaction, and 0 for a transaction without a log. Workers with logs that
    /// exist at the same time have different ones, so that a structure can give each a line of its own to write to.
    fn worker_number(&self) -> u64 {
        0
    }

    /// Writes the word at `at`.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// worker.run(|tx| {
    ///     tx.write(tx.root(0), 5)?;
    ///     // A transaction reads its own writes.
    ///     let value = tx.read(tx.root(0))?;
    ///     tx.write(tx.root(1), value + 1)
    /// })?;
    /// assert_eq!(worker.view(|tx| tx.read(tx.root(1)))?, 6);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error after a conflict, if the log is full or if an address is outside the heap.
    fn write(&mut self, at: PersistentAddress, value: u64) -> Result<(), Abort>;

    /// Writes consecutive words.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// let block = worker.run(|tx| {
    ///     let block = tx.alloc(24)?;
    ///     tx.write_range(block, &[1, 2, 3])?;
    ///     Ok(block)
    /// })?;
    /// assert_eq!(worker.view(|tx| tx.read(block.word(2)))?, 3);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Transaction::write`].
    fn write_range(&mut self, at: PersistentAddress, from: &[u64]) -> Result<(), Abort>;

    /// Writes `N` consecutive words, which costs least if they lie in one line.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// worker.run(|tx| tx.write_array(tx.root(0), &[1, 2, 3]))?;
    /// assert_eq!(worker.view(|tx| tx.read(tx.root(2)))?, 3);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Transaction::write`].
    fn write_array<const N: usize>(&mut self, at: PersistentAddress, words: &[u64; N]) -> Result<(), Abort>
    where
        Self: Sized,
    {
        self.write_range(at, words)
    }

    /// Allocates `bytes` bytes, aligned to 8, and to 64 from 64 bytes on. The content is undefined: write before you read.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// use strandline_core::{Abort, Error};
    ///
    /// // The allocation of an aborted transaction is undone.
    /// let given_up = worker.run(|tx| {
    ///     tx.alloc(100)?;
    ///     Err::<(), _>(Abort::User)
    /// });
    /// assert!(given_up.is_err());
    /// assert_eq!(pool.usage()?.objects, 0);
    /// assert!(matches!(worker.run(|tx| tx.alloc(1 << 20)), Err(Error::Full { .. })));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the pool is full, and the errors of [`Transaction::write`].
    fn alloc(&mut self, bytes: u64) -> Result<PersistentAddress, Abort>;

    /// Frees the allocation at `at`; this takes effect when the transaction commits.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// use strandline_core::Error;
    ///
    /// let block = worker.run(|tx| tx.alloc(100))?;
    /// worker.run(|tx| tx.free(block))?;
    /// assert_eq!(pool.usage()?.objects, 0);
    /// assert!(matches!(worker.run(|tx| tx.free(block)), Err(Error::InvalidFree(_))));
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if nothing is allocated there, and the errors of [`Transaction::write`].
    fn free(&mut self, at: PersistentAddress) -> Result<(), Abort>;

    /// Allocates an extent for data that is written once and as a whole: between one and `most` consecutive pages of 4096 bytes. Returns the address
    /// of the first page and the number of pages, or `None` if there are no extents here and blocks serve as well.
    ///
    /// A transaction that frees the extent also writes to a word by which readers reach it, the guard of [`Read::read_pages`]. Readers pass this
    /// guard, and only [`Transaction::fill_pages`] may write to the extent, unless the same transaction writes to the guard.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// worker.run(|tx| {
    ///     if let Some((at, pages)) = tx.alloc_pages(3)? {
    ///         tx.fill_pages(at, &[7; 512])?;
    ///         tx.write(tx.root(0), at.offset())?;
    ///         tx.free_pages(at, pages)?;
    ///     }
    ///     Ok(())
    /// })?;
    /// assert_eq!(pool.usage()?.objects, 0);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of [`Transaction::alloc`].
    fn alloc_pages(&mut self, _most: u64) -> Result<Option<(PersistentAddress, u64)>, Abort> {
        Ok(None)
    }

    /// Writes `words` to pages of an extent that this transaction has allocated and not yet filled, from the beginning of a page on. The rest of the
    /// last page is undefined. In the `Sync` domain the words go directly to the pool's file if possible, and not to the log.
    ///
    /// # Errors
    /// Returns an error if the device failed, and the errors of [`Transaction::write`].
    fn fill_pages(&mut self, at: PersistentAddress, words: &[u64]) -> Result<(), Abort> {
        self.write_range(at, words)
    }

    /// Frees `pages` pages of an extent from `at` on: all pages of an allocation, or some.
    ///
    /// # Errors
    /// Returns the errors of [`Transaction::free`].
    fn free_pages(&mut self, at: PersistentAddress, pages: u64) -> Result<(), Abort> {
        (0..pages).try_for_each(|page| self.free(at.byte(page * PAGE_BYTES)))
    }

    /// Returns the size in bytes of the heap's block that begins at `at`, allocated or not.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// let (block, bytes) = worker.run(|tx| {
    ///     let block = tx.alloc(100)?;
    ///     Ok((block, tx.block(block)?))
    /// })?;
    /// assert!(bytes >= 100);
    /// // None begins inside it.
    /// assert!(worker.view(|tx| tx.block(block.word(1))).is_err());
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// Returns [`Error::InvalidAddress`] if none begins there, and the errors of [`Read::read`].
    fn block(&mut self, at: PersistentAddress) -> Result<u64, Abort>;

    /// Returns whether a block of `bytes` bytes or more begins at `at`.
    ///
    /// # Errors
    /// Returns an error after a conflict. May return those of [`Transaction::block`].
    fn has_room(&mut self, at: PersistentAddress, bytes: u64) -> Result<bool, Abort> {
        has_room(self, at, bytes)
    }

    /// Begins a part of the transaction that a plain program makes a critical section of its own, under `lock`. In a transaction this does nothing,
    /// because the whole is atomic.
    fn begin_section(&mut self, _lock: Lock) {}

    /// Ends such a part, whether it succeeded or not.
    fn end_section(&mut self, _is_done: bool) {}

    /// Runs `body` between [`Transaction::begin_section`] and [`Transaction::end_section`].
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// use strandline_core::{Abort, Lock};
    ///
    /// let given_up: strandline_core::Result<()> = worker.run(|tx| {
    ///     let at = tx.root(0);
    ///     tx.section(Lock::word(at), |tx| tx.write(at, 5))?;
    ///     Err(Abort::User)
    /// });
    /// assert!(given_up.is_err());
    /// // It was a part of the transaction.
    /// assert_eq!(worker.view(|tx| tx.read(tx.root(0)))?, 0);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for `body`.
    fn section<R>(&mut self, lock: Lock, body: impl FnOnce(&mut Self) -> Result<R, Abort>) -> Result<R, Abort>
    where
        Self: Sized,
    {
        self.begin_section(lock);
        let outcome = body(self);
        self.end_section(outcome.is_ok());
        outcome
    }

    /// Runs `body` as a part of this transaction (flat nesting): if it aborts, the whole transaction aborts.
    ///
    /// ```
    /// # use strandline_core::example::*;
    /// # let (pool, mut worker) = pool_and_worker();
    /// use strandline_core::Abort;
    ///
    /// /// A transaction, or a part of one.
    /// fn add(tx: &mut impl Transaction, root: u64, more: u64) -> Result<(), Abort> {
    ///     let value = tx.read(tx.root(root))?;
    ///     tx.write(tx.root(root), value + more)
    /// }
    ///
    /// worker.run(|tx| {
    ///     tx.nested(|tx| add(tx, 0, 5))?;
    ///     tx.nested(|tx| add(tx, 1, 6))
    /// })?;
    /// assert_eq!(worker.view(|tx| tx.read(tx.root(1)))?, 6);
    /// # Ok::<(), strandline_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for `body`.
    fn nested<R>(&mut self, body: impl FnOnce(&mut Self) -> Result<R, Abort>) -> Result<R, Abort>
    where
        Self: Sized,
    {
        body(self)
    }
}

/// See [`Transaction::has_room`].
#[inline(never)]
fn has_room(tx: &mut (impl Transaction + ?Sized), at: PersistentAddress, bytes: u64) -> Result<bool, Abort> {
    // The first call may return a size that a conflicting transaction has given the block since, so this asks again.
    Ok(tx.block(at)? >= bytes || tx.find_block(at)?.is_some_and(|found| found >= bytes))
}
