//! A process that uses pools by commands, which it gets line by line, and reports the results.
//!
//! Commands come on standard input, and marks go to standard error, each in one system call. So a recorder sees the marks among the writes to the
//! files, in their exact order.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use strandline::{Control, HashMap, OrderedMap, Persist, Ptr, Queue, SingleWriter, Store, Tx, Vector, View};
use strandline_core::file::{OldFiles, restore};
use strandline_core::layout::Geometry;
use strandline_core::memory::Native;
use strandline_core::scheme::Schemes;
use strandline_core::sync::SyncParameters;
use strandline_core::{Domain, Error, Options, Result};

/// The environment variable that makes the process take commands.
const CHILD: &str = "STRANDLINE_FILES_CHILD";
/// Number of blobs in a pool.
const BLOBS: u64 = 40;
/// Number of transactions at the end whose numbers a pool keeps.
const LAST: u64 = 10;
/// Number of rows in bulk.
const BULK: u64 = 12;

/// The content of the pools: the number of transactions, in total and for each process, and a blob of each of the last ones.
#[derive(Persist)]
pub struct Root<'p> {
    count: u64,
    keys: HashMap<'p, u64, u64>,
    blobs: HashMap<'p, u64, Vec<u8>>,
    /// The numbers of the last transactions.
    last: Queue<'p, u64>,
    /// Collections in a collection, which are destroyed when they are replaced.
    groups: OrderedMap<'p, u64, Vector<'p, u64>>,
    /// Rows of one version. One transaction, which does not fit into a log, writes all of them.
    bulk: OrderedMap<'p, u64, Vec<u8>>,
    version: u64,
    /// Rows whose number grows and then becomes zero; and the number of rows, and of times that it became zero.
    pile: OrderedMap<'p, u64, Vec<u8>>,
    piled: u64,
    epoch: u64,
}

/// The number of transactions in a pool for each process, by the process's key.
pub type Counts = BTreeMap<u64, u64>;

pub fn make<'p>(tx: &Tx<'p>) -> Result<Root<'p>> {
    Ok(Root {
        count: 0,
        keys: HashMap::new(tx)?,
        blobs: HashMap::new(tx)?,
        last: Queue::new(tx)?,
        groups: OrderedMap::new(tx)?,
        bulk: OrderedMap::new(tx)?,
        version: 0,
        pile: OrderedMap::new(tx)?,
        piled: 0,
        epoch: 0,
    })
}

/// Small sizes, so that logs wrap, checkpoints run and the heap grows.
pub fn options(domain: Domain) -> Options {
    let geometry = Geometry { size: 1 << 20, logs: 2, log_bytes: 1 << 15, chunk_bytes: 1 << 12 };
    let sync = SyncParameters {
        ring_blocks: 64,
        initial_ring_blocks: 64,
        dirty_pages: 48,
        staging_blocks: 2,
        ..SyncParameters::default()
    };
    let assume_persistent = domain == Domain::Flush;
    let (lock_bits, initial_size) = (10, Some(0));
    Options { geometry, domain, sync, lock_bits, initial_size, assume_persistent, ..Options::default() }
}

/// Returns options for a heap that grows several times. The log either grows, checkpoints run all the time and pages of memory are released, or it is
/// so large that checkpoints are rare.
fn roomy(domain: Domain, rare: bool, checksums: bool) -> Options {
    let small = options(domain);
    let blocks = if rare { 256 } else { 16 };
    Options {
        geometry: Geometry { size: 12 << 20, logs: 6, log_bytes: 1 << 17, chunk_bytes: 1 << 14 },
        sync: SyncParameters {
            ring_blocks: blocks.max(small.sync.ring_blocks),
            initial_ring_blocks: blocks,
            dirty_pages: if rare { 1024 } else { small.sync.dirty_pages },
            memory_pages: Some(if rare { 1024 } else { 64 }),
            checksums,
            ..small.sync
        },
        ..small
    }
}

