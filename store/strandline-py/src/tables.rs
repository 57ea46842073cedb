//! What is done with tables.

use std::ops::Bound as End;

use strandline::{Dynamic, DynamicTable, Error, Result, SingleWriter, Tx, View};

use crate::streams::Source;

/// One transaction writes at a time: none begins anew, which a block of Python could not.
pub type Control = SingleWriter;

/// So many bytes are fetched at a time, and a row more.
const BATCH_BYTES: u64 = 1 << 20;

/// What is done with a table.
#[derive(Clone, Debug)]
pub enum Operation {
    Get(Dynamic),
    Contains(Dynamic),
    Count,
    /// So many rows between the bounds, or fewer where they are long, from the first or from the last on. None: nothing is left.
    Rows {
        from: End<Dynamic>,
        to: End<Dynamic>,
        backwards: bool,
        limit: usize,
    },
    /// Bytes of a value.
    Size(Dynamic),
    /// So many bytes of a value, or as many as it has, from a place on.
    ReadAt(Dynamic, u64, usize),
    /// Returns the value before.
    Insert(Dynamic, Dynamic),
    Set(Dynamic, Dynamic),
    /// A value of so many bytes, from a file.
    SetFrom(Dynamic, u64, Source),
    InsertAll(Vec<(Dynamic, Dynamic)>),
    Remove(Dynamic),
    Clear,
}

/// What came of it.
#[derive(Debug)]
pub enum Answer {
    Value(Option<Dynamic>),
    Truth(bool),
    Count(u64),
    Rows(Vec<(Dynamic, Dynamic)>),
    Done,
}

/// About how many bytes of memory it takes.
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
    /// Whether it changes the table.
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

    /// Does what reads.
    ///
    /// # Errors
    /// As the table's methods; [`Error::ReadOnly`] where it writes.
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
                // Behind the end there are none.
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
                // At least one, however long it is: none at all says that nothing is left.
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

    /// Does it.
    ///
    /// # Errors
    /// As the table's methods.
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
