//! The numbers that a command prints on the papers' pages and in the README, compared with what it prints now.
//!
//! A block begins with `<!-- prints: COMMAND -->`, has the output in a fence, and ends with `<!-- end of output -->`. `.ci/figures` writes
//! what the commands print into the blocks, and the scoreboard's rows of these papers.
//!
//! By default the claims of the cheapest figures are compared; the laboratory's own tests compare a trial of all figures. All blocks are
//! compared with `STRANDLINE_FIGURES=compare`, in some four processor minutes, as `.ci/others --full` does.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The papers that are simulated alone: what is printed of them is the same on every machine. With the claims that are compared by default:
/// those that take seconds.
const PAPERS: [(&str, &[&str]); 3] = [
    ("loose-ordering", &["L12", "L15", "L16", "L19", "L20", "L21"]),
    ("atom", &["A8", "A10", "A16"]),
    ("wrap", &["W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9", "W10", "W11", "W12", "W13", "W14"]),
];
/// The others, with the names of their pages: runs of them take minutes, and one claim is timed on the machine at hand. What is compared is
/// the README with the page.
const OTHERS: [(&str, &[&str]); 2] = [
    ("blurred-persistence", &["reproduce", "blurred", "--quick"]),
    ("deferred-commit", &["reproduce", "deferred-commit", "--quick", "--readings"]),
];
const BEGIN: &str = "<!-- prints: strandline-lab ";
const END: &str = "```\n<!-- end of output -->";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A command's words, in double quotes where they have spaces.
fn words(command: &str) -> Vec<&str> {
    let parts = command.split('"').enumerate();
    parts
        .flat_map(|(at, part)| if at % 2 == 1 { vec![part] } else { part.split_whitespace().collect() })
        .collect()
}

/// The words of the block's command, and where the output is in the page.
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

/// Runs a command with `--series` on the results of a run of the paper, and returns its output.
fn series_of(command: &[&str], results: &Path) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_strandline-lab"));
    let command = command.iter().filter(|word| **word != "--quick");
    let output = program.args(command).arg("--from").arg(results).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The cells of a printed table's rows, without the lines that continue a row.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let lines = text.lines().filter(|line| line.starts_with('│') && !line.starts_with("│ claim"));
    let cells = |line| str::split(line, ['│', '┆']).skip(1).map(str::trim).collect();
    lines.map(cells).filter(|cells: &Vec<&str>| cells.len() == 6 && !cells[0].is_empty()).collect()
}

/// Compares the rows of `claims`, or all, of a page's block, which was written with `--readings`, with the output of a run without; returns
/// those that differ.
fn differences(page: &str, claims: Option<&[&str]>, run: &str) -> Vec<String> {
    let (mut page, run) = (rows(page), rows(run));
    page.retain(|cells| claims.is_none_or(|claims| claims.contains(&cells[0])));
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

/// The columns of the scoreboard by the line under a printed table.
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

/// Compares the blocks of a paper's page with what the commands print now, or writes them there; returns the paper's score. With `claims`
/// it compares these rows alone, and no series.
///
/// # Panics
/// A block differs, or a command fails.
fn blocks_of_paper(paper: &str, claims: Option<&[&str]>, folder: &Path, writes: bool) -> Vec<u64> {
    let path = root().join("docs/papers").join(format!("{paper}.md"));
    let old = std::fs::read_to_string(&path).unwrap();
    let mut page = old.clone();
    let out = folder.join(paper);
    let quick = ["reproduce", paper, "--quick"];
    let with_readings = [&quick[..], &["--readings"]].concat();
    let of_claims = claims.into_iter().flatten().flat_map(|claim| ["--claim", claim]);
    let quick_run: Vec<_> = quick.into_iter().chain(of_claims).collect();
    let run = printed(if writes { &with_readings } else { &quick_run }, &out);
    let mut found = None;
    // From the last: what is before stays where it is.
    for (command, range) in blocks(&old).into_iter().rev() {
        if command == with_readings {
            found = Some(score(if writes { &run } else { &old[range.clone()] }));
            if writes {
                page.replace_range(range, &run);
            } else {
                let differ = differences(&old[range], claims, &run);
                assert!(differ.is_empty(), "{}: .ci/figures writes it: {differ:#?}", path.display());
            }
            continue;
        }
        assert!(command.starts_with(&quick) && command.contains(&"--series"), "{command:?}");
        if claims.is_some() {
            continue;
        }
        let series = series_of(&command, &out.join("results.json"));
        if writes {
            page.replace_range(range, &series);
        } else {
            assert_eq!(old[range], series, "{}: .ci/figures writes it", path.display());
        }
    }
    if writes {
        std::fs::write(&path, page).unwrap();
    }
    found.expect("each page has the quick run of its paper")
}

/// The comparison leaves the readings of the text out: with them the commands take ten processor minutes, without them four.
/// The papers run side by side, since most of a run is one thread's.
#[test]
fn pages_and_the_readme_have_what_the_commands_print() {
    if !cfg!(feature = "sqlite") {
        // Loose-Ordering's averages have SQLite in them.
        return;
    }
    let written = std::env::var("STRANDLINE_FIGURES").unwrap_or_default();
    let (writes, writes_all) = (["write", "all"].contains(&&*written), written == "all");
    let is_whole = writes || written == "compare";
    let folder = tempfile::tempdir().unwrap();
    let mut scores: Vec<_> = std::thread::scope(|scope| {
        let folder = folder.path();
        let run = |(paper, claims): (_, &'static [_])| {
            let claims = (!is_whole).then_some(claims);
            (paper, scope.spawn(move || blocks_of_paper(paper, claims, folder, writes)))
        };
        let runs = PAPERS.map(run);
        let joined = |thread: std::thread::ScopedJoinHandle<Vec<u64>>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        runs.into_iter().map(|(paper, thread)| (paper, joined(thread))).collect()
    });
    for (page, command) in OTHERS {
        let path = root().join("docs/papers").join(format!("{page}.md"));
        let old = std::fs::read_to_string(&path).unwrap();
        let all = blocks(&old);
        let (_, range) = all.into_iter().find(|(words, _)| words == command).expect("a block");
        let mut block = old[range.clone()].to_owned();
        if writes_all {
            block = printed(command, &folder.path().join(page));
            std::fs::write(&path, format!("{}{block}{}", &old[..range.start], &old[range.end..])).unwrap();
        }
        scores.push((page, score(&block)));
    }
    let readme = root().join("README.md");
    let old = std::fs::read_to_string(&readme).unwrap();
    let new = with_rows(&old, &scores);
    if writes {
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
    let differences = |page: &str| differences(page, None, &run);
    assert_eq!(differences(&block("short", "0.163")), [""; 0]);
    assert_eq!(differences(&block("holds within the text", "0.163")), [""; 0]);
    assert_eq!(differences(&block("holds", "0.163")).len(), 1);
    assert_eq!(differences(&block("short", "0.164")).len(), 1);
    assert_eq!(differences("").len(), 1);
    let two = block("short", "0.163") + "│ L2 ┆ short ┆ 0.3 ┆ 0.5 ┆ Fig. 7 │\n";
    assert_eq!(differences(&two).len(), 1);
    assert_eq!(super::figures::differences(&two, Some(&["L1"]), &run), [""; 0]);
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
