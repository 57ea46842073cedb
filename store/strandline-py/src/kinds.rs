//! The Python types of keys and values, and their stored forms.

use std::sync::Arc;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyFloat, PyList, PyString, PyTuple};
use strandline::{Dynamic, Types};

use crate::database::usage;
use crate::errors::{of_database, raised};

/// The type of keys or values.
#[derive(Clone)]
pub enum Kind {
    Bytes,
    Text,
    /// An integer with this many bits, signed if `true`.
    Int(u32, bool),
    Float,
    Bool,
    Date,
    /// A `datetime` without a time zone.
    Datetime,
    /// A `datetime` with a time zone, stored as a moment.
    Timestamp,
    Uuid,
    /// A text that contains JSON.
    Json,
    Optional(Box<Kind>),
    List(Box<Kind>),
    Tuple(Vec<Kind>),
    Dataclass(Arc<Dataclass>),
    Enum(Arc<Enumeration>),
}

pub struct Dataclass {
    class: Py<PyAny>,
    name: String,
    version: u32,
    fields: Vec<Field>,
}

struct Field {
    name: String,
    kind: Kind,
    /// The field's value if an object of an earlier version has no such field.
    default: Option<Dynamic>,
    /// The field's name in earlier versions of the class.
    was: Option<String>,
}

pub struct Enumeration {
    class: Py<PyAny>,
    name: String,
    version: u32,
    members: Vec<String>,
}

impl Kind {
    /// Returns the kind that `_kinds.kind` describes as a tuple of a tag and its parameters.
    pub fn of(described: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (tag, rest): (String, Bound<'_, PyTuple>) = described.extract()?;
        let inside = |at: usize| Self::of(&rest.get_item(at)?).map(Box::new);
        Ok(match tag.as_str() {
            "bytes" => Self::Bytes,
            "str" => Self::Text,
            "int" => Self::Int(rest.get_item(0)?.extract()?, rest.get_item(1)?.extract()?),
            "float" => Self::Float,
            "bool" => Self::Bool,
            "date" => Self::Date,
            "datetime" => Self::Datetime,
            "timestamp" => Self::Timestamp,
            "uuid" => Self::Uuid,
            "json" => Self::Json,
            "optional" => Self::Optional(inside(0)?),
            "list" => Self::List(inside(0)?),
            "tuple" => Self::Tuple(rest.iter().map(|part| Self::of(&part)).collect::<PyResult<_>>()?),
            "dataclass" => {
                type Described<'py> =
                    (String, Bound<'py, PyAny>, Option<(Bound<'py, PyAny>,)>, Option<String>);
                let (class, name, version, fields): (_, _, _, Vec<Described<'_>>) = rest.extract()?;
                let field = |(name, kind, default, was): Described<'_>| {
                    let kind = Self::of(&kind)?;
                    let default = default.map(|(default,)| kind.dynamic(&default)).transpose()?;
                    Ok(Field { name, kind, default, was })
                };
                let fields = fields.into_iter().map(field).collect::<PyResult<_>>()?;
                Self::Dataclass(Arc::new(Dataclass { class, name, version, fields }))
            }
            "enum" => {
                let (class, name, version, members) = rest.extract()?;
                Self::Enum(Arc::new(Enumeration { class, name, version, members }))
            }
            other => return Err(usage(&format!("there is no type {other:?}"))),
        })
    }

