//! Processes that use the same files at the same time.

use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use strandline_core::Domain;

use super::child::Process;
use super::trace::{Stop, Traced, concerns_others};
use super::{Bounds, Failures, How, cases, holds, leaves_nothing, names, pool_in, quick_folder, random};

/// Checks that the processes reported no errors, and that the pool has everything that they acknowledged.
fn judge(path: &Path, domain: Domain, said: &[Vec<String>]) -> Result<(), String> {
    let mut bounds = Bounds { made: true, ..Bounds::default() };
    for mark in said.iter().flatten() {
        if mark.starts_with("error") {
            return Err(format!("{mark}; all: {said:?}"));
        }
        if mark.starts_with("ack") {
            bounds.least.extend(super::child::counts(mark));
        }
    }
    bounds.most.clone_from(&bounds.least);
    if bounds.least.is_empty() {
        return Err(format!("nobody has done anything: {said:?}"));
    }
    holds(path, domain, How::Open, &bounds)?;
    Ok(())
}

/// Returns the commands of one process: it opens or creates the pool, runs a transaction of its own, and closes it.
fn turn(path: &Path, domain: Domain, key: usize) -> String {
    format!("domain {}; open_or_create {}; update {key} 1; close", domain.name(), path.display())
}

#[test]
fn races_to_create() {
    let mut random = random("races");
    let mut failures = Failures::new("races");
    // In one folder flushes take no time, and in the other they take most of it.
    let folders = [quick_folder(), tempfile::tempdir().unwrap()];
    let mut processes: Vec<Process> = (0..3).map(|_| Process::start(folders[0].path())).collect();
    for round in 0..cases(15) {
        let domain = *random.choice(&[Domain::Sync, Domain::Process]).unwrap();
        let count = random.usize(2..=3);
        let place = random.choice(&folders).unwrap().path().join(format!("{round}"));
        std::fs::create_dir(&place).unwrap();
        let path = pool_in(&place);
        random.shuffle(&mut processes);
        let mut said = Vec::new();
        let before = *random.choice(&["", "", "", "close", "kill"]).unwrap();
        if !before.is_empty() {
            let script = format!("domain {}; create {}; update 9 3; {before}", domain.name(), path.display());
            said.push(Process::run(&place, &script));
        }
        // The processes begin at the same time, up to a few calls.
        let time = SystemTime::now() + Duration::from_micros(400);
        for (key, process) in processes[..count].iter_mut().enumerate() {
            let time = time + Duration::from_micros(random.u64(..60));
            let nanoseconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_nanos();
            process.tell(&format!("at {nanoseconds}; {}", turn(&path, domain, key)));
        }
        let last = |mark: &str| mark.starts_with("done close") || mark.starts_with("error close");
        said.extend(processes[..count].iter_mut().map(|process| process.marks_until(last)));
        let mut result = judge(&path, domain, &said);
        if result.is_ok() {
            result = leaves_nothing(&path, domain);
        }
        failures.case(format!("{count} processes, {}, before that {before:?}", domain.name()), result);
        std::fs::remove_dir_all(&place).unwrap();
    }
    processes.into_iter().for_each(|process| drop(process.end()));
    failures.end();
}

/// The place where a process is held.
#[derive(Clone, Copy, Debug)]
enum Hold {
    /// Before the call with this number, of those that concern other processes.
    Call(usize),
    /// After it has opened or created the pool.
    Opened,
    /// It is not held.
    Never,
}

/// A report about a process.
enum News {
    /// It is held now.
    Held,
    /// It has found the pool locked.
    Locked,
    Ended,
}

/// A process that a thread of its own traces.
struct Held {
    news: Receiver<News>,
    go: Sender<()>,
    tracer: JoinHandle<(Vec<String>, usize)>,
}

