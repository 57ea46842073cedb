//! The help of a command and all its subcommands, for the tests of each, which include this file by its path.

use std::process::Command;

/// The columns that help takes at most.
const WIDTH: usize = 80;

/// What the program prints with these arguments.
fn printed(program: &str, arguments: &[&str]) -> String {
    // A wide terminal makes no wider lines.
    let output = Command::new(program).args(arguments).env("COLUMNS", "300").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The subcommands that a help lists.
fn subcommands(help: &str) -> Vec<String> {
    let listed =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    // A line that continues a description is indented further.
    let names = listed.filter_map(|line| line.strip_prefix("  ").filter(|rest| !rest.starts_with(' ')));
    let names = names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    names.filter(|name| name != "help").collect()
}

/// Checks the help of the program and of all its subcommands, short and long: no line is wider than a terminal, and every page of a
/// subcommand that does something ends with an example. Returns the subcommands, each with the words that call it.
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
