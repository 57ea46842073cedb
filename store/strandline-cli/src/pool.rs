//! `strandline pool`: creates pools and looks at them.

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use strandline::Database;
use strandline_command::say;
use strandline_core::Concurrency;
use strandline_core::engine::Setup;
use strandline_core::scheme::Schemes;

use clap::ValueEnum;
use serde_json::json;
use strandline_core::file::{
    LogFile, OldFiles, Options, Pool, PoolInfo, RepairReport, check, check_name, checksums_path,
    compare_usage, inspect, inspect_files, log_path, make_checksums, rename_new, repair, repair_and_cut_log,
    resize_log, restore,
};
use strandline_core::layout::Geometry;
use strandline_core::sync::{BLOCK_BYTES, SyncParameters};
use strandline_core::{Domain, Error};

use self::described::{Hanging, check_described, database, described};
use self::show::{show, show_check, show_dump, show_types};
use crate::rows;
use strandline_command::arguments::{DomainName, bytes};
use strandline_command::output::SCHEMA;
use strandline_command::{Failure, Outcome};

mod ask;
mod described;
mod show;

/// Create a pool, or look at one.
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

// How a pool is opened. A doc comment would become that of each command that takes this.
#[derive(clap::Args, Clone, Copy, Debug)]
struct Opening {
    /// Bytes of memory for copies of pages and old versions (K, M, G allowed), at least 4M; by default half of what the machine or the container has, at
    /// most 4 GB
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    memory: Option<u64>,
    /// Bytes of address space to reserve (K, M, G, T allowed), a multiple of 4K; by default as many as the pool can come to have, as far as the system lets
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    address_space: Option<u64>,
}

impl Opening {
    fn options(self) -> Options {
        Options { memory: self.memory, address_space: self.address_space, ..Options::default() }
    }
}

