//! Programs in C and C++ with planted bugs. The checker finds each bug and names its kind, and the change that it advises repairs the program. It
//! finds nothing in the programs without bugs, nor in those for libpmem and libpmemobj.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

use strandline_check::recorded::{Program, Report, Unchecked};
use strandline_check::{FindingKind, Setting, Verdict, Waste};

const FOLDER: &str = env!("CARGO_MANIFEST_DIR");

/// How a source is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Build {
    /// As C, with the header's macros for all operations.
    Marked,
    /// As C++, with the header's macros for all operations.
    Cpp,
    /// As C, with the header's macros only for flushes and fences.
    Plain,
    /// With libpmem, and without the header.
    Libpmem,
}

/// Returns whether this program is installed; if not, prints that the test is skipped.
fn is_there(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok_and(|ran| ran.status.success());
    if !is_there {
        eprintln!("skipped: there is no `{program}` on this machine");
    }
    is_there
}

/// Returns whether a library's header is installed; if not, prints that the test is skipped.
fn has_header(name: &str, package: &str) -> bool {
    let is_there = Path::new("/usr/include").join(name).exists();
    if !is_there {
        eprintln!("skipped: there is no {name} on this machine ({package})");
    }
    is_there
}

fn compile(source: &str, name: &str, flags: &[&str], libraries: &[&str], is_cpp: bool) -> Option<PathBuf> {
    let (variable, default, language) = match is_cpp {
        false => ("CC", "cc", ["-std=gnu11", "-xc"]),
        true => ("CXX", "c++", ["-std=c++17", "-xc++"]),
    };
    let compiler = std::env::var(variable).unwrap_or_else(|_| default.into());
    if !cfg!(target_os = "linux") || !is_there(&compiler) {
        return None;
    }
    static BUILT: OnceLock<tempfile::TempDir> = OnceLock::new();
    let program = BUILT.get_or_init(|| tempfile::tempdir().unwrap()).path().join(name);
    let compiled = Command::new(compiler)
        .args(language)
        .args(["-g", "-O1", "-Wall", "-Wextra", "-Wshadow", "-Werror", "-I"])
        .arg(format!("{FOLDER}/include"))
        .args(flags)
        .arg(Path::new(FOLDER).join("tests/c").join(source))
        .args(["-xnone", "-o"])
        .arg(&program)
        .args(libraries)
        .output()
        .unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Some(program)
}

/// Compiles the bank for `test`. Returns `None` if it cannot be compiled.
fn bank(build: Build, test: &str) -> Option<PathBuf> {
    let name = format!("bank-{build:?}-{test}");
    match build {
        Build::Marked => compile("bank.c", &name, &["-DSTRANDLINE_CHECK", "-DMARKED"], &[], false),
        Build::Cpp => compile("bank.c", &name, &["-DSTRANDLINE_CHECK", "-DMARKED"], &[], true),
        Build::Plain if !cfg!(target_arch = "x86_64") => None,
        Build::Plain => compile("bank.c", &name, &["-DSTRANDLINE_CHECK"], &[], false),
        Build::Libpmem if !cfg!(target_arch = "x86_64") || !has_header("libpmem.h", "libpmem-dev") => None,
        Build::Libpmem => compile("bank.c", &name, &["-DLIBPMEM"], &["-lpmem"], false),
    }
}

/// Returns a program with these commands; each command gets the pool's path as its last argument.
fn program(run: &[&str], set_up: &[&str], recover: &[&str], check: &[&str]) -> (tempfile::TempDir, Program) {
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let command = |arguments: &[&str]| arguments.iter().chain(&["{pool}"]).map(Into::into).collect();
    let some = |arguments: &[&str]| (!arguments.is_empty()).then(|| command(arguments));
    let mut program = Program::new(command(run), recorder(), folder.path());
    (program.set_up, program.recover, program.check) = (some(set_up), some(recover), some(check));
    program.limit = Duration::from_secs(120);
    (folder, program)
}

/// Returns the path of the library beside this test's binary.
fn recorder() -> PathBuf {
    let library = std::env::current_exe().unwrap().with_file_name("libstrandline_check_c.so");
    assert!(library.exists(), "{} is not there", library.display());
    library
}

fn bank_with(bank: &Path, bug: &str) -> (tempfile::TempDir, Program) {
    let bank = bank.to_str().unwrap();
    program(&[bank, bug, "run"], &[bank, bug, "make"], &[bank, bug, "recover"], &[bank, bug, "check"])
}

