//! System calls that fail: any call of the library, with any error.
//!
//! A process creates a pool, commits from two threads, lets it grow, compacts it, copies it, closes it, opens it again and reads it. One of its
//! system calls, drawn at random, returns an error instead of being made: either only the n-th call of its kind, or every one from the n-th on. The
//! process must neither hang nor panic. Each of its operations must succeed or return an error that says what failed. Afterwards the pool must open
//! without such errors, with everything that was acknowledged.
//!
//! Interruptions end at some time on a real system. So `EINTR`, and `EAGAIN` of calls that do not return it for lack of a resource, are returned up
//! to [`MOST_INTERRUPTIONS`] times in a row and not for ever.
//!
//! `futex` and `membarrier`, which the library relies on once they have worked, fail at most as often. A running system does not lose them.
//!
//! Some calls do not fail here, since the library could do nothing about it: those of the language's runtime and of its memory allocator (`brk`,
//! `mprotect`, small anonymous mappings, signal stacks), which end the process themselves; calls that cannot fail (`exit`, `gettid`, `sched_yield`);
//! and `FUTEX_WAKE` of a word that is mapped. `close` and `munmap` do their work before they return the error, as they do on Linux. `close` of a
//! folder succeeds, because the runtime would take its error for a mistake of its own.

// The names of the system's calls are used as patterns here.
#![allow(non_upper_case_globals)]

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use libc::*;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::child::NO_POOL;
use super::trace::{Call, Stop, Traced};
use super::{
    Bounds, Failures, How, cases, holds, leaves_nothing, look, names, pool_in, quick_folder, random,
};
use strandline_core::file::log_path;
use strandline_core::{Domain, Error};

/// The largest number of times in a row that a call is interrupted.
const MOST_INTERRUPTIONS: usize = 20;
/// A process that runs longer hangs.
const PATIENCE: Duration = Duration::from_secs(100);

/// Errors that any call may return: from a file system, a network behind it, a limit, or a filter of system calls.
const COMMON: &[i32] = &[
    ENOSYS, EPERM, EACCES, EIO, ENOSPC, EDQUOT, ENOLCK, EOPNOTSUPP, EINVAL, EINTR, EAGAIN, ENOMEM, EMFILE,
    ENFILE, EROFS, EBUSY, EEXIST, ENOENT, ETIMEDOUT, ESTALE,
];
/// The errors that a wait for a word of memory may return.
const WAITS: &[i32] = &[EAGAIN, EINTR, ENOSYS];

/// The calls that the library makes, with the errors that their manual pages list beyond [`COMMON`].
const CALLS: &[(i64, &str, &[i32])] = &[
    (SYS_openat, "openat", &[ELOOP, ENAMETOOLONG, ENODEV, ENOTDIR, ENXIO, EISDIR, EFBIG, EOVERFLOW, ETXTBSY]),
    (SYS_close, "close", &[EBADF]),
    (SYS_read, "read", &[EISDIR]),
    (SYS_pread64, "pread64", &[EISDIR, ENXIO, EOVERFLOW, ESPIPE]),
    (SYS_pwrite64, "pwrite64", &[EFBIG, ENXIO, EPIPE, EDESTADDRREQ]),
    (SYS_pwritev2, "pwritev2", &[EFBIG, ENXIO, EPIPE]),
    (SYS_fsync, "fsync", &[EBADF]),
    (SYS_fdatasync, "fdatasync", &[EBADF]),
    (SYS_sync_file_range, "sync_file_range", &[EBADF, ESPIPE]),
    (SYS_ftruncate, "ftruncate", &[EFBIG, ETXTBSY]),
    (SYS_fallocate, "fallocate", &[EFBIG, ENODEV, ESPIPE, ETXTBSY]),
    (SYS_flock, "flock", &[EWOULDBLOCK, EBADF]),
    (SYS_fcntl, "fcntl", &[EDEADLK]),
    (SYS_fstat, "fstat", &[EOVERFLOW]),
    (SYS_newfstatat, "newfstatat", &[ELOOP, ENAMETOOLONG, ENOTDIR, EOVERFLOW]),
    (SYS_statx, "statx", &[ELOOP, ENAMETOOLONG, ENOTDIR]),
    (SYS_fstatfs, "fstatfs", &[EOVERFLOW]),
    (SYS_ioctl, "ioctl", &[ENOTTY]),
    // `ENXIO` is an answer of it, not a failure: that a file has no more data.
    (SYS_lseek, "lseek", &[EOVERFLOW, ESPIPE]),
    (SYS_sysinfo, "sysinfo", &[EFAULT]),
    (SYS_getdents64, "getdents64", &[ENOTDIR]),
    (SYS_readlink, "readlink", &[ELOOP, ENAMETOOLONG, ENOTDIR]),
    (SYS_getcwd, "getcwd", &[ERANGE, ENAMETOOLONG]),
    (SYS_renameat2, "renameat2", &[EXDEV, ENOTDIR, EISDIR, EMLINK, ELOOP, ENAMETOOLONG]),
    (SYS_rename, "rename", &[EXDEV, ENOTDIR, EISDIR, EMLINK, ELOOP, ENAMETOOLONG]),
    (SYS_linkat, "linkat", &[EXDEV, EMLINK, ELOOP]),
    (SYS_link, "link", &[EXDEV, EMLINK, ELOOP]),
    (SYS_unlink, "unlink", &[EISDIR, ELOOP, ENAMETOOLONG, ENOTDIR]),
    (SYS_unlinkat, "unlinkat", &[EISDIR, ELOOP, ENAMETOOLONG, ENOTDIR]),
    (SYS_fchmod, "fchmod", &[]),
    (SYS_fchown, "fchown", &[]),
    (SYS_mmap, "mmap", &[ENODEV, EOVERFLOW, ETXTBSY]),
    (SYS_munmap, "munmap", &[]),
    (SYS_madvise, "madvise", &[EFAULT, EBADF]),
    (SYS_getrusage, "getrusage", &[EFAULT]),
    (SYS_msync, "msync", &[]),
    (SYS_membarrier, "membarrier", &[]),
    (SYS_getrandom, "getrandom", &[EFAULT]),
    (SYS_futex, "futex", &[]),
    (SYS_clone3, "clone3", &[]),
    (SYS_clone, "clone", &[]),
];

