//! How a subcommand ends, and the exit codes: 0 success, 1 a finding, 2 wrong usage, 3 it could not run, 4 it was stopped before
//! everything was seen.

use std::fmt;

use strandline_core::Error;

/// The end of a subcommand that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All is well.
    Success,
    /// It found what it looks for: a violation.
    Finding,
    /// It found nothing, and has not seen everything.
    Unfinished,
}

/// Why a subcommand could not do its work. Its text has the causes of a library's error, too.
#[derive(Debug)]
pub enum Failure {
    /// The flags ask for something that cannot be.
    Usage(String),
    /// The library failed.
    Library(Error),
    /// Whoever reads the output has gone away: nothing is wrong.
    Gone,
    /// Anything else failed: a program that is needed is not there, a disk is full.
    Other(String),
}

impl Failure {
    /// A system call's failure while doing `what`.
    pub fn io(what: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        move |error| Self::Other(format!("cannot {what}: {error}"))
    }

    /// A failure that other flags would cure: a name that does not exist, for example.
    pub fn usage(error: impl fmt::Display) -> Self {
        Self::Usage(format!("{error:#}"))
    }

    /// A failure to write what the command prints.
    pub fn output(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Gone,
            _ => Self::io("write")(error),
        }
    }

    /// 1 where a pool is damaged, 2 where other flags would cure it, else 3.
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
