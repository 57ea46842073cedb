//! How transactions are isolated, as a type: each control is compiled for itself, without a branch at each access.
//!
//! The control also decides between the two paths through the engine, of which [`Control`] says more: the product's, which is inlined, and the
//! laboratory's, which the compiler sees once for all schemes, workloads and worlds.

use crate::layout::View;
use crate::memory::Memory;
use crate::scheme::{BPPM, Erased, Product, Scheme, SchemeMemory, SchemeObject, Schemes};
use crate::transaction::Concurrency;

/// A concurrency control, and the path that its transactions take over memory `M`.
///
/// The product's path is [`Product`] under [`Stm`] or [`SingleWriter`], compiled for each and inlined down to the store
/// instruction. The laboratory's is [`Concurrency`], a control that is known while the program runs, with an [`Erased`]
/// scheme: it is compiled once for all schemes and controls, BPPM too. There is no third.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// use strandline_core::Abort;
/// use strandline_core::engine::{Control, Setup, SingleWriter, Tx};
/// use strandline_core::memory::Native;
///
/// fn next<C: Control<Native>>(tx: &mut Tx<Native, C>) -> Result<u64, Abort> {
///     let next = tx.read(tx.root(0))? + 1;
///     tx.write(tx.root(0), next)?;
///     Ok(next)
/// }
///
/// let pool = Setup::from(SingleWriter).create(&path, &options)?;
/// assert_eq!(pool.worker()?.run(next)?, 1);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub trait Control<M: Memory>: Copy + Send + Sync + sealed::Sealed + 'static {
    /// The scheme of its transactions, as the engine calls it.
    type Scheme: SchemeObject<M> + Send;
    /// Whether reads and writes are compiled into whoever does them, or called.
    #[doc(hidden)]
    const INLINED: bool = true;
    /// Whether a transaction that does not fit a log runs again as a large one.
    #[doc(hidden)]
    const ANY_SIZE: bool = true;

    /// The control as a value.
    fn concurrency(self) -> Concurrency;
    /// BPPM, for the worker that leases log `index`.
    fn lease(view: &View<M>, index: u64) -> Self::Scheme;
    /// BPPM, for somebody who only reads, at a snapshot. `None`: the pool may be another scheme's, which stores home what is not
    /// committed.
    fn reader() -> Option<Self::Scheme>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Stm {}
    impl Sealed for super::SingleWriter {}
    impl Sealed for super::Concurrency {}
}

/// The control [`Concurrency::Stm`], compiled for itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stm;

/// The control [`Concurrency::SingleWriter`], compiled for itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleWriter;

impl<M: Memory> Control<M> for Stm {
    type Scheme = Product;

    fn concurrency(self) -> Concurrency {
        Concurrency::Stm
    }

    fn lease(view: &View<M>, index: u64) -> Product {
        Scheme::lease(view, index)
    }

    fn reader() -> Option<Product> {
        Scheme::reader()
    }
}

impl<M: Memory> Control<M> for SingleWriter {
    type Scheme = Product;

    fn concurrency(self) -> Concurrency {
        Concurrency::SingleWriter
    }

    fn lease(view: &View<M>, index: u64) -> Product {
        Scheme::lease(view, index)
    }

    fn reader() -> Option<Product> {
        Scheme::reader()
    }
}

impl<M: SchemeMemory> Control<M> for Concurrency
where
    Erased: SchemeObject<M>,
{
    type Scheme = Erased;
    const INLINED: bool = false;
    const ANY_SIZE: bool = false;

    fn concurrency(self) -> Concurrency {
        self
    }

    fn lease(view: &View<M>, index: u64) -> Erased {
        M::lease(&BPPM, view, index)
    }

    fn reader() -> Option<Erased> {
        None
    }
}

/// How a pool is used while it is open: one control for all its workers, and the schemes that they may be of.
///
/// ```
/// use strandline_core::Concurrency;
/// use strandline_core::engine::{Setup, SingleWriter, Stm};
///
/// let _product: [Setup<Stm>; 2] = [Setup::default(), Stm.into()];
/// let _readers_beside_one_writer = Setup::from(SingleWriter);
/// let laboratory = Setup::from(Concurrency::Locks);
/// assert_eq!(laboratory.control, Concurrency::Locks);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup<C = Stm> {
    /// How transactions are isolated.
    pub control: C,
    /// The schemes that the pool may be of. Whoever leases a worker of another need not name it here.
    pub schemes: Schemes,
}

macro_rules! setup_from {
    ($($control:ty)*) => {
        $(impl From<$control> for Setup<$control> {
            /// With an application's schemes.
            fn from(control: $control) -> Self {
                Self { control, schemes: Schemes::default() }
            }
        })*
    };
}

setup_from! { Stm SingleWriter Concurrency }
