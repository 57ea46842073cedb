//! Kills at each system call of a process, from the first one of a creation on.

use std::path::Path;

use strandline_core::Domain;
use strandline_core::file::log_path;

use super::child::{Counts, Process};
use super::trace::{Stop, Traced, changes_files};
use super::{
    Bounds, Failures, How, cases, holds, leaves_nothing, look, names, pool_in, quick_folder, random,
    repaired_or_repairable,
};

/// The system call at which a process is killed, counted from the first after the mark `begin`.
#[derive(Clone, Copy, Debug)]
struct At {
    call: usize,
    /// True for a kill before the call runs, false for one after it.
    before: bool,
    /// True if only calls are counted that may change files. A kill between two of them always has the same effect.
    changes: bool,
}

/// Runs `script` in `folder` and kills the process. Returns its marks, and the number of calls after the mark `begin`.
fn run_and_kill(folder: &Path, script: &str, at: Option<At>) -> (Vec<String>, usize) {
    let mut traced = Traced::start(folder, script);
    let (mut marks, mut calls, mut said) = (Vec::new(), 0, None);
    let mut counting = false;
    loop {
        match traced.next() {
            Stop::Entry(call) => {
                calls +=
                    usize::from(counting && (changes_files(call.number) || at.is_none_or(|at| !at.changes)));
                if at.is_some_and(|at| at.before && at.call == calls && counting) {
                    traced.kill();
                    return (marks, calls);
                }
                said = traced.mark(&call).or(said);
            }
            Stop::Exit(call, _) => {
                if call.number == libc::SYS_write
                    && call.arguments[0] == 2
                    && let Some(mark) = said.take()
                {
                    counting |= mark == "begin";
                    marks.push(mark);
                }
                if at.is_some_and(|at| !at.before && at.call == calls && counting) {
                    traced.kill();
                    return (marks, calls);
                }
            }
            Stop::Ended => return (marks, calls),
        }
    }
}

fn script(folder: &Path, domain: Domain) -> String {
    format!(
        "begin; domain {}; open_or_create {}; update 1 2; close",
        domain.name(),
        pool_in(folder).display()
    )
}

/// Opens the pool that the killed processes have left, and checks which other files they have left.
fn judge(folder: &Path, domain: Domain, lives: &[Vec<String>]) -> Result<(), String> {
    let mut bounds = Bounds::default();
    lives.iter().flatten().for_each(|mark| bounds.hear(mark));
    if let Some(error) = lives.iter().flatten().find(|mark| mark.starts_with("error")) {
        return Err(error.clone());
    }
    // Each life that did not report what it had opened may have one more transaction.
    for most in bounds.most.values_mut() {
        *most += lives.len() as u64;
    }
    bounds.most.entry(1).or_insert(lives.len() as u64);
    holds(&pool_in(folder), domain, How::OpenOrCreate, &bounds)?;
    leaves_nothing(&pool_in(folder), domain)
}

const BOTH: &[Domain] = &[Domain::Sync, Domain::Process];

/// Kills a process that runs `script` before and after each of its calls, or before each that may change files: before every third of these, unless
/// `STRANDLINE_CASES` is set. Each kill is in a new folder, which `prepare` fills.
fn at_each_call(
    test: &str,
    domains: &[Domain],
    changes: bool,
    prepare: impl Fn(&Path, Domain),
    script: impl Fn(&Path, Domain) -> String,
    judge: impl Fn(&Path, Domain, &[Vec<String>]) -> Result<(), String>,
) {
    let mut failures = Failures::new(test);
    let step = if std::env::var_os("STRANDLINE_CASES").is_some() { 1 } else { 3 };
    for (&domain, first) in domains.iter().zip(1..) {
        let first = if step == 1 { 1 } else { first };
        for before in if changes { vec![true] } else { vec![true, false] } {
            for call in (first..).step_by(step) {
                let folder = quick_folder();
                prepare(folder.path(), domain);
                let at = At { call, before, changes };
                let (marks, calls) = run_and_kill(folder.path(), &script(folder.path(), domain), Some(at));
                if calls < call {
                    break;
                }
                let when = if before { "before" } else { "after" };
                let result = judge(folder.path(), domain, &[marks]);
                failures.case(format!("{} killed {when} call {call}", domain.name()), result);
            }
        }
    }
    failures.end();
}

