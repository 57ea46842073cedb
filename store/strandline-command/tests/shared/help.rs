//! Checks the help of a command and all its subcommands. The tests of each command include this file by its path.

use std::process::Command;

/// The most columns that help may use.
const WIDTH: usize = 80;

/// Returns what the program prints with these arguments.
fn printed(program: &str, arguments: &[&str]) -> String {
    // Help must not use the width of a wide terminal.
    let output = Command::new(program).args(arguments).env("COLUMNS", "300").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the subcommands that a help page lists.
fn subcommands(help: &str) -> Vec<String> {
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // Further lines of a description are indented more.
    let names = listed.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    names.filter(|name| name != "help").collect()
}

/// Checks the short and the long help of the program and of all its subcommands: no line is wider than a terminal, and each page of a subcommand that
/// does something ends with an example. Returns the subcommands, each with the words that call it.
pub fn check_help(program: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![Vec::new()];
    while let Some(words) = waiting.pop() {
        for flag in ["-h", "--help"] {
            let mut arguments: Vec<&str> = words.iter().map(String::as_str).collect();
            arguments.push(flag);
            let help = printed(program, &arguments);
            for line in help.lines() {
                assert!(line.chars().count() <= WIDTH, "{arguments:?}: {line}");
            }
            assert!(help.contains("Example"), "{arguments:?} shows no example");
        }
        let help =
            printed(program, &[&words.iter().map(String::as_str).collect::<Vec<_>>()[..], &["-h"]].concat());
        for name in subcommands(&help) {
            waiting.push([&words[..], &[name]].concat());
        }
        if !words.is_empty() {
            found.push(words.join(" "));
        }
    }
    found.sort();
    found
}
