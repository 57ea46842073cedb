//! The output in `docs/litmus.md`, compared with what the command prints.
//!
//! A block begins with `<!-- prints: COMMAND -->`, has the output in a fence, and ends with `<!-- end of output -->`. `.ci/figures` writes it.

use std::path::Path;
use std::process::Command;

const BEGIN: &str = "<!-- prints: strandline-check ";
const END: &str = "```\n<!-- end of output -->";

#[test]
fn blocks_are_what_the_command_prints() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/litmus.md");
    let mut page = std::fs::read_to_string(&path).unwrap();
    let mut from = 0;
    let mut blocks = 0;
    while let Some(at) = page[from..].find(BEGIN) {
        let (command, rest) = page[from + at + BEGIN.len()..]
            .split_once(" -->\n```text\n")
            .expect("a fence follows the command");
        let (command, begin) = (command.to_owned(), page.len() - rest.len());
        let end = begin + rest.find(END).expect("the block ends");
        let output = Command::new(env!("CARGO_BIN_EXE_strandline-check"))
            .args(command.split_whitespace())
            .output()
            .unwrap();
        assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).unwrap();
        if std::env::var("STRANDLINE_FIGURES").is_ok() {
            page.replace_range(begin..end, &printed);
            std::fs::write(&path, &page).unwrap();
        }
        assert!(page[begin..].starts_with(&printed), "{command} prints something else: run .ci/figures");
        from = begin;
        blocks += 1;
    }
    assert_eq!(blocks, 1);
}
