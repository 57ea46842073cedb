//! Persistence domains: what a write-back and a fence mean on the memory at hand.

use std::fmt;

use crate::error::{Error, Result};

/// What kind of storage a pool is on, and so which failures a committed transaction survives.
///
/// ```
/// # use strandline_core as strandline;
/// use strandline::{Domain, Options};
///
/// // Durable on an ordinary file; the default.
/// assert_eq!(Options::default().domain, Domain::Sync);
/// // Faster, and enough where a power failure may take everything, as in tests.
/// let options = Options { domain: Domain::Process, ..Options::default() };
/// assert_eq!(options.domain.name(), "process");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Domain {
    /// Lines are written back with the best of clwb, clflushopt and clflush, then fenced: NVDIMM, DAX, ADR.
    Flush,
    /// Caches survive: a fence orders, nothing is written back. eADR, CXL global persistent flush, battery.
    FlushOnFail,
    /// An ordinary file: the acknowledgement waits for a log that is flushed to the device.
    Sync,
    /// Nothing is waited for: survives a killed process, not a power failure.
    Process,
    /// [`Domain::Flush`] plus a latency for each line written back, as the Blurred Persistence paper
    /// emulates slow memory. Durable only where `Flush` is.
    // Hidden: it is for the laboratory.
    #[doc(hidden)]
    Emulated {
        /// Nanoseconds added to each write-back.
        write_latency_ns: u64,
    },
}

impl Domain {
    /// The domain's name on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Flush => "flush",
            Self::FlushOnFail => "flush-on-fail",
            Self::Sync => "sync",
            Self::Process => "process",
            Self::Emulated { .. } => "emulated",
        }
    }

    /// Whether pools can be open under it on this kind of processor. Whether a machine has persistent memory, and instructions for it,
    /// is found when a pool is opened.
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

    /// Fails where it is not supported.
    ///
    /// # Errors
    /// [`Error::UnsupportedDomain`].
    pub(crate) fn check(self) -> Result<()> {
        if self.is_supported() { Ok(()) } else { Err(Error::UnsupportedDomain(self.name())) }
    }

    /// The domain's number in a pool's state word.
    pub(crate) fn code(self) -> u64 {
        match self {
            Self::Flush => 1,
            Self::FlushOnFail => 2,
            Self::Sync => 3,
            Self::Process => 4,
            Self::Emulated { .. } => 5,
        }
    }

    /// The domain with this number.
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
