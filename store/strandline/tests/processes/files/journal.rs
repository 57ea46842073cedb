//! A journal of the changes that a process makes to the files of one folder, in order, recorded at its system calls.
//!
//! Stores to a shared mapping cannot be seen when they happen. The recorder finds them at the next flush of the file, change of names, flush of the
//! folder or mark, and records them before that. So an event that the process publishes or acknowledges comes after the stores on which it relies.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::image::SECTOR;
use super::trace::{Call, Stop, Traced};

/// A file, whatever its names.
pub type Inode = usize;

/// An event in the life of a process: a mark, or a change to the folder.
#[derive(Clone, Debug)]
pub enum Event {
    /// The process wrote a mark.
    Mark(String),
    /// Bytes were written. With `durable` they were on the medium when the call returned.
    Write { inode: Inode, offset: u64, bytes: Vec<u8>, durable: bool },
    /// The file was made longer or shorter.
    Resize { inode: Inode, size: u64 },
    /// Bytes were removed and are now read as zeros. On the medium each block of the file system has its old contents, or only zeros.
    Punch { inode: Inode, offset: u64, bytes: u64 },
    /// A write failed: the process got an error. Reads show the bytes, but each of their sectors reaches the medium or never does.
    FailedWrite { inode: Inode, offset: u64, bytes: Vec<u8> },
    /// The file's contents and size became durable.
    Flush(Inode),
    /// A flush failed: the process got an error. The medium has some of the changes that were not durable, and never gets the others, because the
    /// system regards them as written.
    FailedFlush(Inode),
    /// Another call failed.
    FailedCall(i64),
    /// A new file was created, or an existing one got a further name.
    Link { name: String, inode: Inode },
    /// A name was removed.
    Unlink { name: String },
    /// A file was renamed, and replaced the file that had the new name.
    Rename { from: String, to: String },
    /// Two names were exchanged.
    Exchange { one: String, other: String },
    /// The folder's names became durable.
    FlushFolder,
}

impl std::fmt::Display for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Write { inode, offset, bytes, durable } => {
                let kind = if *durable { "durable write" } else { "write" };
                write!(f, "{kind} of {} bytes at {offset} of file {inode}", bytes.len())
            }
            Self::FailedWrite { inode, offset, bytes } => {
                write!(f, "failed write of {} bytes at {offset} of file {inode}", bytes.len())
            }
            Self::FailedCall(number) => write!(f, "failed system call {number}"),
            other => write!(f, "{other:?}"),
        }
    }
}

impl Event {
    /// Returns whether this is an error that the recorder has caused.
    pub fn is_fault(&self) -> bool {
        matches!(self, Self::FailedWrite { .. } | Self::FailedFlush(_) | Self::FailedCall(_))
    }
}

/// A kind of system calls of which one is to fail.
#[derive(Clone, Copy, Debug)]
pub enum Faulty {
    /// Flushes of contents.
    Flush,
    /// Flushes of contents and size, for example after growth.
    FullFlush,
    Write,
    /// Allocations of space, and holes.
    Allocation,
}

/// An error in the `nth` call of a kind on a file of the folder.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    pub what: Faulty,
    pub nth: usize,
    pub error: i32,
    /// True if a failing write still reaches the page cache, and some sectors of it the medium.
    pub runs: bool,
    /// True if calls are counted from the first mark that says that the pool is open.
    pub when_open: bool,
}

impl Faulty {
    fn is(self, number: i64) -> bool {
        match self {
            Self::Flush => [libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_msync].contains(&number),
            Self::FullFlush => number == libc::SYS_fsync,
            Self::Write => [libc::SYS_write, libc::SYS_pwrite64, libc::SYS_pwritev2].contains(&number),
            Self::Allocation => [libc::SYS_fallocate, libc::SYS_ftruncate].contains(&number),
        }
    }
}

/// Everything that a process did, to files that existed before and to new ones.
pub struct Journal {
    /// The names and contents at the beginning, which are durable.
    pub before: Vec<(String, Inode, Vec<u8>)>,
    pub events: Vec<Event>,
}

/// A function that records a call after it has returned, with its result.
type Then = Box<dyn FnOnce(&mut Recorder, u64)>;

