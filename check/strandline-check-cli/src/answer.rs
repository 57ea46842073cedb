//! The command's results as values, for programs that call it as a library: the objects that `--json` prints.

use clap::{CommandFactory, Parser};
use serde_json::Value;
use strandline_command::{Failure, manual, progress, usage};

use crate::{Command, What, litmus, program};

/// Returns the object that `litmus` or `program` prints with `--json`. `arguments` are those after the program's name.
///
/// # Errors
/// Returns the command's failure.
pub fn answer(arguments: &[String]) -> Result<Value, Failure> {
    progress::hide();
    let mut arguments = arguments.to_vec();
    let flags = arguments.iter().position(|argument| argument == "--").unwrap_or(arguments.len());
    arguments.insert(flags, "--json".into());
    let name = std::iter::once("strandline-check");
    let parsed = Command::try_parse_from(name.chain(arguments.iter().map(String::as_str)));
    match parsed.map_err(|error| usage(&error))?.what {
        What::Litmus(arguments) => litmus::answer(&arguments),
        What::Program(arguments) => program::answer(&arguments),
        _ => Err(Failure::Usage("only litmus and program have an answer".into())),
    }
}

/// Returns the flags of a subcommand (`litmus` or `program`): each flag's name without dashes, help text and default.
///
/// # Errors
/// Returns [`Failure::Usage`] if there is no such subcommand.
pub fn parameters(subcommand: &str) -> Result<Value, Failure> {
    manual::parameters(Command::command(), subcommand)
}
