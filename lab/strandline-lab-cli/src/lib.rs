//! The `strandline-lab` command as a library, for a `main` that may register its own schemes and workloads.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     strandline_lab_cli::run(strandline_lab_cli::Registry::default())
//! }
//! ```
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `sqlite` | yes | the workload `sqlite`; compiles SQLite, which needs a C compiler |

mod answer;
mod bench;
mod check;
mod list;
mod merge;
mod names;
mod options;
mod reproduce;
mod simulate;
mod torture;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use strandline_command::{AFTER_HELP, Outcome, WIDTH, completion, end, manual};

pub use answer::{answer, finish_sweep, is_in, parameters, points, program};
pub use strandline_command::Failure;
pub use strandline_sim::Registry;

const NAME: &str = "strandline-lab";

/// The laboratory: persistence schemes of papers, measured, simulated and checked, and the papers' claims, judged.
#[derive(Parser)]
#[command(
    name = NAME,
    version,
    after_help = format!("Example: strandline-lab reproduce blurred --quick\n\n{AFTER_HELP}"),
    max_term_width = WIDTH,
)]
struct Command {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    Bench(Box<bench::Arguments>),
    #[command(hide = true, name = bench::CHILD)]
    BenchChild(bench::ChildArguments),
    Check(check::Arguments),
    #[command(after_help = "Example:\n  \
        strandline-lab completions bash \\\n    \
        > ~/.local/share/bash-completion/completions/strandline-lab")]
    Completions(completion::CompletionsArguments),
    List(list::Arguments),
    #[command(after_help = "Example: strandline-lab manual ~/.local/share/man/man1")]
    Manual(manual::ManualArguments),
    Merge(merge::Arguments),
    Pool(strandline_cli::pool::Arguments),
    Reproduce(reproduce::Arguments),
    Simulate(simulate::Arguments),
    Torture(torture::Arguments),
    #[command(hide = true)]
    TortureChild(torture::ChildArguments),
}

/// Runs the command with the program's arguments and these schemes and workloads. `simulate`, `list`, `check` and `reproduce compare` use all of
/// them, `bench` only the workloads.
pub fn run(registry: Registry) -> ExitCode {
    run_with(std::env::args_os(), registry)
}

/// Like [`run`], with the caller's arguments, of which the first is the program's name.
pub fn run_with(arguments: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    match completion::answer(&arguments, NAME, || names::offered(Command::command(), registry)) {
        Ok(false) => {}
        answered => return end(answered.map(|_| Outcome::Success)),
    }
    let workloads = registry.workloads;
    let what = Command::parse_from(arguments).what;
    end(match what {
        What::Bench(arguments) => bench::run(&arguments, workloads),
        What::BenchChild(arguments) => bench::run_child(&arguments, workloads),
        What::Check(arguments) => check::run(&arguments, registry),
        What::Completions(arguments) => completion::print(&arguments, NAME),
        What::List(arguments) => list::run(&arguments, registry),
        What::Manual(arguments) => manual::write(&arguments, NAME, &Command::command()),
        What::Merge(arguments) => merge::run(&arguments, registry),
        What::Pool(arguments) => strandline_cli::pool::run(&arguments, strandline_schemes::ALL),
        What::Reproduce(arguments) => reproduce::run(&arguments, registry),
        What::Simulate(arguments) => simulate::run(&arguments, registry),
        What::Torture(arguments) => torture::run(&arguments),
        What::TortureChild(arguments) => torture::run_child(&arguments),
    })
}

/// The example of the page on benchmarks, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/benchmarks.md")]
struct Benchmarks;
