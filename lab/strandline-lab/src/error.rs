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
    #[error("cannot {what}: {error}")]
    Io {
        /// What was attempted, as a verb and its object.
        what: String,
        /// What the operating system answered.
        error: std::io::Error,
    },
}
