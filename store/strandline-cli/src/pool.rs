//! `strandline pool`: creates, inspects, checks and copies pools.

use std::fs::File;
use std::io::{BufReader, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use strandline::Database;
use strandline_command::say;
use strandline_core::Concurrency;
use strandline_core::engine::Setup;
use strandline_core::scheme::Schemes;

use clap::ValueEnum;
use indicatif::ProgressBar;
use serde_json::json;
use strandline_core::file::{
    BackupReport, CheckReport, LogFile, OldFiles, Options, Pool, PoolInfo, RepairReport, RestoreReport,
    check, check_name, checksums_path, compare_usage, inspect, inspect_files, log_path, make_checksums,
    rename_new, repair, repair_and_cut_log, resize_log, restore,
};
use strandline_core::layout::Geometry;
use strandline_core::sync::{BLOCK_BYTES, SyncParameters};
use strandline_core::{Domain, Error};

use self::described::{Hanging, check_described, database, described};
use self::show::{show, show_check, show_dump, show_types};
use crate::rows;
use strandline_command::arguments::{DomainName, PAGE, in_units, number, size};
use strandline_command::completion::pools;
use strandline_command::output::SCHEMA;
use strandline_command::progress::{bar, bar_of_bytes, spinner};
use strandline_command::{Failure, Outcome};

mod ask;
mod described;
mod progress;
mod show;

/// Create, inspect, check and copy pools.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool info /var/lib/shop/orders.pool")]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Create(Create),
    Info(Info),
    List(ask::List),
    Get(ask::Get),
    Range(ask::Range),
    Statistics(ask::Statistics),
    Checkpoint(ask::Checkpoint),
    Check(Check),
    Dump(Dump),
    Load(Load),
    Copy(Copy),
    Backup(Backup),
    Restore(Restore),
    Checksum(Checksum),
    ResizeLog(ResizeLog),
    Recover(Recover),
    Compact(Compact),
}

// The flags for opening a pool. This is no doc comment, because clap would show one in the help of each command that takes these flags.
#[derive(clap::Args, Clone, Copy, Debug)]
struct Opening {
    /// Bytes of memory for copies of pages and old versions, 4M to 128T [default: half of the memory of the machine or
    /// container, at most 4G]
    #[arg(long, value_name = "BYTES", value_parser = size(4 << 20..=MOST_BYTES, 1))]
    memory: Option<u64>,
    /// Bytes of address space to reserve, a multiple of 4K [default: as many as the pool can come to have, as far as the
    /// system allows]
    #[arg(long, value_name = "BYTES", value_parser = size(PAGE..=MOST_BYTES, PAGE))]
    address_space: Option<u64>,
}

impl Opening {
    fn options(self) -> Options {
        Options { memory: self.memory, address_space: self.address_space, ..Options::default() }
    }
}

/// The most bytes of a pool or of its memory; a process cannot map more.
const MOST_BYTES: u64 = 1 << 47;

/// Create an empty pool in a new file, which grows as more is stored in it.
#[derive(clap::Args)]
#[command(after_help = "Examples:\n  \
    strandline pool create orders.pool\n  \
    strandline pool create /mnt/pmem/orders.pool --domain flush --size 64G")]
struct Create {
    /// The new file
    path: PathBuf,
    /// The most bytes that the pool may take, a multiple of 4K; it cannot be changed later
    #[arg(long, value_name = "BYTES", default_value = "1T", value_parser = size(PAGE..=MOST_BYTES, PAGE))]
    size: u64,
    /// Bytes to allocate on the disk immediately, at most --size [default: 1M for data]
    #[arg(long, value_name = "BYTES", value_parser = size(0..=MOST_BYTES, 1))]
    initial_size: Option<u64>,
    /// The persistence domain to open it under first; a cleanly closed pool opens under any
    #[arg(long, value_enum, default_value = "sync")]
    domain: DomainName,
    /// Logs, which is the most threads that can run transactions at a time
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = number(1..=512u64))]
    logs: u64,
    /// Bytes in each log, a multiple of 4K
    #[arg(long, value_name = "BYTES", default_value = "1M", value_parser = size(PAGE..=32 << 30, PAGE))]
    log_size: u64,
    /// A name for what the program keeps in the pool, of at most 32 bytes
    #[arg(long, value_name = "NAME", default_value = "")]
    layout_name: String,
    #[command(flatten)]
    opening: Opening,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Show what a pool is and how full it is; changes nothing.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool info /mnt/pmem/orders.pool --json")]
