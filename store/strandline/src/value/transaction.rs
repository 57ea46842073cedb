//! Typed transactions, through which values are read and written: what a closure is lent.

use std::cell::{Cell, RefCell, RefMut};
use std::ops::Deref;

pub use strandline_core::engine::Control;
use strandline_core::engine::{self, Stm};
use strandline_core::error::{Error, Result};
use strandline_core::structures::Walk;
use strandline_core::transaction::Abort;

/// A transaction that reads. Its lifetime is the *brand* of everything that is read in it: a pointer or collection
/// of one transaction or pool is of another type than those of any other, and none outlives its transaction.
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
    inner: RefCell<&'p mut engine::Tx<C>>,
    operations: Cell<u64>,
    /// The number of the database whose transaction it is; 0 if it is a store's.
    database: Cell<u64>,
    /// How deep collections are that are being destroyed with others.
    depth: Cell<u32>,
    /// Whether the transaction may write.
    writes: bool,
    /// Items that were popped from queues: their memory may hold others by now.
    pub(crate) popped: Cell<u64>,
}

/// A transaction that reads and writes: all of it happens, or nothing. It can do all that a [`View`] can.
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

/// `Debug` for what holds a transaction: its name.
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
    /// `writes`: whether the transaction may write.
    pub(crate) fn new(inner: &'p mut engine::Tx<C>, writes: bool) -> Self {
        Self {
            inner: RefCell::new(inner),
            operations: Cell::new(0),
            database: Cell::new(0),
            depth: Cell::new(0),
            writes,
            popped: Cell::new(0),
        }
    }

    /// Runs `body`, which destroys what is in a collection, and is refused where that is too deep for the stack.
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

    /// Lets the calling thread read, if nothing is under way.
    pub(crate) fn admit_thread(&self) {
        if let Ok(tx) = self.inner.try_borrow() {
            tx.admit_thread();
        }
    }

    /// Makes it a transaction of a database, whose tables can be used in it.
    #[inline]
    pub(crate) fn belongs_to(&self, database: u64) {
        self.database.set(database);
    }

    #[inline]
    pub(crate) fn database(&self) -> u64 {
        self.database.get()
    }

    /// How many operations the transaction has run so far.
    pub(crate) fn operations(&self) -> u64 {
        self.operations.get()
    }

    /// Begins one operation, which ends when what this returns is dropped; `None`: one is under way, which called what a user wrote.
    #[inline]
    pub(crate) fn operation(&self) -> Option<RefMut<'_, &'p mut engine::Tx<C>>> {
        self.operations.set(self.operations.get() + 1);
        self.inner.try_borrow_mut().ok()
    }

    /// Notes that the next operation is a step of `walk`.
    pub(crate) fn begin_step(&self, walk: &mut Walk) {
        if self.writes {
            walk.goes_on(self.operations() + 1);
        }
    }

    /// Runs one operation.
    #[inline]
    pub(crate) fn words<R>(&self, body: impl FnOnce(&mut engine::Tx<C>) -> Result<R, Abort>) -> Result<R> {
        let Some(mut tx) = self.operation() else { return in_use() };
        match body(&mut tx) {
            Ok(value) => Ok(value),
            Err(why) => interrupted(&mut tx, why),
        }
    }
}

/// The result of an operation that failed. Why its transaction's runner says in the end, and a snapshot at once.
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
