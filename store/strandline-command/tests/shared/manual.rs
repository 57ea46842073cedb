//! Checks a command's manual pages and completions. The tests of each command include this file by its path.

use std::process::Command;

/// Checks that the program at `path` writes the expected pages, none for a hidden subcommand, and completions under its own name.
pub fn check_pages_and_completions(path: &str, name: &str, expected: &[&str]) {
    let run = |arguments: &[&str]| {
        let output = Command::new(path).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let folder = tempfile::tempdir().unwrap();
    run(&["manual", folder.path().to_str().unwrap()]);
    let mut pages: Vec<String> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    for page in expected {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
    }
    assert!(!pages.iter().any(|page| page.contains("child")), "{pages:?}");
    assert!(run(&["completions", "zsh"]).starts_with(&format!("#compdef {name}")));
}
