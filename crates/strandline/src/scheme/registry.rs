//! The schemes, in one table: a scheme is found here by its name or by the number that pools keep of it.
//!
//! Adding one is adding a file and a line of the table.

use super::{
    Base, Blurred, Counted, DeferredEagerSync, DeferredEpoch, DeferredStrand, DeferredStrict, Erased,
    ExecutionInLog, HardwareFlushed, HardwareStores, MnemosyneAsynchronous, MnemosyneSynchronous,
    NoPersistence, RecoveryReport, RecoveryStep, Scheme, SoftwareWriteAhead, SynchronousEagerSync,
    SynchronousEpoch, SynchronousStrand, SynchronousStrict, UndoLogged, VolatileCheckpoint, Wrap,
};
use crate::error::{Error, Result};
use crate::memory::Memory;
use crate::pool::layout::View;
use crate::transaction::Concurrency;

macro_rules! schemes {
    ($($(#[$doc:meta])* $kind:ident = $code:literal: $scheme:ty, $name:literal in $modes:expr, $source:expr, $description:literal;)*) => {
        /// A scheme, without its mode.
        ///
        /// ```
        /// use strandline::Concurrency;
        /// use strandline::scheme::SchemeKind;
        ///
        /// let kind = SchemeKind::Blurred;
        /// assert_eq!(kind.name(Concurrency::Stm), "bppm");
        /// assert_eq!(kind.name(Concurrency::SingleWriter), "bppm+single-writer");
        /// // The `Sync` domain carries no other.
        /// assert!(SchemeKind::ALL.iter().all(|&other| other.in_sync() == (other == kind)));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum SchemeKind {
            $($(#[$doc])* $kind,)*
        }

        impl SchemeKind {
            /// All schemes, in the order in which they are shown.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// The name in `strandline list`, in one of its modes.
            pub const fn name(self, concurrency: Concurrency) -> &'static str {
                match (self, concurrency) {
                    $(
                        (Self::$kind, Concurrency::Stm) => $name,
                        (Self::$kind, Concurrency::SingleWriter) => concat!($name, "+single-writer"),
                        // The schemes that know no other isolation do not say it.
                        (Self::$kind, Concurrency::Locks) => {
                            if self.modes().len() == 1 { $name } else { concat!($name, "+locks") }
                        }
                    )*
                }
            }

            /// The modes that it runs in.
            pub const fn modes(self) -> &'static [Concurrency] {
                match self { $(Self::$kind => $modes,)* }
            }

            /// Where it is taken from.
            pub const fn source(self) -> &'static str {
                match self { $(Self::$kind => $source,)* }
            }

            /// What it is.
            pub const fn description(self) -> &'static str {
                match self { $(Self::$kind => $description,)* }
            }

            /// Its number in a pool's state word, which says who can recover an uncleanly closed pool.
            pub const fn code(self) -> u64 {
                match self { $(Self::$kind => $code,)* }
            }

            /// Whether a helper should run [`SchemeKind::help`] beside the workers.
            pub const fn has_helper(self) -> bool {
                match self { $(Self::$kind => <$scheme>::HELPER,)* }
            }

            /// Begins to serve the worker that leases log `index`: [`Scheme::lease`].
            pub fn lease<M: Memory>(self, view: &View<M>, index: u64) -> Erased<M> {
                match self { $(Self::$kind => Erased::new(<$scheme>::lease(view, index)),)* }
            }

            /// Recovers a pool that this scheme has written, whatever its state word says: [`Scheme::recover`].
            ///
            /// # Errors
            /// A log is damaged. Nothing has been changed then.
            pub fn recover<M: Memory>(
                self,
                view: &View<M>,
                begins: &mut dyn FnMut(RecoveryStep),
            ) -> Result<RecoveryReport> {
                match self { $(Self::$kind => <$scheme>::recover(view, begins),)* }
            }

            /// The work of a helper, until `stop` says so: [`Scheme::help`].
            pub fn help<M: Memory>(self, view: &View<M>, concurrency: Concurrency, stop: &dyn Fn() -> bool) {
                match self { $(Self::$kind => <$scheme>::help(view, concurrency, stop),)* }
            }

            #[cfg(test)]
            fn of_type(self) -> Self {
                match self { $(Self::$kind => <$scheme>::KIND,)* }
            }

            /// See [`Scheme::drain`].
            pub(super) fn drain<M: Memory>(self, view: &View<M>) {
                match self { $(Self::$kind => <$scheme>::drain(view),)* }
            }
        }
    };
}