impl Held {
    fn start(folder: &Path, script: &str, hold: Hold) -> Self {
        let (folder, script) = (folder.to_owned(), format!("begin; {script}"));
        let ((tell, news), (go, wait)) = (channel(), channel::<()>());
        let tracer = std::thread::spawn(move || {
            let mut traced = Traced::start(&folder, &script);
            let (mut marks, mut calls) = (Vec::<String>::new(), 0);
            let mut is_held = false;
            loop {
                match traced.next() {
                    Stop::Entry(call) => {
                        calls += usize::from(!marks.is_empty() && concerns_others(call.number));
                        is_held = is_held || {
                            let is_here = match hold {
                                Hold::Call(number) => calls == number,
                                Hold::Opened => marks.iter().any(|mark| mark.starts_with("opened")),
                                Hold::Never => false,
                            };
                            if is_here {
                                // If the test has failed, nothing receives this.
                                let _ = tell.send(News::Held);
                                let _ = wait.recv();
                            }
                            is_here
                        };
                        if let Some(mark) = traced.mark(&call) {
                            if mark == "locked" {
                                let _ = tell.send(News::Locked);
                            }
                            marks.push(mark);
                        }
                    }
                    Stop::Exit(..) => {}
                    Stop::Ended => break,
                }
            }
            let _ = tell.send(News::Ended);
            (marks, calls)
        });
        Self { news, go, tracer }
    }

    /// Returns the next report, or `None` if there is none for so long that the process must be waiting for the other one.
    fn listen(&self) -> Option<News> {
        self.news.recv_timeout(Duration::from_millis(100)).ok()
    }

    /// Lets the process run to its end, and returns its marks and the number of its calls.
    fn finish(self) -> (Vec<String>, usize) {
        let _ = self.go.send(());
        self.tracer.join().unwrap()
    }
}

/// Runs one process until it is held, and then another one until it is held or cannot continue. Then runs the first one as far as possible, and then
/// both to their ends. Returns their marks, if the first one was held at all, and the numbers of their calls.
fn hold(folder: &Path, scripts: &[String; 2], holds: [Hold; 2]) -> (Option<[Vec<String>; 2]>, [usize; 2]) {
    let first = Held::start(folder, &scripts[0], holds[0]);
    let is_held = matches!(first.news.recv(), Ok(News::Held));
    let second = Held::start(folder, &scripts[1], holds[1]);
    second.listen();
    let _ = first.go.send(());
    first.listen();
    let (said_second, calls_second) = second.finish();
    let (said_first, calls_first) = first.finish();
    (is_held.then_some([said_first, said_second]), [calls_first, calls_second])
}

/// In each domain, the other process is held after it has opened the pool, or not at all. The first is held at every eighth call, or at each call if
/// `STRANDLINE_CASES` is set.
#[test]
fn creation_beside_one_that_is_held_at_each_system_call() {
    let step = if std::env::var_os("STRANDLINE_CASES").is_some() { 1 } else { 8 };
    let at_each_call = |domain: Domain, other: Hold, first: usize| {
        let mut failures = Failures::new("creation beside one that is held");
        for call in (first..).step_by(step) {
            let folder = quick_folder();
            let path = pool_in(folder.path());
            let scripts = [turn(&path, domain, 1), turn(&path, domain, 2)];
            let (said, _) = hold(folder.path(), &scripts, [Hold::Call(call), other]);
            let Some(said) = said else { break };
            let mut result = judge(&path, domain, &said);
            if result.is_ok() {
                result = leaves_nothing(&path, domain);
            }
            failures.case(format!("{}, held at {call}, the other one {other:?}", domain.name()), result);
        }
        failures.end();
    };
    std::thread::scope(|scope| {
        // Each begins at another call.
        let all = [
            (Domain::Sync, Hold::Never),
            (Domain::Process, Hold::Opened),
            (Domain::Sync, Hold::Opened),
            (Domain::Process, Hold::Never),
        ];
        for (first, (domain, other)) in all.into_iter().enumerate() {
            scope.spawn(move || at_each_call(domain, other, 1 + first % step));
        }
    });
}