/// Returns a row of a version in bulk, or `None` if the version does not have it. All rows together do not fit into a log.
fn bulk(version: u64, row: u64) -> Option<Vec<u8>> {
    let is_there = version > 0 && !(version + row).is_multiple_of(4);
    let bytes = 20_000 + (version * 7919 + row * 104_729) % 40_000;
    is_there.then(|| (0..bytes).map(|at| (version * 29 + row * 13 + at / 64) as u8 | 1).collect())
}

/// Returns the number of rows that a transaction puts on the pile: one of many bytes or, in every second epoch, many small ones of as many bytes. So
/// small blocks, hundreds to a chunk, take the place of large ones.
fn in_one(epoch: u64) -> u64 {
    if epoch.is_multiple_of(2) { 1 } else { 12 }
}

/// Returns a row of the pile.
fn piled(epoch: u64, row: u64) -> Vec<u8> {
    let drawn = row * 7919 + epoch * 104_729;
    let bytes = if epoch.is_multiple_of(2) { 5000 + drawn % 25_000 } else { 8 + drawn % 120 };
    (0..bytes).map(|at| (epoch * 37 + row * 11 + at / 64) as u8 | 1).collect()
}

/// Returns the blob of transaction `number` of process `key`. It has a few bytes, more than a chunk, or more than a log, and begins with the key.
fn blob(number: u64, key: u64) -> Vec<u8> {
    let bytes = match number + key {
        sum if sum % 11 == 5 => 20_000,
        sum if sum % 7 == 3 => 5000,
        _ => 40 + (number + 5 * key) * 131 % 1500,
    };
    let rest = (0..bytes).map(|at| (number * 31 + key * 57 + at) as u8);
    [key as u8].into_iter().chain(rest).collect()
}

/// Runs a transaction of process `key`, and returns the number of its transactions, including this one.
fn change<'p, C: Control>(tx: &Tx<'p, C>, root: Ptr<'p, Root<'p>>, key: u64) -> Result<u64> {
    let number = root.update(tx, |root| {
        root.count += 1;
        root.count
    })?;
    let root = root.get(tx)?;
    let done = root.keys.get(tx, &key)?.unwrap_or(0) + 1;
    root.keys.insert(tx, &key, &done)?;
    root.blobs.insert(tx, &(number % BLOBS), &blob(number, key))?;
    root.last.push(tx, &number)?;
    if number > LAST {
        root.last.pop(tx)?;
    }
    if number % 5 == 0 {
        root.groups.remove(tx, &(number % 7))?;
    } else {
        let group = Vector::new(tx)?;
        group.extend(tx, 0..number % 9)?;
        root.groups.insert(tx, &(number % 7), &group)?;
    }
    Ok(done)
}

/// Like `change`, but also writes the next version of all rows in bulk.
fn change_bulk<'p>(tx: &Tx<'p>, root: Ptr<'p, Root<'p>>, key: u64) -> Result<u64> {
    let version = root.update(tx, |root| {
        root.version += 1;
        root.version
    })?;
    let rows = root.get(tx)?.bulk;
    for row in 0..BULK {
        match bulk(version, row) {
            Some(bytes) => drop(rows.insert(tx, &row, &bytes)?),
            None => drop(rows.remove(tx, &row)?),
        }
    }
    change(tx, root, key)
}

/// Like `change`, but also puts rows on the pile, or removes all of them.
fn change_pile<'p>(tx: &Tx<'p>, root: Ptr<'p, Root<'p>>, key: u64, adds: bool) -> Result<u64> {
    let before = root.get(tx)?;
    if adds {
        let more = in_one(before.epoch);
        for row in before.piled..before.piled + more {
            before.pile.insert(tx, &row, &piled(before.epoch, row))?;
        }
        root.update(tx, |root| root.piled += more)?;
    } else {
        (0..before.piled).try_for_each(|row| before.pile.remove(tx, &row).map(drop))?;
        root.update(tx, |root| (root.piled, root.epoch) = (0, root.epoch + 1))?;
    }
    change(tx, root, key)
}