const ALL_MODES: &[Concurrency] = &[Concurrency::Stm, Concurrency::SingleWriter];
const WITH_LOCKS: &[Concurrency] = &[Concurrency::Stm, Concurrency::SingleWriter, Concurrency::Locks];
const LOCKS_ONLY: &[Concurrency] = &[Concurrency::Locks];
const STORING_IN_PLACE: &[Concurrency] = &[Concurrency::SingleWriter, Concurrency::Locks];
const HARDWARE: &str = "Loose-Ordering Consistency; ATOM; WrAP";
const BLURRED: &str = "Lu, Shu, Sun: Blurred Persistence";
const DEFERRED: &str =
    "Kolli, Pelley, Saidi, Chen, Wenisch: High-Performance Transactions for Persistent Memories";
const WRITE_ASIDE: &str =
    "Giles, Doshi, Varman: Bridging the Programming Gap Between Persistent and Volatile Memory Using WrAP";
const MNEMOSYNE: &str = "Lu, Shu, Sun: Blurred Persistence (from Mnemosyne)";

// The numbers are part of the pool format (`docs/pool-format.md`): none is ever used for something else.
schemes! {
    /// Transactions without persistence.
    NoPersistence = 1: NoPersistence, "np" in WITH_LOCKS, BLURRED,
        "transactions without persistence: the upper bound";
    /// Conventional write-ahead logging.
    Base = 2: Base, "base" in ALL_MODES, BLURRED,
        "redo log copied from an execution area, fences after log, commit record, data and truncation";
    /// Mnemosyne that truncates at once.
    MnemosyneSynchronous = 3: MnemosyneSynchronous, "mne-sync" in ALL_MODES, MNEMOSYNE,
        "redo log by non-temporal stores with torn bits, one fence; then data and truncation, a fence each";
    /// Mnemosyne whose helper truncates.
    MnemosyneAsynchronous = 4: MnemosyneAsynchronous, "mne-async" in ALL_MODES, MNEMOSYNE,
        "the same log, one fence; a helper thread persists data and truncates in the order of commits";
    /// Blurred Persistence with execution in the log alone.
    ExecutionInLog = 5: ExecutionInLog, "xil" in ALL_MODES, BLURRED,
        "BP(XIL): execution in the log with torn bits, one fence; then data and truncation, a fence each";
    /// Blurred Persistence with volatile checkpoints and bulk persistence alone.
    VolatileCheckpoint = 6: VolatileCheckpoint, "vcbp" in ALL_MODES, BLURRED,
        "BP(VCBP): redo log copied from an execution area, a fence, commit record, a fence; bulk persistence";
    /// Blurred Persistence.
    Blurred = 0: Blurred, "bppm" in ALL_MODES, BLURRED,
        "execution in the log with torn bits, one fence per commit, bulk persistence";
    /// Blurred Persistence with counted commit records.
    Counted = 7: Counted, "bppm-counted" in ALL_MODES, "Strandline: Blurred Persistence with Loose-Ordering's counts",
        "bppm without abort records: a commit record counts its transaction's records";
    /// Write-ahead logging of blocks.
    SoftwareWriteAhead = 8: SoftwareWriteAhead, "s-wal" in ALL_MODES, "Lu, Shu, Sun, Mutlu: Loose-Ordering Consistency",
        "redo log of 64-byte blocks written during execution, fences after log, commit record, data and truncation";
    /// Synchronous commit under strict persistency.
    SynchronousStrict = 16: SynchronousStrict, "sct-strict" in LOCKS_ONLY, DEFERRED,
        "undo log, commit before the locks are released; strict persistency (no barriers; not on real memory)";
    /// Synchronous commit under epoch persistency.
    SynchronousEpoch = 17: SynchronousEpoch, "sct-epoch" in LOCKS_ONLY, DEFERRED,
        "the same with four persist barriers; epoch persistency (not on real memory)";
    /// Synchronous commit under eager sync.
    SynchronousEagerSync = 18: SynchronousEagerSync, "sct-eager-sync" in LOCKS_ONLY, DEFERRED,
        "the same with three sync barriers: clwb and sfence";
    /// Synchronous commit under strand persistency.
    SynchronousStrand = 19: SynchronousStrand, "sct-strand" in LOCKS_ONLY, DEFERRED,
        "the same with each transaction on a strand of its own; strand persistency (not on real memory)";
    /// Deferred commit under strict persistency.
    DeferredStrict = 20: DeferredStrict, "dct-strict" in LOCKS_ONLY, DEFERRED,
        "undo log, commit after the locks are released; strict persistency (no barriers; not on real memory)";
    /// Deferred commit under epoch persistency.
    DeferredEpoch = 21: DeferredEpoch, "dct-epoch" in LOCKS_ONLY, DEFERRED,
        "the same with two persist barriers, commits behind a later transaction's; epoch persistency (not on real memory)";
    /// Deferred commit under eager sync.
    DeferredEagerSync = 22: DeferredEagerSync, "dct-eager-sync" in LOCKS_ONLY, DEFERRED,
        "the same with one sync barrier (clwb and sfence), commits behind later transactions'";
    /// Deferred commit under strand persistency.
    DeferredStrand = 23: DeferredStrand, "dct-strand" in LOCKS_ONLY, DEFERRED,
        "the same with each transaction on a strand of its own; strand persistency (not on real memory)";
    /// Software under hardware that makes transactions atomic.
    HardwareStores = 24: HardwareStores, "hardware" in STORING_IN_PLACE, HARDWARE,
        "plain stores in place between a transaction's boundaries, for the simulated machine's hardware schemes";
    /// The same, with data written back by software.
    HardwareFlushed = 25: HardwareFlushed, "hardware-flushed" in STORING_IN_PLACE, HARDWARE,
        "the same, and every line stored to is written back before the commit (ATOM's software)";
    /// Undo logging by synchronous copies.
    UndoLogged = 26: UndoLogged, "undo-log" in STORING_IN_PLACE, WRITE_ASIDE,
        "undo log, each old value durable before its word is stored to in place: WrAP's comparison";
    /// WrAP in software.
    Wrap = 48: Wrap, "wrap" in ALL_MODES, WRITE_ASIDE,
        "redo log by non-temporal stores during execution, one fence; a helper copies home in closing order";
}

