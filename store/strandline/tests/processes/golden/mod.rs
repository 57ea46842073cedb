//! Golden pools: pools that earlier versions have written still open, or are refused, and none of their data is lost or changed.
//!
//! `tests/golden` has a folder for each version of the format, and in it one for each kind of pool: closed, or killed during the operation that
//! [`KINDS`] names. A version that changes the format writes its own pools:
//!
//! ```text
//! cargo test -p strandline --test processes golden::write -- --ignored
//! ```
//!
//! Files of pools are sparse. Only the lines of 64 bytes that are not all zeros are kept, each after its number, and before them the length of the
//! file.

mod content;

use std::path::{Path, PathBuf};

use content::Pass;
use strandline::{Database, Result};
use strandline_core::layout::Geometry;
use strandline_core::scheme::Schemes;
use strandline_core::sync::SyncParameters;
use strandline_core::{Domain, Error, Options};

/// The oldest version of the format that can still be opened.
const OLDEST: u64 = 8;
const LINE: usize = 64;
/// The environment variable that tells a process which kind of pool to write.
const KIND: &str = "STRANDLINE_GOLDEN_KIND";
/// The process writes this before the call at which it is killed.
const READY: &[u8] = b"ready\n";

/// A kind of pool.
struct Kind {
    name: &'static str,
    domain: Domain,
    /// Writes a new pool, or compares an existing one. Closes it, unless the process is killed before.
    run: fn(&Path, &Options, Pass) -> Result<()>,
    /// True if the process is killed before it closes the pool.
    #[cfg_attr(
        not(all(target_os = "linux", target_arch = "x86_64")),
        expect(dead_code, reason = "it is for writing pools")
    )]
    killed: bool,
}

const KINDS: [Kind; 9] = [
    Kind { name: "database", domain: Domain::Sync, run: database, killed: false },
    Kind { name: "checksums", domain: Domain::Sync, run: checksums, killed: false },
    Kind { name: "store", domain: Domain::Sync, run: content::store, killed: false },
    Kind { name: "checkpoint", domain: Domain::Sync, run: checkpoint, killed: true },
    Kind { name: "snapshot", domain: Domain::Sync, run: snapshot, killed: true },
    Kind { name: "growth", domain: Domain::Sync, run: growth, killed: true },
    Kind { name: "compaction", domain: Domain::Sync, run: compaction, killed: true },
    Kind { name: "large-transaction", domain: Domain::Sync, run: large, killed: true },
    Kind { name: "process", domain: Domain::Process, run: process, killed: true },
];

impl Kind {
    /// Small sizes, so that the files are small.
    fn options(&self) -> Options {
        Options {
            geometry: Geometry { size: 4 << 20, logs: 2, log_bytes: 1 << 15, chunk_bytes: 1 << 14 },
            domain: self.domain,
            sync: SyncParameters {
                ring_blocks: 64,
                initial_ring_blocks: 64,
                staging_blocks: 2,
                checksums: self.name == "checksums",
                ..SyncParameters::default()
            },
            lock_bits: 10,
            initial_size: Some(0),
            ..Options::default()
        }
    }
}

/// Opens the database, or creates it.
fn open(path: &Path, options: &Options, pass: Pass) -> Result<Database> {
    match pass {
        Pass::Write => Database::create_new(path, options),
        Pass::Compare => Database::open_existing(path, options),
    }
}

/// Reports that the process is ready: the call at which it is killed follows.
fn ready() {
    std::io::Write::write_all(&mut std::io::stderr(), READY).unwrap();
}

/// Checks the database itself without comparing its contents, and closes it.
fn close(db: &Database) -> Result<()> {
    assert_eq!(db.check()?, [""; 0]);
    assert_eq!(db.lost_memory()?.blocks, 0);
    db.close()
}

fn database(path: &Path, options: &Options, pass: Pass) -> Result<()> {
    let db = open(path, options, pass)?;
    content::database(&db, pass)?;
    close(&db)
}

/// A pool whose third file has a checksum of each page.
fn checksums(path: &Path, options: &Options, pass: Pass) -> Result<()> {
    let db = open(path, options, pass)?;
    content::rows(&db, pass, "rows", 1, 40, 200)?;
    close(&db)
}

/// A pool where the second version of the rows is in the log, and in pages that no checkpoint slot covers yet.
fn checkpoint(path: &Path, options: &Options, pass: Pass) -> Result<()> {
    let db = open(path, options, pass)?;
    if pass == Pass::Write {
        content::rows(&db, pass, "rows", 1, 40, 200)?;
        db.checkpoint()?;
        content::rows(&db, pass, "rows", 2, 40, 200)?;
        ready();
        db.checkpoint()?;
    }
    content::rows(&db, Pass::Compare, "rows", 2, 40, 200)?;
    close(&db)
}

