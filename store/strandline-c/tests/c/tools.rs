//! Compilers, and the programs that they build.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The folder of this package.
pub const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// Returns whether a program exists; if not, prints that the test is skipped.
pub fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !is_there {
        eprintln!("skipped: there is no `{program}` on this machine");
    }
    is_there
}

#[derive(Clone, Copy)]
pub enum Language {
    C,
    Cpp,
    Cpp20,
}

/// Compiles a C source to a program in `folder`. If there is no compiler, prints that and returns `None`.
pub fn compile(source: &str, language: Language, folder: &Path, libraries: &[&str]) -> Option<PathBuf> {
    let (variable, default, flags) = match language {
        Language::C => ("CC", "cc", ["-std=c11", "-xc"]),
        Language::Cpp => ("CXX", "c++", ["-std=c++17", "-xc++"]),
        Language::Cpp20 => ("CXX", "c++", ["-std=c++20", "-xc++"]),
    };
    let compiler = std::env::var(variable).unwrap_or_else(|_| default.into());
    if !is_there(&compiler) {
        return None;
    }
    let name = Path::new(source).file_stem().unwrap().display();
    let program = folder.join(format!("{name}-{default}{}", flags[0]));
    let compiled = Command::new(compiler)
        .args(flags)
        .args(["-g", "-Wall", "-Wextra", "-Wshadow", "-Wredundant-decls", "-Werror", "-I"])
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

/// The libraries that a static library needs.
pub const OF_THE_SYSTEM: [&str; 4] = ["-lgcc_s", "-lpthread", "-ldl", "-lm"];

/// Returns the path of the static library beside this test's own binary.
pub fn static_library() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libstrandline_c.a");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

/// Like [`compile`], with Strandline's static library.
pub fn compile_with_strandline(source: &str, language: Language, folder: &Path) -> Option<PathBuf> {
    compile(
        source,
        language,
        folder,
        &[&[static_library().to_str().unwrap()], OF_THE_SYSTEM.as_slice()].concat(),
    )
}

/// Runs a program to its end. Returns what it prints.
pub fn run(program: &Path, arguments: &[&str]) -> String {
    output_of(Command::new(program).args(arguments))
}

/// Runs a command, which must succeed. Returns what it prints.
pub fn output_of(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let (output, errors) = (String::from_utf8(ran.stdout).unwrap(), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{command:?}: {} {output} {errors}", ran.status);
    output
}