/// Create an empty pool in a new file, which grows as more is stored in it.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool create /mnt/pmem/orders.pool --domain flush")]
struct Create {
    /// The new file
    path: PathBuf,
    /// The most bytes that the pool may take (K, M, G, T allowed); fixed from then on
    #[arg(long, default_value = "1T", value_parser = bytes)]
    size: u64,
    /// Bytes to take from the disk at once (K, M, G, T allowed)
    #[arg(long, value_parser = bytes)]
    initial_size: Option<u64>,
    /// The persistence domain to open it under first; a cleanly closed pool opens under any
    #[arg(long, value_enum, default_value = "sync")]
    domain: DomainName,
    /// Logs, and so the most threads that can run transactions at a time
    #[arg(long, default_value_t = 16)]
    logs: u64,
    /// Bytes in each log (K, M, G allowed)
    #[arg(long, default_value = "1M", value_parser = bytes)]
    log_size: u64,
    /// Names what the program keeps in the pool
    #[arg(long, default_value = "")]
    layout_name: String,
    #[command(flatten)]
    opening: Opening,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Show what a pool is and how full; changes nothing.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool info /mnt/pmem/orders.pool --json")]
struct Info {
    /// The pool's file
    path: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Look a pool over for damage; changes nothing unless told to. Exit code 1 if there is any.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool check /var/lib/shop/orders.pool\n\n\
    It needs no program: a pool says of which types it is. All tables, collections and values that can be reached from\n\
    the root are looked over. `lost` is memory that is allocated and cannot be reached: no damage.\n\n\
    --repair cures what can be cured with certainty and without losing anything, in a copy that takes the pool's\n\
    place; the files as they were stay beside it, with .damaged in their names. If anything else is damaged it\n\
    changes nothing, says so and exits with 1.\n\n\
    --repair --cut-log: where a block in the middle of the log is damaged, drops all transactions from there on, and\n\
    says how many. They are lost. Restore a backup instead if there is one.")]
struct Check {
    /// The pool's file
    path: PathBuf,
    /// Repair it, if that loses nothing
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

/// Show what hangs from the roots, their types, and the heap's blocks by size; all that is in the pool as JSON. Changes nothing.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool dump /var/lib/shop/orders.db --json > orders.jsonl\n\n\
    --json, of a database: for each table a line that describes it, then a line for each row, {\"key\": …, \"value\": …}\n\
    or, of a queue, {\"value\": …}. `strandline pool load` reads it.\n\n\
    --json, of a pool with another root: a line with the root's type and all types in it; then each value, {\"at\":\n\
    \"0x1040\", \"type\": \"Shop\", \"value\": …}, beginning with the root. Pointers and collections in a value are addresses,\n\
    {\"at\": \"0x1080\"}; what is there follows, once, behind the value in which it is met first. A collection is a line\n\
    {\"at\": …, \"type\": …} with its rows behind it. It cannot be loaded.")]
struct Dump {
    /// The pool's file
    path: PathBuf,
    /// Print all that hangs from the root, a line of JSON each
    #[arg(long)]
    json: bool,
    /// Only this table of a database
    #[arg(long, requires = "json")]
    table: Option<String>,
    /// Leave out the transactions behind a damaged block of the log, which nothing else can read
    #[arg(long, requires = "json")]
    cut_log: bool,
    #[command(flatten)]
    opening: Opening,
}

/// Put the rows that `dump --json` has printed into a database, which is made if it is not there.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool load copy.db orders.jsonl\n\n\
    Tables that are not there are made, for the types of the program that wrote them; rows with the same keys are\n\
    replaced. Where a table has fewer rows or more than its first line says, it fails; no new database is left then.")]
struct Load {
    /// The database's file
    path: PathBuf,
    /// The rows; `-`, or nothing, for standard input
    rows: Option<PathBuf>,
    #[command(flatten)]
    opening: Opening,
}

/// Copy the tables of a database to a new one, packed and with new logs.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool copy orders.db packed.db\n\n\
    Unlike `backup`, which copies the pool as it is stored, it stores every row again. It counts the rows of both\n\
    databases, and leaves no new one where they differ.")]
struct Copy {
    /// The database's file
    path: PathBuf,
    /// The new file
    to: PathBuf,
    #[command(flatten)]
    opening: Opening,
}

/// Copy a pool to a new, cleanly closed one; changes nothing of it.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool backup orders.pool orders-2026-11-21.pool\n\n\
    The pool is only read, and may be in a place where nothing can be written: what its log holds is replayed in the\n\
    copy. A program copies its own pool while transactions run: Pool::backup.")]
struct Backup {
    /// The pool's file
    path: PathBuf,
    /// The new file
    to: PathBuf,
}

/// Put a copy of a backup in the place of a pool that no program has open.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool restore orders-2026-11-21.pool orders.pool\n\n\
    The backup is checked first, and stays as it is. The files of the old pool get other names, .replaced appended\n\
    to the pool's, unless --replace removes them. If the command is killed, the old pool or the new one is there, or\n\
    opening it fails until the command was run again.")]
struct Restore {
    /// The backup's file
    backup: PathBuf,
    /// The pool's file, which need not exist
    pool: PathBuf,
    /// Remove the old pool's files
    #[arg(long)]
    replace: bool,
}

/// Give a pool that was closed cleanly checksums of its pages, which checks and backups compare them with from then on.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool checksum /var/lib/shop/orders.pool\n\n\
    They lie beside the pool, `.sums` appended to its name, and are kept by every program that opens the pool in the\n\
    sync domain. If there are some already they are made anew, from what the pool holds now. To be rid of them,\n\
    delete the file while no program has the pool open.")]
struct Checksum {
    /// The pool's file
    path: PathBuf,
}

/// Give a pool that was closed cleanly a larger or smaller log for the sync domain.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool resize-log /var/lib/shop/orders.pool 16M\n\n\
    A log becomes larger by itself, up to 64 MB unless the program says otherwise, and smaller only so.")]
struct ResizeLog {
    /// The pool's file
    path: PathBuf,
    /// Bytes in the new log (K, M, G, T allowed)
    #[arg(value_parser = bytes)]
    size: u64,
}

/// Recover a pool that was not closed, and close it: then every program can open it, under any domain.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool recover /mnt/pmem/orders.pool\n\n\
    Programs recover their pools themselves when they open them. This is for pools that a scheme has left which\n\
    they do not have: one of `strandline bench` or of the crash checker.")]
struct Recover {
    /// The pool's file
    path: PathBuf,
    #[command(flatten)]
    opening: Opening,
}

/// Give the disk space of free chunks back to the file system.
#[derive(clap::Args)]
#[command(after_help = "Example: strandline pool compact /var/lib/shop/orders.pool\n\n\
    The file then ends where there is something in it, with holes before that: `du` shows what it takes. A log file\n\
    that has become longer than a new one is made anew. A program compacts its own pool while transactions run:\n\
    Pool::compact.")]
struct Compact {
    /// The pool's file
    path: PathBuf,
    #[command(flatten)]
    opening: Opening,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it; `schemes`: those whose pools it can open.
///
/// # Errors
/// The pool cannot be created or read.
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
        What::Backup(Backup { path, to }) => {
            let (heap_bytes, log_blocks) = ask::backup(path, to, schemes)?;
            say!("{heap_bytes} bytes and {log_blocks} log blocks copied");
        }
        What::Restore(arguments) => arguments.run(schemes)?,
        What::Checksum(Checksum { path }) => {
            make_checksums(path)?;
            say!("the checksums are in {}", checksums_path(path).display());
        }
        What::ResizeLog(ResizeLog { path, size }) => {
            let blocks = size / BLOCK_BYTES;
            resize_log(path, blocks)?;
            say!("the log has {blocks} blocks of {BLOCK_BYTES} bytes");
        }
        What::Recover(arguments) => {
            let pool = open(&arguments.path, arguments.opening, schemes)?;
            let replayed = pool.recovery().replayed();
            pool.close()?;
            say!("{replayed} transactions replayed; the pool is closed");
        }
        What::Compact(arguments) => arguments.run(schemes)?,
    }
    Ok(Outcome::Success)
}

impl Create {
    fn run(&self, schemes: Schemes) -> Result<(), Failure> {
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

impl Check {
    fn run(&self, schemes: Schemes) -> Result<Outcome, Failure> {
        let repaired = if self.repair { repaired(self, schemes)? } else { Some(RepairReport::default()) };
        let Some(repaired) = repaired else { return Ok(Outcome::Finding) };
        let mut report = check(&self.path, schemes)?;
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
        let dumped = match &self.table {
            Some(table) => database(&self.path, &options)
                .and_then(|database| rows::dump_table(&database, table, &mut out).map(|()| Vec::new())),
            None => described(&self.path, &options).and_then(|store| rows::dump(&store, &mut out)),
        };
        let damage = match dumped {
            Err(locked) if ask::is_locked(&locked) => {
                drop(out);
                return ask::dump(&self.path, self.table.as_ref(), locked).map(|()| Outcome::Success);
            }
            dumped => dumped?,
        };
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
                    rows::load(path, &options, BufReader::new(opened))
                }
                _ => rows::load(path, &options, std::io::stdin().lock()),
            }
        };
        let exists = self.path.exists();
        let (tables, rows) = if exists { load_into(&self.path)? } else { make_new(&self.path, load_into)? };
        say!("{rows} rows of {tables} tables");
        Ok(())
    }
}

