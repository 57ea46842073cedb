//! A thread's undo log (deferred-commit paper, sections 3.1 and 6.1): a small number of entries of fixed size, used in turn.
//!
//! ```text
//! log     word 0   magic | number of entries << 32, or 0 for a log without any
//!         line 1   the first entry, then the others
//! entry   word 0   generation << 1 | committed
//!         word 1   the transaction's number: above those before it in this log, and above the watermark
//!         word 2   number of words after this one | CRC-32C << 32, of generation, number, that count and those words
//!         word 3   pairs: the address of a word that the transaction stores to, and its old value;
//!                  after them, under DCT, a word for each lock: its number << 1 | 1, and its timestamp << 32
//! ```
//!
//! An entry is valid if its checksum is right, so its parts may persist in any order. A transaction commits by setting the lowest bit of its entry's
//! first word. The next transaction to use the entry increments its generation. Whatever part of that persists, the entry is either committed or,
//! until it is complete, has a wrong checksum. In both cases nothing is undone, and nothing has been stored in place before the entry is complete.
//!
//! # Recovery
//!
//! Recovery undoes the entries of all logs that are valid, uncommitted, and numbered above the watermark. Of two that share a lock, the one with the
//! lock's higher timestamp is the later one, and is undone first (6.1.1). SCT logs no timestamps, since no two of its entries that have to be undone
//! share a word. Logging the lower half of a timestamp suffices: entries of one lock persist in the order of its timestamps, and an entry is reused
//! only after the marks of its transaction's predecessors. So there are fewer transactions on the lock between two entries to undo than there are
//! entries, and their timestamps differ by less. Recovery writes back and fences the undone values. Then it raises the watermark to the highest
//! number found anywhere, in complete entries and others, and fences; then it zeroes the logs and fences. After a crash before the watermark is
//! raised, recovery repeats everything. After that nothing is left to undo, whichever part of the logs is zeroed: every remaining number is at or
//! below the watermark. New numbers begin above it.
//!
//! # Remains of one life never complete an entry of another
//!
//! Generations begin at 1 in every life, and a number that never became durable is reused, because the watermark cannot reflect it. So if the
//! checksum and the pairs of an entry survived, but not its first words, the first words of another entry in its place, with the same numbers, would
//! complete it. Recovery would then undo something that never happened. Therefore recovery zeroes the logs durably before a life begins. It also does
//! so when the pool was closed or changes its scheme (`scheme/pool_scheme.rs`). Within a life no entry has the generation of an older one in its place.

use std::collections::BTreeMap;

use strandline_core::error::{Error, Result};
use strandline_core::layout::{Layout, SharedLayout, View};
use strandline_core::log::make_log;
use strandline_core::memory::{LINE_BYTES, LINE_WORDS, Memory, PersistentAddress, Step, VolatileAddress};
use strandline_core::scheme::{RecoveryReport, RecoveryStep, check_transaction, logs, zero_logs};
use strandline_core::transaction::Holder;

const MAGIC: u64 = 0x4f44_4e55;
const HEADER_WORDS: u64 = 3;
/// The number of entries that a worker's log has; its transactions use them in turn.
pub const ENTRIES: u64 = 4;

/// An entry of a log, as one transaction uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoEntry {
    /// The address of its first word.
    pub at: PersistentAddress,
    /// How often the entry was used before, plus one.
    pub generation: u64,
    /// The address of its volatile words.
    volatile: VolatileAddress,
}

impl UndoEntry {
    /// Returns the entry that transaction `holder` uses, if logs have `entries` entries.
    pub fn of<M: Memory>(view: &View<M>, holder: Holder, entries: u64) -> Self {
        let number = holder.sequence % entries;
        Self {
            at: entry_at(&view.layout, view.layout.log(holder.log), entries, number),
            generation: holder.sequence / entries + 1,
            volatile: view.shared.undo_entry(holder.log, number),
        }
    }

    /// Returns the word with the generation whose commit is durable (`commit_persisted`).
    pub fn persisted(self) -> VolatileAddress {
        self.volatile
    }

    /// Returns the log entry's lock.
    pub fn lock(self) -> VolatileAddress {
        self.volatile.word(1)
    }

    /// Returns the word with the transaction's TxID.
    pub fn transaction(self) -> VolatileAddress {
        self.volatile.word(2)
    }

