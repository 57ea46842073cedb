//! Tables whose types Python chooses when it opens them.

use std::ops::Bound as End;
use std::sync::Arc;

use pyo3::exceptions::{PyOverflowError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt, PyString};
use strandline::{Database, Error, Key, KeyRef, Result, SingleWriter, Table, Tx, Value, View};

use crate::errors::raised;
use crate::streams::Source;

/// One transaction writes at a time: none begins anew, which a block of Python could not.
pub type Control = SingleWriter;

/// A key or a value.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    Bytes(Vec<u8>),
    Text(String),
    Signed(i64),
    Unsigned(u64),
}

/// What keys or values are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Bytes,
    Text,
    Signed,
    Unsigned,
    /// A text that is JSON.
    Json,
}

impl Kind {
    /// `bytes`, `str`, `int`, or a name.
    pub fn of(what: &Bound<'_, PyAny>) -> PyResult<Self> {
        let py = what.py();
        let is = |kind: &Bound<'_, pyo3::types::PyType>| what.is(kind);
        if is(&py.get_type::<PyBytes>()) {
            return Ok(Self::Bytes);
        }
        if is(&py.get_type::<PyString>()) {
            return Ok(Self::Text);
        }
        if is(&py.get_type::<PyInt>()) {
            return Ok(Self::Signed);
        }
        match what.extract::<String>().unwrap_or_default().as_str() {
            "bytes" => Ok(Self::Bytes),
            "str" => Ok(Self::Text),
            "int" | "i64" => Ok(Self::Signed),
            "u64" => Ok(Self::Unsigned),
            "json" => Ok(Self::Json),
            _ => Err(raised(
                "UsageError",
                format!(
                    "a table cannot hold {what}: choose bytes, str, int (64 bits), \"u64\" or, for values, \"json\""
                ),
            )),
        }
    }

    /// What Python gave as a cell of this kind.
    pub fn cell(self, from: &Bound<'_, PyAny>) -> PyResult<Cell> {
        let wrong = |expected: &str| {
            let found = from.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!("expected {expected}, found {found}"))
        };
        let range = |error: PyErr, expected: &str| match error.is_instance_of::<PyOverflowError>(from.py()) {
            true => PyOverflowError::new_err(format!("expected {expected}, found {from}")),
            false => wrong("int"),
        };
        Ok(match self {
            Self::Bytes => Cell::Bytes(from.extract().map_err(|_| wrong("bytes"))?),
            Self::Text => Cell::Text(from.extract().map_err(|_| wrong("str"))?),
            Self::Signed => Cell::Signed(from.extract().map_err(|error| range(error, "an int of 64 bits"))?),
            Self::Unsigned => {
                Cell::Unsigned(from.extract().map_err(|error| range(error, "an int from 0, of 64 bits"))?)
            }
            Self::Json => {
                let json = from.py().import("json")?;
                let keywords = pyo3::types::PyDict::new(from.py());
                keywords.set_item("ensure_ascii", false)?;
                keywords.set_item("separators", (",", ":"))?;
                Cell::Text(json.call_method("dumps", (from,), Some(&keywords))?.extract()?)
            }
        })
    }

    /// What Python gets.
    pub fn object<'py>(self, py: Python<'py>, cell: Cell) -> PyResult<Bound<'py, PyAny>> {
        Ok(match (self, cell) {
            (Self::Json, Cell::Text(text)) => py.import("json")?.call_method1("loads", (text,))?,
            (_, Cell::Bytes(bytes)) => PyBytes::new(py, &bytes).into_any(),
            (_, Cell::Text(text)) => PyString::new(py, &text).into_any(),
            (_, Cell::Signed(number)) => number.into_pyobject(py)?.into_any(),
            (_, Cell::Unsigned(number)) => number.into_pyobject(py)?.into_any(),
        })
    }
}

/// So many bytes are fetched at a time, and a row more.
const BATCH_BYTES: u64 = 1 << 20;

/// What is done with a table.
#[derive(Clone, Debug)]
pub enum Operation {
    Get(Cell),
    Contains(Cell),
    Count,
    /// So many rows between the bounds, or fewer where they are long, from the first or from the last on. None: nothing is left.
    Rows {
        from: End<Cell>,
        to: End<Cell>,
        backwards: bool,
        limit: usize,
    },
    /// Bytes of a value.
    Size(Cell),
    /// So many bytes of a value, or as many as it has, from a place on.
    ReadAt(Cell, u64, usize),
    /// Returns the value before.
    Insert(Cell, Cell),
    Set(Cell, Cell),
    /// A value of so many bytes, from a file.
    SetFrom(Cell, u64, Source),
    InsertAll(Vec<(Cell, Cell)>),
    Remove(Cell),
    Clear,
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
}

