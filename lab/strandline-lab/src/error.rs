//! Errors of the laboratory.

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that was requested does not exist.
    #[error("{0}")]
    Usage(String),
    /// The library returned an error.
    #[error(transparent)]
    Library(#[from] strandline_core::Error),
    /// The operating system returned an error.
    #[error("cannot {what}: {error}")]
    Io {
        /// The attempted action, as a verb and its object.
        what: String,
        /// The operating system's error.
        error: std::io::Error,
    },
}