    /// Returns the word with the number of transactions that precede it; their names are at [`UndoEntry::previous`].
    pub fn previous_count(self) -> VolatileAddress {
        self.volatile.word(3)
    }

    /// Returns the word with the name of the `i`-th transaction that precedes it.
    pub fn previous(self, i: u64) -> VolatileAddress {
        self.volatile.word(LINE_WORDS + i)
    }

    /// Returns the word with the generation of the entry's user (6.1.2: "a log generation number associated with every log entry"). The user stores
    /// it after its first barrier, so all earlier generations have committed. Since the word is volatile, it orders a reader after that barrier, and
    /// not after any persist of the user.
    pub fn user(self) -> VolatileAddress {
        self.volatile.word(6)
    }

    /// Returns the newest generation of the entry whose transaction has committed, according to its mark or to the presence of the next generation.
    pub fn committed_generation<M: Memory>(self, memory: &M) -> u64 {
        ((memory.load(self.at) + 1) >> 1).saturating_sub(1)
    }

    /// Marks the entry invalid (`commitTransaction`). Only its owner, which alone begins a new generation, may call this.
    pub fn commit<M: Memory>(self, memory: &M) {
        memory.store(self.at, self.generation << 1 | 1);
    }

    /// Marks the entry invalid on behalf of its owner, unless that has already been done.
    pub fn commit_for_owner<M: Memory>(self, memory: &M) {
        let _ = memory.compare_exchange(self.at, self.generation << 1, self.generation << 1 | 1);
    }

    /// Collects the addresses that the entry can undo.
    pub fn addresses<M: Memory>(self, memory: &M, into: &mut Vec<PersistentAddress>) {
        into.clear();
        let words = memory.load(self.at.word(2)) & u64::from(u32::MAX);
        let firsts = (0..words).step_by(2).map(|word| memory.load(self.at.word(HEADER_WORDS + word)));
        into.extend(firsts.take_while(|first| !is_lock(*first)).map(PersistentAddress::new));
    }
}

/// A lock that a transaction holds: its number, and the timestamp that the transaction gives it.
pub type LockStamp = (u32, u64);

/// Encodes a lock's timestamp for the log. Addresses of words are even, so the lowest bit marks a lock. There are fewer than 2^31 locks, since each
/// has four words.
fn stamp_word((lock, timestamp): LockStamp) -> u64 {
    timestamp << 32 | u64::from(lock) << 1 | 1
}

/// Returns whether this word logs a lock's timestamp, rather than an address.
fn is_lock(word: u64) -> bool {
    word & 1 == 1
}

fn entry_bytes(layout: &Layout, entries: u64) -> u64 {
    (layout.geometry.log_bytes - LINE_BYTES) / entries / LINE_BYTES * LINE_BYTES
}

fn entry_at(layout: &Layout, log: PersistentAddress, entries: u64, number: u64) -> PersistentAddress {
    log.byte(LINE_BYTES + number * entry_bytes(layout, entries))
}

/// Returns how many words an entry has room for after its header.
fn capacity(layout: &Layout, entries: u64) -> u64 {
    entry_bytes(layout, entries) / 8 - HEADER_WORDS
}

/// Returns the words of a whole log with `entries` entries. The first entry belongs to a transaction in progress that stores to the words of `pairs`,
/// which held these values. The crash checker puts this into memory that was used before.
pub fn undo_log_words(
    layout: &Layout,
    entries: u64,
    number: u64,
    pairs: &[(PersistentAddress, u64)],
) -> Vec<u64> {
    let mut words = vec![0; (layout.geometry.log_bytes / 8) as usize];
    words[0] = header(entries);
    let mut entry = Vec::new();
    let pairs = pairs.iter().flat_map(|&(at, old)| [at.offset(), old]);
    encode(1, number, pairs, &mut entry, &mut Vec::new());
    words[LINE_WORDS as usize..][..entry.len()].copy_from_slice(&entry);
    words
}

/// Returns the first word of a log.
const fn header(entries: u64) -> u64 {
    MAGIC | entries << 32
}

/// Encodes an entry: the header, followed by `logged`.
fn encode(
    generation: u64,
    number: u64,
    logged: impl Iterator<Item = u64>,
    words: &mut Vec<u64>,
    bytes: &mut Vec<u8>,
) {
    words.clear();
    words.extend([generation << 1, number, 0]);
    words.extend(logged);
    let logged = &words[HEADER_WORDS as usize..];
    let sum = checksum(generation, number, logged, bytes);
    let count = logged.len() as u64;
    words[2] = count | sum << 32;
}

