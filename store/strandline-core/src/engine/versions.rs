//! Snapshots: old versions of lines, to read the pool as it was at one moment while transactions run.
//!
//! # The protocol
//!
//! A snapshot has a *time* S, the TxID of the last transaction that it sees. Home has the last committed contents. While there are
//! snapshots, a transaction that changes a line first keeps the old contents as an *entry*: the line, its eight words, and the TxID T of
//! this transaction. So the word at time S is in the line's entry with the smallest T above S, or at home if there is no such entry.
//! Entries are only in volatile memory.
//!
//! *Begin.* The snapshot takes a registration by an exchange from "none" to "everything", which forbids dropping any version. Then it
//! increases the count of snapshots, reads S from the clock, and stores S in the registration. Last, it waits until all transactions with a
//! TxID up to S have stored home.
//!
//! *Commit.* With `in_commit` published, the transaction takes its TxID T by a read-modify-write. When it is durable it loads the count of
//! snapshots and, if there are any, the registrations. A snapshot that it does not see there has not read the clock yet, and its S will be
//! at least T, or that of a large transaction's own snapshot. If one is below T, the transaction pushes an entry for each line that it is
//! about to change, before its first store to home. If the line already has an entry with a T above all registered S, that one serves all
//! snapshots, and no other is necessary. So a line that is written again and again has at most one entry for each snapshot.
//!
//! *Read.* A read loads the word at home first, and then follows the chain. Writers push an entry before they change home, so if the chain has
//! no entry for the read, the word from home is right. There is no lock, no validation and no waiting. Writers also raise the largest T of all
//! entries before they change home: if it is not above S, the read need not follow the chain.
//!
//! *Chains.* An entry is in the chain of its line's hash, which other lines share; the entries of one line have descending T. They are
//! pushed at the head by an exchange. One reclaimer at a time cuts off the entries that no snapshot needs: the bound is the smaller of the
//! clock, read before the registrations, and the oldest S; entries at or below it are free, and a chain is cut where all entries behind are
//! free. The memory of an entry is only ever used for entries. A reader at an entry that is being refilled sees T = 0 first, or the new T,
//! which is stored last. Entries are reclaimed when none is free, which is a scan of all chains, and when a snapshot ends after many
//! pushes. The latter delays a reader, so it scans only some chains, and the next snapshot that ends scans those that follow.
//!
//! *Bound.* When no entry is left, and reclaiming frees too few, the oldest snapshot is ended: its registration is marked by an exchange,
//! and the bound computed again. Each read at a snapshot checks this mark last. Writers do not wait for snapshots.
//!
//! *Large transactions* run alone and store home while they run (`large.rs`). Before one with TxID T raises the clock, it registers a
//! snapshot of time T - 1, so that it keeps the contents that it changes, and publishes T ([`SharedLayout::LARGE`]). A snapshot that begins
//! meanwhile loads the clock and then this word: its S is T - 1, which has been stored home, and it does not wait. The bound of a reclaimer
//! is then at most T - 1. Before a snapshot is ended for want of room, the published T is withdrawn, so that snapshots that begin
//! afterwards wait for the large transaction as for any other. The large transaction also withdraws it before it lets others see its
//! changes.
//!
//! *Releasing memory.* When the last snapshot ends and many entries were used, their memory is released to the system. The thread that does
//! so has the latch, and marks the count of snapshots by an exchange from 0. From then on no reader is at an entry, and a new snapshot
//! waits until the mark is gone before it reads the clock. A transaction that sees the mark keeps no versions: its TxID was taken before,
//! so every snapshot that begins later sees it. Transactions that may have checked before the mark have TxIDs up to the present clock, and
//! are waited for as when a snapshot begins; if that takes long, no memory is released. Then no thread refers to an entry. Heads and
//! entries become zeros, as at first, and the mark is removed.
//!
//! `lab/strandline-scheme-check/tests/all/snapshots.rs` and `beside_large.rs` run the protocol under schedules and store buffers, and leave
//! out each of its rules in turn.

use std::ops::Range;

use crate::error::{Error, Result};
use crate::layout::{Registered, SharedLayout, VersionLayout, View};
use crate::memory::latch;
use crate::memory::{LINE_WORDS, Memory, PersistentAddress, Step, VolatileAddress};
use crate::scheme::wait_for_commits;

