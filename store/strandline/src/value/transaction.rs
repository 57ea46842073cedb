//! Typed transactions, through which closures read and write values.

use std::cell::{Cell, RefCell, RefMut};
use std::ops::Deref;

use super::recent::Recent;
use super::waiting::{AllWaiting, Waiting};
pub use strandline_core::engine::Control;
use strandline_core::engine::{self, Stm};
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::{PageTree, Walk};
use strandline_core::transaction::Abort;

/// A transaction that reads. Its lifetime is the *brand* of everything that is read in it: the pointers and collections of one transaction or pool
/// have other types than those of any other, and cannot outlive their transaction.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// use strandline::{Vector, View};
///
/// // Takes a `&Tx` too.
/// fn sum<'p>(tx: &View<'p>, numbers: Vector<'p, u64>) -> strandline::Result<u64> {
///     numbers.iter(tx)?.sum()
/// }
///
/// let store = Store::<u64>::create_new(&path, &options, |tx| {
///     let numbers = Vector::new(tx)?;
///     numbers.extend(tx, [1, 2, 3])?;
///     sum(tx, numbers)
/// })?;
/// assert_eq!(store.read(|tx, root| root.get(tx))?, 6);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct View<'p, C: Control = Stm> {
    inner: RefCell<Running<'p, C>>,
    operations: Cell<u64>,
    /// The number of the transaction's database, or 0 in a transaction of a store.
    database: Cell<u64>,
    /// The nesting depth of collections that are being destroyed together.
    depth: Cell<u32>,
    /// True if the transaction may write.
    writes: bool,
    /// The header and blocks of the vector that an operation used last. `None` before the first, so that other transactions do not store it.
    pub(crate) recent: RefCell<Option<Recent>>,
    /// Number of items that were popped from queues. Their memory may hold other items by now.
    pub(crate) popped: Cell<u64>,
}

/// A transaction in progress, and the pairs that wait to be stored in it.
struct Running<'p, C: Control> {
    tx: &'p mut engine::Tx<C>,
    waiting: AllWaiting,
}

/// A transaction that reads and writes. Either all its writes take effect, or none does. It has all methods of a [`View`].
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// use strandline::{Ptr, Tx};
///
/// // A part of a transaction.
/// fn double<'p>(tx: &Tx<'p>, number: Ptr<'p, u64>) -> strandline::Result<()> {
///     number.update(tx, |number| *number *= 2)
/// }
///
/// let store = Store::<u64>::create_new(&path, &options, |_| Ok(5))?;
/// store.write(|tx, root| double(tx, root))?;
/// assert_eq!(store.read(|tx, root| root.get(tx))?, 10);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct Tx<'p, C: Control = Stm> {
    view: View<'p, C>,
}

impl<'p, C: Control> Deref for Tx<'p, C> {
    type Target = View<'p, C>;
    #[inline]
    fn deref(&self) -> &View<'p, C> {
        &self.view
    }
}

/// Implements `Debug` for types that hold a transaction, by their name only.
macro_rules! debug_as_name {
    ($($name:ident<$($brand:lifetime),*; $($parameter:ident),*>)*) => {
        $(impl<$($parameter,)* C: $crate::value::transaction::Control> std::fmt::Debug
            for $name<$($brand,)* $($parameter,)* C>
        {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        })*
    };
}
pub(crate) use debug_as_name;

debug_as_name! { View<'_;> Tx<'_;> }

impl<'p, C: Control> Tx<'p, C> {
    #[inline]
    pub(crate) fn new(inner: &'p mut engine::Tx<C>) -> Self {
        Self { view: View::new(inner, true) }
    }
}

impl<'p, C: Control> View<'p, C> {
    /// `writes` says whether the transaction may write.
    pub(crate) fn new(inner: &'p mut engine::Tx<C>, writes: bool) -> Self {
        Self {
            inner: RefCell::new(Running { tx: inner, waiting: AllWaiting::default() }),
            operations: Cell::new(0),
            database: Cell::new(0),
            depth: Cell::new(0),
            writes,
            recent: RefCell::new(None),
            popped: Cell::new(0),
        }
    }

