//! The engine's view of a scheme, which can be a trait object.
//!
//! The engine is compiled twice. The product's path is compiled for [`Blurred`](super::Blurred) and inlined down to the store instruction. The
//! laboratory's path is compiled once for all schemes, including BPPM: with [`Erased`], each written word and each step of a commit takes an indirect
//! call, so that all schemes are compared with the same dispatch.

use std::marker::PhantomData;

use super::{BPPM, Full, RecoveryReport, RecoveryStep, Scheme, SchemeKind};
use crate::error::{Error, Result};
use crate::layout::View;
#[cfg(feature = "worlds")]
use crate::memory::Hosted;
use crate::memory::{Memory, Native, PersistentAddress};
use crate::transaction::{Concurrency, LockSet, Statistics, WriteSet};

macro_rules! scheme_object {
    ($(fn $name:ident[&$($mut:ident)?]($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// A worker's [`Scheme`] over one kind of memory, as the engine calls it. Each scheme implements this; its methods are documented there.
        pub trait SchemeObject<M: Memory> {
            /// Leases BPPM for the worker of log `index`.
            #[doc(hidden)]
            fn lease(view: &View<M>, index: u64) -> Self
            where
                Self: Sized;
            /// Returns BPPM for reading at a snapshot, or `None` if the pool may belong to another scheme, which may store uncommitted words home.
            #[doc(hidden)]
            fn reader() -> Option<Self>
            where
                Self: Sized;
            #[doc(hidden)]
            fn in_place(&self) -> bool;
            $(#[doc(hidden)]
            fn $name(&$($mut)? self, view: &View<M>, $($argument: $type),*) $(-> $result)?;)*
            #[doc(hidden)]
            fn running_records(&self) -> (PersistentAddress, u64);
            /// See [`Scheme::TAKES_WRITES`].
            fn takes_writes(&self) -> bool;
            /// See [`Scheme::IS_AWAITED`].
            fn is_awaited(&self) -> bool;
            /// Returns the newest value of word number `number` of the running transaction's writes. If the compiler knows the scheme, this is the
            /// write set's copy. Otherwise the scheme returns it, which has its cost where time is simulated.
            fn own_value(&self, view: &View<M>, writes: &WriteSet, number: usize) -> u64;
            /// Makes sure that the write set has all values that will be stored home.
            fn give_values(&self, view: &View<M>, writes: &mut WriteSet);
        }

        impl<M: Memory, S: Scheme> SchemeObject<M> for S {
            fn lease(view: &View<M>, index: u64) -> Self {
                Scheme::lease(view, index)
            }
            fn reader() -> Option<Self> {
                Scheme::reader()
            }
            fn in_place(&self) -> bool {
                S::IN_PLACE
            }
            $(#[inline(always)]
            fn $name(&$($mut)? self, view: &View<M>, $($argument: $type),*) $(-> $result)? {
                Scheme::$name(self, view, $($argument),*)
            })*
            fn running_records(&self) -> (PersistentAddress, u64) {
                Scheme::running_records(self)
            }
            fn takes_writes(&self) -> bool {
                S::TAKES_WRITES
            }
            fn is_awaited(&self) -> bool {
                S::IS_AWAITED
            }
            fn own_value(&self, _: &View<M>, writes: &WriteSet, number: usize) -> u64 {
                writes.value(number)
            }
            fn give_values(&self, _: &View<M>, _: &mut WriteSet) {}
        }

        scheme_object! { @erased Native, view => view, [$(fn $name[&$($mut)?]($($argument: $type),*) $(-> $result)?;)*] }
        #[cfg(feature = "worlds")]
        scheme_object! { @erased &Hosted, view => view, [$(fn $name[&$($mut)?]($($argument: $type),*) $(-> $result)?;)*] }
        #[cfg(feature = "worlds")]
        scheme_object! { @erased Hosted, view => &lent(view), [$(fn $name[&$($mut)?]($($argument: $type),*) $(-> $result)?;)*] }
    };
    (@erased $memory:ty, $view:ident => $lent:expr, [$(fn $name:ident[&$($mut:ident)?]($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*]) => {
        impl SchemeObject<$memory> for Erased {
            fn lease(view: &View<$memory>, index: u64) -> Self {
                SchemeMemory::lease(&BPPM, view, index)
            }
            fn reader() -> Option<Self> {
                None
            }
            fn in_place(&self) -> bool {
                self.in_place
            }
            $(#[inline(always)]
            fn $name(&$($mut)? self, $view: &View<$memory>, $($argument: $type),*) $(-> $result)? {
                self.scheme.$name($lent, $($argument),*)
            })*
            fn running_records(&self) -> (PersistentAddress, u64) {
                SchemeObject::<Native>::running_records(&*self.scheme)
            }
            fn takes_writes(&self) -> bool {
                self.takes_writes
            }
            fn is_awaited(&self) -> bool {
                self.is_awaited
            }
            fn own_value(&self, view: &View<$memory>, writes: &WriteSet, number: usize) -> u64 {
                if self.keeps_values { self.value(view, writes.place(number)) } else { writes.value(number) }
            }
            fn give_values(&self, view: &View<$memory>, writes: &mut WriteSet) {
                if self.keeps_values {
                    for number in 0..writes.len() {
                        writes.set(number, self.own_value(view, writes, number));
                    }
                }
            }
        }
    };
}

scheme_object! {
    fn release[&mut]();
    fn begin[&mut]();
    fn write[&mut](at: PersistentAddress, value: u64, previous: Option<u32>) -> Result<u32, Full>;
    fn value[&](place: u32) -> u64;
    fn executed[&mut](writes: &WriteSet) -> Result<(), Full>;
    fn next_transaction[&mut]() -> u64;
    fn commit[&mut](writes: &WriteSet, transaction: u64) -> u64;
    fn stored_home[&mut](writes: &WriteSet, concurrency: Concurrency);
    fn abort[&mut]();
    fn make_room[&mut](concurrency: Concurrency, statistics: &mut Statistics) -> Result<(), Error>;
    fn locks_taken[&mut]();
    fn commit_locked[&mut](
        log: u64,
        locks: &mut LockSet,
        writes: &WriteSet,
        statistics: &mut Statistics
    ) -> Result<(), Error>;
    fn end_locked[&mut](locks: &mut LockSet);
    fn settle[&mut](statistics: &mut Statistics);
}

/// Returns a view of the same pool through a reference to its memory.
#[cfg(feature = "worlds")]
fn lent<M>(view: &View<M>) -> View<&M> {
    View { memory: &view.memory, layout: view.layout, shared: view.shared }
}

/// A worker's scheme over any of the memories.
#[cfg(feature = "worlds")]
trait Leased: SchemeObject<Native> + for<'m> SchemeObject<&'m Hosted> {}

/// A worker's scheme over an application's only kind of memory.
#[cfg(not(feature = "worlds"))]
trait Leased: SchemeObject<Native> {}

impl<S: Scheme> Leased for S {}

/// A scheme that is determined at run time, as in the laboratory. [`SchemeMemory::lease`] makes one.
pub struct Erased {
    scheme: Box<dyn Leased + Send>,
    /// A copy of the scheme's constant, which saves an indirect call.
    in_place: bool,
    takes_writes: bool,
    is_awaited: bool,
    keeps_values: bool,
}

impl Erased {
    fn new<S: Scheme + Send + 'static>(scheme: S) -> Self {
        Self {
            scheme: Box::new(scheme),
            in_place: S::IN_PLACE,
            takes_writes: S::TAKES_WRITES,
            is_awaited: S::IS_AWAITED,
            keeps_values: S::KEEPS_VALUES,
        }
    }
}

/// The operations of a [`Scheme`] that need no worker, over each kind of memory. [`SchemeMemory`] calls them.
pub trait AnyScheme: Sync + OperationsOnAll {
    /// Returns whether a helper should run [`SchemeMemory::help`] beside the workers.
    fn has_helper(&self) -> bool;
}

/// The part of [`AnyScheme`] for one kind of memory. Its methods are documented at [`SchemeMemory`].
pub trait OperationsOn<M: Memory> {
    #[doc(hidden)]
    fn lease(&self, view: &View<M>, index: u64) -> Erased;
    #[doc(hidden)]
    fn recover(&self, view: &View<M>, begins: &mut dyn FnMut(RecoveryStep)) -> Result<RecoveryReport>;
    #[doc(hidden)]
    fn drain(&self, view: &View<M>);
    #[doc(hidden)]
    fn help(&self, view: &View<M>, concurrency: Concurrency, stop: &dyn Fn() -> bool);
}

/// Memory for schemes that are determined at run time: [`Native`] and, with the feature `worlds`, `Hosted`.
pub trait SchemeMemory: Memory + Sized {
    /// Leases the scheme for the worker of log `index`: see [`Scheme::lease`].
    fn lease(kind: SchemeKind, view: &View<Self>, index: u64) -> Erased;
    /// Recovers a pool that this scheme has written, without reading the state word: see [`Scheme::recover`].
    ///
    /// # Errors
    /// Returns an error if a log is damaged. Nothing has been changed then.
    fn recover(
        kind: SchemeKind,
        view: &View<Self>,
        begins: &mut dyn FnMut(RecoveryStep),
    ) -> Result<RecoveryReport>;
    /// Makes all committed words durable in their home locations: see [`Scheme::drain`].
    fn drain(kind: SchemeKind, view: &View<Self>);
    /// Does the work of a helper until `stop` returns true: see [`Scheme::help`].
    fn help(kind: SchemeKind, view: &View<Self>, concurrency: Concurrency, stop: &dyn Fn() -> bool);
}

/// The operations over each kind of memory.
#[cfg(feature = "worlds")]
pub trait OperationsOnAll: OperationsOn<Native> + for<'m> OperationsOn<&'m Hosted> {}

/// The operations over an application's only kind of memory.
#[cfg(not(feature = "worlds"))]
pub trait OperationsOnAll: OperationsOn<Native> {}

/// A scheme's type as a value, for its descriptor.
pub struct Of<S>(PhantomData<fn() -> S>);

impl<S> Of<S> {
    /// The value, which a descriptor borrows.
    pub const NEW: Self = Self(PhantomData);
}

impl<M: Memory, S: Scheme + Send + 'static> OperationsOn<M> for Of<S> {
    fn lease(&self, view: &View<M>, index: u64) -> Erased {
        Erased::new(<S as Scheme>::lease(view, index))
    }
    fn recover(&self, view: &View<M>, begins: &mut dyn FnMut(RecoveryStep)) -> Result<RecoveryReport> {
        S::recover(view, begins)
    }
    fn drain(&self, view: &View<M>) {
        S::drain(view);
    }
    fn help(&self, view: &View<M>, concurrency: Concurrency, stop: &dyn Fn() -> bool) {
        S::help(view, concurrency, stop);
    }
}

impl<S: Scheme + Send + 'static> OperationsOnAll for Of<S> {}

impl<S: Scheme + Send + 'static> AnyScheme for Of<S> {
    fn has_helper(&self) -> bool {
        S::HELPER
    }
}

macro_rules! scheme_memory {
    ($($memory:ty: $view:ident => $lent:expr;)*) => {
        $(impl SchemeMemory for $memory {
            fn lease(kind: SchemeKind, $view: &View<Self>, index: u64) -> Erased {
                kind.scheme.lease($lent, index)
            }
            fn recover(
                kind: SchemeKind,
                $view: &View<Self>,
                begins: &mut dyn FnMut(RecoveryStep),
            ) -> Result<RecoveryReport> {
                kind.scheme.recover($lent, begins)
            }
            fn drain(kind: SchemeKind, $view: &View<Self>) {
                kind.scheme.drain($lent);
            }
            fn help(kind: SchemeKind, $view: &View<Self>, concurrency: Concurrency, stop: &dyn Fn() -> bool) {
                kind.scheme.help($lent, concurrency, stop);
            }
        })*
    };
}

scheme_memory! {
    Native: view => view;
}

#[cfg(feature = "worlds")]
scheme_memory! {
    &Hosted: view => view;
    Hosted: view => &lent(view);
}