/// Calls of the runtime and of the memory allocator, and calls that cannot fail.
const NOT_THE_LIBRARYS: &[i64] = &[
    SYS_brk,
    SYS_mprotect,
    SYS_mremap,
    SYS_exit,
    SYS_exit_group,
    SYS_rt_sigaction,
    SYS_rt_sigprocmask,
    SYS_rt_sigreturn,
    SYS_sigaltstack,
    SYS_set_robust_list,
    SYS_rseq,
    SYS_prctl,
    SYS_gettid,
    SYS_getpid,
    SYS_sched_yield,
    SYS_sched_getaffinity,
    SYS_clock_nanosleep,
    SYS_restart_syscall,
    SYS_tgkill,
];

fn name_of(number: i64) -> &'static str {
    CALLS.iter().find(|call| call.0 == number).map_or("?", |call| call.1)
}

/// Calls of one kind, some of which fail: the `nth` after the mark `begin`, and `more` after that.
#[derive(Clone, Copy, Debug)]
struct Fault {
    number: i64,
    nth: usize,
    more: usize,
    error: i32,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { number, nth, more, error } = self;
        let cause = std::io::Error::from_raw_os_error(*error);
        let more = match *more {
            0 => String::new(),
            usize::MAX => " and all later".into(),
            more => format!(" and {more} later"),
        };
        write!(f, "{} number {nth}{more}: {cause}", name_of(*number))
    }
}

/// The kind of pool and system with which the process works.
#[derive(Clone, Copy, Debug)]
struct Way {
    domain: Domain,
    checksums: bool,
    /// True if the file system refuses `O_DIRECT`.
    is_buffered: bool,
}

const WAYS: [Way; 5] = [
    Way { domain: Domain::Sync, checksums: false, is_buffered: false },
    Way { domain: Domain::Sync, checksums: true, is_buffered: false },
    Way { domain: Domain::Sync, checksums: false, is_buffered: true },
    Way { domain: Domain::Process, checksums: false, is_buffered: false },
    Way { domain: Domain::Flush, checksums: false, is_buffered: false },
];

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let checksums = if self.checksums { " with checksums" } else { "" };
        let buffered = if self.is_buffered { " without O_DIRECT" } else { "" };
        write!(f, "{}{checksums}{buffered}", self.domain.name())
    }
}

/// A process whose calls fail, and the memory that it has mapped itself.
struct Run {
    traced: Traced,
    way: Way,
    fault: Option<Fault>,
    /// Mappings that the library has made.
    mapped: Vec<Range<u64>>,
    counts: BTreeMap<i64, usize>,
    /// Number of calls of any kind.
    all: usize,
    marks: Vec<String>,
    /// Number of errors that were returned.
    failed: usize,
}

