//! Snapshots: a store as it was at one moment.

use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

#[cfg(doc)]
use super::Store;
use crate::value::persist::Root;
use crate::value::pointer::Ptr;
use crate::value::transaction::{Control, View};
use strandline_core::engine::{self, Stm};
use strandline_core::error::Result;
use strandline_core::file::Pool;
use strandline_core::memory::{Native, PersistentAddress};

/// A [`Store`] as it was when the snapshot began, for as long as it or a clone of it exists, whatever transactions do meanwhile.
///
/// Code that reads a snapshot runs only once: there is no closure that could run again. It does not wait for writers, and writers do not wait for it.
/// So it can send rows to a socket as it reads them. Threads can share a snapshot, or have clones of it, which are cheap.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// #[derive(Persist)]
/// struct Measured<'p> {
///     values: Vector<'p, u64>,
/// }
///
/// let store = Store::<Measured>::create_new(&path, &options, |tx| {
///     let values = Vector::new(tx)?;
///     values.extend(tx, [1, 2, 3])?;
///     Ok(Measured { values })
/// })?;
/// let snapshot = store.snapshot()?;
/// let sum = std::thread::spawn(move || {
///     let (tx, root) = snapshot.read();
///     root.get(&tx)?.values.iter(&tx)?.sum::<Result<u64>>()
/// });
/// store.write(|tx, root| root.get(tx)?.values.push(tx, &100))?; // writers go on
/// assert_eq!(sum.join().unwrap()?, 6);
/// # Ok::<(), strandline::Error>(())
/// ```
///
/// The old values that transactions overwrite meanwhile are kept in memory, up to [`Options::snapshot_bytes`](crate::Options::snapshot_bytes) for all
/// snapshots together. If they take more, the oldest snapshot ends, and reading it returns [`Error::SnapshotEnded`](crate::Error::SnapshotEnded).
///
/// A snapshot keeps the store open: as long as it exists, [`Store::close`] returns [`Error::InUse`](crate::Error::InUse).
pub struct Snapshot<R, C: Control<Memory = Native> = Stm> {
    moment: Arc<Moment<C>>,
    root: PersistentAddress,
    root_type: PhantomData<fn() -> R>,
}

/// The moment of a snapshot, which its clones share.
struct Moment<C: Control<Memory = Native>> {
    /// The reader from which those of the views are made. It is dropped before the pool, since it refers to the pool's memory.
    reader: Mutex<engine::Snapshot<C>>,
    time: u64,
    /// Keeps the pool open.
    _pool: Arc<Pool<C>>,
}

impl<R: Root, C: Control<Memory = Native>> Snapshot<R, C> {
    pub(crate) fn new(pool: Arc<Pool<C>>, root: PersistentAddress) -> Result<Self> {
        let reader = pool.snapshot()?;
        let moment = Moment { time: reader.time(), reader: Mutex::new(reader), _pool: pool };
        Ok(Self { moment: Arc::new(moment), root, root_type: PhantomData })
    }

    /// Returns a view of this moment, and a pointer to the root. There can be any number of views at a time, on any threads. Reading may continue
    /// after an error, even one that reports damage.
    pub fn read(&self) -> (SnapshotView<'_, C>, Ptr<'_, R::At<'_>>) {
        (SnapshotView::new(self.reader()), Ptr::of(self.root))
    }

    /// Returns another reader of this moment. The caller must drop it before the last clone of this snapshot.
    pub(crate) fn reader(&self) -> engine::Snapshot<C> {
        self.moment.reader.lock().unwrap_or_else(PoisonError::into_inner).another()
    }

    /// Checks everything that is reachable from the root for damage, like [`Store::check`].
    ///
    /// # Errors
    /// Returns [`Error::SnapshotEnded`](crate::Error::SnapshotEnded) if the snapshot was ended. Damage is reported in the list, not as an error.
    pub fn check(&self) -> Result<Vec<String>> {
        let (tx, root) = self.read();
        root.check(&tx)
    }
}

