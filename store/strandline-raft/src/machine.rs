//! A group's state machine, and its snapshots.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use openraft::storage::RaftStateMachine;
use openraft::{
    Entry, EntryPayload, ErrorSubject, ErrorVerb, LogId, OptionalSend, RaftSnapshotBuilder, RaftTypeConfig,
    Snapshot, SnapshotMeta, StorageError, StorageIOError, StoredMembership,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strandline::{Database, Error, Result, View};
use tempfile::NamedTempFile;

use crate::application::{Application, Named, Opener};
use crate::group::{End, Field, Group};
use crate::log::LogStore;
use crate::snapshot::{Kind, Reader, SnapshotData, Writer, verify};

/// Number of entries that one transaction applies.
const APPLIED_AT_ONCE: usize = 64;
/// Approximate number of bytes of rows that one transaction installs.
const INSTALLED_AT_ONCE: usize = 128 << 10;
const REMOVED_AT_ONCE: usize = 512;
/// Approximate number of bytes of installed rows that need not be on the disk yet. Other writes of the node wait behind them.
const UNFLUSHED: usize = 1 << 20;
/// When the old versions that a snapshot needs have taken this share of their memory (one half), applying waits until the snapshot is built. The rest
/// is for other writers.
const SHARE_FOR_APPLYING: u64 = 2;
/// Number of attempts to build a snapshot whose old versions take too much memory nevertheless.
const ATTEMPTS: usize = 3;

type Outcome<T, C> = std::result::Result<T, StorageError<<C as RaftTypeConfig>::NodeId>>;
type NodeId<C> = <C as RaftTypeConfig>::NodeId;
type Meta<C> = SnapshotMeta<NodeId<C>, <C as RaftTypeConfig>::Node>;
type Applied<C> = (Option<LogId<NodeId<C>>>, StoredMembership<NodeId<C>, <C as RaftTypeConfig>::Node>);

/// The tables in use.
struct Opened<T> {
    tables: T,
    named: Vec<Named>,
}

struct Shared<C: RaftTypeConfig, A: Application<C>> {
    group: Arc<Group<C>>,
    application: A,
    /// Locked for writing while the tables are exchanged, so that a reader never sees the old tables with the last applied log id of the new ones.
    opened: RwLock<Opened<A::Tables>>,
    /// Locked while a snapshot is built.
    building: tokio::sync::Mutex<()>,
    /// Locked while tables are removed, so that only one thread does so at a time.
    removing: std::sync::Mutex<()>,
}

/// The state machine of a Raft group. [`open`] returns it.
pub struct StateMachine<C: RaftTypeConfig, A: Application<C>>
where
    C::Entry: Serialize + DeserializeOwned,
{
    shared: Arc<Shared<C, A>>,
    _end: End<C>,
}

/// Builds a snapshot while commands are applied.
pub struct SnapshotBuilder<C: RaftTypeConfig, A: Application<C>>(Arc<Shared<C, A>>);

/// Reads a group's state machine. It can be cloned and kept.
pub struct State<C: RaftTypeConfig, A: Application<C>>(Arc<Shared<C, A>>);

impl<C: RaftTypeConfig, A: Application<C>> Clone for State<C, A> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Opens the storage of the Raft group `group` in `db`, and creates it if it does not exist. Returns the log and the state machine, for
/// `openraft::Raft::new`. The caller numbers the groups.
///
/// Work that a crash has interrupted is finished: purged log entries and tables of snapshots are removed.
///
/// # Errors
/// Returns [`Error::Parameter`] if the group is already open in this process, [`Error::TableTypes`] if a table has other types, and the errors of
/// [`Database::write`].
pub fn open<C, A>(db: Database, group: u64, application: A) -> Result<(LogStore<C>, StateMachine<C, A>)>
where
    C: RaftTypeConfig<SnapshotData = SnapshotData, Entry = Entry<C>>,
    C::D: Serialize + DeserializeOwned,
    C::R: Default,
    A: Application<C>,
{
    let group = Arc::new(Group::<C>::open(db, group)?);
    let mut opener = Opener::new(&group.db, prefix(&group, "data"));
    let tables = application.open(&mut opener)?;
    let opened = Opened { tables, named: opener.tables };
    let shared = Arc::new(Shared {
        group: group.clone(),
        application,
        opened: RwLock::new(opened),
        building: tokio::sync::Mutex::default(),
        removing: std::sync::Mutex::default(),
    });
    shared.discard("new", || false)?;
    shared.discard("old", || false)?;
    shared.remove_parts().map_err(|error| io_error("remove the remains of snapshots", error))?;
    let applied: Option<Applied<C>> = group.load(Field::Applied)?;
    group.applied(applied.and_then(|(last, _)| last).map(|last| last.index))?;
    Ok((
        LogStore { group: group.clone(), _end: End(group.clone()) },
        StateMachine { shared, _end: End(group) },
    ))
}

fn prefix<C: RaftTypeConfig>(group: &Group<C>, what: &str) -> String {
    format!("raft {} {what} ", group.number)
}

fn io_error(what: &str, source: io::Error) -> Error {
    Error::io(what, source)
}

/// Runs long work on a thread of its own.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::Builder::new()
        .name("strandline-raft".into())
        .spawn(move || drop(tell.send(work())))
        .map_err(|error| io_error("start a thread", error))?;
    told.await.unwrap_or_else(|_| Err(io_error("finish a snapshot", io::Error::other("its thread panicked"))))
}