impl Run {
    /// Runs `script` until it ends, or has made more than `most` calls.
    ///
    /// # Errors
    /// Returns an error if the process hangs, panics, is ended by a signal, or makes a call that is not in the table.
    fn of(folder: &Path, way: Way, fault: Option<Fault>, most: usize) -> Result<Self, String> {
        let traced = Traced::start(folder, &script(folder, way));
        let process = Pid::from_raw(traced.id() as i32);
        let mut run = Self {
            traced,
            way,
            fault,
            mapped: Vec::new(),
            counts: BTreeMap::new(),
            all: 0,
            marks: Vec::new(),
            failed: 0,
        };
        let (ended, wait_for_end) = mpsc::channel::<()>();
        let watch = std::thread::spawn(move || {
            let hangs = wait_for_end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
            if hangs {
                let _ = kill(process, Signal::SIGKILL);
            }
            hangs
        });
        let followed = run.follow(most);
        drop(ended);
        if watch.join().expect("it does not panic") {
            return Err(format!("HANGS after {:?}", run.marks.last()));
        }
        followed?;
        if let Some(panic) = run.marks.iter().find(|mark| mark.contains("panicked at")) {
            return Err(format!("PANIC: {}; {:?}", panic.replace('\n', " "), run.marks));
        }
        match run.traced.status() {
            Some(0) => Ok(run),
            Some(status) => Err(format!("it returned {status}; {:?}", run.marks)),
            None => Err(format!("SIGNAL after {:?}", run.marks)),
        }
    }

    fn follow(&mut self, most: usize) -> Result<(), String> {
        let mut said: Option<String> = None;
        let mut begun = false;
        loop {
            match self.traced.next() {
                Stop::Entry(call) => {
                    if let Some(mark) = self.traced.mark(&call) {
                        begun |= mark == "begin";
                        said = Some(mark);
                    }
                    if begun && self.is_the_librarys(&call) {
                        self.all += 1;
                        let count = self.counts.entry(call.number).or_default();
                        *count += 1;
                        let count = *count;
                        if name_of(call.number) == "?" {
                            self.traced.kill();
                            return Err(format!("call {} is not in the table", call.number));
                        }
                        if self.way.is_buffered
                            && call.number == SYS_openat
                            && call.arguments[2] & O_DIRECT as u64 != 0
                        {
                            self.traced.fail(&call, EINVAL, false);
                        }
                        if let Some(fault) = self.fault
                            && fault.number == call.number
                            && (fault.nth..=fault.nth.saturating_add(fault.more)).contains(&count)
                        {
                            self.failed += 1;
                            let runs = [SYS_close, SYS_munmap].contains(&call.number);
                            self.traced.fail(&call, fault.error, runs);
                        }
                    }
                    if self.all > most {
                        self.traced.kill();
                        let last = self.marks.last();
                        return Err(format!(
                            "ENDLESS: {most} calls, the last {}; {last:?}",
                            name_of(call.number)
                        ));
                    }
                }
                Stop::Exit(call, result) => {
                    if call.number == SYS_write && call.arguments[0] == 2 {
                        self.marks.extend(said.take());
                    }
                    match call.number {
                        SYS_mmap if result >= 0 && Self::maps_for_the_library(&call) => {
                            self.mapped.push(result as u64..result as u64 + call.arguments[1]);
                        }
                        SYS_munmap => self.mapped.retain(|mapped| mapped.start != call.arguments[0]),
                        _ => {}
                    }
                }
                Stop::Ended => return Ok(()),
            }
        }
    }

    /// Returns whether the library makes this mapping: one of a file, or of memory that only the library requests. The stacks of threads do not count
    /// as the library's mappings, although it starts the threads.
    fn maps_for_the_library(call: &Call) -> bool {
        let [_, _, protection, flags, descriptor, _] = call.arguments;
        let both = (PROT_READ | PROT_WRITE) as u64;
        let is_stack = flags & MAP_STACK as u64 != 0;
        (descriptor as i32) >= 0 || (protection == both && flags & MAP_NORESERVE as u64 != 0 && !is_stack)
    }