fn check(bank: &Path, bug: &str) -> Report {
    let (_folder, program) = bank_with(bank, bug);
    program.check().unwrap_or_else(|why| panic!("{bug}: {why}"))
}

/// Returns the number of the line that contains `text`.
fn line_of(source: &str, text: &str) -> u32 {
    let source = std::fs::read_to_string(format!("{FOLDER}/tests/c/{source}")).unwrap();
    source.lines().position(|line| line.contains(text)).unwrap() as u32 + 1
}

fn is_clean(report: &Report, what: &str) {
    let outcome = &report.outcome;
    assert!(outcome.finding.is_none(), "{what}: {}", outcome.finding.as_ref().unwrap());
    let is_about_the_check = |note: &String| note.starts_with("the check does not notice");
    assert!(
        outcome.is_complete() && report.outcome.notes.iter().all(is_about_the_check),
        "{what}: {:?} {:?}",
        outcome.counts,
        report.outcome.notes
    );
    assert!(outcome.counts.states + outcome.counts.equal_states > 50, "{what}: {:?}", outcome.counts);
}

#[test]
fn the_program_without_a_bug_is_clean() {
    for build in [Build::Marked, Build::Cpp, Build::Plain, Build::Libpmem] {
        let Some(bank) = bank(build, "clean") else { continue };
        let report = check(&bank, "none");
        is_clean(&report, &format!("{build:?}"));
        assert!(
            report.outcome.counts.recovery_points > 0,
            "power fails in recovery: {:?}",
            report.outcome.counts
        );
        let wasted: Vec<_> = report.outcome.performance.iter().filter(|one| one.is_always()).collect();
        assert!(wasted.is_empty(), "{build:?}: {wasted:?}");
    }
}

/// A bug, the kind of its finding, and the advice if there is one: the text of the line to insert after, and whether to insert a flush or a fence.
type Planted = (&'static str, FindingKind, Option<(&'static str, bool, bool)>);

const COPY: &str = "COPY(place, &made, sizeof *place);";

const PLANTED: [Planted; 12] = [
    ("missing-flush", FindingKind::MissingFlush, Some((COPY, true, false))),
    ("missing-line", FindingKind::MissingFlush, Some((COPY, true, false))),
    ("wrong-line", FindingKind::MissingFlush, Some((COPY, true, false))),
    ("flush-before-store", FindingKind::MissingFlush, Some((COPY, true, false))),
    ("missing-fence", FindingKind::MissingFence, Some(("    FLUSH(place, sizeof *place);", false, true))),
    ("wrong-order", FindingKind::WrongOrder, None),
    (
        "unflushed-journal",
        FindingKind::MissingFlush,
        Some(("STORE(&pool->journal.is_valid, 1);", true, false)),
    ),
    (
        "half-transfer",
        FindingKind::MissingFlush,
        Some(("STORE(&pool->second, pool->second + amount);", true, false)),
    ),
    ("failing-recovery", FindingKind::FailingRecovery, None),
    ("endless-recovery", FindingKind::FailingRecovery, None),
    ("recovery-order", FindingKind::NonIdempotentRecovery, None),
    ("recovery-flush", FindingKind::UnflushedRecovery, None),
];

/// Each bug is found, and the advice is correct: the checker has tried it on the recording (`repairs`).
fn all_are_found(build: Build) {
    let Some(bank) = bank(build, "planted") else { return };
    for (bug, kind, advice) in PLANTED {
        let (_folder, mut program) = bank_with(&bank, bug);
        program.process_limit = Duration::from_secs(if bug == "endless-recovery" { 1 } else { 10 });
        let report = program.check().unwrap();
        let finding = report.outcome.finding.unwrap_or_else(|| panic!("{build:?}, {bug}: nothing is found"));
        assert_eq!(finding.kind, kind, "{build:?}, {bug}: {finding}");
        assert!(
            !finding.history.is_empty() && finding.history.iter().any(|line| line.contains("bank.c:")),
            "{finding}"
        );
        assert!(report.image.is_some(), "{bug}");
        let Some((text, flush, fence)) = advice else { continue };
        let found =
            finding.advice.as_ref().unwrap_or_else(|| panic!("{build:?}, {bug}: no advice: {finding}"));
        let expected = (line_of("bank.c", text), flush, fence, true);
        assert_eq!(
            (found.behind.line(), found.flush, found.fence, found.repairs),
            expected,
            "{build:?}, {bug}: {finding}"
        );
        assert!(found.behind.file().ends_with("bank.c"), "{finding}");
    }
}

