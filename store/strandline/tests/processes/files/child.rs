//! A process that uses pools as it is told, line by line, and says what it has done.
//!
//! Commands come on standard input, marks go to standard error, each in one system call: the recorder sees them among the
//! writes to the files, in their exact order.

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

/// Names the process as one that takes commands.
const CHILD: &str = "STRANDLINE_FILES_CHILD";
/// Blobs that a pool holds at a time.
const BLOBS: u64 = 40;
/// Transactions whose numbers a pool holds.
const LAST: u64 = 10;
/// Rows in bulk.
const BULK: u64 = 12;

/// What the pools hold: how many transactions there were, in all and of each process, and a blob of each of the last.
#[derive(Persist)]
pub struct Root<'p> {
    count: u64,
    keys: HashMap<'p, u64, u64>,
    blobs: HashMap<'p, u64, Vec<u8>>,
    /// The numbers of the last transactions.
    last: Queue<'p, u64>,
    /// Collections in a collection, which go when they are replaced.
    groups: OrderedMap<'p, u64, Vector<'p, u64>>,
    /// Rows of a version, all of which one transaction writes that no log holds.
    bulk: OrderedMap<'p, u64, Vec<u8>>,
    version: u64,
    /// Rows that become more and more, and then none: how many, and how often there were none.
    pile: OrderedMap<'p, u64, Vec<u8>>,
    piled: u64,
    epoch: u64,
}

/// How many transactions of each process, by its key, a pool holds.
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

/// Small, so that logs wrap, checkpoints run and the heap grows.
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

/// With a heap that grows several times, and either a log that grows, checkpoints all the time and memory of which pages are given back, or a
/// log for which checkpoints are rare.
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

/// The row of a version in bulk, if it has this one: together they are more than a log holds.
fn bulk(version: u64, row: u64) -> Option<Vec<u8>> {
    let is_there = version > 0 && !(version + row).is_multiple_of(4);
    let bytes = 20_000 + (version * 7919 + row * 104_729) % 40_000;
    is_there.then(|| (0..bytes).map(|at| (version * 29 + row * 13 + at / 64) as u8 | 1).collect())
}

/// Rows that a transaction puts on the pile: one of many bytes, or, in every second epoch, as many small ones. So there are small blocks,
/// hundreds to a chunk, where large ones were.
fn in_one(epoch: u64) -> u64 {
    if epoch.is_multiple_of(2) { 1 } else { 12 }
}

/// A row of the pile.
fn piled(epoch: u64, row: u64) -> Vec<u8> {
    let drawn = row * 7919 + epoch * 104_729;
    let bytes = if epoch.is_multiple_of(2) { 5000 + drawn % 25_000 } else { 8 + drawn % 120 };
    (0..bytes).map(|at| (epoch * 37 + row * 11 + at / 64) as u8 | 1).collect()
}

/// The blob of transaction `number`, of process `key`: a few bytes, more than a chunk, or more than a log. It begins with the key.
fn blob(number: u64, key: u64) -> Vec<u8> {
    let bytes = match number + key {
        sum if sum % 11 == 5 => 20_000,
        sum if sum % 7 == 3 => 5000,
        _ => 40 + (number + 5 * key) * 131 % 1500,
    };
    let rest = (0..bytes).map(|at| (number * 31 + key * 57 + at) as u8);
    [key as u8].into_iter().chain(rest).collect()
}

/// What a transaction of process `key` does; how many it has done with it.
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

/// Also writes the next version of all rows in bulk.
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

/// Also puts rows on the pile, or takes all of them away.
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

/// Runs so many transactions of process `key`, each of which it says is done when it is.
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

/// Two threads run transactions, of which the second has the next key. Where the system refuses it the first one runs all.
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

/// One transaction that no log holds.
fn update_bulk(store: &Store<Root>, key: u64) -> Result<()> {
    let done = store.write(|tx, root| change_bulk(tx, root, key))?;
    mark(&format!("ack {key}={done}"));
    Ok(())
}

/// Transactions that put rows on the pile, or one that takes all away.
fn update_pile(store: &Store<Root>, key: u64, count: Option<u64>) -> Result<()> {
    for _ in 0..count.unwrap_or(1) {
        let done = store.write(|tx, root| change_pile(tx, root, key, count.is_some()))?;
        mark(&format!("ack {key}={done}"));
    }
    Ok(())
}

/// Two threads run transactions, one of them large ones as well; beside them a third compacts, and a fourth reads snapshots.
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

/// Reads a snapshot twice, with some time between: it is whole, and the same.
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