/// The life of a recorded process: its commands, the number of events after which it is killed, and the call that fails.
#[derive(Default)]
pub struct Life {
    pub script: String,
    pub events: Option<usize>,
    pub fault: Option<Fault>,
}

/// A process that takes longer hangs, and is killed.
const PATIENCE: Duration = Duration::from_secs(100);

struct Recorder {
    traced: Traced,
    folder: PathBuf,
    folder_identity: (u64, u64),
    inodes: HashMap<(u64, u64), Inode>,
    /// The files that are mapped for writing.
    mapped: BTreeSet<Inode>,
    /// The contents of each file according to the journal.
    contents: Vec<Vec<u8>>,
    events: Vec<Event>,
}

fn identity(path: impl AsRef<Path>) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|about| (about.dev(), about.ino()))
}

/// Runs processes in `folder`, one after the other, and records them. Changes of one that is killed are in the page cache for the next one, durable
/// or not.
pub fn record(folder: &Path, lives: &[Life]) -> Journal {
    let folder = folder.canonicalize().unwrap();
    let mut before = Vec::new();
    let mut inodes = HashMap::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let (next, key) = (inodes.len(), identity(&path).unwrap());
        let inode = *inodes.entry(key).or_insert(next);
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        before.push((name, inode, std::fs::read(&path).unwrap()));
    }
    let mut contents = vec![Vec::new(); inodes.len()];
    for (_, inode, bytes) in &before {
        contents[*inode].clone_from(bytes);
    }
    let mut lives = lives.iter();
    let first = lives.next().expect("a life");
    let mut recorder = Recorder {
        traced: Traced::start(&folder, &first.script),
        folder_identity: identity(&folder).unwrap(),
        folder,
        inodes,
        mapped: BTreeSet::new(),
        contents,
        events: Vec::new(),
    };
    recorder.run(first);
    for life in lives {
        recorder.traced = Traced::start(&recorder.folder, &life.script);
        recorder.run(life);
    }
    recorder.verify(&before);
    Journal { before, events: recorder.events }
}

impl Recorder {
    /// Records one life.
    fn run(&mut self, life: &Life) {
        let (ended, wait_for_end) = mpsc::channel::<()>();
        let process = Pid::from_raw(self.traced.id() as i32);
        let watch = std::thread::spawn(move || {
            let hangs = wait_for_end.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
            if hangs {
                let _ = kill(process, Signal::SIGKILL);
            }
            hangs
        });
        self.follow(life);
        drop(ended);
        if watch.join().expect("it does not panic") {
            self.events.push(Event::Mark(format!("wrong: it hangs, for {PATIENCE:?}")));
        }
    }

    fn follow(&mut self, life: &Life) {
        let end = life.events.map_or(usize::MAX, |most| self.events.len() + most);
        let (mut fault, mut is_open) = (life.fault, false);
        // The arguments of a call are read before it runs, because a path may have another meaning afterwards.
        let mut about: HashMap<_, Then> = HashMap::new();
        // The functions that record the calls that fail.
        let mut failed: HashMap<_, Then> = HashMap::new();
        loop {
            match self.traced.next() {
                Stop::Entry(call) => {
                    let Some(then) = self.enter(&call) else { continue };
                    is_open |= self.traced.mark(&call).is_some_and(|mark| mark.starts_with("opened"));
                    if let Some(fault) = &mut fault
                        && (is_open || !fault.when_open)
                        && fault.what.is(call.number)
                        && self.traced.mark(&call).is_none()
                    {
                        fault.nth -= 1;
                        if fault.nth == 0 {
                            let then = self.enter_failing(&call, fault.runs);
                            self.traced.fail(&call, fault.error, fault.runs);
                            failed.insert(call.thread, then);
                            continue;
                        }
                    }
                    about.insert(call.thread, then);
                }
                Stop::Exit(call, result) => {
                    if let Some(then) = failed.remove(&call.thread) {
                        then(self, 0);
                        fault = None;
                    }
                    if let Some(then) = about.remove(&call.thread)
                        && result >= 0
                    {
                        then(self, result as u64);
                        if self.events.len() >= end {
                            self.traced.kill();
                            self.cut_short();
                            return;
                        }
                    }
                }
                Stop::Ended => return,
            }
        }
    }