#[test]
fn planted_bugs_are_found() {
    all_are_found(Build::Marked);
}

#[test]
fn planted_bugs_are_found_though_only_flushes_and_fences_are_marked() {
    all_are_found(Build::Plain);
}

#[test]
fn planted_bugs_are_found_in_a_program_for_libpmem() {
    all_are_found(Build::Libpmem);
}

#[test]
fn what_is_acknowledged_too_early_is_found() {
    for build in [Build::Marked, Build::Plain] {
        let Some(bank) = bank(build, "early") else { return };
        let finding = check(&bank, "early-acknowledgement").outcome.finding.unwrap();
        assert_eq!(finding.kind, FindingKind::WrongOrder, "{finding}");
        assert_eq!(finding.what, "an acknowledged record is lost (the check ended with exit code 1)");
        assert!(finding.advice.unwrap().repairs);
    }
}

#[test]
fn a_store_of_two_words_is_torn() {
    let Some(bank) = bank(Build::Marked, "torn") else { return };
    let finding = check(&bank, "torn-store").outcome.finding.unwrap();
    assert_eq!(
        (finding.kind, finding.what.as_str()),
        (FindingKind::TornValue, "the pair is torn (the check ended with exit code 1)"),
        "{finding}"
    );
    assert_eq!(finding.lost, ["pair+0x8: 0x0 survived, not 0x7"]);
    // A journal on one line relies on the order of stores to that line, which x86 keeps.
    let (_folder, mut program) = bank_with(&bank, "unordered-journal");
    is_clean(&program.check().unwrap(), "line");
    program.setting = Setting::Word;
    let finding = program.check().unwrap().outcome.finding.unwrap();
    assert_eq!(finding.kind, FindingKind::TornValue, "{finding}");
}

#[test]
fn what_is_for_nothing_is_told() {
    let Some(bank) = bank(Build::Marked, "waste") else { return };
    let planted = [
        ("redundant-flush", Waste::Redundant, "has(\"redundant-flush\")"),
        ("clean-flush", Waste::Clean, "has(\"clean-flush\")"),
        ("idle-fence", Waste::NothingPending, "has(\"idle-fence\")"),
    ];
    for (bug, waste, text) in planted {
        let report = check(&bank, bug);
        is_clean(&report, bug);
        let wasted: Vec<_> = report.outcome.performance.iter().filter(|one| one.is_always()).collect();
        let found: Vec<_> = wasted.iter().map(|one| (one.waste, one.site.at.line())).collect();
        assert_eq!(found, [(waste, line_of("bank.c", text))], "{bug}");
    }
}

#[test]
fn what_ends_a_program_is_found() {
    let Some(bank) = bank(Build::Marked, "ends") else { return };
    let planted = [
        ("store-outside", FindingKind::StoreOutside, "outside the pool"),
        ("flush-outside", FindingKind::StoreOutside, "a flush of 8 bytes is outside the pool"),
        ("null", FindingKind::Panic, "an access to memory that is not there"),
        ("endless", FindingKind::Deadlock, "has not ended after 1 s"),
    ];
    for (bug, kind, what) in planted {
        let (_folder, mut program) = bank_with(&bank, bug);
        program.process_limit = Duration::from_secs(1);
        let finding = program.check().unwrap().outcome.finding.unwrap();
        assert_eq!(finding.kind, kind, "{finding}");
        // The memory after the pool may be mapped or not.
        assert!(
            finding.what.contains(what) || finding.what.contains("a store behind the end of the pool"),
            "{finding}"
        );
    }
}

