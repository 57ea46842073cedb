//! The `strandline-check` command: the crash checker for programs and litmus tests.

mod answer;
mod litmus;
mod program;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use strandline_check::Setting;
use strandline_command::{AFTER_HELP, Outcome, WIDTH, completion, end, manual};

pub use answer::{answer, parameters};
pub use strandline_command::Failure;

fn setting_names() -> completion::Names {
    Setting::ALL.map(|setting| (setting.name().to_owned(), String::new())).into()
}

const NAME: &str = "strandline-check";

/// The crash checker: explores the states that a power failure can leave, and checks what a program's recovery makes of each of them.
#[derive(Parser)]
#[command(
    name = NAME,
    version,
    after_help = format!("Examples:\n  strandline-check program --check './list check {{pool}}' -- ./list run {{pool}}\n  \
        strandline-check litmus commit1.litmus\n\n{AFTER_HELP}"),
    max_term_width = WIDTH,
)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    #[command(after_help = "Example:\n  \
        strandline-check completions bash \\\n    \
        > ~/.local/share/bash-completion/completions/strandline-check")]
    Completions(completion::CompletionsArguments),
    Litmus(litmus::Arguments),
    #[command(after_help = "Example: strandline-check manual ~/.local/share/man/man1")]
    Manual(manual::ManualArguments),
    Program(program::Arguments),
}

/// Runs the command with `arguments`, of which the first is the program's name.
pub fn run_with(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match completion::answer(&arguments, NAME, Command::command) {
        Ok(false) => {}
        answered => return end(answered.map(|_| Outcome::Success)),
    }
    let what = Command::parse_from(arguments).what;
    end(match what {
        What::Completions(arguments) => completion::print(&arguments, NAME),
        What::Litmus(arguments) => litmus::run(&arguments),
        What::Manual(arguments) => manual::write(&arguments, NAME, &Command::command()),
        What::Program(arguments) => program::run(&arguments),
    })
}
