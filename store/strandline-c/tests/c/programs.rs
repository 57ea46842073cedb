//! Programs in C, also compiled as C++.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::tools::{
    FOLDER, Language, OF_THE_SYSTEM, compile, compile_with_strandline, is_there, run, static_library,
};

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
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn a_small_static_library_does_the_same() {
    let folder = tempfile::tempdir().unwrap();
    if !is_there("ld") || !is_there("objcopy") {
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

/// Runs the commands that both examples have, each in a process of its own. Returns what they print, and their exit codes.
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

#[test]
fn values_are_lent_and_their_limits_hold() {
    let folder = tempfile::tempdir().unwrap();
    for language in [Language::C, Language::Cpp] {
        let Some(program) = compile_with_strandline("tests/c/values.c", language, folder.path()) else {
            return;
        };
        let file = program.with_extension("db");
        assert_eq!(run(&program, &["once", file.to_str().unwrap()]), "all is well\n");
    }
}

/// Takes 4 GB of disk space.
#[test]
#[ignore = "writes 4 GB; cargo test -p strandline-c --test c largest -- --ignored"]
fn the_largest_value_is_stored_and_lent() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile_with_strandline("tests/c/values.c", Language::C, folder.path()) else {
        return;
    };
    let said = run(&program, &["largest", folder.path().join("file").to_str().unwrap()]);
    assert!(said.starts_with("4294967295 bytes in "), "{said}");
}

/// Output to a closed descriptor must not reach a file of the database. Since the program's output is closed, the test sees only its exit code.
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
#[ignore = "a campaign, which `.ci/others --full` runs"]
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

/// The number of kills is `STRANDLINE_CASES`, if it is set.
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
        // Kills at random moments: while opening, after some commits, or in the middle of one.
        for _ in 0..(random >> 60) {
            acknowledged = number(&lines.next().unwrap().unwrap(), "committed ").unwrap();
        }
        std::thread::sleep(std::time::Duration::from_micros(random >> 32 & 0x1fff));
        child.kill().unwrap();
        child.wait().unwrap();
        // Reads what the program printed before it died. The last line may be incomplete.
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