#[test]
fn a_finding_is_replayed() {
    let Some(bank) = bank(Build::Marked, "replay") else { return };
    let (_folder, program) = bank_with(&bank, "recovery-order");
    let report = program.check().unwrap();
    let (finding, image) = (report.outcome.finding.unwrap(), report.image.unwrap());
    let again = program.replay(&finding.replay).unwrap();
    let found = again.outcome.finding.unwrap();
    assert_eq!((found.kind, found.lost, found.what), (finding.kind, finding.lost, finding.what));
    assert_eq!(again.image.unwrap(), image);
    // The image alone shows the bug, without the checker.
    let (folder, bank) = (tempfile::tempdir().unwrap(), bank.to_str().unwrap());
    let pool = folder.path().join("pool");
    std::fs::write(&pool, image).unwrap();
    let run = |what| Command::new(bank).args(["recovery-order", what]).arg(&pool).output().unwrap();
    assert!(run("recover").status.success());
    let checked = run("check");
    assert_eq!((checked.status.code(), &*checked.stderr), (Some(1), &b"the sum is wrong\n"[..]));
    assert!(again.processes < 40, "{}", again.processes);
    // The program without the bug does not produce that image.
    let (_folder, repaired) = bank_with(Path::new(bank), "none");
    assert!(repaired.replay(&finding.replay).unwrap().outcome.finding.is_none());
    assert!(matches!(program.replay("nonsense"), Err(Unchecked::Usage(_))));
}

#[test]
fn what_was_not_seen_is_told() {
    let Some(bank) = bank(Build::Marked, "unseen") else { return };
    let (_folder, mut program) = bank_with(&bank, "unmarked-store");
    program.only_marked = true;
    let report = program.check().unwrap();
    let is_told = |note: &String| note.starts_with("2 words of the pool have changed without being seen");
    assert!(report.outcome.notes.iter().any(is_told), "{:?}", report.outcome.notes);
    program.only_marked = !cfg!(target_arch = "x86_64");
    assert_eq!(program.check().unwrap().outcome.notes.iter().any(is_told), program.only_marked);
}

/// Compiles the list that uses intrinsics. The header is included by the source, or by a compiler option.
fn intrinsics(name: &str, with_header: bool) -> Option<PathBuf> {
    if !cfg!(target_arch = "x86_64") {
        eprintln!("skipped: the intrinsics are x86-64's");
        return None;
    }
    let flags = ["-include", "strandline_check.h", "-DSTRANDLINE_CHECK"];
    compile("intrinsics.c", name, if with_header { &flags } else { &[] }, &[], false)
}

fn intrinsics_with(list: &Path, bug: &str) -> (tempfile::TempDir, Program) {
    let list = list.to_str().unwrap();
    program(&[list, bug, "run"], &[], &[], &[list, bug, "check"])
}

#[test]
fn intrinsics_are_hinted_at_without_the_header_and_recorded_with_it() {
    let Some(without) = intrinsics("intrinsics-without", false) else { return };
    let report = intrinsics_with(&without, "none").1.check().unwrap();
    let hint = &report.outcome.notes[0];
    assert!(
        hint.starts_with(
            "no flush and no fence was recorded in the whole run, so every store counts as not flushed"
        ),
        "{hint}"
    );
    assert!(
        hint.contains("the program has 5 flush and fence instructions that are not recorded: clflush ("),
        "{hint}"
    );
    let line = line_of("intrinsics.c", "_mm_clflush(&list->elements");
    assert!(hint.contains(&format!("intrinsics.c:{line})")), "{hint}");
    assert!(hint.contains("`-include strandline_check.h -DSTRANDLINE_CHECK`"), "{hint}");
    assert_eq!(report.outcome.finding.unwrap().kind, FindingKind::MissingFlush);

    let with = intrinsics("intrinsics-with", true).unwrap();
    let report = intrinsics_with(&with, "none").1.check().unwrap();
    assert!(report.outcome.finding.is_none() && report.outcome.is_complete(), "{report:?}");
    // The check runs once for each image: states with an image that was checked before are counted apart.
    let counts = report.outcome.counts;
    assert_eq!(counts.states + counts.equal_states, counts.possible, "{counts:?}");
    assert!(
        counts.equal_states > 0 && counts.states <= report.processes,
        "{counts:?}, {} ran",
        report.processes
    );
    assert!(
        !report.outcome.notes.iter().any(|note| note.contains("not recorded")),
        "{:?}",
        report.outcome.notes
    );
    let planted = [
        ("missing-flush", FindingKind::MissingFlush, "list->elements[length] = element;"),
        ("stored-sum", FindingKind::MissingFlush, "list->sums[length] = (long long)~element;"),
        ("missing-fence", FindingKind::MissingFence, ""),
    ];
    for (bug, kind, text) in planted {
        let report = intrinsics_with(&with, bug).1.check().unwrap();
        let finding = report.outcome.finding.unwrap_or_else(|| panic!("{bug}: nothing is found"));
        assert_eq!(finding.kind, kind, "{bug}: {finding}");
        let advice = finding.advice.as_ref().unwrap_or_else(|| panic!("{bug}: {finding}"));
        assert!(
            advice.repairs && (text.is_empty() || advice.behind.line() == line_of("intrinsics.c", text)),
            "{finding}"
        );
    }
}

