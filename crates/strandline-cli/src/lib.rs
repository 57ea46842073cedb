//! The `strandline` command, for a `main` that may have workloads of its own.
//!
//! # Features
//!
//! | feature | default | what it adds |
//! |---|---|---|
//! | `sqlite` | yes | the workload `sqlite`, which compiles SQLite: needs a C compiler |

/// Prints a line. A reader that has gone away (`| head`) is no reason to panic.
macro_rules! say {
    ($($text:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($text)*);
    }};
}

mod arguments;
mod bench;
mod check;
mod failure;
mod list;
mod manual;
mod pool;
mod reproduce;
mod rows;
mod simulate;
mod torture;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use failure::Outcome;
use strandline_workloads::Workloads;

/// Durable transactions on persistent memory and ordinary files: benchmarks, crash tests and tools.
#[derive(Parser)]
#[command(name = "strandline", version, after_help = "Example: strandline bench")]
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
    Pool(pool::Arguments),
    Reproduce(reproduce::Arguments),
    Simulate(simulate::Arguments),
    Torture(torture::Arguments),
    #[command(hide = true)]
    TortureChild(torture::ChildArguments),
}

/// Does what the program's arguments say; `bench`, `list` and `simulate` have these workloads.
pub fn run(workloads: Workloads) -> ExitCode {
    let outcome = match Command::parse().what {
        What::Bench(arguments) => bench::run(&arguments, workloads),
        What::BenchChild(arguments) => bench::run_child(&arguments, workloads),
        What::Check(arguments) => check::run(&arguments),
        What::Completions(arguments) => manual::complete(&arguments),
        What::List(arguments) => list::run(&arguments, workloads),
        What::Manual(arguments) => manual::write(&arguments),
        What::Pool(arguments) => pool::run(&arguments),
        What::Reproduce(arguments) => reproduce::run(&arguments),
        What::Simulate(arguments) => simulate::run(&arguments, workloads),
        What::Torture(arguments) => torture::run(&arguments),
        What::TortureChild(arguments) => torture::run_child(&arguments),
    };
    match outcome {
        Ok(Outcome::Success) => ExitCode::SUCCESS,
        Ok(Outcome::Finding) => ExitCode::from(1),
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
