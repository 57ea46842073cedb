//! The code that the commands `strandline`, `strandline-check` and `strandline-lab` share.
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

/// Ends a command: flushes its output, prints its failure, and if a signal arrived, lets it take its effect. Returns the exit code.
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

/// The most columns of a terminal that `--help` uses.
#[cfg(feature = "command")]
pub const WIDTH: usize = 80;

/// The end of each command's `--help`, after its examples: the exit codes and further notes.
#[cfg(feature = "command")]
pub const AFTER_HELP: &str = "\
Exit codes: 0 success, 1 a finding (a violation, a contradicted claim, damage), 2 wrong usage, 3 it could not run, \
4 it found nothing, but was stopped before everything was seen.

Sizes are bytes; the suffixes K, M, G and T are powers of 1024. Ctrl-C prints what is known and removes temporary files. \
Progress is shown on a terminal only. With --json the field \
`schema` rises when a field goes or changes its meaning.";

/// Converts clap's error to a failure, without the lines that are about the command line. This is for programs that call a command as a library.
#[cfg(feature = "command")]
pub fn usage(error: &clap::Error) -> Failure {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let end = ["\n\nUsage:", "\n\nFor more information"].iter().filter_map(|tip| text.find(tip)).min();
    Failure::Usage(text[..end.unwrap_or(text.len())].trim_end().to_owned())
}