/// A bit in the count of snapshots: the memory of all entries is being released.
pub(super) const GIVING_BACK: u64 = 1 << 63;

/// When the last snapshot ends, the memory of entries is released if more than one in this many entries was used.
const SHARE_TO_KEEP: u64 = 64;
/// Memory is not released if a commit must be waited for longer than this number of naps.
const NAPS: u32 = 4;

/// If reclaiming frees less than one in this many entries, the oldest snapshot is ended, so that reclaiming is rare.
const SHARE_TO_FREE: u64 = 8;

/// A snapshot that ends scans this number of chains, if there was one push for each `CHAINS_FOR_A_PUSH` of them, and `LEAST_PUSHES` pushes
/// at least.
const CHAINS_AT_A_TIME: u64 = 1 << 16;
const CHAINS_FOR_A_PUSH: u64 = 32;
const LEAST_PUSHES: u64 = 32;

/// A registered snapshot.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registration {
    word: VolatileAddress,
    /// The TxID of the last transaction that the snapshot sees.
    pub time: u64,
}

/// The error of a snapshot that was ended, because its versions needed more room than there is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended;

/// Registers a snapshot of the present state, and waits until all transactions in it have stored home.
///
/// # Errors
/// Returns [`Error::TooManySnapshots`] if every registration is taken, [`Error::Parameter`] if the pool has no memory for versions, and
/// [`Error::Deadlock`].
pub(super) fn register<M: Memory>(view: &View<M>) -> Result<Registration> {
    let (memory, versions) = (&view.memory, view.shared.versions());
    if !versions.any() {
        return Err(Error::Parameter(
            "a snapshot needs memory for old versions: open the pool with Options::snapshot_bytes".into(),
        ));
    }
    loop {
        let free = |&(_, word): &(u64, VolatileAddress)| {
            memory.compare_exchange(word, Registered::NONE, Registered::EVERYTHING).is_ok()
        };
        let Some((number, word)) = (1..).zip(versions.registrations()).find(free) else {
            return Err(Error::TooManySnapshots { most: VersionLayout::REGISTRATIONS });
        };
        raise(memory, versions.registered(), number);
        let early = memory.omitted(Step::SnapshotEverything);
        let early = early.then(|| memory.load(SharedLayout::CLOCK));
        memory.fetch_add(SharedLayout::SNAPSHOTS, 1);
        wait_for_memory(memory);
        let clock = early.unwrap_or_else(|| memory.load(SharedLayout::CLOCK));
        // `LARGE` is loaded after the clock. With the clock of a large transaction as its time, the snapshot would wait until that
        // transaction ends.
        let large = memory.load(SharedLayout::LARGE);
        let time = if large == 0 { clock } else { clock.min(large - 1) };
        let registration = Registration { word, time };
        if memory.compare_exchange(word, Registered::EVERYTHING, time + Registered::FIRST_TIME).is_ok() {
            if let Err(error) = wait_for_commits(view, time, Step::SnapshotWait) {
                end(view, registration);
                return Err(error);
            }
            return Ok(registration);
        }
        // This snapshot was ended as the oldest one when there was no room: none of its versions were kept.
        end(view, registration);
    }
}

/// Registers a snapshot for transaction `transaction`, which runs alone and has not raised the clock yet. The registration keeps the state before
/// the transaction for the snapshots that begin while it runs. Returns `None` if every registration is taken, or if the pool has no memory for
/// versions.
pub(super) fn pin<M: Memory>(view: &View<M>, transaction: u64) -> Option<Registration> {
    let (memory, versions) = (&view.memory, view.shared.versions());
    if !versions.any() || memory.omitted(Step::LargePin) {
        return None;
    }
    let free = |&(_, word): &(u64, VolatileAddress)| {
        memory.compare_exchange(word, Registered::NONE, Registered::EVERYTHING).is_ok()
    };
    let (number, word) = (1..).zip(versions.registrations()).find(free)?;
    raise(memory, versions.registered(), number);
    memory.fetch_add(SharedLayout::SNAPSHOTS, 1);
    wait_for_memory(memory);
    let registration = Registration { word, time: transaction - 1 };
    if memory
        .compare_exchange(word, Registered::EVERYTHING, registration.time + Registered::FIRST_TIME)
        .is_err()
    {
        end(view, registration);
        return None;
    }
    memory.store(SharedLayout::LARGE, transaction);
    Some(registration)
}

