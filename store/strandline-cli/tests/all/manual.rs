//! Manual pages and completions, as `man` and a shell take them.

use std::io::Write;
use std::process::{Command, Stdio};

fn strandline(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_strandline")).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_subcommand_has_a_page() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("man/man1");
    strandline(&["manual", folder.to_str().unwrap()]);
    let help = strandline(&["help"]);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"pool") && commands.contains(&"torture"), "{help}");
    for name in commands.iter().filter(|name| **name != "help") {
        let page = std::fs::read_to_string(folder.join(format!("strandline-{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH strandline-{name} 1")), "{page}");
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    let pages =
        std::fs::read_dir(&folder).unwrap().map(|page| page.unwrap().file_name().into_string().unwrap());
    let pages: Vec<String> = pages.collect();
    assert!(
        ["strandline.1", "strandline-pool-check.1"].iter().all(|page| pages.iter().any(|name| name == page))
    );
    assert!(!pages.iter().any(|page| page.contains("child")), "{pages:?}");
}

/// What bash offers after these words, of which the last is being typed.
fn offered(words: &[&str]) -> Vec<String> {
    let script = format!(
        "{}\nCOMP_WORDS=({words}); COMP_CWORD={last}\n_strandline strandline '{typed}' '{before}'\nprintf '%s\\n' \"${{COMPREPLY[@]}}\"\n",
        strandline(&["completions", "bash"]),
        words = words.join(" "),
        last = words.len() - 1,
        typed = words[words.len() - 1],
        before = words[words.len() - 2],
    );
    let mut bash =
        Command::new("bash").arg("-s").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    bash.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = bash.wait_with_output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_subcommands_options_and_values() {
    assert_eq!(offered(&["strandline", "to"]), ["torture"]);
    assert!(offered(&["strandline", "pool", "c"]).contains(&"check".to_owned()));
    assert!(offered(&["strandline", "torture", "--ki"]).contains(&"--kills".to_owned()));
    assert_eq!(offered(&["strandline", "torture", "--domain", "sy"]), ["sync"]);
    assert!(offered(&["strandline", "torture-"]).iter().all(|word| !word.contains("child")));
}

#[test]
fn other_shells_are_known_and_unknown_ones_are_told() {
    assert!(strandline(&["completions", "zsh"]).starts_with("#compdef strandline"));
    assert!(strandline(&["completions", "fish"]).contains("complete -c strandline"));
    let output =
        Command::new(env!("CARGO_BIN_EXE_strandline")).args(["completions", "csh"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("possible values: bash"));
}
