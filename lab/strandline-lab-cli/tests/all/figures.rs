//! The numbers that a command prints on the papers' pages and in the README, compared with what it prints now.
//!
//! A block begins with `<!-- prints: COMMAND -->`, has the output in a fence, and ends with `<!-- end of output -->`. `.ci/figures` writes
//! what the commands print into the blocks, and the scoreboard's rows of these papers.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The papers that are simulated alone: what is printed of them is the same on every machine.
const PAPERS: [&str; 3] = ["loose-ordering", "atom", "wrap"];
const BEGIN: &str = "<!-- prints: strandline-lab ";
const END: &str = "```\n<!-- end of output -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The words of the block's command, and where the output is in the page.
fn blocks(page: &str) -> Vec<(Vec<&str>, std::ops::Range<usize>)> {
    let begins = page.match_indices(BEGIN).map(|(at, _)| at + BEGIN.len());
    let block = |at: usize| {
        let (command, rest) = page[at..].split_once(" -->\n```text\n").expect("a fence follows the command");
        let from = page.len() - rest.len();
        let length = rest.find(END).expect("the block ends");
        (command.split_whitespace().collect(), from..from + length)
    };
    begins.map(block).collect()
}

/// Runs a command of `strandline-lab` and returns its output, without the last lines, which name the report's folder.
fn printed(command: &[&str], out: &Path) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_strandline-lab"));
    let output = program.args(command).arg("--out").arg(out).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{command:?}: {error}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (text, _) = text.split_once("\nThe report: ").expect("it ends with the report");
    text.to_owned()
}

/// The columns of the scoreboard by what a run wrote.
fn row(out: &Path) -> Vec<u64> {
    let results = std::fs::read_to_string(out.join("results.json")).unwrap();
    let results: serde_json::Value = serde_json::from_str(&results).unwrap();
    let score = &results["papers"][0]["score"];
    let verdicts =
        ["holds", "holds-within-the-text", "short", "contradicts", "inconsistent", "noisy", "not-run"];
    let verdicts = verdicts.map(|verdict| score["measured"][verdict].as_u64().unwrap());
    let given = [&score["given"]["claims"], &score["given"]["holds"], &score["calibrated"]];
    let rest = given.map(|count| count.as_u64().unwrap());
    [verdicts.iter().sum()].into_iter().chain(verdicts).chain(rest).collect()
}

fn numbers(line: &str) -> Vec<u64> {
    line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
}

/// The README with other numbers in the rows of these papers, and the sum of all.
fn with_rows(readme: &str, rows: &[(&str, Vec<u64>)]) -> String {
    let (before, rest) = readme.split_once("<!-- scoreboard -->\n").unwrap();
    let (table, after) = rest.split_once("<!-- end of scoreboard -->").unwrap();
    let mut sum = vec![0; rows[0].1.len()];
    let mut written = String::new();
    for (index, line) in table.lines().enumerate() {
        let own = rows.iter().find(|(paper, _)| line.contains(&format!("(docs/papers/{paper}.md)")));
        let numbers = match own {
            Some((_, row)) => row.clone(),
            None if line.starts_with("| all |") => sum.clone(),
            None => numbers(line),
        };
        if index < 2 {
            written += &format!("{line}\n");
            continue;
        }
        sum.iter_mut().zip(&numbers).for_each(|(sum, number)| *sum += number);
        let name = line.split(" | ").next().unwrap();
        let cells: Vec<_> = numbers.iter().map(u64::to_string).collect();
        written += &format!("{name} | {} |\n", cells.join(" | "));
    }
    format!("{before}<!-- scoreboard -->\n{written}<!-- end of scoreboard -->{after}")
}

#[test]
fn pages_and_the_readme_have_what_the_commands_print() {
    if !cfg!(feature = "sqlite") {
        // Loose-Ordering's averages have SQLite in them.
        return;
    }
    let writes = std::env::var_os("STRANDLINE_FIGURES").is_some_and(|value| value == "write");
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    let mut rows = Vec::new();
    for paper in PAPERS {
        let path = root().join("docs/papers").join(format!("{paper}.md"));
        let mut page = std::fs::read_to_string(&path).unwrap();
        let old = page.clone();
        let all = blocks(&old);
        assert!(!all.is_empty(), "{} has a block", path.display());
        // From the last: what is before stays where it is.
        for (command, range) in all.into_iter().rev() {
            let out = folder.path().join(paper);
            page.replace_range(range, &printed(&command, &out));
            if command == ["reproduce", paper, "--quick"] {
                rows.push((paper, row(&out)));
            }
        }
        files.push((path, old, page));
    }
    assert_eq!(rows.len(), PAPERS.len(), "each page has the quick run of its paper");
    let readme = root().join("README.md");
    let old = std::fs::read_to_string(&readme).unwrap();
    let new = with_rows(&old, &rows);
    files.push((readme, old, new));
    for (path, old, new) in files {
        if writes {
            std::fs::write(&path, new).unwrap();
        } else {
            let path = path.display();
            assert_eq!(old, new, "{path} is not what the commands print: .ci/figures writes it");
        }
    }
}

#[test]
fn a_block_is_found_and_the_sum_of_the_scoreboard_follows() {
    let page = "a\n<!-- prints: strandline-lab reproduce wrap --quick -->\n```text\nold\n```\n<!-- end of output -->\nb";
    let blocks = blocks(page);
    assert_eq!(blocks[0].0, ["reproduce", "wrap", "--quick"]);
    assert_eq!(&page[blocks[0].1.clone()], "old\n");
    let readme = "x\n<!-- scoreboard -->\n| paper | n |\n|---|---|\n| [A](docs/papers/wrap.md) | 1 | 2 |\n\
                  | [B](docs/papers/b.md) | 3 | 4 |\n| all | 9 | 9 |\n<!-- end of scoreboard -->\ny";
    let new = with_rows(readme, &[("wrap", vec![5, 6])]);
    assert!(new.contains("(docs/papers/wrap.md) | 5 | 6 |\n") && new.contains("| all | 8 | 10 |\n"), "{new}");
    assert!(new.starts_with("x\n") && new.ends_with("\ny"));
}