    /// Returns the type's name in the file, and adds classes to `types`.
    pub fn stored_name(&self, types: &mut Types) -> PyResult<String> {
        Ok(match self {
            Self::Bytes => "Vec<u8>".into(),
            Self::Text | Self::Json => "String".into(),
            Self::Int(bits, has_sign) => format!("{}{bits}", if *has_sign { "i" } else { "u" }),
            Self::Float => "f64".into(),
            Self::Bool => "bool".into(),
            Self::Date => "date".into(),
            Self::Datetime => "datetime".into(),
            Self::Timestamp => "timestamp".into(),
            Self::Uuid => "uuid".into(),
            Self::Optional(inside) => format!("Option<{}>", inside.stored_name(types)?),
            Self::List(inside) => format!("Vec<{}>", inside.stored_name(types)?),
            Self::Tuple(parts) => {
                let names = parts.iter().map(|part| part.stored_name(types)).collect::<PyResult<Vec<_>>>()?;
                match names.as_slice() {
                    [one] => format!("({one},)"),
                    names => format!("({})", names.join(", ")),
                }
            }
            Self::Dataclass(class) => {
                let Dataclass { name, version, fields, .. } = &**class;
                let names = fields.iter().map(|field| field.kind.stored_name(types));
                let names = names.collect::<PyResult<Vec<_>>>()?;
                let fields: Vec<_> = fields
                    .iter()
                    .zip(&names)
                    .map(|(field, type_name)| {
                        (field.name.as_str(), type_name.as_str(), field.default.as_ref())
                    })
                    .collect();
                // A class may be used twice. `_kinds.kind` refuses two classes of the same name.
                if types.get(name).is_none() {
                    types.add_structure(name, *version, &fields).map_err(of_database)?;
                    for field in &class.fields {
                        let Some(was) = &field.was else { continue };
                        types.rename_field(name, &field.name, was).map_err(of_database)?;
                    }
                }
                name.clone()
            }
            Self::Enum(class) => {
                let Enumeration { name, version, members, .. } = &**class;
                let members: Vec<&str> = members.iter().map(String::as_str).collect();
                if types.get(name).is_none() {
                    types.add_enumeration(name, *version, &members).map_err(of_database)?;
                }
                name.clone()
            }
        })
    }

    /// Returns the type's name in Python.
    pub fn name(&self) -> String {
        match self {
            Self::Bytes => "bytes".into(),
            Self::Text => "str".into(),
            Self::Int(64, true) => "int".into(),
            Self::Int(bits, has_sign) => format!("{}{bits}", if *has_sign { "i" } else { "u" }),
            Self::Float => "float".into(),
            Self::Bool => "bool".into(),
            Self::Date => "date".into(),
            Self::Datetime => "datetime".into(),
            Self::Timestamp => "timestamp".into(),
            Self::Uuid => "UUID".into(),
            Self::Json => "json".into(),
            Self::Optional(inside) => format!("Optional[{}]", inside.name()),
            Self::List(inside) => format!("list[{}]", inside.name()),
            Self::Tuple(parts) => {
                format!("tuple[{}]", parts.iter().map(Self::name).collect::<Vec<_>>().join(", "))
            }
            Self::Dataclass(class) => class.name.clone(),
            Self::Enum(class) => class.name.clone(),
        }
    }

    /// Checks that keys can be of this kind.
    ///
    /// # Errors
    /// Returns a `UsageError` for kinds without an order of their own.
    pub fn check_key(&self) -> PyResult<()> {
        let refused = |why: &str| Err(usage(&format!("keys cannot be {}: {why}", self.name())));
        match self {
            Self::Json => refused("JSON has no order; choose bytes, str, int or a tuple"),
            Self::List(_) => refused("choose a tuple"),
            Self::Dataclass(_) => refused("choose a tuple of its fields"),
            Self::Enum(_) => refused("choose the type of its members' values"),
            Self::Optional(inside) => inside.check_key(),
            Self::Tuple(parts) => parts.iter().try_for_each(Self::check_key),
            _ => Ok(()),
        }
    }

    /// Returns the stored form of a key. Keys that are equal in Python have the same stored form.
    ///
    /// # Errors
    /// Returns a `ValueError` for a NaN, which has no place in an order, and the errors of [`dynamic`](Self::dynamic).
    pub fn key(&self, from: &Bound<'_, PyAny>) -> PyResult<Dynamic> {
        fn normal(key: Dynamic) -> PyResult<Dynamic> {
            Ok(match key {
                Dynamic::Float(number) if number.is_nan() => {
                    return Err(PyValueError::new_err("a key cannot be nan, which has no place in an order"));
                }
                // -0.0 equals 0.0.
                Dynamic::Float(number) => Dynamic::Float(number + 0.0),
                Dynamic::List(parts) => {
                    Dynamic::List(parts.into_iter().map(normal).collect::<PyResult<_>>()?)
                }
                Dynamic::Optional(Some(inside)) => Dynamic::Optional(Some(Box::new(normal(*inside)?))),
                other => other,
            })
        }
        normal(self.dynamic(from)?)
    }