    /// Returns the function that records a call on a file of the folder which is going to fail.
    fn enter_failing(&mut self, call: &Call, runs: bool) -> Then {
        let [descriptor, buffer, bytes, ..] = call.arguments;
        let number = call.number;
        let path = PathBuf::from(self.descriptor(descriptor));
        match (number, self.inode(descriptor)) {
            (libc::SYS_fsync | libc::SYS_fdatasync, Some(inode)) => Box::new(move |this, _| {
                if this.mapped.contains(&inode) {
                    this.find_stores(inode, &path);
                }
                this.events.push(Event::FailedFlush(inode));
            }),
            (libc::SYS_msync, _) => Box::new(|this, _| {
                for inode in this.mapped.clone() {
                    if let Some(path) = this.path_of(inode) {
                        this.find_stores(inode, &path);
                        this.events.push(Event::FailedFlush(inode));
                    }
                }
            }),
            (libc::SYS_write | libc::SYS_pwrite64 | libc::SYS_pwritev2, Some(inode)) if runs => {
                let bytes = if number == libc::SYS_pwritev2 {
                    self.gather(buffer, bytes)
                } else {
                    self.traced.read(buffer, bytes)
                };
                let position = self.status(descriptor).1;
                let offset = if number == libc::SYS_write { position } else { call.arguments[3] };
                Box::new(move |this, _| {
                    this.keep(inode, offset, &bytes);
                    this.events.push(Event::FailedWrite { inode, offset, bytes });
                })
            }
            _ => Box::new(move |this, _| this.events.push(Event::FailedCall(number))),
        }
    }

    /// Checks that the folder has the contents of the journal, so that no call was missed.
    fn verify(&self, before: &[(String, Inode, Vec<u8>)]) {
        let mut names: BTreeMap<String, Inode> =
            before.iter().map(|(name, inode, _)| (name.clone(), *inode)).collect();
        for event in &self.events {
            match event {
                Event::Link { name, inode } => drop(names.insert(name.clone(), *inode)),
                Event::Unlink { name } => drop(names.remove(name)),
                Event::Rename { from, to } if names[from] != *names.get(to).unwrap_or(&Inode::MAX) => {
                    let inode = names.remove(from).expect("looked up");
                    names.insert(to.clone(), inode);
                }
                Event::Exchange { one, other } => {
                    let (first, second) = (names[one], names[other]);
                    names.extend([(one.clone(), second), (other.clone(), first)]);
                }
                _ => {}
            }
        }
        assert_eq!(names.keys().cloned().collect::<Vec<_>>(), super::names(&self.folder));
        for (name, inode) in names {
            // Stores to a mapping after its last flush are not recorded.
            let is_mapped = self.mapped.contains(&inode);
            let found = std::fs::read(self.folder.join(&name)).unwrap();
            assert!(is_mapped || found == self.contents[inode], "the recorder has missed a change of {name}");
        }
    }

    /// Records the last call, which was running when the process was killed. It has done its work, but has not waited for the medium.
    fn cut_short(&mut self) {
        match self.events.last_mut() {
            Some(Event::Write { durable, .. }) => *durable = false,
            Some(Event::Flush(_) | Event::FlushFolder) => drop(self.events.pop()),
            _ => {}
        }
        // The mappings are gone, and their contents are in the page cache.
        self.find_all_stores();
        self.mapped.clear();
    }

    fn descriptor(&self, descriptor: u64) -> String {
        self.traced.descriptor(descriptor)
    }

    /// Returns the folder's file behind a descriptor.
    fn inode(&self, descriptor: u64) -> Option<Inode> {
        if (descriptor as i32) < 0 {
            return None;
        }
        self.inodes.get(&identity(self.descriptor(descriptor))?).copied()
    }

    /// Returns the flags and the position of a descriptor.
    fn status(&self, descriptor: u64) -> (i32, u64) {
        let about = format!("/proc/{}/fdinfo/{}", self.traced.id(), descriptor as i32);
        let about = std::fs::read_to_string(about).unwrap();
        let field = |name: &str| about.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
        (i32::from_str_radix(field("flags:"), 8).unwrap(), field("pos:").parse().unwrap())
    }

