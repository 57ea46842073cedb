//! The operations on tables.

use std::ops::Bound as End;

use strandline::{Dynamic, DynamicTable, Error, Result, SingleWriter, Tx, View};

use crate::streams::Source;

/// Only one transaction writes at a time. So no transaction has to run again after a conflict, which a block of Python could not do.
pub type Control = SingleWriter;

/// Number of bytes after which no further rows are fetched in one operation.
const BATCH_BYTES: u64 = 1 << 20;

/// An operation on a table.
#[derive(Clone, Debug)]
pub enum Operation {
    Get(Dynamic),
    Contains(Dynamic),
    Count,
    /// Fetches up to `limit` rows between the bounds, or fewer if they are long, from the first or from the last on. No rows mean that none is left.
    Rows {
        from: End<Dynamic>,
        to: End<Dynamic>,
        backwards: bool,
        limit: usize,
    },
    /// Returns the number of bytes in a value.
    Size(Dynamic),
    /// Returns bytes of a value from an offset on: this number, or as many as it has.
    ReadAt(Dynamic, u64, usize),
    /// Inserts a row, and returns the previous value.
    Insert(Dynamic, Dynamic),
    Set(Dynamic, Dynamic),
    /// Sets a value to this number of bytes of a file.
    SetFrom(Dynamic, u64, Source),
    InsertAll(Vec<(Dynamic, Dynamic)>),
    Remove(Dynamic),
    Clear,
}

/// The result of an operation.
#[derive(Debug)]
pub enum Answer {
    Value(Option<Dynamic>),
    Truth(bool),
    Count(u64),
    Rows(Vec<(Dynamic, Dynamic)>),
    Done,
}

/// Returns the approximate number of bytes of memory that a value takes.
fn size(value: &Dynamic) -> u64 {
    8 + match value {
        Dynamic::Text(text) => text.len() as u64,
        Dynamic::Bytes(bytes) => bytes.len() as u64,
        Dynamic::Optional(Some(inside)) => size(inside),
        Dynamic::List(parts) => parts.iter().map(size).sum(),
        Dynamic::Record(fields) => fields.iter().map(|(_, value)| size(value)).sum(),
        _ => 0,
    }
}

impl Operation {
    /// Returns whether the operation changes the table.
    pub fn writes(&self) -> bool {
        !matches!(
            self,
            Self::Get(_)
                | Self::Contains(_)
                | Self::Count
                | Self::Rows { .. }
                | Self::Size(_)
                | Self::ReadAt(..)
        )
    }

    /// Runs an operation that reads.
    ///
    /// # Errors
    /// Returns [`Error::ReadOnly`] if the operation writes, and the errors of the table's methods.
    pub fn read(&self, table: &DynamicTable, tx: &View<'_, Control>) -> Result<Answer> {
        Ok(match self {
            Self::Get(key) => Answer::Value(table.get(tx, key)?),
            Self::Size(key) => match table.reader(tx, key)? {
                Some(reader) => Answer::Count(reader.len()),
                None => Answer::Value(None),
            },
            Self::ReadAt(key, at, bytes) => {
                let Some(reader) = table.reader(tx, key)? else { return Ok(Answer::Value(None)) };
                let mut read = vec![0; reader.len().saturating_sub(*at).min(*bytes as u64) as usize];
                // After the end there are none.
                reader.read_at((*at).min(reader.len()), &mut read)?;
                Answer::Value(Some(Dynamic::Bytes(read)))
            }
            Self::Contains(key) => Answer::Truth(table.contains_key(tx, key)?),
            Self::Count => Answer::Count(table.len(tx)?),
            Self::Rows { from, to, backwards, limit } => {
                let mut range = table.range(tx, from.as_ref(), to.as_ref())?;
                let mut next = || if *backwards { range.next_back() } else { range.next() };
                let mut rows = Vec::new();
                let mut bytes = 0;
                // At least one row is fetched, however long it is, since no rows mean that none is left.
                while rows.len() < *limit && bytes < BATCH_BYTES {
                    let Some(row) = next() else { break };
                    let row = row?;
                    bytes += size(&row.1);
                    rows.push(row);
                }
                Answer::Rows(rows)
            }
            _ => return Err(Error::ReadOnly),
        })
    }

    /// Runs an operation.
    ///
    /// # Errors
    /// Returns the errors of the table's methods.
    pub fn apply(&self, table: &DynamicTable, tx: &Tx<'_, Control>) -> Result<Answer> {
        Ok(match self {
            Self::Insert(key, value) => Answer::Value(table.insert(tx, key, value)?),
            Self::Set(key, value) => table.set(tx, key, value).map(|()| Answer::Done)?,
            Self::SetFrom(key, bytes, from) => {
                from.read(|reader| table.set_from(tx, key, *bytes, reader))?;
                Answer::Done
            }
            Self::InsertAll(rows) => table.update(tx, rows).map(|()| Answer::Done)?,
            Self::Remove(key) => Answer::Value(table.remove(tx, key)?),
            Self::Clear => table.clear(tx).map(|()| Answer::Done)?,
            other => other.read(table, tx)?,
        })
    }
}
