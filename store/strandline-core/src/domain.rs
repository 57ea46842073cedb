//! Persistence domains: the effect of write-backs and fences on the memory of a pool.

use std::fmt;

use crate::error::{Error, Result};

/// The kind of storage that a pool is on, which determines the failures that committed transactions survive.
///
/// ```
/// # use strandline_core as strandline;
/// use strandline::{Domain, Options};
///
/// // Durable on an ordinary file; the default.
/// assert_eq!(Options::default().domain, Domain::Sync);
/// // Faster, and enough if a power failure may destroy everything, as in tests.
/// let options = Options { domain: Domain::Process, ..Options::default() };
/// assert_eq!(options.domain.name(), "process");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Domain {
    /// Persistent memory with volatile caches (NVDIMM, DAX, ADR): lines are written back with the best of clwb, clflushopt and clflush, and
    /// then fenced.
    Flush,
    /// Persistent memory whose caches survive a power failure (eADR, CXL global persistent flush, battery): stores are fenced, but not written back.
    FlushOnFail,
    /// An ordinary file: a commit waits until its log is flushed to the device.
    Sync,
    /// An ordinary file, without waiting: transactions survive a killed process, but not a power failure.
    Process,
    /// [`Domain::Flush`] with an added latency for each line written back, as the Blurred Persistence paper
    /// emulates slow memory. Transactions are durable only where those under `Flush` are.
    // Hidden: it is for the laboratory.
    #[doc(hidden)]
    Emulated {
        /// The nanoseconds added to each write-back.
        write_latency_ns: u64,
    },
}

impl Domain {
    /// Returns the domain's name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::FlushOnFail => "flush-on-fail",
            Self::Sync => "sync",
            Self::Process => "process",
            Self::Emulated { .. } => "emulated",
        }
    }

    /// Returns whether pools can be open under the domain on this kind of processor. Whether the machine has persistent memory, and
    /// instructions for it, is found when a pool is opened.
    ///
    /// ```
    /// # use strandline_core as strandline;
    /// use strandline::Domain;
    ///
    /// assert!(Domain::Sync.is_supported() && Domain::Process.is_supported());
    /// // The crash checker knows in which order stores reach persistent memory on x86-64 alone.
    /// assert_eq!(Domain::Flush.is_supported(), cfg!(target_arch = "x86_64"));
    /// ```
    pub fn is_supported(self) -> bool {
        cfg!(target_arch = "x86_64") || matches!(self, Self::Sync | Self::Process)
    }

    /// Checks that the domain is supported.
    ///
    /// # Errors
    /// Returns [`Error::UnsupportedDomain`] if it is not.
    pub(crate) fn check(self) -> Result<()> {
        if self.is_supported() { Ok(()) } else { Err(Error::UnsupportedDomain(self.name())) }
    }

    /// Returns the domain's number in a pool's state word.
    pub(crate) fn code(self) -> u64 {
        match self {
            Self::Flush => 1,
            Self::FlushOnFail => 2,
            Self::Sync => 3,
            Self::Process => 4,
            Self::Emulated { .. } => 5,
        }
    }

    /// Returns the domain with this number.
    pub(crate) fn of_code(code: u64) -> Option<Self> {
        [Self::Flush, Self::FlushOnFail, Self::Sync, Self::Process, Self::Emulated { write_latency_ns: 0 }]
            .into_iter()
            .find(|domain| domain.code() == code)
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
