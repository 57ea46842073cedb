//! The interface for an application's state machine, and for the tables that it keeps.

use std::sync::Arc;

use openraft::{LogId, RaftTypeConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strandline::{Database, Error, Key, Result, Table, Tx, Value, View};

/// The tables and the commands of a replicated state machine.
pub trait Application<C: RaftTypeConfig>: Send + Sync + 'static {
    /// Handles of the application's tables.
    type Tables: Send + Sync + 'static;

    /// Opens the tables through `opener`, the same tables each time. This is also called for the tables into which a snapshot is installed. A
    /// snapshot contains the content of these tables, and nothing else.
    ///
    /// # Errors
    /// Returns the errors of [`Opener::table`].
    fn open(&self, opener: &mut Opener<'_>) -> Result<Self::Tables>;

    /// Applies a command. The transaction may run more than once, and every node runs it: its result must depend only on the tables and the command,
    /// and not on time, random numbers or the order of a hash map.
    ///
    /// # Errors
    /// An error stops the node, because the command is committed and cannot be skipped. To refuse a command, return a response that says so.
    fn apply(
        &self,
        tx: &Tx<'_>,
        tables: &Self::Tables,
        log_id: &LogId<C::NodeId>,
        command: &C::D,
    ) -> Result<C::R>;
}

/// Opens the tables of an [`Application`], and registers them for snapshots.
pub struct Opener<'d> {
    db: &'d Database,
    prefix: String,
    pub(crate) tables: Vec<Named>,
}

/// A table with the name by which the application knows it.
#[derive(Clone)]
pub(crate) struct Named {
    pub name: String,
    pub table: Arc<dyn AnyTable>,
}

impl<'d> Opener<'d> {
    pub(crate) fn new(db: &'d Database, prefix: String) -> Self {
        Self { db, prefix, tables: Vec::new() }
    }

    /// Opens the table `name` of this group, and creates it if it does not exist. Keys and values must also implement serde's traits, for snapshots.
    ///
    /// # Errors
    /// Returns [`Error::Parameter`] if the table was opened already, and the errors of [`Database::table`].
    pub fn table<K, V>(&mut self, name: &str) -> Result<Table<K, V>>
    where
        K: Key + Serialize + DeserializeOwned + 'static,
        V: Value + Serialize + DeserializeOwned,
    {
        if self.tables.iter().any(|known| known.name == name) {
            return Err(Error::Parameter(format!("the application opens the table `{name}` twice")));
        }
        let table = self.db.table::<K, V>(&format!("{}{name}", self.prefix))?;
        self.tables.push(Named { name: name.to_owned(), table: Arc::new(table.clone()) });
        Ok(table)
    }
}

/// A table whose types are only known to the application.
pub(crate) trait AnyTable: Send + Sync {
    /// Calls `row` with the bytes of each row.
    fn rows(&self, view: &View<'_>, row: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
    /// Inserts a row from its bytes.
    fn insert_row(&self, tx: &Tx<'_>, row: &[u8]) -> Result<()>;
    /// Removes at most `most` rows, and returns the number of removed rows.
    fn remove_some(&self, tx: &Tx<'_>, most: usize) -> Result<usize>;
}

impl<K, V> AnyTable for Table<K, V>
where
    K: Key + Serialize + DeserializeOwned + 'static,
    V: Value + Serialize + DeserializeOwned,
{
    fn rows(&self, view: &View<'_>, row: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut bytes = Vec::new();
        for pair in self.iter(view)? {
            bytes.clear();
            ciborium::into_writer(&pair?, &mut bytes)
                .map_err(|error| Error::Parameter(format!("a row cannot be serialised: {error}")))?;
            row(&bytes)?;
        }
        Ok(())
    }

    fn insert_row(&self, tx: &Tx<'_>, row: &[u8]) -> Result<()> {
        let (key, value): (K, V) = ciborium::from_reader(row)
            .map_err(|error| Error::Parameter(format!("a snapshot's row is not of this table: {error}")))?;
        self.insert(tx, &key, &value).map(drop)
    }

    fn remove_some(&self, tx: &Tx<'_>, most: usize) -> Result<usize> {
        for removed in 0..most {
            if self.pop_first(tx)?.is_none() {
                return Ok(removed);
            }
        }
        Ok(most)
    }
}