/// With `STRANDLINE_CASES` set, kills before and after all calls.
#[test]
fn kills_at_each_system_call_of_a_creation() {
    let changes = std::env::var_os("STRANDLINE_CASES").is_none();
    at_each_call("kills of a creation", BOTH, changes, |_, _| (), script, judge);
}

/// Creates a pool with this number of transactions.
fn create(folder: &Path, domain: Domain, transactions: u64, last: &str) -> Bounds {
    let path = pool_in(folder).display().to_string();
    let script = format!("domain {}; create {path}; update 1 {transactions}; {last}", domain.name());
    let mut bounds = Bounds::default();
    Process::run(folder, &script).iter().for_each(|mark| bounds.hear(mark));
    bounds.most.clone_from(&bounds.least);
    bounds
}

/// The backup is complete or does not exist. Another backup can be made, and leaves no file of the interrupted one.
#[test]
fn kills_at_each_system_call_of_a_backup() {
    let prepare = |folder: &Path, domain| drop(create(folder, domain, 5, "close"));
    let script = |folder: &Path, domain: Domain| {
        let (path, copy) = (pool_in(folder), folder.join("copy"));
        format!("domain {}; open {}; begin; backup {}", domain.name(), path.display(), copy.display())
    };
    let judge = |folder: &Path, domain, lives: &[Vec<String>]| {
        let all = [(1, 5)].into();
        let whole = Bounds { made: true, least: Counts::clone(&all), most: all, closed: true };
        let copy = folder.join("copy");
        let is_done = lives[0].iter().any(|mark| mark.starts_with("done backup"));
        if is_done || copy.exists() {
            holds(&copy, domain, How::Open, &whole).map_err(|error| format!("the backup: {error}"))?;
            std::fs::remove_file(&copy).unwrap();
            // Opening the copy may have given it a log.
            let _ = std::fs::remove_file(log_path(&copy));
        }
        let again = script(folder, domain);
        let marks = Process::run(folder, &format!("{again}; close"));
        if let Some(error) = marks.iter().find(|mark| mark.starts_with("error")) {
            return Err(format!("the next backup: {error}"));
        }
        let found = names(folder);
        if found.iter().any(|name| !["pool", "pool.log", "copy"].contains(&name.as_str())) {
            return Err(format!("files are left over: {found:?}"));
        }
        holds(&copy, domain, How::Open, &whole).map_err(|error| format!("the next backup: {error}"))?;
        holds(&pool_in(folder), domain, How::Open, &whole).map(drop)
    };
    at_each_call("kills of a backup", BOTH, true, prepare, script, judge);
}

/// The pool is as damaged as before and can be repaired, or it is complete.
#[test]
fn kills_at_each_system_call_of_a_repair() {
    let prepare = |folder: &Path, domain| {
        use std::os::unix::fs::FileExt;
        create(folder, domain, 5, "kill");
        // The magic number.
        let file = std::fs::File::options().write(true).open(pool_in(folder)).unwrap();
        file.write_all_at(b"????", 0).unwrap();
    };
    let script = |folder: &Path, domain: Domain| {
        format!("begin; domain {}; repair {}", domain.name(), pool_in(folder).display())
    };
    let judge = |folder: &Path, domain, lives: &[Vec<String>]| {
        let all = [(1, 5)].into();
        let whole = Bounds { made: true, least: Counts::clone(&all), most: all, closed: false };
        let is_done = lives[0].iter().any(|mark| mark.starts_with("repaired"));
        repaired_or_repairable(&pool_in(folder), domain, &whole, is_done)
    };
    at_each_call("kills of a repair", BOTH, true, prepare, script, judge);
}