    /// Returns the stored form of a value.
    ///
    /// # Errors
    /// Returns a `TypeError` if the value is of another type, and an `OverflowError` if it has too many bits.
    pub fn dynamic(&self, from: &Bound<'_, PyAny>) -> PyResult<Dynamic> {
        let py = from.py();
        let wrong = |expected: &str| {
            let found = from.get_type().name().map_or_else(|_| "?".to_owned(), |name| name.to_string());
            PyTypeError::new_err(format!("expected {expected}, found {found}"))
        };
        Ok(match self {
            Self::Bytes => Dynamic::Bytes(bytes(from).ok_or_else(|| wrong("bytes"))?),
            Self::Text => Dynamic::Text(text(from)?.ok_or_else(|| wrong("str"))?),
            Self::Int(bits, has_sign) => {
                let beyond = || {
                    let expected = match (bits, has_sign) {
                        (bits, true) => format!("an int of {bits} bits"),
                        (bits, false) => format!("an int from 0, of {bits} bits"),
                    };
                    PyOverflowError::new_err(format!("expected {expected}, found {}", short(from)))
                };
                let failed = |error: PyErr| match error.is_instance_of::<PyOverflowError>(py) {
                    true => beyond(),
                    false => wrong("int"),
                };
                if *has_sign {
                    let number: i64 = from.extract().map_err(failed)?;
                    let is_inside = *bits == 64 || (number >> (bits - 1) == 0 || number >> (bits - 1) == -1);
                    is_inside.then_some(Dynamic::Signed(number.into())).ok_or_else(beyond)?
                } else {
                    let number: u64 = from.extract().map_err(failed)?;
                    let is_inside = *bits == 64 || number >> bits == 0;
                    is_inside.then_some(Dynamic::Unsigned(number.into())).ok_or_else(beyond)?
                }
            }
            Self::Float => {
                let number: f64 = from.extract().map_err(|error: PyErr| {
                    if error.is_instance_of::<PyOverflowError>(py) { error } else { wrong("float") }
                })?;
                Dynamic::Float(number)
            }
            Self::Bool => Dynamic::Bool(from.extract().map_err(|_| wrong("bool"))?),
            Self::Date => {
                if !from.is_instance(datetime(py, "date")?)? || from.is_instance(datetime(py, "datetime")?)? {
                    return Err(wrong("date"));
                }
                Dynamic::Text(from.call_method0("isoformat")?.extract()?)
            }
            Self::Datetime | Self::Timestamp => {
                if !from.is_instance(datetime(py, "datetime")?)? {
                    return Err(wrong("datetime"));
                }
                let is_naive = from.call_method0("utcoffset")?.is_none();
                match (self, is_naive) {
                    (Self::Datetime, false) => {
                        return Err(PyTypeError::new_err(
                            "expected a datetime without a time zone, found one with a time zone: a table of \"timestamp\" has these",
                        ));
                    }
                    (Self::Timestamp, true) => {
                        return Err(PyTypeError::new_err(
                            "expected a datetime with a time zone, found one without: a table of datetime has these",
                        ));
                    }
                    (Self::Datetime, true) => Dynamic::Text(from.call_method0("isoformat")?.extract()?),
                    _ => {
                        let utc = datetime(py, "timezone")?.getattr("utc")?;
                        let moment = from.call_method1("astimezone", (utc,))?;
                        let keywords = PyDict::new(py);
                        keywords.set_item("tzinfo", py.None())?;
                        let moment = moment.call_method("replace", (), Some(&keywords))?;
                        let text: String = moment.call_method0("isoformat")?.extract()?;
                        Dynamic::Text(text + "Z")
                    }
                }
            }
            Self::Uuid => match from.is_instance(uuid(py)?)? {
                true => Dynamic::Text(from.str()?.extract()?),
                false => return Err(wrong("UUID")),
            },
            Self::Json => {
                let keywords = PyDict::new(py);
                keywords.set_item("ensure_ascii", false)?;
                keywords.set_item("separators", (",", ":"))?;
                let json = py.import("json")?.call_method("dumps", (from,), Some(&keywords))?;
                Dynamic::Text(text(&json)?.unwrap_or_default())
            }
            Self::Optional(_) if from.is_none() => Dynamic::Optional(None),
            Self::Optional(inside) => Dynamic::Optional(Some(Box::new(inside.dynamic(from)?))),
            Self::List(inside) => {
                let parts = from.cast::<PyList>().map_err(|_| wrong("list"))?;
                Dynamic::List(parts.iter().map(|part| inside.dynamic(&part)).collect::<PyResult<_>>()?)
            }
            Self::Tuple(kinds) => {
                let parts = from.cast::<PyTuple>().map_err(|_| wrong(&self.name()))?;
                if parts.len() != kinds.len() {
                    let text = format!("expected {}, found a tuple of {}", self.name(), parts.len());
                    return Err(PyTypeError::new_err(text));
                }
                let parts = kinds.iter().zip(parts.iter()).map(|(kind, part)| kind.dynamic(&part));
                Dynamic::List(parts.collect::<PyResult<_>>()?)
            }
            Self::Dataclass(class) => {
                if !from.get_type().is(&class.class) {
                    return Err(wrong(&class.name));
                }
                let fields = class.fields.iter().map(|Field { name, kind, .. }| {
                    let value = kind.dynamic(&from.getattr(name.as_str())?);
                    let value = value.map_err(|error| in_field(py, error, &class.name, name))?;
                    Ok((name.clone(), value))
                });
                match fields.collect::<PyResult<Vec<_>>>()? {
                    fields if fields.is_empty() => Dynamic::Unit,
                    fields => Dynamic::Record(fields),
                }
            }
            Self::Enum(class) => {
                if !from.is_instance(class.class.bind(py))? {
                    return Err(wrong(&class.name));
                }
                Dynamic::Variant(from.getattr("name")?.extract()?, Box::new(Dynamic::Unit))
            }
        })
    }