fn checksum(generation: u64, number: u64, logged: &[u64], bytes: &mut Vec<u8>) -> u64 {
    bytes.clear();
    for word in [generation, number, logged.len() as u64].iter().chain(logged) {
        bytes.extend_from_slice(&word.to_le_bytes());
    }
    crc32c::crc32c(bytes).into()
}

/// The writing end of a log, owned by the worker that leases it.
pub struct UndoLog {
    log: u64,
    entries: u64,
    /// The number of transactions that have used the log in this life; it names the one that begins next.
    sequence: u64,
    /// The number of the last transaction that has an entry.
    number: u64,
    words: Vec<u64>,
    bytes: Vec<u8>,
}

impl UndoLog {
    /// Leases the log `log`. If the pool does not have it yet, creates it with `entries` entries.
    ///
    /// # Panics
    /// Panics if `entries` is 0, above [`SharedLayout::UNDO_ENTRIES`], or not the number with which the log was created.
    pub fn lease<M: Memory>(view: &View<M>, log: u64, entries: u64) -> Self {
        assert!((1..=SharedLayout::UNDO_ENTRIES).contains(&entries), "an undo log of {entries} entries");
        let (memory, start) = (&view.memory, view.layout.log(log));
        make_log(view, log);
        let header = header(entries);
        match memory.load(start) {
            0 => {
                memory.store(start, header);
                memory.write_back(start, Step::UndoLogHeader);
                memory.fence(Step::UndoLogHeader);
            }
            found => {
                assert!(found == header, "log {log} has the first word {found:#x} instead of {header:#x}")
            }
        }
        let resting = Self::resting(view, log);
        Self {
            log,
            entries,
            sequence: memory.load(resting),
            number: memory.load(resting.word(1)).max(memory.load(SharedLayout::CLOCK)),
            words: Vec::with_capacity(256),
            bytes: Vec::with_capacity(2048),
        }
    }

    /// Returns the word that keeps the log's next transaction and last number while no worker leases it.
    fn resting<M: Memory>(view: &View<M>, log: u64) -> VolatileAddress {
        view.shared.undo_entry(log, 0).word(4)
    }

    /// Leaves the log for the next lessee, and raises the pool's clock to at least its last number.
    pub fn release<M: Memory>(&mut self, view: &View<M>) {
        let (memory, resting) = (&view.memory, Self::resting(view, self.log));
        memory.store(resting, self.sequence);
        memory.store(resting.word(1), self.number);
        let mut clock = memory.load(SharedLayout::CLOCK);
        while clock < self.number {
            match memory.compare_exchange(SharedLayout::CLOCK, clock, self.number) {
                Ok(_) => break,
                Err(now) => clock = now,
            }
        }
    }

    /// Returns the transaction that begins next, or is running.
    pub fn running(&self) -> Holder {
        Holder { log: self.log, sequence: self.sequence }
    }

    /// Returns the entry of the running transaction.
    pub fn entry<M: Memory>(&self, view: &View<M>) -> UndoEntry {
        UndoEntry::of(view, self.running(), self.entries)
    }

    /// Returns the number of the last transaction that has an entry.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns how many words an entry has room for: two for each word that a transaction writes, and under DCT one for each lock that it holds.
    pub fn capacity<M>(&self, view: &View<M>) -> u64 {
        capacity(&view.layout, self.entries)
    }

    /// Writes the running transaction's entry (`prepareLogEntry`), under the log's next number: the present values of the words `home`, and the
    /// timestamps of `locks`. Returns the entry and its size in bytes. The entry is not written back yet.
    pub fn prepare_log_entry<M: Memory>(
        &mut self,
        view: &View<M>,
        home: &[(PersistentAddress, u64)],
        locks: &[LockStamp],
    ) -> (UndoEntry, u64) {
        let (memory, entry) = (&view.memory, self.entry(view));
        let pairs = home.iter().flat_map(|&(at, _)| [at.offset(), memory.load(at)]);
        let logged = pairs.chain(locks.iter().copied().map(stamp_word));
        self.number += 1;
        encode(entry.generation, self.number, logged, &mut self.words, &mut self.bytes);
        memory.store_range(entry.at, &self.words);
        (entry, 8 * self.words.len() as u64)
    }

