//! Checks a pool for damage and inspects its content, without changing anything.

use std::collections::HashSet;
use std::path::Path;

use super::checksums;
use super::inspect::{LogFile, PoolInfo, inspect, open_to_look};
use super::new_file::cannot;
use super::open::log_path;
use super::pool::Pool;
use crate::error::{Error, Result};
use crate::heap::{self, ClassUsage};
use crate::layout::{PAGE_BYTES, ROOTS};
use crate::memory::{PersistentAddress, system};
use crate::scheme;
use crate::scheme::Schemes;
use crate::structures::header::KEY_VALUE_STORE;
use crate::structures::root::RootDescription;
use crate::structures::{self, KeyValueStore};
use crate::sync;
use crate::sync::{FileDevice, Verifier};
use crate::transaction::{Read, Runner, Transaction};

/// A description of the structure to which a root word refers.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RootReport {
    /// The root's number, from 0 to 7.
    pub index: u64,
    /// The address in the root word.
    pub address: u64,
    /// A description of the structure, as far as its first words tell.
    pub what: String,
    /// Its first eight words, or fewer at the heap's end.
    pub words: Vec<u64>,
}

/// The report of a check.
///
/// ```
/// # use strandline_core::example::*;
/// # let (path, options) = path_and_options();
/// let pool = Pool::create(&path, &options)?;
/// pool.worker()?.run(|tx| tx.write(tx.root(0), 12345))?;
/// pool.close()?;
/// let report = strandline_core::file::check(&path, Default::default())?;
/// assert_eq!(report.damage[0], "root 0 leads to 0x3039, where no block begins");
/// assert_eq!(report.info.unwrap().header.geometry, options.geometry);
/// # Ok::<(), strandline_core::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckReport {
    /// Header, state and recovery, or `None` if they are damaged.
    pub info: Option<PoolInfo>,
    /// The structures to which the used roots refer.
    pub roots: Vec<RootReport>,
    /// The heap's small blocks by size, and the chunks that a compaction of them would free.
    pub classes: Vec<ClassUsage>,
    /// Descriptions of all damage; empty if there is none.
    pub damage: Vec<String>,
}

/// The most places with wrong checksums that are listed.
const MOST_RUNS: usize = 20;

/// Checks the pool at `path`: its header, log header, checkpoint slots, sizes and checksums; that its logs can be read and replayed, in a private
/// copy; the heap's table and bitmaps; that each root refers to a block of the heap; the type of a store's root; keys, hashes and chains of a
/// key-value store to which a root refers; and, if the pool has checksums, that all pages are as they were written.
///
/// # Errors
/// Returns an error if the file cannot be read, is not a pool, or is in use. Damage is not an error, but in the report.
pub fn check(path: impl AsRef<Path>, schemes: Schemes) -> Result<CheckReport> {
    let path = path.as_ref();
    let mut report = CheckReport::default();
    if let Err(error) = look(path, schemes, &mut report) {
        match error {
            Error::Damaged { .. }
            | Error::DamagedHeader { .. }
            | Error::Truncated { .. }
            | Error::LogFile { .. } => {
                report.damage.push(format!("{error:#}"));
            }
            error => return Err(error),
        }
    }
    Ok(report)
}

fn look(path: &Path, schemes: Schemes, report: &mut CheckReport) -> Result<()> {
    let info = inspect(path, schemes)?;
    if info.open {
        return Err(Error::Locked { path: path.to_owned(), held: "writing", by: info.open_in });
    }
    let pool = open_to_look(path, &info.header, schemes)?;
    check_log(&pool, path, &info, report)?;
    check_pages(&pool, &info, report)?;
    report.info = Some(info);
    // The `Sync` domain does not need the log directory, but the next domain may.
    scheme::logs(&pool.native_view()?)?;
    report.classes = heap::classes(&pool.native_view()?)?;
    let mut worker = pool.worker()?;
    for index in 0..ROOTS {
        report_root(&mut worker, index, pool.layout().root(index), report)?;
    }
    Ok(())
}

/// Reports damage in the checkpoint slots and the log of the pool at `path`.
fn check_log(pool: &Pool, path: &Path, info: &PoolInfo, report: &mut CheckReport) -> Result<()> {
    match &info.log {
        LogFile::Wrong(problem) => report.damage.push(problem.clone()),
        LogFile::Own { .. } => {
            let open = |path: &Path| system::open_to_read(path).map_err(cannot("open", path));
            let device = FileDevice::new(open(path)?, open(&log_path(pool.path()))?, false);
            report.damage.extend(sync::damaged_slots(&device, info.header.uuid.as_bytes())?);
            report.damage.extend(damaged_log(pool, &device, info)?);
        }
        LogFile::None | LogFile::Missing | LogFile::Unused => {}
    }
    Ok(())
}

