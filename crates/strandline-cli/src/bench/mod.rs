//! bench
use crate::failure::{Failure, Outcome};
/// Bench.
#[derive(clap::Args)]
pub struct Arguments {}
/// Runs.
pub fn run(_: &Arguments) -> Result<Outcome, Failure> {
    Ok(Outcome::Success)
}
