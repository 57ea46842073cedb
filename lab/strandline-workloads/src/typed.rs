//! Workloads on the collections of the typed interface: the operations of the workloads on words, in stores of their own.

use fastrand::Rng;
use strandline::{Control, Root, Session, SingleWriter, Stm, Store, Tx, View};
use strandline_core::error::{Error, Result};
use strandline_core::memory::Native;
use strandline_core::transaction::{Concurrency, Statistics};

use crate::dictionary::only_reads;
use crate::{Client, NewPool, Product, Sizes};

/// Creates a store in a new file, under STM or with a single writer, fills it, and reopens it for measuring.
pub type CreateTyped = fn(&Sizes, Concurrency, &NewPool) -> Result<Box<dyn Product>>;

/// The number of items that one transaction inserts while a store is filled: few enough for the smallest log.
const BATCH: usize = 16;

/// A root with the collection of a workload.
pub(crate) trait Collection: Root + 'static {
    /// Creates an empty collection, with room for a structure of these sizes.
    fn create<'p, C: Control>(tx: &Tx<'p, C>, sizes: &Sizes) -> Result<Self::At<'p>>;

    /// Returns the initial items, in the order in which they are added.
    fn initial(sizes: &Sizes) -> Vec<u64>;

    /// Adds one of the initial items.
    fn add<'p>(root: &Self::At<'p>, tx: &Tx<'p, impl Control>, item: u64) -> Result<()>;

    /// Performs one operation of a transaction that only reads, if the workload has such transactions.
    fn look_up<'p>(_: &Self::At<'p>, _: &View<'p, impl Control>, _: &Sizes, _: &mut Rng) -> Result<()> {
        Ok(())
    }

    /// Performs one operation of a transaction.
    fn operation<'p>(
        root: &Self::At<'p>,
        tx: &Tx<'p, impl Control>,
        sizes: &Sizes,
        random: &mut Rng,
    ) -> Result<()>;
}

/// Defines a root `Typed` with a map of random keys below one of the sizes, which are inserted and deleted as under
/// [`Mix::Toggle`](crate::Mix::Toggle).
macro_rules! map_by_types {
    ($map:ident<$key:ty, $value:ty>, $below:ident, $new:expr, $encode:expr, $content:expr) => {
        /// The map with types.
        #[derive(strandline::Persist)]
        struct Typed<'p> {
            map: strandline::$map<'p, $key, $value>,
        }

        impl crate::typed::Collection for Typed<'static> {
            fn create<'p, C: strandline::Control>(
                tx: &strandline::Tx<'p, C>,
                sizes: &Sizes,
            ) -> Result<Typed<'p>> {
                let new: for<'t> fn(
                    &strandline::Tx<'t, C>,
                    &Sizes,
                ) -> Result<strandline::$map<'t, $key, $value>> = $new;
                Ok(Typed { map: new(tx, sizes)? })
            }

            fn initial(sizes: &Sizes) -> Vec<u64> {
                crate::dictionary::Use::of(sizes, sizes.$below).initial()
            }

            fn add<'p>(
                root: &Typed<'p>,
                tx: &strandline::Tx<'p, impl strandline::Control>,
                item: u64,
            ) -> Result<()> {
                root.map.insert(tx, &$encode(item), &$content(item)).map(drop)
            }

            fn look_up<'p>(
                root: &Typed<'p>,
                tx: &strandline::View<'p, impl strandline::Control>,
                sizes: &Sizes,
                random: &mut fastrand::Rng,
            ) -> Result<()> {
                let key = $encode(random.u64(..sizes.$below));
                std::hint::black_box(root.map.contains_key(tx, &key)?);
                Ok(())
            }

            fn operation<'p>(
                root: &Typed<'p>,
                tx: &strandline::Tx<'p, impl strandline::Control>,
                sizes: &Sizes,
                random: &mut fastrand::Rng,
            ) -> Result<()> {
                let number = random.u64(..sizes.$below);
                let key = $encode(number);
                if root.map.contains_key(tx, &key)? {
                    return root.map.remove(tx, &key).map(drop);
                }
                root.map.insert(tx, &key, &$content(number)).map(drop)
            }
        }
    };
}
pub(crate) use map_by_types;

struct Filled<R, C: Control<Memory = Native>> {
    store: Store<R, C>,
    sizes: Sizes,
}

/// Creates the store with a collection, for [`WorkloadDescriptor::by_types`](crate::WorkloadDescriptor::by_types).
pub(crate) fn create<R: Collection>(
    sizes: &Sizes,
    concurrency: Concurrency,
    pool: &NewPool,
) -> Result<Box<dyn Product>> {
    match concurrency {
        Concurrency::SingleWriter => create_under::<R, SingleWriter>(sizes, pool),
        _ => create_under::<R, Stm>(sizes, pool),
    }
}

fn create_under<R, C>(sizes: &Sizes, pool: &NewPool) -> Result<Box<dyn Product>>
where
    R: Collection,
    C: Control<Memory = Native>,
    Filled<R, C>: Product + 'static,
{
    let store = Store::<R, C>::create_new(&pool.path, &pool.filling, |tx| R::create(tx, sizes))?;
    let mut session = store.session()?;
    for items in R::initial(sizes).chunks(BATCH) {
        session.write(|tx, root| {
            let root = root.get(tx)?;
            items.iter().try_for_each(|&item| R::add(&root, tx, item))
        })?;
    }
    drop(session);
    store.close()?;
    let store = pool.open(|path, options| Store::<R, C>::open_existing(path, options))?;
    Ok(Box::new(Filled { store, sizes: *sizes }))
}

impl<R: Collection, C: Control<Memory = Native>> Product for Filled<R, C>
where
    Store<R, C>: Send + Sync,
{
    fn client(&self, seed: u64) -> Result<Box<dyn Client + '_>> {
        let random = Rng::with_seed(seed);
        Ok(Box::new(TypedClient {
            session: self.store.session()?,
            sizes: &self.sizes,
            random,
            read_percent: self.sizes.read_percent,
        }))
    }

    fn check(&self) -> Result<()> {
        let findings = self.store.check()?;
        if findings.is_empty() { Ok(()) } else { Err(Error::damaged(findings.join("; "))) }
    }
}

struct TypedClient<'s, R, C: Control<Memory = Native>> {
    session: Session<R, C>,
    sizes: &'s Sizes,
    random: Rng,
    read_percent: u64,
}

impl<R: Collection, C: Control<Memory = Native>> Client for TypedClient<'_, R, C> {
    fn transaction(&mut self) -> Result<()> {
        let Self { session, sizes, random, read_percent } = self;
        if only_reads(random, *read_percent) {
            *random = session.read(|tx, root| {
                let mut random = random.clone();
                let root = root.get(tx)?;
                for _ in 0..sizes.operations {
                    R::look_up(&root, tx, sizes, &mut random)?;
                }
                Ok(random)
            })?;
            return Ok(());
        }
        *random = session.write(|tx, root| {
            // A transaction that runs again draws the same numbers.
            let mut random = random.clone();
            let root = root.get(tx)?;
            for _ in 0..sizes.operations {
                R::operation(&root, tx, sizes, &mut random)?;
            }
            Ok(random)
        })?;
        Ok(())
    }

    /// Does nothing, since nothing is deferred here.
    fn drain(&mut self) -> Result<()> {
        Ok(())
    }

    fn statistics(&self) -> Statistics {
        self.session.statistics()
    }
}