/// A pool where a snapshot still needs the first version of the rows, and the second is only in the log.
fn snapshot(path: &Path, options: &Options, pass: Pass) -> Result<()> {
    let db = open(path, options, pass)?;
    if pass == Pass::Write {
        content::rows(&db, pass, "rows", 1, 40, 200)?;
        let held = db.snapshot()?;
        content::rows(&db, pass, "rows", 2, 40, 200)?;
        ready();
        drop(held);
    }
    content::rows(&db, Pass::Compare, "rows", 2, 40, 200)?;
    close(&db)
}

/// A pool whose file is longer than its content says, for a transaction that has not committed.
fn growth(path: &Path, options: &Options, pass: Pass) -> Result<()> {
    let db = open(path, options, pass)?;
    if pass == Pass::Write {
        content::rows(&db, pass, "rows", 1, 40, 200)?;
        content::rows(&db, pass, "more", 1, 0, 1)?;
        ready();
        content::rows(&db, pass, "more", 1, 40, 100_000)?;
    }
    content::rows(&db, Pass::Compare, "rows", 1, 40, 200)?;
    content::rows(&db, Pass::Compare, "more", 1, 0, 1)?;
    close(&db)
}

/// A pool where chunks are held while their disk space is released.
fn compaction(path: &Path, options: &Options, pass: Pass) -> Result<()> {
    let db = open(path, options, pass)?;
    if pass == Pass::Write {
        content::rows(&db, pass, "gone", 1, 60, 1500)?;
        content::rows(&db, pass, "rows", 1, 40, 200)?;
        db.delete("gone")?;
        ready();
        db.compact()?;
    }
    assert_eq!(db.list()?.len(), 1);
    content::rows(&db, Pass::Compare, "rows", 1, 40, 200)?;
    close(&db)
}

/// A pool where a transaction that does not fit into a log has stored some of its words in the file, and keeps their old values in the undo journal.
fn large(path: &Path, options: &Options, pass: Pass) -> Result<()> {
    let db = open(path, options, pass)?;
    if pass == Pass::Write {
        content::rows(&db, pass, "rows", 1, 40, 200)?;
        db.checkpoint()?;
        ready();
        content::rows(&db, pass, "rows", 2, 500, 3000)?;
    }
    content::rows(&db, Pass::Compare, "rows", 1, 40, 200)?;
    close(&db)
}

/// A pool whose internal logs have transactions that recovery replays.
fn process(path: &Path, options: &Options, pass: Pass) -> Result<()> {
    let db = open(path, options, pass)?;
    if pass == Pass::Write {
        content::rows(&db, pass, "rows", 1, 40, 200)?;
        content::rows(&db, pass, "rows", 2, 40, 200)?;
        ready();
    }
    content::rows(&db, Pass::Compare, "rows", 2, 40, 200)?;
    close(&db)
}