/// All that there is, held against itself: the counts, and what is wrong.
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

/// Reads all that the store holds and holds it against itself.
///
/// # Errors
/// What a transaction had done is there in part only; memory is leaked; something is damaged; the library's own.
pub fn contents(store: &Store<Root>) -> Result<Counts, String> {
    try_contents(store).map_err(|error| format!("reading: {error}"))?
}

/// Like [`contents`], but keeps the library's errors apart from what is wrong with the contents.
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

/// Runs `open` again while another process has the pool locked, and says so once.
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

/// Says one thing, in one write.
fn mark(text: &str) {
    // As long as a line: what an error says may have several.
    let line = format!("{}\n", text.replace('\n', " "));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// What a command that needs a pool returns where none is open.
pub const NO_POOL: &str = "no pool is open";

/// The transactions that a store holds, as a mark lists them.
fn held(store: &Store<Root>) -> Result<String> {
    let held = try_contents(store)?.map_err(Error::damaged)?;
    let held: Vec<String> = held.iter().map(|(key, count)| format!("{key}={count}")).collect();
    Ok(held.join(" "))
}

#[derive(Default)]
struct State {
    domain: Option<Domain>,
    /// What its options are instead of the usual ones.
    roomy: Option<Options>,
    /// Whether a mark with the kind and the number of an error precedes the mark with its text.
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
            // Waits for a time, to the microsecond.
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
            // By two threads, of which the second has the next key.
            "together" => {
                update_together(self.store()?, number(1), number(2))?;
            }
            // Of which a power failure may take some.
            "later" => {
                mark(&format!("more {}={}", words[1], words[2]));
                for _ in 0..number(2) {
                    drop(self.store()?.later().write(|tx, root| change(tx, root, number(1)))?);
                }
            }
            "checkpoint" => self.store()?.checkpoint()?,
            // By another handle, of which one transaction writes at a time, and whose pages are mapped ahead.
            "single" => {
                let options = Options { map_ahead: true, ..options };
                let store = Store::<Root, SingleWriter>::open_existing(words[1], &options)?;
                update_together(&store, number(2), number(3))?;
                store.close()?;
            }
            "snapshot" => read_snapshot(self.store()?)?,
            // By another handle, which only reads.
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

/// The system's number of what caused an error, if it has one.
fn number_of(error: &Error) -> Option<i32> {
    std::error::Error::source(error)?.downcast_ref::<std::io::Error>()?.raw_os_error()
}

/// Runs in the other process, and returns at once in the test.
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

/// The command that starts such a process in `folder`.
pub fn command(folder: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "files::child::child", "--test-threads=1", "--nocapture"]).env(CHILD, "1");
    command.current_dir(folder).stdin(Stdio::piped()).stdout(Stdio::null());
    command
}

/// Such a process, which nobody traces.
pub struct Process {
    child: Child,
    commands: Option<ChildStdin>,
    marks: BufReader<ChildStderr>,
}

impl Process {
    pub fn start(folder: &Path) -> Self {
        let mut command = command(folder);
        // A process group of its own: a terminal's signals are the test's.
        let mut child = command.stderr(Stdio::piped()).process_group(0).spawn().unwrap();
        let (commands, marks) = (child.stdin.take(), BufReader::new(child.stderr.take().unwrap()));
        Self { child, commands, marks }
    }

    /// Gives it these commands.
    pub fn tell(&mut self, script: &str) {
        let lines: String = script.split(';').map(|line| format!("{}\n", line.trim())).collect();
        // A process that is gone says so by its marks.
        let _ = self.commands.as_mut().expect("not ended").write_all(lines.as_bytes());
    }

    /// The next thing that it says; `None`: it is gone.
    pub fn next_mark(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.marks.read_line(&mut line).unwrap();
        (read > 0).then(|| line.trim_end().to_owned())
    }

    /// What it says up to and with the first mark that `last` accepts.
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

    /// Kills it.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    /// Tells it that there is no more to do, and waits for its end; the rest of what it says.
    pub fn end(mut self) -> Vec<String> {
        self.commands = None;
        let rest = self.marks_until(|_| false);
        self.child.wait().unwrap();
        rest
    }

    /// All that it says about this script, to its end.
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

/// The counts in a mark `opened 1=3 2=4`, `ack 1=3` or `more 1=3`.
pub fn counts(mark: &str) -> Counts {
    let pair = |word: &str| {
        let (key, count) = word.split_once('=')?;
        Some((key.parse().ok()?, count.parse().ok()?))
    };
    mark.split(' ').filter_map(pair).collect()
}
