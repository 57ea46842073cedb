//! The state that the log and the state machine of a Raft group share.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use openraft::{LogId, RaftTypeConfig, Vote};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strandline::{Database, Error, Key, Result, Serde, Table, Ticket, Tx, View};
use tokio::sync::Notify;

/// Number of log entries that one transaction removes.
const REMOVED_AT_ONCE: usize = 256;

/// The stored state of a group other than its log.
#[derive(Clone, Copy, Key)]
pub(crate) enum Field {
    Vote,
    Committed,
    Purged,
    Applied,
}

pub(crate) struct Group<C: RaftTypeConfig> {
    claim: Claim,
    pub db: Database,
    pub number: u64,
    pub log: Table<u64, Serde<C::Entry>>,
    pub fields: Table<Field, Vec<u8>>,
    progress: Mutex<Progress<C>>,
    /// Notifies that a purge that had to wait is done, or never will be.
    pub settled: Notify,
    /// Threads that remove entries and tables that are no longer needed.
    behind: Mutex<Vec<JoinHandle<()>>>,
}

struct Progress<C: RaftTypeConfig> {
    purged: Option<LogId<C::NodeId>>,
    applied: Option<u64>,
    /// True if `purged` is beyond the applied entries, and not stored yet.
    pending: bool,
    /// The index up to which entries are to be removed.
    superfluous: Option<u64>,
    /// True if a thread removes entries. There is only one at a time.
    removing: bool,
    /// True if the log or the state machine was dropped, so that nothing will be applied any more.
    ended: bool,
}

/// The groups that are open in this process, each by the identifier of its database and its own number.
static OPEN: Mutex<BTreeSet<(u64, u64)>> = Mutex::new(BTreeSet::new());

/// Marks a group as open, for as long as this exists.
struct Claim(u64, u64);

impl Claim {
    fn new(db: &Database, number: u64) -> Result<Self> {
        if !lock(&OPEN).insert((db.id(), number)) {
            return Err(Error::Parameter(format!(
                "the Raft group {number} is open: drop its log, its state machine and their readers first"
            )));
        }
        Ok(Self(db.id(), number))
    }

