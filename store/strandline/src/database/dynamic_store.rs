//! Stores with types that the program does not know.

use std::cell::RefCell;
use std::path::Path;

use super::tables;
use crate::described::shown::Shown;
use crate::described::{self, Show};
use crate::store::Store;
use crate::store::root;
use crate::value::check::{Checker, LostMemory};
use crate::value::persist::{Fixed, Root};
use crate::value::raw::Any;
use crate::value::schema::Schema;
use crate::value::transaction::{Control, View};
use strandline_core::engine::SingleWriter;
use strandline_core::error::{Error, Result};
use strandline_core::file::Options;

/// A root whose type is unknown.
struct Unknown;

impl Root for Unknown {
    type At<'p> = Any;
}

// SAFETY: `Any` declares a size.
unsafe impl Fixed<'_> for Any {}

/// A store with a typed root, opened for reading by a program that does not know its types. The pool's own description says what they are.
///
/// ```
/// # use strandline::*;
/// # let (path, options) = example::path_and_options();
/// #[derive(Persist)]
/// struct Shop<'p> {
///     sold: u64,
///     stock: OrderedMap<'p, String, u64>,
/// }
///
/// let shop = Store::<Shop>::create_new(&path, &options, |tx| {
///     let stock = OrderedMap::new(tx)?;
///     stock.insert(tx, &"apples".to_string(), &40)?;
///     Ok(Shop { sold: 2, stock })
/// })?;
/// shop.close()?;
///
/// // Another program.
/// let pool = DynamicStore::open_read_only(&path, &options)?;
/// assert_eq!(pool.schema()?.root, "Shop");
/// assert!(pool.check()?.is_empty());
/// assert_eq!(pool.lost_memory()?.blocks, 0);
/// let mut rows = Vec::new();
/// pool.dump(|shown| {
///     if let Shown::Row { key: Some(key), value } = shown {
///         rows.push((key, value));
///     }
///     Ok(())
/// })?;
/// assert_eq!(rows, [(Dynamic::Text("apples".into()), Dynamic::Unsigned(40))]);
/// # Ok::<(), strandline::Error>(())
/// ```
pub struct DynamicStore {
    /// The store is only read, so the choice of the control makes no difference. This control needs no memory for locks.
    store: Store<Unknown, SingleWriter>,
}

impl DynamicStore {
    /// Opens the store at `path` for reading only.
    ///
    /// # Errors
    /// Returns the same errors as [`Store::open_read_only`], except that the root may be of any type.
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Ok(Self { store: Store::open_read_only(path, options)? })
    }

    /// Returns the description of the root's type and of all types that the root refers to.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the pool has no description, and [`Error::Damaged`] if the description is not valid.
    pub fn schema(&self) -> Result<Schema> {
        self.store.read(|tx, _| root::read_schema(tx))
    }

    /// Checks everything that is reachable from the root, like [`Store::check`], by the pool's own description of its types. Returns a list of
    /// problems, which is empty if there are none.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if no damage was found, but there are values that only the pool's program can read, and the errors of
    /// [`Store::read`].
    pub fn check(&self) -> Result<Vec<String>> {
        self.walk(None)
    }

    /// Returns the memory that is allocated but not reachable from the root, like [`Store::lost_memory`].
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if there are values that only the pool's program can read, and the errors of [`Store::lost_memory`].
    pub fn lost_memory(&self) -> Result<LostMemory> {
        self.store.read(|tx, _| Checker::lost(tx, |checker| reach_root(tx, checker, None)))
    }

    /// Does the work of [`check`](DynamicStore::check) and of [`lost_memory`](DynamicStore::lost_memory) in one walk. The lost memory is `None` if
    /// the pool is damaged. From time to time the walk calls `progress` with the number of allocated blocks that it has reached.
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicStore::check`].
    pub fn check_all(&self, progress: &dyn Fn(u64)) -> Result<(Vec<String>, Option<LostMemory>)> {
        self.store
            .read(|tx, _| Checker::run_all(tx, progress, |checker| reach_root(tx, checker, None)))
            .or_else(|error| Ok((vec![obstacle(error)?], None)))
    }

    /// Calls `show` for the root and for everything that is reachable from it: each value, collection and table once, where the walk first meets it.
    /// Inside a value, a pointer or a collection is shown as an address ([`Dynamic::Handle`]). The object at that address is shown after the value.
    /// Damaged parts are left out; the problems are returned.
    ///
    /// [`Dynamic::Handle`]: crate::Dynamic::Handle
    ///
    /// # Errors
    /// Returns the error that `show` returned, after which nothing more is shown, [`Error::TableTypes`] if a migration of a table is under way, and
    /// the errors of [`DynamicStore::check`].
    pub fn dump(&self, show: impl FnMut(Shown) -> Result<()>) -> Result<Vec<String>> {
        let show = RefCell::new(show);
        self.walk(Some(&|shown| (*show.borrow_mut())(shown)))
    }

    fn walk(&self, show: Option<Show<'_>>) -> Result<Vec<String>> {
        let done =
            self.store.read(|tx, _| Checker::run_described(tx, |checker| reach_root(tx, checker, show)));
        done.or_else(|error| Ok(vec![obstacle(error)?]))
    }
}

/// Returns the message of an error that reports damage, and any other error as it is.
fn obstacle(error: Error) -> Result<String> {
    match error {
        Error::Damaged { .. } | Error::Dangling { .. } => Ok(error.to_string()),
        error => Err(error),
    }
}

/// Checks the description of the pool's root, and then the root by this description.
fn reach_root<'v, 'p, C: Control>(
    tx: &View<'p, C>,
    checker: &mut Checker<'v, 'p>,
    show: Option<Show<'v>>,
) -> Result<()> {
    let found = root::visit_description(tx, checker)?;
    let Schema { root, types } = root::described_schema(tx, &found)?;
    let walker = tables::walker(show);
    described::reach_root(checker, found.value, &found.root_type, (&root, types), walker)
}

impl std::fmt::Debug for DynamicStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DynamicStore").field("path", &self.store.path()).finish_non_exhaustive()
    }
}
