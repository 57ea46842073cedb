//! The outcomes of a subcommand, and the exit codes: 0 success, 1 a finding, 2 wrong usage, 3 it could not run, 4 it was stopped before it had seen
//! everything.

use std::fmt;

use strandline_core::Error;

/// The outcome of a subcommand that ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It found no fault.
    Success,
    /// It found what it looks for, such as a violation.
    Finding,
    /// It found nothing, but was stopped before it had seen everything.
    Unfinished,
}

/// Why a subcommand could not run. The text includes the causes of a library's error.
#[derive(Debug)]
pub enum Failure {
    /// The flags ask for something impossible.
    Usage(String),
    /// The library failed.
    Library(Error),
    /// The reader of the output has closed it. This is not reported as an error.
    Gone,
    /// Another failure, for example because a program is missing or a disk is full.
    Other(String),
}

impl Failure {
    /// Wraps an error of a system call; `what` names what the program was doing.
    pub fn io(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Other(format!("cannot {what}: {error}"))
    }

    /// Wraps an error that different flags avoid, such as an unknown name.
    pub fn usage(error: impl fmt::Display) -> Self {
        Self::Usage(format!("{error:#}"))
    }

    /// Wraps an error of writing what the command prints.
    pub fn output(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Gone,
            _ => Self::io("write")(error),
        }
    }

    /// Returns 1 if a pool is damaged, 2 if different flags avoid the failure, and otherwise 3.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Gone => 0,
            Self::Usage(_)
            | Self::Library(
                Error::Parameter(_)
                | Error::Unsupported(_)
                | Error::UnsupportedInstruction(_)
                | Error::UnsupportedDomain(_)
                | Error::NotPersistentMemory { .. }
                | Error::TransactionTooLarge { .. }
                | Error::NoFreeLog { .. }
                | Error::NoTable { .. },
            ) => 2,
            Self::Library(Error::Io { source, .. })
                if matches!(
                    source.kind(),
                    std::io::ErrorKind::NotFound | std::io::ErrorKind::AlreadyExists
                ) =>
            {
                2
            }
            Self::Library(
                Error::NotAPool { .. }
                | Error::DamagedHeader { .. }
                | Error::Truncated { .. }
                | Error::Damaged { .. }
                | Error::Irreparable { .. }
                | Error::Incomplete { .. }
                | Error::LogFile { .. }
                | Error::ChecksumFile { .. },
            ) => 1,
            Self::Library(_) | Self::Other(_) => 3,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Other(text) => f.write_str(text),
            Self::Library(error) => write!(f, "{error:#}"),
            Self::Gone => f.write_str("the reader of the output has gone away"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_has_each_cause_once() {
        let error = || Error::io("read a film", std::io::Error::other("the tape is torn"));
        for failure in [Failure::from(error()), Failure::usage(error())] {
            assert_eq!(failure.to_string(), "cannot read a film: the tape is torn");
        }
    }
}
