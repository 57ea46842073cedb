//! The isolation of transactions, as a type: the engine is compiled for each control, without a branch at each access.
//!
//! The control also selects one of the two paths through the engine ([`Control`]): the product's path, which is inlined, or the
//! laboratory's, which is compiled once for all schemes, workloads and memories.

use std::marker::PhantomData;

use crate::memory::{Memory, Native};
use crate::scheme::{Erased, Product, SchemeObject, Schemes};
use crate::transaction::Concurrency;

/// A concurrency control, the memory that its transactions run on, and the path that they take through the engine. It is a type parameter
/// of workers, stores and transactions, so that these are compiled for each control. A program that uses the default need not name it.
///
/// The product's path is [`Product`] under [`Stm`] or [`SingleWriter`], compiled for each and inlined down to the store
/// instruction. The laboratory's is [`Concurrency`], a control that is known while the program runs, with an [`Erased`]
/// scheme: it is compiled once for all schemes and controls, BPPM too. There is no third. Each of the three runs on a pool's mapped file, and
/// [`Over`] another memory.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// use strandline_core::Abort;
/// use strandline_core::engine::{Control, Setup, SingleWriter, Tx};
///
/// // A part of a transaction of any pool.
/// fn next<C: Control>(tx: &mut Tx<C>) -> Result<u64, Abort> {
///     let next = tx.read(tx.root(0))? + 1;
///     tx.write(tx.root(0), next)?;
///     Ok(next)
/// }
///
/// let pool = Setup::from(SingleWriter).create(&path, &options)?;
/// assert_eq!(pool.worker()?.run(next)?, 1);
/// # Ok::<(), strandline_core::Error>(())
/// ```
pub trait Control: Copy + Default + Send + Sync + sealed::Sealed {
    /// The memory that its transactions run on.
    type Memory: Memory;
    /// The scheme of its transactions, as the engine calls it.
    type Scheme: SchemeObject<Self::Memory> + Send;
    /// True if reads and writes are inlined into their callers.
    #[doc(hidden)]
    const INLINED: bool = true;
    /// True if a transaction that does not fit a log runs again as a large one.
    #[doc(hidden)]
    const ANY_SIZE: bool = true;

    /// Returns the control as a value.
    fn concurrency(self) -> Concurrency;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Stm {}
    impl Sealed for super::SingleWriter {}
    impl Sealed for super::Concurrency {}
    impl<C, M> Sealed for super::Over<C, M> {}
}

/// The control [`Concurrency::Stm`], as a type.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stm;

/// The control [`Concurrency::SingleWriter`], as a type.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleWriter;

/// The control `C` over memory `M`, for pools that are not files.
pub struct Over<C, M>(C, PhantomData<fn() -> M>);

impl<C, M> Over<C, M> {
    /// Returns `control` over memory `M`.
    pub fn new(control: C) -> Self {
        Self(control, PhantomData)
    }
}

impl<C: Copy, M> Copy for Over<C, M> {}

impl<C: Copy, M> Clone for Over<C, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C: Default, M> Default for Over<C, M> {
    fn default() -> Self {
        Self::new(C::default())
    }
}

impl Control for Stm {
    type Memory = Native;
    type Scheme = Product;

    fn concurrency(self) -> Concurrency {
        Concurrency::Stm
    }
}

impl Control for SingleWriter {
    type Memory = Native;
    type Scheme = Product;

    fn concurrency(self) -> Concurrency {
        Concurrency::SingleWriter
    }
}

impl Control for Concurrency {
    type Memory = Native;
    type Scheme = Erased;
    const INLINED: bool = false;
    const ANY_SIZE: bool = false;

    fn concurrency(self) -> Concurrency {
        self
    }
}

impl<M: Memory, C: Control<Scheme: SchemeObject<M>>> Control for Over<C, M> {
    type Memory = M;
    type Scheme = C::Scheme;
    const INLINED: bool = C::INLINED;
    const ANY_SIZE: bool = C::ANY_SIZE;

    fn concurrency(self) -> Concurrency {
        self.0.concurrency()
    }
}

/// The setup of an open pool: the control of all its workers, and the schemes that the pool may have.
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
    /// The control that isolates transactions.
    pub control: C,
    /// The schemes that the pool may have when it is opened. A worker may be leased for another scheme without naming it here.
    pub schemes: Schemes,
}

impl<C> Setup<C> {
    /// Returns this setup for a pool in memory `M`.
    pub(super) fn over<M>(self) -> Setup<Over<C, M>> {
        Setup { control: Over::new(self.control), schemes: self.schemes }
    }
}

macro_rules! setup_from {
    ($($control:ty)*) => {
        $(impl From<$control> for Setup<$control> {
            /// Returns a setup with the schemes of applications.
            fn from(control: $control) -> Self {
                Self { control, schemes: Schemes::default() }
            }
        })*
    };
}

setup_from! { Stm SingleWriter Concurrency }
