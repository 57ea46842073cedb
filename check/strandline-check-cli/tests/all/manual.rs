//! Manual pages and completions.

#[path = "../../../../store/strandline-command/tests/shared/manual.rs"]
mod shared;

#[test]
fn pages_and_completions_are_those_of_this_command() {
    let pages = [
        "strandline-check.1",
        "strandline-check-litmus.1",
        "strandline-check-litmus-run.1",
        "strandline-check-program.1",
    ];
    shared::check_pages_and_completions(env!("CARGO_BIN_EXE_strandline-check"), "strandline-check", &pages);
}