impl Copy {
    fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        let (tables, rows) = make_new(&self.to, |to| {
            let db = database(&self.path, &options_of(&self.path, self.opening, schemes)?)?;
            let to = Database::open_single_writer(to, &self.opening.options())?;
            let copied = rows::copy(&db, &to)?;
            to.close()?;
            Ok(copied)
        })?;
        say!("{rows} rows of {tables} tables");
        Ok(())
    }
}

impl Restore {
    fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        let report = check(&self.backup, schemes)?;
        if let Some(damage) = report.damage.first() {
            let name = self.backup.display();
            let what = format!("{damage}; it is the backup {name}, and the pool stays as it is");
            return Err(Error::damaged(what).into());
        }
        let old_files = if self.replace { OldFiles::Remove } else { OldFiles::Keep };
        let report = restore(&self.backup, &self.pool, old_files, schemes)?;
        for kept in &report.kept {
            say!("kept  {}", kept.display());
        }
        let copied = &report.copied;
        say!("{} bytes restored, {} transactions replayed", copied.heap_bytes, copied.replayed);
        Ok(())
    }
}

impl Compact {
    fn run(&self, schemes: Schemes) -> Result<(), Failure> {
        // Opening and closing the pool changes what it takes, too.
        let disk_bytes = || inspect_files(&self.path, schemes).map(|info| info.space.disk_bytes);
        let disk_bytes_before = disk_bytes()?;
        let pool = open(&self.path, self.opening, schemes)?;
        let before = pool.usage()?;
        pool.compact()?;
        let after = pool.usage()?;
        pool.close()?;
        compare_usage(&before, &after)?;
        // It grows again where that is of use.
        let new_log = SyncParameters::default().initial_ring_blocks;
        match inspect(&self.path, schemes)?.log {
            LogFile::Own { ring_blocks } if ring_blocks > new_log => resize_log(&self.path, new_log)?,
            _ => {}
        }
        let (before, after) = (disk_bytes_before, disk_bytes()?);
        if self.json {
            say!("{:#}", json!({"schema": SCHEMA, "disk_bytes_before": before, "disk_bytes": after}));
        } else {
            say!("the pool's file takes {after} bytes of the disk; before, {before}");
        }
        Ok(())
    }
}

