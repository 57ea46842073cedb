//! The header, and the documentation of each function in it.

use std::ffi::CStr;
use std::path::Path;

use crate::tools::FOLDER;

#[test]
fn the_header_is_current() {
    let config = cbindgen::Config::from_file(Path::new(FOLDER).join("cbindgen.toml")).unwrap();
    // cbindgen reads the source alone, beginning at `lib.rs`. The header then exports nothing else, and no other tool is needed.
    let builder = cbindgen::Builder::new().with_config(config).with_src(format!("{FOLDER}/src/lib.rs"));
    let mut made = Vec::new();
    builder.generate().unwrap().write(&mut made);
    let made = String::from_utf8(made).unwrap();
    let header = format!("{FOLDER}/include/strandline.h");
    if std::env::var_os("STRANDLINE_WRITE_HEADER").is_some() {
        std::fs::write(&header, &made).unwrap();
    }
    let stored = std::fs::read_to_string(header).unwrap_or_default();
    assert!(stored == made, "run the test with STRANDLINE_WRITE_HEADER=1 and commit include/strandline.h");
}

/// The header without its comments.
fn declarations() -> String {
    let header = std::fs::read_to_string(format!("{FOLDER}/include/strandline.h")).unwrap();
    header.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[test]
fn the_header_declares_each_function_once() {
    let header = declarations();
    let mut declared: Vec<&str> = header
        .match_indices("strandline_")
        .filter_map(|(at, _)| header[at..].split_once('(').map(|(name, _)| name))
        .filter(|name| name.chars().all(|letter| letter.is_ascii_lowercase() || letter == '_'))
        .collect();
    declared.sort_unstable();
    let all = declared.len();
    declared.dedup();
    assert_eq!(declared.len(), all);
    // Collects the functions that the source exports.
    let mut exported = Vec::new();
    for file in std::fs::read_dir(format!("{FOLDER}/src")).unwrap() {
        let source = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let functions = source.split("#[unsafe(no_mangle)]").skip(1);
        exported.extend(functions.map(|function| {
            let name = function.split_once("fn ").unwrap().1;
            name.split_once('(').unwrap().0.to_owned()
        }));
    }
    exported.sort_unstable();
    assert_eq!(declared, exported);
}

#[test]
fn every_status_has_a_text_of_its_own() {
    let text = |code| {
        // SAFETY: the pointer refers to a text that is never freed.
        let text = unsafe { CStr::from_ptr(strandline_c::strandline_error_text(code)) };
        text.to_str().unwrap()
    };
    let header = declarations();
    let codes: Vec<i32> = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("STRANDLINE_")?.split_once(" = "))
        .map(|(_, code)| code.trim_end_matches(',').parse().unwrap())
        .collect();
    let (unknown, own) = (text(i32::MIN), text(1));
    let mut texts: Vec<&str> = codes.iter().map(|&code| text(code)).chain([unknown, own]).collect();
    texts.sort_unstable();
    texts.dedup();
    assert!(codes.len() > 40 && texts.len() == codes.len() + 2, "{codes:?} {texts:?}");
}

/// Returns the comment in front of each function's declaration.
pub fn functions() -> Vec<(String, String)> {
    let header = std::fs::read_to_string(format!("{FOLDER}/include/strandline.h")).unwrap();
    let mut comment = String::new();
    let mut functions = Vec::new();
    for line in header.lines() {
        let name = line.split_once('(').map(|(before, _)| before.rsplit([' ', '*']).next().unwrap());
        if let Some(text) = line.strip_prefix("//") {
            comment = format!("{comment}{text}\n");
        } else if let Some(name) = name.filter(|name| name.starts_with("strandline_")) {
            functions.push((name.to_owned(), std::mem::take(&mut comment)));
        } else {
            comment.clear();
        }
    }
    functions
}

#[test]
fn every_function_says_which_threads_may_call_it() {
    let functions = functions();
    assert!(functions.len() > 40);
    for (name, comment) in functions {
        let threads = comment.split_once("\n Threads: ").map(|(_, threads)| threads);
        assert!(threads.is_some_and(|threads| threads.contains('.')), "{name}: {comment}");
    }
}

#[test]
fn every_function_is_tested_and_has_a_place_in_the_classes() {
    let read = |file: &str| std::fs::read_to_string(format!("{FOLDER}/{file}")).unwrap();
    let programs = read("tests/c/everything.c") + &read("tests/c/values.c");
    let classes = read("include/strandline.hpp");
    for (name, _) in functions() {
        assert!(programs.contains(&format!("{name}(")), "no test calls {name}");
        let is_used = |end: &char| classes.contains(&format!("{name}{end}"));
        // The class uses another function instead: `Map::get` reads into a `std::string` with a reader.
        let is_needed = name != "strandline_get";
        assert!(!is_needed || ['(', '>', ','].iter().any(is_used), "no class uses {name}");
    }
}