    /// Returns the path that an argument names, for use in this process.
    fn path(&self, folder: u64, text: u64) -> PathBuf {
        let path = self.traced.read_text(text);
        let own = format!("/proc/{}/", self.traced.id());
        if let Some(rest) = path.strip_prefix("/proc/self/") {
            return format!("{own}{rest}").into();
        }
        if folder as i32 == libc::AT_FDCWD {
            Path::new(&format!("{own}cwd")).join(path)
        } else {
            Path::new(&self.descriptor(folder)).join(path)
        }
    }

    /// Returns the name that this path has in the folder, if it is there.
    fn name(&self, path: &Path) -> Option<String> {
        let parent = path.parent()?;
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        let name = path.file_name()?.to_str()?;
        (identity(parent)? == self.folder_identity).then(|| name.to_owned())
    }

    fn new_inode(&mut self, key: (u64, u64)) -> Inode {
        self.contents.push(Vec::new());
        let inode = self.contents.len() - 1;
        self.inodes.insert(key, inode);
        inode
    }

    /// Notes that the file has these bytes.
    fn keep(&mut self, inode: Inode, offset: u64, bytes: &[u8]) {
        let (file, end) = (&mut self.contents[inode], offset as usize + bytes.len());
        if file.len() < end {
            file.resize(end, 0);
        }
        file[offset as usize..end].copy_from_slice(bytes);
    }

    fn wrote(&mut self, inode: Inode, offset: u64, bytes: Vec<u8>, durable: bool) {
        self.keep(inode, offset, &bytes);
        self.events.push(Event::Write { inode, offset, bytes, durable });
    }

    fn resized(&mut self, inode: Inode, size: u64) {
        self.contents[inode].resize(size as usize, 0);
        self.events.push(Event::Resize { inode, size });
    }

    /// Finds and records the stores to mappings of a file, from its contents in the page cache.
    fn find_stores(&mut self, inode: Inode, path: &Path) {
        let file = File::open(path).unwrap();
        let size = file.metadata().unwrap().len() as usize;
        assert_eq!(size, self.contents[inode].len(), "the recorder has missed a change of size of {path:?}");
        let mut now = vec![0; size];
        file.read_exact_at(&mut now, 0).unwrap();
        let known = std::mem::take(&mut self.contents[inode]);
        self.contents[inode] = known.clone();
        for (at, (old, new)) in known.chunks(SECTOR).zip(now.chunks(SECTOR)).enumerate() {
            if old != new {
                self.wrote(inode, (at * SECTOR) as u64, new.to_vec(), false);
            }
        }
    }

    /// Finds and records the stores to all mappings.
    fn find_all_stores(&mut self) {
        for inode in self.mapped.clone() {
            if let Some(path) = self.path_of(inode) {
                self.find_stores(inode, &path);
            }
        }
    }

    /// Records an event after all stores up to now.
    fn push_after_stores(&mut self, event: Event) {
        self.find_all_stores();
        self.events.push(event);
    }

    fn flush(&mut self, inode: Inode, path: &Path) {
        if self.mapped.contains(&inode) {
            self.find_stores(inode, path);
        }
        self.events.push(Event::Flush(inode));
    }

    /// Returns the function that records a write of these bytes.
    fn write(&self, call: &Call, bytes: Vec<u8>, offset: Option<u64>, flags: u64) -> Option<Then> {
        let descriptor = call.arguments[0];
        let inode = self.inode(descriptor)?;
        let (mode, position) = self.status(descriptor);
        let offset = match offset {
            _ if mode & libc::O_APPEND != 0 => self.contents[inode].len() as u64,
            Some(offset) => offset,
            None => position,
        };
        let durable = mode & libc::O_DSYNC != 0 || flags & (libc::RWF_DSYNC | libc::RWF_SYNC) as u64 != 0;
        Some(Box::new(move |this, written| {
            let mut bytes = bytes;
            bytes.truncate(written as usize);
            this.wrote(inode, offset, bytes, durable);
        }))
    }

    /// Returns the bytes in a vector of buffers.
    fn gather(&self, vector: u64, buffers: u64) -> Vec<u8> {
        let words = self.traced.read(vector, 16 * buffers);
        let words: Vec<u64> =
            words.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        words.chunks_exact(2).flat_map(|buffer| self.traced.read(buffer[0], buffer[1])).collect()
    }

