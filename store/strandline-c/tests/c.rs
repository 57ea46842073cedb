//! The header is the one that the source gives. C programs compile against it as C and as C++ without a warning, do what they should, leave
//! nothing behind under valgrind, and find what they had committed when they were killed.

use std::ffi::CStr;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

#[test]
fn the_header_is_current() {
    let config = cbindgen::Config::from_file(Path::new(FOLDER).join("cbindgen.toml")).unwrap();
    // The source alone, which leads to its modules: nothing else is exported, and no other tool is needed.
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
    // Those of the source.
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
        // SAFETY: it is a text that is never freed.
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

/// Whether there is such a program; otherwise says that the test is skipped.
fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !is_there {
        eprintln!("skipped: there is no `{program}` on this machine");
    }
    is_there
}

#[derive(Clone, Copy)]
enum Language {
    C,
    Cpp,
}

/// Compiles a C source to a program in `folder`; `None`, and a reason, where there is no compiler.
fn compile(source: &str, language: Language, folder: &Path, libraries: &[&str]) -> Option<PathBuf> {
    let (variable, default, flags) = match language {
        Language::C => ("CC", "cc", ["-std=c11", "-xc"]),
        Language::Cpp => ("CXX", "c++", ["-std=c++17", "-xc++"]),
    };
    let compiler = std::env::var(variable).unwrap_or_else(|_| default.into());
    if !is_there(&compiler) {
        return None;
    }
    let program = folder.join(format!("{}-{default}", Path::new(source).file_stem().unwrap().display()));
    let compiled = Command::new(compiler)
        .args(flags)
        .args(["-g", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(format!("{FOLDER}/include"))
        .arg(format!("{FOLDER}/{source}"))
        .args(["-xnone", "-o"])
        .arg(&program)
        .args(libraries)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(program)
}

/// What a static library needs.
const OF_THE_SYSTEM: [&str; 4] = ["-lgcc_s", "-lpthread", "-ldl", "-lm"];

/// The static library beside this test's own binary.
fn static_library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libstrandline_c.a");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// As [`compile`], with Strandline.
fn compile_with_strandline(source: &str, language: Language, folder: &Path) -> Option<PathBuf> {
    compile(
        source,
        language,
        folder,
        &[&[static_library().to_str().unwrap()], OF_THE_SYSTEM.as_slice()].concat(),
    )
}

/// Runs a program to its end: what it printed.
fn run(program: &Path, arguments: &[&str]) -> String {
    let ran = Command::new(program).args(arguments).output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{} {arguments:?}: {} {errors}", program.display(), ran.status);
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn the_inventory_finds_its_data_again() {
    let folder = tempfile::tempdir().unwrap();
    for language in [Language::C, Language::Cpp] {
        let Some(program) = compile_with_strandline("examples/inventory.c", language, folder.path()) else {
            return;
        };
        let pool = program.with_extension("db");
        for expected in ["pears 7\nplums 40\n2 articles\n", "pears 14\nplums 80\n2 articles\n"] {
            assert_eq!(run(&program, &[pool.to_str().unwrap()]), expected);
        }
    }
}

#[test]
fn a_small_static_library_does_the_same() {
    let folder = tempfile::tempdir().unwrap();
    if !is_there("ld") || !is_there("objcopy") || !is_there("awk") {
        return;
    }
    let (large, small) = (static_library(), folder.path().join("libstrandline.a"));
    let script = Path::new(FOLDER).join("small-static-library");
    run(&script, &[large.to_str().unwrap(), small.to_str().unwrap()]);
    let size = |path: &Path| std::fs::metadata(path).unwrap().len();
    assert!(size(&small) * 3 < size(&large), "{} and {} bytes", size(&small), size(&large));
    let libraries = [&[small.to_str().unwrap()], OF_THE_SYSTEM.as_slice()].concat();
    let Some(program) = compile("tests/c/everything.c", Language::C, folder.path(), &libraries) else {
        return;
    };
    assert_eq!(run(&program, &["once", folder.path().join("file").to_str().unwrap()]), "all is well\n");
}

/// What both examples are asked, in a process each; what they printed and ended with.
fn use_list(program: &Path, file: &Path) -> Vec<(String, Option<i32>)> {
    let commands: [&[&str]; 9] = [
        &["show"],
        &["add", "buy bread"],
        &["add", "a thing that is too long for one word"],
        &["add", ""],
        &["done", "1"],
        &["show"],
        &["done", "2"],
        &["done", "0"],
        &["show"],
    ];
    let each = commands.iter().map(|arguments| {
        let ran = Command::new(program).arg(file).args(*arguments).output().unwrap();
        (String::from_utf8(ran.stdout).unwrap(), ran.status.code())
    });
    each.collect()
}

#[test]
fn a_program_for_libpmemobj_has_a_way_over() {
    let folder = tempfile::tempdir().unwrap();
    let Some(after) = compile_with_strandline("examples/libpmemobj/after.c", Language::C, folder.path())
    else {
        return;
    };
    let said = use_list(&after, &folder.path().join("todo.db"));
    let expected = ["", "", "", "", "\nbuy bread\n", "", "", "buy bread\n"];
    assert_eq!(said.iter().map(|(text, _)| text.as_str()).skip(1).collect::<Vec<_>>(), expected);
    assert!(said.iter().map(|(_, code)| code.unwrap()).eq([0, 0, 0, 0, 0, 0, 1, 0, 0]), "{said:?}");
    if !Path::new("/usr/include/libpmemobj.h").exists() {
        eprintln!("skipped: there is no libpmemobj to compare with (libpmemobj-dev)");
        return;
    }
    if let Some(before) = compile("examples/libpmemobj/before.c", Language::C, folder.path(), &["-lpmemobj"])
    {
        assert_eq!(use_list(&before, &folder.path().join("todo.pmem")), said);
    }
}

#[test]
fn every_function_does_what_the_header_says() {
    let folder = tempfile::tempdir().unwrap();
    for language in [Language::C, Language::Cpp] {
        let Some(program) = compile_with_strandline("tests/c/everything.c", language, folder.path()) else {
            return;
        };
        let file = program.with_extension("db");
        assert_eq!(run(&program, &["once", file.to_str().unwrap()]), "all is well\n");
    }
}

/// What the program writes to a closed descriptor must not reach a file of the database. With its output closed, its code is all that is known.
#[test]
fn standard_descriptors_may_be_closed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile_with_strandline("tests/c/everything.c", Language::C, folder.path()) else {
        return;
    };
    let file = folder.path().join("file");
    run(&program, &["closed", file.to_str().unwrap()]);
    assert_eq!(run(&program, &["verify", file.to_str().unwrap()]), "found 2\n");
}

#[test]
fn valgrind_finds_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile_with_strandline("tests/c/everything.c", Language::C, folder.path()) else {
        return;
    };
    if !is_there("valgrind") {
        return;
    }
    let file = folder.path().join("file");
    let checks =
        ["-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect"];
    let arguments = [program.to_str().unwrap(), "once", file.to_str().unwrap()];
    let said = run(Path::new("valgrind"), &[checks.as_slice(), &arguments].concat());
    assert_eq!(said, "all is well\n");
}

/// `STRANDLINE_CASES` says how often.
#[test]
fn a_killed_program_finds_what_it_had_committed() {
    let kills = std::env::var("STRANDLINE_CASES").map_or(20, |kills| kills.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile_with_strandline("tests/c/everything.c", Language::Cpp, folder.path()) else {
        return;
    };
    let file = folder.path().join("file");
    let mut acknowledged = 0u64;
    let number = |line: &str, word| line.strip_prefix(word).and_then(|number| number.parse().ok());
    let mut random = 4711u64;
    for kill in 0..kills {
        let arguments = ["work".as_ref(), file.as_os_str()];
        let mut child = Command::new(&program).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // At any moment: during the opening, after some commits, and in the middle of one.
        for _ in 0..(random >> 60) {
            acknowledged = number(&lines.next().unwrap().unwrap(), "committed ").unwrap();
        }
        std::thread::sleep(std::time::Duration::from_micros(random >> 32 & 0x1fff));
        child.kill().unwrap();
        child.wait().unwrap();
        // What it still said before it was gone; the last line may be cut.
        let rest = lines.map_while(|line| number(&line.ok()?, "committed "));
        acknowledged = rest.last().map_or(acknowledged, |last: u64| last.max(acknowledged));
        let said = run(&program, &["verify", file.to_str().unwrap()]);
        let found: u64 = number(said.trim_end(), "found ").unwrap();
        assert!(found >= acknowledged, "kill {kill}: {found} found, {acknowledged} acknowledged");
        acknowledged = found;
    }
    assert!(acknowledged > 0);
    eprintln!("{kills} kills, {acknowledged} transactions");
}