/// Runs this number of transactions of process `key`, and acknowledges each.
fn update<C>(store: &Store<Root<'static>, C>, key: u64, count: u64) -> Result<()>
where
    C: Control<Memory = Native>,
{
    for _ in 0..count {
        let done = store.write(|tx, root| change(tx, root, key))?;
        mark(&format!("ack {key}={done}"));
    }
    Ok(())
}

/// Runs transactions in two threads. The second has the next key. If the system does not start it, the first one runs all.
fn update_together<C>(store: &Store<Root<'static>, C>, key: u64, count: u64) -> Result<()>
where
    C: Control<Memory = Native>,
    Store<Root<'static>, C>: Sync,
{
    std::thread::scope(|threads| {
        let other = move || update(store, key + 1, count);
        let other = std::thread::Builder::new().spawn_scoped(threads, other);
        let own = update(store, key, count);
        match other {
            Ok(other) => own.and(other.join().expect("it does not panic")),
            Err(_) => own.and_then(|()| update(store, key + 1, count)),
        }
    })
}

/// Runs one transaction that does not fit into a log.
fn update_bulk(store: &Store<Root>, key: u64) -> Result<()> {
    let done = store.write(|tx, root| change_bulk(tx, root, key))?;
    mark(&format!("ack {key}={done}"));
    Ok(())
}

/// Runs transactions that put rows on the pile, or one that removes all of them.
fn update_pile(store: &Store<Root>, key: u64, count: Option<u64>) -> Result<()> {
    for _ in 0..count.unwrap_or(1) {
        let done = store.write(|tx, root| change_pile(tx, root, key, count.is_some()))?;
        mark(&format!("ack {key}={done}"));
    }
    Ok(())
}

/// Runs transactions in two threads, one of which also runs large ones. A third thread compacts, and a fourth reads snapshots.
fn work(store: &Store<Root<'static>>, key: u64, count: u64) -> Result<()> {
    let ended = AtomicU64::new(0);
    let goes_on = || ended.load(Ordering::Relaxed) < 2;
    let ends = |result: Result<()>| {
        ended.fetch_add(if result.is_ok() { 1 } else { 2 }, Ordering::Relaxed);
        result
    };
    std::thread::scope(|threads| {
        let all = [
            threads.spawn(|| {
                let one = |number| match number % 20 {
                    19 => update_pile(store, key, None),
                    number if number % 2 == 0 => update_pile(store, key, Some(1)),
                    _ => update(store, key, 1),
                };
                ends((0..count).filter(|_| goes_on()).try_for_each(one))
            }),
            threads.spawn(|| {
                let one = |number| match number % 6 {
                    3 => update_bulk(store, key + 1),
                    _ => update(store, key + 1, 1),
                };
                ends((0..count).filter(|_| goes_on()).try_for_each(one))
            }),
            threads.spawn(|| {
                while goes_on() {
                    store.compact()?;
                    std::thread::sleep(Duration::from_millis(2));
                }
                Ok(())
            }),
            threads.spawn(|| {
                while goes_on() {
                    read_snapshot(store)?;
                }
                Ok(())
            }),
        ];
        all.map(|thread| thread.join().expect("it does not panic")).into_iter().collect()
    })
}

/// Reads a snapshot twice, with some time between. It must be consistent and the same.
fn read_snapshot(store: &Store<Root>) -> Result<()> {
    let snapshot = store.snapshot()?;
    let mut before = None;
    for _ in 0..2 {
        let (tx, root) = snapshot.read();
        let (now, wrong) = read(&tx, root)?;
        if let Some(wrong) = wrong {
            mark(&format!("wrong: a snapshot: {wrong}"));
        }
        if before.as_ref().is_some_and(|before| *before != now) {
            mark(&format!("wrong: a snapshot with {before:?} has {now:?} later"));
        }
        before = Some(now);
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Reads the whole content and compares its parts. Returns the counts, and a problem if there is one.
fn read<'p>(tx: &View<'p>, root: Ptr<'p, Root<'p>>) -> Result<(Counts, Option<String>)> {
    let root = root.get(tx)?;
    let keys: Counts = root.keys.iter(tx).collect::<Result<_>>()?;
    let mut wrong = None;
    let from = root.count.saturating_sub(BLOBS - 1).max(1);
    for number in from..=root.count {
        let found = root.blobs.get(tx, &(number % BLOBS))?.unwrap_or_default();
        if found.first().is_none_or(|&key| found != blob(number, key.into())) {
            wrong = Some(format!("the blob of transaction {number} of {} is not what it was", root.count));
        }
    }
    let blobs = root.blobs.iter(tx).count() as u64;
    if blobs != (root.count + 1).saturating_sub(from) {
        wrong = Some(format!("{blobs} blobs of {} transactions", root.count));
    }
    if keys.values().sum::<u64>() != root.count {
        wrong = Some(format!("{} transactions in all, of each {keys:?}", root.count));
    }
    for row in 0..BULK {
        if root.bulk.get(tx, &row)? != bulk(root.version, row) {
            wrong = Some(format!("row {row} of version {} in bulk is not what it was", root.version));
        }
    }
    for row in 0..root.piled {
        if root.pile.get(tx, &row)?.is_none_or(|found| found != piled(root.epoch, row)) {
            wrong = Some(format!("row {row} of {} of the pile is not what it was", root.piled));
        }
    }
    let rows = root.pile.iter(tx).count() as u64;
    if rows != root.piled {
        wrong = Some(format!("the pile has {rows} rows, not {}", root.piled));
    }
    let counted = (root.pile.len(tx)?, root.bulk.len(tx)?, root.groups.len(tx)?);
    let walked = (rows, root.bulk.iter(tx).count() as u64, root.groups.iter(tx).count() as u64);
    if counted != walked {
        wrong = Some(format!("{counted:?} rows are counted where there are {walked:?}"));
    }
    let counted = (root.blobs.len(tx)?, root.keys.len(tx)?, root.last.len(tx)?);
    let walked = (blobs, keys.len() as u64, root.last.iter(tx)?.count() as u64);
    if counted != walked || walked.2 != root.count.min(LAST) {
        wrong = Some(format!("{counted:?} blobs, keys and last ones are counted where there are {walked:?}"));
    }
    Ok((keys, wrong))
}

/// Reads the whole content of the store, and compares its parts.
///
/// # Errors
/// Returns an error if only a part of a transaction is there, if memory is leaked, if something is damaged, and for errors of the library.
pub fn contents(store: &Store<Root>) -> Result<Counts, String> {
    try_contents(store).map_err(|error| format!("reading: {error}"))?
}

/// Like [`contents`], but distinguishes errors of the library from problems of the content.
fn try_contents(store: &Store<Root>) -> Result<Result<Counts, String>> {
    let (keys, wrong) = store.read(read)?;
    let lost = store.lost_memory()?;
    if lost.blocks > 0 {
        return Ok(Err(format!("memory is leaked: {lost:?}")));
    }
    let damage = store.check()?;
    if !damage.is_empty() {
        return Ok(Err(format!("check: {damage:?}")));
    }
    Ok(wrong.map_or(Ok(keys), Err))
}

/// Runs `open` again while another process has the pool locked. Reports once that it is locked.
fn patiently<T>(mut open: impl FnMut() -> Result<T>) -> Result<T> {
    let (since, mut was_locked) = (Instant::now(), false);
    loop {
        match open() {
            Err(Error::Locked { .. }) if since.elapsed() < Duration::from_secs(300) => {
                if !std::mem::replace(&mut was_locked, true) {
                    mark("locked");
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            other => return other,
        }
    }
}

/// Writes one mark, in one system call.
fn mark(text: &str) {
    // A mark has one line, but an error's message may have several.
    let line = format!("{}\n", text.replace('\n', " "));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// The error of a command that needs a pool if none is open.
pub const NO_POOL: &str = "no pool is open";

/// Returns the numbers of transactions in a store, as a mark lists them.
fn held(store: &Store<Root>) -> Result<String> {
    let held = try_contents(store)?.map_err(Error::damaged)?;
    let held: Vec<String> = held.iter().map(|(key, count)| format!("{key}={count}")).collect();
    Ok(held.join(" "))
}

#[derive(Default)]
struct State {
    domain: Option<Domain>,
    /// The options that are used in place of the usual ones.
    roomy: Option<Options>,
    /// True if a mark with the kind and the number of an error precedes the mark with its text.
    tells_kinds: bool,
    store: Option<Store<Root<'static>>>,
}

impl State {
    fn store(&self) -> Result<&Store<Root<'static>>> {
        self.store.as_ref().ok_or_else(|| Error::Parameter(NO_POOL.into()))
    }

    fn opened(&mut self, store: Store<Root<'static>>) -> Result<()> {
        mark(&format!("opened {}", held(&store)?));
        self.store = Some(store);
        Ok(())
    }

    fn run(&mut self, line: &str) -> Result<()> {
        let domain = self.domain.unwrap_or(Domain::Sync);
        let options = self.roomy.clone().unwrap_or_else(|| options(domain));
        let words: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        match words[0] {
            "begin" => mark("begin"),
            // Waits until a time, to the microsecond.
            "at" => {
                let until = SystemTime::UNIX_EPOCH + Duration::from_nanos(number(1));
                while SystemTime::now() < until {
                    std::hint::spin_loop();
                }
            }
            "domain" => {
                let domains = [Domain::Sync, Domain::Process, Domain::Flush];
                self.domain = domains.into_iter().find(|domain| domain.name() == words[1]);
            }
            "kinds" => self.tells_kinds = true,
            "roomy" => {
                self.roomy = Some(roomy(domain, words.contains(&"rare"), words.contains(&"checksums")));
            }
            "create" => self.opened(Store::<Root>::create_new(words[1], &options, make)?)?,
            "open" => self.opened(Store::<Root>::open_existing(words[1], &options)?)?,
            "open_or_create" => {
                let opened = patiently(|| Store::<Root>::open(words[1], &options, make))?;
                self.opened(opened)?;
            }
            "update" => update(self.store()?, number(1), number(2))?,
            "bulk" => {
                let (key, count) = (number(1), number(2));
                (0..count).try_for_each(|_| update_bulk(self.store()?, key))?;
            }
            "pile" => update_pile(self.store()?, number(1), Some(number(2)))?,
            "unpile" => update_pile(self.store()?, number(1), None)?,
            "work" => work(self.store()?, number(1), number(2))?,
            "compact" => drop(self.store()?.compact()?),
            // Uses two threads, of which the second has the next key.
            "together" => {
                update_together(self.store()?, number(1), number(2))?;
            }
            // A power failure may lose some of these.
            "later" => {
                mark(&format!("more {}={}", words[1], words[2]));
                for _ in 0..number(2) {
                    drop(self.store()?.later().write(|tx, root| change(tx, root, number(1)))?);
                }
            }
            "checkpoint" => self.store()?.checkpoint()?,
            // Uses another handle, with one writer at a time, and with pages that are mapped ahead.
            "single" => {
                let options = Options { map_ahead: true, ..options };
                let store = Store::<Root, SingleWriter>::open_existing(words[1], &options)?;
                update_together(&store, number(2), number(3))?;
                store.close()?;
            }
            "snapshot" => read_snapshot(self.store()?)?,
            // Uses another handle, which only reads.
            "look" => {
                let store = Store::<Root>::open_read_only(words[1], &options)?;
                mark(&format!("holds {}", held(&store)?));
                store.close()?;
            }
            "backup" => {
                self.store()?.backup(words[1])?;
            }
            "restore" => {
                let old_files = if words.contains(&"replace") { OldFiles::Remove } else { OldFiles::Keep };
                patiently(|| restore(words[1], words[2], old_files, Schemes::default()))?;
            }
            "resize" => patiently(|| strandline_core::file::resize_log(words[1], number(2)))?,
            "repair" => {
                let report = patiently(|| strandline_core::file::repair(words[1], Schemes::default()))?;
                mark(&format!("repaired {}", report.repaired.len()));
            }
            "close" => match self.store.take() {
                Some(store) => store.close()?,
                None => return Err(Error::Parameter(NO_POOL.into())),
            },
            "kill" => nix::sys::signal::raise(nix::sys::signal::Signal::SIGKILL).unwrap(),
            other => panic!("no command {other}"),
        }
        Ok(())
    }
}

/// Returns the system's number of an error's cause, if it has one.
fn number_of(error: &Error) -> Option<i32> {
    std::error::Error::source(error)?.downcast_ref::<std::io::Error>()?.raw_os_error()
}

/// Runs in the other process. In the test itself it returns immediately.
#[test]
fn child() {
    if std::env::var(CHILD).is_err() {
        return;
    }
    let mut state = State::default();
    for line in std::io::stdin().lock().lines() {
        let line = line.unwrap();
        match state.run(&line) {
            Ok(()) => mark(&format!("done {line}")),
            Err(error) => {
                if state.tells_kinds {
                    mark(&format!("kind {:?} {}", error.kind(), number_of(&error).unwrap_or(0)));
                }
                mark(&format!("error {line}: {error:#}"));
            }
        }
    }
}

/// Returns the command that starts such a process in `folder`.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "files::child::child", "--test-threads=1", "--nocapture"]).env(CHILD, "1");
    command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

/// Such a process, without tracing.
pub struct Process {
    child: Child,
    commands: Option<ChildStdin>,
    marks: BufReader<ChildStderr>,
}

impl Process {
    pub fn start(folder: &Path) -> Self {
        let mut command = command(folder);
        // The process gets a group of its own, so that signals of a terminal reach only the test.
        let mut child = command.stderr(Stdio::piped()).process_group(0).spawn().unwrap();
        let (commands, marks) = (child.stdin.take(), BufReader::new(child.stderr.take().unwrap()));
        Self { child, commands, marks }
    }

    /// Sends commands to the process.
    pub fn tell(&mut self, script: &str) {
        let lines: String = script.split(';').map(|line| format!("{}\n", line.trim())).collect();
        // If the process is gone, its marks show that.
        let _ = self.commands.as_mut().expect("not ended").write_all(lines.as_bytes());
    }

    /// Returns the next mark, or `None` if the process is gone.
    pub fn next_mark(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.marks.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// Returns the marks up to and including the first that `last` accepts.
    pub fn marks_until(&mut self, last: impl Fn(&str) -> bool) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(mark) = self.next_mark() {
            let ends = last(&mark);
            all.push(mark);
            if ends {
                break;
            }
        }
        all
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Closes the process's input, waits for its end, and returns its remaining marks.
    pub fn end(mut self) -> Vec<String> {
        self.commands = None;
        let rest = self.marks_until(|_| false);
        self.child.wait().unwrap();
        rest
    }

    /// Runs a process with this script to its end, and returns all its marks.
    pub fn run(folder: &Path, script: &str) -> Vec<String> {
        let mut process = Self::start(folder);
        process.tell(script);
        process.end()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the counts in a mark like `opened 1=3 2=4`, `ack 1=3` or `more 1=3`.
pub fn counts(mark: &str) -> Counts {
    let pair = |word: &str| {
        let (key, count) = word.split_once('=')?;
        Some((key.parse().ok()?, count.parse().ok()?))
    };
    mark.split(' ').filter_map(pair).collect()
}