    /// Examines a call before it runs, and returns the function that records it when it has succeeded.
    fn enter(&mut self, call: &Call) -> Option<Then> {
        let a = call.arguments;
        let here = libc::AT_FDCWD as u64;
        if let Some(mark) = self.traced.mark(call) {
            return Some(Box::new(|this, _| this.push_after_stores(Event::Mark(mark))));
        }
        match call.number {
            libc::SYS_open => self.open(here, a[0], a[1] as i32),
            libc::SYS_openat => self.open(a[0], a[1], a[2] as i32),
            libc::SYS_creat => self.open(here, a[0], libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC),
            libc::SYS_write | libc::SYS_pwrite64 => {
                self.inode(a[0])?;
                let offset = (call.number == libc::SYS_pwrite64).then_some(a[3]);
                self.write(call, self.traced.read(a[1], a[2]), offset, 0)
            }
            libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2 => {
                self.inode(a[0])?;
                let offset = (call.number != libc::SYS_writev && a[3] as i64 != -1).then_some(a[3]);
                let flags = if call.number == libc::SYS_pwritev2 { a[5] } else { 0 };
                self.write(call, self.gather(a[1], a[2]), offset, flags)
            }
            libc::SYS_fallocate => {
                let inode = self.inode(a[0])?;
                let (mode, offset, bytes) = (a[1] as i32, a[2], a[3]);
                Some(Box::new(move |this, _| this.allocated(inode, mode, offset, bytes)))
            }
            libc::SYS_ftruncate => {
                let (inode, size) = (self.inode(a[0])?, a[1]);
                Some(Box::new(move |this, _| this.resized(inode, size)))
            }
            libc::SYS_fsync | libc::SYS_fdatasync => {
                let path = PathBuf::from(self.descriptor(a[0]));
                if identity(&path) == Some(self.folder_identity) {
                    return Some(Box::new(|this, _| this.push_after_stores(Event::FlushFolder)));
                }
                let inode = self.inode(a[0])?;
                Some(Box::new(move |this, _| this.flush(inode, &path)))
            }
            // The file need not be determined, since the pool writes to only one mapping.
            libc::SYS_msync if a[2] as i32 & libc::MS_SYNC != 0 => {
                Some(Box::new(|this, _| this.flush_mapped()))
            }
            libc::SYS_sync | libc::SYS_syncfs => Some(Box::new(|this, _| {
                (0..this.contents.len()).for_each(|inode| this.events.push(Event::Flush(inode)));
                this.events.push(Event::FlushFolder);
            })),
            libc::SYS_rename => self.rename(self.path(here, a[0]), self.path(here, a[1]), 0),
            libc::SYS_renameat => self.rename(self.path(a[0], a[1]), self.path(a[2], a[3]), 0),
            libc::SYS_renameat2 => self.rename(self.path(a[0], a[1]), self.path(a[2], a[3]), a[4] as u32),
            libc::SYS_link => self.link(self.path(here, a[0]), self.path(here, a[1])),
            libc::SYS_linkat => {
                let empty = a[4] as i32 & libc::AT_EMPTY_PATH != 0 && self.traced.read_text(a[1]).is_empty();
                let from = if empty { self.descriptor(a[0]).into() } else { self.path(a[0], a[1]) };
                self.link(from, self.path(a[2], a[3]))
            }
            libc::SYS_unlink => self.unlink(self.path(here, a[0])),
            libc::SYS_unlinkat => self.unlink(self.path(a[0], a[1])),
            libc::SYS_mmap if a[2] as i32 & libc::PROT_WRITE != 0 => {
                let kind = a[3] as i32 & libc::MAP_TYPE;
                let shared = kind == libc::MAP_SHARED || kind == libc::MAP_SHARED_VALIDATE;
                let inode = self.inode(a[4]).filter(|_| shared)?;
                Some(Box::new(move |this, _| {
                    this.mapped.insert(inode);
                }))
            }
            libc::SYS_truncate | libc::SYS_symlink | libc::SYS_mkdir | libc::SYS_openat2 => {
                let at = usize::from(call.number == libc::SYS_symlink || call.number == libc::SYS_openat2);
                self.refuse(call, self.path(here, a[at]))
            }
            libc::SYS_symlinkat => self.refuse(call, self.path(a[1], a[2])),
            libc::SYS_mkdirat => self.refuse(call, self.path(a[0], a[1])),
            libc::SYS_sendfile => self.refuse(call, self.descriptor(a[0]).into()),
            libc::SYS_copy_file_range | libc::SYS_splice => self.refuse(call, self.descriptor(a[2]).into()),
            libc::SYS_io_uring_setup => panic!("the recorder does not see calls through io_uring"),
            _ => None,
        }
    }

