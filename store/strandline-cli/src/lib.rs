//! The `strandline` command: pools, benchmarks and crash tests of the store.

pub mod bench;
pub mod pool;
mod rows;
mod torture;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use strandline_command::{AFTER_HELP, Outcome, WIDTH, completion, end, manual};
use strandline_core::scheme::Schemes;

const NAME: &str = "strandline";

/// Durable transactions on persistent memory and ordinary files: pools, benchmarks and crash tests.
#[derive(Parser)]
#[command(
    name = NAME,
    version,
    after_help = format!("Example: strandline bench\n\n{AFTER_HELP}"),
    max_term_width = WIDTH,
)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Bench(Box<bench::Arguments>),
    #[command(after_help = "Example:\n  \
        strandline completions bash \\\n    \
        > ~/.local/share/bash-completion/completions/strandline")]
    Completions(completion::CompletionsArguments),
    #[command(after_help = "Example: strandline manual ~/.local/share/man/man1")]
    Manual(manual::ManualArguments),
    Pool(pool::Arguments),
    Torture(torture::Arguments),
    #[command(hide = true)]
    TortureChild(torture::ChildArguments),
}

/// Runs the command with these arguments. The first one is the program's name.
pub fn run_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match completion::answer(&arguments, NAME, Command::command) {
        Ok(false) => {}
        answered => return end(answered.map(|_| Outcome::Success)),
    }
    end(match Command::parse_from(arguments).what {
        What::Bench(arguments) => bench::run(&arguments),
        What::Completions(arguments) => completion::print(&arguments, NAME),
        What::Manual(arguments) => manual::write(&arguments, NAME, &Command::command()),
        What::Pool(arguments) => pool::run(&arguments, Schemes::default()),
        What::Torture(arguments) => torture::run(&arguments),
        What::TortureChild(arguments) => torture::run_child(&arguments),
    })
}