/// A run in which the checker could not find anything is refused, with advice.
#[test]
fn a_run_without_a_store_is_refused() {
    let Some(list) = intrinsics("intrinsics-idle", true) else { return };
    let refused = |bug: &str, change: &dyn Fn(&mut Program)| {
        let (_folder, mut program) = intrinsics_with(&list, bug);
        change(&mut program);
        match program.check() {
            Err(Unchecked::Usage(why)) => why,
            other => panic!("{bug}: {other:?}"),
        }
    };
    let idle = refused("idle", &|_| ());
    assert!(idle.contains("no store of ") && idle.contains("give a command that changes it"), "{idle}");
    let private = refused("private", &|_| ());
    assert!(private.contains("has recorded nothing") && private.contains("use MAP_SHARED"), "{private}");
    assert!(private.contains("the recorder was loaded into "), "{private}");
    let Some(bank) = bank(Build::Plain, "no-store") else { return };
    let (_folder, mut marked) = bank_with(&bank, "none");
    marked.only_marked = true;
    let unseen = marked.check().unwrap_err().to_string();
    assert!(unseen.contains("though the pool has changed: leave out --only-marked"), "{unseen}");
    if is_there("valgrind") {
        let valgrind = refused("none", &|program| {
            program.run.insert(0, "valgrind".into());
            // Plain instructions make its stores, except for the streaming ones.
            program.run[2] = "stored-sum".into();
        });
        assert!(
            valgrind.contains("run it without valgrind, or check the log of valgrind's tool pmemcheck"),
            "{valgrind}"
        );
    }
}

/// The checker tries the user's check and recovery commands before it explores, and reports their mistakes.
#[test]
fn the_commands_are_tried_first() {
    let Some(bank) = bank(Build::Marked, "commands") else { return };
    for (bug, what) in [
        (
            "refusing-check",
            "the check refuses the finished run, without a power failure: there are records (the check ended with exit code 1)",
        ),
        (
            "refusing-recovery",
            "recovery refuses the finished run, without a power failure: recovery ends with exit code 5",
        ),
    ] {
        let (_folder, program) = bank_with(&bank, bug);
        let report = program.check().unwrap();
        let finding = report.outcome.finding.unwrap();
        assert_eq!((finding.kind, finding.what.as_str()), (FindingKind::WrongResult, what), "{finding}");
        assert!(report.outcome.counts.states == 0 && report.processes <= 2, "{}", report.processes);
        // The image is the pool after the finished run.
        let image = report.image.unwrap();
        assert_eq!(image[..8], 2u64.to_le_bytes());
        let again = program.replay(&finding.replay).unwrap().outcome.finding.unwrap();
        assert_eq!(again.what, finding.what);
    }
    let report = check(&bank, "none");
    // Once spoiled, the journal is either invalid, or recovery applies it, which does no harm then.
    let journal =
        "the check does not notice a spoiled word in 1 of 5 objects: journal; their loss alone is not found";
    assert_eq!(report.outcome.notes, [journal]);
    let notes = check(&bank, "blind-check").outcome.notes;
    assert!(
        notes[0].starts_with(
            "the check does not notice a spoiled word in 3 of 5 objects: first, second, journal"
        ),
        "{notes:?}"
    );
    let (_folder, mut blind) = bank_with(&bank, "none");
    blind.check = Some(vec!["true".into()]);
    let notes = blind.check().unwrap().outcome.notes;
    assert!(
        notes[0].starts_with("the check does not notice a spoiled word in 5 of 5 objects: "),
        "{notes:?}"
    );
    assert!(notes[1].starts_with("the check accepts an empty pool of the same size"), "{notes:?}");
    // Without labels, adjacent words count as objects.
    let Some(plain) = self::bank(Build::Libpmem, "commands") else { return };
    let notes = check(&plain, "none").outcome.notes;
    assert!(
        notes[0].starts_with("the check does not notice a spoiled word in 1 of ")
            && notes[0].contains("bank.c:"),
        "{notes:?}"
    );
}

