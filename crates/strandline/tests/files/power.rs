//! Power failures: images of what the medium may hold, made from recordings of real runs, are opened and read.

use std::path::Path;
use std::time::Instant;

use strandline::{Domain, Error};

use super::image::{Disk, Image, write};
use super::journal::{Event, Journal, record};
use super::{Bounds, Failures, How, cases, holds, leaves_nothing, look, name, pool_in, quick_folder, random};

/// A run, and what may be expected of the pool when it begins.
struct Run<'r> {
    journal: Journal,
    before: Bounds,
    domain: Domain,
    /// Backups that the script makes.
    backups: &'r [&'r str],
}

/// Whether an error says that there is no pool yet.
fn is_absent(error: &Error) -> bool {
    match error {
        Error::Io { source, .. } => source.kind() == std::io::ErrorKind::NotFound,
        // A pool whose first transaction has not happened.
        Error::Missing { .. } => true,
        _ => false,
    }
}

/// Opens an image, whose pool must hold what `bounds` says.
fn judge(image: &Image, folder: &Path, run: &Run, bounds: &Bounds, random: &mut fastrand::Rng) -> Result<(), String> {
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
        if random.u8(..4) == 0 {
            leaves_nothing(&path, run.domain)?;
        }
    }
    Ok(())
}

/// A backup is whole or not there, and there once it has been acknowledged.
fn judge_backups(folder: &Path, run: &Run, heard: &[&str], random: &mut fastrand::Rng) -> Result<(), String> {
    for backup in run.backups {
        let at = |prefix: &str| heard.iter().position(|mark| *mark == format!("{prefix}backup {backup}"));
        let path = folder.join(backup);
        // It has what had been acknowledged when it began, which is when the command before it ended.
        let done = at("done ");
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
    let _ = random;
    Ok(())
}

impl Run<'_> {
    /// Draws `images` images from the whole run and judges them; for `depth` levels, some are opened by a recorded process
    /// whose images are judged in turn.
    fn explore(&self, images: usize, depth: u32, random: &mut fastrand::Rng, failures: &mut Failures) {
        let events = &self.journal.events;
        // How many images are drawn while each event runs, and after the last.
        let mut shares = vec![0; events.len() + 1];
        (0..images).for_each(|_| shares[random.usize(..=events.len())] += 1);
        let mut disk = Disk::new(&self.journal);
        let mut bounds = self.before.clone();
        let mut heard = Vec::new();
        for (at, share) in shares.into_iter().enumerate() {
            let event = events.get(at);
            event.into_iter().for_each(|event| disk.begin(event));
            // What a mapping holds survives a power failure as it likes, until it is flushed.
            let promised = self.domain == Domain::Sync || !bounds.made || bounds.closed;
            for _ in 0..if promised { share } else { 0 } {
                let image = disk.draw(random);
                let folder = quick_folder();
                let mut result = judge(&image, folder.path(), self, &bounds, random);
                if result.is_ok() {
                    result = judge_backups(folder.path(), self, &heard, random);
                }
                let what = format!("{} at event {at} of {}: {event:.100?}", name(self.domain), events.len());
                failures.case(what, result);
                if depth > 0 && random.u8(..16) == 0 {
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

    /// Has the image opened by a process that is recorded, and the power fail in there.
    fn again(&self, image: &Image, bounds: &Bounds, depth: u32, random: &mut fastrand::Rng, failures: &mut Failures) {
        let folder = quick_folder();
        write(image, folder.path());
        let path = pool_in(folder.path());
        let script = format!("domain {}; open_or_create {}; update 1 3; close", name(self.domain), path.display());
        let journal = record(folder.path(), &script);
        let run = Run { journal, before: Bounds { closed: false, ..bounds.clone() }, domain: self.domain, backups: &[] };
        run.explore(12, depth - 1, random, failures);
    }
}

/// Runs `script`, in which `POOL` stands for the pool's path and `DIR` for its folder's, and judges images of it.
fn fail_in(script: &str, domain: Domain, in_memory: bool, backups: &[&str], images: usize, random: &mut fastrand::Rng, failures: &mut Failures) {
    let folder = if in_memory { quick_folder() } else { tempfile::tempdir().unwrap() };
    let path = pool_in(folder.path());
    let script = script.replace("POOL", &path.display().to_string()).replace("DIR", &folder.path().display().to_string());
    let since = Instant::now();
    let journal = record(folder.path(), &format!("domain {}; {script}", name(domain)));
    for event in &journal.events {
        if let Event::Mark(mark) = event {
            assert!(!mark.starts_with("error"), "{mark}");
        }
    }
    println!("{} events of {} recorded in {:?}", journal.events.len(), name(domain), since.elapsed());
    let run = Run { journal, before: Bounds::default(), domain, backups };
    run.explore(images, 2, random, failures);
}

#[test]
fn power_failures_lose_nothing() {
    let (mut random, mut failures) = (random("power"), Failures::new("power"));
    let images = cases(400);
    while failures.cases < images {
        let share = (images - failures.cases).div_ceil(12).max(10);
        for in_memory in [false, true] {
            let mut fail = |script: &str, domain, backups: &[&str]| {
                fail_in(script, domain, in_memory, backups, share, &mut random, &mut failures);
            };
            // Creation alone, which is most of the calls.
            fail("open_or_create POOL; update 1 2; close", Domain::Sync, &[]);
            // Checkpoints that were asked for and that the full ring asks for; growth; a second life.
            fail(
                "create POOL; update 1 45; checkpoint; update 1 30; close; open POOL; update 1 20; close",
                Domain::Sync,
                &[],
            );
            fail("create POOL; update 1 10; close; open POOL; close", Domain::Process, &[]);
            fail(
                "create POOL; update 1 10; backup copy; update 1 5; backup other; close",
                Domain::Sync,
                &["copy", "other"],
            );
        }
    }
    failures.end();
}
