//! Stores whose types the program does not know.

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

/// A root of a type that is not known.
struct Unknown;

impl Root for Unknown {
    type At<'p> = Any;
}

// SAFETY: it says that it has a size.
unsafe impl Fixed<'_> for Any {}

/// A pool with a typed root, opened for reading by a program that does not know its types: the pool itself says what they are.
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
    /// Nothing writes to it, so that the control does not matter; this one needs no memory for locks.
    store: Store<Unknown, SingleWriter>,
}

impl DynamicStore {
    /// Opens the pool at `path` for reading only.
    ///
    /// # Errors
    /// As [`Store::open_read_only`], but that its root is of another type.
    pub fn open_read_only(path: impl AsRef<Path>, options: &Options) -> Result<Self> {
        Ok(Self { store: Store::open_read_only(path, options)? })
    }

    /// The root's type, and all that can be reached from it.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if the pool does not say, and [`Error::Damaged`] if what it says is nothing.
    pub fn schema(&self) -> Result<Schema> {
        self.store.read(|tx, _| root::read_schema(tx))
    }

    /// Looks all that hangs from the root over for damage, as [`Store::check`], by what the pool says of its types. What is wrong is returned, and
    /// nothing if all is well.
    ///
    /// # Errors
    /// Returns [`Error::Unsupported`] if no damage was found, but there are values that only the pool's program can read, and the errors of
    /// [`Store::read`].
    pub fn check(&self) -> Result<Vec<String>> {
        self.walk(None)
    }

    /// What is allocated and cannot be reached from the root, as [`Store::lost_memory`].
    ///
    /// # Errors
    /// As [`Store::lost_memory`]; [`Error::Unsupported`], as for [`DynamicStore::check`].
    pub fn lost_memory(&self) -> Result<LostMemory> {
        self.store.read(|tx, _| Checker::lost(tx, |checker| reach_root(tx, checker, None)))
    }

    /// Checks the pool as [`DynamicStore::check`] does, and unless there is damage finds what [`DynamicStore::lost_memory`] finds, in one walk. Now
    /// and then it calls `progress` with the number of allocated blocks that the walk has reached.
    ///
    /// # Errors
    /// Returns the same errors as [`DynamicStore::check`].
    pub fn check_all(&self, progress: &dyn Fn(u64)) -> Result<(Vec<String>, Option<LostMemory>)> {
        self.store
            .read(|tx, _| Checker::run_all(tx, progress, |checker| reach_root(tx, checker, None)))
            .or_else(|error| Ok((vec![obstacle(error)?], None)))
    }

    /// Shows the root, and all that hangs from it: each value, collection and table once, where it is met first. What a pointer or a
    /// collection leads to is shown behind the value that it is a part of, in which it is an address ([`Dynamic::Handle`]). Damage is
    /// left out, and returned.
    ///
    /// [`Dynamic::Handle`]: crate::Dynamic::Handle
    ///
    /// # Errors
    /// What `show` returns, and nothing more is shown then; [`Error::TableTypes`]: a table is under migration; as
    /// [`DynamicStore::check`].
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

/// The damage that stopped a walk.
fn obstacle(error: Error) -> Result<String> {
    match error {
        Error::Damaged { .. } | Error::Dangling { .. } => Ok(error.to_string()),
        error => Err(error),
    }
}

/// Checks the description of the pool's root, and reaches the root by it.
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
