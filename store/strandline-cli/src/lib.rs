//! The `strandline` command, for a `main` that may have schemes and workloads of its own.
//!
//! ```no_run
//! fn main() -> std::process::ExitCode {
//!     strandline_cli::run(strandline_cli::Registry::default())
//! }
//! ```
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `sqlite` | yes | the workload `sqlite`, which compiles SQLite: needs a C compiler |

#[macro_use]
mod output;

mod answer;
mod arguments;
mod bench;
mod check;
mod failure;
mod interrupt;
mod list;
mod manual;
mod merge;
mod pool;
mod progress;
mod reproduce;
mod rows;
mod simulate;
mod torture;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

pub use answer::{answer, finish_sweep, is_in, parameters, points, program};
pub use failure::Failure;
use failure::Outcome;
pub use strandline_sim::Registry;

/// Durable transactions on persistent memory and ordinary files: benchmarks, crash tests and tools.
#[derive(Parser)]
#[command(
    name = "strandline",
    version,
    after_help = "Example: strandline bench\n\n\
    Exit codes: 0 success, 1 a finding (a violation, a contradicted claim, damage), 2 wrong usage, 3 it could not run. Ctrl-C removes what was made \
    and prints what is known. `schema` in JSON rises when a field goes or means something else."
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
    Completions(manual::CompletionsArguments),
    List(list::Arguments),
    Manual(manual::ManualArguments),
    Merge(merge::Arguments),
    Pool(pool::Arguments),
    Reproduce(reproduce::Arguments),
    Simulate(simulate::Arguments),
    Torture(torture::Arguments),
    #[command(hide = true)]
    TortureChild(torture::ChildArguments),
}

/// Does what the program's arguments say, with these schemes and workloads: `simulate`, `list`, `check` and `reproduce compare` have all
/// of them, `bench` the workloads.
pub fn run(registry: Registry) -> ExitCode {
    run_with(std::env::args_os(), registry)
}

/// As [`run`], with arguments of the caller's, of which the first is the program's name.
pub fn run_with(arguments: impl IntoIterator<Item = OsString>, registry: Registry) -> ExitCode {
    let workloads = registry.workloads;
    let outcome = match Command::parse_from(arguments).what {
        What::Bench(arguments) => bench::run(&arguments, workloads),
        What::BenchChild(arguments) => bench::run_child(&arguments, workloads),
        What::Check(arguments) => check::run(&arguments, registry),
        What::Completions(arguments) => manual::complete(&arguments),
        What::List(arguments) => list::run(&arguments, registry),
        What::Manual(arguments) => manual::write(&arguments),
        What::Merge(arguments) => merge::run(&arguments, registry),
        What::Pool(arguments) => pool::run(&arguments),
        What::Reproduce(arguments) => reproduce::run(&arguments, registry),
        What::Simulate(arguments) => simulate::run(&arguments, registry),
        What::Torture(arguments) => torture::run(&arguments),
        What::TortureChild(arguments) => torture::run_child(&arguments),
    };
    let outcome = output::finish().and(outcome);
    interrupt::finish();
    match outcome {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Finding) => ExitCode::from(1),
        Err(Failure::Gone) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("error: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}

/// The example of the page on benchmarks, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/benchmarks.md")]
struct Benchmarks;
