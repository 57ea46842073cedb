//! The root of a store, and the conversion of roots of earlier types.

use std::marker::PhantomData;

use super::run;
use crate::value::bytes::Bytes;
use crate::value::check::Checker;
use crate::value::persist::{Fixed, Persist, Root};
use crate::value::pointer::{Ptr, check_block};
use crate::value::schema::{Schema, differences};
use crate::value::transaction::{Control, Tx, View};
use strandline_core::engine::{self, Stm, Worker};
use strandline_core::error::{Error, Result};
use strandline_core::memory::PersistentAddress;
use strandline_core::structures::Survey;
use strandline_core::structures::root::{DESCRIPTION_WORDS, RootDescription, RootType};
use strandline_core::transaction::{Abort, Read, Transaction};

type Step<C> =
    Box<dyn Fn(&Tx<'_, C>, PersistentAddress) -> Result<PersistentAddress> + Send + Sync + 'static>;

/// Conversions from earlier root types to `R`, for [`Store::open_existing_and_migrate`](crate::Store::open_existing_and_migrate).
///
/// ```
/// use strandline::{Migrations, Persist};
///
/// #[derive(Persist)]
/// #[persist(name = "Settings")]
/// struct SettingsV1 {
///     limit: u32,
/// }
///
/// #[derive(Persist)]
/// #[persist(version = 2)]
/// struct Settings {
///     limit: u64,
/// }
///
/// let migrations: Migrations<Settings> =
///     Migrations::new().from::<SettingsV1>(|_tx, old| Ok(Settings { limit: old.limit.into() }));
/// ```
pub struct Migrations<R, C: Control = Stm> {
    steps: Vec<(Schema, Step<C>)>,
    root: PhantomData<fn() -> R>,
}

impl<R: Root, C: Control> Default for Migrations<R, C> {
    fn default() -> Self {
        Self::new()
    }
}

impl<R: Root, C: Control> Migrations<R, C> {
    /// Creates a list without migrations. [`Migrations::from`] adds some.
    pub fn new() -> Self {
        Self { steps: Vec::new(), root: PhantomData }
    }

    /// Adds the conversion from a root of type `Old`. It runs in one transaction when the store is opened. The old root's own memory is freed;
    /// `migrate` decides whether to keep or free what the old root points to.
    ///
    /// ```
    /// # use strandline::*;
    /// #[derive(Persist)]
    /// #[persist(name = "Counter")]
    /// struct Old {
    ///     visits: u32,
    /// }
    ///
    /// #[derive(Persist)]
    /// #[persist(version = 2)]
    /// struct Counter {
    ///     visits: u64,
    ///     since: u64,
    /// }
    ///
    /// # let path = example::path();
    /// Store::<Old>::create_new(&path, &Options::default(), |_| Ok(Old { visits: 7 }))?.close()?;
    /// let migrations = Migrations::new()
    ///     .from::<Old>(|_tx, old| Ok(Counter { visits: old.visits.into(), since: 0 }));
    /// let store = Store::<Counter>::open_existing_and_migrate(&path, &Options::default(), &migrations)?;
    /// assert_eq!(store.read(|tx, root| Ok(root.get(tx)?.visits))?, 7);
    /// # Ok::<(), strandline::Error>(())
    /// ```
    #[must_use]
    pub fn from<Old: Root>(
        mut self,
        migrate: impl for<'p> Fn(&Tx<'p, C>, Old::At<'p>) -> Result<R::At<'p>> + Send + Sync + 'static,
    ) -> Self {
        let step: Step<C> = Box::new(move |tx, at| migrate_one::<Old, R, C>(tx, at, &migrate));
        self.steps.push((schema_of::<Old>(), step));
        self
    }
}

/// Returns the layout of a root type, which does not depend on the brand.
fn layout_of<R: Root>() -> u64 {
    <R::At<'static> as Persist<'static>>::LAYOUT
}

/// Returns the types of a root, which do not depend on the brand.
fn schema_of<R: Root>() -> Schema {
    Schema::of::<R::At<'static>>()
}

fn migrate_one<'p, Old: Root, R: Root, C: Control>(
    tx: &Tx<'p, C>,
    at: PersistentAddress,
    migrate: &impl for<'q> Fn(&Tx<'q, C>, Old::At<'q>) -> Result<R::At<'q>>,
) -> Result<PersistentAddress> {
    let old = Ptr::<'p, Old::At<'p>>::of(at).free(tx)?;
    let new = migrate(tx, old)?;
    Ok(Ptr::new(tx, &new)?.address())
}

