//! The kinds of errors, for who translates them: into codes of another language, say.

use super::Error;

/// What kind of [`Error`] it is, without what it says. Unlike that it is exhaustive: who matches it learns of a new one from the compiler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// [`Error::Io`].
    Io,
    /// [`Error::Parameter`].
    Parameter,
    /// [`Error::NotAPool`].
    NotAPool,
    /// [`Error::NewerFormat`].
    NewerFormat,
    /// [`Error::OlderFormat`].
    OlderFormat,
    /// [`Error::DamagedHeader`].
    DamagedHeader,
    /// [`Error::SeveralLinks`].
    SeveralLinks,
    /// [`Error::Truncated`].
    Truncated,
    /// [`Error::Damaged`].
    Damaged,
    /// [`Error::Irreparable`].
    Irreparable,
    /// [`Error::Missing`].
    Missing,
    /// [`Error::WrongStructure`].
    WrongStructure,
    /// [`Error::Incomplete`].
    Incomplete,
    /// [`Error::Locked`].
    Locked,
    /// [`Error::WrongLayout`].
    WrongLayout,
    /// [`Error::WrongDomain`].
    WrongDomain,
    /// [`Error::Unprotected`].
    Unprotected,
    /// [`Error::NotPersistentMemory`].
    NotPersistentMemory,
    /// [`Error::LogFile`].
    LogFile,
    /// [`Error::ChecksumFile`].
    ChecksumFile,
    /// [`Error::UnsupportedDomain`].
    UnsupportedDomain,
    /// [`Error::UnsupportedInstruction`].
    UnsupportedInstruction,
    /// [`Error::NoProtectionKey`].
    NoProtectionKey,
    /// [`Error::Unsupported`].
    Unsupported,
    /// [`Error::OtherScheme`].
    OtherScheme,
    /// [`Error::Full`].
    Full,
    /// [`Error::TransactionTooLarge`].
    TransactionTooLarge,
    /// [`Error::OutsideLockSet`].
    OutsideLockSet,
    /// [`Error::NoFreeLog`].
    NoFreeLog,
    /// [`Error::TooManySnapshots`].
    TooManySnapshots,
    /// [`Error::SnapshotEnded`].
    SnapshotEnded,
    /// [`Error::Nested`].
    Nested,
    /// [`Error::Deadlock`].
    Deadlock,
    /// [`Error::Forked`].
    Forked,
    /// [`Error::InvalidAddress`].
    InvalidAddress,
    /// [`Error::InvalidFree`].
    InvalidFree,
    /// [`Error::Dangling`].
    Dangling,
    /// [`Error::RootLayout`].
    RootLayout,
    /// [`Error::NoTable`].
    NoTable,
    /// [`Error::TableTypes`].
    TableTypes,
    /// [`Error::Interrupted`].
    Interrupted,
    /// [`Error::ReadOnly`].
    ReadOnly,
    /// [`Error::Aborted`].
    Aborted,
    /// [`Error::Poisoned`].
    Poisoned,
}

impl Error {
    /// The kind of this error.
    ///
    /// ```
    /// use strandline_core::error::{Error, ErrorKind};
    ///
    /// assert_eq!(Error::Full(8).kind(), ErrorKind::Full);
    /// ```
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Io { .. } => ErrorKind::Io,
            Self::Parameter(_) => ErrorKind::Parameter,
            Self::NotAPool { .. } => ErrorKind::NotAPool,
            Self::NewerFormat { .. } => ErrorKind::NewerFormat,
            Self::OlderFormat { .. } => ErrorKind::OlderFormat,
            Self::DamagedHeader { .. } => ErrorKind::DamagedHeader,
            Self::SeveralLinks { .. } => ErrorKind::SeveralLinks,
            Self::Truncated { .. } => ErrorKind::Truncated,
            Self::Damaged(_) => ErrorKind::Damaged,
            Self::Irreparable(_) => ErrorKind::Irreparable,
            Self::Missing { .. } => ErrorKind::Missing,
            Self::WrongStructure { .. } => ErrorKind::WrongStructure,
            Self::Incomplete { .. } => ErrorKind::Incomplete,
            Self::Locked { .. } => ErrorKind::Locked,
            Self::WrongLayout { .. } => ErrorKind::WrongLayout,
            Self::WrongDomain { .. } => ErrorKind::WrongDomain,
            Self::Unprotected { .. } => ErrorKind::Unprotected,
            Self::NotPersistentMemory { .. } => ErrorKind::NotPersistentMemory,
            Self::LogFile { .. } => ErrorKind::LogFile,
            Self::ChecksumFile { .. } => ErrorKind::ChecksumFile,
            Self::UnsupportedDomain(_) => ErrorKind::UnsupportedDomain,
            Self::UnsupportedInstruction(_) => ErrorKind::UnsupportedInstruction,
            Self::NoProtectionKey { .. } => ErrorKind::NoProtectionKey,
            Self::Unsupported(_) => ErrorKind::Unsupported,
            Self::OtherScheme { .. } => ErrorKind::OtherScheme,
            Self::Full(_) => ErrorKind::Full,
            Self::TransactionTooLarge { .. } => ErrorKind::TransactionTooLarge,
            Self::OutsideLockSet(_) => ErrorKind::OutsideLockSet,
            Self::NoFreeLog(_) => ErrorKind::NoFreeLog,
            Self::TooManySnapshots(_) => ErrorKind::TooManySnapshots,
            Self::SnapshotEnded { .. } => ErrorKind::SnapshotEnded,
            Self::Nested => ErrorKind::Nested,
            Self::Deadlock { .. } => ErrorKind::Deadlock,
            Self::Forked => ErrorKind::Forked,
            Self::InvalidAddress(_) => ErrorKind::InvalidAddress,
            Self::InvalidFree(_) => ErrorKind::InvalidFree,
            Self::Dangling { .. } => ErrorKind::Dangling,
            Self::RootLayout { .. } => ErrorKind::RootLayout,
            Self::NoTable(_) => ErrorKind::NoTable,
            Self::TableTypes { .. } => ErrorKind::TableTypes,
            Self::Interrupted => ErrorKind::Interrupted,
            Self::ReadOnly => ErrorKind::ReadOnly,
            Self::Aborted => ErrorKind::Aborted,
            Self::Poisoned(_) => ErrorKind::Poisoned,
        }
    }
}
