//! What a state machine does, and the tables that it keeps.

use std::sync::Arc;

use openraft::{LogId, RaftTypeConfig};
use serde::Serialize;
use serde::de::DeserializeOwned;
use strandline::{Database, Error, Key, Result, Table, Tx, Value, View};

/// What a replicated state machine keeps and does.
pub trait Application<C: RaftTypeConfig>: Send + Sync + 'static {
    /// Handles of its tables.
    type Tables: Send + Sync + 'static;

    /// Opens the tables, the same ones each time, all through `opener`: it is also called for the tables into which a snapshot is
    /// installed. A snapshot contains what is in these tables, and nothing else.
    ///
    /// # Errors
    /// Those of [`Opener::table`].
    fn open(&self, opener: &mut Opener<'_>) -> Result<Self::Tables>;

    /// Applies a command. The transaction may run more than once, and every node runs it: what it does must depend on tables and command
    /// alone, not on time, chance or the order of a hash map.
    ///
    /// # Errors
    /// An error stops the node, because the command is committed and cannot be left out. A command that is refused is a response.
    fn apply(
        &self,
        tx: &Tx<'_>,
        tables: &Self::Tables,
        log_id: &LogId<C::NodeId>,
        command: &C::D,
    ) -> Result<C::R>;
}

/// Opens the tables of an [`Application`], and notes them for snapshots.
pub struct Opener<'d> {
    db: &'d Database,
    prefix: String,
    pub(crate) tables: Vec<Named>,
}

/// A table with the name that the application has for it.
#[derive(Clone)]
pub(crate) struct Named {
    pub name: String,
    pub table: Arc<dyn AnyTable>,
}

impl<'d> Opener<'d> {
    pub(crate) fn new(db: &'d Database, prefix: String) -> Self {
        Self { db, prefix, tables: Vec::new() }
    }

    /// Opens the table `name` of this group, or makes it. Keys and values implement serde's traits as well, for snapshots.
    ///
    /// # Errors
    /// [`Error::Parameter`]: it was opened already; as [`Database::table`].
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

/// A table whose types only the application knows.
pub(crate) trait AnyTable: Send + Sync {
    /// Hands each row's bytes to `row`.
    fn rows(&self, view: &View<'_>, row: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<()>;
    /// Inserts a row from its bytes.
    fn insert_row(&self, tx: &Tx<'_>, row: &[u8]) -> Result<()>;
    /// Removes at most so many rows; how many.
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
