//! Help for a terminal, manual pages for `man`, and completions for shells.

use std::path::Path;
use std::process::Command;

#[path = "../../../../store/strandline-command/tests/shared/completion.rs"]
mod completion;
#[path = "../../../../store/strandline-command/tests/shared/help.rs"]
mod help;

const PROGRAM: &str = env!("CARGO_BIN_EXE_strandline");

fn strandline(arguments: &[&str]) -> String {
    let output = Command::new(PROGRAM).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn help_fits_a_terminal_and_each_subcommand_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("man/man1");
    strandline(&["manual", folder.to_str().unwrap()]);
    let subcommands = help::check_help(PROGRAM);
    assert!(subcommands.len() >= 17, "{subcommands:?}");
    for name in subcommands {
        let name = name.replace(' ', "-");
        let page = std::fs::read_to_string(folder.join(format!("strandline-{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH strandline-{name} 1")), "{page}");
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    let pages = std::fs::read_dir(&folder).unwrap();
    let pages: Vec<String> = pages.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
    assert!(pages.iter().any(|page| page == "strandline.1"), "{pages:?}");
    assert!(!pages.iter().any(|page| page.contains("child")), "{pages:?}");
}

fn offered(folder: &Path, words: &[&str]) -> Vec<String> {
    completion::offered(PROGRAM, folder, &[&["strandline"], words].concat())
}

#[test]
fn bash_completes_subcommands_options_values_and_pools() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    strandline(&["pool", "create", here.join("shop.db").to_str().unwrap(), "--domain", "process"]);
    std::fs::write(here.join("shop.txt"), "no pool").unwrap();
    assert_eq!(offered(here, &["to"]), ["torture"]);
    completion::has(&offered(here, &["pool", "c"]), &["check", "compact", "copy", "create", "checksum"]);
    completion::has(&offered(here, &["torture", "--ki"]), &["--kills"]);
    assert_eq!(offered(here, &["torture", "--domain", "sy"]), ["sync"]);
    assert_eq!(offered(here, &["bench", "--workload", "sps,ha"]), ["sps,hash"]);
    assert_eq!(offered(here, &["pool", "info", "sh"]), ["shop.db"], "no other file");
    assert!(offered(here, &["torture-"]).iter().all(|word| !word.contains("child")));
}

#[test]
fn other_shells_are_known_and_unknown_ones_are_told() {
    assert!(strandline(&["completions", "zsh"]).starts_with("#compdef strandline"));
    assert!(strandline(&["completions", "fish"]).contains("complete --keep-order"));
    let output = Command::new(PROGRAM).args(["completions", "csh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("possible values: bash"));
    // `csh` is a shell that the command does not support.
    let output = Command::new(PROGRAM).env("STRANDLINE_COMPLETE", "csh").output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("unknown shell `csh`"));
}