    /// Runs `body`, which destroys what is in a collection, and returns an error if collections are nested too deeply for the stack.
    pub(crate) fn deeper(&self, body: impl FnOnce() -> Result<()>) -> Result<()> {
        const DEEPEST: u32 = 100;
        if self.depth.get() == DEEPEST {
            return Err(Error::Parameter(format!(
                "collections are nested more than {DEEPEST} deep: destroy the inner ones first"
            )));
        }
        self.depth.set(self.depth.get() + 1);
        let done = body();
        self.depth.set(self.depth.get() - 1);
        done
    }

    /// Admits the calling thread to the pool's memory, unless an operation is running.
    pub(crate) fn admit_thread(&self) {
        if let Ok(running) = self.inner.try_borrow() {
            running.tx.admit_thread();
        }
    }

    /// Makes this a transaction of a database, whose tables can then be used in it.
    #[inline]
    pub(crate) fn belongs_to(&self, database: u64) {
        self.database.set(database);
    }

    #[inline]
    pub(crate) fn database(&self) -> u64 {
        self.database.get()
    }

    /// Returns the number of operations that the transaction has run so far.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Begins an operation, which ends when the result is dropped.
    ///
    /// # Errors
    /// Returns an error during an operation, which has then called code of the user, and if pairs that wait cannot be stored.
    #[inline]
    pub(crate) fn operation(&self) -> Result<RefMut<'_, &'p mut engine::Tx<C>>> {
        let mut running = self.begin()?;
        if !running.waiting.is_reset() {
            let Running { tx, waiting } = &mut *running;
            waiting.store(*tx).or_else(|why| interrupted(tx, why))?;
        }
        Ok(RefMut::map(running, |running| &mut running.tx))
    }

    fn begin(&self) -> Result<RefMut<'_, Running<'p, C>>> {
        self.operations.set(self.operations.get() + 1);
        self.inner.try_borrow_mut().or_else(|_| in_use())
    }

    /// Makes the next operation a step of `walk`.
    pub(crate) fn begin_step(&self, walk: &mut Walk) {
        if self.writes {
            walk.goes_on(self.operations() + 1);
        }
    }

    /// Runs one operation.
    #[inline]
    pub(crate) fn words<R>(&self, body: impl FnOnce(&mut engine::Tx<C>) -> Result<R, Abort>) -> Result<R> {
        let mut tx = self.operation()?;
        body(&mut tx).or_else(|why| interrupted(&mut tx, why))
    }

    /// Runs one operation that neither reads nor changes the pairs of a map, so that pairs may go on waiting.
    pub(crate) fn beside<R>(&self, body: impl FnOnce(&mut engine::Tx<C>) -> Result<R, Abort>) -> Result<R> {
        let tx = &mut *self.begin()?.tx;
        body(tx).or_else(|why| interrupted(tx, why))
    }
}

impl<C: Control> Tx<'_, C> {
    /// Runs one operation that sets a pair of the map with this header and tag. `body` gets the list in which the pair may wait instead, and returns
    /// the tree in which it has set the pair, or `None` if the pair waits.
    pub(crate) fn set_in(
        &self,
        map: (PersistentAddress, u64),
        body: impl FnOnce(&mut engine::Tx<C>, Option<&mut Waiting>) -> Result<Option<PageTree>, Abort>,
    ) -> Result<()> {
        let Running { tx, waiting } = &mut *self.begin()?;
        let done = waiting.list(*tx, map).and_then(|list| body(tx, list));
        done.and_then(|tree| waiting.note(tx, map, tree)).or_else(|why| interrupted(tx, why))
    }

    /// Ends the transaction's closure.
    ///
    /// # Errors
    /// Returns an error if pairs that wait cannot be stored.
    pub(crate) fn end(self) -> Result<(), Abort> {
        let Running { tx, mut waiting } = self.view.inner.into_inner();
        if waiting.is_reset() { Ok(()) } else { waiting.store(tx) }
    }
}

/// Returns the result of an operation that failed. The error of a snapshot is returned here; that of a transaction is returned by its runner at the
/// end.
#[cold]
#[inline(never)]
pub(crate) fn interrupted<C: Control, R>(tx: &mut engine::Tx<C>, why: Abort) -> Result<R> {
    Err(tx.snapshot_error(why).unwrap_or(Error::Interrupted))
}

#[cold]
#[inline(never)]
pub(crate) fn in_use<R>() -> Result<R> {
    Err(Error::Parameter("a closure that reads a value in its place cannot use the transaction".into()))
}
