//! What log and state machine of one Raft group share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use openraft::{LogId, RaftTypeConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strandline::{Database, Error, Key, Result, Serde, Table, Tx, View};
use tokio::sync::Notify;

/// Log entries that one transaction removes.
const REMOVED_AT_ONCE: usize = 256;

/// What is stored of a group beside its log.
#[derive(Clone, Copy, Key)]
pub(crate) enum Field {
    Vote,
    Committed,
    Purged,
    Applied,
}

pub(crate) struct Group<C: RaftTypeConfig> {
    pub db: Arc<Database>,
    pub number: u64,
    pub log: Table<u64, Serde<C::Entry>>,
    pub fields: Table<Field, Vec<u8>>,
    progress: Mutex<Progress<C>>,
    /// A purge that had to wait is done, or never will be.
    pub settled: Notify,
    /// Held while entries are removed, so that two removals do not conflict for ever.
    removing: Mutex<()>,
}

struct Progress<C: RaftTypeConfig> {
    purged: Option<LogId<C::NodeId>>,
    applied: Option<u64>,
    /// `purged` goes beyond what is applied, and is not stored yet.
    pending: bool,
    /// The state machine is gone, and nothing will be applied any more.
    ended: bool,
}

impl<C: RaftTypeConfig> Group<C>
where
    C::Entry: Serialize + DeserializeOwned,
{
    pub fn open(db: Arc<Database>, number: u64) -> Result<Self> {
        let log = db.table(&format!("raft {number} log"))?;
        let fields = db.table(&format!("raft {number} fields"))?;
        let progress = Progress { purged: None, applied: None, pending: false, ended: false };
        let group = Self {
            db,
            number,
            log,
            fields,
            progress: Mutex::new(progress),
            settled: Notify::new(),
            removing: Mutex::default(),
        };
        let purged: Option<LogId<C::NodeId>> = group.load(Field::Purged)?;
        if let Some(purged) = &purged {
            group.remove_up_to(purged.index)?;
        }
        group.progress().purged = purged;
        Ok(group)
    }

    fn progress(&self) -> MutexGuard<'_, Progress<C>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is stored in `field`, without waiting until it is durable.
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

    /// A purge that waits until this is applied.
    pub fn pending_up_to(&self, index: Option<u64>) -> Option<LogId<C::NodeId>> {
        let progress = self.progress();
        progress.purged.clone().filter(|purged| progress.pending && Some(purged.index) <= index)
    }

    pub fn has_ended(&self) -> bool {
        self.progress().ended
    }

    /// The state machine is dropped: whoever waits for it is told.
    pub fn end(&self) {
        self.progress().ended = true;
        self.settled.notify_waiters();
    }

    /// Purges the log as soon as all of that is applied: openraft asks before it has installed the snapshot that makes the
    /// entries superfluous, and a crash in between must find them.
    pub fn purge(&self, up_to: LogId<C::NodeId>) -> Result<()> {
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

    /// Everything up to this index is applied.
    pub fn applied(&self, index: Option<u64>) -> Result<()> {
        let pending = {
            let mut progress = self.progress();
            progress.applied = progress.applied.max(index);
            progress.pending
        };
        if pending { self.settle() } else { Ok(()) }
    }

    fn settle(&self) -> Result<()> {
        let applied = self.progress().applied;
        let Some(up_to) = self.pending_up_to(applied) else { return Ok(()) };
        let ((), ticket) = self.db.later().write(|tx| self.store_in(tx, Field::Purged, &up_to))?;
        drop(ticket);
        self.remove_up_to(up_to.index)?;
        {
            let mut progress = self.progress();
            if progress.purged.as_ref() == Some(&up_to) {
                progress.pending = false;
            }
        }
        self.settled.notify_waiters();
        Ok(())
    }

    fn remove_up_to(&self, index: u64) -> Result<()> {
        let _one = self.removing.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
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
            if removed < REMOVED_AT_ONCE {
                return Ok(());
            }
        }
    }

    /// Removes the entries from `index` on, the last ones first: a crash in between leaves no hole.
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

    /// The index of the last entry that is stored.
    pub fn last_index(&self) -> Result<Option<u64>> {
        let (last, ticket) = self.db.later().write(|tx| self.log.last(tx))?;
        drop(ticket);
        Ok(last.map(|(index, _)| index))
    }
}

/// What a missing state machine means for whoever waits for it.
pub(crate) fn ended() -> Error {
    Error::Parameter("the group's state machine has ended, and the log waits for its snapshot".into())
}