/// The old pool is there, or the new one, or opening reports that the restore has to be run again, which then ends as if it had not been interrupted.
/// Each way to end and each way to restore is tested in each domain, but not all combinations of the two, unless `STRANDLINE_CASES` is set.
#[test]
fn kills_at_each_system_call_of_a_restore() {
    let (sync, process) = BOTH.split_at(1);
    for (last, how, domains) in [
        ("close", "", sync),
        ("kill", "", process),
        ("close", " replace", process),
        ("kill", " replace", sync),
    ] {
        let domains = if std::env::var_os("STRANDLINE_CASES").is_some() { BOTH } else { domains };
        let prepare = |folder: &Path, domain: Domain| {
            let path = pool_in(folder).display().to_string();
            let script = format!(
                "domain {}; create {path}; update 1 2; backup backup; update 1 3; {last}",
                domain.name()
            );
            let marks = Process::run(folder, &script);
            assert!(!marks.iter().any(|mark| mark.starts_with("error")), "{marks:?}");
        };
        let script = move |folder: &Path, domain: Domain| {
            format!("begin; domain {}; restore backup {}{how}", domain.name(), pool_in(folder).display())
        };
        let judge = |folder: &Path, domain: Domain, lives: &[Vec<String>]| {
            let count = |found: &Counts| found.get(&1).copied().unwrap_or(0);
            let pool = pool_in(folder);
            let is_done = lives[0].iter().any(|mark| mark.starts_with("done restore"));
            // The old pool is opened in a copy, since opening recovers it.
            let copy = quick_folder();
            for name in names(folder) {
                std::fs::copy(folder.join(&name), copy.path().join(&name)).unwrap();
            }
            let has_two_names = std::os::unix::fs::MetadataExt::nlink(&std::fs::metadata(&pool).unwrap()) > 1;
            match look(&pool_in(copy.path()), domain, How::Open)? {
                Ok(found) if count(&found) == 2 || !is_done && count(&found) == 5 => {}
                Ok(found) => return Err(format!("it holds {found:?}")),
                Err(error) if !is_done && error.to_string().contains("strandline pool restore") => {}
                Err(error) => return Err(format!("the error does not say what to do: {error}")),
            }
            if has_two_names {
                let error = look(&pool, domain, How::Open)?.err().map(|error| error.to_string());
                if !error.is_some_and(|error| error.contains("strandline pool restore")) {
                    return Err("a file with two names opens, or does not say what to do".into());
                }
            }
            let again = Process::run(folder, &script(folder, domain));
            let kept = folder.join("pool.replaced");
            match again.iter().find(|mark| mark.starts_with("error")) {
                // The new pool was in place already.
                Some(error) if error.contains("earlier restore") && how.is_empty() => {}
                Some(error) => return Err(format!("the next restore: {error}")),
                None => {}
            }
            let found = look(&pool, domain, How::Open)?.map_err(|error| format!("after all: {error}"))?;
            if count(&found) != 2 {
                return Err(format!("after all it holds {found:?}"));
            }
            if how.is_empty() {
                let found =
                    look(&kept, domain, How::Open)?.map_err(|error| format!("the old pool: {error}"))?;
                if count(&found) != 5 {
                    return Err(format!("the old pool holds {found:?}"));
                }
            }
            let expected =
                ["backup", "pool", "pool.log", "pool.replaced", "pool.replaced.log"].map(String::from);
            match names(folder).iter().find(|name| !expected.contains(name)) {
                Some(_) => Err(format!("files are left over: {:?}", names(folder))),
                None => Ok(()),
            }
        };
        at_each_call(&format!("kills of a restore, {last}{how}"), domains, true, prepare, script, judge);
    }
}

/// Runs up to three processes one after the other, and kills each at some call.
#[test]
fn kills_of_several_lives() {
    let (mut random, mut failures) = (random("kills"), Failures::new("kills"));
    let mut killed = 0;
    let mut lengths = [300; 2];
    while killed < cases(15) {
        let domain = *random.choice(&[Domain::Sync, Domain::Process]).unwrap();
        let length = &mut lengths[usize::from(domain == Domain::Sync)];
        let folder = quick_folder();
        let mut lives = Vec::new();
        let mut where_killed = Vec::new();
        for _ in 0..random.usize(1..=3) {
            // Half of the kills are where pools are created and recovered.
            let last = if random.bool() { 60.min(*length) } else { *length };
            let at = At { call: random.usize(1..=last), before: random.bool(), changes: false };
            let (marks, calls) = run_and_kill(folder.path(), &script(folder.path(), domain), Some(at));
            // The next kill is not after the end of the process.
            *length = if calls < at.call { calls } else { (*length).max(at.call + 5) };
            lives.push(marks);
            where_killed.push(at.call);
            killed += 1;
        }
        let result = judge(folder.path(), domain, &lives);
        failures.case(format!("{} killed at {where_killed:?}", domain.name()), result);
    }
    println!("{killed} kills");
    failures.end();
}