/// The checker explores recordings instead of a run: the recorder's own, and a log that pmemcheck could have written.
#[test]
fn recordings_made_elsewhere_are_explored() {
    let Some(list) = intrinsics("intrinsics-recording", true) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (pool, own) = (folder.path().join("pool"), folder.path().join("own"));
    for (bug, is_found) in [("none", false), ("missing-flush", true)] {
        for file in [&pool, &own] {
            let _ = std::fs::remove_file(file);
        }
        let ran = Command::new(&list)
            .args([bug, "run"])
            .arg(&pool)
            .env("LD_PRELOAD", recorder())
            .env("STRANDLINE_RECORDING", &own)
            .env("STRANDLINE_POOL", &pool)
            .env("STRANDLINE_PLACES", "1")
            .status();
        assert!(ran.unwrap().success());
        let (_folder, mut program) = intrinsics_with(&list, bug);
        (program.run, program.recording) = (Vec::new(), Some(own.clone()));
        let report = program.check().unwrap();
        assert_eq!(report.outcome.finding.is_some(), is_found, "{report:?}");
        if let Some(finding) = report.outcome.finding {
            assert_eq!(finding.kind, FindingKind::MissingFlush, "{finding}");
            assert_eq!(program.replay(&finding.replay).unwrap().outcome.finding.unwrap().lost, finding.lost);
        }
    }

    // Appends as the list with intrinsics does; the list already has an element.
    let append = |number: u64, flush: &str| {
        let (element, sum, length) = (101 + number, !(101 + number), number + 1);
        let (at, at_sum) = (0x5000_0040 + 8 * number, 0x5000_0240 + 8 * number);
        format!(
            "append.BEGIN|STORE;{at:#x};{element:#x};0x8;0x4011: append (list.c:7);0x4020: main (list.c:20){flush}\
             |STORE;{at_sum:#x};{sum:#x};0x8|FLUSH;{at_sum:#x};0x40|FENCE\
             |STORE;0x50000000;{length:#x};0x8|FLUSH;0x50000000;0x40|FENCE|append.END|"
        )
    };
    let mut before = vec![0; 1088];
    before[..8].copy_from_slice(&1u64.to_le_bytes());
    before[64..72].copy_from_slice(&101u64.to_le_bytes());
    before[576..584].copy_from_slice(&(!101u64).to_le_bytes());
    let log = folder.path().join("store.log");
    let check = |appended: &str, with_pool: bool| {
        std::fs::write(&pool, &before).unwrap();
        let other = "REGISTER_FILE;/dev/shm/other;0x60000000;0x1000;0x0";
        let text = format!(
            "START|{other}|REGISTER_FILE;{};0x50000000;0x1000;0x0|STORE;0x60000000;0x1;0x1|{appended}STOP\n",
            pool.display()
        );
        std::fs::write(&log, text).unwrap();
        let (_folder, mut program) = intrinsics_with(&list, "none");
        (program.run, program.recording) = (Vec::new(), Some(log.clone()));
        program.pool = with_pool.then(|| pool.clone());
        program.check()
    };
    let report =
        check(&(append(1, "|FLUSH;0x50000048;0x40") + &append(2, "|FLUSH;0x50000050;0x40")), true).unwrap();
    assert!(report.outcome.finding.is_none() && report.outcome.is_complete(), "{report:?}");
    let counts = report.outcome.counts;
    assert!(report.operations == 16 && counts.states + counts.equal_states > 5, "{report:?}");
    let report = check(&(append(1, "|FLUSH;0x50000048;0x40") + &append(2, "")), true).unwrap();
    let finding = report.outcome.finding.unwrap();
    assert_eq!(finding.kind, FindingKind::MissingFlush, "{finding}");
    assert_eq!(
        finding.advice.as_ref().unwrap().to_string(),
        "behind list.c:7: flush its line (a fence that follows is there)"
    );
    assert!(finding.history.iter().any(|line| line.contains("store.log:18, \"append\")")), "{finding}");
    let several = check(&append(1, ""), false).unwrap_err().to_string();
    assert!(several.contains("several files (/dev/shm/other, "), "{several}");
    let nothing = check("", true).unwrap_err().to_string();
    assert!(nothing.contains("no store to the pool is recorded in "), "{nothing}");
}