/// Makes snapshots that begin from here on wait for the running large transaction, if there is one, as for any transaction in commit.
pub(super) fn withdraw<M: Memory>(memory: &M) {
    let large = memory.load(SharedLayout::LARGE);
    if large != 0 {
        // Ordered before the scan of the registrations: a snapshot has either registered by then, or finds 0 here.
        let _ = memory.compare_exchange(SharedLayout::LARGE, large, 0);
    }
}

/// Waits while the memory of entries is being released.
fn wait_for_memory<M: Memory>(memory: &M) {
    loop {
        let count = memory.load(SharedLayout::SNAPSHOTS);
        if count & GIVING_BACK == 0 || memory.omitted(Step::SnapshotGiveBackBegin) {
            break;
        }
        latch::wait_while(memory, SharedLayout::SNAPSHOTS, count);
    }
}

/// Raises the word at `at` to `value`, unless it is larger.
fn raise<M: Memory>(memory: &M, at: VolatileAddress, value: u64) {
    let mut now = memory.load(at);
    while now < value {
        match memory.compare_exchange(at, now, value) {
            Ok(_) => break,
            Err(other) => now = other,
        }
    }
}

/// Ends a snapshot.
pub(super) fn end<M: Memory>(view: &View<M>, registration: Registration) {
    let (memory, versions) = (&view.memory, view.shared.versions());
    memory.store(registration.word, Registered::NONE);
    let was_last = memory.fetch_add(SharedLayout::SNAPSHOTS, 1u64.wrapping_neg()) == 1;
    if was_last && memory.load(versions.used()) > versions.entries() / SHARE_TO_KEEP && give_back(view) {
        return;
    }
    let pushed = memory.load(versions.pushed()).wrapping_sub(memory.load(versions.reclaimed()));
    let chains = versions.heads().min(CHAINS_AT_A_TIME);
    if pushed >= (chains / CHAINS_FOR_A_PUSH).max(LEAST_PUSHES)
        // Snapshots of the state before a large transaction need every entry that it pushes, so nothing can be freed while it runs.
        && large_beside(memory) == 0
        && memory.try_lock(versions.latch())
    {
        let first = memory.load(versions.next_head());
        memory.store(versions.next_head(), (first + chains) & (versions.heads() - 1));
        reclaim(view, first..first + chains);
        memory.unlock(versions.latch());
    }
}

/// Releases the memory of all entries, if there is no snapshot now. Returns whether it did.
#[cold]
fn give_back<M: Memory>(view: &View<M>) -> bool {
    let (memory, versions) = (&view.memory, view.shared.versions());
    if !memory.try_lock(versions.latch()) {
        return false;
    }
    let count = SharedLayout::SNAPSHOTS;
    let expected = if memory.omitted(Step::SnapshotGiveBackNone) { memory.load(count) } else { 0 };
    let is_marked = memory.compare_exchange(count, expected, expected | GIVING_BACK).is_ok();
    let is_alone = is_marked && have_stored_home(view, memory.load(SharedLayout::CLOCK));
    if is_alone {
        let (at, bytes) = versions.chains();
        memory.clear(at, bytes);
        // Entries that are still in chains must not be handed out: with this step left out, chains would become circles.
        if !memory.omitted(Step::SnapshotGiveBackNone) {
            memory.store(versions.used(), 0);
            memory.store(versions.free(), changed(memory.load(versions.free()), 0));
        }
        memory.store(versions.reclaimed(), memory.load(versions.pushed()));
    }
    if is_marked {
        memory.fetch_add(count, GIVING_BACK.wrapping_neg());
    }
    memory.unlock(versions.latch());
    is_alone
}

/// Returns whether all transactions up to TxID `last` have stored home. Waits for them for a short time.
fn have_stored_home<M: Memory>(view: &View<M>, last: u64) -> bool {
    let memory = &view.memory;
    memory.omitted(Step::SnapshotGiveBackWait)
        || view.shared.slots().all(|slot| {
            loop {
                let state = memory.load(slot.commit_state());
                if state == 0 || state > last + 2 {
                    return true;
                }
                if !latch::wait_a_little(memory, slot.commit_state(), state, NAPS) {
                    return false;
                }
            }
        })
}

