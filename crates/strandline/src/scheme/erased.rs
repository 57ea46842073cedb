//! The engine's view of a scheme, which can be a trait object.
//!
//! The product's path is compiled for [`Blurred`](super::Blurred), inlined down to the store instruction. The laboratory's
//! is compiled once for all schemes, BPPM too: [`Erased`] is an indirect call for each word written and for each step of a
//! commit, and all of them are compared over the same dispatch. There is no third instantiation of the engine.

use super::{Full, Scheme};
use crate::error::Error;
use crate::memory::{Memory, PersistentAddress};
use crate::pool::layout::View;
use crate::transaction::{Concurrency, LockSet, Statistics, WriteSet};

macro_rules! scheme_object {
    ($($(#[$doc:meta])* fn $name:ident[&$($mut:ident)?]($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// A worker's [`Scheme`] over one kind of memory, as the engine calls it. Every scheme is one.
        pub trait SchemeObject<M: Memory> {
            /// [`Scheme::IN_PLACE`].
            fn in_place(&self) -> bool;
            $($(#[$doc])* fn $name(&$($mut)? self, $($argument: $type),*) $(-> $result)?;)*
        }

        impl<M: Memory, S: Scheme> SchemeObject<M> for S {
            #[inline(always)]
            fn in_place(&self) -> bool {
                S::IN_PLACE
            }
            $(#[inline(always)]
            fn $name(&$($mut)? self, $($argument: $type),*) $(-> $result)? {
                Scheme::$name(self, $($argument),*)
            })*
        }

        impl<M: Memory> SchemeObject<M> for Erased<M> {
            #[inline(always)]
            fn in_place(&self) -> bool {
                self.in_place
            }
            $(#[inline(always)]
            fn $name(&$($mut)? self, $($argument: $type),*) $(-> $result)? {
                self.scheme.$name($($argument),*)
            })*
        }
    };
}

scheme_object! {
    /// As [`Scheme::release`].
    fn release[&mut](view: &View<M>);
    /// As [`Scheme::begin`].
    fn begin[&mut](view: &View<M>);
    /// As [`Scheme::write`].
    ///
    /// # Errors
    /// No room.
    fn write[&mut](view: &View<M>, at: PersistentAddress, value: u64, previous: Option<u32>) -> Result<u32, Full>;
    /// As [`Scheme::value`].
    fn value[&](view: &View<M>, place: u32) -> u64;
    /// As [`Scheme::executed`].
    fn executed[&mut](view: &View<M>, writes: &WriteSet);
    /// As [`Scheme::commit`].
    fn commit[&mut](view: &View<M>, transaction: u64) -> u64;
    /// As [`Scheme::stored_home`].
    fn stored_home[&mut](view: &View<M>, writes: &WriteSet, concurrency: Concurrency);
    /// As [`Scheme::abort`].
    fn abort[&mut](view: &View<M>);
    /// As [`Scheme::make_room`].
    ///
    /// # Errors
    /// The transaction had the whole log to itself.
    fn make_room[&mut](view: &View<M>, concurrency: Concurrency, statistics: &mut Statistics) -> Result<(), Error>;
    /// As [`Scheme::locks_taken`].
    fn locks_taken[&mut](view: &View<M>);
    /// As [`Scheme::commit_locked`].
    ///
    /// # Errors
    /// The transaction is too large.
    fn commit_locked[&mut](
        view: &View<M>,
        log: u64,
        locks: &mut LockSet,
        home: &[(PersistentAddress, u64)],
        statistics: &mut Statistics
    ) -> Result<(), Error>;
    /// As [`Scheme::end_locked`].
    fn end_locked[&mut](view: &View<M>, locks: &mut LockSet);
    /// As [`Scheme::settle`].
    fn settle[&mut](view: &View<M>, statistics: &mut Statistics);
    /// As [`Scheme::running_records`].
    fn running_records[&]() -> (PersistentAddress, u64);
}

/// A scheme that is known while the program runs: the laboratory's. [`SchemeKind::lease`](super::SchemeKind::lease) makes one.
pub struct Erased<M: Memory> {
    scheme: Box<dyn SchemeObject<M> + Send>,
    /// What does not change needs no call.
    in_place: bool,
}

impl<M: Memory> Erased<M> {
    pub(super) fn new<S: Scheme + Send + 'static>(scheme: S) -> Self {
        Self { scheme: Box::new(scheme), in_place: S::IN_PLACE }
    }
}