/// Holds two processes at any two of their system calls.
#[test]
fn creation_beside_another_both_held() {
    let (mut random, mut failures) = (random("both held"), Failures::new("both held"));
    let mut lengths = [[200; 2]; 2];
    for _ in 0..cases(15) {
        let domain = *random.choice(&[Domain::Sync, Domain::Process]).unwrap();
        let length = &mut lengths[usize::from(domain == Domain::Sync)];
        let folder = quick_folder();
        let path = pool_in(folder.path());
        let scripts = [turn(&path, domain, 1), turn(&path, domain, 2)];
        // Most of the interesting calls are early.
        let mut call =
            |length: usize| if random.bool() { random.usize(1..=length) } else { random.usize(1..=60) };
        let calls = [call(length[0]), call(length[1])];
        let (said, lived) = hold(folder.path(), &scripts, calls.map(Hold::Call));
        *length = lived;
        let Some(said) = said else { continue };
        let mut result = judge(&path, domain, &said);
        if result.is_ok() {
            result = leaves_nothing(&path, domain);
        }
        failures.case(format!("{}, held at {calls:?}", domain.name()), result);
    }
    failures.end();
}

/// A repair puts a new file in the place of the pool. A process that opens the pool before, during or after that must get the new file, or an error.
#[test]
fn opening_beside_a_repair_both_held() {
    use std::os::unix::fs::FileExt;
    let (mut random, mut failures) = (random("repair held"), Failures::new("repair held"));
    for _ in 0..cases(15) {
        let domain = *random.choice(&[Domain::Sync, Domain::Process]).unwrap();
        let folder = quick_folder();
        let path = pool_in(folder.path());
        let name = path.display();
        let script = format!("domain {}; create {name}; update 9 3; close", domain.name());
        let mut bounds = Bounds::default();
        Process::run(folder.path(), &script).iter().for_each(|mark| bounds.hear(mark));
        // Damage that prevents opening, and damage that only a check finds: in the header's magic number, or in a checkpoint slot.
        let damaged = *random.choice(&[0, 4096, 8192]).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().write_all_at(b"????", damaged).unwrap();
        let mut scripts = [turn(&path, domain, 1), format!("repair {name}")];
        if random.bool() {
            scripts.reverse();
        }
        let calls = [random.usize(1..=40), random.usize(1..=200)];
        let (said, _) = hold(folder.path(), &scripts, calls.map(Hold::Call));
        let acknowledged = said.iter().flatten().flatten().filter(|mark| mark.starts_with("ack"));
        bounds.least.extend(acknowledged.flat_map(|mark| super::child::counts(mark)));
        bounds.most.clone_from(&bounds.least);
        let result = super::repaired_or_repairable(&path, domain, &bounds, false);
        failures.case(format!("{}, damaged at {damaged}, held at {calls:?}", domain.name()), result);
    }
    failures.end();
}

/// A process that opens the pool while a repair is held near its end, where the new pool replaces the old one, waits for the repair, or its changes
/// are kept.
#[test]
fn opening_beside_a_repair_that_is_held_at_each_of_its_last_system_calls() {
    use std::os::unix::fs::FileExt;
    let mut failures = Failures::new("opening beside a repair that is held");
    let mut at = |held: Hold| {
        let folder = quick_folder();
        let path = pool_in(folder.path());
        let script = format!("domain sync; create {}; update 9 3; close", path.display());
        let mut bounds = Bounds::default();
        Process::run(folder.path(), &script).iter().for_each(|mark| bounds.hear(mark));
        std::fs::File::options().write(true).open(&path).unwrap().write_all_at(b"????", 0).unwrap();
        let scripts = [format!("repair {}", path.display()), turn(&path, Domain::Sync, 1)];
        let (said, [calls, _]) = hold(folder.path(), &scripts, [held, Hold::Never]);
        if let Some(said) = said {
            let acknowledged = said.iter().flatten().filter(|mark| mark.starts_with("ack"));
            bounds.least.extend(acknowledged.flat_map(|mark| super::child::counts(mark)));
            bounds.most.clone_from(&bounds.least);
            let result = super::repaired_or_repairable(&path, Domain::Sync, &bounds, false);
            failures.case(format!("{held:?} of {calls}"), result);
        }
        calls
    };
    let calls = at(Hold::Never);
    for call in calls.saturating_sub(40).max(1)..=calls {
        at(Hold::Call(call));
    }
    failures.end();
}

