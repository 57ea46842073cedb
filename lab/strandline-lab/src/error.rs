//! What may fail in the laboratory.

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What was asked for does not exist.
    #[error("{0}")]
    Usage(String),
    /// The library refused.
    #[error(transparent)]
    Library(#[from] strandline_core::Error),
    /// The system refused.
    #[error("cannot {what}: {source}")]
    Io {
        /// What was attempted, as a verb and its object.
        what: String,
        /// What the operating system answered.
        source: std::io::Error,
    },
}