impl SchemeKind {
    /// Whether what it acknowledges survives: all but `np`, and those that leave it to hardware.
    pub fn is_durable(self) -> bool {
        self != Self::NoPersistence && !self.is_for_hardware()
    }

    /// Whether it leaves atomicity and durability to a hardware scheme of the simulated machine.
    pub fn is_for_hardware(self) -> bool {
        matches!(self, Self::HardwareStores | Self::HardwareFlushed)
    }

    /// Whether the `Sync` domain carries it.
    pub fn in_sync(self) -> bool {
        self == Self::Blurred
    }

    /// Whether it runs on real memory. The others issue persist barriers, or count on an order of persists or on
    /// hardware, that no processor has; they exist for the recorder, the crash checker and the simulator.
    pub const fn is_native(self) -> bool {
        !matches!(
            self,
            Self::HardwareStores
                | Self::HardwareFlushed
                | Self::SynchronousStrict
                | Self::SynchronousEpoch
                | Self::SynchronousStrand
                | Self::DeferredStrict
                | Self::DeferredEpoch
                | Self::DeferredStrand
        )
    }

    /// The scheme with this number in a pool's state word.
    ///
    /// # Errors
    /// There is none.
    pub fn of_code(code: u64) -> Result<Self> {
        let found = Self::ALL.iter().copied().find(|kind| kind.code() == code);
        found.ok_or_else(|| Error::Damaged(format!("its state word names scheme number {code}")))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn numbers_and_names_are_unique_and_types_know_their_kinds() {
        let codes: BTreeSet<_> = SchemeKind::ALL.iter().map(|kind| kind.code()).collect();
        assert_eq!(codes.len(), SchemeKind::ALL.len());
        assert!(codes.iter().all(|&code| code < 256), "a byte of the state word");
        let names: Vec<_> = SchemeKind::ALL
            .iter()
            .flat_map(|kind| kind.modes().iter().map(|&mode| kind.name(mode)))
            .collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
        for &kind in SchemeKind::ALL {
            assert_eq!(kind.of_type(), kind);
            assert_eq!(SchemeKind::of_code(kind.code()).unwrap(), kind);
        }
        assert!(SchemeKind::of_code(255).is_err());
    }
}
