//! Manual pages and completions.

#[path = "../../../../store/strandline-command/tests/shared/manual.rs"]
mod shared;

#[test]
fn pages_and_completions_are_those_of_this_command() {
    let pages = ["strandline-lab.1", "strandline-lab-reproduce.1", "strandline-lab-pool-check.1"];
    shared::check_pages_and_completions(env!("CARGO_BIN_EXE_strandline-lab"), "strandline-lab", &pages);
}