/// Returns the version of the format of new pools.
fn format_version() -> u64 {
    let folder = tempfile::tempdir().unwrap();
    let pool = folder.path().join("pool");
    Database::create_new(&pool, &KINDS[0].options()).unwrap().close().unwrap();
    strandline_core::file::inspect(&pool, Schemes::default()).unwrap().header.version
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// Returns the names in a folder.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Writes the files of the packed pool at `from` into the folder `to`.
fn unpack(from: &Path, to: &Path) {
    for name in names(from) {
        let packed = std::fs::read(from.join(&name)).unwrap();
        let (length, lines) = packed.split_first_chunk::<8>().unwrap();
        let length = u64::from_le_bytes(*length) as usize;
        let mut file = vec![0; length.next_multiple_of(LINE)];
        for line in lines.chunks_exact(8 + LINE) {
            let (number, bytes) = line.split_first_chunk::<8>().unwrap();
            file[u64::from_le_bytes(*number) as usize * LINE..][..LINE].copy_from_slice(bytes);
        }
        file.truncate(length);
        std::fs::write(to.join(name), file).unwrap();
    }
}

#[test]
fn pools_of_each_version_open_or_are_refused() {
    let (newest, mut versions) = (format_version(), Vec::new());
    for version in names(&golden()) {
        let number: u64 = version.parse().expect("a folder is named by the version of the format");
        versions.push(number);
        let kinds = names(&golden().join(&version));
        let is_there = |kind: &Kind| kinds.iter().any(|name| name == kind.name);
        assert!(number < newest || KINDS.iter().all(is_there), "version {version} has {kinds:?}");
        for name in kinds {
            let context = format!("the pool {name} of version {version}");
            println!("{context}");
            let kind = KINDS.iter().find(|kind| kind.name == name).expect("a kind that is described");
            let (folder, options) = (tempfile::tempdir().unwrap(), kind.options());
            unpack(&golden().join(&version).join(&name), folder.path());
            let pool = folder.path().join("pool");
            if number < OLDEST {
                let error = Database::open_existing(&pool, &options).map(drop).expect_err("an error");
                let said = format!(
                    "the pool {} has format version {number}, this library reads version {OLDEST} and later; read its data with the \
                     Strandline that wrote it, and put them into a new pool",
                    pool.display()
                );
                assert!(
                    matches!(error, Error::OlderFormat { .. }) && error.to_string() == said,
                    "{context}: {error}"
                );
                continue;
            }
            // The first round recovers or upgrades the pool, and closes it.
            for _ in 0..2 {
                (kind.run)(&pool, &options, Pass::Compare)
                    .unwrap_or_else(|error| panic!("{context}: {error:#}"));
                let report = strandline_core::file::check(&pool, Schemes::default()).unwrap();
                assert!(report.damage.is_empty(), "{context}: {:?}", report.damage);
            }
        }
    }
    assert!(versions.contains(&newest), "write the pools of version {newest}, as the head of this file says");
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
mod write {
    use std::os::unix::fs::FileExt;
    use std::process::Command;

    use super::*;
    use crate::files::trace::{Call, Stop, Traced};

    /// Returns whether to kill the process that writes a pool of this kind before this call. `before` is the length of its heap file when it was
    /// ready.
    fn is_end(kind: &str, call: &Call, pool: &Path, before: u64) -> bool {
        let heap = std::fs::File::open(pool).unwrap();
        let slots = [4096, 8192];
        match kind {
            "checkpoint" => call.number == libc::SYS_pwrite64 && slots.contains(&call.arguments[3]),
            "growth" => heap.metadata().unwrap().len() > before,
            "compaction" => {
                call.number == libc::SYS_fallocate
                    && call.arguments[1] & libc::FALLOC_FL_PUNCH_HOLE as u64 != 0
            }
            "large-transaction" => {
                let mut granules = [0; 8];
                heap.read_exact_at(&mut granules, 0x3200).unwrap();
                let writes =
                    [libc::SYS_pwrite64, libc::SYS_pwritev, libc::SYS_pwritev2].contains(&call.number);
                writes && call.arguments[3] > 0x5000 && granules != [0; 8]
            }
            _ => true,
        }
    }

    /// Runs in the other process. In the test itself it returns immediately.
    #[test]
    fn child() {
        let Ok(name) = std::env::var(KIND) else { return };
        let kind = KINDS.iter().find(|kind| kind.name == name).unwrap();
        (kind.run)(Path::new("pool"), &kind.options(), Pass::Write).unwrap();
    }

    fn pack(from: &Path, to: &Path) {
        std::fs::create_dir_all(to).unwrap();
        for name in names(from) {
            let file = std::fs::read(from.join(&name)).unwrap();
            let mut packed = (file.len() as u64).to_le_bytes().to_vec();
            for (number, line) in (0u64..).zip(file.chunks(LINE)) {
                if line.iter().any(|&byte| byte != 0) {
                    packed.extend(number.to_le_bytes());
                    packed.extend(line);
                    packed.resize(packed.len() + LINE - line.len(), 0);
                }
            }
            std::fs::write(to.join(name), packed).unwrap();
        }
    }

    #[test]
    #[ignore = "writes the pools of this version"]
    fn write() {
        let version = format_version();
        for kind in KINDS {
            let folder = tempfile::tempdir().unwrap();
            let mut command = Command::new(std::env::current_exe().unwrap());
            command.args(["--exact", "golden::write::child", "--test-threads=1", "--nocapture"]);
            command.current_dir(folder.path()).env(KIND, kind.name);
            let pool = folder.path().join("pool");
            let (mut traced, mut before, mut is_killed) = (Traced::start_command(command, ""), None, false);
            // The kill is before or after one of two writes of a large transaction.
            let mut left = if kind.name == "large-transaction" { 4 } else { 1 };
            while let Stop::Entry(call) | Stop::Exit(call, _) = traced.next() {
                match before {
                    None if traced.mark(&call).as_deref() == Some("ready") => {
                        before = Some(std::fs::metadata(&pool).unwrap().len());
                    }
                    Some(before) if is_end(kind.name, &call, &pool, before) => {
                        left -= 1;
                        if left == 0 {
                            traced.kill();
                            is_killed = true;
                            break;
                        }
                    }
                    _ => {}
                }
            }
            assert_eq!(is_killed, kind.killed, "{}", kind.name);
            pack(folder.path(), &golden().join(version.to_string()).join(kind.name));
        }
    }
}