impl<C, A> Shared<C, A>
where
    C: RaftTypeConfig<SnapshotData = SnapshotData, Entry = Entry<C>>,
    C::D: Serialize + DeserializeOwned,
    C::R: Default,
    A: Application<C>,
{
    fn path(&self) -> PathBuf {
        let mut path = self.group.db.path().as_os_str().to_owned();
        path.push(format!(".raft-{}.snapshot", self.group.number));
        path.into()
    }

    fn folder(&self) -> PathBuf {
        self.group.db.path().parent().unwrap_or(Path::new("/")).to_owned()
    }

    fn part_prefix(&self) -> String {
        let name = self.path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        format!("{name}.part-")
    }

    fn part(&self) -> io::Result<NamedTempFile> {
        tempfile::Builder::new().prefix(&self.part_prefix()).tempfile_in(self.folder())
    }

    /// Removes files that a killed process has left.
    fn remove_parts(&self) -> io::Result<()> {
        let prefix = self.part_prefix();
        for entry in std::fs::read_dir(self.folder())? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(&prefix) {
                std::fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Removes tables, in small transactions. If `stop` returns true, it stops before the last ones.
    fn discard(&self, what: &str, stop: impl Fn() -> bool) -> Result<()> {
        let _one = self.removing.lock().unwrap_or_else(PoisonError::into_inner);
        let db = &self.group.db;
        let prefix = prefix(&self.group, what);
        let names = || -> Result<Vec<String>> {
            let names = db.list()?.into_iter().map(|table| table.name);
            Ok(names.filter(|name| name.starts_with(&prefix)).collect())
        };
        if names()?.is_empty() {
            return Ok(());
        }
        let mut opener = Opener::new(db, prefix.clone());
        self.application.open(&mut opener)?;
        for Named { table, .. } in &opener.tables {
            loop {
                let (removed, ticket) = db.later().write(|tx| table.remove_some(tx, REMOVED_AT_ONCE))?;
                drop(ticket);
                if stop() {
                    return Ok(());
                }
                if removed < REMOVED_AT_ONCE {
                    break;
                }
            }
        }
        names()?.iter().try_for_each(|name| db.delete(name).map(drop))
    }

    /// If the snapshot that is being built needs so many old versions that it might be ended, waits until it is built.
    async fn admit(&self) -> Result<()> {
        let usage = self.group.db.snapshot_usage()?;
        if usage.versions > usage.most_versions / SHARE_FOR_APPLYING {
            drop(self.building.lock().await);
        }
        Ok(())
    }

    /// Applies entries in one transaction.
    fn apply(&self, entries: &[Entry<C>]) -> Result<Vec<C::R>> {
        let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
        let (responses, ticket) = self.group.db.later().write(|tx| {
            let stored: Option<Applied<C>> = self.group.load_in(tx, Field::Applied)?;
            let (mut last, mut membership) = stored.unwrap_or_default();
            let mut responses = Vec::with_capacity(entries.len());
            for entry in entries {
                last = Some(entry.log_id.clone());
                responses.push(match &entry.payload {
                    EntryPayload::Blank => C::R::default(),
                    EntryPayload::Normal(command) => {
                        self.application.apply(tx, &opened.tables, &entry.log_id, command)?
                    }
                    EntryPayload::Membership(members) => {
                        membership = StoredMembership::new(last.clone(), members.clone());
                        C::R::default()
                    }
                });
            }
            self.group.store_in(tx, Field::Applied, &(last, membership))?;
            Ok(responses)
        })?;
        // The log is durable. If a crash loses this, it is applied again.
        drop(ticket);
        self.group.applied(entries.last().map(|entry| entry.log_id.index))?;
        Ok(responses)
    }

    /// Writes a snapshot of the present state to a file, in place of the previous one.
    fn build(&self) -> Result<Meta<C>> {
        let _building = self.building.blocking_lock();
        for attempt in 1.. {
            match self.build_once() {
                Err(Error::SnapshotEnded { .. }) if attempt < ATTEMPTS => {}
                done => return done,
            }
        }
        unreachable!("the last attempt returns")
    }

    fn build_once(&self) -> Result<Meta<C>> {
        let (named, snapshot) = {
            let opened = self.opened.read().unwrap_or_else(PoisonError::into_inner);
            (opened.named.clone(), self.group.db.snapshot()?)
        };
        let view = snapshot.read();
        let applied: Option<Applied<C>> = self.group.load_in(&view, Field::Applied)?;
        let (last_log_id, last_membership) = applied.unwrap_or_default();
        let at = last_log_id.as_ref().map_or_else(|| "empty".into(), ToString::to_string);
        let meta = Meta::<C> { last_log_id, last_membership, snapshot_id: at };

        let failed = |error| io_error("write a snapshot", error);
        let part = self.part().map_err(failed)?;
        let mut writer = Writer::new(part.as_file()).map_err(failed)?;
        let mut description = Vec::new();
        ciborium::into_writer(&meta, &mut description)
            .map_err(|error| Error::Parameter(format!("the membership cannot be serialised: {error}")))?;
        writer.frame(Kind::Description, &description).map_err(failed)?;
        for Named { name, table } in &named {
            writer.frame(Kind::Table, name.as_bytes()).map_err(failed)?;
            table.rows(&view, &mut |row| writer.frame(Kind::Row, row).map_err(failed))?;
        }
        writer.end().map_err(failed)?;
        part.persist(self.path()).map_err(|error| failed(error.error))?;
        self.sync_folder()?;
        Ok(meta)
    }

    fn sync_folder(&self) -> Result<()> {
        File::open(self.folder())
            .and_then(|folder| folder.sync_all())
            .map_err(|error| io_error("flush a snapshot's folder", error))
    }

    /// Returns the file of the last snapshot, unless the log begins after it.
    fn current(&self) -> Result<Option<(Meta<C>, SnapshotData)>> {
        let failed = |error| io_error("read a snapshot", error);
        let file = match File::open(self.path()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(failed)?,
        };
        let mut description = Vec::new();
        let first =
            Reader::new(&file).and_then(|mut reader| reader.frame(&mut description)).map_err(failed)?;
        let meta: Meta<C> = match first {
            Some(Kind::Description) => ciborium::from_reader(&description[..])
                .map_err(|error| failed(io::Error::new(io::ErrorKind::InvalidData, error.to_string())))?,
            _ => {
                return Err(failed(io::Error::other(
                    "the snapshot's file does not begin with a description",
                )));
            }
        };
        if meta.last_log_id < self.group.purged() {
            return Ok(None);
        }
        io::Seek::rewind(&mut &file).map_err(failed)?;
        Ok(Some((meta, SnapshotData { file, temporary: None })))
    }

    /// Replaces the state by that of a snapshot.
    fn install(&self, meta: &Meta<C>, data: SnapshotData) -> Result<()> {
        let failed = |error| io_error("read a snapshot", error);
        verify(&data.file).map_err(failed)?;
        self.discard("new", || false)?;
        self.discard("old", || false)?;

        let group = &self.group;
        let mut opener = Opener::new(&group.db, prefix(group, "new"));
        let tables = self.application.open(&mut opener)?;
        let named = opener.tables;
        self.load(&data.file, &named)?;
        {
            let mut opened = self.opened.write().unwrap_or_else(PoisonError::into_inner);
            let [data, new, old] = ["data", "new", "old"].map(|what| prefix(group, what));
            group.db.write(|tx| {
                let catalogue = group.db.catalogue(tx)?;
                for Named { name, .. } in &named {
                    catalogue.rename(tx, &format!("{data}{name}"), &format!("{old}{name}"))?;
                    catalogue.rename(tx, &format!("{new}{name}"), &format!("{data}{name}"))?;
                }
                // A log that ended before the snapshot continues after it from this transaction on.
                if let Some(purged) = group.pending_up_to(meta.last_log_id.as_ref().map(|last| last.index)) {
                    group.store_in(tx, Field::Purged, &purged)?;
                }
                group.store_in(tx, Field::Applied, &(&meta.last_log_id, &meta.last_membership))
            })?;
            *opened = Opened { tables, named };
        }
        self.keep(data)?;
        group.applied(meta.last_log_id.as_ref().map(|last| last.index))
    }

    /// Inserts a file's rows, in small transactions.
    fn load(&self, file: &File, named: &[Named]) -> Result<()> {
        let failed = |error| io_error("read a snapshot", error);
        let mut reader = Reader::new(file).map_err(failed)?;
        let mut table: Option<&Named> = None;
        let (mut rows, mut bytes): (Vec<Vec<u8>>, usize) = (Vec::new(), 0);
        let mut unflushed = 0;
        loop {
            let mut frame = Vec::new();
            let kind = reader.frame(&mut frame).map_err(failed)?;
            if (kind != Some(Kind::Row) || bytes >= INSTALLED_AT_ONCE)
                && let Some(Named { table, .. }) = table
            {
                let ((), ticket) = self
                    .group
                    .db
                    .later()
                    .write(|tx| rows.iter().try_for_each(|row| table.insert_row(tx, row)))?;
                unflushed += bytes;
                if unflushed >= UNFLUSHED {
                    ticket.wait()?;
                    unflushed = 0;
                }
                rows.clear();
                bytes = 0;
            }
            match kind {
                None => return Ok(()),
                Some(Kind::Row) => {
                    bytes += frame.len();
                    rows.push(frame);
                }
                Some(Kind::Table) => {
                    let found = named.iter().find(|known| known.name.as_bytes() == frame);
                    table = Some(found.ok_or_else(|| {
                        let name = String::from_utf8_lossy(&frame);
                        Error::Parameter(format!(
                            "the snapshot has a table `{name}`, which this application does not open"
                        ))
                    })?);
                }
                Some(_) => {}
            }
        }
    }

    /// Makes the file of an installed snapshot the current one.
    fn keep(&self, mut data: SnapshotData) -> Result<()> {
        let failed = |error| io_error("keep a snapshot", error);
        data.file.sync_all().map_err(failed)?;
        match data.temporary.take() {
            Some(received) => received.persist(self.path()).map_err(|error| failed(error.error))?,
            None => {
                let part = self.part().map_err(failed)?;
                io::Seek::rewind(&mut data.file).map_err(failed)?;
                io::copy(&mut data.file, &mut part.as_file()).map_err(failed)?;
                part.as_file().sync_all().map_err(failed)?;
                part.persist(self.path()).map_err(|error| failed(error.error))?;
            }
        }
        self.sync_folder()
    }
}

impl<C, A> State<C, A>
where
    C: RaftTypeConfig,
    A: Application<C>,
{
    /// Runs `body`, which reads the tables of the application as they are at one moment. It may run more than once.
    ///
    /// The cluster has committed everything that it reads, but this node may be behind: call `Raft::ensure_linearizable` first if the read must see
    /// everything that was acknowledged before.
    ///
    /// # Errors
    /// Returns the error that `body` returned, and the errors of [`Database::read`].
    pub fn read<T>(&self, mut body: impl FnMut(&View<'_>, &A::Tables) -> Result<T>) -> Result<T> {
        let opened = self.0.opened.read().unwrap_or_else(PoisonError::into_inner);
        let (value, ticket) = self.0.group.db.later().write(|tx| body(tx, &opened.tables))?;
        // The log is durable on a majority. It does not matter whether the state is durable here.
        drop(ticket);
        Ok(value)
    }
}

impl<C, A> StateMachine<C, A>
where
    C: RaftTypeConfig,
    C::Entry: Serialize + DeserializeOwned,
    A: Application<C>,
{
    /// Returns a reader of the state, which the program can keep when it has given the state machine to openraft.
    pub fn state(&self) -> State<C, A> {
        State(self.shared.clone())
    }
}

impl<C, A> RaftSnapshotBuilder<C> for SnapshotBuilder<C, A>
where
    C: RaftTypeConfig<SnapshotData = SnapshotData, Entry = Entry<C>>,
    C::D: Serialize + DeserializeOwned,
    C::R: Default,
    A: Application<C>,
{
    async fn build_snapshot(&mut self) -> Outcome<Snapshot<C>, C> {
        let shared = self.0.clone();
        let built = aside(move || {
            let meta = shared.build()?;
            let file = File::open(shared.path()).map_err(|error| io_error("open a snapshot", error))?;
            Ok((meta, SnapshotData { file, temporary: None }))
        });
        let (meta, data) = built.await.map_err(|error| StorageIOError::write_snapshot(None, &error))?;
        Ok(Snapshot { meta, snapshot: Box::new(data) })
    }
}

impl<C, A> RaftStateMachine<C> for StateMachine<C, A>
where
    C: RaftTypeConfig<SnapshotData = SnapshotData, Entry = Entry<C>>,
    C::D: Serialize + DeserializeOwned,
    C::R: Default,
    A: Application<C>,
{
    type SnapshotBuilder = SnapshotBuilder<C, A>;

    async fn applied_state(&mut self) -> Outcome<Applied<C>, C> {
        let applied: Option<Applied<C>> = self
            .shared
            .group
            .load(Field::Applied)
            .map_err(|error| StorageIOError::read_state_machine(&error))?;
        Ok(applied.unwrap_or_default())
    }

    async fn apply<I>(&mut self, entries: I) -> Outcome<Vec<C::R>, C>
    where
        I: IntoIterator<Item = C::Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        let failed = |error| StorageIOError::write_state_machine(&error);
        let mut responses = Vec::with_capacity(entries.len());
        for batch in entries.chunks(APPLIED_AT_ONCE) {
            self.shared.admit().await.map_err(failed)?;
            responses.extend(self.shared.apply(batch).map_err(failed)?);
        }
        Ok(responses)
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        SnapshotBuilder(self.shared.clone())
    }

    async fn begin_receiving_snapshot(&mut self) -> Outcome<Box<SnapshotData>, C> {
        let part = self.shared.part().map_err(|error| {
            StorageError::from_io_error(ErrorSubject::Snapshot(None), ErrorVerb::Write, error)
        })?;
        let (file, path) = part.into_parts();
        Ok(Box::new(SnapshotData { file, temporary: Some(path) }))
    }

    async fn install_snapshot(&mut self, meta: &Meta<C>, snapshot: Box<SnapshotData>) -> Outcome<(), C> {
        let (shared, described) = (self.shared.clone(), meta.clone());
        aside(move || {
            shared.install(&described, *snapshot)?;
            // Removing the replaced tables takes a while. If that fails, the next installation or opening tries again.
            let group = shared.group.clone();
            group.behind(move || drop(shared.discard("old", || shared.group.has_ended())))
        })
        .await
        .map_err(|error| StorageIOError::write_snapshot(Some(meta.signature()), &error).into())
    }

    async fn get_current_snapshot(&mut self) -> Outcome<Option<Snapshot<C>>, C> {
        let current = self.shared.current().map_err(|error| StorageIOError::read_snapshot(None, &error))?;
        Ok(current.map(|(meta, data)| Snapshot { meta, snapshot: Box::new(data) }))
    }
}
