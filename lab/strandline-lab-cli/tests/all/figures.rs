//! Compares the numbers of command outputs on the papers' pages, in docs/benchmarks.md and in the README with what the commands print now.
//!
//! A block begins with `<!-- prints: COMMAND -->`, has the output in a fence, and ends with `<!-- end of output -->`. `.ci/figures` writes the
//! commands' outputs into the blocks, and the scoreboard's rows of these papers.
//!
//! By default the test compares the claims of the cheapest figures; the laboratory's own tests compare a trial of all figures. With
//! `STRANDLINE_FIGURES=compare`, as `.ci/others --full` sets it, the test compares all blocks.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A paper's page.
struct Page {
    /// The name of its file, and of the paper unless the paper's differs.
    name: &'static str,
    paper: &'static str,
    /// The claims that are compared by default because they take only seconds.
    cheap: &'static [&'static str],
    /// The claims that depend on this processor's speed, and are not compared.
    native: &'static [&'static str],
    /// True if the page shows the verdicts under other readings of the paper (`--readings`).
    readings: bool,
    /// True if writing the page takes many minutes. Only `.ci/figures all` writes such a page.
    is_long: bool,
}

impl Page {
    /// Returns the command that prints the verdicts.
    fn verdicts(&self) -> Vec<&'static str> {
        let readings = self.readings.then_some("--readings");
        ["reproduce", self.paper, "--quick"].into_iter().chain(readings).collect()
    }
}

const fn page(name: &'static str, cheap: &'static [&'static str]) -> Page {
    Page { name, paper: name, cheap, native: &[], readings: true, is_long: false }
}

const PAGES: [Page; 5] = [
    page("loose-ordering", &["L15", "L16", "L19", "L20", "L21"]),
    page("atom", &["A10", "A16"]),
    page("wrap", &["W1", "W2", "W3", "W5", "W6", "W7", "W8", "W9", "W10", "W11", "W12", "W13", "W14"]),
    Page {
        paper: "blurred",
        native: &["B12"],
        readings: false,
        is_long: true,
        ..page("blurred-persistence", &["B17", "B21", "B22"])
    },
    Page { is_long: true, ..page("deferred-commit", &["D1", "D2", "D3", "D13"]) },
];
const BEGIN: &str = "<!-- prints: strandline-lab ";
const END: &str = "```\n<!-- end of output -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Splits a command into words. Words with spaces are in double quotes.
fn words(command: &str) -> Vec<&str> {
    let parts = command.split('"').enumerate();
    parts
        .flat_map(|(at, part)| if at % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
        .collect()
}

/// Returns for each block the words of its command, and the range of its output in the page.
fn blocks(page: &str) -> Vec<(Vec<&str>, std::ops::Range<usize>)> {
    let begins = page.match_indices(BEGIN).map(|(at, _)| at + BEGIN.len());
    let block = |at: usize| {
        let (command, rest) = page[at..].split_once(" -->\n```text\n").expect("a fence follows the command");
        let from = page.len() - rest.len();
        let length = rest.find(END).expect("the block ends");
        (words(command), from..from + length)
    };
    begins.map(block).collect()
}

/// Runs a command of `strandline-lab` and returns its output, without the last lines, which name the folder that it writes.
fn printed(command: &[&str], out: &Path) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_strandline-lab"));
    let output = program.args(command).arg("--out").arg(out).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 1)), "{command:?}: {error}");
    let text = String::from_utf8(output.stdout).unwrap();
    let ends = ["\nThe report: ", "The plots: "].into_iter().filter_map(|end| text.split_once(end));
    let (text, _) = ends.min_by_key(|(text, _)| text.len()).expect("it ends with the folder");
    text.to_owned()
}

/// Runs a command with `--series` on the results of a run of the paper, and returns its output.
fn series_of(command: &[&str], results: &Path) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_strandline-lab"));
    let command = command.iter().filter(|word| **word != "--quick");
    let output = program.args(command).arg("--from").arg(results).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the cells of a printed table's rows, without continuation lines.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with('│') && !line.starts_with("│ claim"));
    let cells = |line| str::split(line, ['│', '┆']).skip(1).map(str::trim).collect();
    lines.map(cells).filter(|cells: &Vec<&str>| cells.len() == 6 && !cells[0].is_empty()).collect()
}

/// Compares the rows of the claims that `is_compared` accepts. The page's block was written with `--readings`, the output comes from a run without
/// it. Returns the rows that differ.
fn differences(page: &str, is_compared: impl Fn(&str) -> bool, run: &str) -> Vec<String> {
    let (mut page, mut run) = (rows(page), rows(run));
    page.retain(|cells| is_compared(cells[0]));
    run.retain(|cells| is_compared(cells[0]));
    if page.is_empty() || page.len() != run.len() {
        return vec![format!("{} rows for {}", page.len(), run.len())];
    }
    let differ = |(page, run): (Vec<&str>, Vec<&str>)| {
        let is_open = page[1] == "holds within the text" && ["short", "contradicts"].contains(&run[1]);
        let same = page[0] == run[0] && page[2..] == run[2..] && (page[1] == run[1] || is_open);
        (!same).then(|| format!("{page:?} for {run:?}"))
    };
    page.into_iter().zip(run).filter_map(differ).collect()
}