impl<R, C: Control<Memory = Native>> Clone for Snapshot<R, C> {
    /// Returns another handle to the same moment, at the cost of incrementing a counter.
    fn clone(&self) -> Self {
        Self { moment: self.moment.clone(), root: self.root, root_type: PhantomData }
    }
}

impl<R, C: Control<Memory = Native>> std::fmt::Debug for Snapshot<R, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Snapshot").field("time", &self.moment.time).finish_non_exhaustive()
    }
}

/// A view of a snapshot. It has all methods of a [`View`], and can be passed by reference to functions that take a `&View`. It cannot outlive the
/// snapshot. It can be sent to another thread; threads that read at the same time need a view each.
///
/// ```compile_fail,E0505
/// # fn f(db: &strandline::Database) -> strandline::Result<()> {
/// let snapshot = db.snapshot()?;
/// let view = snapshot.read();
/// drop(snapshot);
/// db.catalogue(&view)?; // the snapshot is gone
/// # Ok(())
/// # }
/// ```
///
/// Pointers and collections that are read through it can be used with this snapshot, but not in a transaction:
///
/// ```compile_fail,E0521
/// # fn f(store: &strandline::Store<u64>) -> strandline::Result<()> {
/// let snapshot = store.snapshot()?;
/// let (_, root) = snapshot.read();
/// store.write(|tx, _| root.set(tx, &6)) // a pointer of the snapshot
/// # }
/// ```
pub struct SnapshotView<'s, C: Control<Memory = Native> = Stm> {
    /// A view that borrows from `reader`, which the borrow checker does not know. It is a `MaybeUninit`, so that the compiler does not assume that
    /// the reference in it is valid for as long as a function has this value as an argument: the drop frees the target of the reference. The field is
    /// initialised until then.
    view: MaybeUninit<View<'s, C>>,
    /// Points into a box, which this owns.
    reader: NonNull<engine::Snapshot<C>>,
}

impl<'s, C: Control<Memory = Native>> SnapshotView<'s, C> {
    fn new(reader: engine::Snapshot<C>) -> Self {
        let mut reader = NonNull::from(Box::leak(Box::new(reader)));
        // SAFETY: the reader is in a box, which stays there until the drop below frees it, after the last use of the view. Nothing else refers to it:
        // `reader` is not read or written in between. The view's lifetime may be longer than the reader lives. This is sound: the field is private,
        // `Deref` lends it only for as long as `self` is borrowed, and nothing in this crate moves the `&'s mut` out of it.
        let tx = unsafe { reader.as_mut() }.tx();
        Self { view: MaybeUninit::new(View::new(tx, false)), reader }
    }

    fn view(&self) -> &View<'s, C> {
        // SAFETY: `new` has initialised the view, and only the drop ends that, together with the reader.
        unsafe { self.view.assume_init_ref() }
    }

    pub(crate) fn belongs_to(&self, database: u64) {
        self.view().belongs_to(database);
    }
}

// SAFETY: the value consists of a view and of the box from which it reads. Both may be sent to another thread, and are sent together.
unsafe impl<'s, C: Control<Memory = Native>> Send for SnapshotView<'s, C>
where
    View<'s, C>: Send,
    engine::Snapshot<C>: Send,
{
}

impl<'s, C: Control<Memory = Native>> Deref for SnapshotView<'s, C> {
    type Target = View<'s, C>;

    fn deref(&self) -> &View<'s, C> {
        // The view may have come from another thread.
        let view = self.view();
        view.admit_thread();
        view
    }
}

impl<C: Control<Memory = Native>> Drop for SnapshotView<'_, C> {
    fn drop(&mut self) {
        // SAFETY: the view is initialised, and neither field is used after this. The view is dropped first, as it refers to the reader, which came
        // from a box.
        unsafe {
            self.view.assume_init_drop();
            drop(Box::from_raw(self.reader.as_ptr()));
        }
    }
}

impl<C: Control<Memory = Native>> std::fmt::Debug for SnapshotView<'_, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SnapshotView")
    }
}