/// Loads words of the data from home. Returns whether they are valid for the snapshot: no newer transaction has stored anything, anywhere.
pub(super) fn read_home_range<M: Memory>(
    view: &View<M>,
    registration: Registration,
    at: PersistentAddress,
    into: &mut [u64],
) -> bool {
    view.memory.data_words().is_some_and(|data| data.load_range(at, into)) && is_newest(view, registration)
}

/// Returns whether no transaction newer than the snapshot has stored anything before this, and the snapshot has not ended.
pub(super) fn is_newest<M: Memory>(view: &View<M>, registration: Registration) -> bool {
    let memory = &view.memory;
    memory.load(view.shared.versions().newest()) <= registration.time
        && memory.load(registration.word) == registration.time + Registered::FIRST_TIME
}

/// Reads words of one line as they were at the snapshot's time.
///
/// # Errors
/// Returns [`Ended`] if the snapshot was ended.
pub(super) fn read_line<M: Memory>(
    view: &View<M>,
    registration: Registration,
    at: PersistentAddress,
    into: &mut [u64],
) -> std::result::Result<(), Ended> {
    let memory = &view.memory;
    let newest = view.shared.versions().newest();
    let look = || {
        (memory.load(newest) > registration.time).then(|| find(view, at.line(), registration.time)).flatten()
    };
    let early = memory.omitted(Step::SnapshotLookFirst).then(look);
    memory.load_range(at, into);
    if let Some(entry) = early.unwrap_or_else(look) {
        let words = view.shared.versions().entry(entry).words();
        memory.load_range(words.word(at.offset() / 8 % LINE_WORDS), into);
    }
    let is_marked = memory.load(registration.word) != registration.time + Registered::FIRST_TIME;
    if is_marked && !memory.omitted(Step::SnapshotMark) { Err(Ended) } else { Ok(()) }
}

/// Returns T and number of each of the line's entries, in descending order of T.
fn entries_of<M: Memory>(view: &View<M>, line: PersistentAddress) -> impl Iterator<Item = (u64, u64)> {
    let (memory, versions) = (&view.memory, view.shared.versions());
    let (mut at, mut steps) = (memory.load(versions.head_of(line)), 0);
    std::iter::from_fn(move || {
        while at != 0 && !is_circle(view, &mut steps) {
            let (entry, number) = (versions.entry(at), at);
            let transaction = memory.load(entry.transaction());
            if transaction == 0 {
                return None;
            }
            let is_own = memory.load(entry.line()) == line.offset();
            at = memory.load(entry.next());
            if is_own {
                return Some((transaction, number));
            }
        }
        None
    })
}

/// Returns whether a walk has taken more steps than there are entries, so that it goes round in a circle. Chains have no circles, except where the
/// checker leaves out a step of the protocol. There this ends a history that would never end.
fn is_circle<M: Memory>(view: &View<M>, steps: &mut u64) -> bool {
    *steps += 1;
    view.memory.omitted(Step::SnapshotGiveBackWait) && *steps > view.shared.versions().entries()
}

/// Returns the number of the line's entry with the smallest T above `time`.
fn find<M: Memory>(view: &View<M>, line: PersistentAddress, time: u64) -> Option<u64> {
    let mut above = entries_of(view, line).take_while(|&(transaction, _)| transaction > time);
    let found = if view.memory.omitted(Step::SnapshotOldest) { above.next() } else { above.last() };
    found.map(|(_, number)| number)
}

/// Returns whether a transaction that is about to store home has to call [`keep`].
pub(super) fn are_wanted<M: Memory>(view: &View<M>) -> bool {
    view.shared.versions().any() && view.memory.load(SharedLayout::SNAPSHOTS) != 0
}

/// Keeps the contents of the lines that transaction `transaction` is about to change, for the snapshots that do not see it. A line may
/// occur twice.
#[cold]
#[inline(never)]
pub(super) fn keep<M: Memory>(
    view: &View<M>,
    transaction: u64,
    lines: impl Iterator<Item = PersistentAddress>,
) {
    let (memory, versions) = (&view.memory, view.shared.versions());
    if memory.load(SharedLayout::SNAPSHOTS) & GIVING_BACK != 0 {
        return;
    }
    let (newest, takes_everything) = snapshots_before(view, transaction);
    if newest.is_none() && !takes_everything {
        return;
    }
    let (mut pushed, mut last) = (0, PersistentAddress::NULL);
    for line in lines {
        if line == last {
            continue;
        }
        last = line;
        let serves_all = |newest| entries_of(view, line).next().is_some_and(|(kept, _)| kept > newest);
        if !takes_everything && newest.is_some_and(serves_all) {
            continue;
        }
        // There is no room although every snapshot was ended, so no snapshot needs the rest.
        let Some(number) = take(view) else { break };
        pushed += 1;
        push(view, number, line, transaction);
    }
    if pushed > 0 && !memory.omitted(Step::SnapshotNewest) {
        memory.fetch_add(versions.pushed(), pushed);
        raise(memory, versions.newest(), transaction);
    }
}

