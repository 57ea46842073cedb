//! Manual pages and completions.

use std::process::Command;

fn run(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_strandline-lab")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pages_and_completions_are_those_of_this_command() {
    let folder = tempfile::tempdir().unwrap();
    run(&["manual", folder.path().to_str().unwrap()]);
    let mut pages: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for page in ["strandline-lab.1", "strandline-lab-reproduce.1", "strandline-lab-pool-check.1"] {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("child")), "{pages:?}");
    assert!(run(&["completions", "zsh"]).starts_with("#compdef strandline-lab"));
}
