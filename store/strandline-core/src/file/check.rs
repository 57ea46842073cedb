//! Looking a pool over for damage, and at what it holds. Nothing is changed.

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

/// What hangs from a root word.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RootReport {
    /// The root's number, from 0 to 7.
    pub index: u64,
    /// The address that it holds.
    pub address: u64,
    /// What is there, as far as its first words say.
    pub what: String,
    /// The first eight words of it; fewer where the heap ends.
    pub words: Vec<u64>,
}

/// What a look at a pool found.
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
    /// Header, state, recovery; `None` where they are damaged.
    pub info: Option<PoolInfo>,
    /// What hangs from the roots that are in use.
    pub roots: Vec<RootReport>,
    /// The heap's small blocks by size, with what compaction would give back.
    pub classes: Vec<ClassUsage>,
    /// What is damaged; empty if nothing is.
    pub damage: Vec<String>,
}

/// So many places whose checksums do not fit are listed.
const MOST_RUNS: usize = 20;

/// Checks the pool at `path`: header, log header, checkpoint slots, sizes and checksums; that its logs can be read and replayed (in a private copy);
/// the heap's table and bitmaps; that every root leads to a block of the heap; the type of a store's root; keys, hashes and chains of a key-value
/// store that hangs from a root; that all pages are what was written there, where the pool has checksums.
///
/// # Errors
/// Returns an error if the file cannot be read, is not a pool, or is in use. Damage is in the report.
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
    // In the `Sync` domain nobody needs the directory; the next domain may.
    scheme::logs(&pool.native_view()?)?;
    report.classes = heap::classes(&pool.native_view()?)?;
    let mut worker = pool.worker()?;
    for index in 0..ROOTS {
        report_root(&mut worker, index, pool.layout().root(index), report)?;
    }
    Ok(())
}

/// Reports damage in checkpoint slots and log of the pool that was opened at `path`.
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

/// Reports the pages that do not fit their checksums.
fn check_pages(pool: &Pool, info: &PoolInfo, report: &mut CheckReport) -> Result<()> {
    match checksums::find_own(pool.path(), &pool.file, &info.header, true) {
        Ok(None) => {}
        Ok(Some(file)) => report.damage.extend(compare(pool, &checksums::device(&pool.file, &file))?),
        Err(error @ Error::ChecksumFile { .. }) => report.damage.push(format!("{error:#}")),
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Reports what the root number `index` refers to, whose word is at `root`, and its damage.
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
        _ => "nothing that this library made".to_owned(),
    };
    if what == KEY_VALUE_STORE
        && let Err(error) = worker.view(|tx| KeyValueStore::open(tx, root)?.check(tx))
    {
        report.damage.push(format!("root {index}: {error:#}"));
    }
    report.roots.push(RootReport { index, address: at.offset(), what, words });
    Ok(())
}

/// Damage anywhere in the log of a pool that was not closed.
fn damaged_log(pool: &Pool, device: &FileDevice, info: &PoolInfo) -> Result<Option<String>> {
    if info.in_use.is_none() {
        // Nothing in it is needed.
        return Ok(None);
    }
    let read = |error| cannot("read", &log_path(pool.path()))(error);
    let own = sync::log_of_heap(&pool.file, info.header.uuid.as_bytes()).map_err(read)?;
    let ring = sync::read_log_header(device, &log_path(pool.path()))?.ring;
    let Some(own) = own else { return Ok(None) };
    Ok(sync::damaged_log(device, &own, ring).map_err(read)?.map(|damage| damage.to_string()))
}

/// What pages are not as they were written, by their checksums.
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
    let rest = (more > 0).then(|| format!("and so are {more} other places"));
    Ok(said.chain(rest).collect())
}

/// What a store's root in root word `index` is; `None` if there is none.
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