/// Returns the time of the newest snapshot that does not see transaction `transaction`, and whether there is one that needs every entry,
/// because it may have read the clock but has not registered its time yet.
fn snapshots_before<M: Memory>(view: &View<M>, transaction: u64) -> (Option<u64>, bool) {
    let (mut newest, mut takes_everything) = (None, false);
    for (time, _) in view.registrations() {
        match time {
            Registered::NONE | Registered::ENDED => {}
            Registered::EVERYTHING => takes_everything = true,
            time if time - Registered::FIRST_TIME < transaction => {
                newest = newest.max(Some(time - Registered::FIRST_TIME))
            }
            _ => {}
        }
    }
    (newest, takes_everything)
}

/// Fills entry `number` with the contents of `line` before transaction `transaction`, and pushes it to the head of its chain.
fn push<M: Memory>(view: &View<M>, number: u64, line: PersistentAddress, transaction: u64) {
    let (memory, versions) = (&view.memory, view.shared.versions());
    let entry = versions.entry(number);
    let mut words = [0; LINE_WORDS as usize];
    let first = memory.omitted(Step::SnapshotRefill);
    memory.store(entry.transaction(), if first { transaction } else { 0 });
    memory.store(entry.line(), line.offset());
    memory.load_range(line, &mut words);
    memory.store_range(entry.words(), &words);
    let head = versions.head_of(line);
    let mut next = memory.load(head);
    loop {
        memory.store(entry.next(), next);
        memory.store(entry.transaction(), transaction);
        match memory.compare_exchange(head, next, number) {
            Ok(_) => break,
            Err(now) => next = now,
        }
        memory.store(entry.transaction(), 0);
    }
}

/// Takes a free entry and returns its number. Returns `None` if every entry is in use although all snapshots were ended.
fn take<M: Memory>(view: &View<M>) -> Option<u64> {
    let (memory, versions) = (&view.memory, view.shared.versions());
    loop {
        let mut free = memory.load(versions.free());
        while free as u32 != 0 {
            let number = u64::from(free as u32);
            let next = memory.load(versions.entry(number).next_free());
            match memory.compare_exchange(versions.free(), free, changed(free, next)) {
                Ok(_) => return Some(number),
                Err(now) => free = now,
            }
        }
        let used = memory.load(versions.used());
        if used < versions.entries() {
            if memory.compare_exchange(versions.used(), used, used + 1).is_ok() {
                return Some(used + 1);
            }
        } else if !make_room(view) {
            return None;
        }
    }
}

/// Returns the word of the list of free entries with `first` as its head, and with a counter that tells it from earlier words with the same
/// head.
fn changed(word: u64, first: u64) -> u64 {
    ((word >> 32).wrapping_add(1) << 32) | first
}

/// Frees entries, and ends snapshots until enough are free. Returns whether there may be a free one.
fn make_room<M: Memory>(view: &View<M>) -> bool {
    let (memory, versions) = (&view.memory, view.shared.versions());
    memory.lock(versions.latch());
    // Another thread may have freed entries meanwhile.
    let mut freed = u64::from(memory.load(versions.free()) as u32 != 0);
    if freed == 0 {
        let all = || reclaim(view, 0..versions.heads());
        freed = all();
        let enough = (versions.entries() / SHARE_TO_FREE).max(1);
        if freed < enough && !memory.omitted(Step::LargeWithdraw) {
            withdraw(memory);
        }
        while freed < enough && end_oldest(view) {
            freed += all();
        }
    }
    memory.unlock(versions.latch());
    freed > 0
}