/// Makes a database at `to`, where there must be none. `make` makes and closes it in a temporary folder beside `to`, from which it is moved
/// when it is complete. Its log stays behind, without which a pool that was closed opens.
fn make_new<T>(to: &Path, make: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<T, Failure> {
    let exists = || Failure::Usage(format!("there is something at {} already", to.display()));
    check_name(to)?;
    if to.exists() || log_path(to).exists() {
        return Err(exists());
    }
    let beside = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let cannot = || format!("make a temporary folder in {}", beside.display());
    // As much of the name as a name has room for.
    let name: String = to.file_name().unwrap_or_default().to_string_lossy().chars().take(50).collect();
    let prefix = format!(".strandline-{name}-");
    remove_abandoned_folders(beside, &prefix);
    let folder =
        tempfile::Builder::new().prefix(&prefix).tempdir_in(beside).map_err(Failure::io(cannot()))?;
    // While it is locked it is in use.
    let lock = File::open(folder.path()).map_err(Failure::io(cannot()))?;
    lock.try_lock().map_err(|error| Failure::io(cannot())(error.into()))?;
    let partial = folder.path().join("partial");
    let made = make(&partial)?;
    if rename_new(&partial, to)? { Ok(made) } else { Err(exists()) }
}

/// Removes the temporary folders in which killed processes were making a database of this name.
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

/// How a database is opened to be written: as a new one, if there is none.
fn options_of(path: &Path, opening: Opening, schemes: Schemes) -> Result<Options, Failure> {
    if !path.exists() {
        return Ok(opening.options());
    }
    Ok(options_under(Domain::Sync, inspect_files(path, schemes)?, opening))
}

/// How this pool is opened: under the domain that wrote it, or under `unused` if it was closed cleanly, which any domain opens.
fn options_under(unused: Domain, info: PoolInfo, opening: Opening) -> Options {
    let used = info.in_use.and_then(|name| DomainName::from_str(name, false).ok());
    let domain = used.map_or(unused, |name| name.domain(0));
    Options { layout_name: info.header.layout_name, domain, assume_persistent: true, ..opening.options() }
}

/// Opens a pool under the domain that wrote it.
fn open(path: &Path, opening: Opening, schemes: Schemes) -> Result<Pool<Concurrency>, Failure> {
    // `Process` makes no log file beside it, but does not keep checksums.
    let unused = if checksums_path(path).exists() { Domain::Sync } else { Domain::Process };
    let options = options_under(unused, inspect(path, schemes)?, opening);
    Ok(Setup { control: Concurrency::Stm, schemes }.open(path, &options)?)
}

/// Repairs a pool; `None` if something would be lost.
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
