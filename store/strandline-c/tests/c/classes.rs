//! Programs in C++ that use `strandline.hpp`.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::tools::{Language, compile_with_strandline, is_there, run};

/// Compiles and runs the program that uses all classes. Returns the program; `None` without a compiler.
fn classes(language: Language, folder: &Path) -> Option<PathBuf> {
    let program = compile_with_strandline("tests/c/classes.cpp", language, folder)?;
    let file = program.with_extension("db");
    assert_eq!(run(&program, &[file.to_str().unwrap()]), "all is well\n");
    Some(program)
}

#[test]
fn the_classes_do_what_the_header_says() {
    classes(Language::Cpp, tempfile::tempdir().unwrap().path());
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn the_classes_of_cpp20_do_and_leak_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = classes(Language::Cpp20, folder.path()) else { return };
    if is_there("valgrind") {
        let file = program.with_extension("valgrind");
        let checks =
            ["-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite,indirect"];
        let arguments = [program.to_str().unwrap(), file.to_str().unwrap()];
        let said = run(Path::new("valgrind"), &[checks.as_slice(), &arguments].concat());
        assert_eq!(said, "all is well\n");
    }
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn the_tasks_of_a_first_week_are_done() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile_with_strandline("tests/c/first_week.cpp", Language::Cpp, folder.path())
    else {
        return;
    };
    assert_eq!(run(&program, &[folder.path().to_str().unwrap()]), "all is well\n");
}

/// A running daemon and its output.
struct Daemon {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Daemon {
    fn start(program: &Path, file: &Path) -> Self {
        let mut child = Command::new(program).arg(file).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the number in the next line, which begins and ends with these words.
    fn next(&mut self, begin: &str, end: &str) -> u64 {
        let line = self.lines.next().unwrap().unwrap();
        let number = line.strip_prefix(begin).and_then(|rest| rest.strip_suffix(end));
        number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{line}"))
    }

    /// Waits for a few snapshots. Asserts that none has fewer events than the one before it.
    fn watch(&mut self, mut events: u64) -> u64 {
        let begin = events;
        for _ in 0..3 {
            let next = self.next("snapshot of ", " events");
            assert!(next >= events, "{next} after {events}");
            events = next;
        }
        assert!(events > begin, "nothing was counted");
        events
    }

    /// Ends the daemon with a signal. Returns how many events it has counted.
    fn stop(mut self, signal: &str) -> u64 {
        run(Path::new("kill"), &[signal, &self.child.id().to_string()]);
        let mut closed = None;
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            let number = line.strip_prefix("closed with ").and_then(|rest| rest.strip_suffix(" events"));
            assert!(closed.is_none() && (number.is_some() || line.starts_with("snapshot of ")), "{line}");
            closed = number.map(|number| number.parse().unwrap());
        }
        assert!(self.child.wait().unwrap().success());
        closed.unwrap()
    }
}

#[test]
fn the_daemon_goes_on_from_what_it_had_counted() {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compile_with_strandline("examples/daemon.cpp", Language::Cpp, folder.path()) else {
        return;
    };
    let file = folder.path().join("events.db");
    let mut counted = 0;
    for signal in ["-TERM", "-INT"] {
        let mut daemon = Daemon::start(&program, &file);
        assert_eq!(daemon.next("opened with ", " events"), counted);
        let seen = daemon.watch(counted);
        counted = daemon.stop(signal);
        assert!(counted >= seen, "{counted} after {seen}");
    }
    // Events that a killed daemon has shown must still be there.
    let mut daemon = Daemon::start(&program, &file);
    assert_eq!(daemon.next("opened with ", " events"), counted);
    let seen = daemon.watch(counted);
    daemon.child.kill().unwrap();
    daemon.child.wait().unwrap();
    let mut daemon = Daemon::start(&program, &file);
    assert!(daemon.next("opened with ", " events") >= seen);
    daemon.stop("-TERM");
}