/// Ends the oldest snapshot. Returns whether there was one.
fn end_oldest<M: Memory>(view: &View<M>) -> bool {
    let (memory, versions) = (&view.memory, view.shared.versions());
    let oldest = view
        .registrations()
        .filter(|&(time, _)| time != Registered::NONE && time != Registered::ENDED)
        .min_by_key(|&(time, _)| time);
    if let Some((time, word)) = oldest
        && memory.compare_exchange(word, time, Registered::ENDED).is_ok()
    {
        memory.fetch_add(versions.ended(), 1);
    }
    oldest.is_some()
}

/// Returns the TxID of the large transaction that is running, or 0 if there is none. Versions that a snapshot of the state before it may read must
/// not be reclaimed.
fn large_beside<M: Memory>(memory: &M) -> u64 {
    if memory.omitted(Step::LargeBound) { 0 } else { memory.load(SharedLayout::LARGE) }
}

/// Returns the number of pushes that count as reclaimed once `chains` more chains were scanned: all of them, if these are all chains. The
/// other chains may have entries of earlier pushes, so that the next snapshots that end scan these without further pushes.
fn pushes_reclaimed<M: Memory>(view: &View<M>, chains: u64) -> u64 {
    let (memory, versions) = (&view.memory, view.shared.versions());
    let (pushed, left) = (memory.load(versions.pushed()), versions.heads() - chains);
    if left == 0 {
        return pushed;
    }
    let reclaimed = memory.load(versions.reclaimed()) + chains / CHAINS_FOR_A_PUSH;
    reclaimed.max(pushed.saturating_sub(left / CHAINS_FOR_A_PUSH))
}

/// Frees the entries that no snapshot needs in the chains with these heads, and returns their number. The caller holds the latch.
fn reclaim<M: Memory>(view: &View<M>, heads: Range<u64>) -> u64 {
    let (memory, versions) = (&view.memory, view.shared.versions());
    memory.store(versions.reclaimed(), pushes_reclaimed(view, heads.end - heads.start));
    // A snapshot that registers after this has at least this time or, while a large transaction runs, the time before it.
    let clock = memory.load(SharedLayout::CLOCK);
    let large = large_beside(memory);
    let clock = if large == 0 { clock } else { clock.min(large - 1) };
    let times = view
        .registrations()
        .map(|(time, _)| time)
        .filter(|&time| time != Registered::NONE && time != Registered::ENDED);
    let newest = memory.omitted(Step::SnapshotBound);
    let bound = if newest { times.max() } else { times.min() };
    let bound = bound.map_or(clock, |time| clock.min(time.saturating_sub(Registered::FIRST_TIME)));
    heads.map(|number| cut(view, versions.head(number), bound)).sum()
}

/// Cuts off the end of a chain, from where all entries are at or below `bound`, and frees these. Returns their number.
fn cut<M: Memory>(view: &View<M>, head: VolatileAddress, bound: u64) -> u64 {
    let (memory, versions) = (&view.memory, view.shared.versions());
    loop {
        let first = memory.load(head);
        let (mut kept, mut at, mut steps) = (None, first, 0);
        while at != 0 && !is_circle(view, &mut steps) {
            let entry = versions.entry(at);
            if memory.load(entry.transaction()) > bound {
                kept = Some(entry);
            }
            at = memory.load(entry.next());
        }
        let rest = match kept {
            Some(entry) => {
                let rest = memory.load(entry.next());
                if rest != 0 {
                    memory.store(entry.next(), 0);
                }
                rest
            }
            None if first == 0 || memory.compare_exchange(head, first, 0).is_ok() => first,
            // Another thread has pushed an entry.
            None => continue,
        };
        return free(view, rest);
    }
}

/// Frees the entries from `number` on, which are in no chain any more. A reader that is still at one of them finds its way on.
fn free<M: Memory>(view: &View<M>, mut number: u64) -> u64 {
    let (memory, versions) = (&view.memory, view.shared.versions());
    let (mut freed, mut steps) = (0, 0);
    while number != 0 && !is_circle(view, &mut steps) {
        let entry = versions.entry(number);
        let next = memory.load(entry.next());
        let mut first = memory.load(versions.free());
        loop {
            memory.store(entry.next_free(), u64::from(first as u32));
            match memory.compare_exchange(versions.free(), first, changed(first, number)) {
                Ok(_) => break,
                Err(now) => first = now,
            }
        }
        freed += 1;
        number = next;
    }
    freed
}