    fn is_the_librarys(&self, call: &Call) -> bool {
        let [first, second, ..] = call.arguments;
        let is_mapped = |address| self.mapped.iter().any(|mapped| mapped.contains(&address));
        match call.number {
            SYS_read | SYS_write => first > 2,
            SYS_mmap => {
                let is_stack = call.arguments[3] & MAP_STACK as u64 != 0;
                Self::maps_for_the_library(call) || (is_stack && call.arguments[2] == PROT_NONE as u64)
            }
            // The runtime would take an error of closing a folder for a mistake of its own.
            SYS_close => !std::fs::metadata(self.traced.descriptor(first)).is_ok_and(|about| about.is_dir()),
            SYS_munmap | SYS_madvise => is_mapped(first),
            SYS_futex => second == (FUTEX_WAIT | FUTEX_PRIVATE_FLAG) as u64 && is_mapped(first),
            // The runtime calls it for its hash maps, with flags.
            SYS_getrandom => call.arguments[2] == 0,
            other => !NOT_THE_LIBRARYS.contains(&other),
        }
    }
}

fn script(folder: &Path, Way { domain, checksums, .. }: Way) -> String {
    let (pool, copy) = (pool_in(folder), folder.join("copy"));
    let (domain, pool, copy) = (domain.name(), pool.display(), copy.display());
    let checksums = if checksums { " checksums" } else { "" };
    format!(
        "kinds; domain {domain}; roomy{checksums}; begin; create {pool}; together 1 3; pile 1 5; bulk 1 1; unpile 1; compact; later 1 2; \
         checkpoint; backup {copy}; snapshot; close; open {pool}; together 1 2; pile 1 3; close; single {pool} 3 3; look {pool}"
    )
}

fn draw(random: &mut fastrand::Rng, counts: &BTreeMap<i64, usize>) -> Fault {
    let numbers: Vec<i64> = counts.keys().copied().collect();
    let number = *random.choice(&numbers).unwrap();
    let listed = CALLS.iter().find(|call| call.0 == number).unwrap().2;
    let errors: Vec<i32> = match number {
        SYS_futex => WAITS.to_vec(),
        _ => COMMON.iter().chain(listed).copied().collect(),
    };
    let error = *random.choice(&errors).unwrap();
    let nth = random.usize(1..=counts[&number]);
    let is_want = matches!(number, SYS_clone | SYS_clone3 | SYS_mmap | SYS_flock) && error == EAGAIN;
    let more = match random.bool() {
        false => 0,
        true if [EINTR, EAGAIN].contains(&error) && !is_want => random.usize(1..MOST_INTERRUPTIONS),
        // The library tries a refused wait again for ever, and ends the process if a barrier is refused after it has worked.
        true if [SYS_futex, SYS_membarrier].contains(&number) => random.usize(1..MOST_INTERRUPTIONS),
        true => usize::MAX,
    };
    Fault { number, nth, more, error }
}

/// Checks that the error of an operation says what failed. `kind` is the error's kind and the number of its cause.
fn is_right(fault: &Fault, folder: &Path, kind: &str, text: &str, seen: &Seen) -> Result<(), String> {
    let (kind, number) = kind.strip_prefix("kind ").and_then(|kind| kind.split_once(' ')).unwrap();
    let number: i32 = number.parse().unwrap();
    let cause = std::io::Error::from_raw_os_error(fault.error).to_string();
    let wrong = |why: &str| Err(format!("WRONG {kind}, {why}: {text}"));
    let names_it = text.contains(&*folder.to_string_lossy());
    match kind {
        "Parameter" if text.ends_with(NO_POOL) => Ok(()),
        "Poisoned" if text.contains(&cause) => Ok(()),
        "Poisoned" if fault.error == ESTALE && text.contains("deleted or cut short") => Ok(()),
        "Locked" if fault.number == SYS_flock && fault.error == EWOULDBLOCK => Ok(()),
        // The pool was not created, or was created without an acknowledgement.
        "Io" if !seen.is_created && text.ends_with("pool: entity not found") => Ok(()),
        "LogFile" if fault.error == ENOENT && text.contains("is missing") => Ok(()),
        "Io" if !names_it => wrong("names no path"),
        "Io" if number == fault.error => Ok(()),
        // The error comes from the library itself and has no number.
        "Io" if number == 0 && text.contains(&cause) => Ok(()),
        "Io" if number == 0 && fault.error == EEXIST && text.contains("already exists") => Ok(()),
        "Io" if number == 0 && fault.error == ENOENT && text.contains("not found") => Ok(()),
        _ => wrong("not what failed"),
    }
}

/// The content of the marks so far.
#[derive(Default)]
struct Seen {
    is_created: bool,
}

