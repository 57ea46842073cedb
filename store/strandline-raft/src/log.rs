//! A group's log, and its vote.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use openraft::storage::{LogFlushed, RaftLogStorage};
use openraft::{
    LogId, LogState, OptionalSend, RaftLogId, RaftLogReader, RaftTypeConfig, StorageError, StorageIOError,
    Vote,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strandline::{Serde, Ticket};

use crate::group::{End, Field, Group, ended};

/// Approximate number of bytes of entries that one transaction appends, far below the size of a large transaction, which would run alone.
const APPENDED_AT_ONCE: usize = 128 << 10;
/// Approximate number of bytes of entries that one message to a follower takes.
const SENT_AT_ONCE: usize = 1 << 20;

/// The log of a Raft group, with its vote. [`open`](crate::open) returns it.
pub struct LogStore<C: RaftTypeConfig>
where
    C::Entry: Serialize + DeserializeOwned,
{
    pub(crate) group: Arc<Group<C>>,
    pub(crate) _end: End<C>,
}

/// Reads a group's log while it is written.
pub struct LogReader<C: RaftTypeConfig> {
    group: Arc<Group<C>>,
}

type Outcome<T, C> = Result<T, StorageError<<C as RaftTypeConfig>::NodeId>>;

impl<C: RaftTypeConfig> LogStore<C>
where
    C::Entry: Serialize + DeserializeOwned,
{
    /// Inserts entries. When this returns they can be read and are on their way to the disk; the ticket is for all of them.
    fn insert(&self, entries: impl IntoIterator<Item = C::Entry>) -> strandline::Result<Option<Ticket>> {
        let mut last = None;
        let mut batch = Vec::new();
        let mut bytes = 0;
        let mut entries = entries.into_iter().peekable();
        while let Some(entry) = entries.next() {
            let encoded = Serde::new(&entry)?;
            bytes += encoded.as_bytes().len();
            batch.push((entry.get_log_id().index, encoded));
            if bytes >= APPENDED_AT_ONCE || entries.peek().is_none() {
                let ((), ticket) = self.group.db.later().write(|tx| {
                    for (index, entry) in &batch {
                        self.group.log.insert(tx, index, entry)?;
                    }
                    Ok(())
                })?;
                last = Some(ticket);
                batch.clear();
                bytes = 0;
            }
        }
        Ok(last)
    }
}

impl<C: RaftTypeConfig> LogReader<C>
where
    C::Entry: Serialize + DeserializeOwned,
{
    /// Returns the entries in `range`, up to the one with which they reach `most` bytes.
    fn read(&self, range: &impl RangeBounds<u64>, most: usize) -> strandline::Result<Vec<C::Entry>> {
        let purged = self.group.purged().map(|purged| purged.index);
        let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
        let empty = match bounds {
            (Bound::Included(start), Bound::Excluded(end)) => start >= end,
            (Bound::Included(start), Bound::Included(end)) => start > end,
            (Bound::Excluded(start), Bound::Included(end) | Bound::Excluded(end)) => start >= end,
            _ => false,
        };
        if empty {
            return Ok(Vec::new());
        }
        let (rows, ticket) = self.group.db.later().write(|tx| {
            let (mut rows, mut bytes) = (Vec::new(), 0);
            for row in self.group.log.range::<u64, _>(tx, bounds)? {
                let (index, entry) = row?;
                if Some(index) > purged {
                    bytes += entry.as_bytes().len();
                    rows.push(entry);
                }
                if bytes >= most {
                    break;
                }
            }
            Ok(rows)
        })?;
        // Raft may send entries before they are durable here. Only durable ones count for a majority.
        drop(ticket);
        rows.iter().map(Serde::get).collect()
    }
}

impl<C: RaftTypeConfig> RaftLogReader<C> for LogReader<C>
where
    C::Entry: Serialize + DeserializeOwned,
{
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Outcome<Vec<C::Entry>, C> {
        self.read(&range, usize::MAX).map_err(|error| StorageIOError::read_logs(&error).into())
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Outcome<Vec<C::Entry>, C> {
        self.read(&(start..end), SENT_AT_ONCE).map_err(|error| StorageIOError::read_logs(&error).into())
    }
}

impl<C: RaftTypeConfig> RaftLogReader<C> for LogStore<C>
where
    C::Entry: Serialize + DeserializeOwned,
{
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Outcome<Vec<C::Entry>, C> {
        self.get_log_reader().await.try_get_log_entries(range).await
    }
}

impl<C: RaftTypeConfig> RaftLogStorage<C> for LogStore<C>
where
    C::Entry: Serialize + DeserializeOwned,
{
    type LogReader = LogReader<C>;

    async fn get_log_state(&mut self) -> Outcome<LogState<C>, C> {
        let read = || {
            let (last, ticket) = self.group.db.later().write(|tx| self.group.log.last(tx))?;
            drop(ticket);
            last.map(|(_, entry)| Ok(entry.get()?.get_log_id().clone())).transpose()
        };
        let last: Option<LogId<C::NodeId>> =
            read().map_err(|error: strandline::Error| StorageIOError::read_logs(&error))?;
        let purged = self.group.purged();
        let hidden = last.as_ref().map(|last| last.index) <= purged.as_ref().map(|purged| purged.index);
        let last = if hidden { purged.clone() } else { last };
        Ok(LogState { last_purged_log_id: purged, last_log_id: last })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        LogReader { group: self.group.clone() }
    }

    async fn save_vote(&mut self, vote: &Vote<C::NodeId>) -> Outcome<(), C> {
        let failed = |error: strandline::Error| StorageIOError::write_vote(&error);
        let ((), ticket) =
            self.group.db.later().write(|tx| self.group.store_in(tx, Field::Vote, vote)).map_err(failed)?;
        Ok(self.group.flush(ticket).await.map_err(failed)?)
    }

    async fn read_vote(&mut self) -> Outcome<Option<Vote<C::NodeId>>, C> {
        self.group.load(Field::Vote).map_err(|error| StorageIOError::read_vote(&error).into())
    }

    async fn save_committed(&mut self, committed: Option<LogId<C::NodeId>>) -> Outcome<(), C> {
        let stored = self.group.db.later().write(|tx| self.group.store_in(tx, Field::Committed, &committed));
        let ((), ticket) = stored.map_err(|error| StorageIOError::write(&error))?;
        // If a crash loses this, openraft learns of it again from the leader.
        drop(ticket);
        Ok(())
    }

    async fn read_committed(&mut self) -> Outcome<Option<LogId<C::NodeId>>, C> {
        let committed: Option<Option<_>> =
            self.group.load(Field::Committed).map_err(|error| StorageIOError::read(&error))?;
        Ok(committed.flatten())
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<C>) -> Outcome<(), C>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let failed = |error: strandline::Error| StorageIOError::write_logs(&error);
        let entries: Vec<C::Entry> = entries.into_iter().collect();
        // These entries follow a snapshot that is being installed. If they were stored now, a crash before the installation would leave a hole.
        while let Some(first) = entries.first()
            && self.group.is_pending()
            && self.group.last_index().map_err(failed)?.is_none_or(|last| first.get_log_id().index > last + 1)
        {
            let settled = self.group.settled.notified();
            if self.group.has_ended() {
                return Err(failed(ended()).into());
            }
            if self.group.is_pending() {
                settled.await;
            }
        }
        let ticket = self.insert(entries).map_err(failed)?;
        // This runs in openraft's own task, since openraft appends nothing more before it gets the result.
        let flushed = match ticket {
            Some(ticket) => self.group.flush(ticket).await,
            None => Ok(()),
        };
        callback.log_io_completed(flushed.map_err(io::Error::other));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId<C::NodeId>) -> Outcome<(), C> {
        self.group.truncate(log_id.index).map_err(|error| StorageIOError::write_logs(&error).into())
    }

    async fn purge(&mut self, log_id: LogId<C::NodeId>) -> Outcome<(), C> {
        self.group.purge(log_id).map_err(|error| StorageIOError::write_logs(&error).into())
    }
}