    /// Checks that a call that the recorder does not know does not change the folder.
    fn refuse(&self, call: &Call, path: PathBuf) -> Option<Then> {
        let known = identity(&path).is_some_and(|key| self.inodes.contains_key(&key));
        assert!(
            !known && self.name(&path).is_none(),
            "teach the recorder system call {}: {path:?}",
            call.number
        );
        None
    }

    fn open(&self, folder: u64, text: u64, flags: i32) -> Option<Then> {
        let path = self.path(folder, text);
        if flags & libc::O_TMPFILE == libc::O_TMPFILE {
            if identity(&path)? != self.folder_identity {
                return None;
            }
            return Some(Box::new(|this, descriptor| {
                let key = identity(this.descriptor(descriptor)).unwrap();
                this.new_inode(key);
            }));
        }
        let old = identity(&path);
        if flags & libc::O_CREAT != 0 && old.is_none() {
            let name = self.name(&path)?;
            return Some(Box::new(|this, descriptor| {
                let key = identity(this.descriptor(descriptor)).unwrap();
                let inode = this.new_inode(key);
                this.events.push(Event::Link { name, inode });
            }));
        }
        let inode = *self.inodes.get(&old?)?;
        (flags & libc::O_TRUNC != 0).then(|| -> Then { Box::new(move |this, _| this.resized(inode, 0)) })
    }

    fn allocated(&mut self, inode: Inode, mode: i32, offset: u64, bytes: u64) {
        let (size, end) = (self.contents[inode].len() as u64, offset + bytes);
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        match mode & !libc::FALLOC_FL_KEEP_SIZE {
            // Neither changes the contents.
            0 | libc::FALLOC_FL_UNSHARE_RANGE => {}
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE => {
                let inside = end.min(size).saturating_sub(offset);
                if inside > 0 {
                    self.keep(inode, offset, &vec![0; inside as usize]);
                    self.events.push(Event::Punch { inode, offset, bytes: inside });
                }
            }
            // The call gets space of its own for parts that are shared with other files. The contents stay (`FALLOC_FL_UNSHARE_RANGE`).
            other => panic!("teach the recorder mode {other:#x} of fallocate"),
        }
        if !keeps_size && end > size {
            self.resized(inode, end);
        }
    }

    fn flush_mapped(&mut self) {
        for inode in self.mapped.clone() {
            // A file without a name cannot be a pool.
            if let Some(path) = self.path_of(inode) {
                self.flush(inode, &path);
            }
        }
    }

    fn path_of(&self, inode: Inode) -> Option<PathBuf> {
        let mut paths = std::fs::read_dir(&self.folder).unwrap().map(|entry| entry.unwrap().path());
        paths.find(|path| identity(path).and_then(|key| self.inodes.get(&key)) == Some(&inode))
    }

    fn rename(&self, from: PathBuf, to: PathBuf, flags: u32) -> Option<Then> {
        let event = match (self.name(&from), self.name(&to)) {
            (Some(one), Some(other)) if flags & libc::RENAME_EXCHANGE != 0 => Event::Exchange { one, other },
            (Some(from), Some(to)) => Event::Rename { from, to },
            (None, None) => return None,
            _ => panic!("the recorder knows one folder only: {from:?} to {to:?}"),
        };
        Some(Box::new(|this, _| this.push_after_stores(event)))
    }

    fn link(&self, from: PathBuf, to: PathBuf) -> Option<Then> {
        let name = self.name(&to)?;
        let inode = *self.inodes.get(&identity(&from)?).expect("a link into the folder from elsewhere");
        Some(Box::new(move |this, _| this.push_after_stores(Event::Link { name, inode })))
    }

    fn unlink(&self, path: PathBuf) -> Option<Then> {
        let name = self.name(&path)?;
        Some(Box::new(|this, _| this.push_after_stores(Event::Unlink { name })))
    }
}
