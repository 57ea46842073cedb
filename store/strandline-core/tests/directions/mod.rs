//! Finds imports of a crate that go against the order of its folders. A test includes this file by its path, and provides the order.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Files that may use everything, and that no other file uses.
const ABOVE: [&str; 2] = ["lib", "example"];

/// Adds all Rust files below `folder` to `found`.
pub fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Returns the text without comments and without modules of unit tests.
fn code(text: &str) -> String {
    let mut code = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line == "#[cfg(test)]" || line.starts_with("#[cfg(all(test") {
            // `mod tests;` or `mod tests {`, which ends at the first brace in the first column.
            let mut item = lines.by_ref().skip_while(|line| line.starts_with("#["));
            if item.next().is_some_and(|line| line.ends_with('{')) {
                item.find(|line| line.starts_with('}')).expect("the module's end");
            }
            continue;
        }
        code += line.split("//").next().unwrap();
        code.push('\n');
    }
    code
}

/// Returns the first names of the paths that follow `crate::` here: one, or those in braces.
fn first_names(after: &str) -> Vec<&str> {
    let name = |path: &str| path.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(path.len());
    let Some(group) = after.strip_prefix('{') else { return vec![&after[..name(after)]] };
    let (mut depth, mut names, mut expects_name) = (0, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' => expects_name |= depth == 0,
            _ if c.is_whitespace() => {}
            _ if expects_name => {
                names.push(&group[at..][..name(&group[at..])]);
                expects_name = false;
            }
            _ => {}
        }
    }
    names
}

/// Returns the leaves of the tree of names that begins here: `{a, b::{c, d as e}}` has `a`, `c` and `e`.
fn leaves(tree: &str) -> Vec<&str> {
    let end = tree.find(';').unwrap_or(tree.len());
    let is_leaf = |path: &&str| !path.trim_end().ends_with(':') && !path.trim().is_empty();
    let last = |path: &'_ str| -> usize { path.rfind([':', ' ']).map_or(0, |at| at + 1) };
    let parts = tree[..end].split([',', '{', '}']).filter(is_leaf);
    parts.map(str::trim).map(|path| &path[last(path)..]).collect()
}

/// Returns the names in the crate's root, with the folders that they come from; `None` for names of other crates.
fn root_names(order: &[&str], sources: &[(String, String)]) -> HashMap<String, Option<String>> {
    let mut names = HashMap::new();
    for (folder, code) in sources {
        if folder == "lib" {
            for (at, found) in code.match_indices("pub use ") {
                let (from, what) = code[at + found.len()..].split_once("::").expect("a path");
                for name in leaves(what) {
                    let is_own = order.contains(&from) || ABOVE.contains(&from);
                    // A derive macro of another crate may have the name of a trait of this one.
                    let known = names.entry(name.to_owned()).or_insert(None);
                    *known = known.take().or(is_own.then(|| from.to_owned()));
                }
            }
        }
        // Macros are at the root, wherever they are defined.
        for (at, found) in code.match_indices("macro_rules! ") {
            names.insert(first_names(&code[at + found.len()..])[0].into(), Some(folder.clone()));
        }
    }
    names.extend(order.iter().chain(&ABOVE).map(|&folder| (folder.into(), Some(folder.into()))));
    names
}

/// Returns the imports of these sources, each a folder and its code, that go from a folder to a later one in `order`.
pub fn upward(order: &[&str], sources: &[(String, String)]) -> Vec<String> {
    let names = root_names(order, sources);
    let place = |folder: &str| order.iter().position(|&at| at == folder);
    let mut wrong = Vec::new();
    for (folder, code) in sources.iter().filter(|(folder, _)| !ABOVE.contains(&folder.as_str())) {
        let here = place(folder).unwrap_or_else(|| panic!("{folder} has no place in the order"));
        for (at, found) in code.match_indices("crate::") {
            for name in first_names(&code[at + found.len()..]) {
                let from = names.get(name).unwrap_or_else(|| panic!("{folder}: whose is `crate::{name}`?"));
                let Some(from) = from else { continue };
                if from != folder && place(from).is_none_or(|place| place > here) {
                    wrong.push(format!("{folder} uses {from}, by `crate::{name}`"));
                }
            }
        }
    }
    wrong
}

/// Returns all sources below `src`, each with its folder. Paths to the crate's root are rewritten to begin with `crate::`.
pub fn all_sources(src: &Path) -> Vec<(String, String)> {
    let mut paths = Vec::new();
    sources(src, &mut paths);
    let is_tests = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "tests");
    paths.retain(|path| !is_tests(path));
    let with_code = |path: PathBuf| {
        let inside = path.strip_prefix(src).unwrap();
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let mut code = code(&fs::read_to_string(&path).unwrap());
        let depth = inside.iter().count() - usize::from(inside.ends_with("mod.rs"));
        // The parent `depth` levels above a file is the root.
        code = code.replace(&"super::".repeat(depth), "crate::");
        (first.trim_end_matches(".rs").to_owned(), code)
    };
    paths.into_iter().map(with_code).collect()
}

#[test]
fn an_import_upwards_is_seen() {
    let lib = "pub use file::{Options, Pool};\npub use heap::{a::{B, C as D}, e::F};\npub use other::Error;";
    let order = ["memory", "log", "heap", "file"];
    let source = |folder: &str, text: &str| (folder.to_owned(), code(text));
    let wrong = |text: &str| upward(&order, &[source("lib", lib), source("log", text)]).len();
    assert_eq!(wrong("use crate::memory::{Memory, file};\nuse crate::log::x;\nuse crate::Error;"), 0);
    assert_eq!(wrong("// crate::heap\n#[cfg(test)]\nmod tests {\n    use crate::heap;\n}"), 0);
    for text in [
        "use crate::heap;",
        "use crate::{memory::{a, b}, heap as c};",
        "fn f(p: &crate::Pool) {}",
        "use crate::B;",
        "use crate::D;",
        "use crate::F;",
    ] {
        assert_eq!(wrong(text), 1, "{text}");
    }
    assert_eq!(wrong("use crate::{\n    Options,\n    example,\n};"), 2);
}