    /// Returns the Python object for a stored value.
    ///
    /// # Errors
    /// Returns a `DatabaseError` if Python has no such object, for example a date in the year 10000.
    pub fn object<'py>(&self, py: Python<'py>, stored: Dynamic) -> PyResult<Bound<'py, PyAny>> {
        let from_iso = |class: &str, text: String| {
            let none = |_| {
                raised(
                    "DatabaseError",
                    format!("Python cannot represent the stored value as {class}: {text}"),
                )
            };
            datetime(py, class)?.call_method1("fromisoformat", (text.as_str(),)).map_err(none)
        };
        Ok(match (self, stored) {
            (Self::Json, Dynamic::Text(text)) => py.import("json")?.call_method1("loads", (text,))?,
            (Self::Date, Dynamic::Text(text)) => from_iso("date", text)?,
            (Self::Datetime | Self::Timestamp, Dynamic::Text(text)) => from_iso("datetime", text)?,
            (Self::Uuid, Dynamic::Text(text)) => uuid(py)?.call1((text,))?,
            (_, Dynamic::Bytes(bytes)) => PyBytes::new(py, &bytes).into_any(),
            (_, Dynamic::Text(text)) => PyString::new(py, &text).into_any(),
            (_, Dynamic::Signed(number)) => (number as i64).into_pyobject(py)?.into_any(),
            (_, Dynamic::Unsigned(number)) => (number as u64).into_pyobject(py)?.into_any(),
            (_, Dynamic::Float(number)) => PyFloat::new(py, number).into_any(),
            (_, Dynamic::Bool(truth)) => PyBool::new(py, truth).to_owned().into_any(),
            (Self::Optional(_), Dynamic::Optional(None)) => py.None().into_bound(py),
            (Self::Optional(inside), Dynamic::Optional(Some(value))) => inside.object(py, *value)?,
            (Self::List(inside), Dynamic::List(list)) => {
                let list = list.into_iter().map(|part| inside.object(py, part));
                PyList::new(py, list.collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
            (Self::Tuple(kinds), Dynamic::List(list)) => {
                let parts = kinds.iter().zip(list).map(|(kind, part)| kind.object(py, part));
                PyTuple::new(py, parts.collect::<PyResult<Vec<_>>>()?)?.into_any()
            }
            (Self::Dataclass(class), Dynamic::Record(fields)) => {
                let arguments = PyDict::new(py);
                for (Field { name, kind, .. }, (_, value)) in class.fields.iter().zip(fields) {
                    arguments.set_item(name, kind.object(py, value)?)?;
                }
                class.class.bind(py).call((), Some(&arguments))?
            }
            (Self::Dataclass(class), Dynamic::Unit) => class.class.bind(py).call0()?,
            (Self::Enum(class), Dynamic::Variant(name, _)) => class.class.bind(py).get_item(name)?,
            (kind, _) => {
                let text = format!("Python cannot represent the stored value as {}", kind.name());
                return Err(raised("DatabaseError", text));
            }
        })
    }
}

