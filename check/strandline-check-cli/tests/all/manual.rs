//! Help, manual pages and completions.

#[path = "../../../../store/strandline-command/tests/shared/completion.rs"]
mod completion;
#[path = "../../../../store/strandline-command/tests/shared/help.rs"]
mod help;
#[path = "../../../../store/strandline-command/tests/shared/manual.rs"]
mod shared;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline-check");

#[test]
fn pages_and_completions_are_those_of_this_command() {
    let pages = [
        "strandline-check.1",
        "strandline-check-litmus.1",
        "strandline-check-litmus-run.1",
        "strandline-check-program.1",
    ];
    shared::check_pages_and_completions(PROGRAM, "strandline-check", &pages);
}

#[test]
fn help_fits_a_terminal() {
    assert_eq!(help::check_help(PROGRAM), ["completions", "litmus", "litmus run", "manual", "program"]);
}

#[test]
fn bash_completes_tests_and_settings() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("nt_mine.litmus"), "").unwrap();
    std::fs::write(folder.path().join("nt_other.txt"), "").unwrap();
    let offered = |words: &[&str]| {
        completion::offered(PROGRAM, folder.path(), &[&["strandline-check"], words].concat())
    };
    let tests = offered(&["litmus", "nt_m"]);
    completion::has(&tests, &["nt_mp", "nt_mine.litmus"]);
    assert!(!tests.iter().any(|name| name.ends_with(".txt")), "{tests:?}");
    assert_eq!(offered(&["litmus", "--setting", "line,wo"]), ["line,word"]);
    assert_eq!(offered(&["program", "--setting", "fl"]), ["flush-on-fail"]);
}
