//! Work that is done in parts, by several processes in turn or by several machines: a plan of the work, a file of results beside it, and how the
//! files of several machines are merged.
//!
//! Each machine has a folder of its own with the same plan. Its results are a file of JSON objects, one per line. Lines are only appended until the
//! file is put in order, so that interrupted work can continue.

use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde_json::Value;
use strandline_core::memory::SharedFile;

/// A part of the work: part `number` of `of`, counted from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    number: usize,
    of: usize,
}

impl Shard {
    /// Returns whether the shard has the piece of work with this index. Pieces are dealt in rounds, since adjacent pieces take about the same time.
    /// Each round begins with another shard, since lists of work have periods.
    pub fn has(&self, index: usize) -> bool {
        (index + index / self.of) % self.of == self.number - 1
    }
}

impl FromStr for Shard {
    type Err = String;

    /// Parses `2/16`.
    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            Some(Self { number: number.trim().parse().ok()?, of: of.trim().parse().ok()? })
        });
        let is_possible = |shard: &Self| (1..=shard.of).contains(&shard.number);
        parsed
            .filter(is_possible)
            .ok_or_else(|| "expected a shard's number from 1 and how many there are, such as 2/16".into())
    }
}

/// The file of results, opened by this process alone.
pub struct Ledger {
    path: PathBuf,
    file: SharedFile,
    lines: Vec<Value>,
}

impl Ledger {
    /// Opens or creates the file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read or created, or if another process has it open.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = locked(path)?;
        let text = std::fs::read_to_string(path)?;
        let whole = whole(&text);
        file.set_len(whole.len() as u64)?;
        Ok(Self { path: path.to_owned(), file, lines: parsed(whole) })
    }

    /// Returns its lines.
    pub fn lines(&self) -> &[Value] {
        &self.lines
    }

    /// Appends a line.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn add(&mut self, line: Value) -> io::Result<()> {
        (&*self.file).write_all(format!("{line}\n").as_bytes())?;
        self.lines.push(line);
        Ok(())
    }

    /// Puts the lines of this many pieces of work in order, each once, followed by all other lines. The file then does not depend on who did what
    /// first. It is replaced atomically. `is_of` returns whether a line belongs to the piece with this index.
    ///
    /// # Errors
    /// Returns an error if the file cannot be written.
    pub fn arrange(&mut self, pieces: usize, is_of: impl Fn(usize, &Value) -> bool) -> io::Result<()> {
        let mut of_pieces: Vec<Option<usize>> = vec![None; pieces];
        let mut is_taken = vec![false; self.lines.len()];
        for (piece, place) in of_pieces.iter_mut().enumerate() {
            for (index, line) in self.lines.iter().enumerate() {
                if is_of(piece, line) {
                    if place.is_none() && !is_taken[index] {
                        *place = Some(index);
                    }
                    is_taken[index] = true;
                }
            }
        }
        let others = (0..self.lines.len()).filter(|&index| !is_taken[index]);
        let order: Vec<usize> = of_pieces.into_iter().flatten().chain(others).collect();
        if order.iter().copied().eq(0..self.lines.len()) {
            return Ok(());
        }
        let lines: Vec<Value> = order.iter().map(|&index| self.lines[index].clone()).collect();
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let beside = self.path.with_extension("jsonl.new");
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, &self.path)?;
        self.file = locked(&self.path)?;
        self.lines = lines;
        Ok(())
    }
}

/// Returns the lines of a file that another process may still be writing; none if there is no such file.
///
/// # Errors
/// Returns an error if the file cannot be read.
pub fn read(path: &Path) -> Result<Vec<Value>, String> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(parsed(whole(&text))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// Opens the file for appending, for this process alone.
fn locked(path: &Path) -> io::Result<SharedFile> {
    let file = SharedFile::from(File::options().read(true).append(true).create(true).open(path)?);
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => Err(io::Error::other(
            "another process is writing to it: wait for that one, or choose another folder (--out); each shard needs one of its own",
        )),
        // Some network file systems do not support locks.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
    }
}

/// Returns the text without an incomplete last line, which a killed program may have left.
fn whole(text: &str) -> &str {
    &text[..text.rfind('\n').map_or(0, |end| end + 1)]
}

fn parsed(text: &str) -> Vec<Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Returns a function that describes what could not be done to a file.
pub fn failed(what: &str, path: &Path) -> impl FnOnce(io::Error) -> String + use<> {
    let text = format!("cannot {what} {}", path.display());
    move |error| format!("{text}: {error}")
}

/// Returns the plan that all these folders have in their files named `file`. A plan names the version of its format as `schema`, and the build that
/// made it as `program`.
///
/// # Errors
/// Returns an error if a folder has no plan, another one, or one with another format than `schema`.
pub fn common_plan(folders: &[PathBuf], file: &str, schema: u32) -> Result<Value, String> {
    let mut first: Option<(&PathBuf, Value)> = None;
    for folder in folders {
        let path = folder.join(file);
        let text = std::fs::read_to_string(&path).map_err(failed("read", &path))?;
        let plan: Value =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        match &first {
            None => first = Some((folder, plan)),
            Some((_, other)) if *other == plan => {}
            Some((other, of_other)) => {
                let why = match of_other["program"] == plan["program"] {
                    true => {
                        "their work is different: the same command, apart from --shard and --out, makes shards of one"
                    }
                    false => {
                        "they were run by different builds of the program: run the shards of one command by the same"
                    }
                };
                return Err(format!("{} and {}: {why}", other.display(), folder.display()));
            }
        }
    }
    let (_, plan) = first.ok_or("there is nothing to merge: name the shards' folders")?;
    if plan["schema"] != schema {
        return Err("the plan was made by another version of Strandline".into());
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn shards_divide_the_work() {
        let shard = |text: &str| text.parse::<Shard>();
        let [first, second] = ["1/2", "2/2"].map(|text| shard(text).unwrap());
        assert!((0..9).all(|index| first.has(index) != second.has(index)));
        assert!((0..9).all(|index| shard("1/1").unwrap().has(index)));
        // Each shard has as many even pieces as odd ones.
        let of_first: Vec<_> = (0..8).filter(|&index| first.has(index)).collect();
        assert_eq!(of_first, [0, 3, 4, 7]);
        for text in ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b"] {
            assert!(shard(text).unwrap_err().contains("2/16"), "{text}");
        }
    }

    #[test]
    fn what_a_killed_program_has_left_of_a_line_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("found.jsonl");
        assert!(read(&path).unwrap().is_empty());
        std::fs::write(&path, "{\"piece\":2}\n{\"piece\":1}\n{\"pie").unwrap();
        let numbers = |lines: &[Value]| lines.iter().map(|line| line["piece"].clone()).collect::<Vec<_>>();
        assert_eq!(numbers(&read(&path).unwrap()), [2, 1]);
        let mut ledger = Ledger::open(&path).unwrap();
        assert!(Ledger::open(&path).err().unwrap().to_string().contains("--out"));
        ledger.add(json!({"piece": 0})).unwrap();
        ledger.arrange(2, |piece, line| line["piece"] == piece).unwrap();
        assert_eq!(numbers(ledger.lines()), [0, 1, 2]);
        assert_eq!(numbers(&read(&path).unwrap()), [0, 1, 2]);
    }
}
