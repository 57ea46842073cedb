//! `make install`, and programs that are built with the installed library, such as the examples in `docs/c.md`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::header::functions;
use crate::tools::{FOLDER, is_there, output_of, run, static_library};

/// Runs make with this test's static library.
fn make(target: &str, out: &Path, variables: &[String]) -> String {
    let library = format!("ARCHIVE={}", static_library().display());
    let out = format!("OUT={}", out.display());
    output_of(Command::new("make").args(["-C", FOLDER, target, &library, &out]).args(variables))
}

/// Returns whether the tools for an installation exist.
fn can_install() -> bool {
    cfg!(target_os = "linux") && ["make", "cc", "c++", "ld", "objcopy"].into_iter().all(is_there)
}

/// Installs to a prefix in `folder`. If a tool is missing, prints that and returns `None`.
fn install(folder: &Path) -> Option<PathBuf> {
    if !can_install() {
        return None;
    }
    let prefix = folder.join("prefix");
    make("install", &folder.join("out"), &[format!("PREFIX={}", prefix.display())]);
    Some(prefix)
}

/// Returns the files and links below a folder.
fn files(folder: &Path) -> BTreeSet<String> {
    let found = output_of(Command::new("find").arg(folder).args(["-not", "-type", "d", "-printf", "%P\n"]));
    found.lines().map(str::to_owned).collect()
}

/// Returns the code blocks of `docs/c.md` in a language.
fn fences(language: &str) -> Vec<String> {
    let page = std::fs::read_to_string(format!("{FOLDER}/../../docs/c.md")).unwrap();
    let fences = page.split("\n```").skip(1).step_by(2);
    fences
        .filter_map(|fence| fence.strip_prefix(language)?.strip_prefix('\n'))
        .map(|fence| format!("{fence}\n"))
        .collect()
}

/// Returns a command that finds the installed library, at run time and at build time.
fn with_prefix(prefix: &Path, program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"))
        .env("CMAKE_PREFIX_PATH", prefix)
        .env("LD_LIBRARY_PATH", prefix.join("lib"));
    command
}

fn pkg_config(prefix: &Path, arguments: &[&str]) -> Vec<String> {
    let said = output_of(with_prefix(prefix, "pkg-config").args(arguments).arg("strandline"));
    said.split_whitespace().map(str::to_owned).collect()
}

/// Writes to `folder` the page's first C program and first C++ program, with the files that build them.
fn write_project(folder: &Path, name: &str, language: &str) {
    std::fs::create_dir(folder).unwrap();
    std::fs::write(folder.join("visits.c"), &fences("c")[0]).unwrap();
    std::fs::write(folder.join("visits.cpp"), &fences("cpp")[0]).unwrap();
    let [build] = &fences(language)[..] else { panic!("one fence of {language} is expected") };
    std::fs::write(folder.join(name), build).unwrap();
}

/// Runs the project's programs one after the other on one database.
fn run_project(prefix: &Path, folder: &Path) {
    for program in ["visits", "visits-cpp"] {
        let said = output_of(with_prefix(prefix, folder.join(program)).current_dir(folder));
        assert_eq!(said, "ann was here\n");
    }
    assert!(folder.join("visits.db").exists());
}

#[test]
fn an_installation_is_complete_and_can_be_removed() {
    let folder = tempfile::tempdir().unwrap();
    if !can_install() {
        return;
    }
    let (out, image) = (folder.path().join("out"), folder.path().join("image"));
    let places =
        [format!("DESTDIR={}", image.display()), "PREFIX=/opt/it".into(), "LIBDIR=/opt/it/lib64".into()];
    make("install", &out, &places);
    let version = env!("CARGO_PKG_VERSION");
    let interface = version.rsplit_once('.').unwrap().0;
    let mut expected: BTreeSet<String> =
        ["include/strandline.h", "include/strandline.hpp", "include/strandline_pack.hpp"]
            .map(Into::into)
            .into();
    for file in [
        "libstrandline.a",
        "libstrandline.so",
        &format!("libstrandline.so.{interface}"),
        &format!("libstrandline.so.{version}"),
        "pkgconfig/strandline.pc",
        "cmake/strandline/strandline-config.cmake",
        "cmake/strandline/strandline-config-version.cmake",
    ] {
        expected.insert(format!("lib64/{file}"));
    }
    let root = image.join("opt/it");
    assert_eq!(files(&root), expected);
    // The installed files must contain the final path, and not the path of the image.
    for file in ["pkgconfig/strandline.pc", "cmake/strandline/strandline-config.cmake"] {
        let text = std::fs::read_to_string(root.join("lib64").join(file)).unwrap();
        assert!(!text.contains('@') && !text.contains(image.to_str().unwrap()), "{text}");
    }
    let pc = std::fs::read_to_string(root.join("lib64/pkgconfig/strandline.pc")).unwrap();
    assert!(pc.starts_with("prefix=/opt/it\nlibdir=/opt/it/lib64\nincludedir=/opt/it/include\n"), "{pc}");
    let shared = root.join("lib64/libstrandline.so");
    let dynamic = run(Path::new("objdump"), &["-p", shared.to_str().unwrap()]);
    let soname = dynamic.lines().find_map(|line| line.trim().strip_prefix("SONAME"));
    assert_eq!(soname.map(str::trim), Some(&*format!("libstrandline.so.{interface}")));
    // The library must export the functions of the header and nothing else.
    let names =
        run(Path::new("nm"), &["--dynamic", "--defined-only", "--format=posix", shared.to_str().unwrap()]);
    let exported: BTreeSet<&str> = names.lines().filter_map(|line| line.split(' ').next()).collect();
    let declared = functions();
    assert_eq!(exported, declared.iter().map(|(name, _)| name.as_str()).collect());
    std::fs::write(root.join("lib64/cmake/another"), "").unwrap();
    make("uninstall", &out, &places);
    assert_eq!(files(&root), ["lib64/cmake/another".into()].into());
    assert!(!root.join("lib64/cmake/strandline").exists());
    // A relative prefix would be written into the installed files.
    let relative = Command::new("make")
        .args(["-C", FOLDER, "install", "PREFIX=here"])
        .args([format!("ARCHIVE={}", static_library().display()), format!("OUT={}", out.display())])
        .output()
        .unwrap();
    assert!(String::from_utf8_lossy(&relative.stderr).contains("give an absolute path"), "{relative:?}");
    assert!(!relative.status.success() && !Path::new(FOLDER).join("here").exists());
}

