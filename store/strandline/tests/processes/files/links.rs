//! Pools that are reached by several names, moved, or combined with another log: opening returns the right data, or an error that says why not.

use std::path::{Path, PathBuf};

use strandline_core::Domain;
use strandline_core::file::log_path;

use super::child::{Counts, Process};
use super::{Bounds, Failures, How, cases, holds, look, quick_folder, random};

/// A folder with a pool in it, and several paths to the pool.
struct Place {
    folder: tempfile::TempDir,
    domain: Domain,
    bounds: Bounds,
}

impl Place {
    fn new(domain: Domain) -> Self {
        let folder = quick_folder();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("real")).unwrap();
        std::fs::create_dir(at("other")).unwrap();
        let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, at(name)).unwrap();
        link("real", "folder");
        link("pool", "real/soft");
        link("soft", "real/softer");
        link("../real/pool", "other/relative");
        link("../folder/soft", "other/through");
        std::os::unix::fs::symlink(at("real/pool"), at("other/absolute")).unwrap();
        Self { folder, domain, bounds: Bounds::default() }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn pool(&self) -> PathBuf {
        self.at("real/pool")
    }

    /// Returns a folder to work in, and a name of the pool there.
    fn way(&self, random: &mut fastrand::Rng) -> (PathBuf, String) {
        let (folder, name) = *random
            .choice(&[
                ("real", "pool"),
                ("real", "./pool"),
                ("real", "../real/pool"),
                ("real", "../folder/pool"),
                ("real", "soft"),
                ("real", "softer"),
                ("folder", "pool"),
                ("folder", "softer"),
                ("other", "relative"),
                ("other", "through"),
                ("other", "absolute"),
                ("", "real/pool"),
                ("", "other/../real/./pool"),
                ("", "folder/soft"),
            ])
            .unwrap();
        let is_absolute = random.bool();
        let path =
            if is_absolute { self.at(folder).join(name).display().to_string() } else { name.to_owned() };
        (self.at(folder), path)
    }

    /// A process opens the pool by some name, runs transactions, and closes it or is killed.
    fn live(&mut self, random: &mut fastrand::Rng) -> Result<(), String> {
        // The pool is created by its own name, since the pool does not define what a dangling link means.
        let (folder, path) =
            if self.bounds.made { self.way(random) } else { (self.at("real"), "pool".to_owned()) };
        let last = *random.choice(&["close", "kill", "kill"]).unwrap();
        let script = format!(
            "domain {}; open_or_create {path}; update 1 {}; {last}",
            self.domain.name(),
            random.u32(..40)
        );
        let marks = Process::run(&folder, &script);
        if let Some(error) = marks.iter().find(|mark| mark.starts_with("error")) {
            return Err(format!(
                "in {}, {path}: {error}; acknowledged: {:?}",
                folder.display(),
                self.bounds.least
            ));
        }
        let opened = marks.iter().find(|mark| mark.starts_with("opened")).ok_or("it has not opened")?;
        self.bounds.admit(&super::child::counts(opened)).map_err(|error| format!("{path}: {error}"))?;
        marks.iter().for_each(|mark| self.bounds.hear(mark));
        // No transaction was running when it ended.
        self.bounds.most.clone_from(&self.bounds.least);
        Ok(())
    }

    /// Checks that the pool opens by its own name.
    fn check(&self) -> Result<Counts, String> {
        holds(&self.pool(), self.domain, How::Open, &self.bounds)
    }

    /// Checks that opening returns the right data, or an error that names heap and log. Returns whether the pool was opened.
    fn right_or_error(&self, path: &Path) -> Result<bool, String> {
        match look(path, self.domain, How::Open)? {
            Ok(found) => self.bounds.admit(&found).map(|()| true),
            Err(error) => {
                let (text, log) = (error.to_string(), log_path(path).display().to_string());
                let without_log = text.replace(&log, "");
                if without_log.len() < text.len() && without_log.contains(&path.display().to_string()) {
                    Ok(false)
                } else {
                    Err(format!("the error does not name both files: {text}"))
                }
            }
        }
    }

    fn rename(&self, from: &str, to: &str) {
        std::fs::rename(self.at(from), self.at(to)).unwrap();
    }

    /// With a hard link beside the pool or elsewhere, the pool is refused by both names. When the link is removed, the pool is intact.
    fn hard_link(&self, random: &mut fastrand::Rng) -> Result<(), String> {
        let other = self.at(random.choice(["real/hard", "other/hard"]).unwrap());
        std::fs::hard_link(self.pool(), &other).unwrap();
        for path in [&other, &self.pool()] {
            match look(path, self.domain, How::OpenOrCreate)? {
                Ok(_) => return Err(format!("{} opens, a file with two names", path.display())),
                Err(error) if error.to_string().contains("link") => {}
                Err(error) => {
                    return Err(format!("{}: the error does not speak of links: {error}", path.display()));
                }
            }
        }
        std::fs::remove_file(&other).unwrap();
        self.check().map_err(|error| format!("after the hard link is gone: {error}")).map(drop)
    }

    /// Moves the heap to another place without its log, or with it.
    fn moved(&self, random: &mut fastrand::Rng) -> Result<(), String> {
        self.rename("real/pool", "real/moved");
        let with_log = random.bool() && self.domain == Domain::Sync;
        if with_log {
            self.rename("real/pool.log", "real/moved.log");
        }
        let path = self.at("real/moved");
        let opened = self.right_or_error(&path)?;
        if with_log && !opened {
            return Err("a heap that was moved with its log does not open".into());
        }
        // The heap moves back, with the log that it has now.
        self.rename("real/moved", "real/pool");
        if opened && self.domain == Domain::Sync {
            self.rename("real/moved.log", "real/pool.log");
        }
        self.check().map_err(|error| format!("moved and back: {error}")).map(drop)
    }

    /// The pool has no log, an older copy of its own log, or another pool's log.
    fn another_log(&mut self, old: Option<&Path>, random: &mut fastrand::Rng) -> Result<(), String> {
        let log = log_path(&self.pool());
        self.rename("real/pool.log", "real/kept");
        // Uses a copy of the heap, since opening may change it.
        match (old, random.u8(..3)) {
            (Some(old), 0) => drop(std::fs::copy(old, &log).unwrap()),
            (_, 1) => {}
            _ => {
                let path = self.at("other/pool");
                let script = format!("create {}; update 1 {}; kill", path.display(), random.u32(..40));
                let marks = Process::run(self.folder.path(), &script);
                assert!(!marks.iter().any(|mark| mark.starts_with("error")), "{marks:?}");
                std::fs::rename(log_path(&path), &log).unwrap();
                std::fs::remove_file(path).unwrap();
            }
        }
        let opened = self.right_or_error(&self.pool());
        let opened =
            opened.map_err(|error| format!("with another log, closed: {}: {error}", self.bounds.closed))?;
        if !opened {
            self.rename("real/kept", "real/pool.log");
        } else {
            // The pool was closed cleanly and has got a new log, so that the old log no longer belongs to it.
            self.rename("real/pool.log", "real/new");
            self.rename("real/kept", "real/pool.log");
            let old = self.right_or_error(&self.pool());
            if !old.map_err(|error| format!("with a log from before: {error}"))? {
                self.rename("real/new", "real/pool.log");
            }
        }
        self.check().map_err(|error| format!("its own log is back: {error}")).map(drop)
    }
}

/// Runs a random life of a pool.
fn run(random: &mut fastrand::Rng) -> Result<(), String> {
    let domain = if random.u8(..4) == 0 { Domain::Process } else { Domain::Sync };
    let mut place = Place::new(domain);
    let mut old: Option<PathBuf> = None;
    place.live(random)?;
    for step in 0..random.u32(3..8) {
        let log = log_path(&place.pool());
        if domain == Domain::Sync && random.bool() {
            let copy = place.at("old log");
            std::fs::copy(&log, &copy).unwrap();
            old = Some(copy);
        }
        place.live(random).map_err(|error| format!("step {step}, a life: {error}"))?;
        let result = match random.u8(..4) {
            0 => place.hard_link(random),
            1 => place.moved(random),
            2 if domain == Domain::Sync => place.another_log(old.as_deref(), random),
            _ => Ok(()),
        };
        result.map_err(|error| format!("step {step}: {error}"))?;
    }
    place.check().map(drop)
}

#[test]
fn links_and_moves_lose_nothing() {
    let (mut random, mut failures) = (random("links"), Failures::new("links"));
    for _ in 0..cases(10) {
        failures.case("links", run(&mut random));
    }
    failures.end();
}