    /// Advances to the next entry after the running transaction has used its own.
    pub fn advance(&mut self) {
        self.sequence += 1;
    }
}

/// An entry to undo.
struct Undo {
    number: u64,
    /// Addresses and old values.
    pairs: Vec<(PersistentAddress, u64)>,
    /// The numbers of locks, with the lower halves of their timestamps.
    locks: Vec<(u32, u32)>,
}

/// Orders entries so that of any two that share a lock, the later one comes first.
///
/// # Errors
/// Returns an error if locks order them in a cycle, which no execution does.
fn latest_first(found: Vec<Undo>) -> Result<Vec<Undo>> {
    let mut holders: BTreeMap<u32, Vec<(u32, usize)>> = BTreeMap::new();
    for (index, undo) in found.iter().enumerate() {
        for &(lock, timestamp) in &undo.locks {
            holders.entry(lock).or_default().push((timestamp, index));
        }
    }
    // For each entry how many entries directly follow it on one of its locks, and which ones it directly follows.
    let mut later = vec![0; found.len()];
    let mut earlier = vec![Vec::new(); found.len()];
    for holders in holders.values_mut() {
        // The lower half of a timestamp wraps around to 0; those of one lock are less than 2^31 apart.
        let one = holders[0].0;
        holders.sort_unstable_by_key(|(timestamp, _)| timestamp.wrapping_sub(one).cast_signed());
        for pair in holders.windows(2) {
            let [(_, before), (_, after)] = [pair[0], pair[1]];
            later[before] += 1;
            earlier[after].push(before);
        }
    }
    let mut ready: Vec<usize> = (0..found.len()).filter(|&index| later[index] == 0).collect();
    let mut found: Vec<Option<Undo>> = found.into_iter().map(Some).collect();
    let mut order = Vec::with_capacity(found.len());
    while let Some(index) = ready.pop() {
        order.extend(found[index].take());
        for &before in &earlier[index] {
            later[before] -= 1;
            if later[before] == 0 {
                ready.push(before);
            }
        }
    }
    if order.len() < found.len() {
        return Err(Error::damaged("the locks' timestamps in undo logs order transactions in a circle"));
    }
    Ok(order)
}

/// Recovers the pool from its undo logs, as described at the head of this file.
///
/// ```
/// # use strandline_core::example::*;
/// # let (recorder, view, layout) = recorded();
/// use strandline_schemes::{UndoLog, recover_undo};
///
/// let (memory, root) = (&view.memory, layout.root(0));
/// let mut log = UndoLog::lease(&view, 0, 4);
/// log.prepare_log_entry(&view, &[(root, 5)], &[]);
/// memory.store(root, 5);
/// // A crash before the entry is marked.
/// assert_eq!((recover_undo(&view, &mut |_| ())?.undone, memory.load(root)), (1, 0));
/// # Ok::<(), strandline_core::Error>(())
/// ```
///
/// # Errors
/// Returns an error if the log directory or a log is inconsistent. Nothing has been changed in that case.
pub fn recover_undo<M: Memory>(
    view: &View<M>,
    begins: &mut dyn FnMut(RecoveryStep),
) -> Result<RecoveryReport> {
    let memory = &view.memory;
    begins(RecoveryStep::Scan);
    let logs = logs(view)?;
    let watermark = memory.load(Layout::WATERMARK);
    let mut report = RecoveryReport { logs: logs.len() as u64, watermark, ..RecoveryReport::default() };
    let mut found = scan_entries(view, &logs, &mut report)?;
    check_transaction(report.watermark)?;

    begins(RecoveryStep::Sort);
    if !memory.omitted(Step::RecoverySort) {
        found = latest_first(found)?;
    }
    report.undone = found.len() as u64;
    let pairs = || found.iter().flat_map(|undo| &undo.pairs);
    if let Some((wild, _)) = pairs().find(|(at, _)| !view.layout.is_data(*at, 1)) {
        return Err(Error::damaged(format!("an undo log names the address {:#x}", wild.offset())));
    }

    begins(RecoveryStep::Replay);
    for &(at, old) in pairs() {
        memory.store(at, old);
        report.words += 1;
    }
    for &(at, _) in pairs() {
        memory.write_back(at, Step::RecoveryDataWriteBack);
    }
    memory.fence(Step::RecoveryDataFence);

    begins(RecoveryStep::Truncate);
    let early = memory.omitted(Step::RecoveryZeroEarly);
    if early {
        zero_logs(view, &logs);
    }
    if !memory.omitted(Step::RecoveryWatermark) {
        memory.store(Layout::WATERMARK, report.watermark);
    }
    memory.write_back(Layout::WATERMARK, Step::RecoveryWatermarkWriteBack);
    memory.fence(Step::RecoveryWatermarkFence);
    if !early {
        zero_logs(view, &logs);
    }
    memory.store(SharedLayout::CLOCK, report.watermark);
    memory.store(SharedLayout::PUBLISHED_WATERMARK, report.watermark);
    Ok(report)
}

