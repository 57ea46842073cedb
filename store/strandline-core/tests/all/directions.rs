//! Imports go in one direction: a folder of `src` uses those before it in [`ORDER`] alone.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::sources::sources;

/// Folders and files of `src`, each of which uses only those before it.
const ORDER: [&str; 12] = [
    "error",
    "domain",
    "memory",
    "layout",
    "log",
    "heap",
    "transaction",
    "scheme",
    "sync",
    "engine",
    "structures",
    "file",
];

/// What may use everything, and what nothing else uses.
const ABOVE: [&str; 2] = ["lib", "example"];

/// The text without comments and without modules of unit tests.
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

/// First names of the paths that follow `crate::` here: one, or those in braces.
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

/// Names of the crate's root, and the folders that they come from.
fn root_names(sources: &[(String, String)]) -> HashMap<String, String> {
    let mut names: HashMap<String, String> =
        ORDER.into_iter().chain(ABOVE).map(|folder| (folder.into(), folder.into())).collect();
    for (folder, code) in sources {
        if folder == "lib" {
            for (_, reexport) in
                code.match_indices("pub use ").map(|(at, found)| code[at..].split_at(found.len()))
            {
                let (from, what) = reexport.split_once("::").expect("a path");
                names.extend(first_names(what).into_iter().map(|name| (name.into(), from.into())));
            }
        }
        // Macros are at the root, wherever they are defined.
        for (at, found) in code.match_indices("macro_rules! ") {
            names.insert(first_names(&code[at + found.len()..])[0].into(), folder.clone());
        }
    }
    names
}

/// Imports of these sources, each a folder and its code, that go from a folder to itself or to a later one.
fn upward(sources: &[(String, String)]) -> Vec<String> {
    let names = root_names(sources);
    let place = |folder: &str| ORDER.iter().position(|&at| at == folder);
    let mut wrong = Vec::new();
    for (folder, code) in sources.iter().filter(|(folder, _)| !ABOVE.contains(&folder.as_str())) {
        let here = place(folder).unwrap_or_else(|| panic!("{folder} has no place in the order"));
        for (at, found) in code.match_indices("crate::") {
            for name in first_names(&code[at + found.len()..]) {
                let from = names.get(name).unwrap_or_else(|| panic!("{folder}: whose is `crate::{name}`?"));
                if from != folder && place(from).is_none_or(|place| place > here) {
                    wrong.push(format!("{folder} uses {from}, by `crate::{name}`"));
                }
            }
        }
    }
    wrong
}

/// All sources, each with its folder, in which paths to the crate's root begin with `crate::`.
fn all_sources() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut paths = Vec::new();
    sources(&src, &mut paths);
    let is_tests = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem == "tests");
    paths.retain(|path| !is_tests(path));
    let with_code = |path: PathBuf| {
        let inside = path.strip_prefix(&src).unwrap();
        let first = inside.iter().next().unwrap().to_str().unwrap();
        let mut code = code(&fs::read_to_string(&path).unwrap());
        let depth = inside.iter().count() - usize::from(inside.ends_with("mod.rs"));
        // What a file calls its parent `depth` times over is the root.
        code = code.replace(&"super::".repeat(depth), "crate::");
        (first.trim_end_matches(".rs").to_owned(), code)
    };
    paths.into_iter().map(with_code).collect()
}

#[test]
fn no_folder_uses_a_later_one() {
    let wrong = upward(&all_sources());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn an_import_upwards_is_seen() {
    let sources = |text: &str| {
        [("lib".to_owned(), "pub use file::{Options, Pool};".to_owned()), ("log".to_owned(), code(text))]
    };
    assert!(upward(&sources("use crate::memory::{Memory, file};\nuse crate::log::x;")).is_empty());
    assert!(
        upward(&sources("// crate::heap\n#[cfg(test)]\nmod tests {\n    use crate::heap;\n}")).is_empty()
    );
    for wrong in ["use crate::heap;", "use crate::{memory::{a, b}, heap as c};", "fn f(p: &crate::Pool) {}"] {
        assert_eq!(upward(&sources(wrong)).len(), 1, "{wrong}");
    }
    assert_eq!(upward(&sources("use crate::{\n    Options,\n    example,\n};")).len(), 2);
}