/// Opens the pool and the copy that the process has left, and checks which other files it has left.
fn judge(folder: &Path, domain: Domain, fault: &Fault, run: &Run) -> Result<(), String> {
    let (pool, copy) = (pool_in(folder), folder.join("copy"));
    let (mut bounds, mut seen, mut kind) = (Bounds::default(), Seen::default(), None);
    let mut copied: Option<Bounds> = None;
    let mut wrong = Ok(());
    for mark in &run.marks {
        bounds.hear(mark);
        seen.is_created |= mark.starts_with("opened");
        if mark.starts_with("kind ") {
            kind = Some(mark);
        } else if mark.starts_with("error ") {
            let kind = kind.take().ok_or("an error without its kind")?;
            wrong = wrong.and(is_right(fault, folder, kind, mark, &seen));
        } else if mark.starts_with("wrong") {
            wrong = wrong.and_then(|()| Err(mark.clone()));
        } else if mark.starts_with("done backup") {
            copied = Some(bounds.clone());
        } else if mark.starts_with("holds") {
            let found = super::child::counts(mark);
            wrong = wrong.and_then(|()| bounds.admit(&found).map_err(|error| format!("a reader: {error}")));
        }
    }
    let pool_is_there = pool.exists();
    if bounds.made && !pool_is_there {
        return Err("the pool is GONE".into());
    }
    if pool_is_there {
        holds(&pool, domain, How::Open, &bounds)?;
    }
    if copied.is_some() && !copy.exists() {
        return Err("the copy is GONE".into());
    }
    if copy.exists() {
        let least = copied.as_ref().unwrap_or(&Bounds::default()).least.clone();
        let bounds = Bounds { least, ..bounds.clone() };
        holds(&copy, domain, How::Open, &bounds).map_err(|error| format!("the copy: {error}"))?;
        for name in [&copy, &log_path(&copy)] {
            let _ = std::fs::remove_file(name);
        }
        let _ = std::fs::remove_file(strandline_core::file::checksums_path(&copy));
    }
    leaves_nothing_of_copies(folder, domain)?;
    let _ = std::fs::remove_file(strandline_core::file::checksums_path(&pool));
    leaves_nothing(&pool, domain)?;
    wrong
}

/// One more copy removes the files that the failed one has left.
fn leaves_nothing_of_copies(folder: &Path, domain: Domain) -> Result<(), String> {
    let (pool, copy) = (pool_in(folder), folder.join("copy"));
    look(&pool, domain, How::OpenOrCreate)?.map_err(|error| format!("open or create: {error}"))?;
    let copied = || {
        let store = strandline::Store::<super::Root>::open_existing(&pool, &super::options(domain))?;
        store.backup(&copy)?;
        store.close()
    };
    copied().map_err(|error: Error| format!("the next copy: {error}"))?;
    let left: Vec<String> = names(folder).into_iter().filter(|name| name.starts_with(".copy")).collect();
    for name in [copy.clone(), log_path(&copy), strandline_core::file::checksums_path(&copy)] {
        let _ = std::fs::remove_file(name);
    }
    if left.is_empty() { Ok(()) } else { Err(format!("files are LEFT of a copy: {left:?}")) }
}

#[test]
fn calls_that_fail_are_errors_that_name_them() {
    let (mut random, mut failures) = (random("errnos"), Failures::new("errnos"));
    let ways = WAYS.map(|way| {
        let folder = quick_folder();
        let run = Run::of(folder.path(), way, None, usize::MAX);
        let run = run.unwrap_or_else(|error| panic!("without errors: {error}"));
        let wrong = run.marks.iter().find(|mark| mark.starts_with("error") || mark.starts_with("wrong"));
        assert_eq!(wrong, None, "without errors");
        let counts: Vec<String> =
            run.counts.iter().map(|(number, count)| format!("{} {count}", name_of(*number))).collect();
        println!("{way}: {} calls: {}", run.all, counts.join(", "));
        (way, run.counts, run.all)
    });
    let mut returned = BTreeMap::<&str, usize>::new();
    for case in 0..cases(12) {
        let (way, counts, all) = random.choice(&ways).unwrap();
        let fault = draw(&mut random, counts);
        let folder = quick_folder();
        // The library repeats calls that failed, makes others in their place, and makes single calls where one would have been enough.
        let run = Run::of(folder.path(), *way, Some(fault), 20 * all + 10_000);
        let result = run.and_then(|run| {
            *returned.entry(name_of(fault.number)).or_default() += usize::from(run.failed > 0);
            judge(folder.path(), way.domain, &fault, &run)
        });
        if let Err(error) = &result {
            println!("case {case}, {way}: {fault}: {error}");
        }
        failures.case(format!("{way}: {fault}"), result);
    }
    let reached: usize = returned.values().sum();
    println!("{reached} runs in which a call failed: {returned:?}");
    failures.end();
}