/// What came of it.
#[derive(Debug)]
pub enum Answer {
    Cell(Option<Cell>),
    Truth(bool),
    Count(u64),
    Rows(Vec<(Cell, Cell)>),
    Done,
}

/// A table of any types.
pub trait Erased: Send + Sync {
    /// Does what reads.
    fn read(&self, tx: &View<'_, Control>, operation: &Operation) -> Result<Answer>;
    /// Does anything.
    fn apply(&self, tx: &Tx<'_, Control>, operation: &Operation) -> Result<Answer>;
}

/// What a cell holds.
trait Plain: Value {
    fn of(cell: &Cell) -> Option<&Self>;
    fn cell(self) -> Cell;

    /// Bytes of the value of `key`, if it is there.
    fn size<K: AnyKey>(_: &Table<K, Self>, _: &View<'_, Control>, _: &K) -> Result<Option<u64>> {
        Err(no_bytes())
    }
    /// Bytes of the value from the place `at` on.
    fn read_at<K: AnyKey>(
        _: &Table<K, Self>,
        _: &View<'_, Control>,
        _: &K,
        _at: u64,
        _bytes: usize,
    ) -> Result<Option<Vec<u8>>> {
        Err(no_bytes())
    }
    /// Gives the key a value of as many bytes.
    fn set_from<K: AnyKey>(
        _: &Table<K, Self>,
        _: &Tx<'_, Control>,
        _: &K,
        _bytes: u64,
        _: &Source,
    ) -> Result<()> {
        Err(no_bytes())
    }
}

/// A type that keys of a table can have.
trait AnyKey: Key + KeyRef + Ord + Plain {}

impl<K: Key + KeyRef + Ord + Plain> AnyKey for K {}

fn no_bytes() -> Error {
    Error::Parameter("only values of a table of bytes are read and stored piece by piece".into())
}

macro_rules! plain {
    ($of:ty, $variant:ident, { $($more:item)* }) => {
        impl Plain for $of {
            fn of(cell: &Cell) -> Option<&Self> {
                match cell {
                    Cell::$variant(inside) => Some(inside),
                    _ => None,
                }
            }
            fn cell(self) -> Cell {
                Cell::$variant(self)
            }
            $($more)*
        }
    };
}

plain!(String, Text, {});
plain!(i64, Signed, {});
plain!(u64, Unsigned, {});
plain!(Vec<u8>, Bytes, {
    fn size<K: AnyKey>(table: &Table<K, Self>, tx: &View<'_, Control>, key: &K) -> Result<Option<u64>> {
        Ok(table.reader(tx, key)?.map(|reader| reader.len()))
    }
    fn read_at<K: AnyKey>(
        table: &Table<K, Self>,
        tx: &View<'_, Control>,
        key: &K,
        at: u64,
        bytes: usize,
    ) -> Result<Option<Vec<u8>>> {
        let Some(reader) = table.reader(tx, key)? else { return Ok(None) };
        let mut read = vec![0; reader.len().saturating_sub(at).min(bytes as u64) as usize];
        // Behind the end there are none.
        reader.read_at(at.min(reader.len()), &mut read)?;
        Ok(Some(read))
    }
    fn set_from<K: AnyKey>(
        table: &Table<K, Self>,
        tx: &Tx<'_, Control>,
        key: &K,
        bytes: u64,
        from: &Source,
    ) -> Result<()> {
        from.read(|reader| table.set_from(tx, key, bytes, reader))
    }
});

fn inside<T: Plain>(cell: &Cell) -> Result<&T> {
    T::of(cell).ok_or_else(|| Error::Parameter(format!("{cell:?} is of another type than the table's")))
}

fn bound<T: Plain>(bound: &End<Cell>) -> Result<End<&T>> {
    Ok(match bound {
        End::Included(cell) => End::Included(inside(cell)?),
        End::Excluded(cell) => End::Excluded(inside(cell)?),
        End::Unbounded => End::Unbounded,
    })
}

impl<K: AnyKey, V: Plain> Erased for Table<K, V> {
    fn read(&self, tx: &View<'_, Control>, operation: &Operation) -> Result<Answer> {
        Ok(match operation {
            Operation::Get(key) => Answer::Cell(self.get(tx, inside::<K>(key)?)?.map(V::cell)),
            Operation::Size(key) => match V::size(self, tx, inside(key)?)? {
                Some(bytes) => Answer::Count(bytes),
                None => Answer::Cell(None),
            },
            Operation::ReadAt(key, at, bytes) => {
                Answer::Cell(V::read_at(self, tx, inside(key)?, *at, *bytes)?.map(Cell::Bytes))
            }
            Operation::Contains(key) => Answer::Truth(self.contains_key(tx, inside::<K>(key)?)?),
            Operation::Count => Answer::Count(self.count(tx)?),
            Operation::Rows { from, to, backwards, limit } => {
                let (from, to) = (bound::<K>(from)?, bound::<K>(to)?);
                let mut rows = self.range::<K, _>(tx, (from, to))?;
                let mut next = || if *backwards { rows.next_back() } else { rows.next() };
                let mut rows = Vec::new();
                let mut bytes = 0;
                // At least one, however long it is: none at all says that nothing is left.
                while rows.len() < *limit && bytes < BATCH_BYTES {
                    let Some(row) = next() else { break };
                    let (key, value) = row?;
                    bytes += strandline::Persist::bytes(&value);
                    rows.push((key.cell(), value.cell()));
                }
                Answer::Rows(rows)
            }
            _ => return Err(Error::ReadOnly),
        })
    }

    fn apply(&self, tx: &Tx<'_, Control>, operation: &Operation) -> Result<Answer> {
        Ok(match operation {
            Operation::Insert(key, value) => {
                Answer::Cell(self.insert(tx, inside::<K>(key)?, inside::<V>(value)?)?.map(V::cell))
            }
            Operation::Set(key, value) => {
                self.set(tx, inside::<K>(key)?, inside::<V>(value)?)?;
                Answer::Done
            }
            Operation::SetFrom(key, bytes, from) => {
                V::set_from(self, tx, inside(key)?, *bytes, from)?;
                Answer::Done
            }
            Operation::InsertAll(rows) => {
                let rows = rows.iter().map(|(key, value)| Ok((inside::<K>(key)?, inside::<V>(value)?)));
                let rows = rows.collect::<Result<Vec<_>>>()?;
                if rows.is_sorted_by(|(key, _), (next, _)| key < next) {
                    // Behind all that are there it fills whole pages.
                    self.load(tx, rows.iter().copied())?;
                } else {
                    for (key, value) in rows {
                        self.set(tx, key, value)?;
                    }
                }
                Answer::Done
            }
            Operation::Remove(key) => Answer::Cell(self.remove(tx, inside::<K>(key)?)?.map(V::cell)),
            Operation::Clear => {
                self.clear(tx)?;
                Answer::Done
            }
            other => return self.read(tx, other),
        })
    }
}

/// Checks that keys can be of this kind.
///
/// # Errors
/// Returns a `UsageError` for JSON.
pub fn check_key(key: Kind) -> PyResult<()> {
    match key {
        Kind::Json => {
            let why = "JSON has no order: choose bytes, str or int for keys";
            Err(raised("UsageError", why.into()))
        }
        _ => Ok(()),
    }
}

/// Opens the table of these types, or makes it.
pub fn open(db: &Database<Control>, name: &str, key: Kind, value: Kind) -> Result<Arc<dyn Erased>> {
    fn of<K: AnyKey + 'static, V: Plain>(db: &Database<Control>, name: &str) -> Result<Arc<dyn Erased>> {
        Ok(Arc::new(db.table::<K, V>(name)?))
    }
    fn with<K: AnyKey + 'static>(db: &Database<Control>, name: &str, value: Kind) -> Result<Arc<dyn Erased>> {
        match value {
            Kind::Bytes => of::<K, Vec<u8>>(db, name),
            Kind::Text | Kind::Json => of::<K, String>(db, name),
            Kind::Signed => of::<K, i64>(db, name),
            Kind::Unsigned => of::<K, u64>(db, name),
        }
    }
    match key {
        Kind::Bytes => with::<Vec<u8>>(db, name, value),
        // No key is JSON: `check_key`.
        Kind::Text | Kind::Json => with::<String>(db, name, value),
        Kind::Signed => with::<i64>(db, name, value),
        Kind::Unsigned => with::<u64>(db, name, value),
    }
}
