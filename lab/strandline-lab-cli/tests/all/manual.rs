//! Help, manual pages and completions.

#[path = "../../../../store/strandline-command/tests/shared/completion.rs"]
mod completion;
#[path = "../../../../store/strandline-command/tests/shared/help.rs"]
mod help;
#[path = "../../../../store/strandline-command/tests/shared/manual.rs"]
mod shared;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline-lab");

#[test]
fn pages_and_completions_are_those_of_this_command() {
    let pages = ["strandline-lab.1", "strandline-lab-reproduce.1", "strandline-lab-pool-check.1"];
    shared::check_pages_and_completions(PROGRAM, "strandline-lab", &pages);
}

#[test]
fn help_fits_a_terminal() {
    let subcommands = help::check_help(PROGRAM);
    completion::has(
        &subcommands,
        &["bench", "check", "list", "merge", "pool check", "reproduce", "simulate"],
    );
}

#[test]
fn bash_completes_the_names_that_the_laboratory_knows() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("mine.toml"), "").unwrap();
    std::fs::write(folder.path().join("mine.txt"), "").unwrap();
    let offered =
        |words: &[&str]| completion::offered(PROGRAM, folder.path(), &[&["strandline-lab"], words].concat());
    let machines = offered(&["simulate", "--machine", ""]);
    completion::has(&machines, &["opteron", "atom", "mine.toml"]);
    assert!(!machines.contains(&"mine.txt".to_owned()), "{machines:?}");
    completion::has(&offered(&["reproduce", "--machine", "n"]), &["native"]);
    for subcommand in ["simulate", "bench", "check", "torture"] {
        completion::has(&offered(&[subcommand, "--scheme", "bp"]), &["bppm", "bppm+single-writer"]);
        if subcommand != "torture" {
            completion::has(&offered(&[subcommand, "--workload", "sps,ha"]), &["sps,hash"]);
        }
    }
    completion::has(&offered(&["simulate", "--scheme", "loc"]), &["loc-wal"]);
    completion::has(&offered(&["simulate", "--hardware", "loc"]), &["loc-wal"]);
    completion::has(&offered(&["check", "--setting", "l"]), &["line"]);
    completion::has(&offered(&["list", "ge"]), &["gem5-nvm"]);
    completion::has(&offered(&["reproduce", "bl"]), &["blurred"]);
    completion::has(&offered(&["reproduce", "--claim", "B1"]), &["B1", "B19"]);
    completion::has(&offered(&["reproduce", "--series", "fig7"]), &["fig7:"]);
    // `torture` does not offer schemes that make nothing durable.
    assert!(
        offered(&["torture", "--scheme", "vol"]).is_empty()
            || offered(&["torture", "--scheme", "vol"]) == [""]
    );
}