    /// Returns whether no other group of this database is open.
    fn is_alone(&self) -> bool {
        lock(&OPEN).range((self.0, 0)..=(self.0, u64::MAX)).count() == 1
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        lock(&OPEN).remove(&(self.0, self.1));
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<C: RaftTypeConfig> Group<C>
where
    C::Entry: Serialize + DeserializeOwned,
{
    pub fn open(db: Database, number: u64) -> Result<Self> {
        let claim = Claim::new(&db, number)?;
        let log = db.table(&format!("raft {number} log"))?;
        let fields = db.table(&format!("raft {number} fields"))?;
        let progress = Progress {
            purged: None,
            applied: None,
            pending: false,
            superfluous: None,
            removing: false,
            ended: false,
        };
        let group = Self {
            claim,
            db,
            number,
            log,
            fields,
            progress: Mutex::new(progress),
            settled: Notify::new(),
            behind: Mutex::default(),
        };
        let purged: Option<LogId<C::NodeId>> = group.load(Field::Purged)?;
        if let Some(purged) = &purged {
            while group.remove_some_up_to(purged.index)? {}
        }
        group.progress().purged = purged;
        group.resign()?;
        Ok(group)
    }

    fn progress(&self) -> MutexGuard<'_, Progress<C>> {
        lock(&self.progress)
    }

    /// Waits until the ticket's commit is durable. A group that shares its database with no other group flushes in the caller's thread: its Raft can
    /// do nothing else meanwhile, and handing the work to another thread and back takes as long as a fast disk.
    pub async fn flush(&self, ticket: Ticket) -> Result<()> {
        if self.claim.is_alone() { ticket.wait() } else { ticket.await }
    }

    /// Turns a vote that a majority has granted into one that was only given. Otherwise openraft would let a restarted leader continue to lead, and
    /// read its state as soon as it has applied the entries that it knows to be committed. But these, like its state, may be behind what it
    /// acknowledged before. A newly elected leader first learns what is committed. A follower accepts its leader in either case.
    fn resign(&self) -> Result<()> {
        if let Some(vote) = self.load::<Vote<C::NodeId>>(Field::Vote)?
            && vote.committed
        {
            let vote = Vote { committed: false, ..vote };
            let ((), ticket) = self.db.later().write(|tx| self.store_in(tx, Field::Vote, &vote))?;
            // After a crash this is done again.
            drop(ticket);
        }
        Ok(())
    }

    /// Returns the content of `field`, without waiting until it is durable.
    pub fn load<T: DeserializeOwned>(&self, field: Field) -> Result<Option<T>> {
        let (value, ticket) = self.db.later().write(|tx| self.load_in(tx, field))?;
        drop(ticket);
        Ok(value)
    }

    pub fn load_in<T: DeserializeOwned>(&self, view: &View<'_>, field: Field) -> Result<Option<T>> {
        let Some(bytes) = self.fields.get(view, &field)? else { return Ok(None) };
        Serde::<T>::from(bytes).get().map(Some)
    }

    pub fn store_in<T: Serialize>(&self, tx: &Tx<'_>, field: Field, value: &T) -> Result<()> {
        self.fields.insert(tx, &field, Serde::new(value)?.as_bytes()).map(drop)
    }

    pub fn purged(&self) -> Option<LogId<C::NodeId>> {
        self.progress().purged.clone()
    }

    pub fn is_pending(&self) -> bool {
        self.progress().pending
    }

    /// Returns the purge that waits until the entry `index` is applied, if there is one.
    pub fn pending_up_to(&self, index: Option<u64>) -> Option<LogId<C::NodeId>> {
        let progress = self.progress();
        progress.purged.clone().filter(|purged| progress.pending && Some(purged.index) <= index)
    }

    pub fn has_ended(&self) -> bool {
        self.progress().ended
    }

    /// Ends the group because its log or its state machine was dropped: wakes the tasks that wait for it, and waits for its threads.
    pub fn end(&self) {
        self.progress().ended = true;
        self.settled.notify_waiters();
        for thread in std::mem::take(&mut *lock(&self.behind)) {
            // The panic of such a thread has been reported already.
            let _ = thread.join();
        }
    }

    /// Runs long work, which may also be left undone, on a thread of its own. The work must return soon after the group has ended.
    pub fn behind(&self, work: impl FnOnce() + Send + 'static) -> Result<()> {
        let mut threads = lock(&self.behind);
        threads.retain(|thread| !thread.is_finished());
        let thread = std::thread::Builder::new().name("strandline-raft".into()).spawn(work);
        threads.push(thread.map_err(|source| Error::io("start a thread", source))?);
        Ok(())
    }

    /// Purges the log up to this entry as soon as everything up to it is applied. openraft calls this before it has installed the snapshot that makes
    /// the entries superfluous, and after a crash in between they must still be there.
    pub fn purge(self: &Arc<Self>, up_to: LogId<C::NodeId>) -> Result<()> {
        {
            let mut progress = self.progress();
            if progress.purged.as_ref() >= Some(&up_to) {
                return Ok(());
            }
            progress.purged = Some(up_to);
            progress.pending = true;
        }
        self.settle()
    }

    /// Notes that everything up to this index is applied.
    pub fn applied(self: &Arc<Self>, index: Option<u64>) -> Result<()> {
        let pending = {
            let mut progress = self.progress();
            progress.applied = progress.applied.max(index);
            progress.pending
        };
        if pending { self.settle() } else { Ok(()) }
    }

    fn settle(self: &Arc<Self>) -> Result<()> {
        let applied = self.progress().applied;
        let Some(up_to) = self.pending_up_to(applied) else { return Ok(()) };
        let ((), ticket) = self.db.later().write(|tx| self.store_in(tx, Field::Purged, &up_to))?;
        drop(ticket);
        let begins = {
            let mut progress = self.progress();
            if progress.purged.as_ref() == Some(&up_to) {
                progress.pending = false;
            }
            progress.superfluous = progress.superfluous.max(Some(up_to.index));
            !std::mem::replace(&mut progress.removing, true)
        };
        self.settled.notify_waiters();
        // The entries are no longer visible.
        if begins {
            let group = self.clone();
            self.behind(move || group.remove_superfluous())?;
        }
        Ok(())
    }

    fn remove_superfluous(&self) {
        loop {
            let up_to = {
                let mut progress = self.progress();
                let up_to = progress.superfluous.take().filter(|_| !progress.ended);
                progress.removing = up_to.is_some();
                up_to
            };
            let Some(up_to) = up_to else { return };
            // After an error, the next purge or opening removes the remaining entries.
            while !self.has_ended() && self.remove_some_up_to(up_to).unwrap_or(false) {}
        }
    }

    /// Removes some entries, and returns whether there may be more.
    fn remove_some_up_to(&self, index: u64) -> Result<bool> {
        let (removed, ticket) = self.db.later().write(|tx| {
            for removed in 0..REMOVED_AT_ONCE {
                match self.log.range(tx, ..=index)?.next() {
                    Some(row) => self.log.remove(tx, &row?.0)?,
                    None => return Ok(removed),
                };
            }
            Ok(REMOVED_AT_ONCE)
        })?;
        drop(ticket);
        Ok(removed == REMOVED_AT_ONCE)
    }

    /// Removes the entries from `index` on, the last ones first, so that a crash in between leaves no hole.
    pub fn truncate(&self, index: u64) -> Result<()> {
        loop {
            let (removed, ticket) = self.db.later().write(|tx| {
                for removed in 0..REMOVED_AT_ONCE {
                    match self.log.last(tx)? {
                        Some((last, _)) if last >= index => self.log.remove(tx, &last)?,
                        _ => return Ok(removed),
                    };
                }
                Ok(REMOVED_AT_ONCE)
            })?;
            drop(ticket);
            if removed < REMOVED_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Returns the index of the last stored entry.
    pub fn last_index(&self) -> Result<Option<u64>> {
        let (last, ticket) = self.db.later().write(|tx| self.log.last(tx))?;
        drop(ticket);
        Ok(last.map(|(index, _)| index))
    }
}

/// Ends the group when its log or its state machine is dropped.
pub(crate) struct End<C: RaftTypeConfig>(pub Arc<Group<C>>)
where
    C::Entry: Serialize + DeserializeOwned;

impl<C: RaftTypeConfig> Drop for End<C>
where
    C::Entry: Serialize + DeserializeOwned,
{
    fn drop(&mut self) {
        self.0.end();
    }
}

/// Returns the error for tasks that wait for a state machine that was dropped.
pub(crate) fn ended() -> Error {
    Error::Parameter("the group's state machine has ended, and the log waits for its snapshot".into())
}
