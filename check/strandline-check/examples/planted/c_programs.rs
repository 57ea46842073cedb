//! The C programs with planted bugs, `strandline-check-c/tests/c/planted`: how they are compiled and checked, and the expected findings.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use strandline_check::FindingKind;
use strandline_check::recorded::{Program, Report};

use FindingKind::{
    MissingFence, MissingFlush, NonIdempotentRecovery, NotAtomic, SumRedone, TornValue, UnflushedRecovery,
    UnrecoveredAllocation, WrongOrder,
};

/// The library or the system call by which a program makes its stores durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    Libpmem,
    Libpmemobj,
    Msync,
}

/// A program, its library, whether it has a recovery of its own, and its bugs.
pub struct Source {
    pub name: &'static str,
    pub library: Library,
    pub recovers: bool,
    pub bugs: &'static [Bug],
}

/// A bug's number, its description, the expected kind of finding, and where a similar bug was published.
pub type Bug = (u32, &'static str, FindingKind, &'static str);

pub const SOURCES: [Source; 9] = [
    Source {
        name: "hash",
        library: Library::Libpmem,
        recovers: false,
        bugs: &[
            (
                11,
                "a larger table is not flushed before the switch to it",
                MissingFlush,
                "Jaaru: CCEH, P-CLHT",
            ),
            (12, "the switch comes before the larger table is filled", WrongOrder, "Witcher: ordering"),
            (
                13,
                "an update removes the key and inserts it again",
                NotAtomic,
                "Witcher: atomicity (Level Hashing)",
            ),
        ],
    },
    Source {
        name: "undo",
        library: Library::Libpmem,
        recovers: true,
        bugs: &[
            (14, "the log's entries are flushed without a drain", MissingFence, "PMTest, Agamotto"),
            (
                15,
                "recovery empties the log before it restores",
                NonIdempotentRecovery,
                "Haerder, Reuter 1983: redo is idempotent",
            ),
            (
                16,
                "recovery does not flush what it restores",
                UnflushedRecovery,
                "Haerder, Reuter 1983: redo is idempotent",
            ),
        ],
    },
    Source {
        name: "ring",
        library: Library::Libpmem,
        recovers: true,
        bugs: &[
            (
                17,
                "a record counts by its number, without its checksum",
                TornValue,
                "memcached-pmem, pull request 5",
            ),
            (18, "recovery adds records to a sum, and then notes it", SumRedone, "ARIES: logical redo"),
        ],
    },
    Source {
        name: "tree",
        library: Library::Libpmemobj,
        recovers: false,
        bugs: &[
            (19, "a link is not added to the transaction", WrongOrder, "PMTest, Agamotto: btree_map"),
            (
                20,
                "the length is added to the transaction with NO_FLUSH",
                MissingFlush,
                "Agamotto: PMDK's examples",
            ),
        ],
    },
    Source {
        name: "array",
        library: Library::Libpmemobj,
        recovers: true,
        bugs: &[
            (
                21,
                "the reference to a new object is kept in a variable",
                UnrecoveredAllocation,
                "PMDK, issue 4927",
            ),
            (22, "a new object is filled and not persisted", MissingFlush, "PMDK, pull request 5273"),
        ],
    },
    Source {
        name: "stock",
        library: Library::Libpmemobj,
        recovers: true,
        bugs: &[
            (23, "two transactions change what belongs together", NotAtomic, "Witcher: atomicity"),
            (
                24,
                "recovery adds in one transaction, and notes it in another",
                SumRedone,
                "ARIES: logical redo",
            ),
        ],
    },
    Source {
        name: "pages",
        library: Library::Msync,
        recovers: false,
        bugs: &[
            (25, "pages are not synced before the meta page", MissingFlush, "LMDB: MDB_NOSYNC"),
            (
                26,
                "a meta page is used without its checksum",
                TornValue,
                "LMDB 0.9.7, OpenLDAP ITS: a damaged meta page",
            ),
            (27, "a page of the last transaction is reused too early", NotAtomic, "Witcher: atomicity"),
        ],
    },
    Source {
        name: "journal",
        library: Library::Msync,
        recovers: true,
        bugs: &[
            (
                28,
                "the journal is not synced before the page is written",
                MissingFlush,
                "Agamotto, PMTest: undo logs",
            ),
            (
                29,
                "recovery empties the journal before the page is synced",
                UnflushedRecovery,
                "Haerder, Reuter 1983: redo is idempotent",
            ),
        ],
    },
    Source {
        name: "counters",
        library: Library::Msync,
        recovers: true,
        bugs: &[(30, "the log has differences, which recovery adds again", SumRedone, "ARIES: logical redo")],
    },
];

impl Source {
    /// Compiles the program with this bug (0: none) in `folder`. Returns the reason if it cannot be compiled here.
    pub fn compile(&self, bug: u32, folder: &Path) -> Result<PathBuf, String> {
        let (header, package, library) = match self.library {
            Library::Libpmem => ("libpmem.h", "libpmem-dev", Some("-lpmem")),
            Library::Libpmemobj => ("libpmemobj.h", "libpmemobj-dev", Some("-lpmemobj")),
            Library::Msync => ("stdio.h", "libc6-dev", None),
        };
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err("stores are seen on x86-64 with Linux alone".to_owned());
        }
        if !Path::new("/usr/include").join(header).exists() {
            return Err(format!("there is no {header} on this machine ({package})"));
        }
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
        let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../strandline-check-c");
        let program = folder.join(format!("{}-{bug}", self.name));
        let ran = Command::new(&compiler)
            .args([
                "-std=gnu11",
                "-g",
                "-O1",
                "-Wall",
                "-Wextra",
                "-Wshadow",
                "-Werror",
                "-DSTRANDLINE_CHECK",
            ])
            .args([format!("-DBUG={bug}"), format!("-I{}", package.join("include").display())])
            .arg(package.join("tests/c/planted").join(self.name).with_extension("c"))
            .arg("-o")
            .arg(&program)
            .args(library)
            .output()
            .map_err(|error| format!("cannot run {compiler}: {error}"))?;
        match ran.status.success() {
            true => Ok(program),
            false => panic!("{}", String::from_utf8_lossy(&ran.stderr)),
        }
    }

    /// Checks the program with this bug (0: none), with the command's default options except for `limit`.
    pub fn check(&self, bug: u32, recorder: &Path, limit: Duration) -> Result<Report, String> {
        let builder = || tempfile::Builder::new();
        let folder = builder()
            .tempdir_in("/dev/shm")
            .or_else(|_| tempfile::tempdir())
            .map_err(|error| error.to_string())?;
        let built = tempfile::tempdir().map_err(|error| error.to_string())?;
        let program = self.compile(bug, built.path())?;
        let command = |what: &str| vec![program.clone().into(), what.into(), "{pool}".into()];
        let mut checked = Program::new(command("run"), recorder, folder.path());
        checked.set_up = Some(command("make"));
        checked.recover = self.recovers.then(|| command("recover"));
        checked.check = Some(command("check"));
        checked.limit = limit;
        Ok(checked.check().unwrap_or_else(|why| panic!("{}, bug {bug}: {why}", self.name)))
    }
}

/// How long the command explores by default.
pub const LIMIT: Duration = Duration::from_secs(60);