/// Two processes copy two pools to the same place. One of them succeeds, and the backup is a copy of its pool.
#[test]
fn races_of_backups_to_one_target() {
    let (mut random, mut failures) = (random("backups"), Failures::new("backups"));
    let folder = quick_folder();
    let mut processes: Vec<Process> = (0..2).map(|_| Process::start(folder.path())).collect();
    let domains = [Domain::Sync, *random.choice(&[Domain::Sync, Domain::Process]).unwrap()];
    for (key, process) in processes.iter_mut().enumerate() {
        let path = folder.path().join(format!("pool {key}").replace(' ', ""));
        process.tell(&format!("domain {}; create {}; update {key} 4", domains[key].name(), path.display()));
        let said = process.marks_until(|mark| mark.starts_with("done update"));
        assert!(!said.iter().any(|mark| mark.starts_with("error")), "{said:?}");
    }
    let before = names(folder.path());
    for _ in 0..cases(10) {
        let copy = folder.path().join("copy");
        processes.iter_mut().for_each(|process| process.tell(&format!("backup {}", copy.display())));
        let said: Vec<_> = processes.iter_mut().map(|process| process.next_mark().unwrap()).collect();
        let won: Vec<u64> = (0..2).filter(|&key| said[key as usize].starts_with("done")).collect();
        let result = match won[..] {
            [key] => {
                let whole = std::collections::BTreeMap::from([(key, 4)]);
                let bounds = Bounds { made: true, least: whole.clone(), most: whole, closed: true };
                holds(&copy, domains[key as usize], How::Open, &bounds).map(drop)
            }
            _ => Err(format!("not one has won: {said:?}")),
        };
        let _ = std::fs::remove_file(&copy);
        let _ = std::fs::remove_file(strandline_core::file::log_path(&copy));
        let now = names(folder.path());
        let left = if now == before { Ok(()) } else { Err(format!("files are left over: {now:?}")) };
        failures.case("backups", result.and(left));
        for name in now.iter().filter(|name| !before.contains(name)) {
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
    }
    failures.end();
}

/// Repairs run at the same time as processes that open the pool.
#[test]
fn races_of_repairs() {
    let (mut random, mut failures) = (random("repairs"), Failures::new("repairs"));
    let folder = quick_folder();
    let mut processes: Vec<Process> = (0..3).map(|_| Process::start(folder.path())).collect();
    for round in 0..cases(15) {
        let domain = *random.choice(&[Domain::Sync, Domain::Process]).unwrap();
        let place = folder.path().join(format!("{round}"));
        std::fs::create_dir(&place).unwrap();
        let path = pool_in(&place);
        let first = if random.bool() { "close" } else { "kill" };
        let script = format!("domain {}; create {}; update 0 5; {first}", domain.name(), path.display());
        let mut said = vec![Process::run(&place, &script)];
        let is_damaged = random.bool();
        if is_damaged {
            use std::os::unix::fs::FileExt;
            // The magic number.
            let file = std::fs::File::options().write(true).open(&path).unwrap();
            file.write_all_at(b"????", 0).unwrap();
        }
        let repairs = random.usize(1..=2);
        for (key, process) in processes.iter_mut().enumerate() {
            process.tell(&if key < repairs {
                format!("repair {}", path.display())
            } else {
                turn(&path, domain, key)
            });
        }
        let mut repaired = 0;
        for (key, process) in processes.iter_mut().enumerate() {
            let mut marks = process.marks_until(|mark| {
                mark.ends_with("close")
                    || mark.contains("error close")
                    || mark.contains(" repair ") && key < repairs
            });
            repaired += marks.iter().filter(|mark| mark.starts_with("done repair")).count();
            // A process that comes before the repair, or during it, may get an error that the pool is damaged, locked, or being repaired, but no
            // other error.
            if is_damaged {
                marks.retain(|mark| !mark.starts_with("error"));
            }
            said.push(marks);
        }
        let mut result = Ok(());
        if is_damaged && repaired == 0 {
            result = Err(format!("nobody has repaired it: {said:?}"));
        }
        let result = result.and_then(|()| judge(&path, domain, &said));
        failures.case(format!("{} {first}, damaged: {is_damaged}, {repairs} repairs", domain.name()), result);
        std::fs::remove_dir_all(&place).unwrap();
    }
    failures.end();
}