/// Returns the columns of the scoreboard from the line under a printed table.
fn score(text: &str) -> Vec<u64> {
    let line = text.lines().find(|line| line.starts_with("Measured: ")).expect("a line with the score");
    let (measured, given) = line.split_once(". Constants").expect("given ones after the measured");
    let (_, given) = given.split_once(": ").expect("how many");
    let number = |text: &str| text.trim().parse::<u64>().expect("a number");
    let of = |name: &str| {
        let parts = measured.split(", ").skip(1).filter_map(|part| part.split_once(' '));
        parts.filter(|(_, verdict)| *verdict == name).map(|(count, _)| number(count)).sum::<u64>()
    };
    let (holding, rest) = measured["Measured: ".len()..].split_once(" of ").expect("a count");
    let (all, _) = rest.split_once(" hold").expect("a count");
    let (given_holding, rest) = given.split_once(" of ").expect("a count");
    let (all_given, rest) = rest.split_once(" hold. Calibrated: ").expect("a count");
    let others = ["holds within the text", "short", "contradicts", "inconsistent", "noisy", "not-run"];
    let mut score = vec![number(all), number(holding)];
    score.extend(others.map(of));
    score.extend([number(all_given), number(given_holding), number(rest.trim_end_matches('.'))]);
    score
}

fn numbers(line: &str) -> Vec<u64> {
    line.split('|').filter_map(|cell| cell.trim().parse().ok()).collect()
}

/// Returns the README with new numbers in the rows of these papers and in the total.
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

/// The test's task for the blocks of pages.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Compare the rows of cheap claims.
    CompareClaims,
    /// Compare all blocks.
    Compare,
    /// Write all blocks.
    Write,
}

/// Compares a page's blocks with what the commands print now, or writes them there. Returns the paper's score.
///
/// # Panics
/// Panics if a block differs, or if a command fails.
fn blocks_of_paper(page: &Page, task: Task, folder: &Path) -> Vec<u64> {
    let path = root().join("docs/papers").join(format!("{}.md", page.name));
    let old = std::fs::read_to_string(&path).unwrap();
    let mut new = old.clone();
    let out = folder.join(page.name);
    let quick = ["reproduce", page.paper, "--quick"];
    let of_claims = page.cheap.iter().flat_map(|claim| ["--claim", claim]);
    let run = match task {
        Task::CompareClaims => printed(&quick.into_iter().chain(of_claims).collect::<Vec<_>>(), &out),
        Task::Compare => printed(&quick, &out),
        Task::Write => printed(&page.verdicts(), &out),
    };
    let is_compared = |claim: &str| match task {
        Task::CompareClaims => page.cheap.contains(&claim),
        _ => !page.native.contains(&claim),
    };
    let mut found = None;
    // Begins with the last block, so that the earlier ranges stay valid.
    for (command, range) in blocks(&old).into_iter().rev() {
        let printed_now = if command == page.verdicts() {
            found = Some(score(if task == Task::Write { &run } else { &old[range.clone()] }));
            if task != Task::Write {
                let differ = differences(&old[range], is_compared, &run);
                assert!(differ.is_empty(), "{}: .ci/figures writes it: {differ:#?}", path.display());
                continue;
            }
            run.clone()
        } else if task == Task::CompareClaims {
            continue;
        } else if command.starts_with(&quick) && !command.contains(&"--set") {
            series_of(&command, &out.join("results.json"))
        } else {
            printed(&command, &folder.join(format!("{}-{}", page.name, range.start)))
        };
        if task == Task::Write {
            new.replace_range(range, &printed_now);
        } else {
            assert_eq!(old[range], printed_now, "{}: .ci/figures writes it", path.display());
        }
    }
    if task == Task::Write {
        std::fs::write(&path, new).unwrap();
    }
    found.expect("each page has the quick run of its paper")
}

/// Compares the blocks of a page that is no paper's with what the commands print now, or writes them there.
fn blocks_of_page(name: &str, task: Task, folder: &Path) {
    let path = root().join("docs").join(name);
    let old = std::fs::read_to_string(&path).unwrap();
    let mut new = old.clone();
    let all = blocks(&old);
    assert!(!all.is_empty(), "{name} has no block");
    // Begins with the last block, so that the earlier ranges stay valid.
    for (command, range) in all.into_iter().rev() {
        new.replace_range(range.clone(), &printed(&command, &folder.join(format!("{name}-{}", range.start))));
    }
    if task == Task::Write {
        std::fs::write(&path, new).unwrap();
    } else {
        assert_eq!(old, new, "{name}: .ci/figures writes it");
    }
}