/// Returns the entries to undo. `report` has the watermark before, and gets the one after recovery.
fn scan_entries<M: Memory>(
    view: &View<M>,
    logs: &[PersistentAddress],
    report: &mut RecoveryReport,
) -> Result<Vec<Undo>> {
    let (memory, watermark) = (&view.memory, report.watermark);
    let mut found: Vec<Undo> = Vec::new();
    for &log in logs {
        let header = memory.load(log);
        if header == 0 {
            continue;
        }
        let entries = header >> 32;
        if header & u64::from(u32::MAX) != MAGIC || !(1..=SharedLayout::UNDO_ENTRIES).contains(&entries) {
            return Err(Error::damaged(format!(
                "the undo log at {:#x} begins with {header:#x}",
                log.offset()
            )));
        }
        for number in 0..entries {
            let at = entry_at(&view.layout, log, entries, number);
            report.records += 1;
            report.watermark = report.watermark.max(memory.load(at.word(1)));
            if let Some(undo) = read_entry(view, at, entries)
                && (undo.number > watermark || memory.omitted(Step::RecoveryWatermarkFilter))
            {
                found.push(undo);
            }
        }
    }
    Ok(found)
}

/// Returns the entry at `at` if it is complete and not committed.
fn read_entry<M: Memory>(view: &View<M>, at: PersistentAddress, entries: u64) -> Option<Undo> {
    let memory = &view.memory;
    let state = memory.load(at);
    if state == 0 || state & 1 == 1 {
        return None;
    }
    let (number, size) = (memory.load(at.word(1)), memory.load(at.word(2)));
    let count = size & u64::from(u32::MAX);
    if count > capacity(&view.layout, entries) {
        return None;
    }
    let mut words = vec![0; count as usize];
    memory.load_range(at.word(HEADER_WORDS), &mut words);
    let sum = checksum(state >> 1, number, &words, &mut Vec::new());
    if sum != size >> 32 && !memory.omitted(Step::RecoveryChecksum) {
        return None;
    }
    let pairs = words.as_chunks::<2>().0.iter().take_while(|[at, _]| !is_lock(*at));
    let pairs: Vec<_> = pairs.map(|&[at, old]| (PersistentAddress::new(at), old)).collect();
    let locks = words[2 * pairs.len()..].iter().map(|&word| (word as u32 >> 1, (word >> 32) as u32));
    Some(Undo { number, pairs, locks: locks.collect() })
}

/// The paper, for the descriptors of its schemes.
pub const PAPER: &str =
    "Kolli, Pelley, Saidi, Chen, Wenisch: High-Performance Transactions for Persistent Memories";

/// The steps that synchronous and deferred commit share.
pub const UNDO_STEPS: &[Step] = &[
    Step::NewLogZero,
    Step::NewLogDirectory,
    Step::UndoLogHeader,
    Step::PrepareWriteBack,
    Step::MutateWriteBack,
    Step::CommitMarkWriteBack,
    Step::RecoveryChecksum,
    Step::RecoveryWatermarkFilter,
    Step::RecoverySort,
    Step::RecoveryDataWriteBack,
    Step::RecoveryDataFence,
    Step::RecoveryWatermark,
    Step::RecoveryWatermarkWriteBack,
    Step::RecoveryWatermarkFence,
    Step::RecoveryZero,
    Step::RecoveryZeroWriteBack,
    Step::RecoveryZeroFence,
    Step::RecoveryZeroEarly,
];

/// Fills a log with an entry that is not committed.
pub fn leave_entry(layout: &Layout, random: &mut dyn FnMut(u64) -> u64, log: &mut [u64]) {
    let pairs = [(layout.word_near_roots(random), random(u64::MAX))];
    log.copy_from_slice(&undo_log_words(layout, ENTRIES, random(40), &pairs));
}
