//! Power failures: images that the medium may hold, made from recordings of real runs, are opened and read.

use std::collections::BTreeSet;
use std::path::Path;

use strandline_core::file::log_path;
use strandline_core::{Domain, Error};

use super::child::Process;
use super::image::{Disk, Image, write};
use super::journal::{Event, Fault, Faulty, Journal, Life, record};
use super::{
    Bounds, Failures, How, cases, holds, leaves_nothing, look, names, pool_in, quick_folder, random,
    repaired_or_repairable,
};

/// A run, and the content that the pool may have when it begins.
struct Run<'r> {
    journal: Journal,
    before: Bounds,
    domain: Domain,
    /// The commands that a process gets before it opens the pool.
    options: &'r str,
    /// The backups that the script makes.
    backups: &'r [&'r str],
    /// True if the pool is damaged when the run begins, and is repaired.
    is_repair: bool,
}

/// Returns whether an error reports that there is no pool yet.
fn is_absent(error: &Error) -> bool {
    match error {
        Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Opens an image, whose pool must be within `bounds`.
fn judge(
    image: &Image,
    folder: &Path,
    run: &Run,
    bounds: &Bounds,
    random: &mut fastrand::Rng,
) -> Result<(), String> {
    write(image, folder);
    let path = pool_in(folder);
    if bounds.made {
        let how = if random.bool() { How::Open } else { How::OpenOrCreate };
        holds(&path, run.domain, how, bounds)?;
    } else {
        if random.bool() {
            match look(&path, run.domain, How::Open)? {
                Ok(found) => bounds.admit(&found)?,
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(format!("open, before its creation was acknowledged: {error}")),
            }
        }
        holds(&path, run.domain, How::OpenOrCreate, bounds)?;
        // A creation without checksums does not look for checksum files of an earlier one.
        if random.u8(..4) == 0 && !run.options.contains("checksums") {
            leaves_nothing(&path, run.domain)?;
        }
    }
    Ok(())
}

/// Checks that each backup is complete or does not exist, and that it exists once it was acknowledged.
fn judge_backups(folder: &Path, run: &Run, heard: &[&str]) -> Result<(), String> {
    for backup in run.backups {
        let path = folder.join(backup);
        // The backup must have what had been acknowledged when it began, which is when the command before it ended.
        let done = heard.iter().position(|mark| mark.starts_with("done backup") && mark.ends_with(backup));
        match look(&path, run.domain, How::Open)? {
            Ok(found) => {
                let mut bounds = Bounds::default();
                let begun = done.unwrap_or(heard.len());
                heard[..begun].iter().for_each(|mark| bounds.hear(mark));
                bounds.admit(&found).map_err(|error| format!("{backup}: {error}"))?;
            }
            Err(error) if is_absent(&error) && done.is_none() => {}
            Err(error) => return Err(format!("{backup}: {error}")),
        }
    }
    Ok(())
}

impl Run<'_> {
    /// Returns the events before which a hole is not durable.
    fn times_of_holes(&self) -> Vec<usize> {
        let mut pending = BTreeSet::new();
        let mut times = Vec::new();
        for (at, event) in self.journal.events.iter().enumerate() {
            if !pending.is_empty() {
                times.push(at);
            }
            match event {
                Event::Punch { inode, .. } => drop(pending.insert(*inode)),
                Event::Flush(inode) => drop(pending.remove(inode)),
                _ => {}
            }
        }
        times
    }

    /// Draws `images` images from the whole run, and judges them. For `depth` levels, a recorded process opens some of them, and images of that are
    /// judged in turn.
    fn explore(&self, images: usize, depth: u32, random: &mut fastrand::Rng, failures: &mut Failures) {
        let events = &self.journal.events;
        // Half of the images are from moments when a process creates or recovers a pool.
        let is_start =
            |at: &usize| matches!(&events[*at], Event::Mark(mark) if mark.starts_with("done domain"));
        let starts: Vec<usize> = (0..events.len()).filter(is_start).collect();
        let fault = events.iter().position(Event::is_fault);
        let holes = self.times_of_holes();
        let mut time = || match random.choice(&starts) {
            _ if fault.is_some() && random.u8(..4) > 0 => random.usize(fault.unwrap_or(0)..=events.len()),
            _ if !holes.is_empty() && random.bool() => *random.choice(&holes).expect("some"),
            Some(start) if random.bool() => (start + random.usize(1..30)).min(events.len()),
            _ => random.usize(..=events.len()),
        };
        // The number of images that are drawn during each event, and after the last.
        let mut shares = vec![0; events.len() + 1];
        (0..images).for_each(|_| shares[time()] += 1);
        let mut disk = Disk::new(&self.journal, random.fork());
        let mut bounds = self.before.clone();
        let mut heard = Vec::new();
        for (at, share) in shares.into_iter().enumerate() {
            let event = events.get(at);
            if let Some(event) = event {
                if let Some(objection) = disk.objection(event) {
                    failures.case(format!("{} at event {at}", self.domain.name()), Err::<(), _>(objection));
                }
                disk.begin(event);
            }
            // Stores to a mapping may or may not survive a power failure, until they are flushed.
            let promised = self.domain == Domain::Sync || self.is_repair || !bounds.made || bounds.closed;
            for _ in 0..if promised { share } else { 0 } {
                let image = disk.draw(random);
                let folder = quick_folder();
                let mut result = if self.is_repair {
                    let is_done = heard.iter().any(|mark: &&str| mark.starts_with("repaired"));
                    write(&image, folder.path());
                    repaired_or_repairable(&pool_in(folder.path()), self.domain, &bounds, is_done)
                } else {
                    judge(&image, folder.path(), self, &bounds, random)
                };
                if result.is_ok() {
                    result = judge_backups(folder.path(), self, &heard);
                }
                let event = event.map_or("the end".into(), Event::to_string);
                let what = format!("{} at event {at} of {}, {event}", self.domain.name(), events.len());
                let is_right = result.is_ok();
                failures.case(what, result);
                if is_right && depth > 0 && !self.is_repair && random.u8(..8) == 0 {
                    self.again(&image, &bounds, depth, random, failures);
                }
            }
            if let Some(event) = event {
                disk.end(event);
                if let Event::Mark(mark) = event {
                    bounds.hear(mark);
                    heard.push(mark);
                }
            }
        }
    }

    /// Opens the image in a recorded process, during which the power fails again.
    fn again(
        &self,
        image: &Image,
        bounds: &Bounds,
        depth: u32,
        random: &mut fastrand::Rng,
        failures: &mut Failures,
    ) {
        let folder = quick_folder();
        write(image, folder.path());
        let path = pool_in(folder.path());
        let script = format!(
            "domain {}; {} open_or_create {}; update {} 3; close",
            self.domain.name(),
            self.options,
            path.display(),
            random.u8(1..9)
        );
        // If calls fail in this run, some of a recovery fail, too.
        let fails = self.journal.events.iter().any(Event::is_fault) && random.u8(..3) == 0;
        let fault = fails.then(|| draw_fault(true, random));
        let journal = record(folder.path(), &[Life { script, events: None, fault }]);
        let run = Run {
            journal,
            before: Bounds { closed: false, ..bounds.clone() },
            domain: self.domain,
            options: self.options,
            backups: &[],
            is_repair: false,
        };
        run.explore(8, depth - 1, random, failures);
    }
}

/// Runs processes one after the other, kills all but the last somewhere, and judges images of that. In their scripts, `POOL` stands for the pool's
/// path, `DIR` for its folder's path and `KEY` for a key.
fn fail_in(
    scripts: &[&str],
    domain: Domain,
    backups: &[&str],
    images: usize,
    random: &mut fastrand::Rng,
    failures: &mut Failures,
) {
    // One of these file systems writes past the page cache, and the other does not.
    let folder = if random.bool() { quick_folder() } else { tempfile::tempdir().unwrap() };
    let path = pool_in(folder.path());
    let lives: Vec<Life> = scripts
        .iter()
        .enumerate()
        .map(|(at, script)| {
            // The transactions differ from those of the previous life, of which the medium may have remains.
            let script = script.replace("KEY", &random.u8(1..9).to_string());
            let script = script.replace("POOL", &path.display().to_string());
            let script = script.replace("DIR", &folder.path().display().to_string());
            let is_killed = at + 1 < scripts.len();
            let last = *random.choice(&[30, 60, 200]).unwrap();
            let events = is_killed.then(|| random.usize(1..last));
            Life { script: format!("domain {}; {script}", domain.name()), events, fault: None }
        })
        .collect();
    let journal = record(folder.path(), &lives);
    let error =
        journal.events.iter().find(|event| matches!(event, Event::Mark(mark) if mark.starts_with("error")));
    if let Some(error) = error {
        // This can happen after a kill.
        failures.case(format!("a life of {}", scripts.len()), Err::<(), _>(error.to_string()));
        return;
    }
    let run = Run { journal, before: Bounds::default(), domain, options: "", backups, is_repair: false };
    run.explore(images, 2, random, failures);
}

/// Chooses a call that fails, if the process makes that many.
fn draw_fault(exists: bool, random: &mut fastrand::Rng) -> Fault {
    let kinds = [
        (Faulty::FullFlush, 3),
        (Faulty::FullFlush, 8),
        (Faulty::Flush, 40),
        (Faulty::Write, 300),
        (Faulty::Allocation, 12),
    ];
    let (what, most) = *random.choice(&kinds).expect("some");
    let error = *random.choice(&[libc::EIO, libc::ENOSPC]).expect("some");
    let runs = matches!(what, Faulty::Write) && random.bool();
    Fault { what, nth: random.usize(1..=most), error, runs, when_open: !exists || random.bool() }
}

/// Number of transactions that may be acknowledged after a flush has failed, because they were durable before.
const UNDER_WAY: usize = 4;

/// Returns a mark that must not occur, or the problem that the last process did not finish.
fn wrong_mark(journal: &Journal) -> Option<String> {
    let (mut last, mut flush_failed, mut acknowledged) = ("", false, 0);
    for event in &journal.events {
        match event {
            Event::FailedFlush(_) => flush_failed = true,
            Event::Mark(mark) => {
                last = mark;
                if mark.starts_with("done domain") {
                    flush_failed = false;
                }
                if mark.starts_with("wrong") || mark.contains("damage") {
                    return Some(mark.clone());
                }
                acknowledged += usize::from(flush_failed && mark.starts_with("ack"));
            }
            _ => {}
        }
    }
    if acknowledged > UNDER_WAY {
        return Some(format!("a flush failed, and {acknowledged} transactions were acknowledged afterwards"));
    }
    let has_ended = last.starts_with("done close") || last.starts_with("error close");
    (!has_ended).then(|| format!("it ended after {last}"))
}

/// Runs processes that do many things at a time, the last one to its end. If `fails`, calls of them fail; otherwise all but the last are killed.
fn fail_busy(
    scripts: &[&str],
    fails: bool,
    images: usize,
    random: &mut fastrand::Rng,
    failures: &mut Failures,
) {
    let folder = if random.bool() { quick_folder() } else { tempfile::tempdir().unwrap() };
    let path = pool_in(folder.path());
    let options = *random
        .choice(&["roomy;", "roomy rare;", "roomy rare;", "roomy checksums;", "roomy rare checksums;"])
        .expect("some");
    // If there are several processes and a call fails, it is one of the first, which then ends by itself, or of the last, which recovers.
    let failing = fails.then(|| if random.bool() { 0 } else { scripts.len() - 1 });
    let lives: Vec<Life> = (0..)
        .zip(scripts)
        .map(|(number, script)| {
            let script = script.replace("KEY", &random.u8(1..9).to_string());
            let script = script.replace("POOL", &path.display().to_string());
            let is_killed = number + 1 < scripts.len() && failing != Some(number);
            let events = is_killed.then(|| random.usize(20..600));
            let fault = (failing == Some(number)).then(|| draw_fault(number > 0, random));
            Life { script: format!("domain sync; {options} {script}"), events, fault }
        })
        .collect();
    let journal = record(folder.path(), &lives);
    let fault = lives.iter().find_map(|life| life.fault);
    let what = || format!("{options} {scripts:?}, {fault:?}");
    let is_error = |event: &&Event| matches!(event, Event::Mark(mark) if mark.starts_with("error"));
    let fault = journal.events.iter().position(Event::is_fault);
    let error = journal.events.iter().position(|event| is_error(&event));
    let unexplained = error
        .filter(|&error| fault.is_none_or(|fault| error < fault))
        .map(|error| journal.events[error].to_string());
    if let Some(wrong) = wrong_mark(&journal).or(unexplained) {
        return failures.case(what(), Err::<(), _>(wrong));
    }
    // For each of these disks, the remains of failed calls are drawn separately.
    let disks = if fails { 4 } else { 1 };
    let run = Run {
        journal,
        before: Bounds::default(),
        domain: Domain::Sync,
        options,
        backups: &[],
        is_repair: false,
    };
    for _ in 0..disks {
        run.explore(images.div_ceil(disks), 2, random, failures);
    }
}

/// Damages a pool, repairs it in a process, and judges images of that.
fn fail_in_repair(images: usize, random: &mut fastrand::Rng, failures: &mut Failures) {
    use std::os::unix::fs::FileExt;
    let domain = *random.choice(&[Domain::Sync, Domain::Process]).unwrap();
    let folder = if random.bool() { quick_folder() } else { tempfile::tempdir().unwrap() };
    let path = pool_in(folder.path());
    let last = if random.bool() { "close" } else { "kill" };
    let script = format!("domain {}; create {}; update 1 12; {last}", domain.name(), path.display());
    let mut before = Bounds::default();
    Process::run(folder.path(), &script).iter().for_each(|mark| before.hear(mark));
    before.most.clone_from(&before.least);
    // The magic number of the heap, or of the log.
    let damaged = if domain == Domain::Sync && random.bool() { log_path(&path) } else { path.clone() };
    std::fs::File::options().write(true).open(damaged).unwrap().write_all_at(b"????", 0).unwrap();
    let script = format!("domain {}; repair {}", domain.name(), path.display());
    let journal = record(folder.path(), &[Life { script, ..Life::default() }]);
    let has_repaired = |event: &Event| matches!(event, Event::Mark(mark) if mark.starts_with("repaired"));
    assert!(journal.events.iter().any(has_repaired), "{:?}", journal.events.last());
    let run = Run { journal, before, domain, options: "", backups: &[], is_repair: true };
    run.explore(images, 0, random, failures);
}

#[test]
fn power_failures_in_repairs_lose_nothing() {
    let (mut random, mut failures) = (random("repairs and power"), Failures::new("repairs and power"));
    let images = cases(20);
    while failures.cases < images {
        fail_in_repair((images - failures.cases).clamp(10, 40), &mut random, &mut failures);
    }
    failures.end();
}

#[test]
fn power_failures_lose_nothing() {
    let (mut random, mut failures) = (random("power"), Failures::new("power"));
    let images = cases(50);
    // Only a creation, which makes most of the calls.
    let creation = "open_or_create POOL; update KEY 2; close";
    // Checkpoints that the program and the full ring request, growth, and a second life.
    let long =
        "create POOL; update KEY 45; checkpoint; together KEY 20; close; open POOL; update KEY 20; close";
    let again = "open_or_create POOL; together KEY 20; later KEY 9; checkpoint; update KEY 5; later KEY 30; update KEY 1; close";
    // Another log, and other checkpoint slots that refer to it.
    let resized = "create POOL; update KEY 20; close; resize POOL 96; open POOL; update KEY 5; close";
    let backups = "create POOL; update KEY 10; backup DIR/copy; update KEY 5; backup DIR/other; close";
    while failures.cases < images {
        let share = (images - failures.cases).div_ceil(10).clamp(10, 100);
        let mut fail = |scripts: &[&str], domain, backups: &[&str]| {
            // The places of the kills are drawn for each run.
            let share = if scripts.len() == 1 { share } else { share.min(25) };
            fail_in(scripts, domain, backups, share, &mut random, &mut failures);
        };
        fail(&[creation], Domain::Sync, &[]);
        fail(&[creation, creation], Domain::Sync, &[]);
        fail(&[long], Domain::Sync, &[]);
        fail(&[long, again], Domain::Sync, &[]);
        fail(&[long, again, again], Domain::Sync, &[]);
        fail(&["create POOL; update KEY 10; close; open POOL; close"], Domain::Process, &[]);
        fail(&[creation, creation], Domain::Process, &[]);
        fail(&[resized], Domain::Sync, &[]);
        fail(&[backups], Domain::Sync, &["copy", "other"]);
        fail(&[backups], Domain::Process, &[]);
    }
    failures.end();
}

/// Kills a process at any call of a creation, and the next one at any call of opening the files that are left, and judges images of that. With
/// `stale`, there are checksums of a pool that was deleted.
fn fail_in_creation(
    domain: Domain,
    options: &str,
    stale: bool,
    images: usize,
    random: &mut fastrand::Rng,
    failures: &mut Failures,
) {
    let folder = if random.bool() { quick_folder() } else { tempfile::tempdir().unwrap() };
    let path = pool_in(folder.path());
    let remove_all_but = |kept: &str| {
        for name in names(folder.path()).into_iter().filter(|name| name != kept) {
            std::fs::remove_file(folder.path().join(name)).unwrap();
        }
    };
    let life = |events: Option<usize>, random: &mut fastrand::Rng| {
        let (name, path, key) = (domain.name(), path.display(), random.u8(1..9));
        let script = format!("domain {name}; {options} open_or_create {path}; update {key} 1; close");
        Life { script, events, fault: None }
    };
    let calls = record(folder.path(), &[life(None, random)]).events.len();
    if stale {
        remove_all_but("");
        Process::run(
            folder.path(),
            &format!("domain sync; roomy checksums; create {}; close", path.display()),
        );
        remove_all_but("pool.sums");
        assert_eq!(names(folder.path()), ["pool.sums"]);
    } else {
        remove_all_but("");
    }
    let kills = [(); 2].map(|()| Some(random.usize(1..=calls)));
    let lives = [kills[0], kills[1], None].map(|events| life(events, random));
    let journal = record(folder.path(), &lives);
    let (before, backups, is_repair) = (Bounds::default(), &[], false);
    Run { journal, before, domain, options, backups, is_repair }.explore(images, 1, random, failures);
}

#[test]
fn power_failures_in_creations_leave_a_whole_pool_or_none() {
    let (mut random, mut failures) = (random("creations and power"), Failures::new("creations and power"));
    let images = cases(50);
    while failures.cases < images {
        let share = (images - failures.cases).div_ceil(5).clamp(5, 20);
        for (domain, options, stale) in [
            (Domain::Process, "", false),
            (Domain::Process, "", true),
            (Domain::Sync, "", false),
            (Domain::Sync, "", true),
            (Domain::Sync, "roomy checksums;", false),
        ] {
            fail_in_creation(domain, options, stale, share, &mut random, &mut failures);
        }
    }
    failures.end();
}

#[test]
fn failed_flushes_in_creations_leave_a_whole_pool_or_none() {
    let (mut random, mut failures) =
        (random("creations and flushes"), Failures::new("creations and flushes"));
    for (domain, options) in [(Domain::Process, ""), (Domain::Sync, ""), (Domain::Sync, "roomy checksums;")] {
        // Each flush of a file's contents and size, and each of the folder.
        for nth in 1..=6 {
            let folder = quick_folder();
            let path = pool_in(folder.path());
            let script = format!("domain {}; {options} create {}; close", domain.name(), path.display());
            let (what, error) = (Faulty::FullFlush, libc::EIO);
            let fault = Some(Fault { what, nth, error, runs: false, when_open: false });
            let journal = record(folder.path(), &[Life { script, events: None, fault }]);
            let (before, backups, is_repair) = (Bounds::default(), &[], false);
            let run = Run { journal, before, domain, options, backups, is_repair };
            run.explore(8, 0, &mut random, &mut failures);
        }
    }
    failures.end();
}

/// Compaction, snapshots and large transactions beside others; growth of heap and log; release of pages.
const BUSY: &str = "open_or_create POOL; work KEY 40; compact; pile KEY 10; bulk KEY 1; close";
/// Runs the same steps one after the other: small blocks take the place of large ones, and large ones of small ones.
const CALM: &str = "open_or_create POOL; pile KEY 20; bulk KEY 1; unpile KEY; compact; pile KEY 40; checkpoint; unpile KEY; \
    update KEY 20; compact; pile KEY 10; unpile KEY; compact; pile KEY 10; later KEY 9; compact; bulk KEY 2; compact; update KEY 20; close";
/// The heap grows, by transactions that fit into the log.
const GROWING: &str = "open_or_create POOL; pile KEY 60; update KEY 10; pile KEY 20; close";

#[test]
fn power_failures_beside_compaction_lose_nothing() {
    let (mut random, mut failures) = (random("compaction and power"), Failures::new("compaction and power"));
    let images = cases(15);
    while failures.cases < images {
        let share = (images - failures.cases).div_ceil(6).clamp(5, 100);
        fail_busy(&[CALM], false, share, &mut random, &mut failures);
        fail_busy(&[BUSY], false, share, &mut random, &mut failures);
        fail_busy(&[GROWING], false, share, &mut random, &mut failures);
        fail_busy(&[BUSY, BUSY], false, share.min(25), &mut random, &mut failures);
        fail_busy(&[CALM, CALM, CALM], false, share.min(25), &mut random, &mut failures);
    }
    failures.end();
}

#[test]
fn failed_flushes_lose_nothing() {
    let (mut random, mut failures) = (random("failed flushes"), Failures::new("failed flushes"));
    let images = cases(15);
    while failures.cases < images {
        let share = (images - failures.cases).div_ceil(12).clamp(4, 20);
        for scripts in [&[CALM] as &[&str], &[GROWING], &[BUSY], &[CALM, CALM], &[GROWING, BUSY]] {
            fail_busy(scripts, true, share, &mut random, &mut failures);
        }
    }
    failures.end();
}
