//! The exceptions of `strandline._errors`, with the command's messages.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use strandline::{Error, ErrorKind};
use strandline_lab_cli::Failure;

/// Returns an exception of this class.
pub fn raised(class: &'static str, message: String) -> PyErr {
    Python::attach(|py| {
        let module = py.import("strandline._errors").and_then(|module| module.getattr(class));
        match module.and_then(|class| class.call1((message.clone(),))) {
            Ok(exception) => PyErr::from_value(exception),
            Err(_) => PyRuntimeError::new_err(message),
        }
    })
}

/// Returns the exception for a failure of the command. Its class follows from the exit code: wrong usage, damage, or something else.
pub fn failed(failure: Failure) -> PyErr {
    let class = match failure.exit_code() {
        1 => "DamagedError",
        2 => "UsageError",
        _ => "Error",
    };
    raised(class, failure.to_string())
}

/// Returns the exception for an error of the database.
pub fn of_database(error: Error) -> PyErr {
    match error.kind() {
        ErrorKind::Parameter => raised("UsageError", message(&error)),
        kind => database_error(kind, message(&error)),
    }
}

/// Returns a `DatabaseError` of the kind `kind`.
pub fn database_error(kind: ErrorKind, message: String) -> PyErr {
    let error = raised("DatabaseError", message);
    Python::attach(|py| match error.value(py).setattr("kind", kind_name(kind)) {
        Ok(()) => error,
        Err(other) => other,
    })
}

/// Returns the name of a kind in Python: `"wrong-layout"` for `WrongLayout`.
fn kind_name(kind: ErrorKind) -> String {
    let mut name = String::new();
    for letter in format!("{kind:?}").chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.push(letter.to_ascii_lowercase());
    }
    name
}

fn message(error: &Error) -> String {
    match error {
        Error::TableTypes { table, differences } => format!(
            "the table `{table}` holds other types than it is opened with:{}\nopen it with the types that it has, or use another name",
            python_types(differences)
        ),
        Error::SnapshotEnded { bytes, .. } => format!(
            "the snapshot was ended: what transactions have changed since it began takes more than {bytes} bytes; begin another, or open \
             the database with more memory"
        ),
        Error::Nested | Error::Deadlock { .. } => {
            "a transaction of this thread is under way: use its tables, tx[table], or end it first".into()
        }
        Error::ReadOnly => {
            "a snapshot, and a database that was opened with read_only, cannot be written".into()
        }
        Error::Parameter(text) => python_types(text),
        other => format!("{other:#}"),
    }
}

/// The names of types in the file, and in Python.
const NAMES: [(&str, &str); 6] = [
    ("Vec<u8>", "bytes"),
    ("String", "str"),
    ("i64", "int"),
    ("f64", "float"),
    ("uuid", "UUID"),
    ("()", "None"),
];

/// Returns the Python name of a type in the file.
pub fn python_type(name: &str) -> String {
    if let Some((_, python)) = NAMES.iter().find(|(stored, _)| *stored == name) {
        return (*python).to_owned();
    }
    let inside = |begin: &str, end: &str| name.strip_prefix(begin)?.strip_suffix(end);
    let (class, inside) = if let Some(inside) = inside("Option<", ">") {
        ("Optional", inside)
    } else if let Some(inside) = inside("Vec<", ">") {
        ("list", inside)
    } else if let Some(inside) = inside("(", ")") {
        ("tuple", inside)
    } else {
        return name.to_owned();
    };
    // Only the commas between the parts count, not those inside a part.
    let (mut parts, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, letter) in inside.char_indices() {
        match letter {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(&inside[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&inside[from..]);
    let parts = parts.iter().map(|part| part.trim()).filter(|part| !part.is_empty()).map(python_type);
    format!("{class}[{}]", parts.collect::<Vec<_>>().join(", "))
}

/// Replaces the types in a message by their Python names. A type follows `: `, `type ` or `be `.
fn python_types(text: &str) -> String {
    let mut named = String::new();
    let mut rest = text;
    let begins = [": ", "type ", " be "];
    while let Some(begin) = begins.iter().filter_map(|begin| Some(rest.find(begin)? + begin.len())).min() {
        named += &rest[..begin];
        rest = &rest[begin..];
        // A type ends at a space, a line break or a colon outside of its brackets.
        let (mut depth, mut end) = (0, rest.len());
        for (at, letter) in rest.char_indices() {
            match letter {
                '<' | '(' | '[' => depth += 1,
                '>' | ')' | ']' => depth -= 1,
                ' ' | '\n' | ':' | ';' if depth == 0 => {
                    end = at;
                    break;
                }
                _ => {}
            }
        }
        named += &python_type(&rest[..end]);
        rest = &rest[end..];
    }
    named + rest
}
