//! Files are made durable in one place, `memory/flush.rs`, and no result of a flush is dropped, since the system reports a lost write-back
//! only once. Files are also opened in one place, `memory/system`, on a descriptor that is not a standard one, so that no message is
//! written to them.

use std::fs;
use std::path::Path;

use super::sources::sources;

/// Calls that make a file durable or open it, and the source files that may contain them: those that define wrappers, and those that call these with a
/// guard around them.
const PRIMITIVES: [(&[&str], &[&str]); 5] = [
    (
        &[" File::open(", "(File::open(", "File::options(", "options.open(", "true).open(", "false).open("],
        // The files that wrap system calls, and the one of the examples.
        &["memory/system/mod.rs", "memory/system/linux.rs", "memory/system/macos.rs", "example.rs"],
    ),
    (&["sync_all(", "sync_data("], &["memory/flush.rs", "memory/system/linux.rs", "memory/system/macos.rs"]),
    (
        &["libc::msync", "libc::fsync", "libc::fdatasync", "libc::syncfs", "libc::sync_file_range"],
        &["memory/system/linux.rs", "memory/system/macos.rs"],
    ),
    (&["system::synchronize("], &["memory/mapping.rs"]),
    (&["system::write_durable("], &["sync/file_device.rs"]),
];

/// Calls whose results tell whether a write became durable.
const FLUSHES: [&str; 9] = [
    "flush::file(",
    "flush::data(",
    "flush::folder(",
    ".flush(DeviceFile",
    ".flush(file)",
    ".write_durable(",
    ".write_pages(",
    ".grow(",
    ".synchronize(",
];

/// Expressions that drop a result.
const DROPS: [&str; 8] =
    ["let _ =", "drop(", ".ok()", ".ok();", ".unwrap_or(", ".unwrap_or_default(", ".is_ok()", ".is_err()"];

/// Returns the code without comments, up to the first module of unit tests.
fn code(text: &str) -> String {
    let tests = text.find("#[cfg(test)]\nmod tests {").unwrap_or(text.len());
    text[..tests].lines().map(|line| line.split("//").next().unwrap().to_owned() + "\n").collect()
}

/// Returns descriptions of the faults in a file. `name` is its path below `src`.
fn wrong(name: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let mut wrong = Vec::new();
    for (calls, _) in PRIMITIVES.iter().filter(|(_, files)| !files.contains(&name)) {
        for call in calls.iter().filter(|call| code.contains(**call)) {
            wrong.push(format!("{name} calls {call}..): use memory/flush.rs or memory/system"));
        }
    }
    // A result is dropped in the statement that makes it.
    for statement in code.split([';', '{', '}']) {
        let flushes = FLUSHES.iter().find(|call| statement.contains(**call));
        let drops = DROPS.iter().find(|drop| statement.contains(**drop));
        if let (Some(call), Some(drop)) = (flushes, drops) {
            wrong.push(format!("{name} drops the result of {call}..) by {drop}"));
        }
    }
    wrong
}

#[test]
fn files_are_opened_and_flushed_in_one_place_and_no_result_is_dropped() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("../strandline-core/src");
    let mut paths = Vec::new();
    sources(&src, &mut paths);
    let mut found = Vec::new();
    for path in paths.iter().filter(|path| path.file_stem().is_some_and(|stem| stem != "tests")) {
        let name = path.strip_prefix(&src).unwrap().to_str().unwrap();
        found.extend(wrong(name, &fs::read_to_string(path).unwrap()));
    }
    assert!(found.is_empty(), "{found:#?}");
}

/// The crates above the engine must not open or flush any file of a pool.
#[test]
fn nothing_above_the_engine_opens_or_flushes_files() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for name in ["strandline", "strandline-c", "strandline-sqlite"] {
        let mut paths = Vec::new();
        sources(&crates.join(name).join("src"), &mut paths);
        assert!(!paths.is_empty());
        for path in paths {
            let found = wrong(&path.display().to_string(), &fs::read_to_string(&path).unwrap());
            assert!(found.is_empty(), "{found:#?}");
        }
    }
}

#[test]
fn each_kind_is_seen() {
    for (text, is_wrong) in [
        ("file.sync_all()?;", true),
        ("// file.sync_all()?;", false),
        ("let file = File::open(path)?;", true),
        ("let file = OpenOptions::new().read(true).open(path)?;", true),
        ("let file = system::open(OpenOptions::new().read(true), path)?;", false),
        ("let heap = NewFile::create(&path, None)?;", false),
        ("let _ = memory.grow(bytes, bytes);", true),
        ("if x { device.flush(DeviceFile::Heap).ok(); }", true),
        ("flush::file(&file).unwrap_or(());", true),
        ("device.flush(DeviceFile::Heap)?; let _ = thread.join();", false),
        ("#[cfg(test)]\nmod tests {\n    file.sync_all();\n}", false),
    ] {
        assert_eq!(!wrong("file/pool.rs", text).is_empty(), is_wrong, "{text}");
    }
    assert!(wrong("memory/flush.rs", "file.sync_all()").is_empty());
    assert!(!wrong("memory/mapping.rs", "file.sync_data()").is_empty());
}