/// The page's program yields the finding that the page shows.
#[test]
fn the_page_says_what_is_so() {
    let page = std::fs::read_to_string(format!("{FOLDER}/../../docs/checking-c-programs.md")).unwrap();
    let block =
        |language: &str| page.split(&format!("```{language}\n")).nth(1).unwrap().split("```").next().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("list.c");
    std::fs::write(&source, block("c")).unwrap();
    let build = |name: &str, flags: &[&str]| {
        let flags = [&["-DSTRANDLINE_CHECK"], flags].concat();
        compile(source.to_str().unwrap(), name, &flags, &[], false)
    };
    let (Some(good), Some(forgetful)) = (build("list", &[]), build("forgetful", &["-DFORGETFUL"])) else {
        return;
    };
    let check = |list: &Path| {
        let list = list.to_str().unwrap();
        let (_folder, program) = program(&[list, "run"], &[], &[], &[list, "check"]);
        program.check().unwrap()
    };
    let report = check(&good);
    assert!(report.outcome.finding.is_none() && report.outcome.is_complete(), "{report:?}");
    let finding = check(&forgetful).outcome.finding.unwrap();
    let said = format!("{}replay: --replay '{}'\n", finding.story(), finding.replay);
    let folder = format!("{}/", folder.path().display());
    assert_eq!(said.replace(&folder, ""), block("text"));
}

#[test]
fn wrong_use_is_told() {
    let Some(bank) = bank(Build::Marked, "use") else { return };
    let (_folder, good) = bank_with(&bank, "none");
    let refused = |change: &dyn Fn(&mut Program)| {
        let mut program = good.clone();
        change(&mut program);
        match program.check().map(|_| ()) {
            Err(why) => why.to_string(),
            Ok(()) => panic!("it is not refused"),
        }
    };
    let nothing = refused(&|program| program.run = vec!["true".into()]);
    assert!(
        nothing.contains("true has recorded nothing: it must be linked dynamically and map the pool"),
        "{nothing}"
    );
    let missing = refused(&|program| program.check = Some(vec!["/no/such/program".into()]));
    assert!(missing.starts_with("cannot run /no/such/program: "), "{missing}");
    let missing = refused(&|program| program.run = vec!["/no/such/program".into()]);
    assert!(missing.starts_with("cannot run /no/such/program: "), "{missing}");
    let none = refused(&|program| (program.recover, program.check) = (None, None));
    assert!(none.contains("give a command that recovers, or one that checks"), "{none}");
    let (_folder, fails) = bank_with(&bank, "exit");
    let why = fails.check().map(|_| ()).unwrap_err().to_string();
    assert!(why.contains("ends with exit code 4; what is checked must end with exit code 0"), "{why}");
    let set_up = refused(&|program| program.set_up = Some(vec!["false".into()]));
    assert_eq!(set_up, "the set-up ends with exit code 1");
}

#[test]
#[ignore = "a campaign, which `.ci/others --full` runs"]
fn a_program_for_libpmemobj_is_checked() {
    if !cfg!(target_arch = "x86_64") || !has_header("libpmemobj.h", "libpmemobj-dev") {
        return;
    }
    let Some(list) = compile("objects.c", "objects", &[], &["-lpmemobj"], false) else { return };
    let list = list.to_str().unwrap();
    for (bug, is_found) in [("none", false), ("without-add", true), ("without-persist", true)] {
        let (_folder, mut program) =
            program(&[list, bug, "run"], &[list, bug, "make"], &[], &[list, bug, "check"]);
        // The pool has 8 MiB, and libpmemobj leaves several lines unflushed, so there are more states than can be tried.
        program.limit = Duration::from_secs(if is_found { 120 } else { 5 });
        let report = program.check().unwrap();
        let finding = &report.outcome.finding;
        assert_eq!(finding.is_some(), is_found, "{bug}: {:?} {finding:?}", report.outcome.counts);
        let is_about_the_check = |note: &String| note.starts_with("the check ");
        assert!(report.outcome.notes.iter().all(is_about_the_check), "{bug}: {:?}", report.outcome.notes);
        if let Some(finding) = finding {
            assert!(finding.history.iter().any(|line| line.contains("objects.c:")), "{finding}");
        } else {
            assert_eq!(report.outcome.verdict(), Verdict::NothingFound, "{:?}", report.outcome.counts);
        }
    }
}