#[test]
fn pkg_config_finds_what_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(prefix) = install(folder.path()) else { return };
    if !is_there("pkg-config") {
        return;
    }
    assert_eq!(pkg_config(&prefix, &["--modversion"]), [env!("CARGO_PKG_VERSION")]);
    let flags = pkg_config(&prefix, &["--cflags", "--libs"]);
    let page = |language: &str, includes: &str| {
        // The other code blocks of the page continue the first one.
        let source = folder.path().join(format!("page.{language}"));
        std::fs::write(&source, includes.to_owned() + &fences(language).concat()).unwrap();
        source
    };
    let examples = Path::new(FOLDER).join("examples");
    let programs = [
        ("cc", "-std=c11", page("c", "")),
        ("c++", "-std=c++17", page("cpp", "#include <algorithm>\n#include <stdexcept>\n#include <string>\n")),
        ("cc", "-std=c11", examples.join("inventory.c")),
        ("c++", "-std=c++17", examples.join("daemon.cpp")),
        ("cc", "-std=c11", Path::new(FOLDER).join("tests/c/everything.c")),
    ];
    let programs = programs.map(|(compiler, standard, source)| {
        let program = folder.path().join(source.file_stem().unwrap()).with_extension(compiler);
        let mut command = Command::new(compiler);
        command.args([standard, "-Wall", "-Wextra", "-Wno-unused-function", "-Werror", "-pthread"]);
        output_of(command.arg(&source).args(&flags).arg("-o").arg(&program));
        program
    });
    let run = |program: &Path, arguments: &[&str]| {
        output_of(with_prefix(&prefix, program).args(arguments).current_dir(folder.path()))
    };
    assert_eq!(run(&programs[0], &[]), "ann was here\n");
    assert_eq!(run(&programs[1], &[]), "ann was here\n");
    assert_eq!(run(&programs[2], &["inventory.db"]), "pears 7\nplums 40\n2 articles\n");
    assert_eq!(run(&programs[4], &["once", "everything.db"]), "all is well\n");
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn cmake_finds_what_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(prefix) = install(folder.path()) else { return };
    if !is_there("cmake") {
        return;
    }
    // An installation can be moved as a whole.
    let moved = folder.path().join("moved");
    std::fs::rename(&prefix, &moved).unwrap();
    let configure = |request: &str| {
        let project = folder.path().join(format!("project{request}"));
        write_project(&project, "CMakeLists.txt", "cmake");
        let list = std::fs::read_to_string(project.join("CMakeLists.txt")).unwrap();
        let changed =
            list.replace("find_package(strandline 0.1 ", &format!("find_package(strandline {request} "));
        assert!(changed != list || request == "0.1");
        std::fs::write(project.join("CMakeLists.txt"), changed).unwrap();
        let build = project.join("build");
        (with_prefix(&moved, "cmake").arg("-B").arg(&build).arg(&project).output().unwrap(), build)
    };
    let this = env!("CARGO_PKG_VERSION");
    for version in ["0.2", "1.0", "0.1.99", "0.10"] {
        let (refused, _) = configure(version);
        let errors = String::from_utf8_lossy(&refused.stderr);
        let found = format!("version: {this}");
        assert!(!refused.status.success() && errors.contains(&found), "{version}: {errors}");
    }
    for version in ["", this] {
        let (accepted, _) = configure(version);
        assert!(accepted.status.success(), "{version}: {accepted:?}");
    }
    let (accepted, build) = configure("0.1");
    assert!(accepted.status.success(), "{accepted:?}");
    output_of(with_prefix(&moved, "cmake").arg("--build").arg(&build));
    run_project(&moved, &build);
    let needs = |program| run(Path::new("objdump"), &["-p", build.join(program).to_str().unwrap()]);
    assert!(
        needs("visits").contains("libstrandline.so.0.1") && !needs("visits-cpp").contains("libstrandline")
    );
}

#[test]
fn meson_finds_what_is_installed() {
    let folder = tempfile::tempdir().unwrap();
    let Some(prefix) = install(folder.path()) else { return };
    if !["meson", "ninja", "pkg-config"].into_iter().all(is_there) {
        return;
    }
    let project = folder.path().join("project");
    write_project(&project, "meson.build", "meson");
    let build = project.join("build");
    output_of(with_prefix(&prefix, "meson").arg("setup").arg(&build).arg(&project));
    output_of(with_prefix(&prefix, "meson").arg("compile").arg("-C").arg(&build));
    run_project(&prefix, &build);
    let needs = run(Path::new("objdump"), &["-p", build.join("visits-cpp").to_str().unwrap()]);
    assert!(!needs.contains("libstrandline"), "{needs}");
}
