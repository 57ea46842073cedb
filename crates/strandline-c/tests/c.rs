//! The header is the one that the source gives, and the example compiles, runs, and finds its data again.

use std::path::Path;
use std::process::Command;

const HEADER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/include/strandline.h");

#[test]
fn the_header_is_current() {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_folder.join("cbindgen.toml")).unwrap();
    // The one source file alone: nothing else is exported, and no other tool is needed.
    let bindings = cbindgen::Builder::new()
        .with_config(config)
        .with_src(crate_folder.join("src/lib.rs"))
        .generate()
        .unwrap();
    let mut made = Vec::new();
    bindings.write(&mut made);
    let made = String::from_utf8(made).unwrap();
    if std::env::var_os("STRANDLINE_WRITE_HEADER").is_some() {
        std::fs::write(HEADER, &made).unwrap();
    }
    let stored = std::fs::read_to_string(HEADER).unwrap_or_default();
    assert!(stored == made, "run the test with STRANDLINE_WRITE_HEADER=1 and commit include/strandline.h");
}

#[test]
fn the_example_runs() {
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    if Command::new(&compiler).arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler ({compiler})");
        return;
    }
    // Beside this test's own binary.
    let test = std::env::current_exe().unwrap();
    let library = test.parent().unwrap().join("libstrandline_c.a");
    assert!(library.exists(), "{} is not there", library.display());
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("inventory");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/inventory.c");
    let compiled = Command::new(&compiler)
        .args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-I"])
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/include"))
        .arg(source)
        .arg(&library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let pool = folder.path().join("pool");
    for expected in ["pears 7\nplums 40\n2 articles\n", "pears 14\nplums 80\n2 articles\n"] {
        let run = Command::new(&program).arg(&pool).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert_eq!(String::from_utf8_lossy(&run.stdout), expected);
    }
}