/// Adds the name of the field to an error about its value.
fn in_field(py: Python<'_>, error: PyErr, class: &str, field: &str) -> PyErr {
    let text = format!("{class}.{field}: {}", error.value(py));
    if error.is_instance_of::<PyTypeError>(py) {
        PyTypeError::new_err(text)
    } else if error.is_instance_of::<PyOverflowError>(py) {
        PyOverflowError::new_err(text)
    } else {
        error
    }
}

/// Returns the text of a `str`, or `None` for other objects.
///
/// # Errors
/// Returns a `ValueError` if the text has half of a surrogate pair, which cannot be encoded.
fn text(from: &Bound<'_, PyAny>) -> PyResult<Option<String>> {
    let Ok(text) = from.cast::<PyString>() else { return Ok(None) };
    text.to_cow().map(|text| Some(text.into_owned())).map_err(|_| {
        PyValueError::new_err("a str with half of a surrogate pair cannot be stored: it is no Unicode text")
    })
}

/// Returns the bytes of a `bytes`, a `bytearray` or a memory view, or `None` for other objects.
fn bytes(from: &Bound<'_, PyAny>) -> Option<Vec<u8>> {
    if let Ok(bytes) = from.cast::<PyBytes>() {
        return Some(bytes.as_bytes().to_vec());
    }
    if from.is_instance_of::<PyList>() || from.is_instance_of::<PyTuple>() {
        return None;
    }
    pyo3::buffer::PyBuffer::<u8>::get(from).ok()?.to_vec(from.py()).ok()
}

/// Returns an object as error messages show it.
fn short(of: &Bound<'_, PyAny>) -> String {
    let mut shown = of.repr().map_or_else(|_| "?".to_owned(), |shown| shown.to_string());
    if shown.chars().count() > 60 {
        shown = shown.chars().take(57).collect::<String>() + "...";
    }
    shown
}

/// Returns a class of the module `datetime`.
fn datetime<'py>(py: Python<'py>, class: &str) -> PyResult<&'py Bound<'py, PyAny>> {
    static CLASSES: [PyOnceLock<Py<PyAny>>; 3] = [const { PyOnceLock::new() }; 3];
    let at = ["date", "datetime", "timezone"].iter().position(|name| *name == class).unwrap_or(0);
    let class = || py.import("datetime")?.getattr(class).map(Bound::unbind);
    CLASSES[at].get_or_try_init(py, class).map(|class| class.bind(py))
}

fn uuid<'py>(py: Python<'py>) -> PyResult<&'py Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    CLASS
        .get_or_try_init(py, || py.import("uuid")?.getattr("UUID").map(Bound::unbind))
        .map(|class| class.bind(py))
}
