//! What the commands `strandline`, `strandline-check` and `strandline-lab` have in common.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `command` | no | everything but [`Place`] |
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "command")]
#[macro_use]
pub mod output;

#[cfg(feature = "command")]
pub mod arguments;
#[cfg(feature = "command")]
pub mod completion;
#[cfg(feature = "command")]
mod failure;
#[cfg(feature = "command")]
pub mod floor;
#[cfg(feature = "command")]
pub mod interrupt;
#[cfg(feature = "command")]
pub mod manual;
mod place;
#[cfg(feature = "command")]
pub mod progress;
#[cfg(feature = "command")]
pub mod tables;
#[cfg(feature = "command")]
pub mod torture;

#[cfg(feature = "command")]
pub use failure::{Failure, Outcome};
pub use place::Place;

/// Ends a command: writes what is still buffered, prints its failure, and lets a signal that arrived take its effect. Returns the
/// exit code.
#[cfg(feature = "command")]
pub fn end(outcome: Result<Outcome, Failure>) -> std::process::ExitCode {
    let outcome = output::finish().and(outcome);
    interrupt::finish();
    match outcome {
        Ok(Outcome::Success) => std::process::ExitCode::SUCCESS,
        Ok(Outcome::Finding) => std::process::ExitCode::from(1),
        Ok(Outcome::Unfinished) => std::process::ExitCode::from(4),
        Err(Failure::Gone) => std::process::ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            std::process::ExitCode::from(failure.exit_code())
        }
    }
}

/// The columns of a terminal that `--help` takes at most.
#[cfg(feature = "command")]
pub const WIDTH: usize = 80;

/// The exit codes and the rest of what `--help` of each command ends with, after its examples.
#[cfg(feature = "command")]
pub const AFTER_HELP: &str = "\
Exit codes: 0 success, 1 a finding (a violation, a contradicted claim, damage), 2 wrong usage, 3 it could not run, \
4 it found nothing, but was stopped before everything was seen.

Sizes are bytes; the suffixes K, M, G and T are powers of 1024. Ctrl-C prints what is known and removes temporary files. \
Progress is shown on a terminal only. With --json the field \
`schema` rises when a field goes or changes its meaning.";

/// The flags' message of a command line that cannot be parsed, without what is about the command line itself: for programs that call
/// a command as a library.
#[cfg(feature = "command")]
pub fn usage(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|tip| text.find(tip)).min();
    Failure::Usage(text[..end.unwrap_or(text.len())].trim_end().to_owned())
}
