//! The links of the repository's pages: each must refer to an existing file, and to a heading of it.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Finds all Markdown files below `folder`, except in the output of builds.
fn pages(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        if entry.file_type().unwrap().is_dir() {
            if !name.starts_with('.')
                && !name.starts_with("target")
                && name != "node_modules"
                && name != "env"
            {
                pages(&path, found);
            }
        } else if name.ends_with(".md") {
            found.push(path);
        }
    }
}

/// Returns the lines of a page that are not code.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Returns the names by which a page's headings can be linked to, as GitHub makes them.
fn anchors(page: &str) -> HashSet<String> {
    let mut anchors = HashSet::new();
    for heading in prose(page).filter_map(|line| line.strip_prefix('#')) {
        let text = heading.trim_start_matches('#').trim();
        // A link in a heading contributes only its text to the heading's name.
        let text: String =
            text.split("](").map(|part| part.split_once(')').map_or(part, |(_, rest)| rest)).collect();
        let kept = text
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || "-_ ".contains(*c))
            .collect::<String>();
        let anchor = kept.replace(' ', "-");
        let repeated =
            (1..).map(|n| format!("{anchor}-{n}")).find(|anchor| !anchors.contains(anchor)).unwrap();
        if !anchors.insert(anchor) {
            anchors.insert(repeated);
        }
    }
    anchors
}

/// Returns the targets of a page's links, each with its line.
fn links(page: &str) -> impl Iterator<Item = (&str, &str)> {
    prose(page).flat_map(|line| {
        let outside_code = line.split('`').step_by(2);
        let targets =
            outside_code.flat_map(|part| part.split("](").skip(1)).filter_map(|rest| rest.split_once(')'));
        // The text of a link may be code. The target then follows the code.
        targets.map(move |(target, _)| (target, line))
    })
}

#[test]
fn every_link_leads_somewhere() {
    let mut found = Vec::new();
    pages(root(), &mut found);
    let (mut wrong, mut checked) = (Vec::new(), 0);
    for path in found {
        let page = std::fs::read_to_string(&path).unwrap();
        for (target, line) in links(&page) {
            let (file, anchor) =
                target.split_once('#').map_or((target, None), |(file, anchor)| (file, Some(anchor)));
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            checked += 1;
            let linked = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let is_right = linked.exists()
                && anchor.is_none_or(|anchor| {
                    linked.extension().is_none_or(|extension| extension != "md")
                        || anchors(&std::fs::read_to_string(&linked).unwrap()).contains(anchor)
                });
            if !is_right {
                wrong.push(format!("{}: {target}: {line}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(checked > 200, "{checked} links were found");
}

/// A folder of tests must say what it protects against.
#[test]
fn every_folder_of_tests_is_listed() {
    let page = std::fs::read_to_string(root().join("docs/testing.md")).unwrap();
    let mut listed = 0;
    for part in ["store", "check", "lab", "examples"] {
        for entry in std::fs::read_dir(root().join(part)).unwrap() {
            let tests = entry.unwrap().path().join("tests");
            let name = tests.strip_prefix(root()).unwrap().display().to_string();
            assert!(
                !tests.is_dir() || page.contains(&format!("`{name}`")),
                "docs/testing.md does not list {name}"
            );
            listed += usize::from(tests.is_dir());
        }
    }
    assert!(listed > 15, "{listed} folders of tests");
}

#[test]
fn anchors_and_links_are_found() {
    let page = "# Which `x`?\n## [Tide](tide.md) tables\n## A, b\n```\n# no [link](code.md)\n```\n## A, b\nsee [`x`](#which-x) and `[no](link.md)`";
    let expected = ["which-x", "tide-tables", "a-b", "a-b-1"].map(String::from);
    assert_eq!(anchors(page), HashSet::from(expected));
    assert_eq!(links(page).map(|(target, _)| target).collect::<Vec<_>>(), ["tide.md", "#which-x"]);
}