fn type_of<'p, T: Fixed<'p>>() -> RootType {
    RootType { name: T::NAME.into(), layout: T::LAYOUT, version: T::VERSION.into(), words: T::WORDS as u64 }
}

/// Returns the description of the pool's root, or `None` if there is no root yet.
fn description<C: Control>(tx: &View<'_, C>) -> Result<Option<RootDescription>> {
    tx.words(RootDescription::find)
}

/// Returns the description of the pool's root, which must exist.
pub(crate) fn found<C: Control>(tx: &View<'_, C>) -> Result<RootDescription> {
    description(tx)?.ok_or(Error::Missing { what: "store's root", root: 0 })
}

/// Checks the description of the pool's root and everything that the root refers to.
pub(crate) fn visit<'p, R: Root, C: Control>(
    tx: &View<'p, C>,
    root: Ptr<'p, R::At<'p>>,
    checker: &mut Checker<'_, 'p>,
) -> Result<()> {
    visit_description(tx, checker)?;
    root.visit(checker)
}

/// Checks the description of the pool's root, and returns it.
pub(crate) fn visit_description<'p, C: Control>(
    tx: &View<'p, C>,
    checker: &mut Checker<'_, 'p>,
) -> Result<RootDescription> {
    let found = found(tx)?;
    checker.block(found.at, DESCRIPTION_WORDS as u64, "the root's description")?;
    if !found.schema.is_null() {
        Bytes::of(found.schema).visit(checker)?;
    }
    Ok(found)
}

/// Returns the types of the pool's root, if the pool contains their description.
pub(crate) fn described_schema<C: Control>(tx: &View<'_, C>, found: &RootDescription) -> Result<Schema> {
    if found.schema.is_null() {
        return Err(Error::Unsupported(
            "a root whose types the pool does not describe; use the program that wrote it".into(),
        ));
    }
    schema(tx, found)
}

/// Returns the types of the pool's root.
pub(crate) fn read_schema<C: Control>(tx: &View<'_, C>) -> Result<Schema> {
    let found = found(tx)?;
    described_schema(tx, &found)
}

/// Returns the types of the pool's root, as the pool describes them.
fn schema<C: Control>(tx: &View<'_, C>, found: &RootDescription) -> Result<Schema> {
    if found.schema.is_null() {
        return Ok(Schema::default());
    }
    let bytes = Bytes::of(found.schema).get(tx)?;
    Schema::of_bytes(&bytes).ok_or_else(|| Error::damaged("the description of the root's types is not valid"))
}

/// Writes the description of a root of type `T` whose value is at `value`.
fn describe<'p, T: Fixed<'p>, C: Control>(
    tx: &Tx<'p, C>,
    at: PersistentAddress,
    schema: PersistentAddress,
    value: PersistentAddress,
) -> Result<()> {
    tx.words(|tx| {
        check_block(tx, at, DESCRIPTION_WORDS, "root")?;
        RootDescription { at, value, schema, root_type: type_of::<T>() }.write(tx)
    })
}

/// Creates the root of a pool that has none.
fn make_root<'p, T: Fixed<'p>, C: Control>(tx: &Tx<'p, C>, value: &T, describing: bool) -> Result<()> {
    let value = Ptr::new(tx, value)?;
    let schema = if describing {
        Bytes::new(tx, Schema::of::<T>().to_bytes())?.address()
    } else {
        PersistentAddress::NULL
    };
    let at = tx.words(|tx| tx.alloc(8 * DESCRIPTION_WORDS as u64))?;
    describe::<T, _>(tx, at, schema, value.address())?;
    tx.words(|tx| {
        let root = tx.root(0);
        tx.write(root, at.offset())
    })
}

/// Creates the root of a pool that has none, in a transaction of `worker`. [`Store`](crate::Store) does this itself. This function is for memory
/// without a file, as in the crash checker and the simulator.
///
/// ```
/// # use strandline_core::example::*;
/// # let (_pool, mut worker) = pool_and_worker();
/// use strandline::Stm;
/// use strandline::hosted::{initialise, with_root};
///
/// initialise::<u64, Stm>(&mut worker, |_| Ok(5))?;
/// let five = worker.view(|tx| with_root::<u64, _, Stm>(tx, |tx, root| root.get(tx)))?;
/// assert_eq!(five, 5);
/// # Ok::<(), strandline::Error>(())
/// ```
///
/// # Errors
/// Returns the errors of `init` and [`Runner::run`](strandline_core::Runner::run).
pub fn initialise<R: Root, C: Control>(
    worker: &mut Worker<C>,
    init: impl for<'p> FnMut(&Tx<'p, C>) -> Result<R::At<'p>>,
) -> Result<()> {
    // Logs may be small there, and nothing reads the description.
    create::<R, C>(worker, init, false)
}