/// Reports pages that differ from their checksums.
fn check_pages(pool: &Pool, info: &PoolInfo, report: &mut CheckReport) -> Result<()> {
    match checksums::find_own(pool.path(), &pool.file, &info.header, true) {
        Ok(None) => {}
        Ok(Some(file)) => report.damage.extend(compare(pool, &checksums::device(&pool.file, &file))?),
        Err(error @ Error::ChecksumFile { .. }) => report.damage.push(format!("{error:#}")),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Reports what root number `index` refers to, and damage there. Its word is at `root`.
fn report_root(
    worker: &mut impl Runner,
    index: u64,
    root: PersistentAddress,
    report: &mut CheckReport,
) -> Result<()> {
    let at = PersistentAddress::new(worker.view(|tx| tx.read(root))?);
    if at.is_null() {
        return Ok(());
    }
    let words: Vec<u64> =
        (0..8).map_while(|number| worker.view(|tx| tx.read(at.word(number))).ok()).collect();
    let first = words.first().copied().unwrap_or(0);
    if worker.view(|tx| tx.block(at)).is_err() {
        report.damage.push(format!("root {index} leads to {:#x}, where no block begins", at.offset()));
    }
    let what = match (describe_root(worker, index), structures::describe(first)) {
        (Ok(Some(what)), _) => what,
        (Err(error @ (Error::Damaged { .. } | Error::InvalidAddress(_))), _) => {
            report.damage.push(format!("root {index}: {error:#}"));
            "a store's root, damaged".to_owned()
        }
        (_, Some(what)) => what.to_owned(),
        _ => "not a structure of this library".to_owned(),
    };
    if what == KEY_VALUE_STORE
        && let Err(error) = worker.view(|tx| KeyValueStore::open(tx, root)?.check(tx))
        // A store that was destroyed leaves its header.
        && !matches!(error, Error::Missing { .. })
    {
        report.damage.push(format!("root {index}: {error:#}"));
    }
    report.roots.push(RootReport { index, address: at.offset(), what, words });
    Ok(())
}

/// Returns damage anywhere in the log of a pool that was not closed.
fn damaged_log(pool: &Pool, device: &FileDevice, info: &PoolInfo) -> Result<Option<String>> {
    if info.in_use.is_none() {
        // A clean pool needs nothing from its log.
        return Ok(None);
    }
    let read = |error| cannot("read", &log_path(pool.path()))(error);
    let own = sync::log_of_heap(&pool.file, info.header.uuid.as_bytes()).map_err(read)?;
    let ring = sync::read_log_header(device, &log_path(pool.path()))?.ring;
    let Some(own) = own else { return Ok(None) };
    Ok(sync::damaged_log(device, &own, ring).map_err(read)?.map(|damage| damage.to_string()))
}

/// Returns descriptions of the pages that differ from their checksums.
fn compare(pool: &Pool, device: &FileDevice) -> Result<Vec<String>> {
    let left_out = match pool.shared_log() {
        Some(log) => log.logged_pages(&pool.native_view()?)?,
        None => HashSet::new(),
    };
    let verifier = Verifier::new(device, pool.header().uuid.as_bytes(), pool.layout());
    let damaged = verifier.and_then(|mut verifier| verifier.damaged_pages(&left_out));
    let damaged = damaged.map_err(|e| Error::io("compare the pool with its checksums", e))?;
    let runs = damaged.chunk_by(|page, next| page + 1 == *next);
    let said = runs.clone().take(MOST_RUNS).map(|run| {
        let bytes = run.len() as u64 * PAGE_BYTES;
        format!(
            "{bytes} bytes at {:#x} of the file are not what was written there, by their checksums",
            run[0] * PAGE_BYTES
        )
    });
    let more = runs.clone().count().saturating_sub(MOST_RUNS);
    let rest = (more > 0).then(|| format!("and {more} other places differ as well"));
    Ok(said.chain(rest).collect())
}

/// Returns a description of the store whose root is in root word `index`, if there is one.
fn describe_root(runner: &mut impl Runner, index: u64) -> Result<Option<String>> {
    if index > 0 {
        return Ok(None);
    }
    runner.view(|tx| {
        let Some(found) = RootDescription::find(tx)? else { return Ok(None) };
        found.check(tx)?;
        Ok(Some(format!("a store's root: {}", found.root_type)))
    })
}