/// Returns the score that a page shows.
fn score_of_page(page: &Page) -> Vec<u64> {
    let path = root().join("docs/papers").join(format!("{}.md", page.name));
    let text = std::fs::read_to_string(path).unwrap();
    let all = blocks(&text);
    let (_, range) = all.into_iter().find(|(words, _)| *words == page.verdicts()).expect("a block");
    score(&text[range])
}

/// The comparison leaves out other readings of the text, which make the commands take several times as long. The papers run in parallel, since most
/// of a run uses one thread; the ones that measure time run after the others.
#[test]
fn pages_and_the_readme_have_what_the_commands_print() {
    if !cfg!(feature = "sqlite") {
        // Loose-Ordering's averages include SQLite.
        return;
    }
    let wanted = std::env::var("STRANDLINE_FIGURES").unwrap_or_default();
    let writes_all = wanted == "all";
    let task = match &*wanted {
        "write" | "all" => Task::Write,
        "compare" => Task::Compare,
        _ => Task::CompareClaims,
    };
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let joined = |thread: std::thread::ScopedJoinHandle<Vec<u64>>| {
        thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    };
    let (long, short): (Vec<_>, Vec<_>) = PAGES.iter().partition(|page| page.is_long);
    let mut scores: Vec<_> = std::thread::scope(|scope| {
        let run = |page: &'static Page| (page.name, scope.spawn(move || blocks_of_paper(page, task, folder)));
        let runs: Vec<_> = short.into_iter().map(run).collect();
        runs.into_iter().map(|(name, thread)| (name, joined(thread))).collect()
    });
    for page in long {
        let is_left = task == Task::Write && !writes_all;
        let score = if is_left { score_of_page(page) } else { blocks_of_paper(page, task, folder) };
        scores.push((page.name, score));
    }
    if task != Task::CompareClaims {
        blocks_of_page("benchmarks.md", task, folder);
    }
    let readme = root().join("README.md");
    let old = std::fs::read_to_string(&readme).unwrap();
    let new = with_rows(&old, &scores);
    if task == Task::Write {
        std::fs::write(&readme, new).unwrap();
    } else {
        assert_eq!(old, new, "README.md is not what the pages have: .ci/figures writes it");
    }
}

#[test]
fn a_digit_or_a_verdict_that_differs_is_found() {
    let block = |verdict: &str, measured: &str| {
        format!(
            "│ claim ┆ verdict ┆ paper ┆ measured ┆ where │\n│ L1 ┆ {verdict} ┆ 0.3 ┆ {measured} ┆ Fig. 7 │\n│    ┆  ┆  ┆ range: 0.1 to 0.2 ┆  │\n"
        )
    };
    let run = block("short", "0.163");
    let differences = |page: &str| differences(page, |_| true, &run);
    assert_eq!(differences(&block("short", "0.163")), [""; 0]);
    assert_eq!(differences(&block("holds within the text", "0.163")), [""; 0]);
    assert_eq!(differences(&block("holds", "0.163")).len(), 1);
    assert_eq!(differences(&block("short", "0.164")).len(), 1);
    assert_eq!(differences("").len(), 1);
    let two = block("short", "0.163") + "│ L2 ┆ short ┆ 0.3 ┆ 0.5 ┆ Fig. 7 │\n";
    assert_eq!(differences(&two).len(), 1);
    assert_eq!(super::figures::differences(&two, |claim| claim == "L1", &run), [""; 0]);
    let score = score(
        "x\nMeasured: 2 of 14 hold, 1 holds within the text, 10 short, 1 inconsistent. Constants, closed forms and constructions: 5 \
         of 6 hold. Calibrated: 3.\n",
    );
    assert_eq!(score, [14, 2, 1, 10, 0, 1, 0, 0, 6, 5, 3]);
}

#[test]
fn a_block_is_found_and_the_sum_of_the_scoreboard_follows() {
    let page = "a\n<!-- prints: strandline-lab reproduce wrap --quick -->\n```text\nold\n```\n<!-- end of output -->\nb";
    let blocks = blocks(page);
    assert_eq!(blocks[0].0, ["reproduce", "wrap", "--quick"]);
    assert_eq!(&page[blocks[0].1.clone()], "old\n");
    assert_eq!(
        words("reproduce wrap --series \"fig8: a b\" --over x"),
        ["reproduce", "wrap", "--series", "fig8: a b", "--over", "x"]
    );
    let readme = "x\n<!-- scoreboard -->\n| paper | n |\n|---|---|\n| [A](docs/papers/wrap.md) | 1 | 2 |\n\
                  | [B](docs/papers/b.md) | 3 | 4 |\n| all | 9 | 9 |\n<!-- end of scoreboard -->\ny";
    let new = with_rows(readme, &[("wrap", vec![5, 6])]);
    assert!(new.contains("(docs/papers/wrap.md) | 5 | 6 |\n") && new.contains("| all | 8 | 10 |\n"), "{new}");
    assert!(new.starts_with("x\n") && new.ends_with("\ny"));
}