/// Creates the root of a pool that has none. If `describing` is set, describes its types as well.
pub(crate) fn create<R: Root, C: Control>(
    worker: &mut Worker<C>,
    mut init: impl for<'p> FnMut(&Tx<'p, C>) -> Result<R::At<'p>>,
    describing: bool,
) -> Result<()> {
    run::update::<C, _, _>(worker, |tx| {
        if description(tx)?.is_none() {
            make_root(tx, &init(tx)?, describing)?;
        }
        Ok(())
    })
}

/// Runs `body` inside the transaction `tx` of any [`Runner`](strandline_core::Runner), with the pool's root. This is for typed code in memory without
/// a [`Store`](crate::Store), such as the crash checker's, and for pools that also have words that the program lays out itself.
///
/// ```
/// # use strandline_core::example::*;
/// # let (_pool, mut worker) = pool_and_worker();
/// use strandline::Stm;
/// use strandline::hosted::{initialise, with_root};
///
/// initialise::<u64, Stm>(&mut worker, |_| Ok(5))?;
/// let six = worker.run(|tx| {
///     with_root::<u64, _, Stm>(tx, |tx, root| {
///         root.update(tx, |count| *count += 1)?;
///         root.get(tx)
///     })
/// })?;
/// assert_eq!(six, 6);
/// # Ok::<(), strandline::Error>(())
/// ```
///
/// If `body` panics, do not commit the transaction: pairs that `body` has set in a map may be missing.
///
/// # Errors
/// Returns the abort with which the transaction has to end. Its runner then returns the transaction's own error, the error of `body`,
/// [`Error::WrongStructure`] if the root is not an `R`, or [`Error::Missing`] if there is none.
pub fn with_root<R: Root, T, C: Control>(
    tx: &mut engine::Tx<C>,
    body: impl for<'p> FnOnce(&Tx<'p, C>, Ptr<'p, R::At<'p>>) -> Result<T>,
) -> Result<T, Abort> {
    let done = run::within::<C, _>(&mut *tx, |tx| {
        let found = found(tx)?;
        if found.root_type.layout != layout_of::<R>() {
            return Err(Error::WrongStructure {
                what: <R::At<'_> as Persist<'_>>::NAME,
                root: found.at.offset(),
            });
        }
        body(tx, Ptr::of(found.value))
    });
    done.map_err(|error| match error {
        // The transaction has kept its own error.
        Error::Interrupted | Error::Aborted => Abort::User,
        error => tx.fail(error),
    })
}

/// Checks that the root is an `R`, and converts it if there is a migration. Returns the address of its value, which does not change while the pool is
/// open.
pub(crate) fn check<R: Root, C: Control>(
    worker: &mut Worker<C>,
    migrations: &Migrations<R, C>,
) -> Result<PersistentAddress> {
    let missing = || Error::Missing { what: "store's root", root: 0 };
    if <R::At<'static> as Persist<'static>>::ANY {
        let found = run::view::<C, _, Error>(worker, description)?;
        return found.map(|found| found.value).ok_or_else(missing);
    }
    let expected = schema_of::<R>();
    let (found, is) = run::view::<C, _, _>(worker, |tx| {
        let found = description(tx)?.ok_or_else(missing)?;
        let schema = schema(tx, &found)?;
        Ok::<_, Error>((found, schema))
    })?;
    let is_described = !found.schema.is_null();
    if found.root_type.layout == layout_of::<R>() && (!is_described || is.is_same(&expected)) {
        // The layout determines the number of words, so another number is damage, which a check without the type would also find.
        if found.root_type.words != <R::At<'static> as Fixed<'static>>::WORDS as u64 {
            return Err(Error::damaged(found.root_type.contradiction()));
        }
        return Ok(found.value);
    }
    let Some((_, step)) = migrations.steps.iter().find(|(from, _)| from.is_same(&is)) else {
        return Err(Error::RootLayout {
            found: found.root_type.to_string(),
            expected: type_of::<R::At<'_>>().to_string(),
            differences: differences(&is.types, &expected.types),
        });
    };
    run::update::<C, _, _>(worker, |tx| {
        let found = description(tx)?.ok_or_else(missing)?;
        let value = step(tx, found.value)?;
        if !found.schema.is_null() {
            Bytes::of(found.schema).set(tx, expected.to_bytes())?;
        }
        describe::<R::At<'_>, _>(tx, found.at, found.schema, value)?;
        Ok(value)
    })
}
