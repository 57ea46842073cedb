//! Manual pages and completions of a command, for the tests of each, which include this file by its path.

use std::process::Command;

/// The program at `path` writes these pages among others, none of a command for itself, and completions in its own name.
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