struct Info {
    /// The pool's file
    #[arg(add = pools())]
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Check a pool for damage; changes nothing without --repair. Exit code 1 if there is any.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool check /var/lib/shop/orders.pool\n\n\
    The command does not need the program: a pool describes its types. It checks all tables, collections and values that \
    can be reached from the root. `lost` is memory that is allocated and cannot be reached, which is no damage.\n\n\
    --repair repairs what it can repair with certainty and without losing anything, in a copy that replaces the pool. The \
    files as they were stay beside it, with .damaged in their names. If anything else is damaged, it changes nothing, says \
    so and exits with 1.\n\n\
    --repair --cut-log: if a block in the middle of the log is damaged, drops all transactions from there on, and says how \
    many. They are lost. Restore a backup instead if there is one.")]
struct Check {
    /// The pool's file
    #[arg(add = pools())]
    path: PathBuf,
    /// Repair the pool if that loses nothing
    #[arg(long)]
    repair: bool,
    /// With --repair: drop the transactions behind a damaged block of the log
    #[arg(long, requires = "repair")]
    cut_log: bool,
    #[command(flatten)]
    opening: Opening,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Show the roots, their types and the heap's blocks by size, or with --json everything in the pool; changes nothing.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool dump orders.db --json > orders.jsonl\n\n\
    --json, of a database: for each table a line that describes it, then a line for each row, {\"key\": …, \"value\": …} or, \
    of a queue, {\"value\": …}. `strandline pool load` reads it.\n\n\
    --json, of a pool with another root: a line with the root's type and all types in it; then each value, {\"at\": \
    \"0x1040\", \"type\": \"Shop\", \"value\": …}, beginning with the root. Pointers and collections in a value are addresses, \
    {\"at\": \"0x1080\"}; what is there follows, once, after the value that refers to it first. A collection is a line {\"at\": \
    …, \"type\": …} with its rows after it. It cannot be loaded.")]
struct Dump {
    /// The pool's file
    #[arg(add = pools())]
    path: PathBuf,
    /// Print everything that can be reached from the root, a line of JSON each
    #[arg(long)]
    json: bool,
    /// Print only this table of a database
    #[arg(long, value_name = "NAME", requires = "json")]
    table: Option<String>,
    /// Leave out the transactions behind a damaged block of the log, which nothing else can read
    #[arg(long, requires = "json")]
    cut_log: bool,
    #[command(flatten)]
    opening: Opening,
}

/// Store the rows that `dump --json` printed in a database, which is created if it does not exist.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool load copy.db orders.jsonl\n\n\
    Tables that do not exist are created, for the types of the program that wrote them. Rows with the same keys are \
    replaced. If a table has fewer or more rows than its first line says, the command fails, and leaves no new database.")]
struct Load {
    /// The database's file
    #[arg(add = pools())]
    path: PathBuf,
    /// The rows; `-`, or nothing, for standard input
    rows: Option<PathBuf>,
    #[command(flatten)]
    opening: Opening,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Copy the tables of a database to a new one, packed and with new logs.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool copy orders.db packed.db\n\n\
    Unlike `backup`, which copies the pool as it is stored, it stores every row again. It counts the rows of both \
    databases, and leaves no new one if the counts differ.")]
struct Copy {
    /// The database's file
    #[arg(add = pools())]
    path: PathBuf,
    /// The new file
    to: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Copy a pool to a new, cleanly closed one; changes nothing of it.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool backup orders.pool orders-2026-11-21.pool\n\n\
    The pool is only read, and may be in a place where nothing can be written: its log is replayed in the copy. A program \
    that has the pool open makes the copy itself, if it answers requests (`Database::serve_control`).")]
struct Backup {
    /// The pool's file
    #[arg(add = pools())]
    path: PathBuf,
    /// The new file
    to: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Replace a pool that no program has open by a copy of a backup.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool restore orders-2026-11-21.pool orders.pool\n\n\
    The backup is checked first, and does not change. The files of the old pool are renamed: .replaced is appended to the \
    pool's name, unless --replace removes them. If the command is killed, either the old pool or the new one is there, or \
    opening it fails until the command is run again.")]
struct Restore {
    /// The backup's file
    #[arg(add = pools())]
    backup: PathBuf,
    /// The pool's file, which need not exist
    #[arg(add = pools())]
    pool: PathBuf,
    /// Remove the old pool's files
    #[arg(long)]
    replace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Give a cleanly closed pool checksums of its pages, which checks and backups compare from then on.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool checksum /var/lib/shop/orders.pool\n\n\
    The file beside the pool has its name and `.sums`. Every program that opens the pool in the sync domain keeps it \
    current. If there are checksums already, new ones replace them. To stop keeping checksums, delete the file while no \
    program has the pool open.")]
struct Checksum {
    /// The pool's file
    #[arg(add = pools())]
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Give a cleanly closed pool a larger or smaller log for the sync domain.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool resize-log /var/lib/shop/orders.pool 16M\n\n\
    A log grows by itself, up to 64 MB unless the program sets another limit. Only this command makes it smaller.")]
struct ResizeLog {
    /// The pool's file
    #[arg(add = pools())]
    path: PathBuf,
    /// Bytes in the new log
    #[arg(value_name = "BYTES", value_parser = size(3 * BLOCK_BYTES..=1 << 40, BLOCK_BYTES))]
    size: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Recover a pool that was not closed, and close it, so that every program can open it under any domain.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool recover /mnt/pmem/orders.pool\n\n\
    Programs recover their pools when they open them. This command is for pools that were written under a scheme which \
    programs do not have: those of `strandline bench` or of the crash checker.")]
struct Recover {
    /// The pool's file
    #[arg(add = pools())]
    path: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Release the disk space of free chunks to the file system.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool compact /var/lib/shop/orders.pool\n\n\
    The file then ends after its last data, with holes before that: `du` shows the space that it takes. A log file that is \
    longer than a new one is replaced by a new one. A program compacts its own pool while transactions run: Pool::compact.")]
struct Compact {
    /// The pool's file
    #[arg(add = pools())]
    path: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs the subcommand. `schemes` are those whose pools it can open.
///
/// # Errors
/// Returns an error if the pool cannot be created or read.
pub fn run(arguments: &Arguments, schemes: Schemes) -> Result<Outcome, Failure> {
    match &arguments.what {
        What::Check(arguments) => return arguments.run(schemes),
        What::Dump(arguments) if arguments.json => return arguments.run_json(schemes),
        What::Dump(arguments) => {
            show_dump(&check(&arguments.path, schemes)?);
            show_types(&arguments.path, arguments.opening, schemes)?;
        }
        What::Create(arguments) => arguments.run(schemes)?,
        What::Info(arguments) => {
            let mut info = inspect(&arguments.path, schemes)?;
            ask::add_usage(&arguments.path, &mut info);
            show(&info, arguments.json);
        }
        What::List(arguments) => arguments.run(schemes)?,
        What::Get(arguments) => return arguments.run(schemes),
        What::Range(arguments) => arguments.run(schemes)?,
        What::Statistics(arguments) => arguments.run()?,
        What::Checkpoint(arguments) => arguments.run()?,
        What::Load(arguments) => arguments.run(schemes)?,
        What::Copy(arguments) => arguments.run(schemes)?,
        What::Backup(arguments) => arguments.run(schemes)?,
        What::Restore(arguments) => arguments.run(schemes)?,
        What::Checksum(Checksum { path, json }) => {
            let progress = progress::of_reads(size_of(path));
            progress.during(|| make_checksums(path))?;
            let sums = checksums_path(path);
            print(*json, json!({"checksums": sums}), || format!("the checksums are in {}", sums.display()));
        }
        What::ResizeLog(ResizeLog { path, size, json }) => {
            let blocks = size / BLOCK_BYTES;
            resize_log(path, blocks)?;
            print(*json, json!({"log_blocks": blocks, "block_bytes": BLOCK_BYTES}), || {
                format!("the log has {blocks} blocks of {BLOCK_BYTES} bytes")
            });
        }
        What::Recover(Recover { path, opening, json }) => {
            let pool = open(path, *opening, schemes)?;
            let replayed = pool.recovery().replayed();
            pool.close()?;
            print(*json, json!({"replayed": replayed}), || {
                format!("{replayed} transactions replayed; the pool is closed")
            });
        }
        What::Compact(arguments) => arguments.run(schemes)?,
    }
    Ok(Outcome::Success)
}

/// Prints `object` with the format's version, or `text`.
fn print(json: bool, mut object: serde_json::Value, text: impl FnOnce() -> String) {
    if json {
        object["schema"] = SCHEMA.into();
        say!("{object:#}");
    } else {
        say!("{}", text());
    }
}

/// Returns the size of a file, or 0 if it cannot be read; the caller's work on the file then reports the error.
fn size_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |found| found.len())
}

impl Create {
    fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        if let Some(initial) = self.initial_size.filter(|&initial| initial > self.size) {
            return Err(Failure::Usage(format!(
                "--initial-size {} is more than --size {}: choose a smaller one, or a larger --size",
                in_units(initial),
                in_units(self.size)
            )));
        }
        let options = Options {
            geometry: Geometry {
                size: self.size,
                logs: self.logs,
                log_bytes: self.log_size,
                ..Geometry::default()
            },
            layout_name: self.layout_name.clone(),
            domain: self.domain.domain(0),
            initial_size: self.initial_size,
            ..self.opening.options()
        };
        Pool::create(&self.path, &options)?.close()?;
        show(&inspect(&self.path, schemes)?, self.json);
        Ok(())
    }
}

/// Checks a pool's files. Without checksums, this reads only a small part of them.
fn look(path: &Path, schemes: Schemes) -> Result<CheckReport, Failure> {
    let bytes = if checksums_path(path).exists() { size_of(path) } else { 0 };
    Ok(progress::of_reads(bytes).during(|| check(path, schemes))?)
}

impl Check {
    fn run(&self, schemes: Schemes) -> Result<Outcome, Failure> {
        let repaired = if self.repair { repaired(self, schemes)? } else { Some(RepairReport::default()) };
        let Some(repaired) = repaired else { return Ok(Outcome::Finding) };
        let mut report = look(&self.path, schemes)?;
        let hanging = match report.damage.is_empty() {
            true => check_described(self, &mut report, schemes)?,
            false => Hanging::default(),
        };
        show_check(&report, &hanging, &repaired, self.json)
    }
}

impl Dump {
    fn run_json(&self, schemes: Schemes) -> Result<Outcome, Failure> {
        let mut out = BufWriter::new(std::io::stdout().lock());
        let mut options = options_of(&self.path, self.opening, schemes)?;
        options.sync.cut_damaged_log = self.cut_log;
        // If the rows go to the terminal, a progress bar would be drawn among them.
        let bar = if std::io::stdout().is_terminal() { ProgressBar::hidden() } else { bar(0, "rows") };
        let dumped = match &self.table {
            Some(table) => database(&self.path, &options)
                .and_then(|database| rows::dump_table(&database, table, &mut out, &bar).map(|()| Vec::new())),
            None => described(&self.path, &options).and_then(|store| rows::dump(&store, &mut out, &bar)),
        };
        let damage = match dumped {
            Err(locked) if ask::is_locked(&locked) => {
                drop(out);
                return ask::dump(&self.path, self.table.as_ref(), locked).map(|()| Outcome::Success);
            }
            dumped => dumped?,
        };
        bar.finish_and_clear();
        out.flush().map_err(Failure::output)?;
        for damage in &damage {
            eprintln!("damage  {damage}");
        }
        Ok(if damage.is_empty() { Outcome::Success } else { Outcome::Finding })
    }
}

impl Load {
    fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        let load_into = |path: &Path| {
            let options = options_of(path, self.opening, schemes)?;
            match &self.rows {
                Some(file) if file.as_os_str() != "-" => {
                    let opened = File::open(file).map_err(Failure::io(format!("open {}", file.display())))?;
                    let progress = bar_of_bytes(opened.metadata().map_or(0, |about| about.len()));
                    rows::load(path, &options, BufReader::new(progress.wrap_read(opened)), &progress)
                }
                _ => rows::load(path, &options, std::io::stdin().lock(), &spinner()),
            }
        };
        let exists = self.path.exists();
        let moved = if exists { load_into(&self.path)? } else { make_new(&self.path, load_into)? };
        print_moved(self.json, moved);
        Ok(())
    }
}

impl Copy {
    fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        let moved = make_new(&self.to, |to| {
            let db = database(&self.path, &options_of(&self.path, self.opening, schemes)?)?;
            let to = Database::open_single_writer(to, &self.opening.options())?;
            let bar = bar(0, "rows");
            let copied = rows::copy(&db, &to, &bar)?;
            bar.finish_and_clear();
            to.close()?;
            Ok(copied)
        })?;
        print_moved(self.json, moved);
        Ok(())
    }
}

/// Prints how many tables and rows were stored.
fn print_moved(json: bool, (tables, rows): (u64, u64)) {
    print(json, json!({"tables": tables, "rows": rows}), || format!("{rows} rows of {tables} tables"));
}

impl Backup {
    fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        let progress = progress::of_reads(size_of(&self.path));
        let object = progress.during(|| ask::backup(&self.path, &self.to, schemes))?;
        let (heap_bytes, log_blocks) = (&object["heap_bytes"], &object["log_blocks"]);
        let text = format!("{heap_bytes} bytes and {log_blocks} log blocks copied");
        print(self.json, object, || text);
        Ok(())
    }
}

impl Restore {
    fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        let report = look(&self.backup, schemes)?;
        if let Some(damage) = report.damage.first() {
            let name = self.backup.display();
            let what = format!("{damage}; it is the backup {name}, and the pool stays as it is");
            return Err(Error::damaged(what).into());
        }
        let old_files = if self.replace { OldFiles::Remove } else { OldFiles::Keep };
        let RestoreReport { kept, copied, .. } = progress::of_reads(size_of(&self.backup))
            .during(|| restore(&self.backup, &self.pool, old_files, schemes))?;
        let BackupReport { heap_bytes, log_blocks, replayed, .. } = copied;
        let object = json!({
            "heap_bytes": heap_bytes, "log_blocks": log_blocks, "replayed": replayed, "kept": kept,
        });
        print(self.json, object, || {
            let kept = kept.iter().map(|kept| format!("kept  {}\n", kept.display()));
            format!(
                "{}{heap_bytes} bytes restored, {replayed} transactions replayed",
                kept.collect::<String>()
            )
        });
        Ok(())
    }
}

impl Compact {
    fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        // Opening and closing the pool changes its size on disk too, so the size is measured before and after.
        let disk_bytes = || inspect_files(&self.path, schemes).map(|info| info.space.disk_bytes);
        let disk_bytes_before = disk_bytes()?;
        let pool = open(&self.path, self.opening, schemes)?;
        let before = pool.usage()?;
        let bar = bar(0, "chunks");
        pool.compact_with(|done, all| {
            bar.set_length(all);
            bar.set_position(done);
        })?;
        bar.finish_and_clear();
        let after = pool.usage()?;
        pool.close()?;
        compare_usage(&before, &after)?;
        // The new log has the initial size. It grows again if that is useful.
        let new_log = SyncParameters::default().initial_ring_blocks;
        match inspect(&self.path, schemes)?.log {
            LogFile::Own { ring_blocks } if ring_blocks > new_log => resize_log(&self.path, new_log)?,
            _ => {}
        }
        let (before, after) = (disk_bytes_before, disk_bytes()?);
        print(self.json, json!({"disk_bytes_before": before, "disk_bytes": after}), || {
            format!("the pool's file takes {after} bytes of the disk; before, {before}")
        });
        Ok(())
    }
}

/// Makes a database at `to`, which must not exist. `make` creates and closes the database in a temporary folder beside `to`, and this function then
/// moves it to `to`. Its log is not moved: a cleanly closed pool opens without one.
fn make_new<T>(to: &Path, make: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
    let exists = || Failure::Usage(format!("there is something at {} already", to.display()));
    check_name(to)?;
    if to.exists() || log_path(to).exists() {
        return Err(exists());
    }
    let beside = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = || format!("make a temporary folder in {}", beside.display());
    // The folder's name has room for only a part of the database's name.
    let name: String = to.file_name().unwrap_or_default().to_string_lossy().chars().take(50).collect();
    let prefix = format!(".strandline-{name}-");
    remove_abandoned_folders(beside, &prefix);
    let folder =
        tempfile::Builder::new().prefix(&prefix).tempdir_in(beside).map_err(Failure::io(cannot()))?;
    // The lock tells other processes that the folder is in use.
    let lock = File::open(folder.path()).map_err(Failure::io(cannot()))?;
    lock.try_lock().map_err(|error| Failure::io(cannot())(error.into()))?;
    let partial = folder.path().join("partial");
    let made = make(&partial)?;
    if rename_new(&partial, to)? { Ok(made) } else { Err(exists()) }
}

/// Removes the temporary folders that killed processes left when they made a database of this name.
fn remove_abandoned_folders(beside: &Path, prefix: &str) {
    let Ok(entries) = std::fs::read_dir(beside) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_string_lossy().strip_prefix(prefix).is_some_and(|random| random.len() == 6)
            && let Ok(folder) = File::open(entry.path())
            && folder.try_lock().is_ok()
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the options that open a database for writing, or create it if it does not exist.
fn options_of(path: &Path, opening: Opening, schemes: Schemes) -> Result<Options, Failure> {
    if !path.exists() {
        return Ok(opening.options());
    }
    Ok(options_under(Domain::Sync, inspect_files(path, schemes)?, opening))
}

/// Returns the options that open this pool: under the domain that wrote it, or under `unused` if it was closed cleanly, since any domain can then
/// open it.
fn options_under(unused: Domain, info: PoolInfo, opening: Opening) -> Options {
    let used = info.in_use.and_then(|name| DomainName::from_str(name, false).ok());
    let domain = used.map_or(unused, |name| name.domain(0));
    Options { layout_name: info.header.layout_name, domain, assume_persistent: true, ..opening.options() }
}

/// Opens a pool under the domain that wrote it.
fn open(path: &Path, opening: Opening, schemes: Schemes) -> Result<Pool<Concurrency>, Failure> {
    // Under `Process`, no log file is created beside the pool, but checksums are not kept up to date.
    let unused = if checksums_path(path).exists() { Domain::Sync } else { Domain::Process };
    let options = options_under(unused, inspect(path, schemes)?, opening);
    Ok(Setup { control: Concurrency::Stm, schemes }.open(path, &options)?)
}

/// Repairs a pool. Returns `None` if a repair would lose something.
fn repaired(arguments: &Check, schemes: Schemes) -> Result<Option<RepairReport>, Failure> {
    let repair = if arguments.cut_log { repair_and_cut_log } else { repair };
    match repair(&arguments.path, schemes) {
        Ok(report) => Ok(Some(report)),
        Err(error @ Error::Irreparable { .. }) => {
            if arguments.json {
                say!("{:#}", json!({"schema": SCHEMA, "irreparable": format!("{error:#}")}));
            } else {
                say!("{error:#}");
            }
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}
